"""A case of the fuzzer: a specification, a vocabulary, how the kernel is to find masks, and a program of calls."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from stackmask.pda.choice import choice_grammar
from stackmask.pda.ebnf import UnusedRuleWarning, ebnf_grammar
from stackmask.pda.grammar import Grammar
from stackmask.pda.lark import lark_grammar
from stackmask.pda.limits import Limits
from stackmask.pda.regex import regex_grammar
from stackmask.schema.compile import json_schema_grammar
from stackmask.schema.structural_tag import structural_tag_grammar

Operation = tuple[Any, ...]
"""The name of a call, the number of its matcher and its arguments; `session.OPERATIONS` has them."""

LIMITS: Final = Limits(rules=5_000, states=20_000, compile_seconds=20)
SPECIAL: Final[Mapping[str, int]] = MappingProxyType({f"<s{i}>": 300 + i for i in range(6)})
"""Tokens that specifications name, where a vocabulary has room for them."""


def _json_schema(specification: Any, options: Mapping[str, Any], special: Mapping[str, int]) -> Grammar:
    return json_schema_grammar(specification, limits=LIMITS, **options)[0]


COMPILERS: Final[Mapping[str, Callable[[Any, Mapping[str, Any], Mapping[str, int]], Grammar]]] = {
    "grammar": lambda specification, options, special: specification,
    "regex": lambda specification, options, special: regex_grammar(specification, limits=LIMITS),
    "json_schema": _json_schema,
    "ebnf": lambda specification, options, special: ebnf_grammar(specification, special=special, limits=LIMITS),
    "lark": lambda specification, options, special: lark_grammar(specification, special=special, limits=LIMITS),
    "choice": lambda specification, options, special: choice_grammar(specification, limits=LIMITS),
    "structural_tag": lambda specification, options, special: structural_tag_grammar(specification, special=special, limits=LIMITS),
}
"""The front ends: a specification, its options and the special tokens that it can name -> a grammar."""

_SOURCES: Final = {
    "grammar": ("from stackmask.pda.grammar import Grammar", "{0!r}"),
    "regex": ("from stackmask.pda.regex import regex_grammar", "regex_grammar({0!r})"),
    "json_schema": ("from stackmask.schema.compile import json_schema_grammar", "json_schema_grammar({0!r}{1})[0]"),
    "ebnf": ("from stackmask.pda.ebnf import ebnf_grammar", "ebnf_grammar({0!r}, special={2!r})"),
    "lark": ("from stackmask.pda.lark import lark_grammar", "lark_grammar({0!r}, special={2!r})"),
    "choice": ("from stackmask.pda.choice import choice_grammar", "choice_grammar({0!r})"),
    "structural_tag": (
        "from stackmask.schema.structural_tag import structural_tag_grammar",
        "structural_tag_grammar({0!r}, special={2!r})",
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """All that a program runs on, and the program. `thresholds` are those of the kernel that are not as they always are."""

    kind: str
    specification: Any
    tokens: tuple[bytes | None, ...]
    stops: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    thresholds: Mapping[str, int] = field(default_factory=dict)
    set_bytes: int = 64 << 20
    memory: int = 64 << 20
    has_reference: bool = True
    operations: tuple[Operation, ...] = ()

    @property
    def special(self) -> dict[str, int]:
        """The special tokens that the vocabulary has room for."""
        return {name: token for name, token in SPECIAL.items() if token < len(self.tokens)}

    def grammar(self) -> Grammar:
        """The grammar of the specification."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnusedRuleWarning)
            return COMPILERS[self.kind](self.specification, self.options, self.special)

    def script(self) -> str:
        """The case as a script that needs nothing but stackmask."""
        imported, made = _SOURCES[self.kind]
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        lines = [
            "import numpy as np",
            "from stackmask.pda import _kernel, reference",
            imported,
            "",
            f"grammar = {made.format(self.specification, options, self.special)}",
            f"tokens = {_tokens(self.tokens)}",
            f"for engine in ({'_kernel, reference' if self.has_reference else '_kernel,'}):",
            f"    trie = engine.TokenTrie(tokens, len(tokens), set_bytes={self.set_bytes}, thresholds={dict(self.thresholds)!r})",
            f"    limits = dict(states=1_000_000, stack_depth=1_000_000, memory={self.memory}, seconds=30)",
            "    prepared = engine.KernelGrammar(trie, grammar, **limits)",
            f"    at = [engine.Matcher(prepared, {list(self.stops)!r})]",
        ]
        return "\n".join([*lines, *(f"    {_line(operation)}" for operation in self.operations), ""])


def _tokens(tokens: tuple[bytes | None, ...]) -> str:
    """The tokens as source, those without text at the end as a product."""
    texts = list(tokens)
    while texts and texts[-1] is None:
        texts.pop()
    rest = len(tokens) - len(texts)
    return repr(texts) + (f" + [None] * {rest}" if rest else "")


_CALLS: Final = {
    "fork": "at.append({at}.fork())",
    "token": "print({at}.accept_token({0!r}))",
    "bytes": "print({at}.accept_bytes({0!r}))",
    "validate": "print({at}.validate_tokens({0!r}))",
    "rollback": "{at}.rollback(min({0!r}, {at}.num_accepted))",
    "reset": "{at}.reset()",
    "mask": "print({at}.allowed_tokens())",
    "jump": "print({at}.find_jump_forward_bytes())",
    "completion": "print({at}.shortest_completion())",
    "next": "print({at}.next_bytes({0!r}), {at}.matching_prefix({0!r}))",
    "drafts": (
        "rows = np.zeros((len({0!r}) + 1, (len(tokens) + 31) // 32), np.int32);"
        " engine.fill_draft_bitmasks({at}, {0!r}, rows, 0, {1!r}); print(rows)"
    ),
    "take": "print(engine.MatcherRows(at, np.zeros((len(at), (len(tokens) + 31) // 32), np.int32)).take({0!r}))",
}


def _line(operation: Operation) -> str:
    """A call as a line of a script; what only the fuzzer does is a comment."""
    name, matcher, *arguments = operation
    if name not in _CALLS:
        return f"# {json.dumps(operation, default=repr)}"
    return _CALLS[name].format(*arguments, at=f"at[{matcher} % len(at)]")
