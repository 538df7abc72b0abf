"""DISTINCT, exhaustively: arrays of values from small sets against a comparison of exact JSON values."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from decimal import Decimal
from itertools import permutations, product
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from support.engines import BYTES, STOP, Engine, accepts, load_engine, matcher, one_rule, prepare

from stackmask.pda.automata.dfa import from_strings
from stackmask.pda.exceptions import GrammarError, UnsatisfiableError
from stackmask.pda.grammar import JSON, RAW, UTF8, Grammar, GrammarBuilder, NodeId
from stackmask.pda.regex import regex_dfa
from stackmask.schema.json_schema import json_schema_grammar

Value = Any


def exact(text: str) -> Value:
    """A JSON value whose comparison is exact: numbers as fractions of integers, and no number equal to a word."""

    def mark(value: Value) -> Value:
        if isinstance(value, bool | str) or value is None:
            return (type(value).__name__, value)
        if isinstance(value, Decimal):
            return ("number", value.as_integer_ratio())
        if isinstance(value, list):
            return ("array", tuple(map(mark, value)))
        return ("object", frozenset((key, mark(part)) for key, part in value.items()))

    return mark(json.loads(text, parse_float=Decimal, parse_int=Decimal))


def array_of(words: tuple[str, ...], *, digits: bool, blanks: bool) -> Grammar:
    """An array of different values: some of the words, and numbers where `digits`; blanks where `blanks`."""
    b = GrammarBuilder()
    blank = b.repeat(b.literal(b" ")) if blanks else b.empty()
    options = [b.literal(word.encode()) for word in words]
    options += [b.repeat(b.bytes((0x30, 0x39)), 1, -1)] if digits else []
    item = b.seq(blank, b.distinct(b.alt(*options)), blank)
    return one_rule(b, b.scope(b.seq(b.literal(b"["), b.optional(b.seq(item, b.repeat(b.seq(b.literal(b","), item)))), b.literal(b"]"))))


SPELLINGS = (
    ("1", "1.0", "10e-1", "0.1e1", "1e0"),
    ("0", "-0", "0.0", "0e5"),
    ("true", "1"),
    ("false", "0", "null", '""', "[]", "{}"),
    ('"a"', '"\\u0061"', '"b"', '"\\u0062"'),
    ('"\\ud83d\\ude00"', '"😀"', '"\\ud83d"'),
    ('"日"', '"\\u65e5"', '"\\u65a5"', '"é"', '"\\u00e9"', '"\\u0669"', '"٩"'),
    ('"/"', '"\\/"', '"\\u002f"', '"\\\\/"'),
    ("[1,2]", "[2,1]", "[ 1.0, 2 ]", "[[1,2]]"),
    ('{"a":1,"b":2}', '{"b":2,"a":1}', '{"a":1,"b":2.0}', '{"a":2,"b":1}', '{"a":1}'),
    ('{"a":{"x":[1,{"y":0}],"z":null}}', '{"a":{"z":null,"x":[1e0,{"y":-0}]}}'),
    ("9007199254740992", "9007199254740993", "9007199254740993.0", "9.007199254740993e15"),
    ("1e400", "10e399", "1e401"),
    ("1e-400", "0", "10E-401"),
    ("1" + "0" * 30, "1e30", "1e+30", "1E030"),
    ("0.1", "0.10000000000000001", "1e-1"),
    ("1e99999999999999999999", "10e99999999999999999998", "1e99999999999999999998"),
)


@pytest.mark.parametrize("words", SPELLINGS, ids=lambda words: " ".join(words)[:40])
def test_equal_values(engine: Engine, words: tuple[str, ...]) -> None:
    """Two texts exclude each other exactly if they are the same value."""
    start = matcher(engine, array_of(words, digits=False, blanks=True))
    for first, second in product(words, repeat=2):
        if "999999" in first + second and first != second:
            is_equal = ("99999999999999999999" in first and "10e" in second) or ("10e" in first and "99999999999999999999" in second)
        else:
            is_equal = first == second or exact(first) == exact(second)
        assert accepts(start, f"[{first}, {second} ]".encode()) != is_equal, (first, second)


WORDS = (("1", "12", "2"), ("true", "truth", "t"), ("a", "ab", "abc"), ("12", "1.0", "1"), ('"x"', '"\\u0078"', '"y"'), ("null",))


@pytest.mark.parametrize("blanks", [False, True])
@pytest.mark.parametrize("digits", [False, True])
@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[-1])
def test_dead_ends(engine: Engine, words: tuple[str, ...], *, digits: bool, blanks: bool) -> None:
    """A byte is allowed exactly if the value it is part of can still become one not seen; with nothing left there is no comma."""
    at = matcher(engine, array_of(words, digits=digits, blanks=blanks))

    def value(word: str) -> Value:
        try:
            return exact(word)
        except ValueError:
            return ("text", word)

    def can_become_new(begun: str, seen: frozenset[Value]) -> bool:
        if digits and all(letter in "0123456789" for letter in begun):
            return True
        return any(word.startswith(begun) and value(word) not in seen for word in words)

    def is_whole(item: str) -> bool:
        return item in words or (digits and item.isdecimal())

    def check(text: str, begun: str | None, seen: frozenset[Value]) -> None:
        """`begun` is the item so far, None after its blanks."""
        after: dict[str, tuple[str | None, frozenset[Value]]] = {}
        for letter in sorted({letter for word in words for letter in word} | set("019" if digits else "")):
            if begun is not None and can_become_new(begun + letter, seen):
                after[letter] = (begun + letter, seen)
        is_end = begun is None or (is_whole(begun) and value(begun) not in seen)
        now = seen | {value(begun)} if begun and is_end else seen
        if is_end and can_become_new("", now):
            after[","] = ("", now)
        if is_end or text == "[":
            after["]"] = (None, now)
        if blanks and (is_end or begun == ""):
            after[" "] = ("" if begun == "" else None, now)
        found = {chr(token) for token in at.allowed_tokens() if token != STOP}
        assert found - set("2345678") | (found & set(after)) == set(after), text
        if len(text) < (5 if digits or blanks else 8) and text.count(" ") < 2:
            for letter, (item, more) in after.items():
                if letter != "]":
                    assert at.accept_token(ord(letter))
                    check(text + letter, item, more)
                    at.rollback(1)

    assert at.accept_bytes(b"[")
    check("[", "", frozenset())


SPELLED = (
    {"ab": ("ab",), "abc": ("abc",), "b": ("b",), "": ("",)},
    {"a/b": ("a/b", "a\\/b"), "a/": ("a/", "a\\/"), "x": ("x",)},
    {"a/b/": ("a/b/", "a\\/b/", "a\\/b\\/"), "a": ("a",)},
    {"//": ("//", "/\\/", "\\//", "\\/\\/"), "/": ("/",), "a": ("a", "\\u0061")},
    {" ": (" ", "\\u0020"), "a": ("a",), "a ": ("a ", "a\\u0020")},
    {"one": ("one",), "only": ("only",), "two": ("two",), "tower": ("tower",)},
)


@pytest.mark.parametrize("spelled", SPELLED, ids=lambda spelled: " ".join(spelled)[:40])
def test_tokens_of_several_values(engine: Engine, spelled: dict[str, tuple[str, ...]]) -> None:
    """Tokens that end values, begin them and hold them whole are allowed exactly if some array of different values goes on with them."""
    arrays = ["[]"]
    for count in range(1, len(spelled) + 1):
        for values in permutations(spelled, count):
            arrays += ["[" + ",".join(f'"{word}"' for word in words) + "]" for words in product(*(spelled[value] for value in values))]
    begun = {array[:end] for array in arrays for end in range(len(array) + 1)}
    random = Random(5)
    pieces = {array[start : start + length] for array in arrays for start in range(len(array)) for length in (1, 2, 3, 5, 8)}
    tokens = sorted({*random.sample(sorted(pieces), min(len(pieces), 150)), *"".join(arrays)})
    start = matcher(
        engine,
        array_of(tuple(f'"{word}"' for words in spelled.values() for word in words), digits=False, blanks=False),
        [t.encode() for t in tokens],
        (),
    )
    for text in random.sample(sorted(begun), min(len(begun), 300 if engine is load_engine("kernel") else 60)):
        here = start.fork()
        assert here.accept_bytes(text.encode()), text
        while allowed := here.allowed_tokens():
            assert {tokens[token] for token in allowed} == {token for token in tokens if text + token in begun}, text
            token = random.choice(allowed)
            assert here.accept_token(token)
            text += tokens[token]
        assert text in arrays


def objects(blank: Callable[[GrammarBuilder], NodeId], *, any_order: bool) -> Grammar:
    """An array of different objects, of which there are nine, and strings; blanks wherever JSON has them."""
    b = GrammarBuilder()
    gap = blank(b)
    value = b.alt(b.literal(b"1"), b.literal(b"2"))
    members = [b.seq(gap, b.literal(key), gap, b.literal(b":"), gap, value, gap) for key in (b'"a"', b'"b"')]
    if any_order:
        body = b.permute((members[0], 0, members[1], 0), b.literal(b","))
    else:
        body = b.alt(*members, b.seq(members[0], b.literal(b","), members[1]), b.empty())
    string = b.seq(b.literal(b'"'), b.repeat(b.bytes((32, 32, 97, 99))), b.literal(b'"'))
    item = b.seq(gap, b.distinct(b.alt(b.seq(b.literal(b"{"), body, b.literal(b"}")), string)), gap)
    return one_rule(b, b.scope(b.seq(b.literal(b"["), item, b.repeat(b.seq(b.literal(b","), item)), b.literal(b"]"))))


GAPS: dict[str, Callable[[GrammarBuilder], NodeId]] = {
    "none": lambda b: b.empty(),
    "to 2": lambda b: b.repeat(b.bytes((10, 10, 32, 32)), 0, 2),
    "to 40": lambda b: b.repeat(b.bytes((9, 10, 13, 13, 32, 32)), 0, 40),
    "any number": lambda b: b.repeat(b.literal(b" ")),
    "one": lambda b: b.literal(b" "),
}
NINE = [{key: value for key, value in (("a", a), ("b", b)) if value} for a in (0, 1, 2) for b in (0, 1, 2)]


@pytest.mark.parametrize("any_order", [False, True])
@pytest.mark.parametrize("gap", GAPS)
def test_blanks_and_orders_make_no_new_value(engine: Engine, gap: str, *, any_order: bool) -> None:
    """Where all objects but one have been seen, an object can only become that one, however it is written; then none is begun."""
    blank = " " if gap == "one" else ""
    start = matcher(engine, objects(GAPS[gap], any_order=any_order))

    def text(value: dict[str, int]) -> str:
        members = (f"{blank}{json.dumps(key)}{blank}:{blank}{member}{blank}" for key, member in value.items())
        return f"{blank}{{{','.join(members)}}}{blank}"

    assert start.accept_bytes(("[" + ",".join(map(text, NINE[:-1])) + f",{blank}").encode())
    here = start.fork()
    assert here.accept_bytes(f'{{{blank}"b"{blank}:{blank}'.encode()) == any_order
    here = start.fork()
    assert here.accept_bytes(f'{{{blank}"a"{blank}:{blank}'.encode())
    assert here.next_bytes().strip() == b"2"
    assert here.accept_bytes(f'2{blank},{blank}"b"{blank}:{blank}'.encode())
    assert here.next_bytes().strip() == b"2"
    assert here.accept_bytes(f"2{blank}}}{blank},{blank}".encode())
    assert here.next_bytes().strip() == b'"'
    assert not here.fork().accept_bytes(b"{")
    assert here.accept_bytes(f'"a a"{blank},{blank}"a'.encode())
    assert here.next_bytes() == b' "abc'


@pytest.mark.parametrize("zeros", [1, 60, 200, 3000])
def test_one_value_of_many_spellings(engine: Engine, zeros: int) -> None:
    """Zeros make texts, not values: behind the one value of a list that must differ nothing comes, however many spellings it has."""
    builder = GrammarBuilder()
    value = builder.distinct(builder.seq(builder.literal(b"1.0"), builder.repeat(builder.literal(b"0"), 0, zeros)))
    more = builder.repeat(builder.seq(builder.literal(b","), value))
    array = builder.scope(builder.seq(builder.literal(b"["), value, more, builder.literal(b"]")))
    tokens = [b",", b"1", b".", b"0", b"]", b"[", b",1", b"0,", b"0]"]
    here = engine.Matcher(prepare(engine, one_rule(builder, array), tokens, step_work=20_000_000), [])
    assert here.accept_bytes(b"[1.0")
    assert here.allowed_tokens() == [3, 4, 8]


def test_values_seen_are_forgotten() -> None:
    """A grammar that serves request after request keeps only what its matchers hold: frames, counters and the values they have seen."""
    builder = GrammarBuilder()
    letters = builder.seq(builder.literal(b'"'), builder.repeat(builder.bytes((97, 122)), 1, -1), builder.literal(b'"'))
    item = builder.distinct(letters)
    more = builder.repeat(builder.seq(builder.literal(b","), item))
    array = builder.scope(builder.seq(builder.literal(b"["), item, more, builder.literal(b"]")))
    prepared = prepare(load_engine("kernel"), one_rule(builder, array), states=20_000, memory=1 << 20)
    random = Random(3)
    held = load_engine("kernel").Matcher(prepared, [STOP])
    assert held.accept_bytes(b'["kept","also"')
    sizes = []
    for _ in range(400):
        words = ["".join(random.choice("abcdefghij") for _ in range(8)) for _ in range(20)]
        at = load_engine("kernel").Matcher(prepared, [STOP])
        assert at.accept_bytes(("[" + ",".join(f'"{word}"' for word in dict.fromkeys(words))).encode())
        assert not at.accept_bytes(f',"{words[0]}",'.encode())
        at.allowed_tokens()
        sizes.append(prepared.memory)
    assert prepared.statistics["reclaims"] > 3
    assert max(sizes) < 16 << 20
    assert not held.accept_bytes(b',"kept",')
    assert held.accept_bytes(b',"other"]')


OPERANDS = (("0",), ("0", "1"), ("1", "10", "2"), ("0", "0.0", "3"), ("[]", "[0]"), ("true", "0"), ('"a"', '"ab"'), ('"a/"', '"a\\/"', "0"))


def places(kinds: tuple[tuple[str, ...], ...], gap: bytes) -> Grammar:
    """An array of different values of these kinds, one behind the other, any number of the last one; more gaps than one byte."""
    b = GrammarBuilder()
    of = [b.distinct(b.alt(*(b.literal(word.encode()) for word in words))) for words in kinds]
    comma = b.seq(b.literal(b","), b.optional(b.literal(gap)))
    rest = [b.seq(comma, item) for item in of[1:]]
    return one_rule(b, b.scope(b.seq(b.literal(b"["), of[0], *rest, b.repeat(b.seq(comma, of[-1])), b.literal(b"]"))))


@pytest.mark.parametrize("seed", range(30))
def test_tokens_that_use_values_up(kernel: Engine, reference: Engine, seed: int) -> None:
    """A token that takes the last value that something behind it needs is in no mask, wherever it begins and ends."""
    random = Random(seed)
    kinds = tuple(random.choices(OPERANDS, k=random.randrange(2, 5)))
    gap = random.choice((b" ", b"\n  "))
    words = [random.choice(words) for _ in range(80) for words in kinds]
    text = "[" + ",".join(random.choice((word, gap.decode() + word, word + "]", "[" + word)) for word in words)
    pieces = {text[at : at + random.choice((2, 3, 4, 6, 9))] for at in range(0, len(text), 2)}
    tokens = sorted({*pieces, *text})
    grammar = places(kinds, gap)
    try:
        starts = [matcher(engine, grammar, [token.encode() for token in tokens], ()) for engine in (kernel, reference)]
    except UnsatisfiableError:
        return
    for _ in range(6):
        at, told = (start.fork() for start in starts)
        while allowed := at.allowed_tokens():
            assert allowed == [token for token in range(len(tokens)) if at.validate_tokens([token])]
            assert allowed == told.allowed_tokens()
            token = random.choice(allowed)
            assert at.accept_token(token)
            assert told.accept_token(token)
            if at.num_accepted > 8:
                break


PARTS: dict[str, tuple[dict[str, Any], tuple[str, ...], int]] = {
    "lists of objects": (
        {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": {"d": {"const": 1}}, "additionalProperties": False}},
        ("[]", *(f"[{a}]" for a in ("{}", '{"d":1}')), *(f"[{a},{b}]" for a, b in product(("{}", '{"d":1}'), repeat=2))),
        4,
    ),
    "lists of different values": (
        {"type": "array", "maxItems": 2, "uniqueItems": True, "items": {"enum": [1, 2, "a"]}},
        ("[]", "[1]", "[2]", '["a"]', *(f"[{a},{b}]" for a, b in permutations(("1", "2", '"a"'), 2))),
        3,
    ),
    "objects of objects": (
        {
            "type": "object",
            "properties": {"a": {"type": "object", "properties": {"b": {"type": "boolean"}}, "additionalProperties": False}},
            "required": ["a"],
            "additionalProperties": False,
        },
        tuple(f'{{"a":{inner}}}' for inner in ("{}", '{"b":true}', '{"b":false}')),
        4,
    ),
    "pairs behind endless strings": (
        {
            "type": "array",
            "minItems": 2,
            "prefixItems": [{"enum": ["a", "b"]}, {"type": "array", "maxItems": 1, "items": {"const": 0}}],
            "items": False,
        },
        tuple(f'["{a}",{b}]' for a, b in product("ab", ("[]", "[0]"))),
        4,
    ),
}
"""By name: the schema of an item, the texts of all its values, and how many items the list has at most."""


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_ends_where_no_value_is_left(engine: Engine, name: str) -> None:
    """A token that ends a part of a value, such as a member, is in no mask where what must follow completes values that were seen alone.

    The oracle is the list of all texts: each token is allowed if some text begins with what was read and it.
    """
    items, values, most = PARTS[name]
    texts = sorted("[" + ",".join(chosen) + "]" for count in range(most + 1) for chosen in permutations(values, count))
    schema = {"type": "array", "uniqueItems": True, "items": items, "maxItems": most}
    ends = ("}", "]", "}]", "},", "],", "]]", "}}", "],[", "},{", "[{}", ",{}")
    tokens = sorted({*ends, *(character for text in texts for character in text)})
    at = matcher(engine, json_schema_grammar(schema, whitespace="compact")[0], [*(token.encode() for token in tokens), None], [len(tokens)])

    def begins(text: str) -> bool:
        place = bisect_left(texts, text)
        return place < len(texts) and texts[place].startswith(text)

    for text in Random(1).sample(texts, min(len(texts), 6 if engine.__name__.endswith("reference") else 60)):
        now = at.fork()
        for place in range(len(text) + 1):
            allowed = [tokens[token] for token in now.allowed_tokens() if token < len(tokens)]
            assert allowed == [token for token in tokens if begins(text[:place] + token)], text[:place]
            assert place == len(text) or now.accept_token(tokens.index(text[place]))


@pytest.mark.parametrize("count", [1, 6, 13])
@pytest.mark.parametrize("whitespace", ["compact", "flexible", "[ ]{0,2}"])
@pytest.mark.parametrize("options", [{}, {"property_order": "any"}, {"escapes": "any"}], ids=str)
def test_the_search_for_a_new_value_is_exact(kernel: Engine, options: dict[str, str], whitespace: str, count: int) -> None:
    """An object of which there is one value is in no mask once it was seen, however many texts it has."""
    names = "abcdefghijklm"[:count]
    only = {"type": "object", "properties": {name: {"const": "one"} for name in names}, "required": [*names], "additionalProperties": False}
    schema = {"type": "array", "uniqueItems": True, "items": {"anyOf": [{"type": "string"}, only]}}
    at = matcher(kernel, json_schema_grammar(schema, whitespace=whitespace, **options)[0])
    item = ",".join(f'"{name}":"one"' for name in names)
    assert at.accept_bytes(f'["x",{{{item}'.encode())
    assert ord("}") in at.allowed_tokens()
    assert at.accept_bytes(b'},"y",')
    assert not {ord("{"), ord("}")} & set(at.allowed_tokens())
    assert ord('"') in at.allowed_tokens()


UNORDERED: tuple[tuple[dict[str, tuple[str, ...]], list[str], int, int], ...] = (
    ({"b": ("1",), "c": ("1",)}, ["b", "c"], 0, 9),
    ({"b": ("1", "2"), "c": ("1",)}, ["b"], 0, 9),
    ({"a": ("1",), "b": ("1",), "c": ("1",)}, [], 2, 2),
    ({"a": ("true", "false"), "b": ("1",), "c": ("1",)}, ["c"], 2, 9),
    ({"a": ("1",), "b": ('{"d":1}', "{}"), "c": ("1",)}, ["a"], 2, 3),
)
"""Objects of few values: the texts of each member's value, the members that are required, and the least and largest number of members."""


@pytest.mark.parametrize("number", range(len(UNORDERED)))
def test_objects_of_few_values_in_any_order(kernel: Engine, number: int) -> None:
    """Masks of lists of different objects whose members stand in any order, against the list of all texts."""
    members, required, least, most = UNORDERED[number]
    items = {
        "type": "object",
        "properties": {name: {"enum": [json.loads(value) for value in values]} for name, values in members.items()},
        "required": required,
        "minProperties": least,
        "maxProperties": most,
        "additionalProperties": False,
    }
    objects = [
        "{" + ",".join(f'"{name}":{value}' for name, value in zip(names, values, strict=True)) + "}"
        for count in range(least, min(most, len(members)) + 1)
        for names in permutations(members, count)
        if {*required} <= {*names}
        for values in product(*(members[name] for name in names))
    ]
    by_value: dict[Value, list[str]] = {}
    for text in objects:
        by_value.setdefault(exact(text), []).append(text)
    longest = 2 if len(by_value) > 4 else 3
    texts = sorted(
        "[" + ",".join(chosen) + "]"
        for count in range(longest + 1)
        for values in permutations(by_value, count)
        for chosen in product(*(by_value[value] for value in values))
    )
    schema = {"type": "array", "uniqueItems": True, "items": items, "maxItems": longest}
    at = matcher(kernel, json_schema_grammar(schema, whitespace="compact", property_order="any")[0])
    for text in Random(number).sample(texts, min(len(texts), 40)):
        now = at.fork()
        for place in range(len(text) + 1):
            expected = set()
            for byte in '{}[]:,"abcdtrufls12e':
                found = bisect_left(texts, text[:place] + byte)
                if found < len(texts) and texts[found].startswith(text[:place] + byte):
                    expected.add(ord(byte))
            assert {token for token in now.allowed_tokens() if token < 256} == expected, text[:place]
            assert place == len(text) or now.accept_token(ord(text[place]))


@pytest.mark.parametrize("count", [3, 11, 12, 40, 200])
def test_many_different_values_are_completed(kernel: Engine, count: int) -> None:
    """However many values must differ, the shortest completion takes the cheapest that are left: 0 to 9, then of two bytes, and so on."""
    b = GrammarBuilder()
    digits = b.repeat(b.bytes((0x30, 0x39)))
    value = b.distinct(b.alt(b.literal(b"0"), b.seq(b.optional(b.literal(b"-")), b.bytes((0x31, 0x39)), digits)))
    array = b.seq(b.literal(b"["), value, b.repeat(b.seq(b.literal(b","), value), count - 1), b.literal(b"]"))
    at = matcher(kernel, one_rule(b, b.seq(b.literal(b"<"), b.scope(array), b.literal(b">"))))
    numbers = sorted((str(number) for number in range(-99, 1000)), key=len)
    for begun in ([], ["7"], ["7", "-12", "300"], ["0", "1", "2", "300"]):
        left = [number for number in numbers if number not in begun][: max(count - len(begun), 0)]
        rest = f"{',' if begun and left else ''}{','.join(left)}]>"
        here = at.fork()
        assert here.accept_bytes(b"<[" + ",".join(begun).encode())
        assert kernel.completion_lengths([here]) == [len(rest)]
        assert accepts(here, here.shortest_completion())
        if begun[:1] == ["7"]:
            assert here.accept_bytes(b",7")  # which may not end here
            others = [number for number in numbers if number not in (*begun, "70")][: max(count - len(begun) - 1, 0)]
            assert kernel.completion_lengths([here]) == [len(",".join(["0", *others])) + len("]>")]
            assert accepts(here, here.shortest_completion())


@pytest.mark.parametrize("count", [3, 12, 40])
def test_many_different_values_of_scopes_to_come(kernel: Engine, count: int) -> None:
    """What scopes to come take for their values having to differ is measured as well: each list has the numbers that are cheapest."""
    b = GrammarBuilder()
    value = b.distinct(b.alt(b.literal(b"0"), b.seq(b.bytes((0x31, 0x39)), b.repeat(b.bytes((0x30, 0x39))))))
    numbers = b.seq(b.literal(b"["), value, b.repeat(b.seq(b.literal(b","), value), count - 1), b.literal(b"]"))
    at = matcher(kernel, one_rule(b, b.seq(b.literal(b"<"), b.repeat(b.scope(numbers), 4, 4), b.literal(b">"))))
    cheapest = ",".join(map(str, range(count)))
    for begun, rest in (
        ("", f"<{f'[{cheapest}]' * 4}>"),
        ("<[0,", f"{cheapest[2:]}]{f'[{cheapest}]' * 3}>"),
        (f"<[{cheapest}]", f"{f'[{cheapest}]' * 3}>"),
        (f"<[{cheapest}][{cheapest}][0,", f"{cheapest[2:]}][{cheapest}]>"),
    ):
        here = at.fork()
        assert here.accept_bytes(begun.encode())
        assert kernel.completion_lengths([here]) == [len(rest)]
        completion = here.shortest_completion()
        assert len(completion) == len(rest)
        assert accepts(here, completion)


def test_an_automaton_of_few_letters_runs_out(engine: Engine) -> None:
    """Words of one letter by an automaton that reads many letters, none of them twice, are as many as the letters."""
    b = GrammarBuilder()
    letter = b.automaton((((0x61, 0x64, 1),), ()), (False, True))
    value = b.distinct(b.seq(b.literal(b'"'), letter, b.literal(b'"')))
    array = b.seq(b.literal(b"["), value, b.repeat(b.seq(b.literal(b","), value)), b.literal(b"]"))
    tokens: list[bytes | None] = [*BYTES[:256], b',"', b'",', b'"]', None]
    at = matcher(engine, one_rule(b, b.scope(array)), tokens, (259,))
    for number, letters in enumerate("abcd"):
        assert at.accept_bytes((b',"' if number else b'["') + letters.encode())
        assert set(at.allowed_tokens()) == {ord('"'), 258} | ({257} if number < 3 else set())
        assert at.accept_bytes(b'"')
        assert set(at.allowed_tokens()) == {ord("]")} | ({ord(","), 256} if number < 3 else set())


@pytest.mark.parametrize(
    ("pattern", "texts"), [("1e0*5", ["1e05"]), ("1e0*[56]|7", ["1e5", "7", "1e006"]), ("-1e-0*[56]", ["-1e-06", "-1e-5"])]
)
def test_exponents_of_many_zeros_are_one_value(kernel: Engine, pattern: str, texts: list[str]) -> None:
    """Zeros before the digits of an exponent make no other number, so none is left once each number was seen."""
    numbers = regex_dfa(pattern, search=False)
    b = GrammarBuilder()
    value = b.distinct(b.automaton(numbers.transitions, numbers.accepting, RAW))
    at = matcher(kernel, one_rule(b, b.scope(b.seq(b.literal(b"["), value, b.repeat(b.seq(b.literal(b","), value)), b.literal(b"]")))))
    for number, text in enumerate(texts):
        assert at.accept_bytes((b"," if number else b"[") + text.encode())
        assert set(at.allowed_tokens()) == {ord("]")} | ({ord(",")} if text != texts[-1] else set())


@pytest.mark.parametrize("items", [{"type": "number"}, {}, {"type": "number", "minimum": 0}, {"type": ["number", "boolean"]}])
def test_exponents_of_zero(kernel: Engine, items: dict[str, Any]) -> None:
    """Behind zeros alone any exponent spells zero, so none begins in a number or a token where zero was seen."""
    grammar = json_schema_grammar({"type": "array", "uniqueItems": True, "items": items}, whitespace="compact")[0]
    tokens = [bytes(word) for length in (1, 2, 3, 4) for word in product(b"0e.,1-", repeat=length)]
    tokens += [b"[0e", b"[0.0E+", b"[0,0e", b"0E+0", b"e-12]", b"E", b"true,0e", b"-0.00e5,1"]
    start = matcher(kernel, grammar, tokens, ())
    for prefix in (b"", b"[", b"[0", b"[0,", b"[0,0", b"[0,0.0", b"[1,0", b"[0e5,1,0", b"[0.0,", b"[0.5,0.0", b"[10,1", b"[1,10"):
        at = start.fork()
        assert at.accept_bytes(prefix)
        assert at.allowed_tokens() == [token for token in range(len(tokens)) if at.fork().accept_token(token)], prefix


NUMBER: Final = {"type": "number"}
HOLDERS: Final[list[tuple[dict[str, Any], dict[str, str]]]] = [
    ({"type": "array", "items": NUMBER, "maxItems": 1}, {"[[0],[0": ".", "[[0],[0.0": "01", "[[0],[": "-0123456789]", "[[1],[0": ".eE]"}),
    ({"type": "array", "items": NUMBER, "maxItems": 2}, {"[[0],[0": ".eE,", "[[0],[0,0],[0,0": ".", "[[0],[0,0],[0,0.0e": ""}),
    (
        {"type": "object", "properties": {"a": NUMBER}, "required": ["a"], "additionalProperties": False},
        {'[{"a":0},{"a":0': ".", '[{"a":0},{"a":-0': ".", '[{"a":10},{"a":10': "0123456789.eE"},
    ),
    ({"type": "array", "items": {"type": "array", "items": NUMBER, "minItems": 1, "maxItems": 1}, "maxItems": 1}, {"[[[0]],[[0": "."}),
]


@pytest.mark.parametrize("number", range(len(HOLDERS)))
def test_zeros_inside_of_other_values(engine: Engine, number: int) -> None:
    """Where a value can differ from those before by this number alone, no exponent follows a zero that was seen."""
    items, places = HOLDERS[number]
    grammar = json_schema_grammar({"type": "array", "uniqueItems": True, "items": items}, whitespace="compact")[0]
    for text, follow in places.items():
        at = matcher(engine, grammar)
        if at.accept_bytes(text.encode()):
            assert {byte for byte in at.allowed_tokens() if chr(byte) in "-.eE,]}" or chr(byte) in follow} == set(follow.encode()), text
            assert at.fork().accept_bytes(at.shortest_completion())
        else:
            assert not follow


@pytest.mark.parametrize("number", range(len(HOLDERS)))
def test_tokens_with_zeros_inside_of_other_values(kernel: Engine, number: int) -> None:
    """The same of tokens that hold numbers, brackets and several values."""
    items, places = HOLDERS[number]
    grammar = json_schema_grammar({"type": "array", "uniqueItems": True, "items": items}, whitespace="compact")[0]
    tokens = [bytes(word) for length in (1, 2, 3, 4) for word in product(b"0e.,1]", repeat=length)]
    tokens += [b"[0e", b",[0e", b"[0.0E+", b"],[0e", b"E+0", b"e-12]", b'{"a":0e', b'":0e', b"[[0e", b',{"a":0.0e1}', b"0e1}", b"true,0e"]
    start = matcher(kernel, grammar, tokens, ())
    for text in {prefix[:end] for prefix in places for end in range(len(prefix) + 1)}:
        at = start.fork()
        if at.accept_bytes(text.encode()):
            assert at.allowed_tokens() == [token for token in range(len(tokens)) if at.fork().accept_token(token)], text


@pytest.mark.parametrize("backslash", ["literal", "bytes", "chars", "RAW", "UTF8", "RAW, two states"])
def test_escapes_however_their_backslash_is_read(engine: Engine, backslash: str) -> None:
    """A string is the one that was seen where an escape spells its letter, whichever operator reads the backslash."""
    b = GrammarBuilder()
    one, two = (((0x5C, 0x5C, 0),),), (((0x5C, 0x5C, 1),), ())
    ways = {
        "literal": lambda: b.literal(b"\\"),
        "bytes": lambda: b.bytes((0x5C, 0x5C)),
        "chars": lambda: b.chars((0x5C, 0x5C)),
        "RAW": lambda: b.automaton(one, (True,), RAW, minimum=1, maximum=1),
        "UTF8": lambda: b.automaton(one, (True,), UTF8, minimum=1, maximum=1),
        "RAW, two states": lambda: b.automaton(two, (False, True), RAW),
    }
    letter = b.alt(b.bytes((0x61, 0x7A)), b.seq(ways[backslash](), b.literal(b"u0061")))
    value = b.distinct(b.seq(b.literal(b'"'), b.repeat(letter), b.literal(b'"')))
    grammar = one_rule(b, b.scope(b.seq(b.literal(b"["), value, b.literal(b","), value, b.literal(b"]"))))
    tokens: list[bytes | None] = [b'["a",', b'["\\u0061",', b'"a"', b'"b"', b'"\\u0061"', b'"\\u0061"]', b'"b"]', None]
    for begun in (0, 1):
        at = matcher(engine, grammar, tokens, (7,))
        assert at.accept_token(begun)
        assert at.allowed_tokens() == [3, 6]


@pytest.mark.parametrize("whitespace", ["compact", "[ ]{0,40}", "flexible"])
def test_no_blanks_before_a_value_of_which_none_is_left(engine: Engine, whitespace: str) -> None:
    """Blanks that are a rule of their own, inside of items that are counted, are not begun where no new value can follow them."""
    item = {"type": "array", "items": {"enum": [0]}, "maxItems": 1}
    schema = {"type": "array", "items": item, "uniqueItems": True, "maxItems": 4}
    grammar = json_schema_grammar(schema, whitespace=whitespace)[0]
    at = matcher(engine, grammar, [b"[", b"[0],[]", b"[0],[],", b",", b"]", None], (5,))
    assert at.accept_token(0)
    assert at.allowed_tokens() == [0, 1, 4]
    assert at.accept_token(1)
    assert at.allowed_tokens() == [4]
    assert set(at.next_bytes()) <= set(b" \t\r\n]")


PIECES = (b" ", b"  ", b'"', b'",', b'"a"', b'"b"', b"a", b"b", b"ab", b",", b"]", b"\\u0061", b"\\", b"u006", b"1", b"2")


@pytest.mark.parametrize("lowest", [b"", b"\x00", b"\t", b'"', b"!"])
@pytest.mark.parametrize("blanks", ["inside", "before", "none"])
def test_strings_seen_behind_blanks(kernel: Engine, lowest: bytes, blanks: str) -> None:
    """A string that was seen is refused in every token that ends it, whatever stands before it and whichever token comes first."""
    b = GrammarBuilder()
    string = b.seq(b.literal(b'"'), b.repeat(b.chars((0x61, 0x63), JSON)), b.literal(b'"'))
    blank = b.repeat(b.literal(b" "))
    value = b.distinct(b.seq(blank, string) if blanks == "inside" else string)
    value = b.seq(blank, value) if blanks == "before" else value
    grammar = one_rule(b, b.scope(b.seq(b.literal(b"["), value, b.repeat(b.seq(b.literal(b","), value)), b.literal(b"]"))))
    joined = {one + two for one, two in product((b"", *PIECES), PIECES)} | {b' "a",', b',"a"', b', "a"', b'"a","b"', b' "a"]'}
    tokens = [*([lowest] if lowest else []), *sorted(joined - {lowest}), None]
    at = matcher(kernel, grammar, tokens, (len(tokens) - 1,))
    assert at.accept_bytes(b"[")
    for text in ('"a"', ",", ' "', "b", '"', ",", '"ab"', ","):
        assert at.accept_bytes(text.encode().lstrip() if blanks == "none" else text.encode())
        assert at.allowed_tokens() == [token for token in range(len(tokens)) if at.fork().accept_token(token)], text


WRITTEN = ("literals", "a graph", "an automaton of bytes", "an automaton of characters")
LANGUAGES: dict[str, tuple[str, ...]] = {
    "escapes": ('"a"', '"\\u0061"', '"\\u0062"', '"b"', '"c"'),
    "a range with the backslash": tuple(f'"{one}{two}"' for one in "WXYZ[\\" for two in "npq"),
    "numbers": ("1", "1.0", "10e-1", "12", "2.0", "2"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_values_are_the_same_however_they_are_written(kernel: Engine, reference: Engine, language: str) -> None:
    """As literals, graphs and automata the same texts make the same masks."""
    texts = LANGUAGES[language]
    letters = sorted({letter for text in texts for letter in text})
    tokens = [*(letter.encode() for letter in (*letters, "[", "]", ",")), *(text.encode() for text in texts)]
    tokens += [*(f",{text}".encode() for text in texts), *(f"{text},".encode() for text in texts), None]
    starts = []
    for written in WRITTEN:
        b = GrammarBuilder()
        if written == "literals":
            value = b.alt(*(b.literal(text.encode()) for text in texts))
        elif written == "a graph":
            edges: list[int] = []
            states = 2
            for text in texts:
                for place, letter in enumerate(text):
                    last = place + 1 == len(text)
                    edges += [states - 1 if place else 0, 1 if last else states, b.literal(letter.encode())]
                    states += not last
            value = b.graph(states, tuple(edges))
        else:
            automaton = from_strings(texts)
            value = b.automaton(automaton.transitions, automaton.accepting, RAW if "bytes" in written else UTF8)
        value = b.distinct(value)
        grammar = one_rule(b, b.scope(b.seq(b.literal(b"["), value, b.repeat(b.seq(b.literal(b","), value)), b.literal(b"]"))))
        starts += [matcher(engine, grammar, tokens, (len(tokens) - 1,)) for engine in (kernel, reference)]
    for order in ((0, 1, 2), (1, 0), (2, 3, 0), (-1, -2, -3)):
        forks = [start.fork() for start in starts]
        for number, index in enumerate(order):
            text = ("," if number else "[") + texts[index]
            results = {fork.accept_bytes(text.encode()) for fork in forks}
            assert len(results) == 1, text
            masks = [fork.allowed_tokens() for fork in forks]
            wrong = [WRITTEN[place // 2] for place, mask in enumerate(masks) if mask != masks[0]]
            assert not wrong, (texts[index], wrong)
            if results == {False}:
                break


@pytest.mark.parametrize("characters", ["#-~", "#-%'-~", "!#-~", "[-a", "\\\\a-u0-9"])
def test_escapes_among_other_characters(kernel: Engine, reference: Engine, characters: str) -> None:
    """Where the backslash is one character of many, texts that it makes escapes of are still the strings that they spell."""
    pattern = regex_dfa(f'"[{characters}]*"', search=False)
    inside = regex_dfa(f"[{characters}]", search=False).transitions[0]
    ranges = tuple(bound for lo, hi, _ in inside for bound in (lo, hi))
    pieces = ("a", "\\u0061", "au0061", "\\u", "0061", '"', '"a"', '"\\u0061"', ',"a', ',"\\u0061"', 'a","\\u0061"', "]", ",", "b")
    tokens = [*(piece.encode() for piece in pieces), b"[", None]
    for written in ("bytes", "characters", "an automaton of bytes", "an automaton of characters"):
        b = GrammarBuilder()
        if "automaton" in written:
            value = b.automaton(pattern.transitions, pattern.accepting, RAW if "bytes" in written else UTF8)
        else:
            value = b.repeat(b.bytes(ranges) if written == "bytes" else b.chars(ranges, UTF8))
            value = b.seq(b.literal(b'"'), value, b.literal(b'"'))
        value = b.distinct(value)
        grammar = one_rule(b, b.scope(b.seq(b.literal(b"["), value, b.repeat(b.seq(b.literal(b","), value)), b.literal(b"]"))))
        starts = [matcher(engine, grammar, tokens, (len(tokens) - 1,)) for engine in (kernel, reference)]
        for first in ("a", "\\u0061", "aa", "\\u0061a"):
            forks = [start.fork() for start in starts]
            for text in (f'["{first}"', ",", '"', "a"):
                if len({fork.accept_bytes(text.encode()) for fork in forks}) == 2:
                    pytest.fail(f"{written}: {first}, {text}")
                assert forks[0].allowed_tokens() == forks[1].allowed_tokens(), (written, first, text)


@pytest.mark.parametrize("count", [5, 60, 64, 70, 100, 126])
def test_one_value_in_many_spellings(engine: Engine, count: int) -> None:
    """1 and 1.0, 1.00 and so on are one value: once it was seen nothing is left."""
    b = GrammarBuilder()
    one = b.seq(b.literal(b"1"), b.optional(b.seq(b.literal(b"."), b.repeat(b.literal(b"0"), 1, count))))
    value = b.distinct(one)
    at = matcher(engine, one_rule(b, b.scope(b.seq(b.literal(b"["), value, b.optional(b.seq(b.literal(b","), value)), b.literal(b"]")))))
    assert at.next_bytes(b"[1") == b".]"
    assert at.next_bytes(b"[1.00") == b"0]"


MEMBERS = {
    "strings": ('{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}', False),
    "a string among others": ('{"properties": {"a": {"type": "string"}, "b": {"enum": [1]}}}', False),
    "no room for the string": (
        '{"properties": {"a": {"type": "string"}, "b": {"enum": [1, 2]}, "c": {"enum": [1]}}, "required": ["b", "c"], "maxProperties": 2}',
        True,
    ),
    "strings in counted items": ('{"properties": {"a": {"type": "array", "items": {"type": "string"}, "maxItems": 30}}}', False),
    "nothing but numbers": ('{"properties": {"a": {"enum": [1, 2]}, "b": {"enum": [3]}}}', True),
}


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_scopes_of_objects_run_out_only_without_strings(kernel: Engine, name: str, order: str) -> None:
    """A string among the members, whatever their order, leaves no end of values: then few tokens have to be tried."""
    text, runs_out = MEMBERS[name]
    items = {"type": "object", "additionalProperties": False, **json.loads(text)}
    schema = {"type": "array", "uniqueItems": True, "items": items}
    grammar = json_schema_grammar(schema, property_order=order, whitespace="compact")[0]
    pieces = ["[", "]", "{", "}", '"', ",", ":", "a", "b", "c", "1", "2", "3", '"a"', '"b":', '"c":1', ',"', '},{"', '":"', "},", "],["]
    tokens = [piece.encode() for piece in pieces]
    prepared = prepare(kernel, grammar, tokens)
    random = Random(name + order)
    for _ in range(12):
        at = kernel.Matcher(prepared, [])
        while (allowed := at.allowed_tokens()) and at.num_accepted < 24:
            assert allowed == [token for token in range(len(tokens)) if at.validate_tokens([token])]
            assert at.accept_token(random.choice(allowed))
            assert accepts(at, at.shortest_completion())
    prepared = prepare(kernel, grammar, tokens)
    at = kernel.Matcher(prepared, [])
    for byte in b'[{"':
        at.allowed_tokens()
        assert at.accept_bytes(bytes([byte]))
    assert (prepared.statistics["unverified"] > 0) == runs_out


@pytest.mark.parametrize("searched_states", [0, 5, 40, 1024])
@pytest.mark.parametrize("order", ["schema", "any"])
def test_repeated_characters_are_found_ahead_of_a_state_alone(kernel: Engine, order: str, searched_states: int) -> None:
    """However many states of a rule are searched for strings without an end, a mask holds the tokens that are accepted."""
    record = {"type": "object", "properties": {name: {"enum": [1, 2]} for name in "abc"}, "additionalProperties": False}
    text = {"type": "object", "properties": {"n": {"type": "string", "maxLength": 3}, "t": {"type": "string"}}, "required": ["n"]}
    tree: dict[str, Any] = {"type": "object", "properties": {"k": {"$ref": "#"}, "v": {"enum": [3]}}, "additionalProperties": False}
    schema = {"type": "array", "uniqueItems": True, "items": {"anyOf": [record, text, tree, {"enum": ["x", 7]}]}, "maxItems": 9}
    words = [
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '{"',
        '"a',
        '":',
        "1",
        "2",
        "1}",
        '"k":[',
        '"n":"',
        'ab"',
        'q"}',
        "},",
        '"x"',
        '"v":3',
        "]}",
        "},{",
        '7,"',
    ]
    tokens = [word.encode() for word in words]
    trie = kernel.TokenTrie([*tokens, None], len(tokens) + 1, thresholds={"searched_states": searched_states})
    grammar = json_schema_grammar(schema, whitespace="compact", property_order=order)[0]
    at = kernel.Matcher(kernel.KernelGrammar(trie, grammar, states=10**6, stack_depth=10**4, memory=1 << 26, seconds=30), [len(tokens)])
    for text_so_far in ("[", '[{"a":1}', ",", '{"', '"b":2', ",", '"n":"', 'ab"', '},{"k":[', '"x"', ',{"v":3}', "]}", ',"x"', ",7"):
        tried = [token for token in range(len(tokens)) if at.fork().accept_token(token)]
        assert [token for token in at.allowed_tokens() if token < len(tokens)] == tried
        at.accept_bytes(text_so_far.encode())


def test_a_large_rule_is_not_made_to_search_it(kernel: Engine) -> None:
    """Of a union of many objects, a value that must differ makes the states near its own text, and no others."""
    members = {f"o{i}": {"enum": [1, 2]} for i in range(40)}
    shapes = [{"properties": {f"k{n}": {"type": "string"}} | members, "required": [f"k{n}"]} for n in range(60)]
    union = [shape | {"type": "object", "additionalProperties": False} for shape in shapes]
    grammar = json_schema_grammar({"type": "array", "uniqueItems": True, "items": {"anyOf": union}}, whitespace="compact")[0]
    words = [b"[", b"{", b'"k', b'1":"', b"ab", b'"', b',"o', b'2":', b"1", b"}", b"},", b"]"]
    states = []
    for searched_states in (1024, 10**6):
        trie = kernel.TokenTrie([*words, None], len(words) + 1, thresholds={"searched_states": searched_states})
        prepared = kernel.KernelGrammar(trie, grammar, states=10**6, stack_depth=10**4, memory=1 << 28, seconds=30)
        at = kernel.Matcher(prepared, [len(words)])
        for piece in (b'[{"k1":"ab","o2":1}', b",{", b'"k1":"ab","o2":1'):
            assert at.accept_bytes(piece)
            at.allowed_tokens()
        assert not {words.index(b"}"), words.index(b"},")} & set(at.allowed_tokens())
        states.append(prepared.statistics["nfa_states"])
    assert states[0] * 2 < states[1]


def test_keys_of_few_characters_beside_any_order(kernel: Engine) -> None:
    """Where other parts may stand in any order, a key that any characters may end is new without a search: its texts are its values."""
    some = [{"not": {"patternProperties": {key: {"not": {"const": 1}}}}} for key in ("ab", "cd")]  # some key that holds it has the value
    schema = {"type": "object", "allOf": some, "propertyNames": {"pattern": "^...$"}, "maxProperties": 9}
    letters = "abcdefghij"
    tokens = [b'"', b":", b",", b"{", b"}", b"1", b"0", b'":1', *(letter.encode() for letter in letters)]
    for a, b in product(letters, letters):
        tokens += [f'"{a}{b}'.encode(), f'{a}{b}"'.encode(), f'"{a}{b}c'.encode()]
    trie = kernel.TokenTrie([*tokens, None], len(tokens) + 1)
    grammar = json_schema_grammar(schema, whitespace="compact", property_order="any")[0]
    prepared = kernel.KernelGrammar(trie, grammar, states=10**6, stack_depth=10**4, memory=1 << 26, seconds=30)
    at = kernel.Matcher(prepared, [len(tokens)])
    searches = []
    for piece in (b'{"xcd":1,"abc":1,', b'"abd":1,', b'"x', b'yz":0', b"}"):
        before = prepared.statistics["searches"]
        allowed = [token for token in at.allowed_tokens() if token < len(tokens)]
        searches.append(prepared.statistics["searches"] - before)
        assert allowed == [token for token in range(len(tokens)) if at.fork().accept_token(token)], piece
        assert at.accept_bytes(piece)
    assert max(searches) < 180  # one for each token that ends in a whole key, and none for those inside one


@pytest.mark.parametrize("count", [10, 5_000, 20_000])
def test_values_that_run_out_far_ahead(engine: Engine, count: int) -> None:
    """However far ahead a third value of two is, no text leads there; a long text before the end of a scope hides no end."""
    b = GrammarBuilder()
    value = b.distinct(b.alt(b.literal(b"1"), b.literal(b"2")))
    x, y, z = (b.literal(letter * count) for letter in (b"x", b"y", b"z"))
    scope = b.seq(value, b.literal(b","), b.alt(b.seq(value, x, value), b.seq(y, value), b.seq(z, b.literal(b"."))))
    start = matcher(engine, one_rule(b, b.scope(scope)))
    assert start.matching_prefix(b"1,2") == 2
    assert accepts(start, b"1," + b"y" * count + b"2")
    assert not accepts(start, b"1," + b"y" * count + b"1")
    assert accepts(start, b"1," + b"z" * count + b".")


@pytest.mark.parametrize("words", [("é" * 8 + "1", "é" * 8 + "2"), ("é" * 8 + "1", "é" * 8 + "2", "1", "")])
def test_texts_of_a_called_rule_are_counted(engine: Engine, words: tuple[str, ...]) -> None:
    """All strings that begin alike are seen, though the rule that begins them reads none: they go on in a rule that it calls twice."""
    ending = "|".join(words)
    items = {"type": "string", "pattern": f"^.(?:{ending})(?:x(?:{ending})x)?$"}
    grammar = json_schema_grammar({"type": "array", "uniqueItems": True, "items": items}, whitespace="compact")[0]
    rests = [*words, *(f"{one}x{other}x" for one, other in product(words, words))]
    text = "[" + "".join(f'"a{rest}",' for rest in rests) + '"'
    tokens = [text.encode(), b"a", b"b", b"a\xc3", "bé".encode(), b"x", b"1", b'"']
    start = matcher(engine, grammar, [*tokens, None], [len(tokens)])
    assert start.accept_token(0)
    allowed = start.allowed_tokens()
    assert allowed == [token for token in range(len(tokens)) if start.fork().accept_token(token)]
    assert {2, 4} <= set(allowed)
    assert not {1, 3} & set(allowed)


@pytest.mark.parametrize("first", ["rule", "rule of a rule", "value"])
def test_a_value_that_a_rule_reads_elsewhere_as_nothing(engine: Engine, first: str) -> None:
    """Where a rule is called plainly it may read nothing, and as a value, or as all that a value's rule reads, it may not."""
    b = GrammarBuilder()
    root, inner, outer = b.rule("root"), b.rule("inner"), b.rule("outer")
    b.define(inner, b.optional(b.literal(b"a" * 100)))
    b.define(outer, b.seq(b.call(inner), b.call(inner)))
    value = b.scope(b.seq(b.literal(b"["), b.distinct(b.call(inner if first != "rule of a rule" else outer)), b.literal(b"]")))
    parts = [b.call(inner), b.call(outer), value]
    b.define(root, b.seq(*(parts[::-1] if first == "value" else parts)))
    start = matcher(engine, b.build(root))
    assert start.shortest_completion() == b"[" + b"a" * 100 + b"]"
    assert accepts(start, b"[" + b"a" * 100 + b"]")
    assert not accepts(start, b"[]")


def test_no_completion_where_a_scope_has_too_few_values(engine: Engine) -> None:
    """A scope that must have two values of one is never complete, and another way to the end is the only one."""

    def start(*others: bytes) -> Any:
        b = GrammarBuilder()
        value = b.distinct(b.literal(b"1"))
        scope = b.scope(b.seq(value, b.literal(b","), value))
        inside = b.alt(scope, *map(b.literal, others))
        return matcher(engine, one_rule(b, b.seq(b.literal(b"["), inside, b.literal(b"]"))))

    with pytest.raises(GrammarError, match="no text completes"):
        start().shortest_completion()
    assert start(b"1234567").shortest_completion() == b"[1234567]"


@pytest.mark.parametrize("longest", [5, 30, 82, 83, 84, 200])
def test_a_token_as_long_as_a_string_may_be(kernel: Engine, longest: int) -> None:
    """Only the quote is left after it, and the string was seen. Other tokens of the vocabulary are short, or end before the bound."""
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string", "maxLength": longest}}
    grammar = json_schema_grammar(schema, whitespace="compact")[0]
    text = b" " * longest
    tokens = [b'["', text, b'","', b'","' + text, text[1:], text[:20], b'a"', b' "', b'"']
    at = matcher(kernel, grammar, [*tokens, None], [len(tokens)])
    for token in (0, 1, 2):
        assert at.accept_token(token)
    allowed = at.allowed_tokens()
    assert allowed == [token for token in range(len(tokens)) if at.fork().accept_token(token)]
    assert 1 not in allowed
    assert {4, 6} <= set(allowed)


ESCAPED: Final = [
    "a",
    "b",
    "/",
    "\\/",
    "\\n",
    '\\"',
    "\\\\",
    "\\u0061",
    "\\u0001",
    '"',
    '","',
    '["',
    '"]',
    "[",
    "]",
    ",",
    "ab",
    'a"',
    'b","',
    '\\n"',
    '/"',
    "/\\n",
    'ab\\"',
    '\\\\"',
    "\\",
    "\\u00",
    "0a",
    "n",
    "u",
]


@pytest.mark.parametrize("pattern", ["^[ab\n]{0,12}$", '^[a"\\\\]{0,12}$', "^[ab/\n\x01]{5,12}$", '^(?:a|\n"?|/){0,12}b?$'])
def test_strings_with_escapes_run_out(kernel: Engine, pattern: str) -> None:
    """Of strings that begin like the one in hand the spellings are counted, whatever escapes it and the others hold."""
    tokens: list[bytes | None] = [*map(str.encode, ESCAPED), None]
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string", "pattern": pattern}}
    prepared = prepare(kernel, json_schema_grammar(schema, whitespace="compact")[0], tokens)
    rows = np.zeros((2, 1), np.int32)
    for seed in range(12):
        at, random = kernel.Matcher(prepared, [len(tokens) - 1]), Random(seed)
        for _ in range(60):
            at.fill_next_token_bitmask(rows, 0)
            at.fill_by_trial(rows, 1)
            assert rows[0].tolist() == rows[1].tolist()
            allowed = [token for token in range(len(tokens) - 1) if rows[0][0] >> token & 1]
            if not allowed:
                break
            going_on = [token for token in allowed if "]" not in ESCAPED[token]]
            assert at.accept_token(random.choice(going_on or allowed))
    assert prepared.statistics["counted_texts"] > 0


@pytest.mark.parametrize("seen", ['"a\\nb"', '"\\t\\"x"', "17", '["abcdefg"]', '"\\/\\/\\/\\/\\/\\/\\/\\/\\/"'])
@pytest.mark.parametrize("begun", ['"abcd', '"\\n\\"ab', '"\\u0001abc', '"\\/abc'])
def test_values_that_begin_otherwise_need_no_trial(kernel: Engine, seen: str, begun: str) -> None:
    """Near the end of a bounded string few texts are left, and no value with escapes or of another type is among them."""
    tokens: list[bytes | None] = [*[bytes([byte]) for byte in range(256)], b"defg", b"efgh", b'efg"', b"cd", None]
    items = {"anyOf": [{"type": "string", "maxLength": 9}, {"type": ["integer", "array"]}]}
    grammar = json_schema_grammar({"type": "array", "uniqueItems": True, "items": items}, whitespace="compact")[0]
    prepared = prepare(kernel, grammar, tokens)
    at = kernel.Matcher(prepared, [len(tokens) - 1])
    rows = np.zeros((2, (len(tokens) + 31) // 32), np.int32)
    assert at.accept_bytes(f"[{seen},{begun}".encode())
    for following in (b"d", b"defg"):
        at.fill_next_token_bitmask(rows, 0)
        at.fill_by_trial(rows, 1)
        assert rows[0].tolist() == rows[1].tolist()
        assert at.accept_token(tokens.index(following))
    assert prepared.statistics["counted_texts"] > 0 and prepared.statistics["unverified"] == 0
