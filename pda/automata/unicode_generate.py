"""Writes unicode_tables.py: the general categories, scripts and binary properties of every code point.

Run as `python -m stackmask.pda.automata.unicode_generate > unicode_tables.py` after `pip install regex`,
whose tables are those of the newest
Unicode version.
The standard library has the categories alone, and of an older version.
"""

from __future__ import annotations

import sys
import textwrap

import regex  # type: ignore[import-untyped]
from regex import _regex_core

from .varints import pack

# The binary properties of ECMA-262 ("Binary Unicode property aliases and their canonical property names"), as far as `regex` has them.
BINARY = (
    "ASCII_Hex_Digit",
    "Alphabetic",
    "Bidi_Control",
    "Bidi_Mirrored",
    "Case_Ignorable",
    "Cased",
    "Changes_When_Casefolded",
    "Changes_When_Casemapped",
    "Changes_When_Lowercased",
    "Changes_When_Titlecased",
    "Changes_When_Uppercased",
    "Dash",
    "Default_Ignorable_Code_Point",
    "Deprecated",
    "Diacritic",
    "Emoji",
    "Emoji_Component",
    "Emoji_Modifier",
    "Emoji_Modifier_Base",
    "Emoji_Presentation",
    "Extended_Pictographic",
    "Extender",
    "Grapheme_Base",
    "Grapheme_Extend",
    "Hex_Digit",
    "IDS_Binary_Operator",
    "IDS_Trinary_Operator",
    "ID_Continue",
    "ID_Start",
    "Ideographic",
    "Join_Control",
    "Logical_Order_Exception",
    "Lowercase",
    "Math",
    "Noncharacter_Code_Point",
    "Pattern_Syntax",
    "Pattern_White_Space",
    "Quotation_Mark",
    "Radical",
    "Regional_Indicator",
    "Sentence_Terminal",
    "Soft_Dotted",
    "Terminal_Punctuation",
    "Unified_Ideograph",
    "Uppercase",
    "Variation_Selector",
    "White_Space",
    "XID_Continue",
    "XID_Start",
)

TEXT = "".join(map(chr, range(0x110000)))


def ranges(expression: str) -> list[tuple[int, int]]:
    """The inclusive ranges of code points that one property expression matches."""
    return [(match.start(), match.end() - 1) for match in regex.finditer(f"(?:{expression})+", TEXT)]


def deltas(found: list[tuple[int, int]]) -> list[int]:
    """The number of ranges, then for each the gap before it and its length less one."""
    numbers, end = [len(found)], 0
    for lo, hi in found:
        numbers += (lo - end, hi - lo)
        end = hi + 1
    return numbers


def aliases(property_name: str) -> list[list[str]]:
    """The values of a property, each as the list of its names, loosely spelt."""
    values: dict[int, list[str]] = {}
    for name, number in _regex_core.PROPERTIES[property_name][1].items():
        if not name.endswith("&"):  # Perl's L& is not L
            values.setdefault(number, []).append(name.lower())
    return list(values.values())


def main() -> None:
    """Print the module."""
    categories = [names for names in aliases("GENERALCATEGORY") if min(map(len, names)) <= 2]  # the others are no category of Unicode
    scripts = aliases("SCRIPT")
    properties = [
        [
            key.lower()
            for key, (number, _) in _regex_core.PROPERTIES.items()
            if number == _regex_core.PROPERTIES[name.replace("_", "").upper()][0]
        ]
        for name in BINARY
    ]
    tables = {
        "CATEGORIES": [(names, rf"\p{{gc={names[0]}}}") for names in categories],
        "SCRIPTS": [(names, rf"\p{{sc={names[0]}}}") for names in scripts],
        "EXTENSIONS": [(names, rf"\p{{scx={names[0]}}}") for names in scripts],
        "PROPERTIES": [(names, rf"\p{{{names[0]}}}") for names in properties],
    }
    print('"""General categories, scripts and binary properties of Unicode, written by unicode_generate.py.')
    print()
    print(f"Made with regex {regex.__version__}; from the Unicode Character Database, (c) Unicode, Inc., Unicode License v3.")
    print("Each table is (names, data): names are the loose names of every value, `;` between values, a blank between names of one;")
    print("data is base85 of deflated varints: for every value the number of ranges, then the gap before and the length less one of each.")
    print('"""')
    print()
    print("from __future__ import annotations")
    for name, rows in tables.items():
        text = ";".join(" ".join(names) for names, _ in rows)
        packed = pack(number for _, expression in rows for number in deltas(ranges(expression)))
        print(f"\n{name} = (")
        for part in (text, packed):
            if name == "EXTENSIONS" and part == text:
                print("    SCRIPTS[0]", end="")
            else:
                for line in textwrap.wrap(part, 130, break_on_hyphens=False, drop_whitespace=False):
                    print(f'    "{line}"')
            print("    ,")
        print(")")
    print(f"{len(categories)} categories, {len(scripts)} scripts, {len(properties)} properties", file=sys.stderr)


if __name__ == "__main__":
    main()
