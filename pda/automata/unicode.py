r"""Unicode properties as code point sets: what `\p{...}` means in ECMA-262, and the bare names other engines allow.

Names are compared loosely as UAX #44 says (rule LM3: case, blanks, `-` and `_` do not count).
The tables are unpacked one by one when a name first asks for them, about 1 ms each.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from .charset import ANY, ASCII, CharSet, complement, from_ranges
from .unicode_tables import CATEGORIES, EXTENSIONS, PROPERTIES, SCRIPTS
from .varints import unpack

_TABLES: Final = {
    "gc": CATEGORIES,
    "generalcategory": CATEGORIES,
    "sc": SCRIPTS,
    "script": SCRIPTS,
    "scx": EXTENSIONS,
    "scriptextensions": EXTENSIONS,
}


def property_set(name: str) -> CharSet | None:
    r"""The set behind the text between the braces of `\p{...}`, or None where no such property or value is known.

    >>> property_set("Script=Thai")[:2] == (0x0E01, 0x0E3A)
    True
    >>> property_set("Lu") == property_set("gc=Uppercase_Letter")
    True
    >>> property_set("NoSuchThing") is None
    True
    """
    key, equals, value = name.partition("=")
    if equals:
        table = _TABLES.get(_loose(key))
        return None if table is None else _unpack(table).get(_loose(value))
    loose = _loose(name)
    match loose:
        case "any":
            return ANY
        case "ascii":
            return ASCII
        case "assigned":
            return complement(_unpack(CATEGORIES)["cn"])
    # ECMA-262 allows a category or a binary property here; a bare script name is Rust's and Perl's, and no other meaning competes with it.
    for table in (CATEGORIES, PROPERTIES, SCRIPTS):
        found = _unpack(table).get(loose)
        if found is not None:
            return found
    return None


def _loose(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()


@cache
def _unpack(table: tuple[str, str]) -> dict[str, CharSet]:
    """Every name of a table with its set."""
    names, packed = table
    numbers = unpack(packed)
    sets: dict[str, CharSet] = {}
    place = 0
    for aliases in names.split(";"):
        end = 0
        ranges: list[tuple[int, int]] = []
        for index in range(place + 1, place + 1 + 2 * numbers[place], 2):
            start = end + numbers[index]
            end = start + numbers[index + 1] + 1
            ranges.append((start, end - 1))
        place += 1 + 2 * numbers[place]
        chars = from_ranges(ranges)
        for name in aliases.split():
            sets[name] = chars
    return sets
