"""Formats, against the official suite, the standard library, and arithmetic."""

from __future__ import annotations

import calendar
import ipaddress
import json
import random
import re
from typing import Any

import pytest
from support import suite
from support.engines import accepts as engine_accepts
from support.engines import matcher
from support.schemas import takes

from stackmask.pda.automata import language
from stackmask.pda.grammar import JSON, JSON_ANY, UTF8, Grammar, GrammarBuilder
from stackmask.pda.reference import KernelGrammar, Matcher, TokenTrie
from stackmask.pda.regex import regex_dfa
from stackmask.schema.formats import NAMES, PATTERNS, format_accepts, format_dfa, format_lengths, format_longest, format_node
from stackmask.schema.formats.hostname import hostname_dfa
from stackmask.schema.formats.regex_syntax import DEPTH
from stackmask.schema.formats.rfc import approximations
from stackmask.schema.formats.tables import TABLES
from stackmask.schema.formats.tables_generate import encoded
from stackmask.schema.json_schema import json_schema_grammar

REGULAR = sorted(NAMES - {"regex", "idn-hostname"})


def accepts(name: str, text: str) -> bool:
    """Whether the automaton of a format accepts a text."""
    automaton = format_dfa(name)
    assert automaton is not None
    longest = format_longest(name)
    return language.accepts(automaton, text) and (longest < 0 or len(text) <= longest)


def grammar(name: str, encoding: int = UTF8) -> Grammar:
    """The grammar of a format's node."""
    builder = GrammarBuilder()
    root = builder.rule("root")
    node = format_node(builder, name, encoding)
    assert node is not None
    builder.define(root, node)
    return builder.build(root)


class Engine:
    """The reference engine over single bytes."""

    def __init__(self, name: str) -> None:
        trie = TokenTrie([bytes([byte]) for byte in range(256)] + [None], 257)
        self.kernel = KernelGrammar(trie, grammar(name), states=2_000_000, stack_depth=100_000, memory=1 << 28, seconds=30)

    def accepts(self, text: str) -> bool:
        """Whether the whole text is taken."""
        matcher = Matcher(self.kernel, [256])
        return matcher.accept_bytes(text.encode()) and matcher.is_completed()


@pytest.mark.parametrize("name", PATTERNS)
def test_tables_are_current(name: str) -> None:
    """formats/tables.py holds the automata of the patterns."""
    automaton = regex_dfa(PATTERNS[name], search=False)
    assert encoded(automaton) == TABLES[name]
    assert format_dfa(name) in (automaton, None)


@pytest.mark.skipif(not suite.ARCHIVE.exists(), reason="the official suite is not at hand")
@pytest.mark.parametrize("draft", ["draft7", "2019-09", "2020-12"])
def test_official_suite(draft: str) -> None:
    """The official tests of every format, on automata; the only ones missed are host names with encoded labels, which are refused."""
    patterns = {name: re.compile(pattern, re.DOTALL) for name, pattern in PATTERNS.items()}
    count = 0
    for case in suite.cases(draft, "optional/format"):
        name = case.schema.get("format")
        if name not in REGULAR or not isinstance(case.instance, str):
            continue
        count += 1
        if name in patterns:
            assert (patterns[name].fullmatch(case.instance) is not None) == case.valid, case.name
        found = accepts(name, case.instance)
        if found != case.valid:
            assert not found, case.name
            assert name == "hostname", case.name
            assert "xn--" in case.instance, case.name
    assert count > 200


@pytest.mark.parametrize("name", ["date-time", "time", "hostname", "email", "uuid"])
def test_nodes_and_automata_agree(name: str) -> None:
    """The node that a grammar gets is the language of the automaton, on its own texts and on texts one edit away."""
    engine = Engine(name)
    source = random.Random(3)
    automaton = format_dfa(name)
    assert automaton is not None
    for _ in range(30):
        text = language.sample(automaton, source, mean_length=12)
        assert text is not None
        for candidate in (text, edited(text, source)):
            assert engine.accepts(candidate) == language.accepts(automaton, candidate), candidate


def edited(text: str, source: random.Random) -> str:
    """The text with one character left out, doubled or exchanged."""
    place = source.randrange(len(text))
    return text[:place] + source.choice(["", text[place] * 2, source.choice("0123456789-:.+Zax@")]) + text[place + 1 :]


def test_every_date() -> None:
    """Every month of a few years has the days it has."""
    for year in (0, 4, 1900, 1999, 2000, 2023, 2024, 2100, 2400, 9999):
        leap = calendar.isleap(year)
        for month in range(1, 13):
            last = 29 if month == 2 and leap else calendar.mdays[month]
            for day in range(33):
                assert accepts("date", f"{year:04}-{month:02}-{day:02}") == (1 <= day <= last)


def test_leap_seconds() -> None:
    """A leap second is 23:59:60 in UTC, at every offset of whole quarters of an hour."""
    engine = Engine("time")
    source = random.Random(4)
    for _ in range(300):
        sign = source.choice([1, -1])
        offset = source.choice([0, 15, 30, 45]) + 60 * source.randrange(24)
        local = (23 * 60 + 59 + sign * offset + source.choice([0, 0, 1, 60, 30])) % 1440
        text = f"{local // 60:02}:{local % 60:02}:60{source.choice(['', '.5'])}{'+' if sign > 0 else '-'}{offset // 60:02}:{offset % 60:02}"
        right = (local - sign * offset) % 1440 == 23 * 60 + 59
        assert accepts("time", text) == right, text
        assert engine.accepts(text) == right, text


def test_ip_addresses() -> None:
    """Addresses against the standard library."""
    source = random.Random(5)
    for _ in range(3000):
        parts = [source.choice(["", "0", "1", "ab", "FFFF", "12345", "1.2.3.4"]) for _ in range(source.randint(1, 9))]
        text = source.choice([":", "::"]).join(parts) if source.random() < 0.3 else ":".join(parts)
        try:
            ipaddress.IPv6Address(text)
            right = True
        except ValueError:
            right = False
        assert accepts("ipv6", text) == right, text
    for text, right in [("0.0.0.0", True), ("255.255.255.255", True), ("256.1.1.1", False), ("01.1.1.1", False), ("1.1.1", False)]:
        assert accepts("ipv4", text) == right


def test_host_names() -> None:
    """Labels and names keep their bounds."""
    automaton = hostname_dfa()
    engine = Engine("hostname")
    limits = {
        "a" * 63: True,
        "a" * 64: False,
        ".".join(["a" * 63] * 3 + ["b" * 61]): True,
        ".".join(["a" * 63] * 3 + ["b" * 62]): False,
        ".".join("a" * 127): True,
        ".".join("a" * 128): False,
    }
    for text, right in limits.items():
        assert (language.accepts(automaton, text) and len(text) <= 253) == right
        assert engine.accepts(text) == right
    source = random.Random(6)
    for _ in range(40):
        labels = []
        while sum(map(len, labels)) + len(labels) < 240:
            labels.append("".join(source.choices("ab1xn-", k=source.randint(1, source.choice([4, 24])))))
        text = ".".join(labels)[: source.randint(1, 253)]
        assert engine.accepts(text) == language.accepts(automaton, text), text


def test_international_host_names() -> None:
    """Every name that is taken, of random ones near the rules, is one that the `idna` package can encode."""
    idna = pytest.importorskip("idna")
    engine = Engine("idn-hostname")
    source = random.Random(7)
    signs = "al-1\u200d\u200c\u00b7\u0375\u05f3\u05d0\u30fb\u3041\u0660\u06f0\u0915\u094d\u0628\u03b1"
    blocks = [0xE0, 0x390, 0x430, 0x5D0, 0x620, 0x900, 0xE00, 0x3040, 0x4E00, 0xAC00]
    taken = 0
    for _ in range(1500):
        block = source.choice(blocks)
        size = source.randint(1, source.choice([4, 8, 19]))
        text = "".join(chr(block + source.randrange(48)) if source.random() < 0.7 else source.choice(signs) for _ in range(size))
        text += source.choice(["", "", ".com", ".1a", ".\u05d0", ".x-y"])
        if engine.accepts(text):
            taken += 1
            idna.encode(text)
    assert taken > 100


REGEXES = {
    True: (
        r"a ^a$ ([abc])+\s+$ [] [^] \cA (?<n>a)\k<n> (?<=a+)b a{2,5}? a{12,12} a{3,} a{100,1000} [a-z] [-a] [a-] [a-z-9] [\d-] [\w.-]+",
        r"\u{1F600} \p{L} \p{Script=Greek} (?:a|b)* [\x00-\x1f] \0 \0a a| (|a) é+ [а-я] ^\d{3}-\d{4}$ [^\]] [--/] \0+1 (?!a)b [\0-\x1f] \-",
    ),
    False: (
        r"^(abc] ( a{5,2} a{12,11} *a a** [z-a] [a \a (?P<n>a) (?i)a \01 \ a{2 [\d-x] \u{110000} (?#c)a x{,5} \Z a) {1} \1 (?=a)*",
        r"\x1 ]",
    ),
}


def test_regex_syntax() -> None:
    """The syntax of regular expressions, brackets at any depth."""
    engine = Engine("regex")
    for right, lines in REGEXES.items():
        for pattern in " ".join(lines).split():
            assert engine.accepts(pattern) == right, pattern
    assert engine.accepts("")
    assert engine.accepts("(" * 60 + "a" + ")*" * 60)
    assert not engine.accepts("(" * 60 + "a" + ")*" * 59)


@pytest.mark.skipif(not suite.ARCHIVE.exists(), reason="the official suite is not at hand")
@pytest.mark.parametrize("draft", ["draft7", "2020-12"])
def test_regex_suite(draft: str) -> None:
    """The official tests of the format `regex`."""
    engine = Engine("regex")
    for part in ("optional", "optional/format"):
        for case in suite.cases(draft, part):
            if isinstance(case.schema, dict) and case.schema.get("format") == "regex" and isinstance(case.instance, str):
                assert engine.accepts(case.instance) == case.valid, case.name


def test_unknown_formats() -> None:
    """An unknown format has neither node nor automaton."""
    assert format_dfa("color") is None
    assert format_dfa("common-time") is None
    assert format_node(GrammarBuilder(), "color") is None
    assert format_dfa("regex") is None
    assert all(format_dfa(name) for name in REGULAR)


def test_lengths() -> None:
    """The lengths of a format's texts."""
    assert format_lengths("date") == (10, 10)
    assert format_lengths("hostname") == (1, 253)
    assert format_lengths("json-pointer") == (0, None)
    assert format_lengths("regex") == (0, None)


@pytest.mark.parametrize("encoding", [UTF8, JSON, JSON_ANY])
def test_encodings(encoding: int) -> None:
    """Formats are written in every encoding: inside JSON a backslash is doubled, and with JSON_ANY any character may be an escape."""
    trie = TokenTrie([bytes([byte]) for byte in range(256)] + [None], 257)
    chosen = {"time": "23:59:60Z", "email": '"a b"@c.d'} | ({"regex": "(\\b)"} if encoding != JSON_ANY else {})
    for name, text in chosen.items():
        kernel = KernelGrammar(trie, grammar(name, encoding), states=2_000_000, stack_depth=100_000, memory=1 << 28, seconds=30)
        written = {
            UTF8: [text],
            JSON: [json.dumps(text)[1:-1]],
            JSON_ANY: [json.dumps(text)[1:-1], "".join(f"\\u{ord(character):04x}" for character in text)],
        }
        for spelling in written[encoding]:
            matcher = Matcher(kernel, [256])
            assert matcher.accept_bytes(spelling.encode()), spelling
            assert matcher.is_completed(), spelling


def test_words_with_formats_that_are_grammars(kernel: Any) -> None:
    """Of a list of words a format that has no automaton keeps those that have it, and `not` the others."""
    for schema, expected in (
        ({"enum": ["^a$", "(", 1], "format": "regex"}, ["^a$", 1]),
        ({"enum": ["^a$", "("], "not": {"format": "regex"}}, ["("]),
        ({"enum": ["a.b", "-", "b\u00fccher"], "format": "idn-hostname"}, ["a.b", "b\u00fccher"]),
    ):
        start = matcher(kernel, json_schema_grammar(schema)[0])
        words = [value for value in schema["enum"] if engine_accepts(start, json.dumps(value, ensure_ascii=False).encode())]
        assert words == expected


def nesting(pattern: str) -> int:
    """How deep the brackets of a pattern of plain pieces are nested."""
    depth = most = 0
    for piece in re.findall(r"\\.|\[[^]]*\]|[()]", pattern):
        depth += (piece == "(") - (piece == ")")
        most = max(most, depth)
    return most


def test_regex_automata() -> None:
    """The automata of `regex` agree with its grammar up to their depth, and what is nested deeper is in the second of them alone."""
    found = approximations("regex")
    assert found is not None
    within, beyond, either = found
    source = random.Random(6)
    groups = "( ) (?: (?= (?! (?<= (?<n> (?< (? a | * +? {2,5} {5,2} {2, [a-c] [c-a] [(] ]"
    pieces = [
        *groups.split(" "),
        "^",
        "$",
        r"\b",
        r"\d",
        r"\0",
        "7",
        r"\k<n>",
        r"\p{L}",
        r"\(",
        r"\x4",
        r"\cA",
        "-",
        "?",
        "é",
        "\U0010ffff",
    ]
    taken = 0
    for _ in range(4_000):
        text = "".join(source.choice(pieces) for _ in range(source.randrange(1, 8)))
        for _ in range(source.randrange(3)):
            text = source.choice(["({})", "(?:{})?", "(?={})", "x(?<n1>{})", "(?<!{})b"]).format(text)
        valid, deep = format_accepts("regex", text), nesting(text) > DEPTH
        taken += valid
        assert language.accepts(within, text) == (valid and not deep), text
        assert language.accepts(beyond, text) <= deep, text
        assert language.accepts(either, text) == (language.accepts(within, text) or language.accepts(beyond, text)), text
        assert not valid or language.accepts(either, text), text
    assert taken > 300


def test_regex_meets_other_constraints(kernel: Any) -> None:
    """The format `regex` can be negated, and meet patterns, lengths and other branches."""
    for schema, right, wrong in (
        ({"format": "regex", "pattern": "^/.+/$"}, ["/a/", "/(a|b)*/"], ["/a", "/(/", "//"]),
        ({"format": "regex", "maxLength": 3}, ["a", "(a)", ""], ["(a", "(ab)"]),
        ({"not": {"format": "regex"}}, ["(", "a**", "[b-a]"], ["a", "(a)", "", "((((a))))"]),
        ({"oneOf": [{"format": "regex"}, {"minLength": 4}]}, ["a", "a**b"], ["(", "(ab)"]),
        ({"format": "regex", "enum": ["(", "a"]}, ["a"], ["("]),
    ):
        start = matcher(kernel, json_schema_grammar({"type": "string", **schema})[0])
        for text in right + wrong:
            assert engine_accepts(start, json.dumps(text).encode()) == (text in right), (schema, text)
    keys = {"type": "object", "propertyNames": {"format": "regex"}, "additionalProperties": {"type": "integer"}}
    for schema, right, wrong in (
        (keys, [{}, {"^a$": 1, "(b)": 2}], [{"(": 1}, {"a": "x"}]),
        ({"type": "object", "not": keys}, [{"(": 1}, {"a": "x"}], [{}, {"^a$": 1}, {"((((a))))": 1}]),
    ):
        for order in ("schema", "any"):
            start = matcher(kernel, json_schema_grammar(schema, property_order=order)[0])
            for value in right + wrong:
                assert engine_accepts(start, json.dumps(value).encode()) == (value in right), (schema, value)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("uri", suite.METASCHEMAS.values())
def test_metaschemas(kernel: Any, uri: str, order: str) -> None:
    """Every metaschema compiles, and takes the schemas that it describes."""
    start = matcher(kernel, json_schema_grammar({"$ref": uri}, property_order=order)[0])
    right: tuple[Any, ...] = (
        {},
        {"type": "string", "pattern": "^a(b|c)*$"},
        {"properties": {"a": {"enum": [1, {}]}}},
        {"patternProperties": {"^(a)$": {}}},
    )
    for schema in right:
        assert takes(start, schema), schema
    wrong: tuple[Any, ...] = (
        {"type": "strin"},
        {"pattern": "(a"},
        {"properties": {"a": {"minLength": -1}}},
        {"patternProperties": {"a(": {}}},
        {"allOf": []},
    )
    for schema in wrong:
        if "draft-04" not in uri or "a(" not in str(schema):
            assert not takes(start, schema), schema
