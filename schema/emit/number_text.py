"""Numbers as texts: automata over the digits of JSON number texts for intervals and multiples.

Which text a number has (RFC 8259 section 6 allows many):

- A number of a set that holds integers only is written without a fraction and without an exponent.
- `number` without bounds, or bounded by 0 alone, takes the whole number syntax, with exponents from -323 to 308, those of doubles: programs
  read what lies beyond as 0 or infinity, so it may have digits alone.
- Between other bounds a number is written with any digits after the point, or with an exponent after a mantissa of one digit
  before the point, not 0, as in 1e-07 or 2.5E+3; a single 0 may pad the exponent.  That is how programs write floats, and
  it makes the comparison with a bound regular: first the exponent decides, then the mantissa.  The exponents are the same.
- A multiple of a decimal step is written with at most as many digits after the point as the step has, and no exponent.
- A number that is not a multiple of some step is written with digits after the point, or with an exponent below those digits.
- A single value is written as its shortest decimal, and as Python's json module writes it where that has an exponent.
- -0 is 0; it is taken wherever both 0 and negative numbers are.

The automata compare the digits read so far with the digits of the bounds from left to right, which is exact for any length,
and carry the remainder of the number read so far where multiples are asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import pairwise
from math import ceil, floor, gcd, lcm, prod
from operator import or_
from typing import Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...pda.automata.minimize import live_states, restricted, sources
from ...pda.exceptions import LimitError
from ...pda.grammar import RAW, GrammarBuilder, NodeId
from ..sets.numbers import Exact, Term, scale

Transitions = tuple[tuple[tuple[int, int, int], ...], ...]
Automaton = tuple[Transitions, tuple[bool, ...]]

__all__ = ["INTEGER", "NUMBER", "RAW", "STATES", "interval_nodes", "spellings"]

STATES: Final = 100_000
"""Most states of one digit automaton; `multipleOf: 99991` needs about that many."""

LOWEST_EXPONENT: Final = -323
HIGHEST_EXPONENT: Final = 308
"""The exponents of doubles: programs read a number beyond them as 0 or infinity, which the schema may not allow."""

PLAIN: Final[Term] = (0, ())
INTEGRAL: Final[Term] = (1, ())
_UNDIVIDED: Final = (PLAIN, INTEGRAL)
"""Terms without a remainder."""
_LARGE: Final = 10**40
"""Automata of bounds as large as this are not remembered: one of 2,000 digits takes a megabyte."""

_D, _Z, _POINT, _MINUS = (48, 57), 48, 46, 45
_E = ((69, 69), (101, 101))


def _full(*, zero: bool, sign: bool) -> Automaton:
    """The whole number syntax of RFC 8259 with exponents that doubles have; without `zero` some digit of the mantissa is not 0."""
    start, nought, integer, point, fraction, e, point0, fraction0, minus = range(9)
    marks = tuple((lo, hi, e) for lo, hi in _E)
    # A mantissa that is 0 so far has states of its own where 0 does not count.
    rows: list[list[tuple[int, int, int]]] = [[] for _ in range(9)]
    rows[start] = [(48, 48, nought), (49, 57, integer)]
    rows[nought] = [(_POINT, _POINT, point if zero else point0), *(marks if zero else ())]
    rows[integer] = [(_POINT, _POINT, point), (*_D, integer), *marks]
    rows[point] = [(*_D, fraction)]
    rows[fraction] = [(*_D, fraction), *marks]
    rows[point0] = rows[fraction0] = [(48, 48, fraction0), (49, 57, fraction)]
    rows[minus] = rows[start].copy()
    if sign:
        rows[start].insert(0, (_MINUS, _MINUS, minus))
    accepting = [False, zero, True, False, True, False, False, False, False]
    positive = _padded(rows, accepting, _up_to(str(HIGHEST_EXPONENT), True))
    negative = _padded(rows, accepting, _up_to(str(-LOWEST_EXPONENT), True))
    rows[e] = [(43, 43, positive), (45, 45, negative), *rows[positive]]
    return _trimmed(rows, accepting)


def _padded(rows: list[list[tuple[int, int, int]]], accepting: list[bool], automaton: Automaton) -> int:
    """Add an automaton of numbers that a single 0 may precede, and say where it starts."""
    transitions, ends = automaton
    offset = len(rows)
    rows.extend([[(lo, hi, target + offset) for lo, hi, target in row] for row in transitions])
    accepting.extend(ends)
    # Behind the 0 that is the number 0, any number may follow.
    nought = rows[offset][0][2]
    padded = len(rows)
    rows.append(rows[offset].copy())
    accepting.append(True)
    rows[offset] = [(_Z, _Z, padded), *rows[offset][1:]]
    assert not rows[nought]
    return offset


INTEGER: Final[Automaton] = (
    (((45, 45, 1), (48, 48, 2), (49, 57, 3)), ((48, 48, 2), (49, 57, 3)), (), ((48, 57, 3),)),
    (False, False, True, True),
)
NATURAL: Final[Automaton] = ((((48, 48, 1), (49, 57, 2)), (), ((48, 57, 2),)), (False, True, True))
COUNTING: Final[Automaton] = ((((49, 57, 1),), ((48, 57, 1),)), (False, True))
MANTISSA: Final[Automaton] = (
    (((49, 57, 1),), ((46, 46, 2),), ((48, 57, 3),), ((48, 57, 3),)),
    (False, True, False, True),
)


def spellings(value: Exact) -> tuple[bytes, ...]:
    """The texts of a single value that is not negative: the shortest decimal, then the one with an exponent that programs print.

    >>> spellings(Fraction(3, 2)), spellings(Fraction(1, 10**7))
    ((b'1.5',), (b'0.0000001', b'1e-07'))
    """
    whole, fraction = expansion(value)
    if not fraction:
        return (whole.encode(),)
    texts = [f"{whole}.{fraction}"]
    try:
        printed = repr(float(value))
    except OverflowError:
        return (texts[0].encode(),)
    if "e" in printed and Fraction(printed) == value:
        texts.append(printed)
    return tuple(text.encode() for text in texts)


def expansion(value: Exact) -> tuple[str, str]:
    """The digits before and after the point of a number that is not negative.

    >>> expansion(Fraction(1, 40)), expansion(12)
    (('0', '025'), ('12', ''))
    """
    if isinstance(value, int):
        return str(value), ""
    places = scale(value)
    digits = str(value.numerator * 10**places // value.denominator).rjust(places + 1, "0")
    return digits[: len(digits) - places], digits[len(digits) - places :]


def interval_nodes(
    builder: GrammarBuilder, low: Exact, low_closed: bool, high: Exact | None, high_closed: bool, term: Term, states: int
) -> list[NodeId]:
    """The nodes, to be read as alternatives, for the numbers of one lattice term between two bounds at or above 0."""
    if term == PLAIN and low == 0 and high is None:
        return [builder.automaton(*(UNSIGNED if low_closed else POSITIVE), RAW)]
    if _is_shortened(term):
        return _shortened(builder, low, low_closed, high, high_closed, term, states)
    if _has_whole_part(term):
        # Whole numbers, which may end in .0, and others: most steps concern the first alone.
        fractions = tuple(step for step in term[1] if step.denominator != 1)
        whole = _digits(low, low_closed, high, high_closed, (1, tuple(sorted({step.numerator for step in term[1]}))), states)
        zeros = builder.seq(builder.literal(b"."), builder.repeat(builder.literal(b"0"), 1))
        nodes = [builder.seq(builder.automaton(*whole, RAW), builder.optional(zeros))]
        nodes.append(builder.automaton(*_digits(low, low_closed, high, high_closed, (0, (1, *fractions)), states), RAW))
    else:
        nodes = [builder.automaton(*_digits(low, low_closed, high, high_closed, term, states), RAW)]
    if not term[0]:
        # Below the digits of every excluded step no number is a multiple of it.
        places = max((scale(step) for step in term[1]), default=0)
        if term[1] and (high is None or high > Fraction(1, 10**places)):
            high, high_closed = Fraction(1, 10**places), False
        if high is None or low < high:
            nodes.extend(_scientific(builder, low, low_closed, high, high_closed))
    return nodes


def _is_shortened(term: Term) -> bool:
    """Whether a step is large and ends in zeros, which are written behind the multiples of the step without them."""
    return term[0] > _MOST_COMPARED and term[0].denominator == 1 and not term[0] % 10


def _has_whole_part(term: Term) -> bool:
    """Whether some of the steps that are excluded are whole, others are not, and together they have a large period."""
    fractions = sum(step.denominator != 1 for step in term[1])
    return not term[0] and 0 < fractions < len(term[1]) and _scaled_period(term[1]) > STATES


def _shortened(
    builder: GrammarBuilder, low: Exact, low_closed: bool, high: Exact | None, high_closed: bool, term: Term, states: int
) -> list[NodeId]:
    """The multiples of a step that ends in zeros: 0, and the multiples of the step without them, followed by them."""
    step, nots = int(term[0]), term[1]
    zeros = len(str(step)) - len(str(step).rstrip("0"))
    unit = 10**zeros
    nodes = [builder.literal(b"0")] if low == 0 and low_closed and not nots else []
    first = max(1, floor(Fraction(low) / unit) + 1 if not low_closed else ceil(Fraction(low) / unit))
    last = None if high is None else floor(Fraction(high) / unit) if high_closed else ceil(Fraction(high) / unit) - 1
    if last is None or first <= last:
        rest: Term = (step // unit, tuple(int(n) // unit for n in nots))
        shorter = interval_nodes(builder, first, True, last, last is not None, rest, states)
        nodes.append(builder.seq(builder.alt(*shorter), builder.literal(b"0" * zeros)))
    return nodes


def _digits(low: Exact, low_closed: bool, high: Exact | None, high_closed: bool, term: Term, states: int) -> Automaton:
    """The automaton of an interval of one term, from memory where it is small and common."""
    if term == INTEGRAL and high is None and low in (0, 1):
        return COUNTING if low else NATURAL
    if high is None and low == 0 and low_closed and not term[1] and term[0].denominator == 1 and 1 < term[0] < states:
        return _multiples(int(term[0]))
    is_short = _is_short(low) and (high is None or _is_short(high))
    if term == INTEGRAL and high is not None and high > 0:
        if low in (0, 1):
            return (_up_to if is_short else _up_to.__wrapped__)(str(high), not low)
        if low_closed and high_closed and low.denominator == high.denominator == 1:
            return (_between if is_short else _between.__wrapped__)(str(low), str(high))
    if is_short and term in _UNDIVIDED:
        return _remembered(low, low_closed, high, high_closed, term, states)
    if is_short and _scaled_period([s for s in (term[0], *term[1]) if s]) <= _SMALL_PERIOD:
        return _remembered_lattice(low, low_closed, high, high_closed, term, states)
    return _DigitMachine.build(low, low_closed, high, high_closed, term, states)


def _is_short(bound: Exact) -> bool:
    """Whether a bound has few enough digits for an automaton that is remembered."""
    return max(abs(bound.numerator), bound.denominator) < _LARGE


def _scaled_period(steps: Sequence[Exact]) -> int:
    """At least the period of the remainders of some steps, once all are whole."""
    return lcm(*(Fraction(step).numerator * 10 ** scale(step) for step in steps))


def _multiples(step: int) -> Automaton:
    """Every multiple of an integer: state 0 is the start, 1 follows a single 0, then one for each class of remainders.

    PERF: 3 us a state against 40 in the general machine, which matters at steps of thousands.
    """
    alike = remainders_alike(step, [step])
    number: dict[int, int] = {}
    for least in alike:
        number.setdefault(least, 2 + len(number))
    names = [number[least] for least in alike]
    names += (names * (9 // step + 1))[:9]  # so that ten digits in a row need no remainder
    rows = [tuple(_joined_row(names[first : first + 10], 0)) for first in [rest * 10 % step for rest in number]]
    start = ((_Z, _Z, 1), *_joined_row(names[1:10], 1))
    return (start, (), *rows), (False, True, *(not rest for rest in number))


def _joined_row(targets: Sequence[int], first: int) -> list[tuple[int, int, int]]:
    """The transitions of the digits from `first` on to these targets."""
    row: list[tuple[int, int, int]] = []
    start = 0
    for place, target in enumerate(targets):
        if target != targets[start]:
            row.append((_Z + first + start, _Z + first + place - 1, targets[start]))
            start = place
    row.append((_Z + first + start, _Z + first + len(targets) - 1, targets[start]))
    return row


def remainders_alike(period: int, divisors: Sequence[int], *, united: bool = False) -> list[int]:
    """For every remainder modulo `period` the least one that is equivalent to it (Nerode's equivalence).

    Two remainders are equivalent if any further digits make the same divisors divide both numbers, or, if `united`, any divisor at all.
    The divisors divide the period. After k more digits of value v the number is r 10**k + v, so n divides it if v is -r 10**k modulo n.
    If 10**k >= n there is always such a v, and it determines r modulo n / gcd(10**k, n); larger k determine nothing more.
    For smaller k few v are below 10**k, and the remainders that lead to these are distinguished one by one.

    >>> remainders_alike(12, [12])
    [0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5]
    """
    if not period:
        return []
    free = 1
    endings: list[npt.NDArray[np.int64]] = []  # for each number of further digits, their value that makes a divisor divide, -1 for none
    divided = np.full(period, -1)  # 0 where a divisor divides without further digits, if they are united
    for n in divisors:
        power, digits = 1, 0
        while power < n:
            power, digits = power * 10, digits + 1
        shared = gcd(power, n)
        free = lcm(free, n // shared)
        for k in range(digits):
            common = gcd(10**k, n)
            if common == shared:
                break
            # r 10**k = -v (mod n) for the v that `common` divides, of which each has `common` solutions.
            modulus = n // common
            inverse = pow(10**k // common, -1, modulus)
            values = np.arange(0, 10**k, common)
            ending = np.full(modulus, -1)
            ending[-(values // common) * inverse % modulus] = values
            if united and not k:
                divided[::modulus] = 0
            else:
                endings.append(np.tile(ending, period // modulus))
    names = np.arange(period) % free
    count = free
    for ending in (*endings, divided):
        kinds = int(ending.max()) + 2
        if count * kinds > np.iinfo(np.int64).max:
            names = np.unique(names, return_inverse=True)[1]
            count = period
        names = names * kinds + ending + 1
        count *= kinds
    _, first, inverse = np.unique(names, return_index=True, return_inverse=True)
    return cast("list[int]", first[inverse].tolist())


class _Alike:
    """As `remainders_alike`, for periods of any size: the representative of equivalent remainders is the first that was asked for."""

    def __init__(self, period: int, divisors: Sequence[int], *, united: bool = False) -> None:
        self.united = united
        # A divisor n, the modulus that long endings determine, and the number of digits from which on they are long.
        self.divisors: list[tuple[int, int, int]] = []
        for n in divisors:
            digits = len(str(n - 1)) if n > 1 else 0
            shared = gcd(10**digits, n)
            long = next(k for k in range(digits + 1) if gcd(10**k, n) == shared)
            self.divisors.append((n, n // shared, long))
        self.period = period
        self.is_small = 10 * period < 1 << 63
        """Whether numbers are 64 bits, so that numpy can compute with them."""
        self.known: dict[object, int] = {}
        self.found: dict[int, int] = {}
        self.late: dict[tuple[int, int], int] = {}
        self.marked: dict[tuple[int, int, int], int] = {}

    def __getitem__(self, rest: int) -> int:
        found = self.found.get(rest)
        if found is None:
            endings = self.endings(rest)
            key = struct.pack(f"={len(endings)}q", *endings) if self.is_small else endings
            found = self.found[rest] = self.known.setdefault(key, rest)
        return found

    def within(self, rest: int, digits: int) -> int:
        """The same if at most a given number of digits follows: then only the endings up to this length matter."""
        found = self.late.get((rest, digits))
        if found is None:
            marks = [self.marks(n, -rest % n, digits) for n, _, _ in self.divisors]
            key = (reduce(or_, marks, 0),) if self.united else tuple(marks)
            found = self.late[rest, digits] = self.known.setdefault((digits, key), rest)
        return found

    def marks(self, n: int, value: int, digits: int) -> int:
        """The endings of at most so many digits with which n divides, where it takes `value` to: a bit for each, shorter ones first.

        PERF: sets of endings took 40 us for each remainder of six divisors, numbers take 4.
        """
        found = self.marked.get((n, value, digits))
        if found is None:
            found = offset = 0
            for k in range(digits + 1):
                for ending in range(value * 10**k % n, 10**k, n):
                    found |= 1 << offset + ending
                offset += 10**k
            self.marked[n, value, digits] = found
        return found

    def endings(self, rest: int) -> tuple[int, ...]:
        """For each divisor and each number of digits, the value of these digits that makes the divisor divide."""
        found: list[int] = []
        for n, always, digits in self.divisors:
            found.append(rest % always)
            value, power = -rest % n, 1
            for _ in range(digits):
                found.append(value if value < power else -1)
                value, power = value * 10 % n, power * 10
        return tuple(found)

    def find(self, rests: npt.NDArray[np.int64]) -> list[int]:
        """The representatives of many remainders, by their `endings`; only where numbers are small.

        PERF: 0.5 us each, where one by one they take 1.8 us: equal rows are equal bytes.
        """
        columns: list[npt.NDArray[np.int64]] = []
        for n, always, digits in self.divisors:
            columns.append(rests % always)
            value, power = -rests % n, 1
            for _ in range(digits):
                columns.append(np.where(value < power, value, -1))
                value, power = value * 10 % n, power * 10
        keys = np.stack(columns, axis=1).view(np.dtype((np.void, 8 * len(columns)))).ravel().tolist()
        return list(map(self.known.setdefault, keys, rests.tolist()))


def least_states(divisor: int, span: int | None) -> int:
    """At most how many states any automaton has that reads the multiples of a number among `span` numbers in a row, None for all.

    Two beginnings differ where, for some number k of digits to come, different digits make them a multiple.
    While 10**k is below the divisor these are, for each beginning that has them, one value; the beginnings run through all remainders
    where there are enough of them, and lead to different members where there are not.

    >>> least_states(10**18, None), least_states(99991, None), least_states(1 << 63, None) > 10**12
    (1, 99991, True)
    """
    least = 0
    power = 1
    while power < divisor:
        common = gcd(power, divisor)
        if span is None or span // power >= divisor // common + 2:
            least = max(least, -(-power // common))
        else:
            least = max(least, span // divisor - 2)
        power *= 10
    remainders = divisor // gcd(power, divisor)
    return max(least, remainders) if span is None or span // power >= remainders + 2 else least


def least_states_together(divisors: Sequence[int], span: int | None) -> int:
    """At most how many states any automaton has that reads the multiples of a number that are no multiples of the others, or of none.

    The numbers are `span` in a row, None for all. Where the divisors have no factors in common, the remainders modulo all of them are
    independent. So two beginnings differ where they differ modulo the part of a divisor without the factors 2 and 5: some digits to come
    make one number right and the other one wrong. For divisors that have factors in common the answer is 0.

    >>> least_states_together([121, 4, 9, 25, 49], None), least_states_together([6, 4], None)
    (53361, 0)
    """
    period = lcm(*divisors)
    if period != prod(divisors) or (span is not None and span <= 100 * period * period):
        return 0
    while (common := gcd(period, 10)) > 1:
        period //= common
    return period


@lru_cache(maxsize=512)
def _up_to(high: str, zero: bool) -> Automaton:
    """The integers from 0 or 1 to a bound: after each digit the number so far is below, equal to, or above the digits of the bound.

    PERF: 2 us a digit, where the general machine takes 25; bounds of 64 bits are common.
    """
    rows: list[list[tuple[int, int, int]]] = [[]]
    accepting = [False]

    def state(accepts: bool = True) -> int:
        rows.append([])
        accepting.append(accepts)
        return len(rows) - 1

    if zero:
        rows[0].append((_Z, _Z, state()))
    size = len(high)
    below, equal, above = -1, 0, -1
    for place, digit in enumerate(high.encode()):
        first, last = (_Z if place else _Z + 1), _Z + 9
        then_equal = state()
        # At full length there is no difference between less and equal, and more is too much.
        then_below = then_equal if place == size - 1 else -1
        then_above = -1
        if below >= 0 or digit > first:
            then_below = state() if then_below < 0 else then_below
        if place < size - 1 and (above >= 0 or digit < last):
            then_above = state()
        if digit > first:
            rows[equal].append((first, digit - 1, then_below))
        rows[equal].append((digit, digit, then_equal))
        if digit < last and then_above >= 0:
            rows[equal].append((digit + 1, last, then_above))
        if below >= 0:
            rows[below].append((_Z, last, then_below))
        if above >= 0 and then_above >= 0:
            rows[above].append((_Z, last, then_above))
        below, equal, above = then_below, then_equal, then_above
    return tuple(map(tuple, rows)), tuple(accepting)


@lru_cache(maxsize=512)
def _between(low: str, high: str) -> Automaton:
    """The integers between two bounds, of which the lower is above 0: the digits so far against as many of the first digits of either.

    PERF: 3 us a state, where the general machine takes 10.
    """
    shortest, longest = len(low), len(high)
    lows, highs = low.encode(), high.encode()
    start = (0, 0, 0)
    index = {start: 0}
    states = [start]
    rows: list[tuple[tuple[int, int, int], ...]] = []
    for read, above, beyond in states:  # -1 less than the bound's digits, 0 equal, 1 greater
        row: list[tuple[int, int, int]] = []
        if read < longest:
            first = _Z if read else _Z + 1
            cuts = {first, _Z + 10}
            if not above and read < shortest:
                cuts.update((lows[read], lows[read] + 1))
            if not beyond:
                cuts.update((highs[read], highs[read] + 1))
            for byte, end in pairwise(sorted(cuts)):
                over = above or (1 if read >= shortest else _compare(byte, lows[read]))
                past = beyond or _compare(byte, highs[read])
                # Texts that are less have to be longer than the lower bound, and texts that are greater shorter than the upper one.
                last = longest - (past > 0)
                if max(read + 1, shortest + (over < 0)) > last:
                    continue
                target = (longest, 1, 0) if read + 1 == last else (read + 1, over if read + 1 <= shortest else 1, past)
                number = index.setdefault(target, len(states))
                if number == len(states):
                    states.append(target)
                row.append((byte, end - 1, number))
        rows.append(tuple(row))
    accepting = tuple([read >= shortest and above >= 0 and (read < longest or beyond <= 0) for read, above, beyond in states])
    return tuple(rows), accepting


@lru_cache(maxsize=512)
def _remembered(low: Exact, low_closed: bool, high: Exact | None, high_closed: bool, term: Term, states: int) -> Automaton:
    """PERF: schemas use few different ranges; building one takes 10-60 us."""
    return _DigitMachine.build(low, low_closed, high, high_closed, term, states)


_SMALL_PERIOD: Final = 1000
_COMPARED_WEIGHT: Final = 2
"""A state with bounds or a fraction takes as long to make as this many that have a remainder only."""
MOST_LEFT: Final = 2
"""How many digits may be left to a number where remainders are compared by all that could follow, which are 10 to this power."""
_LOOKED_UP: Final = 1_000
"""The states whose remainders are looked up at once: no more, so that what explodes is still refused while it grows."""
_MOST_COMPARED: Final = 4 * STATES
"""Of periods above this, remainders are compared as they are met."""


@lru_cache(maxsize=64)
def _remembered_lattice(low: Exact, low_closed: bool, high: Exact | None, high_closed: bool, term: Term, states: int) -> Automaton:
    """PERF: as `_remembered`, for automata with a state for every remainder, which take 10 us a state and some 100 KB."""
    return _DigitMachine.build(low, low_closed, high, high_closed, term, states)


def _scientific(builder: GrammarBuilder, low: Exact, low_closed: bool, high: Exact | None, high_closed: bool) -> list[NodeId]:
    """The spellings with an exponent of the numbers, 0 aside, between two bounds at or above 0.

    d.ddd times 10 to the x grows with x first, so strictly between the exponents of the bounds the mantissa is free.
    """
    first: int | None = None
    last: int | None = None
    parts: list[tuple[Automaton, int, int]] = []
    low_exponent, low_mantissa = _normalised(low) if low else (None, 1)
    high_exponent, high_mantissa = _normalised(high) if high is not None else (None, 1)
    if low_exponent is not None and low_exponent == high_exponent:
        edge = _digits(low_mantissa, low_closed, high_mantissa, high_closed, PLAIN, STATES)
        parts.append((edge, low_exponent, low_exponent))
        first, last = 1, 0
    else:
        if low_exponent is not None:
            whole = low_mantissa == 1 and low_closed
            first = low_exponent + (not whole)
            if not whole:
                parts.append((_digits(low_mantissa, low_closed, 10, False, PLAIN, STATES), low_exponent, low_exponent))
        if high_exponent is not None:
            last = high_exponent - 1
            if high_mantissa != 1 or high_closed:
                parts.append((_digits(1, True, high_mantissa, high_closed, PLAIN, STATES), high_exponent, high_exponent))
    first = LOWEST_EXPONENT if first is None else max(first, LOWEST_EXPONENT)
    last = HIGHEST_EXPONENT if last is None else min(last, HIGHEST_EXPONENT)
    parts = [part for part in parts if LOWEST_EXPONENT <= part[1] <= HIGHEST_EXPONENT]
    if first <= last:
        parts.append((MANTISSA, first, last))
    mark = builder.bytes((69, 69, 101, 101))
    return [builder.seq(builder.automaton(*mantissa, RAW), mark, _exponent(builder, a, b)) for mantissa, a, b in parts]


def _normalised(value: Exact) -> tuple[int, Exact]:
    """The exponent and the mantissa, at least 1 and below 10, of a positive number."""
    whole, fraction = expansion(value)
    exponent = len(whole) - 1 if whole != "0" else len(fraction.lstrip("0")) - len(fraction) - 1
    mantissa = Fraction(value) / Fraction(10) ** exponent
    return exponent, mantissa.numerator if mantissa.denominator == 1 else mantissa


def _exponent(builder: GrammarBuilder, first: int, last: int) -> NodeId:
    """An exponent between two bounds, perhaps padded by a single 0."""
    pad = builder.optional(builder.literal(b"0"))
    nodes = []
    if last >= 0:
        digits = builder.automaton(*_digits(max(first, 0), True, last, True, INTEGRAL, STATES), RAW)
        nodes.append(builder.seq(builder.optional(builder.literal(b"+")), pad, digits))
    if first < 0:
        digits = builder.automaton(*_digits(max(1, -last), True, -first, True, INTEGRAL, STATES), RAW)
        nodes.append(builder.seq(builder.literal(b"-"), pad, digits))
    return builder.alt(*nodes)


def check_term(low: Exact, high: Exact | None, term: Term, limit: int) -> None:
    """Raise where the automaton of a term surely has too many states, before anything of its size is made.

    What is made of several automata is not foreseen.
    """
    step, nots = term
    if term in _UNDIVIDED or _is_shortened(term) or _has_whole_part(term):
        return
    unit = 10 ** max(scale(divisor) for divisor in (step, *nots))
    span = None if high is None else int((high - low) * unit)
    whole = int(step * unit)
    divisors = [whole] if whole else []
    for divisor in nots:
        number = int(divisor * unit)
        factor = number // whole if whole and number % whole == 0 else 0
        # The excluded steps are multiples of the step; of a multiple of the step only the other factor is asked.
        divisors.append(factor if factor and gcd(factor, whole) == 1 else number)
    least = least_states(divisors[0], span) if len(divisors) == 1 else least_states_together(divisors, span)
    _check_states(least, limit, term)


def work_of_state(term: Term) -> int:
    """Steps of work for a state of the automaton of a term: remainders modulo a large period are compared divisor by divisor."""
    if term in _UNDIVIDED:
        return 8
    divisors = [divisor for divisor in (term[0], *term[1]) if divisor]
    return 4 * (2 + len(divisors)) if _scaled_period(divisors) > _MOST_COMPARED else 8


def _check_states(states: int, limit: int, term: Term) -> None:
    """Raise where there are too many states."""
    if states >= limit:
        divisors = ", ".join(_brief(s) for s in ((term[0],) if term[0] else term[1]))
        raise LimitError(f"the automaton of the multiples of {divisors} needs more than {limit} states", limit="states", value=limit)


def _brief(value: Exact) -> str:
    """A number for a message."""
    text = str(value)
    return text if len(text) <= 40 else f"{text[:20]}... ({len(text)} digits)"


class _State(NamedTuple):
    """A state of a digit automaton.

    `phase`: 0 start, 1 after a leading 0, 2 before the point, 3 just after the point, 4 after a digit behind the point.
    `read`: digits read in this phase, saturated where more no longer matter.
    `low`, `high`: the digits so far against those of the bound: -1 below, 0 equal, 1 above; behind the point only 0 is undecided.
    `rest`: the number read so far without its point, modulo the period, or the least remainder like it; -1 off every multiple.
    """

    phase: int
    read: int
    low: int
    high: int
    rest: int


class _DigitMachine:
    """The determinisation of "between two bounds and in one lattice term" over the digits of a text."""

    def __init__(self, low: Exact, low_closed: bool, high: Exact | None, high_closed: bool, term: Term) -> None:
        self.low_whole, self.low_fraction = expansion(low)
        self.low_closed = low_closed
        self.high_whole, self.high_fraction = ("", "") if high is None else expansion(high)
        self.bounded = high is not None
        self.high_closed = high_closed
        self.term = term
        step, nots = term
        self.places = max((scale(s) for s in (step, *nots) if s), default=0)
        self.step = int(step * 10**self.places)
        self.nots = [int(n * 10**self.places) for n in nots]
        # A step of 1 asks for no remainder, only for no fraction.
        divisors = [s for s in (self.step, *self.nots) if s]
        self.period = lcm(*divisors) if self.step > 1 or self.nots else 0
        # Digits that a fraction leaves out stand for zeros, which bring factors of their own.
        divisors = list(dict.fromkeys(n // gcd(10**missing, n) for n in divisors for missing in range(self.places + 1)))
        united = self.step <= 1 and not self.places
        self.alike: Sequence[int] | _Alike = (
            remainders_alike(self.period, divisors, united=united) if self.period <= _MOST_COMPARED else _Alike(self.period, divisors)
        )
        self.ahead: dict[int, list[int]] = {}
        """Of some remainders those that each digit leads to."""
        # Near the end of the longest numbers few digits are left that could tell remainders apart.
        large = self.bounded and not self.places and self.period > _SMALL_PERIOD
        self.late = _Alike(self.period, [n for n in divisors if n > 1], united=united) if large else None
        self.free_fraction = not step
        self.digits = max(len(self.low_whole), len(self.high_whole)) + 1
        self.fraction_digits = max(len(self.low_fraction), len(self.high_fraction), self.places, 1)

    @staticmethod
    def build(low: Exact, low_closed: bool, high: Exact | None, high_closed: bool, term: Term, limit: int) -> Automaton:
        """Every state in reach from the start, without those from which no number can be finished."""
        check_term(low, high, term, limit)
        machine = _DigitMachine(low, low_closed, high, high_closed, term)
        start = _State(0, 0, 0, 0, 0)
        index = {start: 0}
        states = [start]
        rows: list[list[tuple[int, int, int]]] = []
        compared = 0
        free: dict[int, int] = {}  # the number of the state of every remainder once nothing else matters
        looked_up = 0
        for place, state in enumerate(states):
            row: list[tuple[int, int, int]] = []
            if machine.only_remainders(state):
                # PERF: most states of a large step are such, and here take a tenth of the time.
                if place >= looked_up:
                    looked_up = min(len(states), place + _LOOKED_UP)
                    machine.look_up(states[place:looked_up])
                least = machine.ahead.pop(state.rest, None) or [
                    machine.alike[rest % machine.period] for rest in range(state.rest * 10, state.rest * 10 + 10)
                ]
                for rest in least:
                    if rest not in free:
                        target = state._replace(rest=rest)
                        known = free[rest] = index.setdefault(target, len(states))
                        if known == len(states):
                            states.append(target)
                row.extend(_joined_row([free[rest] for rest in least], 0))
                _check_states(len(states), limit, term)
                behind = machine.point(state) if machine.free_fraction or machine.places else None
                if behind:
                    known = index.setdefault(behind, len(states))
                    if known == len(states):
                        states.append(behind)
                    row.insert(0, (_POINT, _POINT, known))
                rows.append(row)
                continue
            compared += 1
            _check_states(compared * _COMPARED_WEIGHT, limit, term)
            for first, last, target in machine.moves(state):
                number = index.get(target)
                if number is None:
                    number = index[target] = len(states)
                    states.append(target)
                    _check_states(number, limit, term)
                if row and row[-1][2] == number and row[-1][1] + 1 == first:
                    row[-1] = (row[-1][0], last, number)
                else:
                    row.append((first, last, number))
            rows.append(row)
        return _trimmed(rows, [machine.accepts(state) for state in states])

    def only_remainders(self, state: _State) -> bool:
        """Whether a state is one of many that differ only in the remainder; a digit leads to such states too."""
        return (
            self.period > 10 and not self.bounded and state.phase == 2 and state.low > 0 and state.read == self.digits and state.rest >= 0
        )

    def look_up(self, states: Sequence[_State]) -> None:
        """Find the remainders that a digit leads to from these states."""
        if isinstance(self.alike, _Alike) and self.alike.is_small:
            rests = [state.rest for state in states if self.only_remainders(state)]
            found = self.alike.find(((10 * np.array(rests, np.int64))[:, None] + np.arange(10)).ravel() % self.period)
            self.ahead = {rest: found[10 * place : 10 * place + 10] for place, rest in enumerate(rests)}

    def moves(self, state: _State) -> list[tuple[int, int, _State]]:
        """The transitions as (first byte, last byte, state), in the order of bytes."""
        phase, read, low, high, rest = state
        result: list[tuple[int, int, _State]] = []
        if phase in (1, 2) and (self.free_fraction or self.places):
            behind = self.point(state)
            if behind:
                result.append((_POINT, _POINT, behind))
        if phase == 1:
            return result
        if phase >= 3 and not self.free_fraction and read >= self.places:
            return result
        if self.period and rest >= 0:
            ordered = list(range(11))
        else:
            marks = {0, 10}
            if phase < 3:
                marks.add(1 if phase == 0 else 0)
                wholes = (self.low_whole, self.high_whole)
                expected = [int(digits[read]) for digits in wholes if read < len(digits)]
            else:
                expected = [
                    int(digits[read]) if read < len(digits) else 0
                    for digits, compared in ((self.low_fraction, low), (self.high_fraction, high))
                    if not compared
                ]
            for digit in expected:
                marks.update((digit, digit + 1))
            ordered = sorted(marks)
        for first, end in pairwise(ordered):
            target = self.before_point(state, first) if phase < 3 else self.behind_point(state, first)
            if target:
                result.append((_Z + first, _Z + end - 1, target))
        return result

    def before_point(self, state: _State, digit: int) -> _State | None:
        """The state after a digit of the integer part, None where the number has grown past the bound."""
        _, read, low, high, rest = state
        if not low and read < len(self.low_whole):
            low = _compare(digit, int(self.low_whole[read]))
        if self.bounded and not high and read < len(self.high_whole):
            high = _compare(digit, int(self.high_whole[read]))
        read += 1
        if self.bounded and (read > len(self.high_whole) or (read == len(self.high_whole) and high > 0)):
            return None
        read = min(read, self.digits)
        if read > len(self.low_whole) or (read == len(self.low_whole) and not low and self.low_closed and not self.low_fraction):
            low = 1
        if not self.bounded and low > 0 and read >= len(self.low_whole):
            read = self.digits
        if self.period:
            rest = (rest * 10 + digit) % self.period
            left = len(self.high_whole) - read
            rest = self.late.within(rest, left) if self.late is not None and left <= MOST_LEFT else self.alike[rest]
        return _State(1 if not state.phase and not digit else 2, read, low, high, rest)

    def point(self, state: _State) -> _State | None:
        """The state after the point, None where the integer part already decides against the number."""
        _, read, low, high, rest = state
        if read < len(self.low_whole) or low < 0:
            return None
        if read < len(self.high_whole) or not self.bounded:
            high = -1
        return _State(3, 0, low, high, rest)

    def behind_point(self, state: _State, digit: int) -> _State | None:
        """The state after a digit of the fraction."""
        _, read, low, high, rest = state
        if not low:
            low = _compare(digit, int(self.low_fraction[read]) if read < len(self.low_fraction) else 0)
            if low < 0:
                return None
        if not high:
            high = _compare(digit, int(self.high_fraction[read]) if read < len(self.high_fraction) else 0)
            if high > 0:
                return None
        if self.period and rest >= 0:
            if read < self.places:
                rest = self.alike[(rest * 10 + digit) % self.period]
            elif digit:
                rest = -1
        read += 1
        if not low and self.low_closed and read >= len(self.low_fraction):
            low = 1
        undecided = not low or not high or not self.free_fraction or (self.period and rest >= 0)
        return _State(4, min(read, self.fraction_digits) if undecided else self.fraction_digits, low, high, rest)

    def accepts(self, state: _State) -> bool:
        """Whether the number may end here."""
        phase, read, low, high, rest = state
        if phase in (0, 3):
            return False
        if phase < 3:
            if read < len(self.low_whole):
                return False
            if read < len(self.high_whole) or not self.bounded:
                high = -1
            read = 0
        if low < 0 or (not low and (self.low_fraction[read:] or not self.low_closed)):
            return False
        if not high and not self.high_fraction[read:] and not self.high_closed:
            return False
        if not self.period or rest < 0:
            return True
        scaled = rest * 10 ** max(0, self.places - read)
        return not (self.step and scaled % self.step) and all(scaled % n for n in self.nots)


def _compare(a: int, b: int) -> int:
    """-1, 0 or 1."""
    return (a > b) - (a < b)


def _trimmed(rows: list[list[tuple[int, int, int]]], accepting: list[bool]) -> Automaton:
    """The automaton without states from which nothing can be accepted; the start stays."""
    alive = live_states(accepting, sources(rows))
    if all(alive):
        return tuple(map(tuple, rows)), tuple(accepting)
    alive[0] = True
    return restricted(rows, accepting, alive)


NUMBER: Final[Automaton] = _full(zero=True, sign=True)
UNSIGNED: Final[Automaton] = _full(zero=True, sign=False)
POSITIVE: Final[Automaton] = _full(zero=False, sign=False)
