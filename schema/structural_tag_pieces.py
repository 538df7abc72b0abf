"""Tags that were compiled before, as pieces of a grammar that are copied into the next one.

An agent sends the same tools with every request, perhaps one of them changed.
Each tag is therefore compiled in a builder of its own that begins with the fixed parts of JSON, and what it added to them is a Piece.
A piece depends on its tag alone, so a grammar is the same whether its pieces are made for it or found here.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from threading import Lock
from typing import Final, NamedTuple

from stackmask.pda.grammar import GrammarBuilder, Node, NodeId, RuleId
from stackmask.pda.splice import extend
from stackmask.schema.fragments import Fragments, fresh

_MOST_NODES: Final = 2_000_000
"""How many nodes all pieces together have; those used longest ago are forgotten first."""
_ESCAPES: Final = "needed"


class Piece(NamedTuple):
    """A tag: what it begins with, a text or a token, and all that follows.

    `nodes` and `rules` are what it adds to a builder that begins with the fixed parts of JSON with these blanks; `rest` is what follows.
    """

    begin: str | int
    whitespace: str
    nodes: tuple[Node, ...]
    rules: tuple[tuple[str, NodeId], ...]
    rest: NodeId


class Pieces:
    """Pieces by the keys of their tags, shared by threads."""

    def __init__(self, most_nodes: int = _MOST_NODES) -> None:
        self._left = most_nodes
        self._pieces: OrderedDict[bytes, Piece] = OrderedDict()
        self._lock = Lock()

    def get(self, key: bytes) -> Piece | None:
        """The piece of a tag, None where there is none."""
        with self._lock:
            piece = self._pieces.get(key)
            if piece is not None:
                self._pieces.move_to_end(key)
            return piece

    def put(self, key: bytes, piece: Piece) -> None:
        """Keep a piece, and forget others where there are too many."""
        with self._lock:
            if key in self._pieces:
                return
            self._pieces[key] = piece
            self._left -= len(piece.nodes)
            while self._left < 0:
                self._left += len(self._pieces.popitem(last=False)[1].nodes)

    def __len__(self) -> int:
        """How many pieces are kept."""
        return len(self._pieces)


class Base(NamedTuple):
    """The fixed parts of JSON in one builder."""

    fragments: Fragments
    places: tuple[NodeId, ...]
    """Where the nodes are that every piece takes as given."""
    rules: int
    """How many rules it takes as given."""


def separate(whitespace: str) -> tuple[GrammarBuilder, Base]:
    """A builder for one piece."""
    return fresh(whitespace, _ESCAPES)[0], _given(whitespace)


@lru_cache(maxsize=16)
def _given(whitespace: str) -> Base:
    """What a builder for a piece begins with."""
    builder, fragments = fresh(whitespace, _ESCAPES)
    return Base(fragments, tuple(NodeId(node) for node in range(len(builder.nodes))), len(builder.rules))


def cut(builder: GrammarBuilder, base: Base, begin: str | int, whitespace: str, rest: NodeId) -> Piece:
    """What a builder has beyond its base."""
    names, bodies = builder.names[base.rules :], builder.rules[base.rules :]
    return Piece(begin, whitespace, tuple(builder.nodes[len(base.places) :]), tuple(zip(names, bodies, strict=True)), rest)


def lay(builder: GrammarBuilder, whitespace: str) -> Base:
    """Add the fixed parts of JSON to a builder that has begun with something else."""
    template, fragments = fresh(whitespace, _ESCAPES)
    first = len(builder.rules) - 1  # rule 0 of the template is a root that nothing calls
    for name in template.names[1:]:
        builder.rule(name)
    places: list[NodeId] = []
    extend(builder, template.nodes, places, first)
    for rule, body in enumerate(template.rules[1:], 1):
        builder.define(RuleId(first + rule), places[body])
    moved = Fragments._make([*(places[node] for node in fragments[:-1]), fragments.encoding])
    return Base(moved, tuple(places), len(template.rules))


def paste(builder: GrammarBuilder, base: Base, piece: Piece) -> NodeId:
    """Add a piece to a builder that has the fixed parts it refers to; gives what follows the tag's beginning."""
    first = len(builder.rules) - base.rules
    places = list(base.places)
    for name, _ in piece.rules:
        builder.rule(name)
    extend(builder, piece.nodes, places, first)
    for rule, (_, body) in enumerate(piece.rules, base.rules):
        builder.define(RuleId(first + rule), places[body])
    return places[piece.rest]
