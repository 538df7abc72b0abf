"""Earley's algorithm over the states of a Program, byte by byte.

    column 0        close({(start of the root, root)})
    column n        close(scan(column n - 1, byte n))

    scan(column, byte)
        for each item (state, node) of the column and each move of `state` by the byte to `target`:
            (target, node)

    close(items)
        until nothing is new, for each item (state, node):
            complete    if the rule of `node` may end in `state`:
                            add each item that waits for `node`
            predict     for each call of a rule from `state` that continues in `target`:
                            callee = the node of that rule in this column, made with its item (start of the rule, callee) if it is new
                            let (target, node) wait for callee
                            if callee has ended in this column: add (target, node)

Earley, An efficient context-free parsing algorithm, CACM 13 (1970).
The last line is for rules that read nothing: an item that waits too late for the end of such a rule is resumed at once.
Aycock and Horspool, Practical Earley Parsing, The Computer Journal 45 (2002), decide in advance which rules those are.
Here it is decided in the column, because a rule that reads nothing may still change the seen values, which are part of an item.
Left recursion and ambiguity need nothing further.
Columns do not change once they are closed, so rollback and fork only keep references to them.

This chart refuses a repeated value at its end; unique.py adds what refuses it at the first byte after which no other value is possible.
"""

from __future__ import annotations

from ..exceptions import LimitError
from .columns import NONE_SEEN, Cause, Column, Completed, Item, Scanned, SeenValues, StackNode, Trace, above, inside_of
from .json_values import value_digest
from .program import COUNT, START, Program


class Chart:
    """Makes the columns of one program."""

    def __init__(self, program: Program, *, states: int, stack_depth: int) -> None:
        self.program = program
        self.states = states
        self.stack_depth = stack_depth
        self.trace: Trace | None = None

    # the columns

    def first(self) -> Column:
        """The column before any text."""
        root = StackNode(self.program.root, NONE_SEEN, 0, 0)
        root.outer = 0
        column = Column(None, b"")
        self._add(column, (self.program.rules[self.program.root].start, START, NONE_SEEN, root), None)
        self._close(column)
        self._prune(column)
        return column

    def read_byte(self, column: Column, byte: int) -> Column | None:
        """The column after one more byte, or None where the byte is not allowed."""
        after = Column(column, bytes((byte,)))
        self._scan_byte(column, byte, after)
        return self._finish(after)

    def read_token(self, column: Column, token: int, text: bytes) -> Column | None:
        """The column after one more token, read as its text or by its id."""
        before: Column | None = column
        for byte in text[:-1]:
            before = self.read_byte(before, byte) if before is not None else None
        after = Column(column, text)
        self._scan_token(column, token, after)
        if text and before is not None:
            self._scan_byte(before, text[-1], after)
        return self._finish(after)

    def end_token(self, column: Column) -> Column:
        """The column just made by reading a token or a part of one, as the column where that token ends.

        Every rule that has reached its limit and may end here ends: the items inside it are dropped.
        INVARIANT: the items that follow it are there already, for no LIMIT is in a SCOPE.
        """
        if not self.program.has_limit:
            return column
        column.tokens += 1
        for node in column.began.values():
            node.tokens = column.tokens
        cut = {node for node in column.ended if column.tokens - node.tokens >= self.program.rules[node.rule].limit}
        if cut:
            nodes = above(column.items)
            root = next(node for node in nodes if not node.depth)
            copies = {node: node.copy() for node in inside_of([node for node in nodes if node not in cut], root)}
            for node, copy in copies.items():
                for state, register, seen, outer in node.waiting:
                    if outer in copies:
                        copy.waiting[state, register, seen, copies[outer]] = None
            if self.trace is not None:
                self.trace.replaced(column, copies)
            column.keep(copies)
            column.items = {(*item[:3], copies[item[3]]): None for item in column.items}
            column.reading = [(*item[:3], copies[item[3]]) for item in column.reading]
        return column

    # the algorithm

    def _scan_byte(self, before: Column, byte: int, column: Column) -> None:
        """Add to `column` the items of `before` that read a byte, after it."""
        for item in before.reading:
            for target in self.program.moves(item[0], byte):
                self._add(column, (target, START, item[2], item[3]), Scanned(before, item))

    def _scan_token(self, before: Column, token: int, column: Column) -> None:
        """Add to `column` the items of `before` that read a token by its id, after it."""
        for item in before.reading:
            for ids, target in self.program.states[item[0]].tokens:
                if token in ids:
                    self._add(column, (target, START, item[2], item[3]), Scanned(before, item))

    def _close(self, column: Column) -> None:
        """Complete and predict until nothing is new."""
        while column.agenda:
            item = column.agenda.pop()
            state = self.program.states[item[0]]
            if state.bytes or state.tokens:
                column.reading.append(item)
            if self.program.ends(item[0], item[1]):
                self._complete(column, item)
            for rule, target, register in self.program.calls(item[0], item[1]):
                if self._may_call(column, rule, item[2]):
                    self._predict(column, rule, (target, register, item[2], item[3]), item)

    def _complete(self, column: Column, last: Item) -> None:
        """The rule of an item ends: resume the items that wait for it."""
        _, _, seen, node = last
        rule = self.program.rules[node.rule]
        if rule.is_distinct:
            text = column.text_from(node.offset)
            value = value_digest(text)
            if not text or value in seen:
                return
            seen |= {value}
        began_here = column.began.get((node.rule, node.seen)) is node
        if began_here:
            node.ends.setdefault(seen, last)
        if rule.limit >= 0:
            column.ended.add(node)
        column.is_complete |= not node.depth
        if node is not column.trial:
            for waiting in list(node.waiting):
                # reading nothing does not count as an occurrence: see Program._trim
                if not (began_here and self._counts(waiting)):
                    self._resume(column, waiting, seen, Completed(node, waiting, last))

    def _predict(self, column: Column, rule: int, waiting: Item, caller: Item) -> None:
        """An item calls a rule: begin the rule in this column unless it has begun here, and let `waiting` wait for its end."""
        depth = caller[3].depth + 1
        if depth > self.stack_depth:
            raise LimitError(f"more than {self.stack_depth} rules inside one another", limit="stack_depth", value=self.stack_depth)
        seen = NONE_SEEN if self.program.rules[rule].is_scope else caller[2]
        node = column.began.get((rule, seen))
        is_new = node is None
        if node is None:
            node = column.began[rule, seen] = StackNode(rule, seen, column.offset, depth, column.tokens)
        if waiting in node.waiting:
            return
        node.waiting[waiting] = None
        if self.trace is not None and column.trial is None:
            self.trace.called(column, node, waiting, caller)
        if is_new:
            self._add(column, (self.program.rules[rule].start, START, seen, node), None)
        elif not self._counts(waiting):
            for after, last in list(node.ends.items()):
                self._resume(column, waiting, after, Completed(node, waiting, last))

    def _resume(self, column: Column, waiting: Item, seen: SeenValues, cause: Completed) -> None:
        """Add an item whose callee has ended; a SCOPE leaves the seen values around it as they were."""
        state, register, before, node = waiting
        self._add(column, (state, register, before if self.program.rules[cause.node.rule].is_scope else seen, node), cause)

    def _add(self, column: Column, item: Item, cause: Cause) -> None:
        """Add an item, and those that it reaches without reading anything."""
        state, register, seen, node = item
        if not self._may_add(column, item):
            return
        for target in self.program.closure(state):
            item = (target, register, seen, node)
            if self.trace is not None and column.trial is None:
                self.trace.caused(column, item, cause)
            if item not in column.items:
                column.items[item] = None
                column.agenda.append(item)
        if len(column.items) > self.states:
            raise LimitError(f"more than {self.states} states at once", limit="states", value=self.states)

    def _counts(self, waiting: Item) -> bool:
        """Whether this item waits for one more occurrence of a repeated expression."""
        return self.program.states[waiting[0]].kind == COUNT

    def _finish(self, column: Column) -> Column | None:
        """Close a column; None where no text that completes begins so."""
        if not column.items:
            return None
        self._close(column)
        self._prune(column)
        # items that only call rules without a new value lead nowhere
        return column if column.is_complete or column.reading else None

    # what unique.py refines

    def _may_add(self, column: Column, item: Item) -> bool:
        """Whether an item can reach the end of its rule."""
        return True

    def _may_call(self, column: Column, rule: int, seen: SeenValues) -> bool:
        """Whether a rule generates a text, with these seen values."""
        return True

    def _prune(self, column: Column) -> None:
        """Drop the items of a closed column that lead nowhere."""

    # questions about a column

    def temperature(self, column: Column) -> float | None:
        """The temperature for the next token: for each item its innermost rule that has one, and of these the highest."""
        rules = self.program.rules
        found: list[float] = []
        pending = list(reached := dict.fromkeys(item[3] for item in column.reading) if self.program.has_temperature else {})
        while pending:
            node = pending.pop()
            temperature = rules[node.rule].temperature
            if temperature is not None:
                found.append(temperature)
                continue
            for waiting in node.waiting:
                if waiting[3] not in reached:
                    reached[waiting[3]] = None
                    pending.append(waiting[3])
        return max(found, default=None)

    def bytes_after(self, column: Column) -> list[int]:
        """The allowed bytes, sorted."""
        found: set[int] = set()
        for state, _, _, _ in column.reading:
            for lo, hi, _ in self.program.states[state].bytes:
                found.update(range(lo, hi + 1))
        if self.program.has_distinct:
            return [byte for byte in sorted(found) if self.read_byte(column, byte) is not None]
        return sorted(found)

    def reads_ids(self, column: Column) -> bool:
        """Whether an item reads a token by its id."""
        return any(self.program.states[state].tokens for state, _, _, _ in column.reading)

    def ids_after(self, column: Column) -> list[int]:
        """The tokens that are allowed by their ids, sorted."""
        named = {i for state, _, _, _ in column.reading for ids, _ in self.program.states[state].tokens for i in ids}
        return [i for i in sorted(named) if self.read_token(column, i, b"") is not None]
