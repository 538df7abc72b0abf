"""The program of the reference engine: one small NFA a rule, made from the expressions of a Grammar.

A state reads bytes, reads tokens by id, calls a rule, or leads to another state without reading.
PERMUTE and a REPEAT that counts are rules of their own, whose single states carry a register:
the number of occurrences so far and, for PERMUTE, which members occurred.
SCOPE, DISTINCT, LIMIT, CAPTURE and TEMPERATURE are rules of their own too, so that their begin and end are a call and a return.

    cost(state, register)    the least that the rest of the rule can read, as the number of bytes; a token by id costs more than any text
    calls(state, register)   the rules that may be called here, each with the state after it
    ends(state, register)    whether the rule may end here

What costs infinitely much generates no text: it is left out, which makes every prefix that can be read one of a whole text.
Costs are Knuth's generalisation of Dijkstra's algorithm to grammars (Information Processing Letters 6, 1977).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import Any, Protocol

from .. import grammar as ir
from ..exceptions import GrammarError, LimitError, UnsatisfiableError
from ..grammar import CALL, CAPTURE, DISTINCT, LIMIT, PERMUTE, REPEAT, REPEATABLE, REQUIRED, SCOPE, TEMPERATURE, Grammar
from ..operators import SIGNATURES, operands
from .spelling import Spelling, spellings

TOKEN_COST = 1 << 200  # more than any text, less than infinity: a token by id is something to read, but no text
Cost = float  # an int, or infinity
Register = tuple[int, int]  # (number of occurrences, bit set of the members that occurred)
START: Register = (0, 0)

PLAIN, COUNT, MEMBERS, SEPARATED = range(4)  # what a state is: an NFA state, a REPEAT, a PERMUTE, a PERMUTE after its separator


class Vocabulary(Protocol):
    """The part of a vocabulary that a grammar with TOKENS needs."""

    size: int

    @property
    def with_text(self) -> frozenset[int]:
        """The ids that have text."""


@dataclass(slots=True)
class State:
    """A state, and the characters that it can read; `kind` says whether its rule is an NFA or has a register."""

    rule: int
    kind: int = PLAIN
    final: bool = False
    bytes: list[tuple[int, int, int]] = field(default_factory=list)  # lo, hi, target
    empty: list[int] = field(default_factory=list)
    called: list[tuple[int, int]] = field(default_factory=list)  # rule, target
    tokens: list[tuple[frozenset[int], int]] = field(default_factory=list)  # ids, target


@dataclass(slots=True)
class Rule:
    """A rule: a named one of the grammar, or one made for an operator, without a name."""

    name: str = ""
    start: int = -1
    is_scope: bool = False
    is_distinct: bool = False
    members: list[tuple[int, int]] = field(default_factory=list)  # rule and flags; of COUNT the one that is repeated
    separator: int = -1
    minimum: int = 0
    maximum: int = -1
    limit: int = -1
    capture: str | None = None
    temperature: float | None = None


@dataclass(slots=True)
class Lowering:
    """Turns expressions into states; the nodes still to do are a list, so the depth of an expression does not matter."""

    grammar: Grammar
    vocabulary: Vocabulary
    limit: int
    deadline: float
    seconds: float
    states: list[State] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    made: dict[tuple[int, bool], int] = field(default_factory=dict)
    pending: list[tuple[int, int, int, int]] = field(default_factory=list)

    def run(self) -> None:
        """Lower every rule that the root reaches."""
        for name in self.grammar.names:
            self.rules.append(Rule(name))
        done: set[int] = set()
        wanted = [int(self.grammar.root)]
        while wanted:
            rule = wanted.pop()
            if rule in done:
                continue
            done.add(rule)
            if not 0 <= self.grammar.rules[rule] < len(self.grammar.nodes):
                raise ValueError(f"rule {self.grammar.names[rule]!r} is not defined")
            self._body(rule, self.grammar.rules[rule])
            while self.pending:
                called = self._lower(*self.pending.pop())
                if called is not None:
                    wanted.append(called)

    def _state(self, rule: int, kind: int = PLAIN) -> int:
        """A new state."""
        if len(self.states) >= self.limit:
            raise LimitError(f"the grammar needs more than {self.limit} NFA states", limit="states", value=self.limit)
        if len(self.states) % 1024 == 0 and time.monotonic() > self.deadline:
            raise LimitError(f"compiling took longer than {self.seconds} seconds", limit="compile_seconds", value=self.seconds)
        self.states.append(State(rule, kind))
        return len(self.states) - 1

    def _body(self, rule: int, node: int) -> None:
        """Make `rule` the NFA of `node`."""
        start, end = self._state(rule), self._state(rule)
        self.states[end].final = True
        self.rules[rule].start = start
        self.pending.append((node, start, end, rule))

    def _rule_of(self, node: int, *, is_body: bool = False) -> int:
        """The rule made for a node that needs one, or for an operand of it."""
        found = self.made.get((node, is_body))
        if found is not None:
            return found
        rule = self.made[node, is_body] = len(self.rules)
        self.rules.append(Rule())
        operator, *arguments = self.grammar.nodes[node]
        if is_body:
            self._body(rule, node)
        else:
            _MAKE[operator](self, rule, arguments)
        return rule

    def _make_count(self, rule: int, arguments: Sequence[Any]) -> None:
        body, minimum, maximum = arguments
        made = self.rules[rule]
        made.members, made.minimum, made.maximum = [(self._rule_of(body, is_body=True), REPEATABLE)], minimum, maximum
        made.start = self._state(rule, COUNT)

    def _make_permute(self, rule: int, arguments: Sequence[Any]) -> None:
        members, separator, minimum, maximum = arguments
        made = self.rules[rule]
        made.members = [(self._rule_of(node, is_body=True), flags) for node, flags in zip(members[::2], members[1::2], strict=True)]
        made.separator, made.minimum, made.maximum = self._rule_of(separator, is_body=True), minimum, maximum
        made.start = self._state(rule, MEMBERS)
        self._state(rule, SEPARATED)

    def _make_scope(self, rule: int, arguments: Sequence[Any]) -> None:
        self.rules[rule].is_scope = True
        self._body(rule, arguments[0])

    def _make_distinct(self, rule: int, arguments: Sequence[Any]) -> None:
        self.rules[rule].is_distinct = True
        self._body(rule, arguments[0])

    def _make_limit(self, rule: int, arguments: Sequence[Any]) -> None:
        self.rules[rule].limit = arguments[1]
        self._body(rule, arguments[0])

    def _make_capture(self, rule: int, arguments: Sequence[Any]) -> None:
        self.rules[rule].capture = arguments[1]
        self._body(rule, arguments[0])

    def _make_temperature(self, rule: int, arguments: Sequence[Any]) -> None:
        self.rules[rule].temperature = arguments[1]
        self._body(rule, arguments[0])

    def _spell(self, source: int, target: int, spelling: Spelling) -> None:
        """A path that reads one spelling."""
        for position in spelling[:-1]:
            following = self._state(self.states[source].rule)
            self._read(source, following, position)
            source = following
        self._read(source, target, spelling[-1])

    def _read(self, source: int, target: int, ranges: Sequence[int]) -> None:
        """Edges that read one byte of (lo, hi, lo, hi, ...)."""
        self.states[source].bytes += [(lo, hi, target) for lo, hi in zip(ranges[::2], ranges[1::2], strict=True)]

    def _lower(self, node: int, source: int, target: int, rule: int) -> int | None:
        """Put `node` between two states; the rule that it calls, if it does.

        INVARIANT: adds edges out of `source` and into `target`, and none into `source` or out of `target`.
        """
        operator, *arguments = self._checked(node)
        states, pending = self.states, self.pending
        match operator:
            case ir.EMPTY:
                states[source].empty.append(target)
            case ir.NEVER:
                pass
            case ir.LITERAL:
                if arguments[0]:
                    self._spell(source, target, tuple((byte, byte) for byte in arguments[0]))
                else:
                    states[source].empty.append(target)
            case ir.BYTES:
                self._read(source, target, arguments[0])
            case ir.CHARS:
                ranges, encoding = arguments
                for lo, hi in zip(ranges[::2], ranges[1::2], strict=True):
                    self._range(source, target, lo, hi, encoding)
            case ir.SEQ:
                for part in arguments[:-1]:
                    following = self._state(rule)
                    pending.append((part, source, following, rule))
                    source = following
                pending.append((arguments[-1], source, target, rule))
            case ir.ALT:
                pending += [(part, source, target, rule) for part in arguments]
            case ir.REPEAT:
                self._repeat(node, source, target, rule)
            case ir.CALL:
                states[source].called.append((arguments[0], target))
                return int(arguments[0])
            case ir.GRAPH:
                count, edges = arguments
                inner = [self._state(rule) for _ in range(count)]
                states[source].empty.append(inner[0])
                states[inner[1]].empty.append(target)
                for begin, end, part in zip(edges[::3], edges[1::3], edges[2::3], strict=True):
                    if part < 0:
                        states[inner[begin]].empty.append(inner[end])
                    else:
                        pending.append((part, inner[begin], inner[end], rule))
            case ir.AUTOMATON:
                self._automaton(arguments, source, target, rule)
            case ir.EXCEPT:
                words, encoding = arguments
                self._except(words, encoding, source, target, rule)
            case ir.TOKENS:
                ids, negated = arguments
                named = frozenset(ids)
                if not all(0 <= i < self.vocabulary.size for i in named):
                    raise ValueError(f"the grammar names token {max(named)}, which is not in the vocabulary of {self.vocabulary.size}")
                if negated:
                    named = (frozenset(range(self.vocabulary.size)) if negated == 2 else self.vocabulary.with_text) - named
                if named:
                    states[source].tokens.append((named, target))
            case _:
                states[source].called.append((self._rule_of(node), target))
        return None

    def _automaton(self, arguments: Sequence[Any], source: int, target: int, rule: int) -> None:
        """A state for every state of the DFA and every number of characters read that matters."""
        transitions, accepting, encoding, *bounds = arguments
        minimum, maximum = bounds or (0, -1)
        states = self.states
        most = maximum if maximum >= 0 else minimum  # past the minimum without a maximum all numbers are alike
        first = (0, 0)
        inner = {first: self._state(rule)}
        states[source].empty.append(inner[first])
        pending = [first]
        for state, count in pending:
            begin = inner[state, count]
            if accepting[state] and count >= minimum:
                states[begin].empty.append(target)
            if count == maximum:
                continue
            for lo, hi, end in transitions[state]:
                following = (end, min(count + 1, most))
                if following not in inner:
                    inner[following] = self._state(rule)
                    pending.append(following)
                self._range(begin, inner[following], lo, hi, encoding)

    def _except(self, words: Sequence[str], encoding: int, source: int, target: int, rule: int) -> None:
        """The trie of the words, with an end wherever no word ends, and a state for the texts outside it."""
        outside = self._state(rule)
        self.states[outside].empty.append(target)
        self._range(outside, outside, 0, 0x10FFFF, encoding)
        pending = [("", source)]
        while pending:
            start, state = pending.pop()
            if start not in words:
                self.states[state].empty.append(target)
            low = 0
            for point in sorted({ord(word[len(start)]) for word in words if word != start and word.startswith(start)}):
                following = self._state(rule)
                pending.append((start + chr(point), following))
                self._range(state, following, point, point, encoding)
                self._range(state, outside, low, point - 1, encoding)
                low = point + 1
            self._range(state, outside, low, 0x10FFFF, encoding)

    def _range(self, source: int, target: int, low: int, high: int, encoding: int) -> None:
        """Paths that read one code point."""
        for spelling in spellings(low, high, encoding) if low <= high else ():
            self._spell(source, target, spelling)

    def _repeat(self, node: int, source: int, target: int, rule: int) -> None:
        """A loop for `*`, `+` and `?`; a rule that counts for any other bounds."""
        body, minimum, maximum = self._checked(node)[1:]
        states = self.states
        if (minimum, maximum) in ((0, -1), (1, -1)):
            before = self._state(rule)
            after = before if minimum == 0 else self._state(rule)
            states[source].empty.append(before)
            if after != before:
                states[after].empty.append(before)
            states[after].empty.append(target)
            self.pending.append((body, before, after, rule))
        elif (minimum, maximum) == (0, 1):
            states[source].empty.append(target)
            self.pending.append((body, source, target, rule))
        elif maximum == 0 and minimum == 0:
            states[source].empty.append(target)
        elif minimum <= maximum or maximum == -1:
            states[source].called.append((self._rule_of(node), target))

    def _checked(self, node: int) -> tuple[Any, ...]:
        """A node, whose operands are nodes before it: so the expressions have no cycle but through rules."""
        found = self.grammar.nodes[node]
        if not found or found[0] not in SIGNATURES:
            raise ValueError(f"node {node} has no operator that there is")
        for operand in operands(found):
            if not 0 <= operand < node:
                raise ValueError(f"node {node} refers to node {operand}, which is not before it")
        if found[0] == CALL and not 0 <= found[1] < len(self.grammar.rules):
            raise ValueError(f"node {node} calls rule {found[1]}, which does not exist")
        return found


_MAKE: dict[Any, Any] = {
    REPEAT: Lowering._make_count,
    PERMUTE: Lowering._make_permute,
    SCOPE: Lowering._make_scope,
    DISTINCT: Lowering._make_distinct,
    LIMIT: Lowering._make_limit,
    CAPTURE: Lowering._make_capture,
    TEMPERATURE: Lowering._make_temperature,
}


class Program:
    """The states and rules of one grammar. Immutable but for tables that only remember."""

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, *, states: int, memory: int, seconds: float) -> None:
        if len(grammar.rules) != len(grammar.names) or not 0 <= grammar.root < len(grammar.rules):
            raise ValueError("the grammar has no root rule, or not one name a rule")
        lowering = Lowering(grammar, vocabulary, states, time.monotonic() + seconds, seconds)
        lowering.run()
        self.states = lowering.states
        self.rules = lowering.rules
        self.root = int(grammar.root)
        self.has_distinct = any(rule.is_distinct for rule in self.rules)
        self.has_limit = any(rule.limit >= 0 for rule in self.rules)
        self.has_capture = any(node[0] == CAPTURE for node in grammar.nodes)  # wherever it stands
        self.has_temperature = any(rule.temperature is not None for rule in self.rules)
        self._remembered = max(memory // 200, 1000)
        self._closures: dict[int, tuple[int, ...]] = {}
        self._moves: dict[tuple[int, int], tuple[int, ...]] = {}
        self._callers = self._find_callers()
        self._check_scopes()
        self.costs = self.costs_without(frozenset())
        if self.costs.rules[self.root] == inf:
            raise UnsatisfiableError(f"the grammar's root rule {grammar.names[grammar.root]!r} generates no finite text")
        self._empty_limits()
        self._trim()

    def _find_callers(self) -> list[list[tuple[int, int]]]:
        """Per rule the calls of it, as (state, state after); a state with a register calls the parts of its rule."""
        callers: list[list[tuple[int, int]]] = [[] for _ in self.rules]
        for number, state in enumerate(self.states):
            for rule, target in state.called:
                callers[rule].append((number, target))
            if state.kind in (COUNT, MEMBERS):
                owner = self.rules[state.rule]
                for rule in {member for member, _ in owner.members} | {owner.separator} - {-1}:
                    callers[rule].append((number, -1))
        return callers

    def _check_scopes(self) -> None:
        """Refuse limits and temperatures in a SCOPE: that a rule may end does not mean there that something may follow it."""
        callees: dict[int, set[int]] = {}
        for callee, callers in enumerate(self._callers):
            for number, _ in callers:
                callees.setdefault(self.states[number].rule, set()).add(callee)
        pending = [number for number, rule in enumerate(self.rules) if rule.is_scope]
        reached = set(pending)
        while pending:
            rule = self.rules[number := pending.pop()]
            if rule.limit >= 0 or rule.temperature is not None:
                raise GrammarError("a LIMIT or a TEMPERATURE inside of a SCOPE")
            pending += callees.get(number, set()) - reached
            reached |= callees.get(number, set())

    def _empty_limits(self) -> None:
        """An expression that may span no token is the empty text where it has one, and ends after its first token otherwise."""
        for number, rule in enumerate(self.rules):
            if rule.limit == 0 and self.costs.rules[number] == 0:
                self.states[rule.start] = State(number, final=True)
            elif rule.limit == 0:
                rule.limit = 1

    def costs_without(self, blocked: frozenset[int]) -> Costs:
        """The cost of every state and rule where the rules `blocked` read nothing; inside a new SCOPE none is blocked."""
        costs = Costs(self, [inf] * len(self.states), [inf] * len(self.rules))
        before: list[list[tuple[int, Cost, int]]] = [[] for _ in self.states]  # per target: source, bytes read, rule called or -1
        heap: list[tuple[Cost, int, int]] = []  # cost, state or -1, rule or -1
        for number, state in enumerate(self.states):
            for target in state.empty:
                before[target].append((number, 0, -1))
            for _, _, target in state.bytes:
                before[target].append((number, 1, -1))
            for _, target in state.tokens:
                before[target].append((number, TOKEN_COST, -1))
            for rule, target in state.called:
                before[target].append((number, 0, rule))
            if state.final or state.kind != PLAIN:
                heappush(heap, (costs.of(number, START) if state.kind != PLAIN else 0, number, -1))
        if blocked:
            for number, made in enumerate(self.rules):
                if made.is_scope:
                    heappush(heap, (self.costs.rules[number], -1, number))
        while heap:
            cost, number, rule = heappop(heap)
            if cost >= (costs.states[number] if rule < 0 else costs.rules[rule]):
                continue
            if rule < 0:
                costs.states[number] = cost
                for source, read, called in before[number]:
                    heappush(heap, (cost + read + (costs.rules[called] if called >= 0 else 0), source, -1))
                owner = self.states[number].rule
                if number == self.rules[owner].start and owner not in blocked:
                    heappush(heap, (cost, -1, owner))
                continue
            costs.rules[rule] = cost
            for caller, target in self._callers[rule]:
                heappush(heap, (cost + costs.states[target] if target >= 0 else costs.of(caller, START), caller, -1))
        return costs

    def _trim(self) -> None:
        """Leave out what generates no text."""
        states, rules = self.costs.states, self.costs.rules
        for state in self.states:
            state.bytes = [edge for edge in state.bytes if states[edge[2]] < inf]
            state.empty = [target for target in state.empty if states[target] < inf]
            state.called = [(rule, target) for rule, target in state.called if rules[rule] < inf and states[target] < inf]
            state.tokens = [edge for edge in state.tokens if states[edge[1]] < inf]
        for rule in self.rules:
            # a repeated expression that may be empty has no least number: the empty text is as many of it as are asked for
            if rule.members and self.states[rule.start].kind == COUNT and rules[rule.members[0][0]] == 0:
                rule.minimum = 0

    def closure(self, number: int) -> tuple[int, ...]:
        """The states reached from one without reading that can do anything else."""
        found = self._closures.get(number)
        if found is None:
            reached = {number: None}
            pending = [number]
            while pending:
                for target in self.states[pending.pop()].empty:
                    if target not in reached:
                        reached[target] = None
                        pending.append(target)
            found = tuple(n for n in reached if self._does_anything(self.states[n]))
            if len(self._closures) > self._remembered:
                self._closures.clear()
            self._closures[number] = found
        return found

    @staticmethod
    def _does_anything(state: State) -> bool:
        return bool(state.final or state.bytes or state.called or state.tokens or state.kind != PLAIN)

    def moves(self, number: int, byte: int) -> tuple[int, ...]:
        """Where a state goes by a byte."""
        found = self._moves.get((number, byte))
        if found is None:
            found = tuple(dict.fromkeys(target for lo, hi, target in self.states[number].bytes if lo <= byte <= hi))
            if len(self._moves) > self._remembered:
                self._moves.clear()
            self._moves[number, byte] = found
        return found

    def ends(self, number: int, register: Register) -> bool:
        """Whether the rule may end in this state."""
        state = self.states[number]
        if state.kind == PLAIN:
            return state.final
        rule = self.rules[state.rule]
        count, used = register
        return (
            state.kind != SEPARATED
            and count >= rule.minimum
            and (state.kind == COUNT or all(used >> i & 1 for i, (_, flags) in enumerate(rule.members) if flags & REQUIRED))
        )

    def calls(self, number: int, register: Register) -> Iterator[tuple[int, int, Register]]:
        """The rules that may be called here: rule, and the state and register after it."""
        state = self.states[number]
        if state.kind == PLAIN:
            for callee, target in state.called:
                yield callee, target, START
            return
        rule = self.rules[state.rule]
        count, used = register
        if count == rule.maximum:
            return
        # without a maximum, counting past the minimum would tell apart what is the same
        cap = max(rule.minimum, 1) if rule.maximum < 0 else rule.maximum
        following = min(count + 1, cap)
        if state.kind == MEMBERS and count:
            if self.costs.rules[rule.separator] < inf and self.costs.of(number + 1, register) < inf:
                yield rule.separator, number + 1, register
            return
        boundary = rule.start
        for i, (member, flags) in enumerate(rule.members):
            if used >> i & 1 and not flags & REPEATABLE:
                continue
            marked = used | 1 << i if state.kind != COUNT and flags != REPEATABLE else used
            if self.costs.rules[member] < inf and self.costs.of(boundary, (following, marked)) < inf:
                yield member, boundary, (following, marked)


class Costs:
    """The least that the rest of a rule can read, by state, and that a whole rule can read."""

    __slots__ = ("program", "rules", "states")

    def __init__(self, program: Program, states: list[Cost], rules: list[Cost]) -> None:
        self.program = program
        self.states = states
        self.rules = rules

    def of(self, number: int, register: Register) -> Cost:
        """The cost from a state to the end of its rule."""
        state = self.program.states[number]
        if state.kind == PLAIN:
            return self.states[number]
        rule = self.program.rules[state.rule]
        count, used = register
        if state.kind == COUNT:
            missing = rule.minimum - count
            return missing * self.rules[rule.members[0][0]] if missing > 0 else 0
        return self._of_members(rule, count, used, is_separated=state.kind == SEPARATED)

    def _of_members(self, rule: Rule, count: int, used: int, *, is_separated: bool) -> Cost:
        """The cost of the members that a PERMUTE still needs: the required ones, then the cheapest up to the minimum."""
        cost: Cost = 0
        required = 0
        others: list[tuple[Cost, bool]] = []
        for i, (member, flags) in enumerate(rule.members):
            is_used = bool(used >> i & 1)
            if flags & REQUIRED and not is_used:
                required += 1
                cost += self.rules[member]
            if flags & REPEATABLE or not (is_used or flags & REQUIRED):
                others.append((self.rules[member], bool(flags & REPEATABLE)))
        needed = max(required, rule.minimum - count, int(is_separated))
        if 0 <= rule.maximum < count + needed:
            return inf
        extra = needed - required
        for price, is_repeatable in sorted(others):
            if not extra:
                break
            taken = extra if is_repeatable else 1
            cost += price * taken
            extra -= taken
        separators = needed - (is_separated or not count) if needed else 0
        if extra:
            return inf
        return cost + (separators * self.rules[rule.separator] if separators else 0)
