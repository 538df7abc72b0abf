"""Random grammars and vocabularies as hypothesis draws them: what all property tests draw from. `generators` writes the grammars."""

from __future__ import annotations

from hypothesis import strategies as st
from support.generators import Features, random_grammar

from stackmask.pda.grammar import Grammar

ANY = Features()
PIECES = (
    *(
        b"a",
        b"b",
        b"ab",
        b"aa",
        b"aba",
        b"z",
        b'"',
        b'",',
        b'"}',
        b'"},',
        b'":',
        b'": "',
        b"{",
        b"}",
        b"[",
        b"]",
        b"]]",
        b"[[",
        b",",
        b",,",
    ),
    *(
        b"1",
        b"12",
        b"true",
        b"tr",
        b"ue",
        b"null",
        b" ",
        b"\n",
        b"\\",
        b"\\n",
        b"\\u00",
        b"\\ud83d",
        b"\\u",
        b"0",
        b"e9",
        b"1b",
        b"\x00",
        b"\x7f",
    ),
    *("é".encode(), "é".encode() * 2, "ÿ".encode(), "€".encode(), "\U0001f600".encode()),
    *(
        b"\xc3",
        b"\xa9",
        b"\xf0",
        b"\xf0\x9f",
        b"\x98\x80",
        b"\x9f\x98",
        b"\xed\xa0",
        b"\xff",
        b"\xef\xbf\xbf",
        b"\xf4\x8f",
        b"a\xc3",
        b"\xa9a",
    ),
)


@st.composite
def vocabularies(draw: st.DrawFn, *, special: int = 3) -> list[bytes | None]:
    """Tokens: all the bytes that matter, random strings, some equal to others, and at the end ids without text."""
    pieces = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map(b"".join)
    tokens: list[bytes | None] = list(draw(st.lists(pieces | st.binary(min_size=1, max_size=3), min_size=5, max_size=60)))
    tokens += [bytes((byte,)) for byte in b'ab1"{}[],:tz\\']
    return tokens + [None] * special


@st.composite
def grammars(draw: st.DrawFn, features: Features = ANY, *, vocabulary: int = 8) -> Grammar:
    """A random grammar; `vocabulary` bounds the ids that its TOKENS name."""
    return random_grammar(draw(st.randoms(use_true_random=False)), features, vocabulary=vocabulary)
