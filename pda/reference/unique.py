"""The chart of a program with unique values: no item stays that can only end in a value used before.

A prefix inside a DISTINCT is refuted if its operand has finitely many texts from there, and each of them spells a used value.
A DISTINCT is not called if its whole operand has finitely many texts, and each of them spells a used value.
Both are decided by enumeration, in trial columns.
"""

from __future__ import annotations

from math import inf

from .columns import NONE_USED, Column, Item, StackNode, UsedValues, above, inside_of
from .earley import Chart
from .finite import BLANKS, Endless
from .json_values import is_inside_string, value_digest, without_blanks
from .program import START, Costs, Program, Register

TRIAL_PREFIXES = 10_000  # a value with more prefixes than these is taken to have an unused text
CACHED_COSTS = 1000  # sets of used values whose costs are cached


class UniqueChart(Chart):
    """Makes the columns of one program."""

    def __init__(self, program: Program, *, states: int, stack_depth: int) -> None:
        super().__init__(program, states=states, stack_depth=stack_depth)
        self._endless = Endless(program) if program.has_distinct else None
        self._costs_of_used: dict[UsedValues, Costs] = {NONE_USED: program.costs}
        self._costs_of_rules: dict[frozenset[int], Costs] = {frozenset(): program.costs}

    def _may_add(self, column: Column, item: Item) -> bool:
        state, register, used, _ = item
        return not used or column.trial is not None or self._costs(used).of(state, register) < inf

    def _may_call(self, column: Column, rule: int, used: UsedValues) -> bool:
        return not used or column.trial is not None or self._costs(used).rules[rule] < inf

    def _prune(self, column: Column) -> None:
        if not self.program.has_distinct:
            return
        nodes = above(column.items)
        refuted = {node for node in nodes if self.program.rules[node.rule].is_distinct and not self._has_unused_value(column, node)}
        if refuted:
            root = next(node for node in nodes if not node.depth)
            column.keep(inside_of([node for node in nodes if node not in refuted], root))

    def _costs(self, used: UsedValues) -> Costs:
        """The costs where every DISTINCT without an unused value generates nothing."""
        found = self._costs_of_used.get(used)
        if found is None:
            blocked = frozenset(
                number for number, rule in enumerate(self.program.rules) if rule.is_distinct and not self._can_begin(number, used)
            )
            found = self._costs_of_rules.get(blocked)
            if found is None:
                found = self._costs_of_rules[blocked] = self.program.costs_without(blocked)
            if len(self._costs_of_used) > CACHED_COSTS:
                self._costs_of_used = {NONE_USED: self.program.costs}
            self._costs_of_used[used] = found
        return found

    def _can_begin(self, rule: int, used: UsedValues) -> bool:
        """Whether a DISTINCT generates an unused value."""
        node = StackNode(rule, used, 0, 1)
        column = Column(None, b"", trial=node)
        self._add(column, (self.program.rules[rule].start, START, used, node), None)
        self._close(column)
        return self._has_unused_value(column, node)

    def _has_unused_value(self, column: Column, node: StackNode) -> bool:
        """Whether a DISTINCT can still end in an unused value.

        The texts without blanks between the tokens of JSON come first: mostly one of them is an answer, and there are far fewer.
        """
        return any(self._finds_unused_value(column, node, blanks=blanks) for blanks in (False, True))

    def _finds_unused_value(self, column: Column, node: StackNode, *, blanks: bool) -> bool:
        """Search the texts of a DISTINCT depth first, unless they are infinitely many; without blanks between the tokens of JSON, or with.

        Prefixes that differ in such blanks alone and reach the same states have the same continuations: one of them is searched.
        """
        pending = [self._restricted(column.copy(), node)]
        budget = TRIAL_PREFIXES
        visited: set[tuple[bytes, frozenset[tuple[int, Register]]]] = set()
        while pending:
            column = pending.pop()
            if not column.items:
                continue
            text = column.text_from(node.offset)
            key = (without_blanks(text), frozenset((item[0], item[1]) for item in column.items))
            if key in visited:
                continue
            visited.add(key)
            if not budget or self.reads_ids(column) or self._is_endless(column, node):
                return True
            budget -= 1
            for state, register, used, inner in column.items:
                if inner is node and self.program.ends(state, register) and value_digest(text) not in used:
                    return True
            following = {b for item in column.reading for lo, hi, _ in self.program.states[item[0]].bytes for b in range(lo, hi + 1)}
            if not blanks and not is_inside_string(text):
                following -= BLANKS
            for byte in following:
                after = Column(column, bytes((byte,)), trial=node)
                self._scan_byte(column, byte, after)
                self._close(after)
                pending.append(self._restricted(after, node))
        return False

    def _is_endless(self, column: Column, node: StackNode) -> bool:
        """Whether infinitely many texts end the rule of `node`; the column holds no item outside it."""
        assert self._endless is not None
        if any(self._endless.of(item[0], item[1]) for item in column.items):
            return True
        inside = inside_of(above(column.items, stop=node), node)
        return any(
            self._endless.of(state, register)
            for inner in inside
            if inner is not node
            for state, register, _, outer in inner.waiting
            if outer in inside
        )

    @staticmethod
    def _restricted(column: Column, node: StackNode) -> Column:
        """The column with the items inside one rule alone."""
        column.keep(inside_of(above(column.items, stop=node), node))
        return column
