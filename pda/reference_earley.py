"""Earley's algorithm over the states of a Program, byte by byte: the chart of the reference engine.

A column holds what may be going on after some text: items (state, register, values seen, rule begun).
A begun rule knows the column's offset where it began and who waits for it; so begun rules form a graph-structured stack.

    predict    an item that may call a rule begins it in this column, or joins those that wait for it here
    complete   an item that may end its rule resumes all who wait for it; who joins later is resumed at once where the rule read nothing
    scan       an item that reads the next byte (or the next token, by its id) goes to the next column

Earley, CACM 13 (1970); the treatment of empty rules follows Aycock and Horspool, The Computer Journal 45 (2002), done at run time because
the values seen, which DISTINCT compares and SCOPE makes afresh, are part of an item.
Left recursion, ambiguity and empty rules need nothing further. Columns never change once made, so rollback and fork need nothing either.

A prefix inside a DISTINCT is dead where all texts that its operand could still become are finite in number and spell values seen before.
Likewise a DISTINCT is not begun where its whole operand is finite and used up. Both are decided by enumeration.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from heapq import heappop, heappush
from math import inf
from typing import Any, Protocol

from stackmask.pda.exceptions import GrammarError, LimitError
from stackmask.pda.reference_finite import BLANKS, Endless
from stackmask.pda.reference_program import COUNT, START, TOKEN_COST, Cost, Costs, Program, Register
from stackmask.pda.reference_values import is_inside_string, value_digest, without_blanks

Seen = frozenset[bytes]
NOTHING: Seen = frozenset()


class Begun:
    """A rule begun at some offset with some values seen, and the items that wait for its end."""

    __slots__ = ("depth", "done", "offset", "outer", "rule", "seen", "tokens", "waiting")

    def __init__(self, rule: int, seen: Seen, offset: int, depth: int, tokens: int = 0) -> None:
        self.rule = rule
        self.seen = seen
        self.offset = offset
        self.depth = depth
        self.tokens = tokens  # read before it began
        self.waiting: dict[Item, None] = {}
        self.done: dict[Seen, Item] = {}  # the values seen at each of its ends in the column where it began, and what ended there
        self.outer: Cost = -1  # the least that is to be read after its end, once it is known

    def twin(self) -> Begun:
        """The same, with nobody waiting yet."""
        twin = Begun(self.rule, self.seen, self.offset, self.depth, self.tokens)
        twin.outer = -1 if self.depth else 0
        return twin


Item = tuple[int, Register, Seen, Begun]


class Column:
    """The items after some text; `previous` and `data` give the text back."""

    __slots__ = ("begun", "data", "ended", "is_complete", "items", "offset", "previous", "reading", "tokens")

    def __init__(self, previous: Column | None, data: bytes) -> None:
        self.previous = previous
        self.data = data
        self.offset: int = len(data) + (previous.offset if previous else 0)
        self.items: dict[Item, None] = {}
        self.reading: list[Item] = []  # those that read a byte or a token
        self.is_complete = False
        self.tokens: int = previous.tokens if previous else 0  # read; the one that is being read does not count
        self.begun: list[Begun] = []  # in this column
        self.ended: set[Begun] = set()  # those with a limit that may end here

    def keep(self, begun: Container[Begun]) -> None:
        """Drop all items but those of these rules."""
        self.items = {item: None for item in self.items if item[3] in begun}
        self.reading = [item for item in self.reading if item[3] in begun]

    def copy(self) -> Column:
        """The same items once more."""
        twin = Column(self.previous, self.data)
        twin.items, twin.reading, twin.is_complete = self.items, self.reading, self.is_complete
        return twin

    def text_from(self, offset: int) -> bytes:
        """The text from an offset to here; it may lie inside of the token that a column read."""
        parts: list[bytes] = []
        column: Column | None = self
        while column is not None and column.offset > offset:
            parts.append(column.data[max(0, len(column.data) - (column.offset - offset)) :])
            column = column.previous
        return b"".join(reversed(parts))


class Trace(Protocol):
    """Is told how items come about; see captures."""

    def caused(self, column: Column, item: Item, cause: Any) -> None:
        """An item of a column, and why: what was read, a rule that ended, or None where its own rule begins."""

    def called(self, column: Column, begun: Begun, waiting: Item, caller: Item) -> None:
        """A rule begun in this column by an item, and what waits for its end."""

    def replaced(self, column: Column, twins: dict[Begun, Begun]) -> None:
        """Rules begun that a limit has cut some ways out of, by what stands in their place."""


class Chart:
    """Makes the columns of one program."""

    def __init__(self, program: Program, *, states: int, stack_depth: int) -> None:
        self.program = program
        self.states = states
        self.stack_depth = stack_depth
        self.trace: Trace | None = None
        self._endless = Endless(program) if program.has_distinct else None
        self._without: dict[Seen, Costs] = {NOTHING: program.costs}
        self._rules_without: dict[frozenset[int], Costs] = {frozenset(): program.costs}

    def first(self) -> Column:
        """The column before any text."""
        program = self.program
        root = Begun(program.root, NOTHING, 0, 0)
        root.outer = 0
        return self._alive(self._close(Column(None, b""), [(program.rules[program.root].start, START, NOTHING, root)]))

    def read_byte(self, column: Column, byte: int) -> Column | None:
        """The column after one more byte, or None where it may not follow."""
        return self._finish(Column(column, bytes((byte,))), self._scan_byte(column, byte))

    def read_token(self, column: Column, token: int, text: bytes) -> Column | None:
        """The column after one more token, read as its text or by its id."""
        items = self._scan_token(column, token)
        before: Column | None = column
        for byte in text[:-1]:
            before = self.read_byte(before, byte) if before is not None else None
        if text and before is not None:
            items += self._scan_byte(before, text[-1])
        return self._finish(Column(column, text), items)

    def end_token(self, column: Column) -> Column:
        """A column just made by reading a token or a part of one, as the one where the token ends.

        Every rule begun that has spanned its limit and may end here ends: what is inside of it is cut.
        INVARIANT: what follows it is there already, for no LIMIT is in a SCOPE.
        """
        if not self.program.has_limit:
            return column
        column.tokens += 1
        for begun in column.begun:
            begun.tokens = column.tokens
        cut = {begun for begun in column.ended if column.tokens - begun.tokens >= self.program.rules[begun.rule].limit}
        if cut:
            above = _above(item[3] for item in column.items)
            root = next(begun for begun in above if not begun.depth)
            twins = {begun: begun.twin() for begun in _inside({begun: None for begun in above if begun not in cut}, root)}
            for begun, twin in twins.items():
                for state, register, seen, outer in begun.waiting:
                    if outer in twins:
                        twin.waiting[state, register, seen, twins[outer]] = None
            if self.trace is not None:
                self.trace.replaced(column, twins)
            column.items = {(s, r, seen, twins[begun]): None for s, r, seen, begun in column.items if begun in twins}
            column.reading = [(s, r, seen, twins[begun]) for s, r, seen, begun in column.reading if begun in twins]
        return column

    def temperature(self, column: Column) -> float | None:
        """The highest temperature that something going on asks for, by the innermost rule that has one."""
        rules = self.program.rules
        found: list[float] = []
        pending = list(reached := dict.fromkeys(item[3] for item in column.reading) if self.program.has_temperature else {})
        while pending:
            begun = pending.pop()
            temperature = rules[begun.rule].temperature
            if temperature is not None:
                found.append(temperature)
                continue
            for waiting in begun.waiting:
                if waiting[3] not in reached:
                    reached[waiting[3]] = None
                    pending.append(waiting[3])
        return max(found, default=None)

    def bytes_after(self, column: Column) -> list[int]:
        """The bytes that may follow, sorted."""
        found: set[int] = set()
        for state, _, _, _ in column.reading:
            for lo, hi, _ in self.program.states[state].bytes:
                found.update(range(lo, hi + 1))
        if self.program.has_distinct:
            return [byte for byte in sorted(found) if self.read_byte(column, byte) is not None]
        return sorted(found)

    def names_ids(self, column: Column) -> bool:
        """Whether a token may be read by its id."""
        return any(self.program.states[state].tokens for state, _, _, _ in column.reading)

    def ids_after(self, column: Column) -> list[int]:
        """The tokens that may be read by id."""
        named = {i for state, _, _, _ in column.reading for ids, _ in self.program.states[state].tokens for i in ids}
        return [i for i in sorted(named) if self._finish(Column(column, b""), self._scan_token(column, i)) is not None]

    def _scan_byte(self, column: Column, byte: int) -> list[Item]:
        moves = self.program.moves
        return [(target, START, seen, begun) for state, _, seen, begun in column.reading for target in moves(state, byte)]

    def _scan_token(self, column: Column, token: int) -> list[Item]:
        return [
            (target, START, seen, begun)
            for state, _, seen, begun in column.reading
            for ids, target in self.program.states[state].tokens
            if token in ids
        ]

    def _finish(self, column: Column, items: list[Item]) -> Column | None:
        """Close a column; None where nothing is alive in it."""
        if not items:
            return None
        column = self._alive(self._close(column, items))
        # items that only call rules that are used up lead nowhere
        return column if column.is_complete or column.reading else None

    def _close(self, column: Column, items: Iterable[Item], *, within: Begun | None = None) -> Column:
        """Predict and complete until nothing is new; the end of the rule `within` resumes nobody."""
        program, rules = self.program, self.program.rules
        begun_here: dict[tuple[int, Seen], Begun] = {}
        agenda: list[Item] = []
        trace = self.trace if within is None else None

        def add(state: int, register: Register, seen: Seen, begun: Begun, cause: object = None) -> None:
            if seen and within is None and self._costs(seen).of(state, register) == inf:
                return
            for target in program.closure(state):
                item = (target, register, seen, begun)
                if trace is not None:
                    trace.caused(column, item, cause)
                if item not in column.items:
                    column.items[item] = None
                    agenda.append(item)
            if len(column.items) > self.states:
                raise LimitError(f"more than {self.states} states at once", limit="states", value=self.states)

        def resume(waiting: Item, ended: Begun, seen: Seen, last: Item) -> None:
            state, register, before, begun = waiting
            add(state, register, before if rules[ended.rule].is_scope else seen, begun, (ended, waiting, last))

        def complete(begun: Begun, seen: Seen, last: Item) -> None:
            rule = begun.rule
            if rules[rule].is_distinct:
                text = column.text_from(begun.offset)
                value = value_digest(text)
                if not text or value in seen:
                    return
                seen |= {value}
            if begun_here.get((rule, begun.seen)) is begun:
                begun.done.setdefault(seen, last)
            column.is_complete |= not begun.depth
            if rules[rule].limit >= 0:
                column.ended.add(begun)
            if begun is not within:
                for waiting in list(begun.waiting):
                    # reading nothing does not count as an occurrence: see Program._trim
                    if not (begun_here.get((rule, begun.seen)) is begun and self._counts(waiting)):
                        resume(waiting, begun, seen, last)

        def predict(callee: int, waiting: Item, seen: Seen, caller: Item) -> None:
            depth = waiting[3].depth + 1
            if depth > self.stack_depth:
                raise LimitError(f"more than {self.stack_depth} rules inside one another", limit="stack_depth", value=self.stack_depth)
            inner = NOTHING if rules[callee].is_scope else seen
            begun = begun_here.get((callee, inner))
            if begun is None:
                begun = begun_here[callee, inner] = Begun(callee, inner, column.offset, depth, column.tokens)
                column.begun.append(begun)
                begun.waiting[waiting] = None
                if trace is not None:
                    trace.called(column, begun, waiting, caller)
                add(rules[callee].start, START, inner, begun)
            elif waiting not in begun.waiting:
                begun.waiting[waiting] = None
                if trace is not None:
                    trace.called(column, begun, waiting, caller)
                if not self._counts(waiting):
                    for after, last in list(begun.done.items()):
                        resume(waiting, begun, after, last)

        for item in items:
            add(*item)
        while agenda:
            state, register, seen, begun = item = agenda.pop()
            if program.states[state].bytes or program.states[state].tokens:
                column.reading.append(item)
            if program.ends(state, register):
                complete(begun, seen, item)
            blocked = self._costs(seen).rules if seen and within is None else None
            for callee, target, following in program.calls(state, register):
                if blocked is None or blocked[callee] < inf:
                    predict(callee, (target, following, seen, begun), seen, item)
        return column

    def _counts(self, waiting: Item) -> bool:
        """Whether this item waits for one more occurrence of a repeated expression."""
        return self.program.states[waiting[0]].kind == COUNT

    def _costs(self, seen: Seen) -> Costs:
        """The costs where every DISTINCT that can read nothing but `seen` reads nothing."""
        found = self._without.get(seen)
        if found is None:
            blocked = frozenset(
                number for number, rule in enumerate(self.program.rules) if rule.is_distinct and self._is_used_up(number, seen)
            )
            found = self._rules_without.get(blocked)
            if found is None:
                found = self._rules_without[blocked] = self.program.costs_without(blocked)
            if len(self._without) > 1000:
                self._without = {NOTHING: self.program.costs}
            self._without[seen] = found
        return found

    def _is_used_up(self, rule: int, seen: Seen) -> bool:
        """Whether a DISTINCT generates a finite number of texts, all of them values seen."""
        begun = Begun(rule, seen, 0, 1)
        column = self._close(Column(None, b""), [(self.program.rules[rule].start, START, seen, begun)], within=begun)
        return not self._has_new_value(column, begun)

    def _alive(self, column: Column) -> Column:
        """The column without the items that only a dead DISTINCT waits for."""
        if not self.program.has_distinct:
            return column
        above = _above(item[3] for item in column.items)
        dead = {begun for begun in above if self.program.rules[begun.rule].is_distinct and not self._has_new_value(column, begun)}
        if not dead:
            return column
        root = next(begun for begun in above if not begun.depth)
        alive = _inside({begun: None for begun in above if begun not in dead}, root)
        column.keep(alive)
        return column

    def _has_new_value(self, column: Column, begun: Begun) -> bool:
        """Whether a DISTINCT begun can still become a value not seen."""
        return any(self._finds_new_value(column, begun, blanks=blanks) for blanks in (False, True))

    def _finds_new_value(self, column: Column, begun: Begun, *, blanks: bool) -> bool:
        """The same, depth first through its texts, unless they are endless in number; without blanks between the parts of a value, or with.

        Texts that differ by such blanks alone, and stand at the same places, go on alike.
        """
        pending = [self._restricted(column.copy(), begun)]
        budget = 10_000
        visited: set[tuple[bytes, frozenset[tuple[int, Register]]]] = set()
        while pending:
            column = pending.pop()
            if not column.items:
                continue
            text = column.text_from(begun.offset)
            place = (without_blanks(text), frozenset((item[0], item[1]) for item in column.items))
            if place in visited:
                continue
            visited.add(place)
            if not budget or self.names_ids(column) or self._is_endless(column, begun):
                return True
            budget -= 1
            for state, register, seen, rule in column.items:
                if rule is begun and self.program.ends(state, register) and value_digest(text) not in seen:
                    return True
            following = {b for item in column.reading for lo, hi, _ in self.program.states[item[0]].bytes for b in range(lo, hi + 1)}
            if not blanks and not is_inside_string(text):
                following -= BLANKS
            for byte in following:
                after = self._close(Column(column, bytes((byte,))), self._scan_byte(column, byte), within=begun)
                pending.append(self._restricted(after, begun))
        return False

    def _is_endless(self, column: Column, begun: Begun) -> bool:
        """Whether infinitely many texts end a rule begun, whose items alone the column holds."""
        assert self._endless is not None
        if any(self._endless.of(item[0], item[1]) for item in column.items):
            return True
        inside = _inside(_above((item[3] for item in column.items), stop=begun), begun)
        return any(
            self._endless.of(state, register)
            for rule in inside
            if rule is not begun
            for state, register, _, waiting in rule.waiting
            if waiting in inside
        )

    @staticmethod
    def _restricted(column: Column, begun: Begun) -> Column:
        """The column, left with the items inside one rule begun."""
        reached = _inside(_above((item[3] for item in column.items), stop=begun), begun)
        column.keep(reached)
        return column

    def cost(self, column: Column) -> Cost:
        """The least that is to be read until the text is complete, values seen aside."""
        self._price(column)
        return min((self._cost_of(item) for item in column.items), default=inf)

    def cheapest_bytes(self, column: Column) -> dict[int, Cost]:
        """Per byte that may follow the least that is to be read with it, values seen aside."""
        self._price(column)
        result: dict[int, Cost] = {}
        for state, _, _, begun in column.reading:
            for lo, hi, target in self.program.states[state].bytes:
                whole = 1 + self.program.costs.states[target] + begun.outer
                for byte in range(lo, hi + 1):
                    if whole < result.get(byte, inf):
                        result[byte] = whole
        return result

    def _cost_of(self, item: Item) -> Cost:
        state, register, _, begun = item
        return self.program.costs.of(state, register) + begun.outer

    def _price(self, column: Column) -> None:
        """Find `outer` of all the rules begun here and above, by Dijkstra's algorithm from the outermost inwards."""
        unknown = _above((item[3] for item in column.items), stop_at_known=True)
        inside: dict[Begun, list[tuple[Begun, Cost]]] = {}
        heap: list[tuple[Cost, int, Begun]] = []
        for begun in unknown:
            if begun.outer >= 0:
                heappush(heap, (begun.outer, id(begun), begun))
                continue
            for waiting in begun.waiting:
                inside.setdefault(waiting[3], []).append((begun, self.program.costs.of(waiting[0], waiting[1])))
        settled: set[Begun] = set()
        while heap:
            cost, _, begun = heappop(heap)
            if begun in settled:
                continue
            settled.add(begun)
            begun.outer = cost
            for rule, price in inside.get(begun, ()):
                heappush(heap, (cost + price, id(rule), rule))

    def shortest(self, column: Column, longest: int) -> bytes:
        """A shortest text that completes: the cheapest byte each time, best first where values seen may forbid it."""
        heap: list[tuple[Cost, int, Column, int]] = [(self.cost(column), 0, column, -1)]
        number = 0
        while heap:
            cost, _, before, byte = heappop(heap)
            if cost >= TOKEN_COST:
                break
            if cost > longest:
                raise LimitError(f"the shortest completion has more than {longest} bytes", limit="grammar_bytes", value=longest)
            here: Column | None = before if byte < 0 else self.read_byte(before, byte)
            if here is None:
                continue
            if here.is_complete:
                return here.text_from(column.offset)
            prices = self.cheapest_bytes(here)
            if prices and not self.program.has_distinct:
                best = min(prices, key=lambda b: (prices[b], b))
                prices = {best: prices[best]}
            for following, price in sorted(prices.items(), reverse=True):
                number += 1
                heappush(heap, (here.offset - column.offset + price, -number, here, following))
        raise GrammarError("no text completes the structure from here without reading a token by its id")


def _inside(rules: dict[Begun, None], outermost: Begun) -> set[Begun]:
    """Those of `rules` that wait, over rules of these, for the end of something inside `outermost`, and itself."""
    inside: dict[Begun, list[Begun]] = {}
    for rule in rules:
        if rule is not outermost:
            for waiting in rule.waiting:
                inside.setdefault(waiting[3], []).append(rule)
    reached = {outermost}
    pending = [outermost]
    while pending:
        for rule in inside.get(pending.pop(), ()):
            if rule not in reached:
                reached.add(rule)
                pending.append(rule)
    return reached


def _above(begun: Iterable[Begun], *, stop: Begun | None = None, stop_at_known: bool = False) -> dict[Begun, None]:
    """These rules and all that wait for them, up to the root or up to `stop`."""
    reached = dict.fromkeys(begun)
    pending = list(reached)
    while pending:
        rule = pending.pop()
        if rule is stop or (stop_at_known and rule.outer >= 0):
            continue
        for waiting in rule.waiting:
            if waiting[3] not in reached:
                reached[waiting[3]] = None
                pending.append(waiting[3])
    return reached
