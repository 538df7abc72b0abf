"""A cache of the tags inside structural tags, and of the builders that contain them.

An agent sends the same tools with every request, perhaps one of them changed.
So a compiler keeps one builder from request to request: a tag that is in it already becomes a call of its rule.
The nodes of a tag depend on the tag alone, so the part of a grammar that its root reaches is the same with and without the cache.

Agents without common tools get builders of their own, which keeps grammars small: a grammar includes nodes that its root does not reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

from ...pda.embed import extend
from ...pda.grammar import Grammar, GrammarBuilder, NodeId, RuleId, memory_of
from ..emit.json_parts import Fragments, template

LEAVES: Final = frozenset(
    ("json_schema", "any_text", "grammar", "regex", "const_string", "any_tokens", "qwen_xml_parameter", "token", "exclude_token")
)
"""Formats without formats inside."""
HOLDERS: Final = frozenset(("sequence", "or", "optional", "star", "plus", "repeat", "tag"))
"""Formats with formats inside, but no list of tags or rules: a tag of these and leaves alone can be cached."""
_SPARE: Final = 2
_MOST_UNUSED: Final = 5_000
"""An arena is dropped when its nodes exceed twice those of its last grammar plus this."""
_MOST_NODES: Final = 2_000_000
"""The limit of nodes in all arenas together; the least recently used are dropped first."""
_MOST_BYTES: Final = 64 << 20
"""The limit of bytes in all arenas together, those of one included: few tags with long texts have few nodes."""
_MOST_ARENAS: Final = 64
_COPIES: Final = 3
"""How often the text of a tag is kept: in its key, its beginning, and what follows the beginning's first characters."""
_SAMPLE: Final = 16
"""The number of tags of a request that are looked up to choose its arena."""


class Part:
    """A placeholder for a tag inside a structural tag: its key in the cache, and its value, which may be made on demand."""

    __slots__ = ("_make", "_value", "key")

    def __init__(self, key: bytes, value: Any, make: Callable[[Any], Any] | None = None) -> None:
        self.key = key
        self._value = value
        self._make = make

    def open(self) -> Any:
        """The value."""
        return self._value if self._make is None else self._make(self._value)


class Tag:
    """A tag in a builder: its first text or token, and the node of the rest; `nodes` and `rules` are the numbers that it added."""

    __slots__ = ("after", "begin", "nodes", "rest", "rules")

    def __init__(self, begin: str | int, rest: NodeId, nodes: int = 0, rules: int = 0) -> None:
        self.begin = begin
        self.rest = rest
        self.nodes = nodes
        self.rules = rules
        self.after: dict[int, NodeId] = {}  # the tag without the first n characters of its beginning, by n


class Mark(NamedTuple):
    """The size of an arena at one time."""

    nodes: int
    rules: int
    bases: int
    shared: int
    tags: int


class Measured(NamedTuple):
    """A number of nodes and rules, and the bytes that they take."""

    nodes: int
    rules: int
    memory: int


class Arena:
    """A builder shared by many tags, with the fixed parts of JSON by their blanks, and tags by their keys."""

    def __init__(self) -> None:
        self.builder = GrammarBuilder()
        self.tags: dict[bytes, Tag] = {}
        self.shared: dict[object, NodeId] = {}  # nodes that several tags share
        self._bases: dict[tuple[str, bool, tuple[str, ...]], Fragments] = {}
        self._measured = Measured(0, 0, 0)
        self._written = 0

    @property
    def size(self) -> int:
        """About how many bytes it took when its last grammar was built: the nodes, and the tags as they were written."""
        return self._measured.memory + _COPIES * self._written

    def keep(self, key: bytes, tag: Tag) -> None:
        """Keep a tag for later requests."""
        self.tags[key] = tag
        self._written += len(key)

    def build(self, root: RuleId) -> Grammar:
        """The grammar with this root, and with all nodes of the arena."""
        b, before = self.builder, self._measured
        # PERF: measuring every node would take as long as all other work if most tags are cached
        more = memory_of(b.nodes[before.nodes :], len(b.rules) - before.rules)
        self._measured = Measured(len(b.nodes), len(b.rules), before.memory + more)
        return b.build(root)

    def base(self, whitespace: str, distinct: bool, closing: tuple[str, ...] = ()) -> Fragments:
        """The fixed parts of JSON with these blanks; `distinct`: no key of an object comes twice; no string holds a `closing` text."""
        key = (whitespace, distinct, closing)
        found = self._bases.get(key)
        if found is None:
            found = self._bases[key] = _lay(self.builder, *key)
        return found

    def mark(self) -> Mark:
        """The size now."""
        return Mark(len(self.builder.nodes), len(self.builder.rules), len(self._bases), len(self.shared), len(self.tags))

    def restore(self, mark: Mark) -> None:
        """Remove everything added after a mark."""
        b = self.builder
        for node in b.nodes[mark.nodes :]:
            del b.index[node]
        del b.nodes[mark.nodes :], b.rules[mark.rules :], b.names[mark.rules :]
        while len(self.tags) > mark.tags:
            self._written -= len(self.tags.popitem()[0])
        for table, size in ((self._bases, mark.bases), (self.shared, mark.shared)):
            while len(table) > size:
                table.popitem()
        for tag in self.tags.values():
            tag.after.clear()


def _lay(builder: GrammarBuilder, whitespace: str, distinct: bool, closing: tuple[str, ...]) -> Fragments:
    """Add the fixed parts of JSON to a builder that is not empty."""
    parts, fragments = template(whitespace, "needed", distinct=distinct, closing=closing)
    first = len(builder.rules) - 1  # rule 0 of the fixed parts is a root that nothing calls
    for name in parts.names[1:]:
        builder.rule(name)
    embedded: list[NodeId] = []
    extend(builder, parts.nodes, embedded, first)
    for rule, body in enumerate(parts.rules[1:], 1):
        builder.define(RuleId(first + rule), embedded[body])
    return fragments.moved(embedded)


class Arenas:
    """The arenas that are not in use, shared by threads."""

    def __init__(self) -> None:
        self._free: list[Arena] = []  # least recently used first
        self._lock = Lock()

    def take(self, keys: Sequence[bytes]) -> Arena:
        """An arena for tags with these keys: the one with most of them, else one with room, else a new one."""
        sample = keys[:: max(1, len(keys) // _SAMPLE)]
        with self._lock:
            most, found = 0, -1
            for index, arena in enumerate(self._free):
                count = sum(map(arena.tags.__contains__, sample))
                if count >= most and (2 * count >= len(sample) or len(arena.builder.nodes) <= _MOST_UNUSED):
                    most, found = count, index
            return Arena() if found < 0 else self._free.pop(found)

    def give(self, arena: Arena, used: int) -> None:
        """Take an arena back; `used` is the number of its nodes in the last grammar. It is dropped if it has too many others."""
        # PERF: an engine reads 15 nodes in a microsecond, reachable or not
        if len(arena.builder.nodes) > _SPARE * used + _MOST_UNUSED or arena.size > _MOST_BYTES:
            return
        with self._lock:
            self._free.append(arena)
            while (
                len(self._free) > _MOST_ARENAS
                or sum(len(kept.builder.nodes) for kept in self._free) > _MOST_NODES
                or sum(kept.size for kept in self._free) > _MOST_BYTES
            ):
                del self._free[0]

    def __len__(self) -> int:
        """The number of free arenas."""
        return len(self._free)
