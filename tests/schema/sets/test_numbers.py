"""Sets of numbers and their texts, against plain arithmetic on enumerated texts."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from support.engines import accepts, load_engine, matcher
from support.pace import as_quick_as

from stackmask.pda.exceptions import LimitError, SchemaError
from stackmask.pda.grammar import AUTOMATON, GrammarBuilder
from stackmask.schema.dialect.keyword_values import integer_set, number_set
from stackmask.schema.emit.number_text import (
    _MOST_COMPARED,
    _Alike,
    _DigitMachine,
    expansion,
    least_states,
    least_states_together,
    remainders_alike,
)
from stackmask.schema.emit.numbers import number_node
from stackmask.schema.json_schema import json_schema_grammar
from stackmask.schema.sets.numbers import INTEGERS, NOTHING, NUMBERS, NumberSet, exact

JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Language:
    """Membership in the node of a set of numbers, by sets of positions: the plainest reading of the IR there is."""

    def __init__(self, numbers: NumberSet) -> None:
        self.builder = GrammarBuilder()
        self.root = number_node(self.builder, numbers)

    def ends(self, node: int, text: bytes, start: int) -> set[int]:
        """Where `node` may end when it reads from `start`."""
        operator, *arguments = self.builder.nodes[node]
        match operator:
            case 0:
                return {start}
            case 1:
                return set()
            case 2:
                return {start + len(arguments[0])} if text.startswith(arguments[0], start) else set()
            case 3:
                ranges = arguments[0]
                fits = start < len(text) and any(lo <= text[start] <= hi for lo, hi in zip(ranges[::2], ranges[1::2], strict=True))
                return {start + 1} if fits else set()
            case 5:
                places = {start}
                for part in arguments:
                    places = {end for place in places for end in self.ends(part, text, place)}
                return places
            case 6:
                return {end for part in arguments for end in self.ends(part, text, start)}
            case 7:
                assert arguments[1:] == [0, 1]
                return {start} | self.ends(arguments[0], text, start)
            case _:
                assert operator == AUTOMATON
                transitions, accepting, _ = arguments
                state, place, found = 0, start, set()
                while True:
                    if accepting[state]:
                        found.add(place)
                    targets = [t for lo, hi, t in transitions[state] if place < len(text) and lo <= text[place] <= hi]
                    assert len(targets) <= 1, "an automaton is deterministic"
                    if not targets:
                        return found
                    state, place = targets[0], place + 1

    def __contains__(self, text: str) -> bool:
        return len(text) in self.ends(self.root, text.encode(), 0)


def between(low: object = None, high: object = None, **options: bool) -> NumberSet:
    return NumberSet.interval(low, high, **options)  # type: ignore[arg-type]


SETS = {
    "number": NUMBERS,
    "integer": INTEGERS,
    "0..": between(0),
    ">0": between(0, low_open=True),
    "..0": between(None, 0),
    "<0": between(None, 0, high_open=True),
    "0..1": between(0, 1),
    "(0,1)": between(0, 1, low_open=True, high_open=True),
    "-1.5..2.25": between(-1.5, 2.25),
    "0.05..": between(0.05),
    "..-0.3": between(None, -0.3),
    "99.5..1e3": between(99.5, 1e3, high_open=True),
    "integers 0..": INTEGERS & between(0),
    "integers 1..": INTEGERS & between(1),
    "integers 1..100": INTEGERS & between(1, 100),
    "integers -12..7": INTEGERS & between(-12, 7),
    "integers 7..12": INTEGERS & between(7, 12),
    "integers ..-35": INTEGERS & between(None, -35),
    "integers but 3": INTEGERS - NumberSet.of([3]),
    "numbers but 0": NUMBERS - NumberSet.of([0]),
    "numbers but 0.5": between(0) - NumberSet.of([0.5]),
    "multiples of 3": NumberSet.multiples(3),
    "multiples of 7 from 20": NumberSet.multiples(7) & between(20),
    "multiples of 7, 100..2000": NumberSet.multiples(7) & between(100, 2000),
    "multiples of 0.01": NumberSet.multiples(0.01),
    "multiples of 0.5 in 1..30": NumberSet.multiples(0.5) & between(1, 30),
    "multiples of 1.5": NumberSet.multiples(1.5),
    "not integer": ~INTEGERS,
    "not multiple of 0.1": ~NumberSet.multiples(0.1),
    "no integer above 2": ~INTEGERS & between(2),
    "integers, no multiple of 3": INTEGERS - NumberSet.multiples(3),
    "multiples of 2 or 3, not 6": (NumberSet.multiples(2) | NumberSet.multiples(3)) - NumberSet.multiples(6),
    "0.5, 1, 7": NumberSet.of([0.5, 1, 7]),
    "empty": NOTHING,
}


def texts() -> list[str]:
    """Every short JSON number text, and a few hundred longer ones."""
    found = {"".join(t) for size in range(1, 5) for t in itertools.product("-0123579.e", repeat=size)}
    source = random.Random(1)
    for _ in range(1200):
        value = source.choice([source.uniform(-3, 3), source.uniform(-1e3, 2e3), round(source.uniform(0, 300), 2), source.uniform(0, 1e-6)])
        found.add(json.dumps(value))
        found.add(f"{value:.3e}")
        found.add(str(int(value)))
    found |= {
        "1e5",
        "1E+05",
        "-1.5e-07",
        "1e16",
        "0.000",
        "1.000",
        "100.0",
        "2.25",
        "2.250",
        "2.2501",
        "9.95e1",
        "9.94e1",
        "1e3",
        "9.99e+02",
    }
    return sorted(t for t in found if JSON_NUMBER.fullmatch(t))


TEXTS = texts()


@pytest.mark.parametrize("name", SETS)
def test_texts_are_exactly_the_set(name: str) -> None:
    """No text of another number is taken, and every number is taken in its plain spelling."""
    numbers = SETS[name]
    language = Language(numbers)
    values = {text: Fraction(text) for text in TEXTS}
    for text, value in values.items():
        member = value in numbers
        if not member:
            assert text not in language, text
            continue
        if text.startswith("-") and not value:
            continue
        if numbers.is_integer():
            plain = "." not in text and "e" not in text.lower()
            assert (text in language) == plain, text
        elif numbers.cardinality(100) < 100:
            assert (text in language) or value.denominator == 1 or text != json.dumps(float(text)), text
        elif "e" not in text.lower():
            steps = [step for piece in numbers.pieces for step, _ in piece[2]]
            digits = len(text.partition(".")[2])
            if all(steps):
                assert (text in language) == (digits <= 2 if steps == [Fraction(1, 100)] else digits <= 1), text
            else:
                assert text in language, text


@pytest.mark.parametrize(
    "name", ["number", "0..", ">0", "..0", "0..1", "(0,1)", "-1.5..2.25", "0.05..", "..-0.3", "99.5..1e3", "not integer"]
)
def test_floats_as_programs_print_them(name: str) -> None:
    """What json.dumps prints for a float of the set is taken, exponents included."""
    numbers = SETS[name]
    language = Language(numbers)
    source = random.Random(2)
    for _ in range(1500):
        value = source.choice([-1, 1]) * source.random() * 10 ** source.randint(-12, 20)
        assert (json.dumps(value) in language) == (value in numbers), value


def test_bounds_beyond_64_bits() -> None:
    """Bounds of any length compare exactly."""
    language = Language(INTEGERS & between(2**64, 10**40))
    for value in (2**64, 2**64 + 1, 10**40, 3 * 10**30):
        assert str(value) in language
    for value in (2**64 - 1, 10**40 + 1, 0):
        assert str(value) not in language
    assert str(10**308) in Language(INTEGERS & between(None, 1e308))
    assert "1.0000000000000000001e308" not in Language(between(None, 1e308))
    assert "1e308" in Language(between(None, 1e308))


@pytest.mark.parametrize(("period", "divisors"), [(24, [24]), (360, [40, 36]), (96, [32, 12]), (250, [125, 50]), (77, [7, 11])])
def test_remainders_alike(period: int, divisors: list[int]) -> None:
    """Remainders are alike just where no digits tell them apart, here by refinement until nothing changes."""
    names = [tuple(rest % divisor == 0 for divisor in divisors) for rest in range(period)]
    while True:
        rows = [(names[rest], *(names[(10 * rest + digit) % period] for digit in range(10))) for rest in range(period)]
        numbers = {row: number for number, row in enumerate(dict.fromkeys(rows))}
        refined = [(numbers[row],) for row in rows]
        if len(set(refined)) == len(set(names)):
            break
        names = refined
    assert remainders_alike(period, divisors) == [names.index(name) for name in names]


def test_large_multiples() -> None:
    """Multiples of a large number are enumerated in a small range, and are a LimitError without one."""
    assert str(999999937 * 3) in Language(NumberSet.multiples(999999937) & between(0, 10**10))
    with pytest.raises(LimitError):
        Language(NumberSet.multiples(999999937))
    language = Language(NumberSet.multiples(1009))
    assert str(1009 * 987654321987654321) in language
    assert str(1009 * 987654321987654321 + 1) not in language


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations(list(SETS), 2)))
def test_algebra(a: str, b: str) -> None:
    """Intersection, union and complement agree with membership, and De Morgan's laws hold as equal forms or mutual subsets."""
    x, y = SETS[a], SETS[b]
    both, either, neither = x & y, x | y, ~x & ~y
    for value in (*VALUES,):
        assert (value in both) == (value in x and value in y)
        assert (value in either) == (value in x or value in y)
        assert (value in neither) != (value in either)
    assert (both & ~x).is_empty()
    assert both.is_subset(y)
    assert neither.is_subset(~either)
    assert (~either).is_subset(neither)


VALUES = [Fraction(n, d) for d in (1, 2, 10, 100) for n in (-40, -36, -15, -7, -3, -1, 0, 1, 2, 3, 5, 7, 12, 15, 21, 42, 100, 225, 1001)]


def test_canonical_forms() -> None:
    """Sets made in different ways have one form."""
    assert INTEGERS & between(0.5, 5.5) == INTEGERS & between(1, 5)
    assert NumberSet.of([1, 2, 3]) == INTEGERS & between(1, 3)
    assert ~~INTEGERS == INTEGERS
    assert INTEGERS | ~INTEGERS == NUMBERS
    assert (INTEGERS & between(1, 3)) | (INTEGERS & between(4, 9)) == INTEGERS & between(1, 9)
    assert between(0, 1) | between(1, 2, low_open=True) == between(0, 2)
    assert NumberSet.multiples(4) & NumberSet.multiples(6) == NumberSet.multiples(12)
    assert NumberSet.multiples(0.1) & NumberSet.multiples(0.25) == NumberSet.multiples(0.5)
    assert ~(~NumberSet.multiples(2) & ~NumberSet.multiples(3)) == NumberSet.multiples(2) | NumberSet.multiples(3)
    assert NumberSet.multiples(7) & between(1, 6) == NOTHING
    assert NumberSet.of([0]) | (NumberSet.multiples(3) & between(3)) == NumberSet.multiples(3) & between(0)
    assert between(3, 2) == NOTHING
    assert hash(INTEGERS & NUMBERS) == hash(INTEGERS)


def test_counting() -> None:
    """Cardinality and members of finite sets."""
    assert (INTEGERS & between(1, 10**30)).cardinality() == 1 << 60
    assert (INTEGERS & between(1, 100)).cardinality() == 100
    assert (NumberSet.multiples(0.25) & between(0, 1)).values(5) == [0, Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), 1]
    assert (NumberSet.multiples(0.25) & between(0, 1)).values(4) is None
    assert (INTEGERS - NumberSet.multiples(2) - NumberSet.multiples(3)).cardinality() == 1 << 60
    assert ((INTEGERS - NumberSet.multiples(2) - NumberSet.multiples(3)) & between(1, 30)).values(99) == [
        1,
        5,
        7,
        11,
        13,
        17,
        19,
        23,
        25,
        29,
    ]
    assert NUMBERS.values(1000) is None
    assert NOTHING.cardinality() == 0


def test_exact_values() -> None:
    """A float is the decimal it prints as; no binary rounding."""
    assert exact(0.1) == Fraction(1, 10)
    assert exact(Decimal("1e2")) == 100
    assert 0.3 in NumberSet.multiples(0.1)
    assert exact(1e308) == 10**308
    with pytest.raises(LimitError):
        exact(Decimal("1e1000000"))
    with pytest.raises(LimitError):
        exact(10**5000)
    with pytest.raises(ValueError, match="nan"):
        exact(float("nan"))


def test_minus_zero() -> None:
    """-0 is taken where 0 and negative numbers are, and nowhere else."""
    for name in ("number", "integer", "integers -12..7", "-1.5..2.25", "..0", "multiples of 3"):
        assert "-0" in Language(SETS[name]), name
    for name in ("0..", "integers 0..", "<0", "integers 1..100", "..-0.3", "numbers but 0"):
        assert "-0" not in Language(SETS[name]), name


@pytest.mark.parametrize("high", [1, 5, 9, 10, 19, 90, 99, 100, 101, 109, 190, 255, 909, 999, 1000, 1234])
@pytest.mark.parametrize("low", [0, 1, 2, 17, 99, 100, 101, 998])
def test_small_ranges(low: int, high: int) -> None:
    """Every integer of a range and none beside it."""
    language = Language(INTEGERS & between(low, high))
    for value in range(high + 1200):
        assert (str(value) in language) == (low <= value <= high)
    assert "00" not in language
    assert "" not in language


def test_large_ranges() -> None:
    """Bounds of any length, and the numbers around them."""
    source = random.Random(2)
    for _ in range(60):
        low = source.randrange(2, 10 ** source.randint(1, 25))
        high = low + source.randrange(10 ** source.randint(0, 26))
        language = Language(INTEGERS & between(low, high))
        near = [bound + step for bound in (low, high, 10 ** len(str(low)), 10 ** (len(str(high)) - 1)) for step in (-10, -1, 0, 1, 10)]
        for value in (*near, (low + high) // 2, low // 10, high * 10, source.randrange(high + 1)):
            assert (str(value) in language) == (low <= value <= high), (low, high, value)
        assert f"0{low}" not in language


@pytest.mark.parametrize("low", [None, 0, -3, 7, -(2**70), True, 1.0, 2.5, "x"])
@pytest.mark.parametrize("high", [None, 2, 7, 2**64, False, 1e300, []])
def test_keywords_of_integers(low: Any, high: Any) -> None:
    """What the keywords say of integers is what they say of numbers, as far as these are integers; errors too."""
    for bounds in ({"minimum": low, "maximum": high}, {"minimum": low}, {"maximum": high}, {}):
        for other in ({}, {"exclusiveMinimum": True}, {"exclusiveMaximum": 5}, {"multipleOf": 3}):
            schema = {**bounds, **other}
            try:
                expected = INTEGERS & number_set(schema)
            except SchemaError as error:
                with pytest.raises(type(error), match=re.escape(str(error))):
                    integer_set(schema)
            else:
                assert integer_set(schema) == expected


def test_values_out_of_the_ordinary() -> None:
    """Steps have to be positive decimals, numbers far beyond a float have one spelling, and sets print as mathematicians write them."""
    with pytest.raises(ValueError, match="positive"):
        NumberSet.multiples(0)
    with pytest.raises(ValueError, match="not a decimal"):
        Language(NumberSet.multiples(Fraction(1, 3)))
    huge = Fraction(10**400 * 10 + 1, 10)
    assert f"{10**400}.1" in Language(NumberSet.of([huge]))
    assert repr(NOTHING) == "{}"
    assert repr(NumberSet.of([0.5]) | between(1, 2, high_open=True)) == "{1/2} | [1, 2)"
    assert repr((INTEGERS - NumberSet.multiples(3)) & between(0)) == "1Z\\3Z in [1, inf)"
    assert repr(~INTEGERS) == "R\\1Z in (-inf, inf)"
    assert not NOTHING
    assert NUMBERS


def test_many_negations() -> None:
    """Members between many excluded steps are counted one by one; more terms than a form may have are a LimitError."""
    primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    numbers = INTEGERS & between(1, 100)
    for prime in primes:
        numbers = numbers - NumberSet.multiples(prime)
    assert numbers.values(20) == [1, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97]
    both = NUMBERS
    with pytest.raises(LimitError, match="terms"):
        for step in range(20):
            steps = [Fraction(10 * step + k, 10) for k in (11, 13, 17)]
            both &= NumberSet.multiples(steps[0]) | NumberSet.multiples(steps[1]) | NumberSet.multiples(steps[2])


def test_exponents_at_the_bounds() -> None:
    """Bounds with one exponent, and bounds that are powers of ten."""
    language = Language(between(0.25, 0.75))
    for text, member in {"2.5e-1": True, "2.4e-1": False, "7.5E-01": True, "7.6e-1": False, "1e0": False}.items():
        assert (text in language) == member, text
    language = Language(between(0.1, 10, high_open=True))
    for text, member in {"1e-1": True, "9.9e-2": False, "9.99e0": True, "1e1": False, "1e+00": True}.items():
        assert (text in language) == member, text
    language = Language(between(1, 10, low_open=True))
    for text, member in {"1e0": False, "1.0e0": False, "1.1e0": True, "1e1": True, "1.1e1": False}.items():
        assert (text in language) == member, text


def test_exponents_of_doubles() -> None:
    """Exponents go as far as doubles do, padded by a single 0 at most."""
    for name in ("number", "0..", ">0", "0.05.."):
        language = Language(SETS[name])
        for text, right in {
            "1e308": True,
            "1e+308": True,
            "1e309": False,
            "1E+05": True,
            "1e+005": False,
            "1e00": True,
            "1e": False,
        }.items():
            assert (text in language) == right, (name, text)
    for name in ("number", "0..", ">0", "0..1"):
        language = Language(SETS[name])
        for text, right in {"5e-323": True, "5e-324": False, "1e-07": True, "1e-99": True, "1e-0100": True, "1e-400": False}.items():
            assert (text in language) == right, (name, text)
    assert "1e400" not in Language(between(1e300))
    assert str(10**400) in Language(between(1e300))


@pytest.mark.parametrize(
    ("period", "divisors"),
    [(12, [12]), (60, [4, 30]), (1024, [1024]), (2500, [2500, 50]), (700, [700]), (1, [1]), (12288, [4096, 3072, 2048, 1024])],
)
def test_remainders_compared_as_they_are_met(period: int, divisors: list[int]) -> None:
    """Remainders are told apart as they are where all of them are listed."""
    listed, met = remainders_alike(period, divisors), _Alike(period, divisors)
    found = [met[rest] for rest in range(period)]
    assert len({*zip(listed, found, strict=True)}) == len({*listed}) == len({*found})


@pytest.mark.parametrize("united", [False, True])
@pytest.mark.parametrize("divisors", [[12], [2, 3, 7], [4, 30], [100, 8], [90, 7, 1]])
def test_remainders_compared_by_the_last_digits(divisors: list[int], united: bool) -> None:
    """With few digits left, remainders are alike if all endings decide alike: by each divisor, or by any of them."""
    period = math.lcm(*divisors)
    alike = _Alike(period, divisors, united=united)
    for digits in range(3):
        endings = [(k, ending) for k in range(digits + 1) for ending in range(10**k)]
        groups: dict[object, set[int]] = {}
        for rest in range(period):
            divided = [tuple((rest * 10**k + ending) % n == 0 for n in divisors) for k, ending in endings]
            groups.setdefault(tuple(map(any, divided)) if united else tuple(divided), set()).add(alike.within(rest, digits))
        assert all(len(found) == 1 for found in groups.values())
        assert len({rest for found in groups.values() for rest in found}) == len(groups)


@pytest.mark.parametrize("divisors", [[12], [4, 30], [2500, 50], [4096, 3072], [10**17, 3**20], [999_999_937, 2**50]])
def test_remainders_met_at_once(divisors: list[int]) -> None:
    """Remainders that are looked up together are found as one by one, also those of divisors near the largest that NumPy multiplies."""
    period = math.lcm(*divisors) if math.lcm(*divisors) < 2**59 else max(divisors)
    chosen = random.Random(3)
    rests = [chosen.randrange(period) for _ in range(200)] + [0, 1, period - 1]
    one_by_one, at_once = _Alike(period, divisors), _Alike(period, divisors)
    assert at_once.find(np.array(rests, np.int64)) == [one_by_one[rest] for rest in rests]
    assert [one_by_one[rest] for rest in range(50)] == [at_once[rest] for rest in range(50)]


def test_an_automaton_is_the_same_where_remainders_are_met_one_by_one() -> None:
    """What is looked up at once changes no state and no number of one."""
    term = (49, (196, 441, 1225, 4753))
    together = _DigitMachine.build(0, True, None, True, term, 100_000)
    assert math.lcm(49, *term[1]) > _MOST_COMPARED
    with patch.object(_DigitMachine, "look_up", lambda *_: None):
        assert _DigitMachine.build(0, True, None, True, term, 100_000) == together


@pytest.mark.parametrize("step", [1, 2, 7, 16, 75, 120, 125, 1000, 1024])
@pytest.mark.parametrize("high", [None, 3, 40, 1000, 12_345, 10**6])
def test_least_states(step: int, high: int | None) -> None:
    """The bound that refuses a step at once is never above what the automaton has."""
    transitions, _ = _DigitMachine.build(0, True, high, True, (step, ()), 100_000)
    assert least_states(step, high) <= len(transitions)


@pytest.mark.parametrize(
    "term", [(7, (9,)), (6, (35,)), (1, (4, 9, 7)), (0, (4, 3)), (0, (Fraction(3, 10),)), (3, (2, 5)), (6, (4, 10)), (1, (8,))]
)
@pytest.mark.parametrize("high", [None, 10**9, 400_000, 60])
def test_least_states_together(term: Any, high: int | None) -> None:
    """The bound that refuses several steps at once is never above what the smallest automaton has; it has no more where none is refused."""
    transitions, accepting = _DigitMachine.build(0, True, high, True, term, 100_000)
    letters = range(0x2E, 0x3A)
    steps = [[next((target for low, high, target in row if low <= letter <= high), -1) for letter in letters] for row in transitions]
    classes = [int(final) for final in accepting]
    while True:
        rows = [(own, *(classes[target] if target >= 0 else -1 for target in row)) for own, row in zip(classes, steps, strict=True)]
        numbers = {row: number for number, row in enumerate(dict.fromkeys(rows))}
        refined = [numbers[row] for row in rows]
        if len(numbers) == len({*classes}):
            break
        classes = refined
    unit = 10 if term[1][0] == Fraction(3, 10) else 1
    divisors = [int(divisor * unit) for divisor in (term[0], *term[1]) if divisor]
    least = least_states_together(divisors, None if high is None else high * unit)
    assert least <= len(numbers)
    if high is None and math.lcm(*divisors) == math.prod(divisors):
        assert len(numbers) <= 12 * least


@pytest.mark.parametrize("property_order", ["schema", "any"])
def test_many_steps_are_refused_at_once(property_order: str) -> None:
    """Multiples of one of several squares but of no other number: no remainder is counted before it is clear that there are too many."""
    schema = {"anyOf": [{"type": "integer", "multipleOf": step * step} for step in (2, 3, 5, 7, 11, 13)], "not": {"multipleOf": 97}}
    with as_quick_as(20), pytest.raises(LimitError, match="more than 100000 states"):
        json_schema_grammar(schema, property_order=property_order)


BIG: dict[str, dict[str, Any]] = {
    "1e300": {"multipleOf": 1e300},
    "10^400": {"multipleOf": 10**400},
    "10^18 from 5": {"multipleOf": 10**18, "minimum": 5},
    "10^18 in bounds": {"multipleOf": 10**18, "minimum": -(10**19), "maximum": 10**25},
    "open bounds": {"multipleOf": 10**18, "exclusiveMinimum": 10**18, "exclusiveMaximum": 10**20},
    "75 zeros": {"multipleOf": 75 * 10**20, "exclusiveMinimum": 0},
    "2^63 in bounds": {"multipleOf": 2**63, "minimum": -(2**65), "maximum": 2**65},
    "2^20": {"multipleOf": 2**20},
    "2^20 in bounds": {"multipleOf": 2**20, "minimum": 0, "maximum": 2**30},
    "5^9": {"multipleOf": 5**9},
    "1e-300": {"multipleOf": 1e-300},
    "no multiple of 10^18": {"not": {"multipleOf": 10**18}, "type": "number"},
    "10^18 but 7 10^18": {"multipleOf": 10**18, "not": {"multipleOf": 7 * 10**18}},
    "10^18 but 10^19": {"multipleOf": 10**18, "not": {"multipleOf": 10**19}, "minimum": 0},
}


@pytest.mark.parametrize("name", BIG)
def test_large_steps(name: str) -> None:
    """Steps of any size are exact where an automaton can be, in bounds or without."""
    schema = BIG[name]
    start = matcher(load_engine("kernel"), json_schema_grammar(schema)[0])
    source = random.Random(4)
    step = exact(schema.get("multipleOf") or schema["not"]["multipleOf"])
    values = {Fraction(0), Fraction(1), *(Fraction(schema[key]) for key in schema if key not in ("not", "type"))}
    for _ in range(60):
        near = step * source.choice([source.randrange(-40, 40), source.randrange(10**4), source.randrange(10**12), 7, 10, 70])
        values |= {Fraction(near), near + Fraction(step, 10), near + Fraction(step, 2), near + 1, Fraction(source.randrange(10**30))}
    values |= {-value for value in values}

    def divides(divisor: Any, value: Fraction) -> bool:
        return not value % exact(divisor)

    for value in values:
        if value.denominator != 1 and name != "1e-300":
            continue
        valid = (
            ("multipleOf" not in schema or divides(schema["multipleOf"], value))
            and not ("not" in schema and divides(schema["not"]["multipleOf"], value))
            and value >= schema.get("minimum", value)
            and value <= schema.get("maximum", value)
            and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
            and ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"])
        )
        text = ("-" if value < 0 else "") + ".".join(filter(None, expansion(abs(value) if value.denominator > 1 else abs(int(value)))))
        assert accepts(start, text.encode()) == valid, text


@pytest.mark.parametrize(
    "schema",
    [
        {"multipleOf": 2**63},
        {"multipleOf": 3**300},
        {"not": {"multipleOf": 2**63}},
        {"multipleOf": 2**63, "minimum": 0},
        {"multipleOf": 2**63, "minimum": -(2**90), "maximum": 2**95},
        {"multipleOf": 999_983},
        {"multipleOf": 0.123456789},
        {"multipleOf": 2**30, "maximum": 2**60},
        {"multipleOf": 17 * 10**300 + 3},
    ],
)
def test_steps_beyond_any_automaton(schema: dict[str, Any]) -> None:
    """A step whose automaton would be too large is a LimitError at once."""
    with as_quick_as(40), pytest.raises(LimitError, match="needs more than 100000 states"):
        json_schema_grammar(schema)
