"""Arrays: the algebra of Array parts.

A part says what the items are by position, how many there are, how many of them meet other subschemas (`contains`), and whether all differ.
The complement of "item i is in S" is an array of at least i + 1 items with another item i; of "every further item is in S", a count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Final

from .types import ANYTHING, FALSE, NEVER, TRUE, Array, Conjunction, Count, high_bound, reduced

FREE: Final = Array()


def has_empty(part: Array) -> bool:
    """Whether the empty array is in a part.

    >>> [has_empty(part) for part in (FREE, Array(low=1), Array(distinct=1), Array(distinct=-1), Array(counts=(Count(TRUE, 0, 1, -1),)))]
    [True, False, True, False, False]
    """
    return part.low == 0 and part.distinct >= 0 and not any(count.low for count in part.counts)


def intersect(a: Array, b: Array) -> Array | None:
    """Arrays of both parts; None if their counts alone exclude each other."""
    if a == FREE:
        return b
    if b == FREE:
        return a
    low, high = max(a.low, b.low), high_bound(a.high, b.high)
    if 0 <= high < low or a.distinct * b.distinct < 0:
        return None
    prefix = tuple(
        reduced((a.rest if one is None else one) | (b.rest if other is None else other)) for one, other in zip_longest(a.prefix, b.prefix)
    )
    return Array(prefix, reduced(a.rest | b.rest), low, high, tuple(dict.fromkeys(a.counts + b.counts)), a.distinct or b.distinct)


def complement(part: Array) -> list[Array]:
    """All arrays outside a part."""
    result: list[Array] = []
    if part.low > 0:
        result.append(Array(high=part.low - 1))
    if part.high >= 0:
        result.append(Array(low=part.high + 1))
    for index, item in enumerate(part.prefix):
        result.extend(Array((ANYTHING,) * index + (reduced(frozenset((-literal,))),), low=index + 1) for literal in item)
    result.extend(Array(counts=(Count(-literal, len(part.prefix), 1, -1),)) for literal in part.rest)
    for literal, start, low, high in part.counts:
        if low > 0:
            result.append(Array(counts=(Count(literal, start, 0, low - 1),)))
        if high >= 0:
            result.append(Array(counts=(Count(literal, start, high + 1, -1),)))
    if part.distinct:
        # With all else that the part asks for, so that its items are those of which there may be few.
        result.append(part._replace(distinct=-part.distinct))
    return result


def unite(parts: Iterable[Array]) -> tuple[Array, ...]:
    """A union."""
    kept = tuple(dict.fromkeys(parts))
    return (FREE,) if FREE in kept else kept


def prune(part: Array, is_empty: Callable[[Conjunction], bool]) -> Array | None:
    """The part in its simplest form, None where it holds no array."""
    prefix, rest, low, high, counts, distinct = part
    kept: list[Count] = []
    for literal, start, least, most in counts:
        if 0 <= most < least or (literal == FALSE and least > 0):
            return None
        if literal == TRUE:
            low = max(low, start + least if least > 0 else 0)
            high = high_bound(high, start + most if most >= 0 else -1)
        elif most == 0:
            prefix = (*prefix, *(rest,) * (start - len(prefix)))
            prefix = tuple(reduced(item | {-literal}) if i >= start else item for i, item in enumerate(prefix))
            rest = reduced(rest | {-literal})
        elif literal != FALSE and (least > 0 or most > 0):
            kept.append(Count(literal, start, least, most))
            low = max(low, start + least if least > 0 else 0)
    for index, item in enumerate(prefix):
        if 0 <= high <= index:
            break
        if is_empty(item):
            high = high_bound(high, index)
            break
    if is_empty(rest):
        high = high_bound(high, len(prefix))
        rest = NEVER
    if 0 <= high < len(prefix):
        prefix = prefix[:high]
    while prefix and prefix[-1] == rest:
        prefix = prefix[:-1]
    if distinct < 0:
        low = max(low, 2)
    elif 0 <= high <= 1:
        distinct = 0
    if 0 <= high < low:
        return None
    return Array(prefix, rest, low, high, tuple(dict.fromkeys(kept)), distinct)
