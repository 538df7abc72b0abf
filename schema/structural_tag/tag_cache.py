"""Tags inside a structural tag that can be found again, and the builders that hold those which were compiled before.

An agent sends the same tools with every request, perhaps one of them changed.
So a compiler goes on from request to request in one builder: a tag that it holds is a call of the rule that it became.
What a tag becomes depends on nothing but the tag, so what the root of a grammar reaches is the same whether tags were found or not.

Agents that have nothing in common get builders of their own, which keeps grammars small: each holds what its root does not reach, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, Final, NamedTuple

from ...pda.embed import extend
from ...pda.grammar import Grammar, GrammarBuilder, NodeId, RuleId, memory_of
from ..emit.json_parts import Fragments, template

LEAVES: Final = frozenset(
    ("json_schema", "any_text", "grammar", "regex", "const_string", "any_tokens", "qwen_xml_parameter", "token", "exclude_token")
)
"""Formats that hold no others."""
HOLDERS: Final = frozenset(("sequence", "or", "optional", "star", "plus", "repeat", "tag"))
"""Formats that hold others, but no list of tags or rules: a tag in which there are only these and leaves can be kept."""
_SPARE: Final = 2
_MOST_UNUSED: Final = 5_000
"""An arena is left when it has more nodes than twice those of its last grammar and this."""
_MOST_NODES: Final = 2_000_000
"""How many nodes all arenas have together; those used longest ago are forgotten first."""
_MOST_ARENAS: Final = 64
_SAMPLE: Final = 16
"""How many of the tags of a request say which arena holds most of them."""


class Part:
    """A tag inside a structural tag, in whose place it stands: what it is known by, and its value or what makes that."""

    __slots__ = ("_make", "_value", "key")

    def __init__(self, key: bytes, value: Any, make: Callable[[Any], Any] | None = None) -> None:
        self.key = key
        self._value = value
        self._make = make

    def open(self) -> Any:
        """The value."""
        return self._value if self._make is None else self._make(self._value)


class Tag:
    """A tag in a builder: what it begins with, a text or a token, and all that follows; `nodes` and `rules` are how many it added."""

    __slots__ = ("after", "begin", "nodes", "rest", "rules")

    def __init__(self, begin: str | int, rest: NodeId, nodes: int = 0, rules: int = 0) -> None:
        self.begin = begin
        self.rest = rest
        self.nodes = nodes
        self.rules = rules
        self.after: dict[int, NodeId] = {}  # the tag without so many characters of its beginning


class Mark(NamedTuple):
    """How much an arena held."""

    nodes: int
    rules: int
    bases: int
    known: int
    tags: int


class Measured(NamedTuple):
    """How many nodes and rules take how many bytes."""

    nodes: int
    rules: int
    memory: int


class Arena:
    """A builder that goes on from tag to tag, with the fixed parts of JSON in it by their blanks, and tags by their keys."""

    def __init__(self) -> None:
        self.builder = GrammarBuilder()
        self.tags: dict[bytes, Tag] = {}
        self.known: dict[object, NodeId] = {}  # nodes that several tags share
        self._bases: dict[str, Fragments] = {}
        self._measured = Measured(0, 0, 0)

    def build(self, root: RuleId) -> Grammar:
        """The grammar with this root, and with all that the arena holds."""
        b, before = self.builder, self._measured
        # PERF: a look at every node would take as long as all else where most tags are known
        more = memory_of(b.nodes[before.nodes :], len(b.rules) - before.rules)
        self._measured = Measured(len(b.nodes), len(b.rules), before.memory + more)
        return replace(b.build(root), memory=self._measured.memory)

    def base(self, whitespace: str) -> Fragments:
        """The fixed parts of JSON with these blanks."""
        found = self._bases.get(whitespace)
        if found is None:
            found = self._bases[whitespace] = _lay(self.builder, whitespace)
        return found

    def mark(self) -> Mark:
        """How much there is now."""
        return Mark(len(self.builder.nodes), len(self.builder.rules), len(self._bases), len(self.known), len(self.tags))

    def restore(self, mark: Mark) -> None:
        """Forget everything that came after a mark."""
        b = self.builder
        for node in b.nodes[mark.nodes :]:
            del b.index[node]
        del b.nodes[mark.nodes :], b.rules[mark.rules :], b.names[mark.rules :]
        for table, size in ((self._bases, mark.bases), (self.known, mark.known), (self.tags, mark.tags)):
            while len(table) > size:
                table.popitem()
        for tag in self.tags.values():
            tag.after.clear()


def _lay(builder: GrammarBuilder, whitespace: str) -> Fragments:
    """Add the fixed parts of JSON to a builder that has begun with something else."""
    parts, fragments, _ = template(whitespace, "needed")
    first = len(builder.rules) - 1  # rule 0 of the fixed parts is a root that nothing calls
    for name in parts.names[1:]:
        builder.rule(name)
    places: list[NodeId] = []
    extend(builder, parts.nodes, places, first)
    for rule, body in enumerate(parts.rules[1:], 1):
        builder.define(RuleId(first + rule), places[body])
    return Fragments._make([*(places[node] for node in fragments[:-1]), fragments.encoding])


class Arenas:
    """The arenas that nobody is using, shared by threads."""

    def __init__(self) -> None:
        self._free: list[Arena] = []  # used longest ago first
        self._lock = Lock()

    def take(self, keys: Sequence[bytes]) -> Arena:
        """An arena for tags with these keys: one that holds most of them, else one that has room, else a new one."""
        sample = keys[:: max(1, len(keys) // _SAMPLE)]
        with self._lock:
            most, found = 0, -1
            for place, arena in enumerate(self._free):
                held = sum(map(arena.tags.__contains__, sample))
                if held >= most and (2 * held >= len(sample) or len(arena.builder.nodes) <= _MOST_UNUSED):
                    most, found = held, place
            return Arena() if found < 0 else self._free.pop(found)

    def give(self, arena: Arena, used: int) -> None:
        """Take an arena back, of whose nodes the last grammar used so many; it is dropped where too many others are left."""
        # PERF: an engine reads 15 nodes in a microsecond, reachable or not
        if len(arena.builder.nodes) > _SPARE * used + _MOST_UNUSED:
            return
        with self._lock:
            self._free.append(arena)
            while len(self._free) > _MOST_ARENAS or sum(len(kept.builder.nodes) for kept in self._free) > _MOST_NODES:
                del self._free[0]

    def __len__(self) -> int:
        """How many arenas are kept."""
        return len(self._free)
