"""Sets of code points, as flat sorted tuples (lo, hi, lo, hi, ...) of inclusive, disjoint, non-adjacent ranges.

The tuple is the set: it is immutable, hashable, canonical (equal sets are equal tuples) and is what the intermediate representation
takes as it stands.
The universe is all Unicode scalar values: a surrogate is in no set, since no UTF-8 text holds one.

The case folding closure takes two characters as equal when their full case foldings are equal (`str.casefold`).
On single characters that relation is the simple case folding of CaseFolding.txt that ECMA-262 uses under the flags `iu`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final, TypeAlias

CharSet: TypeAlias = tuple[int, ...]

ANY: Final[CharSet] = (0, 0xD7FF, 0xE000, 0x10FFFF)
ASCII: Final[CharSet] = (0, 0x7F)


def from_ranges(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """The union of inclusive ranges in any order, surrogates left out.

    >>> from_ranges([(0x62, 0x63), (0x61, 0x61), (0x70, 0x70)])
    (97, 99, 112, 112)
    """
    flat: list[int] = []
    end = -2
    surrogates = False
    for lo, hi in sorted(ranges):
        if lo > end + 1:
            flat += (lo, hi)
            end = hi
        elif hi > end:
            flat[-1] = end = hi
        surrogates = surrogates or (lo <= 0xDFFF and hi >= 0xD800)
    return intersection(tuple(flat), ANY) if surrogates else tuple(flat)


def from_chars(characters: Iterable[str]) -> CharSet:
    """The characters as a set.

    >>> from_chars("cab_")
    (95, 95, 97, 99)
    """
    return from_ranges((point, point) for point in map(ord, characters))


def pairs(chars: CharSet) -> Iterable[tuple[int, int]]:
    """The ranges (lo, hi) of a set, in order."""
    return zip(chars[::2], chars[1::2], strict=True)


def union(*sets: CharSet) -> CharSet:
    """The union of the sets."""
    if len(sets) == 1:
        return sets[0]
    return from_ranges(pair for chars in sets for pair in pairs(chars))


def intersection(left: CharSet, right: CharSet) -> CharSet:
    """The intersection of two sets.

    >>> intersection((97, 122), (48, 57, 95, 110))
    (97, 110)
    """
    flat: list[int] = []
    i = j = 0
    while i < len(left) and j < len(right):
        lo = left[i] if left[i] > right[j] else right[j]
        left_end, right_end = left[i + 1], right[j + 1]
        hi = left_end if left_end < right_end else right_end
        if lo <= hi:
            flat += (lo, hi)
        if left_end < right_end:
            i += 2
        else:
            j += 2
    return tuple(flat)


def complement(chars: CharSet) -> CharSet:
    """Every scalar value that is not in the set.

    >>> complement((0, 96, 123, 0x10FFFF))
    (97, 122)
    """
    flat: list[int] = []
    start = 0
    for lo, hi in pairs(chars):
        if lo > start:
            flat += (start, lo - 1)
        start = hi + 1
    if start <= 0x10FFFF:
        flat += (start, 0x10FFFF)
    return intersection(tuple(flat), ANY)


def difference(left: CharSet, right: CharSet) -> CharSet:
    """The characters in `left` that are not in `right`."""
    return intersection(left, complement(right))


def contains(chars: CharSet, point: int) -> bool:
    """Whether a code point is in the set."""
    place = bisect_right(chars, point)
    return place & 1 == 1 or (place > 0 and chars[place - 1] == point)


def size(chars: CharSet) -> int:
    """The number of code points in the set."""
    return sum(chars[1::2]) - sum(chars[::2]) + len(chars) // 2


def case_closure(chars: CharSet) -> CharSet:
    """The set with every character that differs from a member only by case.

    >>> case_closure((97, 97)) == (65, 65, 97, 97)
    True
    >>> case_closure((107, 107)) == (0x4B, 0x4B, 0x6B, 0x6B, 0x212A, 0x212A)
    True
    """
    return _case_closure(chars) if len(chars) < 64 else _case_closure.__wrapped__(chars)


# PERF: the same few sets come again and again; large ones are not worth their place in the cache.
@lru_cache(maxsize=256)
def _case_closure(chars: CharSet) -> CharSet:
    groups, group_of = _case_groups()
    if size(chars) <= len(groups):
        touched = {group for lo, hi in pairs(chars) for point in range(lo, hi + 1) if (group := group_of.get(point)) is not None}
    else:
        touched = {group for group in groups if any(contains(chars, point) for point in group)}
    extra = [(point, point) for group in touched for point in group]
    return from_ranges((*pairs(chars), *extra)) if extra else chars


@cache
def _case_groups() -> tuple[tuple[tuple[int, ...], ...], dict[int, tuple[int, ...]]]:
    """The classes of two and more code points with the same case folding, and for each of these its class."""
    groups: dict[str, set[int]] = {}
    # PERF: folding a block of 256 at once tells in 1 us that nothing in it folds; scripts with case live in planes 0 and 1.
    for start in range(0, 0x20000, 256):
        if 0xD800 <= start < 0xE000:
            continue
        block = "".join(map(chr, range(start, start + 256)))
        if block.casefold() == block:
            continue
        for character in block:
            folded = character.casefold()
            if folded != character:
                group = groups.setdefault(folded, set())
                group.add(ord(character))
                if len(folded) == 1:
                    group.add(ord(folded))
    found = tuple(tuple(sorted(group)) for group in groups.values() if len(group) > 1)
    return found, {point: group for group in found for point in group}
