"""The captured parts of a text: the text that each CAPTURE of a grammar read, in one reading of the text.

The kernel keeps no record of how it came to where it is, and few people ask for captures, and once a text.
So the accepted steps are read again by the reference engine, which notes why each item came about; then the ways are followed back from
the end, in time linear in the text where the grammar is unambiguous.

Where a text can be read in several ways, one is taken: from the end backwards, at every position the way whose last part begins latest, so
that earlier parts are as long as they can be, but with a part that reads nothing only where there is no other way; of several such ways
always the same one.
A text that is not complete is taken to have ended whatever may end: among the steps where it can go on, the outermost counts, and among
those the one whose last part begins latest. Captures that are open there are left out.
Ways that a LIMIT has cut off do not count.

Reading again costs some 10 us a byte, or more where much is going on at once; it is bounded by the limits on time and states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from .budget import Budget
from .exceptions import LimitError
from .grammar import Grammar
from .limits import Limits
from .packed import PackedGrammar
from .reference.columns import Cause, Column, Completed, Item, Scanned, StackNode
from .reference.program import Program
from .reference.unique import UniqueChart

Capture: TypeAlias = tuple[str, bytes]


class Vocabulary:
    """The part of a vocabulary that a grammar needs: its size, the ids with text, which are only counted when asked for, and their text."""

    def __init__(self, size: int, text_of: Callable[[int], bytes | None]) -> None:
        self.size = size
        self.text_of = text_of

    @property
    def with_text(self) -> frozenset[int]:
        """The ids that have text."""
        return frozenset(i for i in range(self.size) if self.text_of(i))


class CaptureReader:
    """Finds the captures of accepted texts; made once a grammar, and shared by its matchers."""

    def __init__(self, grammar: Grammar | PackedGrammar, size: int, text_of: Callable[[int], bytes | None], limits: Limits) -> None:
        self._grammar = grammar
        self._size = size
        self._text_of = text_of
        self._limits = limits
        self._program: Program | None = None

    def read(self, steps: Sequence[int | bytes], *, deduplicate: bool = True) -> list[Capture]:
        """The captures of a text that was accepted in these steps, tokens or texts, in the order of their ends, inner ones first.

        With `deduplicate` captures of the same name at the same position count once.
        """
        limits = self._limits
        if self._program is None:
            grammar = self._grammar.unpack() if isinstance(self._grammar, PackedGrammar) else self._grammar
            self._program = Program(
                grammar,
                Vocabulary(self._size, self._text_of),
                states=limits.states,
                memory=limits.grammar_bytes,
                seconds=limits.compile_seconds,
            )
        if not any(rule.capture is not None for rule in self._program.rules):
            return []
        chart = UniqueChart(self._program, states=limits.states, stack_depth=limits.stack_depth)
        chart.trace = ways = _Ways(limits)
        column: Column | None = chart.first()
        for step in steps:
            assert column is not None
            if isinstance(step, int):
                column = chart.read_token(column, step, self._text_of(step) or b"")
            else:
                for byte in step:
                    column = chart.read_byte(column, byte) if column is not None else None
            if column is None:
                raise ValueError("the grammar does not allow these steps")
            column = chart.end_token(column) if step != b"" else column
        assert column is not None
        found = list(ways.captures(self._program, column))
        found = list(dict.fromkeys(found)) if deduplicate else found
        text = column.text_from(0)
        return [(span.name, text[span.start : span.end]) for span in found]


class _Span(NamedTuple):
    """A capture, and where in the text it stands."""

    name: str
    start: int
    end: int


class _Read(NamedTuple):
    """The item that was before a byte or a token, and its column."""

    number: int
    item: Item


class _Ended(NamedTuple):
    """A rule that ended: where it began, who called it there, and the item that ended it, in the column of its cause."""

    number: int
    caller: Item
    last: Item


_Way: TypeAlias = _Read | _Ended | None


class _Ways:
    """The derivations of items, column by column: a forest of all ways to read the text."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.budget = Budget(limits)
        self.numbers: dict[Column, int] = {}
        self.causes: list[dict[Item, list[_Way]]] = []
        self.homes: dict[StackNode, int] = {}
        self.callers: dict[tuple[StackNode, Item], Item] = {}
        self.count = 0

    def number(self, column: Column) -> int:
        """The number of a column; they grow along the text."""
        found = self.numbers.get(column)
        if found is None:
            found = self.numbers[column] = len(self.causes)
            self.causes.append({})
        return found

    def caused(self, column: Column, item: Item, cause: Cause) -> None:
        """An item and one cause of it."""
        number = self.number(column)
        match cause:
            case Scanned(before, read):
                way: _Way = _Read(self.numbers[before], read)
            case Completed(node, waiting, last):
                way = _Ended(self.homes[node], self.callers[node, waiting], last)
            case None:
                way = None
        self.causes[number].setdefault(item, []).append(way)
        self.count += 1
        if self.count > self.limits.states:
            most = self.limits.states
            raise LimitError(f"reading the text again for its captures takes more than {most} items", limit="states", value=most)
        if not self.count & 0x3FF:
            self.budget.spend(0)  # the text was generated within its own limits: no work, but the clock and the caller's wish to end

    def called(self, column: Column, node: StackNode, waiting: Item, caller: Item) -> None:
        """The column where the rule of a node began, and the first item that called it for `waiting`."""
        self.homes.setdefault(node, self.number(column))
        self.callers.setdefault((node, waiting), caller)

    def replaced(self, column: Column, copies: dict[StackNode, StackNode]) -> None:
        """From this column on, each node gives way to its copy."""
        for node, copy in copies.items():
            if node in self.homes:
                self.homes[copy] = self.homes[node]
            for waiting in node.waiting:
                if waiting[3] in copies:
                    self.callers[copy, (*waiting[:3], copies[waiting[3]])] = self.callers[node, waiting]
        here = self.causes[self.number(column)]
        here |= {(*item[:3], copies[item[3]]): causes for item, causes in here.items() if item[3] in copies}

    def captures(self, program: Program, column: Column) -> list[_Span]:
        """The captures on one way to the end of the text."""
        offsets = {number: each.offset for each, number in self.numbers.items()}
        spans: list[_Span] = []
        todo = self.ends(program, column)
        while todo:
            number, item = todo.pop()
            cause = self.choose(number, item)
            if cause is None:
                continue
            if isinstance(cause, _Read):
                todo.append((cause.number, cause.item))
                continue
            name = program.rules[cause.last[3].rule].capture
            if name is not None:
                spans.append(_Span(name, offsets[cause.number], offsets[number]))
            todo += ((cause.number, cause.caller), (number, cause.last))
        return spans[::-1]

    def ends(self, program: Program, column: Column) -> list[tuple[int, Item]]:
        """Where the way ends: in the root rule where the text is complete, else in a rule that reads on, after those around it."""
        number = self.number(column)
        if column.is_complete:
            return [(number, next(item for item in column.items if not item[3].depth and program.ends(item[0], item[1])))]

        def latest(item: Item) -> int:
            cause = self.choose(number, item)
            return number if cause is None else cause.number

        outermost = min(item[3].depth for item in column.reading)
        item = max((item for item in column.reading if item[3].depth == outermost), key=latest)
        innermost = item[3]
        # The nearest way out to the root: each node under the one that waits for it, breadth first.
        inside: dict[StackNode, tuple[StackNode, Item] | None] = {innermost: None}
        for node in (queue := [innermost]):
            for waiting in node.waiting:
                if waiting[3] not in inside:
                    inside[waiting[3]] = (node, waiting)
                    queue.append(waiting[3])
        root = next(node for node in inside if not node.depth)
        steps: list[tuple[int, Item]] = []
        step = inside[root]
        while step is not None:
            node, waiting = step
            steps.append((self.homes[node], self.callers[node, waiting]))
            step = inside[node]
        return [*steps, (number, item)]

    def choose(self, number: int, item: Item) -> _Way:
        """One cause of an item: that which begins latest, but after its rule began, else the first.

        INVARIANT: so every step back leads to an earlier column, to a shorter part, or to an item found before: there is an end.
        """
        causes = self.causes[number][item]
        home = self.homes.get(item[3], 0)
        if None in causes:
            return None
        inner = [cause for cause in causes if cause is not None and home < cause.number < number]
        return max(inner, key=lambda cause: cause.number) if inner else causes[0]
