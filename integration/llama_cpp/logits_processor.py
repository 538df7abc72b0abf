"""A grammar as a logits processor of llama-cpp-python.

    processor = GrammarLogitsProcessor(compiler.json_schema(schema))
    llm.create_completion(prompt, logits_processor=LogitsProcessorList([processor]))

The compiler's vocabulary is that of the model: `llama_vocabulary(llm)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...pda import engine
from ...pda.exceptions import GrammarError
from ...pda.matcher import allocate_token_bitmask
from ..compiler import CompiledGrammar
from ..follower import Follower
from ..tokenizers import Vocabulary
from .library import Library
from .tokenizer import read_vocabulary

NEGATIVE_INFINITY = 0xFF800000  # the bits of it as float32


def llama_vocabulary(llm: Any) -> Vocabulary:
    """The vocabulary of a `llama_cpp.Llama`."""
    return read_vocabulary(Library.open(), llm.model)


class GrammarLogitsProcessor:
    """Keeps what one call of `create_completion` produces inside a grammar; the prompt ends where the ids of the first call end.

    Ids may get shorter, as they do when a draft model's guesses are refused.
    """

    def __init__(self, grammar: CompiledGrammar, *, prompt_length: int | None = None) -> None:
        self._grammar = grammar
        self._given_length = prompt_length
        self._bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
        self.reset()

    def reset(self) -> None:
        """Make ready for another call."""
        self._begin = self._given_length
        self._follower = Follower(self._grammar.matcher())

    def __call__(self, input_ids: npt.NDArray[np.intc], scores: npt.NDArray[np.single]) -> npt.NDArray[np.single]:
        """The scores, of shape (vocabulary,), with those of forbidden tokens at minus infinity, in place.

        GrammarError where the ids are none that the grammar generates, or no token can follow them.
        """
        if scores.shape != (self._grammar.vocabulary.size,):
            raise ValueError(f"the scores have the shape {scores.shape}, the vocabulary has {self._grammar.vocabulary.size} ids")
        if self._begin is None:
            self._begin = len(input_ids)
        self._follower.follow(input_ids[self._begin :].tolist())
        matcher = self._follower.matcher
        if not self._follower.fits:
            place = self._begin + len(self._follower.tokens)
            raise GrammarError(f"token {place} is refused by the grammar: {matcher.explain(int(input_ids[place]))}")
        matcher.fill_next_token_bitmask(self._bitmask)
        if not self._bitmask.any():
            raise GrammarError(f"no token of the vocabulary begins with one of the bytes {matcher.next_bytes()[:8]!r}, which must follow")
        engine.mask_logits(scores[None].view(np.int32), self._bitmask, NEGATIVE_INFINITY, None)
        return scores
