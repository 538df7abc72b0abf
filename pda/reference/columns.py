"""The data of the chart: items, the nodes of the graph-structured stack, and columns.

A column holds the items that are possible after some text.
An item is (state, register, seen values, stack node): how far a rule has been read, as a state of the Program and its register.
A stack node is a rule that began at some offset, with the items that wait for its end; so the nodes form a graph-structured stack.

Tomita, Efficient Parsing for Natural Language (1985).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple, Protocol, TypeAlias

from .program import Cost, Register

SeenValues: TypeAlias = frozenset[bytes]
"""The digests of the values that DISTINCT has read in the innermost SCOPE."""
NONE_SEEN: SeenValues = frozenset()


class StackNode:
    """A rule that began at some offset with some seen values, and the items that wait for its end."""

    __slots__ = ("depth", "ends", "offset", "outer", "rule", "seen", "tokens", "waiting")

    def __init__(self, rule: int, seen: SeenValues, offset: int, depth: int, tokens: int = 0) -> None:
        self.rule = rule
        self.seen = seen
        self.offset = offset
        self.depth = depth
        self.tokens = tokens  # read before it began
        self.waiting: dict[Item, None] = {}
        self.ends: dict[SeenValues, Item] = {}  # where it read nothing: the seen values at each of its ends, and the item that ended
        self.outer: Cost = -1  # the least that remains to be read after its end; -1 is not computed

    def copy(self) -> StackNode:
        """The same rule, with no item waiting yet."""
        copy = StackNode(self.rule, self.seen, self.offset, self.depth, self.tokens)
        copy.outer = -1 if self.depth else 0
        return copy


Item: TypeAlias = tuple[int, Register, SeenValues, StackNode]


class Column:
    """The items after some text; `previous` and `data` give the text back.

    A trial column explores the texts of the rule of one stack node alone: the end of that rule resumes no item.
    """

    __slots__ = ("agenda", "began", "data", "ended", "is_complete", "items", "offset", "previous", "reading", "tokens", "trial")

    def __init__(self, previous: Column | None, data: bytes, *, trial: StackNode | None = None) -> None:
        self.previous = previous
        self.data = data
        self.trial = trial
        self.offset: int = len(data) + (previous.offset if previous else 0)
        self.items: dict[Item, None] = {}
        self.agenda: list[Item] = []  # items that predict and complete have yet to take; none once the column is closed
        self.reading: list[Item] = []  # the items that read a byte or a token
        self.is_complete = False
        self.tokens: int = previous.tokens if previous else 0  # read to their end
        self.began: dict[tuple[int, SeenValues], StackNode] = {}  # the rules that began here
        self.ended: set[StackNode] = set()  # the rules with a limit that may end here

    def keep(self, nodes: Container[StackNode]) -> None:
        """Drop every item of a rule that is not among these."""
        self.items = {item: None for item in self.items if item[3] in nodes}
        self.reading = [item for item in self.reading if item[3] in nodes]

    def copy(self) -> Column:
        """A column with the same items."""
        copy = Column(self.previous, self.data)
        copy.items, copy.reading, copy.is_complete = self.items, self.reading, self.is_complete
        return copy

    def text_from(self, offset: int) -> bytes:
        """The text from an offset to here; the offset may lie inside the token that a column read."""
        pieces: list[bytes] = []
        column: Column | None = self
        while column is not None and column.offset > offset:
            pieces.append(column.data[max(0, len(column.data) - (column.offset - offset)) :])
            column = column.previous
        return b"".join(reversed(pieces))


class Scanned(NamedTuple):
    """An item exists because this item of the column before read a byte or a token."""

    column: Column
    item: Item


class Completed(NamedTuple):
    """An item exists because the rule of a stack node, for which `waiting` waited, ended with the item `last`."""

    node: StackNode
    waiting: Item
    last: Item


Cause: TypeAlias = Scanned | Completed | None
"""Why an item exists; None where its rule begins."""


class Trace(Protocol):
    """Receives the causes of items while columns are made; see captures."""

    def caused(self, column: Column, item: Item, cause: Cause) -> None:
        """An item of a column has this cause."""

    def called(self, column: Column, node: StackNode, waiting: Item, caller: Item) -> None:
        """The item `caller` calls the rule of `node`, which begins in this column; `waiting` waits for its end."""

    def replaced(self, column: Column, copies: dict[StackNode, StackNode]) -> None:
        """A limit ended some rules: from this column on, each node gives way to its copy."""


def inside_of(nodes: Iterable[StackNode], outermost: StackNode) -> set[StackNode]:
    """The nodes among `nodes` from which a way through `nodes` leads up to `outermost`, and `outermost` itself."""
    inside: dict[StackNode, list[StackNode]] = {}
    for node in nodes:
        if node is not outermost:
            for waiting in node.waiting:
                inside.setdefault(waiting[3], []).append(node)
    reached = {outermost}
    pending = [outermost]
    while pending:
        for node in inside.get(pending.pop(), ()):
            if node not in reached:
                reached.add(node)
                pending.append(node)
    return reached


def above(items: Iterable[Item], *, stop: StackNode | None = None, stop_at_priced: bool = False) -> dict[StackNode, None]:
    """The nodes of these items and all above them, breadth first: to the root, to `stop`, or to nodes whose `outer` is computed."""
    reached = dict.fromkeys(item[3] for item in items)
    queue = list(reached)
    for node in queue:
        if node is stop or (stop_at_priced and node.outer >= 0):
            continue
        for waiting in node.waiting:
            if waiting[3] not in reached:
                reached[waiting[3]] = None
                queue.append(waiting[3])
    return reached
