"""A grammar as a logits processor of llama-cpp-python.

    processor = GrammarLogitsProcessor(compiler.json_schema(schema))
    llm.create_completion(prompt, logits_processor=LogitsProcessorList([processor]))

The compiler's vocabulary is that of the model: `llama_vocabulary(llm)`.

llama-cpp-python calls a processor from C, once for each token that it chooses. The scores are a column of llama.cpp's candidates, and the
ids hold the guesses of a draft model behind the text, so the place of a call is one behind that of the call before.
An exception in there is printed and forgotten, and generation continues. So an error allows nothing but stop tokens, and is kept (`error`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...pda import engine
from ...pda.exceptions import GrammarError, StackmaskError
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
    """Keeps the output of one call of `create_completion` inside a grammar; the prompt ends where the ids of the first call end.

    `error` is why an answer ended before it was complete; None where there was no error.
    """

    error: StackmaskError | None

    def __init__(self, grammar: CompiledGrammar, *, prompt_length: int | None = None) -> None:
        self._grammar = grammar
        self._given_length = prompt_length
        self._bitmask = allocate_token_bitmask(1, grammar.vocabulary.size)
        self.reset()

    def reset(self) -> None:
        """Make ready for another call."""
        self._begin = self._given_length
        self._end: int | None = None  # of the text that the last call continued
        self.error = None
        self._follower = Follower(self._grammar.matcher())

    def __call__(self, input_ids: npt.NDArray[np.intc], scores: npt.NDArray[np.single]) -> npt.NDArray[np.single]:
        """The scores, of shape (vocabulary,), with those of forbidden tokens at minus infinity, in place; they may be a strided column.

        `input_ids` are the prompt, the answer, and guesses behind it. GrammarError where the grammar does not generate the answer, or no
        token can follow it; only stop tokens are allowed then.
        """
        if scores.shape != (self._grammar.vocabulary.size,):
            raise ValueError(f"the scores have the shape {scores.shape}, the vocabulary has {self._grammar.vocabulary.size} ids")
        self._end = len(input_ids) if self._end is None else min(len(input_ids), self._end + 1)
        if self._begin is None:
            self._begin = self._end
        try:
            self._fill(input_ids[: self._end], self._begin)
        except StackmaskError as error:
            self.error = error
            stops = list(self._grammar.vocabulary.stop_token_ids)
            kept = scores[stops]
            scores[:] = -np.inf
            scores[stops] = kept
            raise
        table = np.ascontiguousarray(scores)
        engine.mask_logits(table[None].view(np.int32), self._bitmask, NEGATIVE_INFINITY, None)
        if not scores.flags.c_contiguous:
            scores[:] = table
        return scores

    def _fill(self, ids: npt.NDArray[np.intc], begin: int) -> None:
        """Fill the bitmask of the tokens that may follow these ids; the answer begins at `begin`."""
        self._follower.follow(ids[begin:].tolist())
        matcher = self._follower.matcher
        if not self._follower.fits:
            place = begin + len(self._follower.tokens)
            raise GrammarError(f"token {place} is refused by the grammar: {matcher.explain(int(ids[place]))}")
        matcher.fill_next_token_bitmask(self._bitmask)
        if not self._bitmask.any():
            raise GrammarError(f"no token of the vocabulary begins with one of the bytes {matcher.next_bytes()[:8]!r}, which must follow")
