"""Ranges of code points as bytes, for the reference engine.

A spelling is a sequence of positions, each the byte ranges (lo, hi, lo, hi, ...) that may stand there, such that every choice of one byte a
position spells a code point of the range.
A range of numbers is cut into pieces that are products of digit ranges, as in Ken Thompson's UTF-8 range splitter
(https://swtch.com/~rsc/regexp/regexp3.html).
The same cut serves UTF-8 (digits of six bits), hexadecimal escapes (four) and surrogate pairs (ten).
"""

from __future__ import annotations

from itertools import product

from ..grammar import JSON_ANY, RAW, UTF8

Spelling = tuple[tuple[int, ...], ...]

_SHORT = {0x08: b"b", 0x0C: b"f", 0x0A: b"n", 0x0D: b"r", 0x09: b"t", 0x22: b'"', 0x5C: b"\\"}
_LENGTHS = ((0x00, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, 0x10FFFF))
_LEADS = (0x00, 0xC0, 0xE0, 0xF0)
_SCALARS = ((0, 0xD7FF), (0xE000, 0x10FFFF))


def spellings(lo: int, hi: int, encoding: int) -> list[Spelling]:
    """All the ways to write the code points lo..hi.

    >>> spellings(0x61, 0x7A, UTF8)
    [((97, 122),)]
    >>> spellings(0xE9, 0xE9, UTF8)
    [((195, 195), (169, 169))]
    >>> spellings(0x0A, 0x0A, 2)
    [((92, 92), (110, 110))]
    """
    if encoding == RAW:
        return [((max(lo, 0), min(hi, 0xFF)),)] if max(lo, 0) <= min(hi, 0xFF) else []
    result: list[Spelling] = []
    for low, high in _clip(lo, hi, _SCALARS):
        result += _utf8(low, high) if encoding == UTF8 else _json(low, high, any_escape=encoding == JSON_ANY)
    return result


def _clip(lo: int, hi: int, pieces: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    """The part of lo..hi in each of `pieces`."""
    return [(max(lo, low), min(hi, high)) for low, high in pieces if max(lo, low) <= min(hi, high)]


def _split(lo: int, hi: int, bits: int, digits: int) -> list[tuple[tuple[int, int], ...]]:
    """The range lo..hi as products of digit ranges, most significant digit first."""
    pieces: list[tuple[tuple[int, int], ...]] = []
    pending = [(lo, hi)]
    while pending:
        low, high = pending.pop()
        for digit in range(1, digits):
            rest = (1 << bits * digit) - 1
            if low & ~rest == high & ~rest:
                continue
            if low & rest:
                pending += [((low | rest) + 1, high), (low, low | rest)]
                break
            if high & rest != rest:
                pending += [(high & ~rest, high), (low, (high & ~rest) - 1)]
                break
        else:
            one = (1 << bits) - 1
            pieces.append(tuple((low >> bits * digit & one, high >> bits * digit & one) for digit in reversed(range(digits))))
    return pieces


def _utf8(lo: int, hi: int) -> list[Spelling]:
    """Scalar values as UTF-8."""
    result: list[Spelling] = []
    for length, (first, last) in enumerate(_LENGTHS):
        for low, high in _clip(lo, hi, ((first, last),)):
            if not length:
                result.append(((low, high),))
                continue
            for lead, *rest in _split(low, high, 6, length + 1):
                position = (_LEADS[length] + lead[0], _LEADS[length] + lead[1])
                result.append((position, *((0x80 + a, 0x80 + b) for a, b in rest)))
    return result


def _json(lo: int, hi: int, *, any_escape: bool) -> list[Spelling]:
    """Scalar values inside a JSON string."""
    result: list[Spelling] = []
    for low, high in _clip(lo, hi, ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF))):
        result += _utf8(low, high)
    backslash = (0x5C, 0x5C)
    for point, letter in _SHORT.items():
        if lo <= point <= hi:
            result.append((backslash, (letter[0], letter[0])))
    if lo <= 0x2F <= hi:
        result.append((backslash, (0x2F, 0x2F)))
    if any_escape:
        for low, high in _clip(lo, hi, ((0, 0xFFFF),)):
            result += _escapes(low, high)
        for low, high in _clip(lo, hi, ((0x10000, 0x10FFFF),)):
            for (a, b), (c, d) in _split(low - 0x10000, high - 0x10000, 10, 2):
                first, second = _escapes(0xD800 + a, 0xD800 + b), _escapes(0xDC00 + c, 0xDC00 + d)
                result += [x + y for x, y in product(first, second)]
    else:
        for point in range(max(lo, 0), min(hi, 0x1F) + 1):
            if point not in _SHORT:
                result += _escapes(point, point)
    return result


def _escapes(lo: int, hi: int) -> list[Spelling]:
    r"""UTF-16 code units as \uXXXX, hexadecimal digits of either case."""
    head = ((0x5C, 0x5C), (0x75, 0x75))
    return [head + tuple(_hexadecimal(a, b) for a, b in piece) for piece in _split(lo, hi, 4, 4)]


def _hexadecimal(lo: int, hi: int) -> tuple[int, ...]:
    """The bytes of the hexadecimal digits lo..hi."""
    ranges: list[int] = []
    for low, high in _clip(lo, hi, ((0, 9),)):
        ranges += [0x30 + low, 0x30 + high]
    for letter in (0x41, 0x61):
        for low, high in _clip(lo, hi, ((10, 15),)):
            ranges += [letter + low - 10, letter + high - 10]
    return tuple(ranges)
