"""The chart of a program with unique values: no item stays that can only end in a value seen before.

A prefix inside a DISTINCT is refuted if its operand has finitely many texts from there, and each of them spells a seen value.
A DISTINCT is not called if its whole operand has finitely many texts, and each of them spells a seen value.
Both are decided by enumeration, in trial columns.
"""

from __future__ import annotations

from math import inf

from ..exceptions import LimitError
from .columns import NONE_SEEN, Column, Item, SeenValues, StackNode, above, inside_of
from .earley import Chart
from .finite import BLANKS, Endless
from .json_values import ends_in_zero, is_inside_string, value_digest, with_one_zero, without_blanks
from .program import START, Costs, Program, Register

TRIAL_PREFIXES = 10_000  # that are searched for a value that is new; a search that needs more is given up, with a LimitError
DIGITS = frozenset(b"123456789")  # that make a number of zero another one
CACHED_COSTS = 1000  # sets of seen values whose costs are cached


class UniqueChart(Chart):
    """Makes the columns of one program."""

    def __init__(self, program: Program, *, states: int, stack_depth: int) -> None:
        super().__init__(program, states=states, stack_depth=stack_depth)
        self._endless = Endless(program) if program.has_distinct else None
        self._costs_of_seen: dict[SeenValues, Costs] = {NONE_SEEN: program.costs}
        self._costs_of_rules: dict[frozenset[int], Costs] = {frozenset(): program.costs}

    def _may_add(self, column: Column, item: Item) -> bool:
        state, register, seen, _ = item
        return not seen or column.trial is not None or self._costs(seen).of(state, register) < inf

    def _may_call(self, column: Column, rule: int, seen: SeenValues) -> bool:
        return not seen or column.trial is not None or self._costs(seen).rules[rule] < inf

    def _prune(self, column: Column) -> None:
        if not self.program.has_distinct:
            return
        nodes = above(column.items)
        refuted = {node for node in nodes if self.program.rules[node.rule].is_distinct and not self._has_new_value(column, node)}
        if refuted:
            root = next(node for node in nodes if not node.depth)
            column.keep(inside_of([node for node in nodes if node not in refuted], root))

    def _costs(self, seen: SeenValues) -> Costs:
        """The costs where every DISTINCT without a new value generates nothing."""
        found = self._costs_of_seen.get(seen)
        if found is None:
            blocked = frozenset(
                number for number, rule in enumerate(self.program.rules) if rule.is_distinct and not self._can_begin(number, seen)
            )
            found = self._costs_of_rules.get(blocked)
            if found is None:
                found = self._costs_of_rules[blocked] = self.program.costs_without(blocked)
            if len(self._costs_of_seen) > CACHED_COSTS:
                self._costs_of_seen = {NONE_SEEN: self.program.costs}
            self._costs_of_seen[seen] = found
        return found

    def _can_begin(self, rule: int, seen: SeenValues) -> bool:
        """Whether a DISTINCT generates a new value."""
        node = StackNode(rule, seen, 0, 1)
        column = Column(None, b"", trial=node)
        self._add(column, (self.program.rules[rule].start, START, seen, node), None)
        self._close(column)
        return self._has_new_value(column, node)

    def _has_new_value(self, column: Column, node: StackNode) -> bool:
        """Whether a DISTINCT can still end in a new value.

        The texts without blanks between the tokens of JSON come first: mostly one of them is an answer, and there are far fewer.
        """
        return any(self._finds_new_value(column, node, blanks=blanks) for blanks in (False, True))

    def _finds_new_value(self, column: Column, node: StackNode, *, blanks: bool) -> bool:
        """Search the texts of a DISTINCT depth first, unless they are infinitely many; without blanks between the tokens of JSON, or with.

        Prefixes that differ in such blanks alone, or in the exponent of zero, and reach the same states have the same continuations: one of
        them is searched.
        """
        pending = [self._restricted(column.copy(), node)]
        budget = TRIAL_PREFIXES
        visited: set[tuple[bytes, frozenset[tuple[int, Register]]]] = set()
        while pending:
            column = pending.pop()
            if not column.items:
                continue
            text = column.text_from(node.offset)
            following = {b for item in column.reading for lo, hi, _ in self.program.states[item[0]].bytes for b in range(lo, hi + 1)}
            zero = ends_in_zero(text)
            spelled = with_one_zero(text, fraction=DIGITS.isdisjoint(following)) if zero else text
            key = (without_blanks(spelled), frozenset((item[0], item[1]) for item in column.items))
            if key in visited:
                continue
            visited.add(key)
            if self.reads_ids(column) or (not zero and self._is_endless(column, node)):
                return True
            if not budget:
                message = f"more than {TRIAL_PREFIXES:,} prefixes of a value that must differ from others, and none ends in a new value"
                raise LimitError(message, limit="states", value=TRIAL_PREFIXES)
            budget -= 1
            for state, register, seen, inner in column.items:
                if inner is node and self.program.ends(state, register) and value_digest(text) not in seen:
                    return True
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
