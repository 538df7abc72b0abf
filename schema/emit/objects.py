"""Objects as nodes: chains of members where keys come in the order of the schema, permutations and graphs where they come in any."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from ...pda.automata import dfa
from ...pda.automata.dfa import ANYTHING, Dfa
from ...pda.automata.language import accepts
from ...pda.budget import QUARTER
from ...pda.exceptions import LimitError
from ...pda.grammar import GRAPH, REPEATABLE, REQUIRED, SEQ, GrammarBuilder, NodeId
from ..sets.keys import in_class, without
from ..sets.objects import Cases, Known, Oracle, key_space, member, names_of, prune, sets_of_keys
from ..sets.types import Atom, Conjunction, Object, reduced
from .alternatives import Alternative, Alternatives, Witnesses
from .json_parts import Fragments, closed_text, may_hold, quoted
from .object_graph import Member, OrderedGraph
from .unordered import Key, Unordered
from .values import scalar_node, separated

FEW_KEYS: Final = 1_024
"""A set of no more undeclared keys may run out before the members that have to be there are; of more keys there are always others."""
FEW_GROUPS: Final = 4
"""Of more sets of undeclared keys, those whose values are the same are put together."""
FEW_NAMES: Final = 64
"""If keys come in any order, each key of a set of at most this many undeclared keys is a separate member."""
MOST_OPTIONS: Final = 500
"""An object whose keys come in any order is a union of at most this many alternatives, or a graph (`emit.unordered`)."""
MOST_WRITTEN: Final = 100_000
"""The alternatives that are tried before a graph have at most this many members in all: 350 of 350 keys take 0.5 s, a graph 0.1 s."""
SMALL_GRAPH: Final = 2_000
"""States that such a graph may have before ten times as many alternatives are tried."""


class ObjectWriter:
    """Object parts written into one builder."""

    def __init__(
        self, b: GrammarBuilder, f: Fragments, oracle: Oracle, value: Callable[[Conjunction], NodeId], *, any_order: bool, distinct: bool
    ) -> None:
        self.b = b
        self.f = f
        self.oracle = oracle
        self.value = value
        self.any_order = any_order
        self.always_distinct = self.distinct = distinct
        self.extra_keys: dict[tuple[int, frozenset[str]], NodeId] = {}
        """Nodes for the keys of an automaton but some declared ones, which many objects may share."""

    def node(self, part: Object) -> NodeId:
        """The objects of a part."""
        pruned = prune(part, self.oracle)
        if pruned is None:
            return self.f.never
        outer, self.distinct = self.distinct, self.always_distinct or self.tells_repeated(pruned)
        node = self._node(pruned)
        node = self.b.scope(node) if self.distinct and node != self.f.never else node
        self.distinct = outer
        return node

    def tells_repeated(self, part: Object) -> bool:
        """Whether a key may not occur again: else it replaces its value by another that is as good.

        It may not where keys are counted, or where one of some keys must have a certain value. Clauses make a graph, which counts keys.
        One key beside those that are required is another key, however often it occurs.
        """
        required = {atom.name for atom in part.atoms if not atom.every and atom.name is not None} if part.low > 1 else ()
        return part.low > len(required) + 1 or bool(part.clauses) or any(atom.leaves_key_open for atom in part.atoms)

    def _node(self, pruned: Object) -> NodeId:
        """The objects of a part that is not empty, in the scope that `distinct` asks for."""
        if self.any_order:
            return self.in_any_order(self.named(pruned) if self.distinct else pruned)
        return self.in_schema_order(pruned)

    def named(self, part: Object) -> Object:
        """The part with the undeclared keys that may run out declared, so that each is a member of its own."""
        names = names_of(part)
        space, known = key_space(part, names, self.oracle), Known(part, self.oracle)
        choices = len(part.clauses) + sum(atom.leaves_key_open for atom in part.atoms)
        for key_class in space.classes:
            most = FEW_NAMES if choices else max(FEW_KEYS, part.low)
            if not self.oracle.is_empty(known.undeclared(key_class)) and space.room([key_class], most + 1) <= most:
                names += space.names(key_class)
        return part._replace(order=tuple(names))

    def members(self, part: Object) -> tuple[list[Member], list[Member]]:
        """The declared keys that can occur, and the classes of the others."""
        known = Known(part, self.oracle)
        names = names_of(part)
        declared: list[Member] = []
        for name in names:
            value = known.value(name)
            if not self.oracle.is_empty(value):
                key = self.b.seq(self.b.literal(quoted(name, self.f.closing)), self.f.colon)
                declared.append(Member(name, frozenset(), key, value, name in known.required))
        undeclared: list[Member] = []
        sets = sets_of_keys(part)
        space = key_space(part, names, self.oracle)
        # Cells that no set of keys tells apart are one.
        groups: dict[tuple[bool, ...], list[frozenset[int]]] = {}
        for inside in sorted(space.classes, key=sorted) if len(space.classes) > 1 else space.classes:
            groups.setdefault(tuple([in_class(keys, inside) for keys in sets]), []).append(inside)
        found: dict[object, tuple[Conjunction, list[frozenset[int]]]] = {}
        told_apart = any(not atom.every for atom in part.atoms if atom.name is None) or bool(part.clauses)
        for classes in groups.values():
            value = known.undeclared(classes[0])
            self.oracle.budget.spend(len(sets) // 4)
            if not self.oracle.is_empty(value):
                # PERF: n patterns of keys cut them into up to 2 ** n sets, whose values mostly are those of a few patterns.
                same = value if told_apart or len(groups) <= FEW_GROUPS else self.oracle.normal(value)
                found.setdefault((same, classes[0]) if told_apart else same, (value, []))[1].extend(classes)
        for value, classes in found.values():
            # Keys that may occur again never run out.
            many = max(FEW_KEYS, part.low) + 1
            room = space.room(classes, many) if self.distinct else many
            key = self.extra_key(*space.keys(classes))
            undeclared.append(Member(None, classes[0], key, value, False, room if room < many else -1))
        return declared, undeclared

    def extra_key(self, keys: Dfa, declared: Sequence[str]) -> NodeId:
        """The keys of an automaton but the declared ones, and a colon."""
        b, f = self.b, self.f
        if keys is ANYTHING:
            key = extra_key(b, f, declared)
        else:
            # The partition that an automaton is from keeps it as long as this writer is there.
            known = (id(keys), frozenset(declared))
            found = self.extra_keys.get(known)
            if found is None:
                left = without(keys, declared) if declared else keys
                if f.closing and may_hold(left, f.closing):
                    left = dfa.intersection(left, closed_text(f.closing), budget=self.oracle.budget)
                if left == dfa.NOTHING:
                    return f.never
                found = b.seq(f.quote, b.automaton(left.transitions, left.accepting, f.encoding), f.quote)
                self.extra_keys[known] = found
            key = found
        return b.seq(b.distinct(key) if self.distinct else key, f.colon)

    def pair(self, key: NodeId, value: Conjunction) -> NodeId:
        """Key, colon and value."""
        node = self.value(value)
        return self.f.never if node == self.f.never or key == self.f.never else self.b.seq(key, node)

    def in_schema_order(self, part: Object) -> NodeId:
        """An object with its declared keys in order."""
        b, f = self.b, self.f
        declared, undeclared = self.members(part)
        missing = {atom.name for atom in part.atoms if not atom.every and atom.name is not None}
        if not missing <= {m.name for m in declared}:
            return f.never
        clauses = [*part.clauses, *((atom,) for atom in part.atoms if atom.leaves_key_open)]
        low, high = part.low, part.high
        if low <= sum(m.required for m in declared):
            low = 0
        if not undeclared and high >= len(declared):
            high = -1
        is_plain = not clauses and not low and high < 0
        if is_plain or not (clauses or declared or any(m.room >= 0 for m in undeclared)):
            members, needed = [self.pair(m.key, m.value) for m in declared], [m.required for m in declared]
            extras = [n for m in undeclared if (n := self.pair(m.key, m.value)) != f.never]
            extra = b.alt(*extras) if extras else f.never
            return object_node(b, f, members, needed, extra) if is_plain else counted_object(b, f, extra, low, high)
        return OrderedGraph(b, f, declared, undeclared, clauses, low, high, pair=self.pair, oracle=self.oracle).node()

    def in_any_order(self, part: Object) -> NodeId:
        """An object with its keys in any order.

        As few alternatives where they are few, since masks of these cost least, else as a small graph, else as many alternatives or
        a large graph.

        PERF: with 20 keys a graph of 2,000 states is given up after 0.1 s and one of 20,000 after some 20 s, where 500 alternatives
        take 0.02 s and 5,000 take 0.3 s. This many alternatives are tried between the two graphs, unless they surely do not suffice.
        """
        few = min(MOST_OPTIONS, MOST_WRITTEN // max(1, len(names_of(part))))
        alternatives = Alternatives(part, self.oracle)
        options = alternatives.all(few)
        if options is not None:
            return self.union(options, part)
        budget = self.oracle.budget
        with budget.part("the graph of one object"):
            graph = self.unordered(part)
            node = graph.node(SMALL_GRAPH)
        if node is not None:
            return node
        if not alternatives.is_hopeless(10 * few):
            options = alternatives.all(10 * few)
            if options is not None:
                return self.union(options, part)
        with budget.part("the large graph of one object", QUARTER):
            node = graph.node(10 * SMALL_GRAPH)
        if node is not None:
            return node
        message = f"one object needs more than {10 * few} alternatives, and a graph of more than {10 * SMALL_GRAPH} states"
        raise LimitError(message, limit="states", value=10 * SMALL_GRAPH)

    def union(self, options: Sequence[Alternative], part: Object) -> NodeId:
        """A part as the union of its alternatives."""
        nodes = dict.fromkeys(self.permuted(option, part, witnesses) for option, witnesses in options)
        return self.b.alt(*(node for node in nodes if node != self.f.never)) if nodes else self.f.never

    def unordered(self, part: Object) -> Unordered:
        """The graph of an object with its keys in any order."""
        b, f = self.b, self.f
        self.distinct = True  # in the scope that `node` opens
        declared, undeclared = self.members(part)
        clauses = [*part.clauses, *((atom,) for atom in part.atoms if not atom.every)]
        keys = [
            Key(
                m.name,
                b.seq(b.distinct(b.literal(quoted(m.name, f.closing))), f.colon),
                m.value,
                partial(self.speaks_of, m.name),
                lambda _: False,
            )
            for m in declared
            if m.name is not None
        ]
        partition = key_space(part, names_of(part), self.oracle).partition
        for m in undeclared:
            endless = part.high < 0 and partition.is_endless(m.inside)
            keys.append(Key(None, m.key, m.value, partial(self.speaks_of_class, m.inside), partial(self.lasts, m, endless)))
        split, counts = Cases(self.oracle).split, (part.low, part.high)
        return Unordered(b, f, keys, clauses, counts, pair=self.pair, split=split, budget=self.oracle.budget)

    def speaks_of(self, name: str, atom: Atom) -> bool:
        """Whether an atom speaks of a declared key."""
        return member(self.oracle, atom.keys, name)

    @staticmethod
    def speaks_of_class(inside: frozenset[int], atom: Atom) -> bool:
        """Whether an atom speaks of the undeclared keys of a class."""
        return atom.name is None and in_class(atom.keys, inside)

    def lasts(self, key_class: Member, endless: bool, atom: Atom) -> bool:
        """Whether there is always one more key of a class with which an atom is met."""
        return (
            endless and self.speaks_of_class(key_class.inside, atom) and not self.oracle.is_empty(reduced(key_class.value | {atom.literal}))
        )

    def permuted(self, part: Object, whole: Object, witnesses: Witnesses) -> NodeId:
        """An object with its keys in any order; `whole` is the part this is an alternative of, whose sets of keys cut the others."""
        b, f = self.b, self.f
        part = part._replace(order=tuple(names_of(whole)))
        declared, undeclared = self.members(part)
        if {atom.name for atom in part.atoms if not atom.every and atom.name is not None} - {m.name for m in declared}:
            return f.never
        # PERF: a key has the same number in all alternatives, which so share the sets of keys that have come. With numbers of their own
        # 257 alternatives of 256 keys had a million of these sets, and a step that copied them took 0.4 s.
        by_name = {m.name: m for m in declared}
        members: list[int] = []
        self.oracle.budget.spend(2 * len(part.order))
        for m in (*map(by_name.get, names_of(part)), *undeclared):
            node = self.pair(m.key, m.value) if m else f.never
            if node == f.never and m and m.required:
                return f.never
            members += (node, 0 if node == f.never or not m else REQUIRED if m.required else REPEATABLE if m.name is None else 0)
        if witnesses:
            space, known = key_space(whole, names_of(whole), self.oracle), Known(part, self.oracle)
            for inside, literals in witnesses:
                value = known.undeclared(inside, *literals)
                node = f.never if self.oracle.is_empty(value) else self.pair(self.extra_key(*space.keys([inside])), value)
                if node == f.never:
                    return node
                members += (node, REQUIRED)
        return permuted_object(b, f, tuple(members), part.low, part.high)


def object_node(b: GrammarBuilder, f: Fragments, members: list[NodeId], needed: list[bool], extra: NodeId) -> NodeId:
    """An object with these members in this order, some of them `needed`, then any number of `extra` ones.

    A graph of two states a member: before(i), about to read member i or a later one, and after(i), where a comma or the end follows.
    A comma is read once, from after(i) to before(i + 1): were it read before each member that may come next, a state after a member would
    stand before as many commas as there are optional members left, and an engine would follow them all.
    """
    never, comma = f.never, f.comma
    if never in members:
        if (never, True) in zip(members, needed, strict=True):
            return never
        needed = [required for node, required in zip(members, needed, strict=True) if node != never]
        members = [node for node in members if node != never]
    if not members:
        if extra == never:
            return b.seq(f.open_object, f.blank, f.close_object)
        return b.seq(f.open_object, f.blank, b.optional(b.seq(separated(b, f, extra), f.blank)), f.close_object)
    edges: list[int] = []
    before, after = 0, 2
    left = needed.count(True)
    for node, required in zip(members if extra != never else members[:-1], needed, strict=False):
        following = after + 1
        if required:
            edges += (before, after, node, after, following, comma)
            left -= 1
        else:
            edges += (before, after, node, after, following, comma, before, following, -1)
        if not left:
            edges += (after, 1, -1)
        before = following
        after += 2
    if extra != never:
        edges += (before, after, extra, after, before, comma, after, 1, -1)
    else:
        edges += (before, after, members[-1], after, 1, -1)
        before = after + 1
    # PERF: nearly every schema has objects, and `b.seq` would be a further call for each node
    body = b.node((SEQ, b.node((GRAPH, before + 2, tuple(edges))), f.blank))
    return b.node((SEQ, f.open_object, f.blank, body if True in needed else b.optional(body), f.close_object))


def counted_object(b: GrammarBuilder, f: Fragments, extra: NodeId, low: int, high: int) -> NodeId:
    """An object of `low` to `high` members that are alike, -1 for no upper bound."""
    body = f.never if extra == f.never or high == 0 else b.seq(separated(b, f, extra, low, high), f.blank)
    if low <= 0:
        body = f.empty if body == f.never else b.optional(body)
    return f.never if body == f.never else b.seq(f.open_object, f.blank, body, f.close_object)


def extra_key(b: GrammarBuilder, f: Fragments, declared: Collection[str]) -> NodeId:
    """Any key but the declared ones, in quotes."""
    if not declared:
        return f.string
    if not f.closing:
        return b.node((SEQ, f.quote, b.except_words(declared, f.encoding), f.quote))
    others = closed_text(f.closing)
    others = without(others, [name for name in declared if accepts(others, name)])
    return b.seq(f.quote, b.automaton(others.transitions, others.accepting, f.encoding), f.quote)


def permuted_object(b: GrammarBuilder, f: Fragments, members: tuple[int, ...], low: int, high: int) -> NodeId:
    """An object of `low` to `high` of these members, in any order; members are (node, flags, ...) as PERMUTE has them."""
    empty = not low and not any(flags & REQUIRED for flags in members[1::2])
    if not members or high == 0:
        return b.seq(f.open_object, f.blank, f.close_object) if empty else f.never
    body = b.seq(b.permute(members, f.comma, minimum=max(low, 1), maximum=high), f.blank)
    return b.seq(f.open_object, f.blank, b.optional(body) if empty else body, f.close_object)


def unordered(b: GrammarBuilder, f: Fragments, members: list[NodeId], needed: list[bool], extra: NodeId) -> NodeId:
    """An object with these members in any order, some of them `needed`, and any number of `extra` ones."""
    flat: list[int] = []
    for node, required in zip(members, needed, strict=True):
        if node != f.never:
            flat += (node, REQUIRED if required else 0)
        elif required:
            return f.never
    if extra != f.never:
        flat += (extra, REPEATABLE)
    return permuted_object(b, f, tuple(flat), 0, -1)


def has_order(constant: object) -> bool:
    """Whether a constant holds an object of two keys or more."""
    pending = [constant]
    for value in pending:
        if isinstance(value, dict):
            if len(value) > 1:
                return True
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return False


def constant_in_any_order(b: GrammarBuilder, f: Fragments, constant: object) -> NodeId:
    """A constant whose objects have their keys in any order: JSON objects are equal if their members are (JSON Schema core, 4.2.2)."""
    # What stands inside is made first; its nodes wait on a stack, since constants may be nested deeply.
    pending = [(constant, False)]
    made: list[NodeId] = []
    while pending:
        value, is_ready = pending.pop()
        if not isinstance(value, list | dict):
            made.append(scalar_node(b, f, value))
            continue
        parts = list(value.values() if isinstance(value, dict) else value)
        if not is_ready:
            pending.append((value, True))
            pending += [(part, False) for part in reversed(parts)]
            continue
        nodes = made[len(made) - len(parts) :]
        del made[len(made) - len(parts) :]
        if isinstance(value, dict):
            members = [b.seq(b.literal(quoted(name, f.closing)), f.colon, node) for name, node in zip(value, nodes, strict=True)]
            made.append(unordered(b, f, members, [True] * len(members), f.never))
        else:
            items = [part for node in nodes for part in (f.comma, node)][1:]
            made.append(b.seq(f.open_array, f.blank, *items, *([f.blank] if items else []), f.close_array))
    return made[0]
