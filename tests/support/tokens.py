"""Pieces of tokens that masks are hard for, by kind: what the fuzzer and hypothesis join."""

from __future__ import annotations

from typing import Final

WORDS: Final = (
    b"a",
    b"b",
    b"ab",
    b"z",
    b"the",
    b"A",
    b"B1",
    b"_",
    b"x1",
    b"ity",
    b"0",
    b"1",
    b"12",
    b"7",
    b"e5",
    b"true",
    b"null",
    b"fal",
    b"se",
)
PUNCTUATION: Final = (
    b" ", b"  ", b"\n", b"\t", b"\r\n", b".", b",", b"-", b":", b";", b"=", b"!", b"?", b"/", b"<", b">", b"(", b")", b"|",
    b"+", b"*", b"'", b"\\", b"\x00", b"\x7f", b"\x1f",
)  # fmt: skip
JSON_ENDS: Final = (b'"', b'",', b'"}', b'":', b'": ', b'"]', b'", "', b'"},', b'" ', b'\\"', b"\\n", b"\\u00", b"\\ud83d", b"\\u")
VALUES: Final = (
    b"[", b"]", b"{", b"}", b"[]", b"{}", b"[[", b"]]", b"1,2", b"[1", b"1]", b"0,0", b"[0e5,0", b"true,", b",true",
    b",null]", b'"a","b"', b'"a":1', b',"b":1', b'{"a":', b'"a":1}', b'{"a":1,"b":2}', b'["a","a"]', b"1.0,1", b"-0,0",
    b'"b":', b',"a":', b" 1", b"1 ", b", ", b": ", b"}]",
)  # fmt: skip
WHOLE: Final = tuple(text.encode() for text in (
    "é", "à", "ÿ", "š", "ß", "И", "ж", "€", "日", "本", "\u00a0", "\u0085", "\u2028", "\u3000", "\ufeff", "\u200b", "\u0301",
    "😀", "🏳", "\U0010ffff", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff",
))  # fmt: skip
BROKEN: Final = (
    b"\xc3", b"\xa9", b"\xdf", b"\x9a", b"\xe6", b"\xe6\x97", b"\x97", b"\xa5", b"\xf0", b"\xf0\x9f", b"\x9f\x98",
    b"\x98\x80", b"\x80", b"\xbf", b"\xe2\x80", b"\xa8", b"\xc2", b"\xa0", b"\xed\xa0", b"\xc0", b"\xf4\x8f", b"\xf4\x90",
    b"\xff", b"\xe0\x80", b"\xe3\x80", b"\xef\xbb",
)  # fmt: skip
BLANKS: Final = tuple(text.encode() for text in ("\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u202f", "\u205f", "\u3000", "\ufeff"))
GROUPS: Final = (WORDS, PUNCTUATION, JSON_ENDS, VALUES, WHOLE, BROKEN)
LONG: Final = (b"a", b" ", b"1", b"ab", b"a ", "é".encode(), "日".encode(), b"\n", b"a.", "aé".encode(), b"[", b'"a",', b"\\n")
