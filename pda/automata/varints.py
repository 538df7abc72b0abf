"""Lists of numbers as text for tables in Python modules: base85 of deflated varints.

A varint is a number in groups of 7 bits, least significant first, the high bit set on all but the last.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable


def pack(numbers: Iterable[int]) -> str:
    """Numbers, none of them negative, as text.

    >>> unpack(pack([0, 127, 128, 300]))
    [0, 127, 128, 300]
    """
    data = bytearray()
    for number in numbers:
        while number > 127:
            data.append(number & 127 | 128)
            number >>= 7
        data.append(number)
    return base64.b85encode(zlib.compress(bytes(data), 9)).decode("ascii")


def unpack(text: str) -> list[int]:
    """The numbers that `pack` wrote."""
    numbers: list[int] = []
    value = shift = 0
    for byte in zlib.decompress(base64.b85decode(text)):
        if byte >= 128:
            value |= (byte & 127) << shift
            shift += 7
        elif shift:
            numbers.append(value | byte << shift)
            value = shift = 0
        else:
            numbers.append(byte)
    return numbers
