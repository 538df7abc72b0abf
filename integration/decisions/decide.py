"""Questions with few answers, and the probability of each answer.

    choices     one of several texts
    predicate   whether a statement is true: yes or no
    score       one of several levels, low to high, and their mean

A `Decider` keeps the vocabulary, the compiled grammars and the keys and values of the last prompt, so that a question about the same text
costs only its new part.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ..compiler import CompiledGrammar, Compiler
from ..tokenizers import model_vocabulary
from ..tokenizers.prompts import Prompt, PromptError, encode_prompt
from .distribution import Distribution, walk
from .tree import Canonical, Spellings, texts_of

if TYPE_CHECKING:
    from .scorer import BatchScorer, TreeScorer

Tokenizations = Literal["all", "canonical"]

YES, NO = "yes", "no"
STATEMENT: Final = f"Is this true of it? {{statement}}\nAnswer {YES} or {NO}."
MAX_PLACES: Final = 20_000


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of a model that must choose one of the choices.

    `probabilities` has the choices in their order, and sums to 1. `mass` is the probability that the unconstrained model writes
    one of the choices as its whole answer: if it is small, the prompt does not ask for them. `unexplored` bounds the missing part of it.
    `probability` belongs to a predicate; `score` is the mean of a score's levels, counted from 0. Both are None otherwise.
    """

    probabilities: dict[str, float]
    mass: float
    unexplored: float
    probability: float | None = None
    score: float | None = None
    distribution: Distribution = field(repr=False, kw_only=True)

    @property
    def best(self) -> str:
        """The most probable choice; the first of equals."""
        return max(self.probabilities, key=self.probabilities.__getitem__)

    @property
    def confidence(self) -> float:
        """The distance of the most probable choice from an even distribution: 0 if all are equal, 1 if one is certain."""
        even = 1 / len(self.probabilities)
        return 1.0 if even == 1 else min(1.0, max(0.0, (max(self.probabilities.values()) - even) / (1 - even)))


class Decider:
    """A model with its tokenizer that answers questions, one at a time; threads wait for each other."""

    def __init__(self, model: Any, tokenizer: Any, *, compiler: Compiler | None = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        config = model.config.get_text_config()
        self.context: int | None = getattr(config, "max_position_embeddings", None)
        self.compiler = compiler or Compiler(model_vocabulary(tokenizer, config.vocab_size))
        self._scorer: TreeScorer | BatchScorer | None = None
        self._lock = threading.Lock()

    def distribution(
        self,
        prompt: Prompt,
        grammar: CompiledGrammar,
        *,
        temperature: float = 1.0,
        tokenizations: Tokenizations = "all",
        tolerance: float = 0.0,
        max_places: int = MAX_PLACES,
    ) -> Distribution:
        """The model's distribution over the texts of a grammar; LimitError if there are too many."""
        import torch

        from .scorer import make_scorer

        if not (math.isfinite(temperature) and temperature > 0):
            raise ValueError(f"temperature is {temperature}; it divides the logits, so it must be above 0")
        if not 0 <= tolerance < 1:
            raise ValueError(f"tolerance is {tolerance}, which is not a share of the mass: it must be at least 0 and below 1")
        if tokenizations not in ("all", "canonical"):
            raise ValueError(f'tokenizations is {tokenizations!r}; available: "all" and "canonical"')
        ids = encode_prompt(self.tokenizer, prompt)
        room = None if self.context is None else self.context - len(ids)
        if room is not None and room < 1:
            raise PromptError(f"the prompt has {len(ids)} tokens, and the model's context {self.context}")
        vocabulary = grammar.vocabulary
        if tokenizations == "all":
            tree: Spellings | Canonical = Spellings(grammar)
        else:
            tree = Canonical(texts_of(grammar, max_places), self._encode, grammar)
        with self._lock, torch.inference_mode():
            if self._scorer is None:
                self._scorer = make_scorer(self.model, vocabulary.size)
            return walk(
                self._scorer,
                tree,
                vocabulary,
                ids,
                temperature=temperature,
                tolerance=tolerance,
                max_places=max_places,
                max_tokens=room,
            )

    def decide(
        self,
        prompt: Prompt,
        choices: Sequence[str] | None = None,
        *,
        predicate: str | None = None,
        score: Sequence[str] | None = None,
        temperature: float = 1.0,
        tokenizations: Tokenizations = "all",
        tolerance: float = 0.0,
        max_places: int = MAX_PLACES,
    ) -> Decision:
        """The probabilities of the answers to one question; `decide` describes the options."""
        given = [name for name, value in (("choices", choices), ("predicate", predicate), ("score", score)) if value is not None]
        if len(given) != 1:
            raise ValueError(f"a decision is about choices, a predicate or a score, one of them; this has {' and '.join(given) or 'none'}")
        texts = [YES, NO] if predicate is not None else list(choices or score or ())
        if len(texts) < 2 or len(set(texts)) < len(texts) or not all(texts):
            raise ValueError("there are at least two choices, all of them different and none empty")
        asked = prompt if predicate is None else ask(prompt, STATEMENT.format(statement=predicate))
        found = self.distribution(
            asked,
            self.compiler.choice(texts),
            temperature=temperature,
            tokenizations=tokenizations,
            tolerance=tolerance,
            max_places=max_places,
        )
        return conclude(found, texts, given[0])

    def sample(self, found: Distribution, *, seed: int | None = None, n: int = 1) -> list[str]:
        """Draw texts independently from a distribution."""
        generator = random.Random(seed)
        vocabulary = self.compiler.vocabulary
        drawn = (found.sample(generator).tokens for _ in range(n))
        return [b"".join(vocabulary.token_bytes(token) or b"" for token in tokens).decode("utf-8", "replace") for tokens in drawn]

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


def decide(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    choices: Sequence[str] | None = None,
    *,
    predicate: str | None = None,
    score: Sequence[str] | None = None,
    compiler: Compiler | None = None,
    temperature: float = 1.0,
    tokenizations: Tokenizations = "all",
    tolerance: float = 0.0,
    max_places: int = MAX_PLACES,
) -> Decision:
    """The probabilities of the answers to a question: `decide(model, tokenizer, "Blue sky? Answer yes or no.", ["yes", "no"])`.

    Pass exactly one of three. `choices`: the answer is one of these texts. `predicate`: a statement about the prompt, appended to
    it as a question and answered by yes or no. `score`: levels, low to high; the prompt asks for one, as with choices.
    The probability of a choice is the probability of its whole text followed by the end of the answer, summed over all ways to cut the text
    into tokens (`tokenizations="all"`) or for the tokenizer's own way only ("canonical"), and normalized among the choices.
    `temperature` divides the logits; fitted on labelled questions, it calibrates an overconfident model.
    `tolerance`: leave out tokenizations that hold at most this share of the probability. Long texts need it.
    Raises LimitError if more than `max_places` nodes of the token tree would have to be evaluated.
    To ask often, make a `Decider` once: it keeps the vocabulary, the grammars, and the keys and values of the last prompt.
    """
    return Decider(model, tokenizer, compiler=compiler).decide(
        prompt,
        choices,
        predicate=predicate,
        score=score,
        temperature=temperature,
        tokenizations=tokenizations,
        tolerance=tolerance,
        max_places=max_places,
    )


def conclude(found: Distribution, texts: Sequence[str], kind: str) -> Decision:
    """The decision of a kind, "choices", "predicate" or "score", about texts whose distribution this is."""
    among = found.probabilities
    probabilities = {text: among.get(text.encode(), 0.0) for text in texts}
    return Decision(
        probabilities,
        found.mass,
        found.unexplored,
        probabilities[YES] if kind == "predicate" else None,
        math.fsum(place * probabilities[text] for place, text in enumerate(texts)) if kind == "score" else None,
        distribution=found,
    )


def ask(prompt: Prompt, question: str) -> Prompt:
    """The prompt with a question appended, in the user's last message if there is one."""
    if isinstance(prompt, str):
        return f"{prompt}\n\n{question}"
    messages = [message for message in prompt if isinstance(message, Mapping)]
    if not messages or len(messages) < len(prompt):
        raise PromptError("a predicate needs a text or the messages of a chat before it, not token ids")
    if messages[-1].get("role") == "user" and isinstance(messages[-1].get("content"), str):
        return [*messages[:-1], {**messages[-1], "content": f"{messages[-1]['content']}\n\n{question}"}]
    return [*messages, {"role": "user", "content": question}]
