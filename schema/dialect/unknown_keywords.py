"""Keywords that a draft does not have: those that were probably meant to be others, and those that mean nothing to it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from ...pda.exceptions import SchemaError, shown
from .dialects import DIALECTS, Dialect
from .guidance import NAME
from .references import MANY, NAMED, ONE

ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"}
    | {"contentMediaType", "contentEncoding", "contentSchema"}
)
"""Keywords that never constrain an instance."""
KNOWN: Final = frozenset().union(*(dialect.keywords for dialect in DIALECTS.values()))
"""The keywords of all drafts."""
HOLDERS: Final = frozenset({*NAMED, *ONE, *MANY})
"""The keywords that may have subschemas."""


def _letters(word: str) -> int:
    """The letters of a word, each as often as it occurs, as bits: of two words the bits that both have are no fewer than the letters.

    There are 64 letters, which others are taken for, and eight bits for each: no keyword has one of them more often.
    """
    letters = 0
    for letter in word:
        bit = 1 << 8 * (ord(letter) & 63)
        last = bit << 7
        while letters & bit and bit != last:
            bit <<= 1
        letters |= bit
    return letters


_KNOWN: Final = [(keyword, _letters(keyword), len(keyword)) for keyword in sorted(KNOWN, key=len)]
_LENGTHS: Final = [length for _, _, length in _KNOWN]
_LONGEST: Final = max(map(len, KNOWN)) * 3 // 2
"""Longer words are close to no keyword, see `_similar`; so they are not kept either, however many come."""


def has_note(keyword: object, dialect: Dialect) -> bool:
    """Whether there is a note on a keyword that a dialect does not have, or its value may hold subschemas."""
    if not isinstance(keyword, str) or keyword in HOLDERS:
        return True
    return keyword not in ANNOTATIONS and bool(note_on_unknown(keyword, dialect.name))


def note_on_unknown(keyword: object, dialect: str) -> str:
    """The note on a keyword that a dialect does not have; SchemaError where it is no text, which JSON has no keys but."""
    if not isinstance(keyword, str):
        raise SchemaError(f"{shown(keyword)} is not a keyword: the keys of JSON are strings")
    return _note(keyword, dialect) if len(keyword) <= _LONGEST else ""


@lru_cache(maxsize=1024)
def _note(keyword: str, dialect: str) -> str:
    others = [name for name, other in DIALECTS.items() if keyword in other.keywords]
    if others:
        return f"no keyword of {dialect}, but of {', '.join(others)}"
    if keyword == NAME:
        return "read in the root of a schema only"
    if _is_marked(keyword):
        return ""
    similar = _similar(keyword)
    close = get_close_matches(keyword, similar, 1, 0.8) if similar else ()
    return f'unknown keyword; did you mean "{close[0]}"?' if close else ""


def _is_marked(keyword: str) -> bool:
    """Whether an author has marked a word as no keyword: no keyword begins like this, and no slip of the finger does.

    `x-` marks extensions (OpenAPI Specification 3.1, section 4.9), and other signs what is turned off (`_format`, `//type`) or belongs to
    another notation (`@type` of JSON-LD).
    """
    return keyword.startswith("x-") or not (keyword[:1].isalpha() or keyword[:1] == "$")


def _similar(keyword: str) -> list[str]:
    """The keywords that have letters enough in common with this one to be close matches.

    Close is a ratio of 4/5: twice the number of matching letters by the sum of the lengths. PERF: `difflib` would take longer to see that
    nothing is close than a small schema takes to compile.
    """
    own, double = _letters(keyword), 2 * len(keyword)
    # a keyword that is shorter than two thirds of the other has too few letters
    shortest, longest = (double + 2) // 3, 3 * len(keyword) // 2
    near = _KNOWN[bisect_left(_LENGTHS, shortest) : bisect_right(_LENGTHS, longest)]
    return [known for known, letters, length in near if 5 * (own & letters).bit_count() >= double + 2 * length]
