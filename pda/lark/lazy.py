r"""Which rule ends where a lazy rule stands beside other terminals: the order of llguidance's lexer, as contexts of rules.

    start: call* tail
    call: head "=f>" /[a-z]+/ "</function>"
    head[lazy]: TEXT "<function"
    tail: TEXT
    TEXT: /(.|\n)*/

The lexer reads all terminals that may come next at once, and where a lazy one has its first match, that match is taken and the others are
dropped. So where `head` and TEXT may both come, TEXT is the text without "<function" in it, and a model that writes "<function" has to
continue with a call. XGrammar reads this pattern alike.

The rule that is being read and its callers decide what may come next. A rule is read in a context:

    before    the lazy rules that may come at its start: no terminal at its start may begin with a text of theirs
    after     the lazy rules that may come at its end, from its callers
    end       the lazy rules that may come where it ended: those, and its own where it could also have gone on

Each context makes a rule of its own out of the rule, a graph over sets of positions of its expression (Glushkov 1961), and contexts are
found from the start rule on, as a least fixed point. There are few: one for each place where the set of lazy rules is another.
Positions that the same symbols lead to are taken together, as in LR(0), but in each rule by itself: where one rule reads a text and another
rule reads it too, llguidance's lexer takes the terminals of both together, and here each has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from lark import Token
from lark.visitors import Transformer_NonRecursive

from ..budget import Budget
from ..exceptions import LimitError

Lazies: TypeAlias = frozenset[str]
"""The names of lazy rules."""

RULE, LAZY, TERMINAL, OTHER = range(4)

START: Final = -1
"""The place before the first position of a body."""

_NONE: Final[Lazies] = frozenset()
_BEGIN: Final = frozenset((START,))


class Symbol(NamedTuple):
    """The element at a position: a rule or a lazy rule by its name, a terminal, or something whose text is no terminal's."""

    kind: int
    key: Hashable
    token: Token
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """The expression of a rule: the symbols at its positions, and which position may follow which."""

    symbols: Sequence[Symbol]
    follow: Sequence[frozenset[int]]
    first: frozenset[int]
    last: frozenset[int]
    empty: bool

    def following(self, position: int) -> frozenset[int]:
        """The positions that may come next."""
        return self.first if position == START else self.follow[position]

    def may_end(self, position: int) -> bool:
        """Whether the rule may end behind a position."""
        return self.empty if position == START else position in self.last


class Context(NamedTuple):
    """A rule, and the lazy rules that may come at its start and, from its callers, at its end."""

    rule: str
    before: Lazies
    after: Lazies


class Edge(NamedTuple):
    """A symbol read between two states of a graph, None for nothing; a rule in a context, with the end that it has."""

    source: int
    target: int
    symbol: Symbol | None
    before: Lazies
    context: Context | None
    end: Lazies


@dataclass(frozen=True, slots=True)
class Graph:
    """A rule in a context: its edges, from state 0, and the states where it may end, by the end that it has there."""

    states: int
    edges: Sequence[Edge]
    ends: Mapping[Lazies, Sequence[int]]
    calls: Sequence[Context]


class Part(NamedTuple):
    """A part of an expression: its range of positions, those that come first and last, and whether it may be empty."""

    begin: int
    end: int
    first: frozenset[int]
    last: frozenset[int]
    empty: bool


class BodyReader(Transformer_NonRecursive[Token, Any]):
    """Makes the body of a rule of its trees, bottom-up; `symbol` and `bounds` read names and repetitions."""

    def __init__(self, symbol: Callable[[Token], Symbol], bounds: Callable[[Token, list[Token]], tuple[int, int]], budget: Budget) -> None:
        super().__init__()
        self.symbol = symbol
        self.bounds = bounds
        self.budget = budget
        self.symbols: list[Symbol] = []
        self.follow: list[set[int]] = []

    def body(self, parts: Sequence[Part]) -> Body:
        """The body that has these alternatives."""
        whole = self.expansions(parts)
        return Body(self.symbols, [frozenset(following) for following in self.follow], whole.first, whole.last, whole.empty)

    def position(self, token: Token) -> Part:
        """A position of its own."""
        place = len(self.symbols)
        self.symbols.append(self.symbol(token))
        self.follow.append(set())
        self.budget.check_positions(place)
        return Part(place, place + 1, frozenset((place,)), frozenset((place,)), False)

    RULE = TERMINAL = STRING = WORDS = REGEXP = RANGE = SUBSTRING = SPECIAL = JSON = LARK = REFERENCE = position

    def nothing(self) -> Part:
        """The empty text."""
        return Part(len(self.symbols), len(self.symbols), frozenset(), frozenset(), True)

    def alias(self, children: list[Any]) -> Part:
        """A -> name: A."""
        return children[0]  # type: ignore[no-any-return]

    def expansions(self, parts: Sequence[Part]) -> Part:
        """A | B."""
        if len(parts) == 1:
            return parts[0]
        first, last = (frozenset[int]().union(*sets) for sets in ((part.first for part in parts), (part.last for part in parts)))
        self.budget.spend(len(first) + len(last))
        return Part(parts[0].begin, parts[-1].end, first, last, any(part.empty for part in parts))

    def expansion(self, parts: Sequence[Part]) -> Part:
        """A B."""
        whole = self.nothing()
        for part in parts:
            whole = self.joined(whole, part)
        return whole

    def joined(self, left: Part, right: Part) -> Part:
        """One part and then another."""
        for place in left.last:
            self.follow[place] |= right.first
        self.budget.spend(1 + len(left.last) * len(right.first) + len(right.first))
        first = left.first | right.first if left.empty else left.first
        last = left.last | right.last if right.empty else right.last
        return Part(min(left.begin, right.begin), right.end, first, last, left.empty and right.empty)

    def repeat(self, children: list[Any]) -> Part:
        """A* and its like: copies of A, the last of them in a loop where there is no bound."""
        part, operation, *numbers = children
        minimum, maximum = self.bounds(operation, numbers)
        if maximum == 0:
            return self.nothing()
        copies = [part]
        while len(copies) < max(minimum, maximum):
            copies.append(self.copy(part))
        if maximum < 0:
            self.joined(copies[-1], copies[-1])
        last: frozenset[int] = frozenset()
        for number, (copy, following) in enumerate(zip(copies, [*copies[1:], None], strict=True), 1):
            if following is not None:
                self.joined(copy, following)
            if number >= minimum or part.empty:
                last |= copy.last
        return Part(part.begin, copies[-1].end, part.first, last, part.empty or minimum == 0)

    def copy(self, part: Part) -> Part:
        """A part once more, at positions of its own."""
        shift = len(self.symbols) - part.begin
        self.budget.check_positions(len(self.symbols) + part.end - part.begin)
        for place in range(part.begin, part.end):
            self.symbols.append(self.symbols[place])
            following = {other + shift for other in self.follow[place] if part.begin <= other < part.end}
            self.budget.spend(1 + len(following))
            self.follow.append(following)
        first, last = (frozenset(place + shift for place in places) for places in (part.first, part.last))
        return Part(part.begin + shift, part.end + shift, first, last, part.empty)

    def maybe(self, children: list[Any]) -> Part:
        """[A]."""
        part: Part = children[0]
        return part._replace(empty=True)


class Order:
    """The contexts of all rules that the start rule leads to, by the bodies of the rules."""

    def __init__(self, bodies: Mapping[str, Body], budget: Budget) -> None:
        self.bodies = bodies
        self.budget = budget
        self.empty: dict[str, bool] = dict.fromkeys(bodies, False)
        self.leading: dict[str, Lazies] = dict.fromkeys(bodies, _NONE)
        self.find_leading()
        self.with_lazies = self.users_of({rule for rule, body in bodies.items() if any(s.kind == LAZY for s in body.symbols)})
        self.coming: dict[tuple[str, frozenset[int]], tuple[Lazies, bool]] = {}
        self.graphs: dict[Context, Graph] = {}
        self.callers: dict[Context, set[Context]] = {}

    def calling_rules(self) -> dict[str, set[str]]:
        """By rule, those that call it."""
        calling: dict[str, set[str]] = {}
        for rule, body in self.bodies.items():
            for symbol in body.symbols:
                if symbol.kind == RULE:
                    calling.setdefault(str(symbol.key), set()).add(rule)
        return calling

    def users_of(self, rules: set[str]) -> set[str]:
        """Some rules and those that call them, directly or not."""
        callers = self.calling_rules()
        found, pending = set(rules), list(rules)
        for rule in pending:
            new = callers.get(rule, set()) - found
            found |= new
            pending += new
        return found

    def find_leading(self) -> None:
        """Which rules may be empty, and which lazy rules may come first in them: a least fixed point."""
        callers = self.calling_rules()
        pending = dict.fromkeys(self.bodies)
        while pending:
            rule, _ = pending.popitem()
            found = self.look_ahead(self.bodies[rule], _BEGIN)
            if found != (self.leading[rule], self.empty[rule]):
                self.leading[rule], self.empty[rule] = found
                pending |= dict.fromkeys(callers.get(rule, ()))

    def look_ahead(self, body: Body, positions: frozenset[int]) -> tuple[Lazies, bool]:
        """The lazy rules that may come behind positions of a body, and whether the body may end without reading more."""
        found: set[str] = set()
        pending = list(positions)
        seen = set(positions)
        ends = False
        for place in pending:
            ends = ends or body.may_end(place)
            self.budget.spend(1 + len(body.following(place)))
            for following in body.following(place):
                symbol = body.symbols[following]
                if symbol.kind == LAZY:
                    found.add(str(symbol.key))
                elif symbol.kind == RULE:
                    found |= self.leading[str(symbol.key)]
                if following not in seen and (symbol.empty or (symbol.kind == RULE and self.empty[str(symbol.key)])):
                    seen.add(following)
                    pending.append(following)
        return frozenset(found), ends

    def behind(self, context: Context, positions: frozenset[int]) -> Lazies:
        """The lazy rules that may come behind positions of a rule in a context."""
        key = (context.rule, positions)
        if key not in self.coming:
            self.coming[key] = self.look_ahead(self.bodies[context.rule], positions)
        found, ends = self.coming[key]
        return found | context.after if ends else found

    def is_plain(self, context: Context) -> bool:
        """Whether no lazy rule has anything to do with a rule in a context."""
        return context.rule not in self.with_lazies and not context.before and not context.after

    def run(self, start: str) -> Context:
        """Find the graphs of all contexts that the start rule leads to; gives its own."""
        root = Context(start, self.leading[start], _NONE)
        pending: dict[Context, None] = {root: None}
        while pending:
            # PERF: the oldest first, so that a rule of many calls is explored again after all of them, and not after each.
            context = next(iter(pending))
            del pending[context]
            before = self.graphs.get(context)
            graph = self.graphs[context] = self.explore(context)
            if len(self.graphs) > self.budget.limits.rules:
                most = self.budget.limits.rules
                raise LimitError(f"lazy rules make more than {most} rules of this grammar", limit="rules", value=most)
            pending |= dict.fromkeys(callee for callee in graph.calls if callee not in self.graphs)
            if before is None or before.ends.keys() != graph.ends.keys():
                pending |= dict.fromkeys(self.callers.get(context, ()))
        return root

    def explore(self, context: Context) -> Graph:
        """The graph of a rule in a context, given the known facts about the rules that it calls."""
        body = self.bodies[context.rule]
        states = {(_BEGIN, context.before): 0}
        edges: list[Edge] = []
        ends: dict[Lazies, list[int]] = {}
        calls: list[Context] = []

        def state(positions: frozenset[int], lazies: Lazies) -> int:
            key = (positions, lazies)
            if key not in states:
                states[key] = len(states) + 1  # state 1 is the end
                self.budget.check_states(len(states))
                todo.append(key)
            return states[key]

        todo = [(_BEGIN, context.before)]
        for positions, before in todo:
            source = states[positions, before]
            if any(map(body.may_end, positions)):
                ends.setdefault(before, []).append(source)
            for symbol, places in self.symbols_behind(body, positions):
                behind = self.behind(context, places)
                if symbol.kind != RULE:
                    edges.append(Edge(source, state(places, behind), symbol, before, None, _NONE))
                    if symbol.empty:
                        edges.append(Edge(source, state(places, before), None, before, None, _NONE))
                    continue
                callee = Context(str(symbol.key), before, behind)
                if self.is_plain(callee):
                    edges.append(Edge(source, state(places, behind), symbol, before, None, _NONE))
                    continue
                self.callers.setdefault(callee, set()).add(context)
                calls.append(callee)
                for end in self.graphs[callee].ends if callee in self.graphs else ():
                    edges.append(Edge(source, state(places, end), symbol, before, callee, end))
        return Graph(len(states) + 1, edges, ends, calls)

    def symbols_behind(self, body: Body, positions: frozenset[int]) -> Iterator[tuple[Symbol, frozenset[int]]]:
        """The symbols that may come next, each with its positions."""
        found: dict[tuple[int, Hashable], set[int]] = {}
        for place in sorted(frozenset().union(*map(body.following, positions))):
            symbol = body.symbols[place]
            found.setdefault((symbol.kind, symbol.key), set()).add(place)
            self.budget.spend(4)
        for places in found.values():
            yield body.symbols[min(places)], frozenset(places)
