"""The algebra of automata against languages of all short texts."""

from __future__ import annotations

import itertools
import random
from bisect import bisect
from types import ModuleType
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.pda.automata import char_classes, dfa, language, minimize, nfa
from stackmask.pda.automata.dfa import ANYTHING, EPSILON, NOTHING, Dfa
from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import LimitError
from stackmask.pda.limits import Limits

WORDS = ["".join(word) for length in range(5) for word in itertools.product("ab", repeat=length)]

words = st.lists(st.text("ab", max_size=3), max_size=5).map(dfa.from_strings)
automata = st.recursive(
    words | st.sampled_from([ANYTHING, EPSILON, NOTHING, dfa.from_set((0x61, 0x61)), dfa.from_set((0x62, 0x10FFFF))]),
    lambda inner: (
        st.builds(nfa.repeat, inner)
        | st.builds(nfa.repeat, inner, st.integers(0, 2), st.integers(0, 3))
        | st.builds(dfa.complement, inner)
        | st.builds(dfa.union, inner, inner)
        | st.builds(nfa.concatenation, inner, inner)
        | st.builds(nfa.reverse, inner)
    ),
    max_leaves=4,
)


def texts(automaton: Dfa) -> set[str]:
    return {word for word in WORDS if language.accepts(automaton, word)}


def assert_canonical(automaton: Dfa) -> None:
    """Trimmed, minimal, numbered breadth first, ranges sorted, disjoint, joined and without surrogates."""
    assert dfa.minimize(automaton) == automaton
    order = [0]
    for row in automaton.transitions:
        ends = [(lo, hi) for lo, hi, _ in row]
        assert ends == sorted(ends)
        for (_, hi, target), (lo, _, following) in itertools.pairwise(row):
            assert hi < lo
            assert hi + 1 < lo or target != following
        for lo, hi, target in row:
            assert 0 <= lo <= hi < 0xD800 or 0xE000 <= lo <= hi <= 0x10FFFF
            if target not in order:
                order.append(target)
    assert order == list(range(len(automaton.accepting)))
    if automaton != NOTHING:
        assert min(language.distances(automaton)) >= 0


@given(automata, automata)
def test_boolean_algebra(left: Dfa, right: Dfa) -> None:
    """Union, intersection, difference and complement are those of sets of texts, and equal languages are equal automata."""
    a, b = texts(left), texts(right)
    union, intersection, difference = dfa.union(left, right), dfa.intersection(left, right), dfa.difference(left, right)
    assert texts(union) == a | b
    assert texts(intersection) == a & b
    assert texts(difference) == a - b
    assert texts(dfa.complement(left)) == set(WORDS) - a
    for automaton in (union, intersection, difference):
        assert_canonical(automaton)
    assert union == dfa.complement(dfa.intersection(dfa.complement(left), dfa.complement(right))) == dfa.union(right, left)
    assert difference == dfa.intersection(left, dfa.complement(right))
    assert dfa.complement(dfa.complement(left)) == left
    assert dfa.contains(left, right) == (dfa.difference(right, left) == NOTHING)
    assert dfa.contains(union, left)
    assert dfa.contains(left, intersection)


@pytest.mark.parametrize("limit", [(dfa, "MOST_CLASSES"), (char_classes, "MOST_CELLS"), (minimize, "MOST_CLASSES")])
@given(left=automata, right=automata)
def test_products_by_labels(limit: tuple[ModuleType, str], left: Dfa, right: Dfa) -> None:
    """Automata of too many classes or states for rows by classes have the same products."""
    operations = (dfa.union, dfa.intersection, dfa.difference)
    by_classes = [operation(left, right) for operation in operations]
    with patch.object(*limit, 0):
        again = [Dfa(automaton.transitions, automaton.accepting) for automaton in (left, right)]
        assert [operation(*again) for operation in operations] == by_classes
    with patch.object(dfa, "LARGE_PRODUCT", 0):
        assert [operation(left, right) for operation in operations] == by_classes


@given(automata, automata, st.sampled_from(["union", "intersection", "difference"]))
def test_products_know_their_classes(left: Dfa, right: Dfa, operation: str) -> None:
    """The rows by classes that a product is kept with are those of its ranges, and further products are the same with them."""
    found = getattr(dfa, operation)(left, right)
    again = Dfa(found.transitions, found.accepting)
    kept, read = dfa.by_classes(found), dfa.by_classes(again)
    assert kept is not None and read is not None
    for table in (kept, read):
        assert len(set(zip(*table.rows, strict=True))) == len(table.rows[0]), "classes that no state tells apart"
    for character in {0, 0x10FFFF, *(end for row in found.transitions for lo, hi, _ in row for end in (lo - 1, lo, hi, hi + 1))}:
        if 0 <= character <= 0x10FFFF and not 0xD800 <= character <= 0xDFFF:
            columns = [[row[table.classes[bisect(table.points, character) - 1]] for row in table.rows] for table in (kept, read)]
            assert columns[0] == columns[1]
    for other in (left, right):
        assert dfa.difference(found, other) == dfa.difference(again, other)
        assert dfa.union(found, other) == dfa.union(again, other)


@given(automata, automata)
def test_concatenation(left: Dfa, right: Dfa) -> None:
    """A text of one, then a text of the other."""
    a, b = texts(left), texts(right)
    found = nfa.concatenation(left, right)
    assert texts(found) == {word for word in WORDS if any(word[:cut] in a and word[cut:] in b for cut in range(len(word) + 1))}
    assert_canonical(found)
    assert nfa.concatenation(left, right, left) == nfa.concatenation(left, nfa.concatenation(right, left))


@given(automata, st.integers(0, 2), st.integers(0, 3) | st.just(-1))
def test_repeat(automaton: Dfa, minimum: int, maximum: int) -> None:
    """Every number of repetitions in the bounds, and no other."""
    found = nfa.repeat(automaton, minimum, maximum)
    assert_canonical(found)
    if maximum < 0:
        times = nfa.concatenation(*[automaton] * minimum)
        assert found == dfa.union(times, nfa.concatenation(found, automaton), times)
        assert dfa.contains(found, times)
    else:
        assert found == dfa.union(*[nfa.concatenation(*[automaton] * times) for times in range(minimum, maximum + 1)])


@given(automata)
def test_reverse(automaton: Dfa) -> None:
    """The texts backwards; twice is the same automaton."""
    found = nfa.reverse(automaton)
    assert texts(found) == {word[::-1] for word in texts(automaton)}
    assert nfa.reverse(found) == automaton


@given(automata, st.integers(0, 4), st.integers(0, 4) | st.just(-1))
def test_restrict_length(automaton: Dfa, minimum: int, maximum: int) -> None:
    """Texts of other lengths go, the rest stays."""
    found = dfa.restrict_length(automaton, minimum, maximum)
    assert texts(found) == {word for word in texts(automaton) if minimum <= len(word) <= (maximum if maximum >= 0 else 9)}
    assert_canonical(found)


@given(automata, st.integers(0, 4), st.integers(-1, 5), st.integers(0, 9))
def test_has_more(automaton: Dfa, low: int, high: int, limit: int) -> None:
    """Whether there are more texts of some lengths than a limit is told without an automaton of them."""
    found = language.count(dfa.restrict_length(automaton, low, high), cap=limit + 1)
    assert language.has_more(automaton, low, high, limit) == (found == limit + 1)


def test_has_more_is_bounded() -> None:
    """Texts that are long to count are not counted."""
    assert not language.has_more(nfa.repeat(dfa.from_string("a")), 10**9, 2 * 10**9, 3)


@given(automata, st.randoms(use_true_random=False))
def test_questions(automaton: Dfa, rng: random.Random) -> None:
    """Emptiness, finiteness, number, lengths, members and samples agree with each other and with the texts."""
    inside = dfa.intersection(automaton, nfa.repeat(dfa.from_set((0x61, 0x62)), 0, 4))
    expected = sorted(texts(automaton), key=lambda word: (len(word), word))
    assert list(language.enumerate_texts(inside)) == expected
    assert list(language.enumerate_texts(inside, 2)) == [word for word in expected if len(word) <= 2]
    assert language.count(inside) == len(expected)
    assert language.count(inside, cap=3) == min(3, len(expected))
    assert language.is_empty(inside) == (not expected)
    assert language.is_finite(inside)
    assert language.shortest(inside) == (expected[0] if expected else None)
    lengths = [len(word) for word in expected]
    assert language.length_bounds(inside) == ((min(lengths), max(lengths)) if expected else None)
    assert language.is_finite(automaton) == (language.count(automaton) is not None)
    sample = language.sample(automaton, rng)
    assert sample is None if automaton == NOTHING else sample is not None and language.accepts(automaton, sample)
    if not language.is_finite(automaton):
        bounds = language.length_bounds(automaton)
        assert bounds is not None
        assert bounds[1] is None
        assert language.count(automaton, cap=7) == 7
        assert len(list(itertools.islice(language.enumerate_texts(automaton), 50))) == 50


@given(st.lists(st.text(max_size=6), max_size=12))
def test_from_strings(options: list[str]) -> None:
    """The words and no others, in the canonical automaton."""
    found = dfa.from_strings(options)
    assert sorted(language.enumerate_texts(found)) == sorted({word for word in options if not any("\ud800" <= c <= "\udfff" for c in word)})
    assert_canonical(found)


def test_from_strings_without_surrogates() -> None:
    """A word with a lone surrogate is no text."""
    assert dfa.from_strings(["a\ud800"]) == NOTHING
    assert dfa.from_strings([]) == NOTHING
    assert dfa.from_strings([""]) == EPSILON
    assert dfa.from_string("ab") == dfa.from_strings(["ab"])


def test_constants() -> None:
    """The neutral elements are canonical and are what operations give for no operands."""
    for automaton in (NOTHING, EPSILON, ANYTHING):
        assert dfa.minimize(automaton) == automaton
    assert dfa.union() == NOTHING
    assert dfa.intersection() == ANYTHING
    assert nfa.concatenation() == EPSILON
    assert dfa.complement(NOTHING) == ANYTHING
    assert dfa.from_set(()) == NOTHING
    assert nfa.repeat(EPSILON) == nfa.repeat(NOTHING) == EPSILON
    assert repr(ANYTHING) == "<Dfa of 1 states, 2 transitions>"


def test_minimize_any_automaton() -> None:
    """Unreachable and dead states go, equal ones merge, adjacent ranges join."""
    clumsy = Dfa(
        (((97, 97, 1), (98, 98, 2), (99, 99, 3)), ((100, 100, 4), (101, 101, 5)), ((100, 101, 5),), ((97, 97, 3),), (), (), ((97, 97, 0),)),
        (False, False, False, False, True, True, True),
    )
    assert dfa.minimize(clumsy) == Dfa((((97, 98, 1),), ((100, 101, 2),), ()), (False, False, True))


def test_many_targets() -> None:
    """Rows with hundreds of targets are merged range by range, with the same result."""
    rng = random.Random(5)
    many = ["".join(chr(rng.randrange(0x4E00, 0x9000)) for _ in range(3)) for _ in range(300)]
    some, others = dfa.from_strings(many[:200]), dfa.from_strings(many[100:])
    assert dfa.intersection(some, others) == dfa.from_strings(set(many[:200]) & set(many[100:]))
    assert dfa.union(some, others) == dfa.from_strings(many)
    assert dfa.difference(some, others) == dfa.from_strings(set(many[:200]) - set(many[100:]))


def test_limits() -> None:
    """A determinisation that explodes ends in an error that names the limit."""
    either = dfa.from_set((0x61, 0x62))
    explosive = [nfa.repeat(either), dfa.from_string("a"), nfa.repeat(either, 20, 20)]
    with pytest.raises(LimitError, match="automaton takes more than 250,000 steps") as caught:
        nfa.concatenation(*explosive, budget=Budget(Limits(compile_work=500_000)))
    assert (caught.value.limit, caught.value.value) == ("compile_work", 500_000)
    with pytest.raises(LimitError, match="deterministic states") as caught:
        nfa.concatenation(*explosive, budget=Budget(Limits(states=1_000)))
    assert caught.value.limit == "states"
    with pytest.raises(LimitError, match="0 s") as caught:
        nfa.concatenation(*explosive, budget=Budget(Limits(compile_seconds=0)))
    assert caught.value.limit == "compile_seconds"
    with pytest.raises(LimitError, match="more than 100 states"):
        dfa.from_strings(map(str, range(1000)), budget=Budget(Limits(states=100)))


def test_rows_that_all_differ() -> None:
    """A writer of rows changes its way where templates do not pay, and writes the same."""
    chosen = random.Random(3)
    intervals = [(lo, lo + chosen.randrange(1, 9), chosen.randrange(12)) for lo in range(0, 600, 9)]
    writer = char_classes.RowWriter(intervals)
    for _ in range(700):
        targets = [chosen.randrange(-1, 6) for _ in range(12)]
        read = {point: targets[number] for lo, hi, number in intervals for point in range(lo, hi + 1) if targets[number] >= 0}
        row = writer.row(targets)
        assert row == char_classes.RowWriter(intervals).row(targets)
        assert {point: target for lo, hi, target in row for point in range(lo, hi + 1)} == read
    assert writer.sweeps
    regular = char_classes.RowWriter(intervals)
    assert all(regular.row([number % 3] * 12) == regular.row([number % 3] * 12) for number in range(700))
    assert not regular.sweeps
