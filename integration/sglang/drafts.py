"""Forced text as drafts: where a grammar leaves one continuation, SGLang verifies it in one step in the place of a step for each token.

SGLang's n-gram proposer gives each request a tree of drafts, of a size that is fixed, and fills what it does not need with padding.
SGLang's hooks for plug-ins then call `add_drafts`, which makes a new tree for each request with a grammar of ours. It takes, in this order:

1. the text that must come next. If the last tokens are not those that the tokenizer makes of their text, the model may go on in that way:
   then the other tokens by which the text can begin come too, in at most half of the tree;
2. the proposer's drafts that the grammar allows, each with the text that must come after it;
3. if the next byte is one of a few, each of the texts that can begin there, as far as it is forced,

until the tree is full. SGLang verifies them like any other draft, so the distribution is the model's own. The proposer's tree is a chain
where the attention kernel supports only chains; then so is this one.

Drafts are proposed before a step, so the grammar has to stand where the request does. SGLang runs the n-gram proposer in that way, and
says so by `grammar_needs_sync`.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...pda.exceptions import LimitError
from ...pda.matcher import Matcher
from ..forced_drafts import LONGEST_TOKEN, TAIL, Cut, Encode, cut_behind, forced_tokens
from .grammar import Grammar
from .plugin import IncompatibleVersionError, find

_LOGGER: Final = logging.getLogger(__name__)

MOST_TEXTS: Final = 8  # of texts that begin by different bytes; there are more where text is free, and then they are no drafts
KEPT_CUTS: Final = 1 << 14  # texts whose tokens are kept; those of frames come again with every request

WORKER: Final = "sglang.srt.speculative.ngram_worker"
PROPOSER: Final = "NGRAMWorker._prepare_draft_tokens"
_PARAMETERS: Final = (
    (WORKER, PROPOSER, ("self", "batch")),
    ("sglang.srt.managers.schedule_batch", "ScheduleBatch.grammar_needs_sync", ("self",)),
    ("sglang.srt.constrained.reasoner_grammar_backend", "ReasonerGrammarObject._grammar_active", ("self",)),
    ("sglang.srt.plugins.hook_registry", "HookRegistry.register", ("target", "hook", "hook_type", "source")),
    ("sglang.srt.plugins.hook_registry", "HookRegistry.apply_hooks", ()),
)
"""The hooked function and the functions that the hook calls, with their parameters."""


def install() -> None:
    """Hook `add_drafts` behind the n-gram proposer of this process, by SGLang's registry of hooks; a second call does nothing.

    Raises IncompatibleVersionError, and hooks nothing, where the proposer or the registry is not what it was when this was tested.
    """
    for module, path, expected in _PARAMETERS:
        found = find(module, path)
        actual = None if found is None else tuple(inspect.signature(found).parameters)
        if actual != expected:
            raise IncompatibleVersionError(
                f"{module}.{path} takes {actual}, not {expected}, so forced text cannot become drafts; "
                "STACKMASK_SGLANG_FORCED_DRAFTS=0 starts the server without that"
            )
    worker = import_module(WORKER).NGRAMWorker
    if hasattr(worker, "__stackmask__"):
        return
    hooks = import_module("sglang.srt.plugins.hook_registry")
    original = worker._prepare_draft_tokens
    hooks.HookRegistry.register(f"{WORKER}.{PROPOSER}", add_drafts, hooks.HookType.AFTER)
    hooks.HookRegistry.apply_hooks()  # which logs an error of its own and goes on
    if worker._prepare_draft_tokens is original:
        raise IncompatibleVersionError(f"SGLang put no hook on {WORKER}.{PROPOSER}; STACKMASK_SGLANG_FORCED_DRAFTS=0 starts the server")
    worker.__stackmask__ = True


def add_drafts(result: tuple[npt.NDArray[Any], npt.NDArray[Any]], worker: Any, batch: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The proposer's trees for a batch, with new ones for the requests that have a grammar of ours.

    The tokens have the shape (requests * size,); the first of each tree is the last token of the request. The mask has the shape
    (requests * size * size,); of a tree, entry (i, j) is 1 where node j is node i or an ancestor of it.
    """
    size = worker.draft_token_num
    if not batch.has_grammar or not batch.grammar_needs_sync() or size < 2:
        return result
    tokens, mask = (array.copy() for array in result)
    if tokens.shape != (len(batch.reqs) * size,) or mask.shape != (len(batch.reqs) * size * size,):
        count = len(batch.reqs)
        _warn(f"{PROPOSER} returned arrays of the shapes {tokens.shape} and {mask.shape} for {count} requests of {size} drafts")
        return result
    trees, masks = tokens.reshape(-1, size), mask.reshape(-1, size, size)
    for row, request in enumerate(batch.reqs):
        grammar = _active(request.grammar)
        if grammar is None or request.tokenizer is None:
            continue
        try:
            tree = Tree(int(trees[row, 0]), size, is_chain=worker.topk == 1)
            before = request.output_ids[-TAIL:]
            grow(tree, grammar.matcher, before, paths_of(trees[row], masks[row]), encoder(request.tokenizer))
            trees[row], masks[row] = tree.padded()
        except LimitError as error:  # of the engine, met by a draft: the request may never come there
            _LOGGER.debug("no drafts for %s: %s", request.rid, error)
    return tokens, mask


@functools.cache
def _warn(reason: str) -> None:
    """Say once that forced text is left out, since an exception would end the scheduler."""
    _LOGGER.error("forced text does not become drafts: %s", reason)


class Tree:
    """Drafts as a tree of at most `size` nodes; node 0 is the request's last token, and parents come before their children."""

    def __init__(self, last: int, size: int, *, is_chain: bool) -> None:
        self.tokens = [last]
        self.parents = [0]
        self.size = size
        self.is_chain = is_chain
        self._children: dict[tuple[int, int], int] = {}

    @property
    def is_full(self) -> bool:
        """Whether no node can be added."""
        return len(self.tokens) >= self.size

    def add(self, path: Sequence[int]) -> None:
        """Put tokens below the root, one below the other, as far as there is room; a chain takes what continues it."""
        node = 0
        for token in path:
            child = self._children.get((node, token))
            if child is None:
                if self.is_full or (self.is_chain and node != len(self.tokens) - 1):
                    return
                child = self._children[node, token] = len(self.tokens)
                self.tokens.append(token)
                self.parents.append(node)
            node = child

    def padded(self) -> tuple[list[int], npt.NDArray[np.int64]]:
        """The tokens and the mask, padded as the proposer does: with the token 0 below the root."""
        free = self.size - len(self.tokens)
        mask = np.eye(self.size, dtype=np.int64)
        for node, parent in enumerate([*self.parents, *[0] * free]):
            mask[node] |= mask[parent]
        return [*self.tokens, *[0] * free], mask


def paths_of(tokens: npt.NDArray[Any], mask: npt.NDArray[Any]) -> list[list[int]]:
    """The paths from the root to each node of a proposer's tree, the root left out."""
    return [[int(tokens[place]) for place in np.flatnonzero(mask[node]) if place] for node in range(1, len(tokens))]


def grow(tree: Tree, matcher: Matcher, before: Sequence[int], proposed: Sequence[Sequence[int]], encode: Encode) -> None:
    """Fill a tree with drafts that the grammar allows behind a matcher, whose last tokens are `before`, the likeliest first."""
    if matcher.is_terminated():
        return
    forced, *others = _texts(matcher, LONGEST_TOKEN * tree.size)
    sure, is_usual = _cut(matcher, before, forced, encode)
    if not is_usual:
        tree.add(sure[:1])
        for token in _beginnings(matcher, forced.data)[: tree.size // 2]:
            tree.add([token])
    tree.add(sure if forced.is_whole else sure[:-1])  # the last token could go on past the forced text
    kept = [path for path in proposed if matcher.validate_tokens(path) == len(path)]
    for path in kept:
        tree.add(path)
    for path in kept:
        if tree.is_full:
            return
        fork = matcher.fork()
        if all(map(fork.accept_token, path)) and not fork.is_terminated():
            tree.add([*path, *forced_tokens(fork, [*before, *path], tree.size, encode)])
    for text in others:
        if tree.is_full:
            return
        tree.add(_cut(matcher, before, text, encode).tokens)
    tree.add(sure)


@functools.lru_cache(maxsize=2)
def encoder(tokenizer: Any) -> Encode:
    """The tokens of a text by itself, kept for the texts that were asked for last."""

    @functools.lru_cache(maxsize=KEPT_CUTS)
    def encode(text: str) -> tuple[int, ...]:
        return tuple(tokenizer.encode(text, add_special_tokens=False))

    return encode


class _Text(NamedTuple):
    """A text that may come next; `is_whole` if no text can follow it, only the tokens `behind`."""

    data: bytes
    is_whole: bool
    behind: tuple[int, ...]


def _texts(matcher: Matcher, most: int) -> list[_Text]:
    """The text that must come next, and, if one of a few bytes follows it, each of the texts that continue from there.

    Of each the first `most` bytes, or a few less where a character would be split.
    """
    forced = matcher.find_jump_forward_bytes()
    options = matcher.next_bytes(forced) if len(forced) <= most else b""
    found = [_text(matcher, forced, most)]
    if 1 < len(options) <= MOST_TEXTS:
        for byte in options:
            start = forced + bytes([byte])
            fork = matcher.fork()
            if fork.accept_bytes(start):
                found.append(_text(matcher, start + fork.find_jump_forward_bytes(), most))
    return found


def _text(matcher: Matcher, data: bytes, most: int) -> _Text:
    if len(data) > most:
        return _Text(data[:most].decode(errors="ignore").encode(), is_whole=False, behind=())
    if matcher.next_bytes(data):
        return _Text(data, is_whole=False, behind=())
    fork = matcher.fork()
    behind = fork.allowed_tokens() if not data or fork.accept_bytes(data) else []
    return _Text(data, is_whole=True, behind=tuple(behind) if len(behind) == 1 else ())


def _cut(matcher: Matcher, before: Sequence[int], text: _Text, encode: Encode) -> Cut:
    """The tokens of a text, and the token that must follow it; none where it cannot be cut behind the last tokens."""
    tokens, is_usual = cut_behind(before, text.data, matcher.vocabulary, encode)
    whole = [*tokens, *text.behind] if tokens or not text.data else []
    return Cut(whole[: matcher.validate_tokens(whole)], is_usual)


def _beginnings(matcher: Matcher, text: bytes) -> list[int]:
    """The tokens by which a text can begin, the longest first."""
    sizes = {token: len(matcher.vocabulary.token_bytes(token) or b"") for token in matcher.allowed_tokens()}
    return sorted((token for token, size in sizes.items() if 0 < size <= len(text)), key=lambda token: (-sizes[token], token))


def _active(grammar: Any) -> Grammar | None:
    """The grammar of ours that holds for a request now; None while it thinks, or has none."""
    if type(grammar) is Grammar:
        return grammar
    inner = getattr(grammar, "grammar", None)
    return inner if type(inner) is Grammar and grammar._grammar_active() else None
