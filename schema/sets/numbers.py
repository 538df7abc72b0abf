"""Sets of numbers: the sets that the number keywords of a JSON Schema describe, closed under intersection, union and complement.

A set is a sorted row of disjoint pieces, each an interval and a lattice: which of the interval's numbers belong.
A lattice is a disjoint union of terms (step, excluded): the multiples of `step` (every number where it is 0) that are multiples
of none of `excluded`.  `integer` is step 1, `multipleOf` a step, and `not` turns either into an excluded step, so every
combination of number keywords and of their negations has a form here, and emptiness is decided.
All arithmetic is exact: a bound is an int or a Fraction, and a float stands for the decimal its shortest text names, so 0.1 is 1/10.

Equal sets have equal pieces where they were made from intervals and one lattice, which is all that real schemas need.
Sets written by different lattices may be equal and still differ in form; `a.is_subset(b)` decides without form.

`stackmask.schema.emit.numbers` writes a set as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise
from math import ceil, floor, gcd, inf, lcm
from typing import Final

from ...pda.exceptions import LimitError

Exact = int | Fraction
Cut = tuple[Exact | float, int]
"""A place between two numbers: (value, 0) lies just below the value, (value, 1) just above; the ends are the two infinities."""
Term = tuple[Exact, tuple[Exact, ...]]
Lattice = tuple[Term, ...]
Piece = tuple[Cut, Cut, Lattice]

EVERY: Final[Lattice] = ((0, ()),)
WHOLE: Final[Lattice] = ((1, ()),)
BELOW: Final[Cut] = (-inf, 1)
ABOVE: Final[Cut] = (inf, 0)

DIGITS: Final = 4_000
"""Longest number a schema may name; Python itself refuses to print integers past 4,300 digits."""
TERMS: Final = 256
"""Most terms of one lattice; each further multipleOf under a `not` can double them."""


def exact(value: int | float | Decimal | Fraction) -> Exact:
    """The number that a JSON text names, without rounding: a float stands for its shortest decimal.

    >>> exact(0.1), exact(1e3), exact(7)
    (Fraction(1, 10), 1000, 7)
    """
    if isinstance(value, int):
        number: Exact = int(value)
    elif isinstance(value, Fraction):
        number = value.numerator if value.denominator == 1 else value
    else:
        decimal = value if isinstance(value, Decimal) else Decimal(repr(value))
        if not decimal.is_finite():
            raise ValueError(f"{value} is not a JSON number")
        if abs(decimal.adjusted()) > DIGITS or len(decimal.as_tuple().digits) > DIGITS:
            raise LimitError(f"a number of more than {DIGITS} digits", limit="digits", value=DIGITS)
        fraction = Fraction(decimal)
        number = fraction.numerator if fraction.denominator == 1 else fraction
    if number.numerator.bit_length() > DIGITS * 10 // 3 or number.denominator.bit_length() > DIGITS * 10 // 3:
        raise LimitError(f"a number of more than {DIGITS} digits", limit="digits", value=DIGITS)
    return number


def scale(value: Exact) -> int:
    """The number of digits of a decimal after the point."""
    rest = value.denominator
    twos = (rest & -rest).bit_length() - 1
    rest >>= twos
    fives = 0
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    if rest != 1:
        raise ValueError(f"{value} is not a decimal number")
    return max(twos, fives)


def decimal(value: Fraction) -> Decimal:
    """A decimal number as one, whatever the precision of the context.

    >>> decimal(Fraction(-5, 4))
    Decimal('-1.25')
    """
    places = scale(value)
    digits = str(abs(value.numerator) * 10**places // value.denominator)
    return Decimal((int(value < 0), tuple(map(int, digits)), -places))


@dataclass(frozen=True, slots=True)
class NumberSet:
    """A set of numbers; immutable, hashable, closed under `&`, `|`, `~` and `-`.

    >>> percent = INTEGERS & NumberSet.interval(0, 100)
    >>> 7 in percent, 7.5 in percent, (percent & NumberSet.multiples(30)).values(10)
    (True, False, [0, 30, 60, 90])
    """

    pieces: tuple[Piece, ...]

    @staticmethod
    def interval(
        low: int | float | Decimal | Fraction | None = None,
        high: int | float | Decimal | Fraction | None = None,
        *,
        low_open: bool = False,
        high_open: bool = False,
    ) -> NumberSet:
        """Every number between two bounds; None is no bound."""
        start: Cut = BELOW if low is None else (exact(low), int(low_open))
        end: Cut = ABOVE if high is None else (exact(high), int(not high_open))
        return NumberSet(joined([(start, end, EVERY)]))

    @staticmethod
    def whole(low: int | None, high: int | None) -> NumberSet:
        """Every integer between two bounds; None is no bound.

        >>> NumberSet.whole(2, 7) == INTEGERS & NumberSet.interval(2, 7)
        True
        """
        start: Cut = BELOW if low is None else (low, 0)
        end: Cut = ABOVE if high is None else (high, 1)
        return NumberSet(((start, end, WHOLE),) if start < end else ())

    @staticmethod
    def multiples(step: int | float | Decimal | Fraction) -> NumberSet:
        """The multiples of a positive number."""
        exact_step = exact(step)
        if exact_step <= 0:
            raise ValueError(f"multipleOf must be positive, not {step}")
        return NumberSet(((BELOW, ABOVE, ((exact_step, ()),)),))

    @staticmethod
    def of(values: Iterable[int | float | Decimal | Fraction]) -> NumberSet:
        """A finite set."""
        return NumberSet(joined([((v, 0), (v, 1), EVERY) for v in sorted({exact(v) for v in values})]))

    def __and__(self, other: NumberSet) -> NumberSet:
        if self.pieces == UNBOUNDED or not other.pieces:
            return other
        if other.pieces == UNBOUNDED or not self.pieces or self.pieces == other.pieces:
            return self
        if self.pieces[-1][1] <= other.pieces[0][0] or other.pieces[-1][1] <= self.pieces[0][0]:
            return NumberSet(())
        return NumberSet(_combine(self.pieces, other.pieces, _intersect))

    def __or__(self, other: NumberSet) -> NumberSet:
        if not self.pieces or self.pieces == other.pieces:
            return other
        if not other.pieces:
            return self
        return NumberSet(_combine(self.pieces, other.pieces, _unite))

    def __sub__(self, other: NumberSet) -> NumberSet:
        return NumberSet(_combine(self.pieces, other.pieces, lambda a, b: _intersect(a, _complement(b))))

    def __invert__(self) -> NumberSet:
        return NumberSet(_combine(UNBOUNDED, self.pieces, lambda a, b: _complement(b)))

    def __contains__(self, value: int | float | Decimal | Fraction) -> bool:
        number = exact(value)
        return any(start <= (number, 0) and (number, 1) <= end and _has(lattice, number) for start, end, lattice in self.pieces)

    def __bool__(self) -> bool:
        return bool(self.pieces)

    def is_empty(self) -> bool:
        """Whether no number belongs."""
        return not self.pieces

    def is_subset(self, other: NumberSet) -> bool:
        """Whether every number of this set belongs to the other."""
        return not (self - other).pieces

    def is_integer(self) -> bool:
        """Whether every number of this set is an integer."""
        return all(step and Fraction(step).denominator == 1 for piece in self.pieces for step, _ in piece[2])

    def cardinality(self, limit: int = 1 << 60) -> int:
        """The size of the set, at most `limit`."""
        total = 0
        for start, end, lattice in self.pieces:
            if start[0] == end[0]:
                total += 1
            elif start == BELOW or end == ABOVE or any(not step for step, _ in lattice):
                return limit
            else:
                total += sum(count_members(start, end, term, limit) for term in lattice)
            if total >= limit:
                return limit
        return total

    def values(self, limit: int) -> list[Exact] | None:
        """The members in order, None where there are more than `limit`."""
        if self.cardinality(limit + 1) > limit:
            return None
        found: list[Exact] = []
        for start, end, lattice in self.pieces:
            if start[0] == end[0]:
                found.append(finite(start[0]))
            else:
                for term in lattice:
                    found.extend(list_members(start, end, term))
        return sorted(found)

    def __repr__(self) -> str:
        return " | ".join(_show(piece) for piece in self.pieces) or "{}"


def magnitudes(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """The part of a set that is 0 or above."""
    if pieces and pieces[0][0] >= ZERO_CUTS[0]:
        return pieces
    return _combine(pieces, ((ZERO_CUTS[0], ABOVE, EVERY),), _intersect)


def reflected(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Every number with its sign turned, 0 aside."""
    if not pieces or pieces[0][0] >= ZERO_CUTS[0]:
        return ()
    turned = tuple(((-end[0], 1 - end[1]), (-start[0], 1 - start[1]), lattice) for start, end, lattice in reversed(pieces))
    return _combine(turned, ((ZERO_CUTS[1], ABOVE, EVERY),), _intersect)


def _combine(a: tuple[Piece, ...], b: tuple[Piece, ...], operation: Callable[[Lattice, Lattice], Lattice]) -> tuple[Piece, ...]:
    """The pieces of `operation` on every stretch between two neighbouring cuts of either set."""
    if len(a) == len(b) == 1 and a[0][0] == b[0][0] and a[0][1] == b[0][1]:
        lattice = operation(a[0][2], b[0][2])
        return joined([(a[0][0], a[0][1], lattice)] if lattice else [])
    cuts = sorted({BELOW, ABOVE, *(cut for piece in a for cut in piece[:2]), *(cut for piece in b for cut in piece[:2])})
    result: list[Piece] = []
    i = j = 0
    for start, end in pairwise(cuts):
        while i < len(a) and a[i][1] <= start:
            i += 1
        while j < len(b) and b[j][1] <= start:
            j += 1
        lattice = operation(
            a[i][2] if i < len(a) and a[i][0] <= start else (),
            b[j][2] if j < len(b) and b[j][0] <= start else (),
        )
        if lattice:
            result.append((start, end, lattice))
    return joined(result)


def joined(pieces: list[Piece]) -> tuple[Piece, ...]:
    """The canonical form of sorted disjoint pieces: bounds drawn in to members, neighbours of one lattice united."""
    result: list[Piece] = []
    for piece in pieces:
        drawn = _drawn_in(piece)
        while drawn and result:
            united = _united(result[-1], drawn)
            if not united:
                break
            result.pop()
            drawn = united
        if drawn:
            result.append(drawn)
    return tuple(result)


def _drawn_in(piece: Piece) -> Piece | None:
    """The piece with its bounds moved to members where the lattice has gaps; None where it is empty."""
    start, end, lattice = piece
    if start >= end:
        return None
    if start[0] == end[0]:
        value = finite(start[0])
        return (start, end, WHOLE if isinstance(value, int) else EVERY) if _has(lattice, value) else None
    if lattice[0][0]:
        if start != BELOW:
            start = (min(next_member(term, start) for term in lattice), 0)
        if end != ABOVE:
            end = (max(-next_member(term, (-end[0], 1 - end[1])) for term in lattice), 1)
        if start >= end:
            return None
        if start[0] == end[0]:
            return start, end, WHOLE if isinstance(start[0], int) else EVERY
    elif lattice != EVERY:
        # A closed bound that the lattice leaves out is the same as an open one.
        if start != BELOW and not start[1] and not _has(lattice, finite(start[0])):
            start = (start[0], 1)
        if end != ABOVE and end[1] and not _has(lattice, finite(end[0])):
            end = (end[0], 0)
    return start, end, lattice


def _united(left: Piece, right: Piece) -> Piece | None:
    """Two neighbours as one piece, None where that would add a number or change the lattice."""
    start, middle, lattice = left
    if middle == right[0] and middle[0] != inf:
        value = finite(middle[0])
        if right[0][0] == right[1][0] and _has(lattice, value):
            return start, right[1], lattice
        if start[0] == middle[0] and _has(right[2], value):
            return start, right[1], right[2]
        return (start, right[1], lattice) if lattice == right[2] else None
    if start[0] == middle[0] and right[2][0][0] and _has(right[2], finite(start[0])):
        lattice = right[2]
    elif lattice != right[2] and not (right[0][0] == right[1][0] and _has(lattice, finite(right[0][0]))):
        return None
    # Neighbours that no member of the lattice separates.
    if lattice[0][0] and min(next_member(term, middle) for term in lattice) >= right[0][0]:
        return start, right[1], lattice
    return None


def finite(value: Exact | float) -> Exact:
    """A bound that is known to be no infinity."""
    assert not isinstance(value, float)
    return value


def _divides(step: Exact, value: Exact) -> bool:
    """Whether `value` is a multiple of `step`; only 0 is a multiple of 0."""
    return not value % step


def _has(lattice: Lattice, value: Exact) -> bool:
    """Whether the lattice holds a value."""
    return any((not step or _divides(step, value)) and not any(_divides(n, value) for n in nots) for step, nots in lattice)


def next_member(term: Term, cut: Cut) -> Exact:
    """The least member of a term with a step at or above a cut.

    The loop is short: k is skipped only where some excluded quotient, each at least 2, divides it.
    """
    step, nots = term
    value = finite(cut[0])
    k = floor(Fraction(value) / step) + 1 if cut[1] else ceil(Fraction(value) / step)
    while any(_divides(n, k * step) for n in nots):
        k += 1
    return _reduced(k * step)


def _reduced(value: Exact) -> Exact:
    """The value as an int where it is one."""
    return value.numerator if value.denominator == 1 else value


def count_members(start: Cut, end: Cut, term: Term, limit: int) -> int:
    """The number of members of a term between two finite cuts, at most `limit`."""
    step, nots = term
    low, high = finite(start[0]), finite(end[0])

    def multiples(of: Exact) -> int:
        first = floor(Fraction(low) / of) + 1 if start[1] else ceil(Fraction(low) / of)
        last = floor(Fraction(high) / of) if end[1] else ceil(Fraction(high) / of) - 1
        return max(0, last - first + 1)

    if not nots:
        return min(multiples(step), limit)
    if len(nots) <= 8:
        # Inclusion and exclusion over what the excluded steps share.
        signed = [(-1 if size % 2 else 1, chosen) for size in range(len(nots) + 1) for chosen in combinations(nots, size)]
        return min(sum(sign * multiples(_lcm(step, *chosen)) for sign, chosen in signed), limit)
    total = 0
    while start < end and total < limit:
        start = (next_member(term, start), 1)
        total += start <= end
    return total


def list_members(start: Cut, end: Cut, term: Term) -> list[Exact]:
    """The members of a term between two finite cuts."""
    found: list[Exact] = []
    value = next_member(term, start)
    while (value, 1) <= end:
        found.append(value)
        value = next_member(term, (value, 1))
    return found


def _lcm(*steps: Exact) -> Exact:
    """The least common multiple of positive numbers: lcm(a/b, c/d) = lcm(a, c) / gcd(b, d) in lowest terms."""
    return _reduced(Fraction(lcm(*(s.numerator for s in steps)), gcd(*(s.denominator for s in steps))))


def _term(step: Exact, nots: Iterable[Exact]) -> Term | None:
    """A term in canonical form: the excluded steps are proper multiples of the step, none a multiple of another; None where empty."""
    kept: list[Exact] = []
    for candidate in sorted({_lcm(step, n) if step else n for n in nots}):
        if candidate == step:
            return None
        if not any(_divides(k, candidate) for k in kept):
            kept.append(candidate)
    return step, tuple(kept)


def _intersect(a: Lattice, b: Lattice) -> Lattice:
    """The intersection of two lattices."""
    if a in (EVERY, b):
        return b
    if b == EVERY:
        return a
    if len(a) * len(b) > TERMS:
        raise LimitError(f"more than {TERMS} terms of multipleOf and its negations", limit="terms", value=TERMS)
    terms = [
        _term(_lcm(s, t) if s and t else s or t, (*m, *n))
        for s, m in a
        for t, n in b
    ]  # fmt: skip
    return _simplified([term for term in terms if term])


def _complement(a: Lattice) -> Lattice:
    """The complement of a lattice: not(step, nots) = not multiples of step, or multiples of step and of some excluded step."""
    result = EVERY
    for step, nots in a:
        terms = [_term(0, (step,))] if step else []
        terms += [_term(_lcm(step, n) if step else n, nots[:i]) for i, n in enumerate(nots)]
        result = _intersect(result, _simplified([term for term in terms if term]))
    return result


def _unite(a: Lattice, b: Lattice) -> Lattice:
    """The union of two lattices, as disjoint terms."""
    if not a or not b or a == b:
        return a or b
    if a == EVERY or b == EVERY:
        return EVERY
    rest = _intersect(b, _complement(a))
    united = _simplified([*a, *rest])
    return united if _complement(united) else EVERY


def _simplified(terms: list[Term]) -> Lattice:
    """Sorted terms, with (step, nots + n) and (lcm(step, n), nots) united to (step, nots) as long as that applies."""
    terms = sorted(set(terms))
    for a in terms:
        for n in a[1]:
            rest = [other for other in a[1] if other != n]
            partner = _term(_lcm(a[0], n) if a[0] else n, rest)
            whole = _term(a[0], rest)
            if partner in terms and whole:
                return _simplified([t for t in terms if t not in (a, partner)] + [whole])
    return tuple(terms)


def _show(piece: Piece) -> str:
    """A piece as mathematicians write it."""
    start, end, lattice = piece
    if start[0] == end[0]:
        return f"{{{start[0]}}}"
    terms = " or ".join(f"{step}Z" + "".join(f"\\{n}Z" for n in nots) for step, nots in lattice)
    interval = f"{'(' if start[1] else '['}{start[0]}, {end[0]}{']' if end[1] else ')'}"
    return interval if lattice == EVERY else f"{terms.replace('0Z', 'R', 1) if not lattice[0][0] else terms} in {interval}"


UNBOUNDED: Final[tuple[Piece, ...]] = ((BELOW, ABOVE, EVERY),)
ZERO_CUTS: Final[tuple[Cut, Cut]] = ((0, 0), (0, 1))
ZERO: Final[Piece] = (*ZERO_CUTS, WHOLE)
NUMBERS: Final = NumberSet(UNBOUNDED)
INTEGERS: Final = NumberSet(((BELOW, ABOVE, WHOLE),))
NOTHING: Final = NumberSet(())
