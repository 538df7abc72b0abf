"""Objects with clauses as unions of objects without, in any order: how many alternatives, and what is said of too many."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import LimitError
from stackmask.pda.grammar import GrammarBuilder
from stackmask.schema.emit import alternatives, objects, unordered
from stackmask.schema.emit.alternatives import Alternatives
from stackmask.schema.json_schema import json_schema_grammar, json_schema_node

Tree = tuple[Any, ...]
"""A tree of decisions: the branches of each node; None for a leaf, () for a dead end."""


class Drawn(Alternatives):
    """Alternatives whose tree is given."""

    def __init__(self, tree: Tree | None) -> None:
        self.part: Any = tree
        self.seen = 0

    def _branches(self, node: Any) -> Iterator[Any] | None:
        self.seen += 1
        return None if node[0] is None else ((branch, ()) for branch in node[0])


def leaves(tree: Tree | None) -> int:
    """The number of leaves of a tree."""
    return 1 if tree is None else sum(map(leaves, tree))


def complete(depth: int, width: int = 2) -> Tree | None:
    """The tree in which all leaves are equally deep."""
    tree: Tree | None = None
    for _ in range(depth):
        tree = (tree,) * width
    return tree


def chain(length: int, *, first: bool) -> Tree | None:
    """A leaf beside a node with a leaf beside it, and so on: the leaf stands first or last."""
    tree: Tree | None = None
    for _ in range(length):
        tree = (None, tree) if first else (tree, None)
    return tree


TREES = st.recursive(st.sampled_from([None, None, None, ()]), lambda inner: st.lists(inner, min_size=1, max_size=4).map(tuple))


@given(TREES, st.integers(0, 30))
def test_all(tree, most):
    """All leaves are found where there are no more of them than are allowed, and the tree is no larger than that."""
    drawn = Drawn(tree)
    found = drawn.all(most)
    if found is not None:
        assert len(found) == leaves(tree) and (len(found) <= most or tree is None)
    elif leaves(tree) <= most:
        # dead ends that wait count with the leaves, and nodes are counted, too
        assert tree_size(tree) > most


def tree_size(tree: Tree | None) -> int:
    """The number of nodes of a tree."""
    return 1 if tree is None else 1 + sum(map(tree_size, tree))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("length", [1, 10, 499])
def test_chains_are_not_hopeless(length, first):
    """Lopsided trees, whose walks tell least, are never taken for too large."""
    tree = chain(length, first=first)
    found = Drawn(tree).all(500)
    assert found is not None and len(found) == length + 1
    assert not Drawn(tree).is_hopeless(500)


@pytest.mark.parametrize(("depth", "hopeless"), [(3, False), (12, False), (13, True), (40, True), (2_000, True)])
def test_complete_trees(depth, hopeless):
    """Of trees with 2^depth leaves those with more than 5,000 are hopeless where these are allowed, and few nodes are looked at."""
    drawn = Drawn(complete(depth))
    assert drawn.is_hopeless(5_000) is hopeless
    assert drawn.seen <= 1.1 * 5_000 // alternatives.WALKED + 2 * depth  # leaves are not counted


def test_a_long_way_to_a_leaf():
    """Nodes are counted, too: a tree of one leaf is given up where the way to it is too long."""
    for length, found in ((4_999, [(None, ())]), (5_001, None)):
        tree: Tree | None = None
        for _ in range(length):
            tree = (tree,)
        assert Drawn(tree).all(500) == found


def test_dead_ends():
    """Walks that end without a leaf lose half of the stake, not all of it."""
    assert Drawn(((), complete(15))).is_hopeless(5_000)
    assert not Drawn(((), complete(8))).is_hopeless(5_000)


@given(TREES, st.integers(1, 200))
def test_no_tree_that_fits_is_hopeless(tree, most):
    """Whatever its shape."""
    if leaves(tree) <= most:
        assert not Drawn(tree).is_hopeless(most)


def test_the_stake_is_fair(monkeypatch):
    """Where as many leaves as are allowed hang in random trees, a stake of 1 grows by a factor of 8 in at most an eighth of all cases."""
    monkeypatch.setattr(alternatives, "ODDS", 8.0)
    chance = random.Random(5)

    def grown(size: int) -> Tree | None:
        if size == 1:
            return None
        left = chance.randrange(1, size)
        return grown(left), grown(size - left)

    said = sum(Drawn(grown(60)).is_hopeless(60) for _ in range(400))
    assert said <= 400 / 8


def dependent(count: int) -> Any:
    """An object in which each of some keys, where it is there, demands a value of another."""
    keys = [f"k{n}" for n in range(count)]
    demands = {key: {"properties": {f"v{n}": {"minimum": n}}, "required": [f"v{n}"]} for n, key in enumerate(keys)}
    return {"type": "object", "properties": {key: {"type": "integer"} for key in keys}, "dependentSchemas": demands}


def test_the_search_is_spared(monkeypatch):
    """Where the alternatives are hopeless the large graph follows at once, which goes on from the small one."""
    tried: list[int] = []
    states: list[int] = []
    search, node = Alternatives.all, unordered.Unordered.node

    def all_(self: Any, most: int) -> Any:
        tried.append(most)
        return search(self, most)

    def grow(self: Any, most: int) -> Any:
        before = self.read
        found = node(self, most)
        states.append(before)
        return found

    monkeypatch.setattr(Alternatives, "all", all_)
    monkeypatch.setattr(unordered.Unordered, "node", grow)
    monkeypatch.setattr(objects, "SMALL_GRAPH", 20)
    with pytest.raises(LimitError, match="one object needs more than 5000 alternatives, and a graph of more than 200 states"):
        json_schema_grammar(dependent(24), property_order="any")
    assert tried == [objects.MOST_OPTIONS]
    assert states[0] == 0 < states[1]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_graph_that_goes_on_is_the_same(monkeypatch, count):
    """A graph that stopped at each number of states and went on is the one that never stopped."""
    monkeypatch.setattr(objects, "MOST_OPTIONS", 0)
    whole, _ = json_schema_grammar(dependent(count), property_order="any")
    node = unordered.Unordered.node

    def in_steps(self: Any, states: int) -> Any:
        for some in itertools.count(1):
            found = node(self, min(some, states))
            if found is not None or some >= states:
                assert some == len(self.numbers) + 1  # with the end
                return found

    monkeypatch.setattr(unordered.Unordered, "alone", lambda _: 0)
    monkeypatch.setattr(unordered.Unordered, "node", in_steps)
    stepped, _ = json_schema_grammar(dependent(count), property_order="any")
    assert (stepped.nodes, stepped.rules) == (whole.nodes, whole.rules)


def parts(monkeypatch: pytest.MonkeyPatch, schema: Any) -> list[list[set[str]]]:
    """The keys that each alternative of an object requires, call by call."""
    found: list[list[set[str]]] = []
    search = Alternatives.all

    def all_(self: Any, most: int) -> Any:
        options = search(self, most)
        found.append([{atom.name or "" for atom in option.atoms if not atom.every} for option, _ in options])
        return options

    with monkeypatch.context() as patch:
        patch.setattr(Alternatives, "all", all_)
        json_schema_grammar(schema, property_order="any")
    return found


def test_the_alternatives_of_an_object(monkeypatch):
    """In the order of the branches, without those that cannot be."""
    one_of_two = [{"anyOf": [{"required": [a]}, {"required": [b]}]} for a, b in (("a", "b"), ("c", "d"))]
    (found,) = parts(monkeypatch, {"type": "object", "allOf": one_of_two})
    assert found == [{"a", "c"}, {"a", "d"}, {"b", "c"}, {"b", "d"}]
    bounds = [{"anyOf": [{"properties": {"k": {"const": n}}, "required": ["k"]}, {"required": [key]}]} for n, key in enumerate("xy")]
    (found,) = parts(monkeypatch, {"type": "object", "allOf": bounds})
    assert found == [{"x", "y"}, {"k", "x"}, {"k", "y"}]  # k is not 0 and 1 at once
    zero = {"properties": {"k": {"const": 0}}, "required": ["k"]}
    if_zero = [{"anyOf": [{"not": zero}, {"properties": {"c": {"const": n}}, "required": ["c"]}]} for n in range(2)]
    (found,) = parts(monkeypatch, {"type": "object", "allOf": [{"anyOf": [zero, {"required": ["x"]}]}, *if_zero]})
    assert found and all("x" in option for option in found)  # were k 0, c would be 0 and 1
    another = {"not": {"patternProperties": {"^a": {"const": 2}}}}
    (found,) = parts(monkeypatch, {"type": "object", "properties": {"a1": {"const": 2}, "a2": {"const": 3}}, "allOf": [another]})
    assert found == [{"a2"}, set()]  # a1 is not the key whose value is another than 2; a key that is not declared may be


@pytest.mark.parametrize("count", [20, 27])
def test_what_is_refused_is_refused_early(count):
    """The work of a refusal is less than what a compilation may take."""
    budget = Budget()
    with pytest.raises(LimitError, match="the large graph of one object"):
        json_schema_node(GrammarBuilder(), dependent(count), property_order="any", budget=budget)
    assert budget.work < 0.75 * budget.limits.compile_work
