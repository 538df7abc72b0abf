"""The options of `generate` and its variants: names, types, and errors that suggest the right option for a wrong one.

Other libraries use other names for the same options. So an unknown name is looked up first in a table of their names and then among
similar names.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from ..compiler import CompiledGrammar

if TYPE_CHECKING:
    from ...pda.grammar import Grammar
    from ...schema.emit.json_parts import Whitespace
    from ..engine import Sampling


class TextConstraint(TypedDict, total=False):
    """Constraints whose answer is a text, and their options. Each has the value that the compiler's method of that name takes."""

    regex: str
    ebnf: str
    lark: str
    choice: Sequence[str]
    structural_tag: Mapping[str, Any] | str
    root: str
    start: str
    grammars: Mapping[str, str | Mapping[str, Any] | bool | type | Grammar]


class JsonFormat(TypedDict, total=False):
    """Options of `json_schema`, which `Compiler.json_schema` describes; `whitespace`, `escapes` and `distinct_keys` are also `json`'s."""

    whitespace: Whitespace
    property_order: Literal["schema", "any"]
    documents: Mapping[str, Mapping[str, Any] | bool]
    lenient: bool
    format: Literal["enforce", "annotate"]
    escapes: Literal["needed", "any"]
    extra_properties: Literal["schema", "closed"]
    strict_keywords: bool
    distinct_keys: bool


class ConstraintOptions(TextConstraint, JsonFormat, total=False):
    """The constraint on the text: at most one, and its options."""

    json_schema: Any
    json: bool
    grammar: CompiledGrammar


class SamplingOptions(TypedDict, total=False):
    """The choice among the tokens that the constraint allows, and the conditions that end an answer.

    `max_tokens`: the budget of an answer, 1024 by default; the model's context may leave less.
    `temperature`: 0, the default, takes the most likely token. `top_k` (0: all), `top_p` and `min_p` leave only likely tokens.
    `presence_penalty`, `frequency_penalty`: subtracted from the logit of a token of the answer, once and for each time that it occurs.
    `repetition_penalty`: divides the positive and multiplies the negative logits of tokens of prompt and answer (Keskar et al. 2019, CTRL).
    `logit_bias`: added to the logits of tokens, by their ids, -100 to 100. It allows nothing that the constraint forbids.
    `seed`: the same seed gives the same answer; answer i of a call has the seed `seed` + i.
    `stop`: a text or several that end the answer and are not part of it.
    `n`: the number of answers to each prompt.
    `finish_within_budget`: near the end of the budget, allow only tokens after which the answer can still be completed, and refuse a budget
    that cannot hold the shortest answer. It is off by default; then the budget simply cuts the answer.
    `logprobs`: the answer has the log-probability of each of its tokens, which a notebook shows in colours.
    `faithful`: draw answers from the model's own distribution over the texts that the constraint allows, which masks distort; at
    temperature 0 take the most probable text. It needs a constraint with few texts, and supports only `temperature`, `seed` and `n`.
    """

    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    logit_bias: Mapping[int, float]
    seed: int | None
    stop: str | Sequence[str]
    n: int
    finish_within_budget: bool
    logprobs: bool
    faithful: bool


class TextOptions(TextConstraint, SamplingOptions, total=False):
    """Options of calls whose answer is a text."""


class JsonOptions(JsonFormat, SamplingOptions, total=False):
    """Options of calls that name a type as the schema."""


class GenerateOptions(ConstraintOptions, SamplingOptions, total=False):
    """All options."""


KINDS: Final = ("json_schema", "json", "regex", "ebnf", "lark", "choice", "structural_tag", "grammar")
CONSTRAINT_NAMES: Final = frozenset(ConstraintOptions.__annotations__)
SAMPLING_NAMES: Final = frozenset(SamplingOptions.__annotations__)
OPTIONS_OF: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "json_schema": frozenset(JsonFormat.__annotations__),
        "json": frozenset({"whitespace", "escapes", "distinct_keys"}),
        "ebnf": frozenset({"root"}),
        "lark": frozenset({"start", "grammars"}),
    }
)
OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "max_new_tokens": "max_tokens",
        "max_completion_tokens": "max_tokens",
        "max_output_tokens": "max_tokens",
        "max_length": "max_tokens",
        "n_predict": "max_tokens",
        "num_predict": "max_tokens",
        "schema": "json_schema",
        "guided_json": "json_schema",
        "response_format": "json_schema",
        "response_model": "json_schema",
        "response_schema": "json_schema",
        "output_type": "json_schema",
        "text_format": "json_schema",
        "json_object": "json",
        "guided_regex": "regex",
        "pattern": "regex",
        "guided_choice": "choice",
        "options": "choice",
        "enum": "choice",
        "guided_grammar": "ebnf",
        "gbnf": "ebnf",
        "structural_tags": "structural_tag",
        "whitespace_pattern": "whitespace",
        "guided_whitespace_pattern": "whitespace",
        "do_sample": "temperature",
        "typical_p": "top_p",
        "repeat_penalty": "repetition_penalty",
        "random_seed": "seed",
        "num_return_sequences": "n",
        "best_of": "n",
        "num": "n",
        "stop_strings": "stop",
        "stop_sequences": "stop",
        "messages": "prompt",
        "inputs": "prompt",
    }
)
"""The names of the options in other libraries."""


def check_names(names: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise TypeError for an unknown option and suggest the right one; `others` are further arguments of the call."""
    known = sorted(CONSTRAINT_NAMES | SAMPLING_NAMES | {*others})
    for name in names:
        if name not in known:
            right = OTHER_NAMES.get(name) or next(iter(difflib.get_close_matches(name, known, 1)), None)
            hint = f"did you mean {right}?" if right else f"available: {', '.join(known)}"
            raise TypeError(f"{name!r} is not an option; {hint}")


def check_constraint(constraint: Mapping[str, Any]) -> str | None:
    """The kind of the constraint, None without one; ValueError for two constraints and for options of another kind."""
    kinds = [kind for kind in KINDS if constraint.get(kind) is not None and (kind != "json" or constraint["json"])]
    options = [name for name in constraint if name not in KINDS]
    if len(kinds) > 1:
        raise ValueError(f"one constraint at a time, not {' and '.join(kinds)}")
    if options and (not kinds or kinds == ["grammar"]):
        raise ValueError(f"{', '.join(options)}: options without a constraint")
    for kind in kinds:
        own = OPTIONS_OF.get(kind, frozenset())
        for name in options:
            if name not in own:
                takers = " and ".join(taker for taker, names in OPTIONS_OF.items() if name in names) or "generate"
                raise ValueError(f"{name} is an option of {takers}, not of {kind}")
    return kinds[0] if kinds else None


def sampling_of(options: Mapping[str, Any]) -> Sampling:
    """The engine's sampling options; ValueError if one is out of range."""
    from ..engine import Sampling

    names = Sampling.__dataclass_fields__
    return Sampling(**{"temperature": 0.0, **{name: value for name, value in options.items() if name in names}})


def stop_texts(stop: str | Sequence[str]) -> tuple[str, ...]:
    """The texts that end an answer."""
    texts = (stop,) if isinstance(stop, str) or not isinstance(stop, Iterable) else tuple(stop)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"stop must be a text or several texts, not {stop!r}")
    return texts
