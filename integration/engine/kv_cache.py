"""Keys and values of a batch: one row per sequence, each filled from the left to its own length.

    RowCache      the interface of a cache to the engine
    Slots         one tensor a layer for all rows: one pass serves the batch, and rows can be cut back. For models with full attention.
    ModelCaches   a cache of the model's own making for each row: a pass for each row, and nothing is taken back. For sliding windows,
                  states, and attention kernels that read no masks but their own.

A model of another library has its own cache (`make_cache`), which may be a `ChainRows`.

In `Slots`, rows in use are 0 to `rows` - 1, so that a forward pass reads a view and copies nothing; when one is freed, the last takes its
place.
A pass appends to each row its own number of tokens. Shorter rows of a pass are padded; the padding is written after the
row's length, where it is overwritten before it is read.
Rolling a row back is a smaller length. A tree of drafts leaves its accepted branch scattered; `keep` moves it together.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from ...pda.exceptions import StackmaskError

GROWTH = 64  # rows of keys have room for a multiple of this many tokens
PREFILL_CHUNK = 256  # tokens of a prompt in one pass
PIECE = 64  # tokens of a prompt in a step while others run: on a processor each costs as much as a row of the batch, or more
LARGE_PIECE = 512  # on a GPU a pass over as many takes hardly longer than one over a few
MASKED = ("sdpa", "eager")  # the attention kernels that read a mask of (rows, 1, queries, keys)


class ModelError(StackmaskError):
    """The engine cannot run this kind of model."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The configuration that the engine needs of a model: the width of its logits, and the longest text of a row, in tokens.

    For models of another library; those of transformers have their own.
    """

    vocab_size: int
    max_position_embeddings: int

    def get_text_config(self) -> ModelConfig:
        """Itself: it has no other part."""
        return self


class RowCache(Protocol):
    """The keys and values of a batch, with the model that computes them; rows in use are 0 to `rows` - 1.

    `lengths` are the tokens in each row. The engine lowers one where `can_take_back`, and the next pass writes from there.
    `can_branch`: drafts may be trees. `context` is how many tokens a row may have, and `forwards` counts the passes.
    `piece`: how many tokens of a prompt a step reads while others run, unless the engine is told; None where a prompt is read whole.
    """

    model: Any
    context: int
    lengths: list[int]
    forwards: int
    can_take_back: bool
    can_branch: bool
    piece: int | None

    @property
    def rows(self) -> int:
        """Rows in use."""

    def add(self) -> int:
        """Take a row, empty."""

    def remove(self, row: int) -> None:
        """Give a row back; the last row moves to its place."""

    def clear(self) -> None:
        """Forget all rows."""

    def swap(self, row: int, other: int) -> None:
        """Exchange two rows."""

    def keep(self, row: int, start: int, places: Sequence[int]) -> None:
        """Of what lies in a row from `start` on, keep these offsets, moved together, and forget the rest."""

    def prefill(self, row: int, prompt: Sequence[int]) -> torch.Tensor:
        """Append a prompt, or a piece of one, to a row; the logits after its last token: (1, n, vocabulary), float32.

        They stay as they are.
        """

    def forward(
        self,
        tokens: Sequence[Sequence[int]],
        *,
        first: int = 0,
        parents: Sequence[Sequence[int] | None] | None = None,
        last_only: bool = False,
    ) -> torch.Tensor:
        """The logits after the tokens appended to rows `first`, `first` + 1, ...: (rows, longest or 1, vocabulary), float32.

        They are valid until the next pass.
        """


class _Layer(CacheLayerMixin):  # type: ignore[no-untyped-call]  # the library has no annotation here
    """The keys and values of one attention layer; where a pass writes and how far it reads is the cache's business.

    What a pass reads is finite everywhere, because a mask does not keep what is not a number out of a sum. So rows are filled with zeros
    before they are first read. PERF: not all rows at once, which took up to 120 ms of a step with 64 rows of the demo model.
    """

    keys: Any
    values: Any

    def __init__(self, slots: Slots) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # nor here
        self.slots = slots
        self._finite = 0  # rows that hold nothing but numbers

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Make room, now that the shapes are known."""
        self.keys = key_states.new_empty((self.slots.capacity, key_states.shape[1], self.slots.room, key_states.shape[3]))
        self.values = value_states.new_empty((self.slots.capacity, value_states.shape[1], self.slots.room, value_states.shape[3]))
        self._finite = 0
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the results of a pass and return everything that it may look at."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.keys.shape[2] < self.slots.room:
            rows = min(self.slots.rows, self._finite)
            self.keys, self.values, self._finite = self._grown(self.keys, rows), self._grown(self.values, rows), rows
        first, last, end = self.slots.window
        if self._finite < last:
            self.keys[self._finite : last] = 0
            self.values[self._finite : last] = 0
            self._finite = last
        keys, values = self.keys[first:last, :, :end], self.values[first:last, :, :end]
        targets, places = self.slots.targets
        keys[targets, :, places] = key_states.transpose(1, 2)
        values[targets, :, places] = value_states.transpose(1, 2)
        return keys, values

    def _grown(self, old: torch.Tensor, rows: int) -> torch.Tensor:
        """The first rows with more room; the others are not touched, so that they take no memory."""
        new = old.new_empty((*old.shape[:2], self.slots.room, old.shape[3]))
        new[:rows, :, : old.shape[2]] = old[:rows]
        new[:rows, :, old.shape[2] :] = 0
        return new

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """The length of the keys and where they begin; masks are ready-made, so nobody depends on it."""
        return self.slots.window[2], 0

    def get_seq_length(self) -> int:
        """Zero: positions are given, never derived from a length that all rows would share."""
        return 0

    def get_max_length(self) -> int:
        """No maximum."""
        return -1


class Rows:
    """The rows of a cache: the tokens in each, and the most that there may be."""

    def __init__(self, model: Any, capacity: int) -> None:
        self.model = model
        self.capacity = capacity
        self.context: int = getattr(model.config.get_text_config(), "max_position_embeddings", None) or 1 << 20
        self.lengths: list[int] = []
        self.forwards = 0

    @property
    def rows(self) -> int:
        """Rows in use."""
        return len(self.lengths)

    def add(self) -> int:
        """Take a row, empty."""
        assert self.rows < self.capacity
        self.lengths.append(0)
        return self.rows - 1

    def _drop(self, row: int, *more: list[Any]) -> None:
        """Let the last row move to the place of one, in the lengths and in other lists by row."""
        for values in (self.lengths, *more):
            values[row] = values[-1]
            values.pop()

    def _exchange(self, row: int, other: int, *more: list[Any]) -> None:
        """Exchange two rows, in the lengths and in other lists by row."""
        for values in (self.lengths, *more):
            values[row], values[other] = values[other], values[row]


class ChainRows(Rows):
    """Rows of another library, whose drafts are chains: a tree would need a row for each of its branches."""

    can_branch = False

    def keep(self, row: int, start: int, places: Sequence[int]) -> None:
        """Of what lies in a row from `start` on, keep these offsets, which are the first ones, and forget the rest."""
        assert list(places) == list(range(len(places))), "drafts are chains"
        self.lengths[row] = start + len(places)


class Slots(Rows):
    """The cache of one model: lengths of rows, and forward passes over a range of them."""

    can_take_back = can_branch = True

    def __init__(self, model: Any, capacity: int) -> None:
        if not has_full_attention(model):
            raise ModelError(f"{type(model).__name__} has layers other than full attention, whose cache cannot be cut back")
        super().__init__(model, capacity)
        self._last_only, self._cache_name = _last_only(model), _cache_name(model)
        self.piece: int | None = PIECE if model.device.type == "cpu" else LARGE_PIECE
        config = model.config.get_text_config()
        self._adds_masks = config._attn_implementation == "eager"  # to the scores, where others select by them
        self.room = GROWTH
        self.window = (0, 0, 0)
        self.targets: tuple[torch.Tensor, torch.Tensor] = (torch.zeros(0), torch.zeros(0))
        self._layers = [_Layer(self) for _ in range(config.num_hidden_layers)]
        self._cache = Cache(layers=[*self._layers])

    def remove(self, row: int) -> None:
        """Give a row back; the last row moves to its place."""
        last = self.rows - 1
        if row != last:
            self.copy(last, row)
        self.lengths.pop()
        if not self.lengths and self.room > GROWTH:
            self.clear()

    def clear(self) -> None:
        """Forget all rows, and give their memory back."""
        self.lengths.clear()
        self.room = GROWTH
        for layer in self._layers:
            layer.is_initialized = False
            layer.keys = layer.values = None

    def copy(self, source: int, target: int) -> None:
        """Make a row the same as another."""
        length = self.lengths[target] = self.lengths[source]
        for layer in self._layers:
            layer.keys[target, :, :length] = layer.keys[source, :, :length]
            layer.values[target, :, :length] = layer.values[source, :, :length]

    def swap(self, row: int, other: int) -> None:
        """Exchange two rows."""
        length = max(self.lengths[row], self.lengths[other])
        for layer in self._layers if length else ():
            for values in (layer.keys, layer.values):
                values[[row, other], :, :length] = values[[other, row], :, :length]
        self._exchange(row, other)

    def keep(self, row: int, start: int, places: Sequence[int]) -> None:
        """Of what lies in a row from `start` on, keep these offsets, moved together, and forget the rest."""
        if list(places) != list(range(len(places))):
            taken = torch.tensor([start + place for place in places])
            for layer in self._layers:
                layer.keys[row, :, start : start + len(places)] = layer.keys[row, :, taken]
                layer.values[row, :, start : start + len(places)] = layer.values[row, :, taken]
        self.lengths[row] = start + len(places)

    def prefill(self, row: int, prompt: Sequence[int]) -> torch.Tensor:
        """Append a prompt, or a piece of one, to a row; the logits after its last token: (1, 1, vocabulary), float32."""
        for begin in range(0, len(prompt), PREFILL_CHUNK):
            logits = self.forward([prompt[begin : begin + PREFILL_CHUNK]], first=row, last_only=True)
        return logits[:, -1:]

    def forward(
        self,
        tokens: Sequence[Sequence[int]],
        *,
        first: int = 0,
        parents: Sequence[Sequence[int] | None] | None = None,
        last_only: bool = False,
    ) -> torch.Tensor:
        """The logits after each of the tokens appended to rows `first`, `first` + 1, ...: (rows, longest, vocabulary), float32.

        `parents[i][j]` is the token of row i that token j follows, -1 for the row's text so far; by default each follows the one before.
        `last_only`: the logits after the last token alone, for a pass in which all rows have equally many.
        """
        device = self.model.device
        count, width = len(tokens), max(map(len, tokens))
        lengths = self.lengths[first : first + count]
        end = max(length + len(row) for length, row in zip(lengths, tokens, strict=True))
        end = max(end, max(lengths) + width)  # padding is written too
        if end > self.room:  # by half as much again, so that a row that grows by pieces is copied a few times, not once for each piece
            self.room = -(-max(end, min(self.room * 3 // 2, self.context)) // GROWTH) * GROWTH
        self.window = (first, first + count, end)
        start = torch.tensor(lengths, device=device)[:, None]
        places = start + torch.arange(width, device=device)
        self.targets = (torch.arange(count, device=device)[:, None].expand(count, width), places)
        positions, mask = self._attention(places, end, lengths, parents)
        ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in tokens], device=device)
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            **{self._cache_name: self._cache},
            **(self._last_only if last_only else {}),
        )
        for row, new in enumerate(tokens):
            self.lengths[first + row] += len(new)
        self.forwards += 1
        logits: torch.Tensor = output.logits
        return logits.float()

    def _attention(
        self, places: torch.Tensor, end: int, lengths: Sequence[int], parents: Sequence[Sequence[int] | None] | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The position of each token, and which keys it looks at."""
        mask = torch.arange(end, device=places.device) <= places[:, :, None]
        positions = places.clamp(max=self.context - 1)
        for row, parent in enumerate(parents or ()):
            if parent is None:
                continue
            start = lengths[row]
            mask[row, : len(parent), start:] = False
            for token, before in enumerate(parent):
                if before >= 0:
                    mask[row, token] |= mask[row, before]
                    positions[row, token] = positions[row, before] + 1
                else:
                    positions[row, token] = start
                mask[row, token, start + token] = True
        if self._adds_masks:
            mask = torch.zeros(mask.shape, dtype=self.model.dtype, device=mask.device).masked_fill_(~mask, float("-inf"))
        return positions, mask[:, None]


class ModelCaches(Rows):
    """A cache that the model makes for each row, as in its own `generate`."""

    can_take_back = can_branch = False
    piece: int | None = None  # states are not carried from piece to piece

    def __init__(self, model: Any, capacity: int) -> None:
        super().__init__(model, capacity)
        self._last_only, self._cache_name = _last_only(model), _cache_name(model)
        self._caches: list[Any] = []
        self._has_positions = "position_ids" in inspect.signature(model.forward).parameters

    def add(self) -> int:
        """Take a row, empty."""
        self._caches.append(None)
        return super().add()

    def remove(self, row: int) -> None:
        """Give a row back; the last row moves to its place."""
        self._drop(row, self._caches)

    def swap(self, row: int, other: int) -> None:
        """Exchange two rows."""
        self._exchange(row, other, self._caches)

    def clear(self) -> None:
        """Forget all rows."""
        self.lengths.clear()
        self._caches.clear()

    def keep(self, row: int, start: int, places: Sequence[int]) -> None:
        """Nothing: this cuts back drafts, and there are none."""
        raise AssertionError("nothing can be taken back")

    def prefill(self, row: int, prompt: Sequence[int]) -> torch.Tensor:
        """Run a prompt in an empty row; the logits after its last token."""
        return self.forward([prompt], first=row)

    def forward(self, tokens: Sequence[Sequence[int]], *, first: int = 0, parents: object = None, last_only: bool = False) -> torch.Tensor:
        """The logits after the last of the tokens appended to rows `first`, `first` + 1, ...: (rows, 1, vocabulary), float32."""
        assert parents is None
        device = self.model.device
        tables = []
        for row, new in enumerate(tokens, first):
            start, end = self.lengths[row], self.lengths[row] + len(new)
            positions = {"position_ids": torch.arange(start, end, device=device)[None]} if self._has_positions else {}
            output = self.model(
                input_ids=torch.tensor([[*new]], device=device),
                attention_mask=torch.ones((1, end), dtype=torch.long, device=device),
                use_cache=True,
                **{self._cache_name: self._caches[row]},
                **positions,
                **self._last_only,
            )
            self._caches[row], self.lengths[row] = getattr(output, self._cache_name), end
            tables.append(output.logits[:, -1:].float())
        self.forwards += 1
        return torch.cat(tables)


def make_cache(model: Any, capacity: int) -> RowCache:
    """The cache for a model: the one that it makes, or one for a Hugging Face model."""
    if hasattr(model, "make_cache"):
        made: RowCache = model.make_cache(capacity)
        return made
    return Slots(model, capacity) if has_full_attention(model) else ModelCaches(model, capacity)


def has_full_attention(model: Any) -> bool:
    """Whether every layer attends to all keys that a mask allows, so that rows of different lengths can share a pass."""
    config = model.config.get_text_config()
    slides = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    return (
        not slides
        and set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
        and config._attn_implementation in MASKED
        and "position_ids" in inspect.signature(model.forward).parameters
        and not getattr(model, "_is_stateful", False)
    )


def _last_only(model: Any) -> dict[str, Any]:
    """The argument that spares the logits of all tokens but the last, where the model has it."""
    return {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}


def _cache_name(model: Any) -> str:
    """The model's name for its cache; transformers renames it."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
