"""Grammars in Hugging Face `model.generate`.

    grammar = compiler.json_schema(schema)
    model.generate(**inputs, logits_processor=[GrammarLogitsProcessor(grammar)])

`generate` tells a logits processor nothing but the ids so far.
Beam search permutes and repeats rows; assisted decoding and prompt lookup ask for positions beyond a rejected draft and come back with
shorter ids, without a word.
So every call compares the ids of each row with what the matchers have accepted: the matcher that shares the longest prefix is rolled
back to it (or a fork of it, where two rows come from one) and accepts the rest.
In plain decoding that is one accepted token a row and call.

Continuous batching hands its processors the last token only and is not served by this class.
"""

from __future__ import annotations

from collections.abc import Sequence
from warnings import warn

import torch
from transformers import LogitsProcessor

from ...pda.engine import fill_bitmasks
from ...pda.exceptions import GrammarError
from ...pda.matcher import allocate_token_bitmask
from ..compiler import CompiledGrammar
from ..follower import Follower, common_prefix
from ..torch import apply_token_bitmask_inplace


class GrammarLogitsProcessor(LogitsProcessor):
    """Keeps the output of `model.generate` inside a grammar; one instance serves one call of `generate`.

    One grammar serves every row of the batch; a list has one for each input, None for an unconstrained input.
    Beams and `num_return_sequences` repeat their input's grammar.
    The prompt ends where the ids of the first call end, unless `prompt_length` gives its length.

    Rows whose text has left the grammar, as drafts of an assistant model do, are not masked.
    Neither are scores of another width than the vocabulary: they are those of an assistant model with other tokens.

    If a grammar sets a temperature, the scores of the row are scaled so that `generate` samples at it: pass the `temperature` of the
    call of `generate`, whose own scaling comes after. Greedy decoding and beam search have no temperature.
    """

    supports_continuous_batching = False

    def __init__(
        self,
        grammar: CompiledGrammar | Sequence[CompiledGrammar | None],
        *,
        prompt_length: int | None = None,
        temperature: float = 1.0,
    ) -> None:
        if not temperature > 0:
            raise ValueError(f"the temperature of generate is {temperature}, which is not above zero")
        self._grammars = [grammar] if isinstance(grammar, CompiledGrammar) else list(grammar)
        sizes = {item.vocabulary.size for item in self._grammars if item is not None}
        if len(sizes) != 1:
            raise ValueError("the grammars are made for vocabularies of different sizes" if sizes else "a processor needs a grammar")
        self._size = sizes.pop()
        self._given_length = prompt_length
        self._temperature = temperature
        self.reset()

    def reset(self) -> None:
        """Make ready for another call of `generate`."""
        self._prompt: torch.Tensor | None = None
        self._rows: list[Follower | None] = []
        self._bitmask = allocate_token_bitmask(0, self._size)
        self._longest = 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores with those of forbidden tokens at minus infinity, as a new tensor."""
        if scores.shape[-1] != self._size:
            warn(
                f"scores {scores.shape[-1]} wide are left unchanged: the vocabulary has {self._size} ids. That is right for an assistant "
                f"model with other tokens; for the model itself, make the vocabulary with size={scores.shape[-1]}.",
                stacklevel=2,
            )
            return scores
        self._move(input_ids[:, self._begin(input_ids) :].tolist())
        places = [place for place, row in enumerate(self._rows) if row is not None and row.fits]
        if not places:
            return scores
        fill_bitmasks([row.matcher for row in self._rows if row is not None and row.fits], self._bitmask, places)
        self._check_not_stuck(places)
        scores = scores.clone()
        everywhere = len(places) == len(self._rows)
        apply_token_bitmask_inplace(scores, self._bitmask, indices=None if everywhere else places)
        self._scale(scores, places)
        return scores

    def _scale(self, scores: torch.Tensor, places: list[int]) -> None:
        """Divide the rows whose grammars ask for a temperature by it, and multiply them by the one that they will be divided by."""
        for place in places:
            row = self._rows[place]
            wanted = None if row is None else row.matcher.temperature
            if wanted == 0:
                best = int(scores[place].argmax())
                scores[place].masked_fill_(torch.arange(self._size, device=scores.device) != best, -torch.inf)
            elif wanted is not None:
                scores[place] = (scores[place] - scores[place].max()) * (self._temperature / wanted)

    def _begin(self, input_ids: torch.Tensor) -> int:
        """The beginning of the generated text; the first call makes one matcher per row."""
        count, length = input_ids.shape
        if self._prompt is None:
            if count % len(self._grammars):
                raise ValueError(f"{len(self._grammars)} grammars cannot be distributed over {count} rows")
            begin = length if self._given_length is None else self._given_length
            self._prompt = input_ids[:, :begin].clone()
            grammars = [grammar for grammar in self._grammars for _ in range(count // len(self._grammars))]
            self._rows = [None if grammar is None else Follower(grammar.matcher()) for grammar in grammars]
            self._bitmask = allocate_token_bitmask(count, self._size)
            self._longest = length
        begin = self._prompt.shape[1]
        grown = length <= self._longest + 1 or self._given_length is not None
        if count != len(self._rows) or not grown or not (self._given_length or torch.equal(input_ids[:, :begin], self._prompt)):
            raise ValueError("these ids do not continue the earlier ones: a processor serves one call of generate, or reset() between two")
        self._longest = max(self._longest, length)
        return begin

    def _move(self, texts: list[list[int]]) -> None:
        """Bring the matcher of each row to its text, from whichever row's matcher is nearest to it."""
        takers: dict[int, list[tuple[int, int]]] = {}
        for place, text in enumerate(texts):
            if self._rows[place] is not None:
                source, common = self._nearest(place, text)
                takers.setdefault(source, []).append((place, common))
        moved: list[Follower | None] = [None] * len(texts)
        for source, places in takers.items():
            row = self._rows[source]
            assert row is not None
            rows = [row.fork() for _ in places[1:]] + [row]  # the forks first, before the row itself moves
            for (place, common), taken in zip(places, rows, strict=True):
                taken.go_to(texts[place], common)
                moved[place] = taken
        self._rows = moved

    def _nearest(self, place: int, text: list[int]) -> tuple[int, int]:
        """The row of the same grammar that shares most with a text, its own row before others, and how many tokens they share."""
        own = self._rows[place]
        assert own is not None
        best, most = place, common_prefix(own.tokens, text)
        if most == len(own.tokens):
            return best, most
        share = len(self._rows) // len(self._grammars)
        first = place // share * share
        for other in range(first, first + share):
            row = self._rows[other]
            assert row is not None
            common = common_prefix(row.tokens, text)
            if common > most:
                best, most = other, common
        return best, most

    def _check_not_stuck(self, places: list[int]) -> None:
        """Raise where no token at all is allowed: sampling from such a row would fail without saying why."""
        for place in places:
            row = self._rows[place]
            if row is not None and not self._bitmask[place].any():
                expected = row.matcher.explain(b"\x00" if row.matcher.next_bytes()[:1] != b"\x00" else b"\x01")
                raise GrammarError(f"no token of the vocabulary fits in row {place}: {expected}")
