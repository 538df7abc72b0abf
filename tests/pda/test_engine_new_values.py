"""Whether a value that must differ can still be new, told without a search: endless lists and keys, completions that are tried again."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from random import Random
from typing import Any

import pytest
from support.engines import Engine, accepts, matcher, one_rule, prepare

from stackmask.pda.exceptions import LimitError
from stackmask.pda.grammar import REPEATABLE, Grammar, GrammarBuilder, NodeId
from stackmask.schema.json_schema import json_schema_grammar

DIGIT = {"type": "integer", "minimum": 0, "maximum": 9}
ITEMS: dict[str, dict[str, Any]] = {
    "lists of one value": {"type": "array", "items": {"const": 1}},
    "lists that contain a value": {"type": "array", "items": DIGIT, "contains": {"const": 1}},
    "lists of two values at most": {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2},
    "lists of different values": {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True},
    "lists of keys": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1},
    "objects in lists": {"type": "array", "items": {"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": False}},
    "keys that come again": {"type": "object", "patternProperties": {"^[ab]$": {"const": 1}}, "additionalProperties": False},
    "keys that come again, with lists": {
        "type": "object",
        "patternProperties": {"^[ab]$": {"type": "array", "items": {"const": 1}, "maxItems": 1}},
        "additionalProperties": False,
    },
    "lists in a member": {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"const": 1}}, "b": {"const": 1}},
        "additionalProperties": False,
    },
    "any other key": {"type": "object", "properties": {"a": {"const": 1}, "b": {"enum": [1, 2]}}, "required": ["a"]},
    "few numbers": {"enum": [1, 2, 12]},
    "words": {"enum": ["a", "b", "ab"]},
    "numbers beside strings": {"anyOf": [{"type": "string"}, {"enum": [2, 12]}]},
    "trees": {"$ref": "#/$defs/tree"},
    "a zero with digits behind": {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 0}, "maxItems": 1},
}
PIECES = [
    "[",
    "]",
    "{",
    "}",
    '"',
    ",",
    ":",
    "a",
    "b",
    "1",
    "2",
    "0",
    "[1",
    "1]",
    "1,",
    ",1",
    "],",
    '{"',
    '"a":',
    '"b":1',
    '":1',
    '},{"',
    "]]",
    "}]",
    "1,1",
    "1,2",
    "2,1",
    "2,2",
    "[2,2",
    '"a","a',
    '"a","b',
    '"b","b',
    '["a","a"',
]


@pytest.mark.parametrize("name", ITEMS)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_values_are_new_as_long_as_some_are_left(kernel: Engine, reference: Engine, order: str, name: str) -> None:
    """Masks hold the tokens that are accepted, in both engines the same, and behind each of them the text can be completed."""
    tree = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
    schema = {"type": "array", "uniqueItems": True, "items": ITEMS[name], "$defs": {"tree": tree}}
    grammar = json_schema_grammar(schema, property_order=order, whitespace="compact")[0]
    tokens = [piece.encode() for piece in PIECES]
    prepared, specified = prepare(kernel, grammar, tokens), prepare(reference, grammar, tokens)
    random = Random(name + order)
    for walk in range(10):
        at, expected = kernel.Matcher(prepared, []), reference.Matcher(specified, [])
        # Endlessly many texts of few values: once all were seen, the search for another has no end, and says so.
        with suppress(LimitError) if "come again" in name else nullcontext():
            while (allowed := at.allowed_tokens()) and at.num_accepted < 22:
                assert allowed == [token for token in range(len(tokens)) if at.validate_tokens([token])]
                if walk < 3:
                    assert allowed == expected.allowed_tokens()
                token = random.choice(allowed)
                assert at.accept_token(token)
                assert expected.accept_token(token)
                assert accepts(at, at.shortest_completion())


SINGLE = {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 1, "maxItems": 1}
CLOSED = {"type": "object", "additionalProperties": False}
LAST: dict[str, tuple[dict[str, Any], str]] = {
    "lists in lists": (SINGLE, "[[1],[2]]"),
    "lists in objects": (CLOSED | {"properties": {"a": SINGLE}, "required": ["a"]}, '[{"a":[1]},{"a":[2]}]'),
    "lists in lists in lists": ({"type": "array", "items": SINGLE, "minItems": 1, "maxItems": 1}, "[[[1]],[[2]]]"),
    "a member that was read": (
        CLOSED | {"properties": {"a": {"type": "string"}, "b": {"enum": [1, 2]}}},
        '[{"a":"x","b":1},{"a":"x","b":2}]',
    ),
    "a list that was read": (
        CLOSED | {"properties": {"a": {"type": "array", "items": {"const": 1}}, "b": {"enum": [1, 2]}}},
        '[{"a":[1,1],"b":1},{"a":[1,1],"b":2}]',
    ),
    "lists of two": ({"type": "array", "items": {"const": 1}, "maxItems": 2}, "[[],[1],[1,1]]"),
    "lists in a tuple": ({"prefixItems": [SINGLE, {"const": 3}], "items": False, "minItems": 2, "type": "array"}, "[[[1],3],[[2],3]]"),
}


def follow_in_both(kernel: Engine, reference: Engine, grammar: Grammar, text: str) -> None:
    """Read a text byte by byte: the same bytes are allowed in both engines."""
    at, expected = matcher(kernel, grammar), matcher(reference, grammar)
    for byte in text.encode():
        assert at.allowed_tokens() == expected.allowed_tokens()
        assert at.accept_token(byte)
        assert expected.accept_token(byte)


@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_the_last_value(kernel: Engine, reference: Engine, order: str, name: str) -> None:
    """Byte by byte up to where no value is left, or one: the same bytes are allowed in both engines."""
    items, text = LAST[name]
    schema = {"type": "array", "uniqueItems": True, "items": items}
    grammar = json_schema_grammar(schema, property_order=order, whitespace="compact")[0]
    follow_in_both(kernel, reference, grammar, text)


@pytest.mark.parametrize(
    ("deep", "text"), [(True, '[[[[1,2],[2,1]]],[[[2,1],[1,2]]],[["x"]]]'), (False, '[[1,2],[2,1],["x"]]')], ids=["deep", "flat"]
)
def test_the_last_list_of_lists_beside_words(kernel: Engine, reference: Engine, text: str, *, deep: bool) -> None:
    """What completes a value is a completion of that value alone, not of those around it or inside of it, which may have been seen."""
    b = GrammarBuilder()

    def pair(value: NodeId) -> NodeId:
        return b.scope(b.seq(b.literal(b"["), b.distinct(value), b.literal(b","), b.distinct(value), b.literal(b"]")))

    word = b.seq(b.literal(b'["'), b.repeat(b.bytes((0x61, 0x7A))), b.literal(b'"]'))
    digit = b.alt(b.literal(b"1"), b.literal(b"2"))
    pairs = b.alt(pair(pair(digit) if deep else digit), word)
    value = b.distinct(b.scope(b.seq(b.literal(b"["), b.distinct(pairs), b.literal(b"]"))) if deep else pairs)
    grammar = one_rule(b, b.scope(b.seq(b.literal(b"["), value, b.repeat(b.seq(b.literal(b","), value)), b.literal(b"]"))))
    follow_in_both(kernel, reference, grammar, text)


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("separator", [b",", b" ,", b", "])
def test_an_object_of_one_value_and_many_texts(kernel: Engine, separator: bytes, *, called: bool) -> None:
    """A key that comes again makes no other value: a second object is refused, or the search for one runs into its limit."""
    b = GrammarBuilder()
    pair = b.literal(b'"a":1')
    if called:
        rule = b.rule("pair")
        b.define(rule, b.alt(pair, b.literal(b'"a":10e-1')))
        pair = b.call(rule)
    rest = b.seq(b.literal(separator), pair)
    value = b.distinct(b.seq(b.literal(b"{"), pair, b.repeat(rest), b.literal(b"}")))
    array = b.scope(b.seq(b.literal(b"["), value, b.repeat(b.seq(b.literal(b","), value)), b.literal(b"]")))
    at = matcher(kernel, one_rule(b, array))
    assert at.accept_bytes(b'[{"a":1' + separator + b'"a":1}')
    try:
        assert not at.accept_bytes(b",{")
    except LimitError as error:
        assert error.limit == "step_work"


def test_a_member_that_was_read_and_one_that_comes_again(kernel: Engine) -> None:
    """Where members stand in any order, a string that was read is not ahead any more, though another member may come again and again."""
    b = GrammarBuilder()
    text = b.seq(b.literal(b'"a":"'), b.repeat(b.bytes((0x61, 0x7A))), b.literal(b'"'))
    members = (text, 0, b.literal(b'"c":1'), REPEATABLE)
    value = b.distinct(b.seq(b.literal(b"{"), b.permute(members, b.literal(b",")), b.literal(b"}")))
    array = b.scope(b.seq(b.literal(b"["), value, b.repeat(b.seq(b.literal(b","), value)), b.literal(b"]")))
    at = matcher(kernel, one_rule(b, array))
    assert at.accept_bytes(b'[{"a":"x"},{"a":"x","c":1}')
    assert at.accept_bytes(b',{"a":"x')
    try:
        assert not at.accept_bytes(b'"')
    except LimitError as error:
        assert error.limit == "step_work"


def largest_work(kernel: Engine, schema: dict[str, Any], text: str, order: str, ends: str) -> tuple[int, int]:
    """The most work of a step through a text byte by byte, with tokens of a byte or two and `ends`; and the searches of all steps."""
    pairs = [f"{first}{second}" for first in '",:[]{}0123456789' for second in '",:[]{}0123456789']
    tokens = [*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in (*pairs, *ends.split()))]
    prepared = prepare(kernel, json_schema_grammar(schema, property_order=order)[0], tokens)
    at = kernel.Matcher(prepared, [])
    for byte in text.encode():
        at.allowed_tokens()
        assert at.accept_token(byte)
    return prepared.statistics["largest_work"], prepared.statistics["searches"]


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("number", range(4))
def test_work_of_values_that_are_surely_new(kernel: Engine, number: int, order: str) -> None:
    """Behind lists and keys without an end nothing is searched; the rest of a value is searched once and not for each token."""
    numbers = {"type": "array", "items": DIGIT, "contains": {"const": 1}}
    names = {"properties": dict.fromkeys("abc", numbers) | {"flag": {"type": "boolean"}}, "additionalProperties": False}
    cases: list[tuple[dict[str, Any], str, int, int]] = [
        (names, '[{"a":[6,7,1],"flag":true},{"a":[6,7,1],"flag":false}]', 60_000, 40),
        (
            names | {"if": {"properties": {"flag": {"const": True}}, "required": ["flag"]}, "then": {"required": ["a"]}},
            '[{"a":[6,7,1],"flag":true},{"a":[6,7,1],"flag":false}]',
            60_000,
            80,
        ),
        (
            {"properties": {"name": {"type": "string"}, "ratio": {"type": "number"}}},
            '[{"name":"one","ratio":1},{"name":"two","ratio":1.25}]',
            60_000,
            80,
        ),
        (
            {"properties": {"name": {"type": "string"}, "on": {"type": "boolean"}}, "additionalProperties": False},
            '[{"name":"one","on":true},{"name":"two","on":false}]',
            60_000,
            40,
        ),
    ]
    items, text, most_work, most_searches = cases[number]
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "object", **items}}
    work, searches = largest_work(kernel, schema, text, order, '"}, "},{ "}] ",": ",1 x"} y"} z"}, 1}] 2}, 3},{ 11}, 12} 13],"')
    assert work < most_work
    assert searches < most_searches


def test_the_last_permutation_of_many_words(kernel: Engine) -> None:
    """What a list has taken is not left in it: the second list of the same words ends in another order than the first."""
    words = [f'"{first}{second}"' for first in "abcdefghijklmnopqrst" for second in "ab"]
    inner = {"type": "array", "uniqueItems": True, "minItems": len(words), "items": {"type": "string", "pattern": "^[a-t][ab]$"}}
    grammar = json_schema_grammar({"type": "array", "uniqueItems": True, "items": inner}, whitespace="compact")[0]
    at = matcher(kernel, grammar)
    for piece in ("[[", ",".join(words), "],[", ",".join(words[:-2]), ","):
        assert all(at.accept_token(byte) for byte in piece.encode())
    assert not at.fork().accept_bytes(words[-2].encode())
    assert at.accept_bytes(f"{words[-1]},{words[-2]}],[".encode())


STRINGS: dict[str, dict[str, Any]] = {
    "lengths": {"maxLength": 6},
    "a pattern and lengths": {"pattern": "d$", "minLength": 2, "maxLength": 5},
    "a pattern": {"pattern": "^(?!x)[a-z_]{1,9}$"},
    "digits": {"pattern": "^[0-9]{2,4}$"},
}


@pytest.mark.parametrize("name", STRINGS)
@pytest.mark.parametrize("deep", [1, 2, 5, 30])
@pytest.mark.parametrize("order", ["schema", "any"])
def test_work_of_bounded_strings_in_different_lists(kernel: Engine, order: str, deep: int, name: str) -> None:
    """Strings of few lengths in lists in lists, all different, take the work of a step and not that of their number."""
    schema: dict[str, Any] = {"type": "string", **STRINGS[name]}
    for level in range(deep):
        schema = {"type": "array", "uniqueItems": True, "items": schema}
        if level == 0:
            schema = {"type": "object", "properties": {"a": schema, "n": {"enum": [1, 2, 3]}}, "additionalProperties": False}
    schema = {"type": "array", "uniqueItems": True, "items": schema}
    word, other = ("12", "123") if name == "digits" else ("abd", "add")
    text = "[" * deep + f'{{"a":["{word}"],"n":1}},{{"a":["{word}","{other}"],"n":1' + "}" + "]" * deep
    work, _ = largest_work(kernel, schema, text, order, 'ab add abd bd" ed" ad"] 12"] 34" 999" abcde" abcdef" x"] "},{"')
    assert work < 250_000


@pytest.mark.parametrize("order", ["schema", "any"])
def test_conditions_on_lists_of_different_values(kernel: Engine, order: str) -> None:
    """Ten different digits with a 1 among them, in an object among different ones: found depth first, within the work of a step."""
    digits = {"type": "array", "uniqueItems": True, "items": DIGIT, "contains": {"const": 1}}
    condition = {
        "if": {"properties": {"flag": {"const": True}}, "required": ["flag"]},
        "then": {"required": ["a"]},
        "else": {"required": ["c"]},
    }
    properties = dict.fromkeys("abc", digits) | {"flag": {"type": "boolean"}}
    items = {"type": "object", "properties": properties, "additionalProperties": False, **condition}
    schema = {"type": "array", "uniqueItems": True, "items": items}
    text = '[{"b":[6,7,1],"c":[5,1],"flag":false},{"b":[6,7,1],"c":[5,2,1]}]'
    work, _ = largest_work(kernel, schema, text, order, "")
    assert work < 500_000
