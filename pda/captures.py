"""The captured parts of a text: what was read by each CAPTURE of a grammar, in one way to read the text.

The kernel keeps no record of how it came to where it is, and few people ask for captures, and once a text.
So the accepted steps are read again by the reference engine, which notes why each item came about; then the ways are followed back from
the end, in time linear in the text where the grammar is unambiguous.

Where a text can be read in several ways, one is taken: from the end backwards, at every place the way whose last part begins latest, so
that earlier parts are as long as they can be, but with a part that reads nothing only where there is no other way; of several such ways
always the same one.
A text that is not complete is taken to have ended whatever may end: among the places where it can go on, the outermost counts, and among
those the one whose last part begins latest. Captures that are open there are left out.
Ways that a LIMIT has cut off do not count.

Reading again costs some 10 us a byte, or more where much is going on at once; it is bounded by the limits on time and states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from .budget import Budget
from .exceptions import LimitError
from .grammar import Grammar
from .limits import Limits
from .packed import PackedGrammar
from .reference.earley import Begun, Chart, Column, Item
from .reference.program import Program

Capture: TypeAlias = tuple[str, bytes]


class Vocabulary:
    """What a grammar must know of a vocabulary: its size, the ids with text, which are only counted when asked for, and their text."""

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
        self._vocabulary = Vocabulary(size, text_of)
        self._limits = limits
        self._program: Program | None = None

    def read(self, steps: Sequence[int | bytes], *, deduplicate: bool = True) -> list[Capture]:
        """The captures of a text that was accepted in these steps, tokens or texts, in the order of their ends, inner ones first.

        With `deduplicate` captures of the same name at the same place count once.
        """
        limits = self._limits
        if self._program is None:
            grammar = self._grammar.unpack() if isinstance(self._grammar, PackedGrammar) else self._grammar
            self._program = Program(
                grammar, self._vocabulary, states=limits.states, memory=limits.grammar_bytes, seconds=limits.compile_seconds
            )
        if not any(rule.capture is not None for rule in self._program.rules):
            return []
        chart = _TracingChart(self._program, limits)
        column: Column | None = chart.first()
        for step in steps:
            assert column is not None
            if isinstance(step, int):
                column = chart.read_token(column, step, self._vocabulary.text_of(step) or b"")
            else:
                for byte in step:
                    column = chart.read_byte(column, byte) if column is not None else None
            if column is None:
                raise ValueError("these steps are no start of a text of the grammar")
            column = chart.end_token(column) if step != b"" else column
        assert column is not None
        found = list(chart.ways.captures(self._program, column))
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
    """A rule that ended: where it began, who called it there, and the item that ended it, in the column of what it caused."""

    number: int
    caller: Item
    last: Item


_Cause: TypeAlias = _Read | _Ended | None


class _Ways:
    """How items came about, column by column: a forest of all ways to read the text."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.budget = Budget(limits)
        self.numbers: dict[Column, int] = {}
        self.causes: list[dict[Item, list[_Cause]]] = []
        self.homes: dict[Begun, int] = {}
        self.callers: dict[tuple[Begun, Item], Item] = {}
        self.count = 0

    def number(self, column: Column) -> int:
        """The number of a column; they grow along the text."""
        found = self.numbers.get(column)
        if found is None:
            found = self.numbers[column] = len(self.causes)
            self.causes.append({})
        return found

    def caused(self, column: Column, item: Item, cause: Any) -> None:
        """An item and one cause of it."""
        if isinstance(cause, tuple) and not isinstance(cause, _Read):
            begun, waiting, last = cause
            cause = _Ended(self.homes[begun], self.callers[begun, waiting], last)
        self.causes[self.number(column)].setdefault(item, []).append(cause)
        self.count += 1
        if self.count > self.limits.states:
            most = self.limits.states
            raise LimitError(f"reading the text again for its captures takes more than {most} items", limit="states", value=most)
        if not self.count & 0x3FF:
            self.budget.check_time()

    def called(self, column: Column, begun: Begun, waiting: Item, caller: Item) -> None:
        """A rule begun, and the first item that called it to go on as `waiting`."""
        self.homes.setdefault(begun, self.number(column))
        self.callers.setdefault((begun, waiting), caller)

    def replaced(self, column: Column, twins: dict[Begun, Begun]) -> None:
        """Rules begun that stand for others from this column on."""
        for begun, twin in twins.items():
            if begun in self.homes:
                self.homes[twin] = self.homes[begun]
            for waiting in begun.waiting:
                if waiting[3] in twins:
                    self.callers[twin, (*waiting[:3], twins[waiting[3]])] = self.callers[begun, waiting]
        here = self.causes[self.number(column)]
        here |= {(*item[:3], twins[item[3]]): causes for item, causes in here.items() if item[3] in twins}

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
        # The nearest way out to the root: each rule begun by the one that waits for it, breadth first.
        inside: dict[Begun, tuple[Begun, Item] | None] = {innermost: None}
        for begun in (queue := [innermost]):
            for waiting in begun.waiting:
                if waiting[3] not in inside:
                    inside[waiting[3]] = (begun, waiting)
                    queue.append(waiting[3])
        root = next(begun for begun in inside if not begun.depth)
        places: list[tuple[int, Item]] = []
        step = inside[root]
        while step is not None:
            begun, waiting = step
            places.append((self.homes[begun], self.callers[begun, waiting]))
            step = inside[begun]
        return [*places, (number, item)]

    def choose(self, number: int, item: Item) -> _Cause:
        """One cause of an item: that which begins latest, but after its rule began, else the first.

        INVARIANT: so every step back leads to an earlier column, to a shorter part, or to an item found before: there is an end.
        """
        causes = self.causes[number][item]
        home = self.homes.get(item[3], 0)
        if None in causes:
            return None
        inner = [cause for cause in causes if cause is not None and home < cause.number < number]
        return max(inner, key=lambda cause: cause.number) if inner else causes[0]


class _TracingChart(Chart):
    """The chart, with the causes of all items."""

    def __init__(self, program: Program, limits: Limits) -> None:
        super().__init__(program, states=limits.states, stack_depth=limits.stack_depth)
        self.trace = self.ways = _Ways(limits)

    def _scan_byte(self, column: Column, byte: int) -> list[Any]:
        moves = self.program.moves
        number = self.ways.number(column)
        return [(target, (0, 0), item[2], item[3], _Read(number, item)) for item in column.reading for target in moves(item[0], byte)]

    def _scan_token(self, column: Column, token: int) -> list[Any]:
        number = self.ways.number(column)
        return [
            (target, (0, 0), item[2], item[3], _Read(number, item))
            for item in column.reading
            for ids, target in self.program.states[item[0]].tokens
            if token in ids
        ]
