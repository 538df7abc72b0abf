"""Schemas with few values and keys, by the hundred: what satisfies them, every mask, and that no text is a dead end, by brute force.

All texts that the kernel takes are read byte by byte. Each is an instance, each instance of a small universe is among them, and a token is
in a mask exactly if some text goes on with it. So a schema that nothing satisfies has to be an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations, permutations, product
from random import Random
from typing import Any

import jsonschema
import pytest
from support.engines import BYTES, STOP, Engine, matcher

from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import LimitError, UnsatisfiableError
from stackmask.schema.algebra.algebra import Algebra
from stackmask.schema.algebra.bounds import surely_endless
from stackmask.schema.algebra.finite import Finite
from stackmask.schema.dialect.keyword_values import same_value
from stackmask.schema.dialect.references import Registry
from stackmask.schema.json_schema import json_schema_grammar

Schema = dict[str, Any]
MOST_TEXTS = 4_000
MASKS = 8  # that are looked at for each schema
PIECES = (
    '{"a":', "true", ",", "true,", '":null', "[],[", "],", "]]", '{"a":"a"', '},{"a":', '"a","b"', '"a"]', '":"a"}', '[{"', '["a"', "[]",
    "{}", ",{}", ",[]", '"a",', '"b"', "true]", "[true", "null}", '"b":', '"b":true', "],[true]", ",true", "false]", ",false", "[[", '{"',
    '":"', '"}', '"a":"a","b', '"ab"', '"]', '",', 'a","', '{"a', '["a","', "[[],", '{"a":null,"b',
)  # fmt: skip
TOKENS = (*BYTES, *(piece.encode() for piece in PIECES))

BOOLEAN, NULL = {"type": "boolean"}, {"type": "null"}
EMPTY = {"type": "array", "maxItems": 0}
LETTERS, LETTER = {"enum": ["a", "b"]}, {"const": "a"}
FLAG = {"type": "object", "properties": {"a": BOOLEAN}, "additionalProperties": False}
CLOSED = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
ITEMS: tuple[Any, ...] = (
    BOOLEAN,
    LETTERS,
    LETTER,
    {"enum": ["a", "b", "ab"]},
    {"enum": [True, None]},
    EMPTY,
    {"type": "array", "items": BOOLEAN, "maxItems": 1},
    {"type": "array", "items": BOOLEAN, "uniqueItems": True},
    FLAG,
    {**FLAG, "required": ["a"]},
    {"type": "object", "properties": {"a": LETTER, "b": NULL}, "additionalProperties": False},
    {"enum": [{"a": True}, [True], "a"]},
    {"anyOf": [{"const": "b"}, EMPTY]},
    {"type": "object", "maxProperties": 0},
    {"type": "string", "pattern": "^[ab]$"},
    {"type": "string", "maxLength": 0},
    {"$ref": "#/$defs/flag"},
    {"type": ["array", "null"], "maxItems": 0},
    False,
)
UNIQUE = {"type": "array", "uniqueItems": True, "$defs": {"flag": FLAG}}
LEAST = ({}, {"minItems": 2}, {"minItems": 3}, {"minItems": 2, "maxItems": 2}, {"minItems": 4})


def items() -> Iterator[Schema]:
    """Arrays of different items of one kind."""
    for item, bounds in product(ITEMS, LEAST):
        yield {**UNIQUE, "items": item, **bounds}
    for inner, least, size in product((LETTERS, BOOLEAN, EMPTY), (0, 1, 2, 3), (1, 2, 3)):
        yield {**UNIQUE, "items": {**UNIQUE, "items": inner, "minItems": least}, "minItems": size, "maxItems": size}


def prefixes() -> Iterator[Schema]:
    """Arrays of different items whose places have values in common."""
    few = [ITEMS[i] for i in (0, 1, 2, 5, 9, 11)]
    for first, second, rest, bounds in product(few, few, (False, LETTER, LETTERS), ({"minItems": 2}, {"minItems": 3})):
        yield {**UNIQUE, "prefixItems": [first, second], "items": rest, **bounds}
    for three in permutations((LETTERS, LETTER, {"enum": ["b", "ab"]}, BOOLEAN), 3):
        yield {**UNIQUE, "prefixItems": [*three], "items": False, "minItems": 3}
    pairs = [{"enum": [*pair]} for pair in (("a", "b"), ("b", "ab"), ("ab", None), (None, "a"))]
    for four, rest, least in product(permutations(pairs), (False, LETTERS), (3, 4)):
        yield {**UNIQUE, "prefixItems": [*four], "items": rest, "minItems": least}
    for four in product((LETTERS, BOOLEAN, {"enum": ["ab", True]}), repeat=4):
        yield {**UNIQUE, "prefixItems": [*four], "items": False, "minItems": 4}
    for first, second, count, most in product(few, few, ({"minContains": 2}, {"minContains": 1, "maxContains": 1}), ({}, {"maxItems": 3})):
        yield {**UNIQUE, "prefixItems": [first, second], "items": LETTERS, "contains": LETTERS, **count, "minItems": 3, **most}


def contained() -> Iterator[Schema]:
    """Arrays of different items some of which are counted."""
    of = (ITEMS[3], ITEMS[1], ITEMS[11], {"anyOf": [LETTERS, BOOLEAN]}, FLAG)
    what: tuple[Schema, ...] = (LETTER, LETTERS, {"type": "array"}, {"type": "string"}, {"required": ["a"]})
    counts: tuple[Schema, ...] = ({}, {"minContains": 2}, {"minContains": 0, "maxContains": 1}, {"maxContains": 1}, {"minContains": 3})
    for item, met, count, bounds in product(of, what, counts, ({}, {"minItems": 3}, {"minItems": 2, "maxItems": 3})):
        yield {**UNIQUE, "items": item, "contains": met, **count, **bounds}
    for met, other in combinations(what, 2):
        yield {**UNIQUE, "items": ITEMS[3], "contains": met, "allOf": [{"contains": other, "minContains": 2}], "minItems": 2}


MANY: tuple[Schema, ...] = (
    {}, {"minProperties": 1}, {"minProperties": 2}, {"minProperties": 3}, {"minProperties": 1, "maxProperties": 1}, {"maxProperties": 2},
    {"minProperties": 2, "maxProperties": 2}, {"minProperties": 4},
)  # fmt: skip


def names() -> Iterator[Schema]:
    """Objects whose keys are few."""
    for keys, value, bounds in product((["a"], ["a", "b"], ["a", "b", "ab"]), (LETTER, {"enum": ["a", None]}), MANY):
        schema = {"type": "object", "propertyNames": {"enum": keys}, "additionalProperties": value, **bounds}
        yield from (schema, {**schema, "required": ["b"]}, {**schema, "properties": {"a": BOOLEAN}}, {**schema, "required": ["c"]})


def patterns() -> Iterator[Schema]:
    """Objects whose keys are in some of a few sets."""
    of = ({"^[ab]$": LETTER}, {"^a$": LETTER, "^b$": NULL}, {"^[ab]$": LETTERS, "^[bc]$": LETTER}, {"^(a|ab)$": NULL}, {"^[ab]$": False})
    declared: tuple[Schema, ...] = ({}, {"properties": {"a": {"type": ["boolean", "null"]}}}, {"properties": {"d": NULL}})
    for sets, properties, bounds in product(of, declared, MANY):
        yield {"type": "object", "patternProperties": sets, **properties, "additionalProperties": False, **bounds}


def clauses() -> Iterator[Schema]:
    """Objects of which some member is asked for."""
    base = {"type": "object", "propertyNames": {"enum": ["a", "b", "ab"]}, "additionalProperties": {"enum": ["a", None]}}
    more: tuple[Schema, ...] = (
        {"not": {"additionalProperties": LETTER}},
        {"not": {"propertyNames": LETTER}},
        {"not": {"patternProperties": {"^a": LETTER}}},
        {"dependentRequired": {"a": ["b"]}},
        {"anyOf": [{"required": ["a"]}, {"required": ["ab"]}]},
        {"not": {"patternProperties": {"b$": NULL}}},
        {"not": {"required": ["a"]}},
    )
    for one, bounds in product(more, MANY):
        yield {**base, **one, **bounds}
    for pair, bounds in product(combinations(more, 2), (MANY[0], MANY[2])):
        yield {**base, "allOf": [*pair], **bounds}


FAMILIES = (items, prefixes, contained, names, patterns, clauses)
SCALARS = (True, False, None, "a", "b", "ab", "")
SMALL = (True, False, None, "a", "b")
OBJECTS = [dict(zip(keys, values, strict=True)) for n in range(3) for keys in combinations("ab", n) for values in product(SMALL, repeat=n)]
ARRAYS = [list(values) for n in range(3) for values in product((True, False, "a", "b", []), repeat=n)]
MEMBERS = [
    dict(zip(keys, values, strict=True))
    for n in range(5)
    for keys in combinations(("a", "b", "c", "ab", "d"), n)
    for values in product(SMALL[1:] if n < 4 else ("a", None), repeat=n)
]


def instances(schema: Schema) -> Iterator[Any]:
    """The instances of a schema in a universe that holds one if there is any."""
    validator = jsonschema.Draft202012Validator(schema)
    if schema["type"] == "object":
        yield from filter(validator.is_valid, MEMBERS)
        return
    # Items are taken from the values of the schemas of items.
    of = [part for part in (schema["items"], *schema.get("prefixItems", ())) if part is not False]
    tests = [jsonschema.Draft202012Validator({"$defs": UNIQUE["$defs"], "allOf": [part]}) for part in of]
    values = [value for value in (*SCALARS, *OBJECTS, *ARRAYS) if any(test.is_valid(value) for test in tests)]
    longest = next(n for n in (4, 3, 2) if len(values) ** n < 20_000 or n == 2)
    yield from ([*some] for n in range(longest + 1) for some in permutations(values, n) if validator.is_valid([*some]))


def read_texts(start: Any) -> tuple[set[bytes], set[bytes]] | None:
    """All texts that are accepted from here and all their beginnings, None where they are very many; no beginning leads nowhere."""
    texts: set[bytes] = set()
    beginnings = {b""}
    pending = [b""]
    at = start.fork()
    taken = b""
    while pending:
        text = pending.pop()
        common = max(len(text) - 1, 0)
        at.rollback(len(taken) - common)
        assert all(at.accept_token(byte) for byte in text[common:])
        taken = text
        following = at.next_bytes()
        if at.is_completed():
            texts.add(text)
        assert following or text in texts, f"dead end after {text!r}"
        pending += [text + bytes((byte,)) for byte in following]
        beginnings.update(pending[len(pending) - len(following) :])
        if len(beginnings) > MOST_TEXTS:
            return None
    return texts, beginnings


def check(engines: tuple[Engine, ...], schema: Schema, order: str, expected: list[Any], random: Random) -> bool:
    """All that holds of one schema, some instances of which are known; whether its texts are few enough to be read."""
    for distinct_keys in (False, True):  # a key that may come again and again makes very many texts
        try:
            grammar = json_schema_grammar(schema, whitespace="compact", property_order=order, distinct_keys=distinct_keys)[0]
            starts = [matcher(engine, grammar, TOKENS) for engine in engines]
        except UnsatisfiableError:
            assert not expected, f"{expected[0]} satisfies {schema}"
            return True
        read = read_texts(starts[0])
        if read is not None:
            break
    else:
        return False
    texts, beginnings = read
    assert texts, f"nothing satisfies {schema}"
    validator = jsonschema.Draft202012Validator(schema)
    values = [json.loads(text) for text in texts]
    assert all(map(validator.is_valid, values)), schema
    found = set(map(same_value, values))
    assert all(same_value(value) in found for value in expected), schema
    for text in random.sample(sorted(beginnings), min(len(beginnings), MASKS)):
        allowed = {token for token, piece in enumerate(TOKENS) if piece and text + piece in beginnings} | (
            {STOP} if text in texts else set()
        )
        for start in starts:
            at = start.fork()
            assert at.accept_bytes(text), (schema, text)
            assert set(at.allowed_tokens()) == allowed, (schema, text)
    return True


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: str(family.__name__))
def test_every_text(kernel: Engine, reference: Engine, family: Any) -> None:
    """What the kernel takes in either order of keys, with every mask on the way; here and there the reference engine says the same."""
    random = Random(1)
    told = []
    for number, schema in enumerate(family()):
        expected = list(instances(schema))
        engines = (kernel, reference) if number % 40 == 7 else (kernel,)
        told += [check(engines, schema, order, expected, random) for order in ("schema", "any")]
    assert sum(told) > 0.8 * len(told)


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"type": "string", "pattern": "^[a-z]{2}$"}, "minItems": 677},
        {"items": {"type": "integer", "minimum": 1, "maximum": 1000}, "minItems": 1001},
        {"items": {"type": "integer"}, "contains": {"enum": [0, 1]}, "minContains": 3},
        {"prefixItems": [{"type": "integer"}, LETTER, {"type": "string", "maxLength": 0}, {"enum": ["", "a"]}], "minItems": 4},
        {"items": {"type": "array", "items": {**CLOSED, "properties": {"a": {}, "b": {}}, "minProperties": 3}}, "minItems": 2},
        {"items": {"type": "array", "items": {"allOf": [{**CLOSED, "minProperties": 2}, CLOSED]}}, "minItems": 2},
        {"items": {"type": "array", "items": {"type": "string", "minLength": 3, "maxLength": 2}}, "minItems": 2},
        {"items": {**CLOSED, "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 2}}}, "minItems": 2},
    ],
)
def test_too_few_values(kernel: Engine, schema: Schema) -> None:
    """Beside values without end, and where there are more than are told one by one, too few values are found as well."""
    with pytest.raises(UnsatisfiableError):
        matcher(kernel, json_schema_grammar({**UNIQUE, **schema})[0])


@pytest.mark.parametrize(
    ("schema", "taken", "refused"),
    [
        ({"items": {"type": "string", "pattern": "^[a-z]{2}$"}, "minItems": 676}, ('["ab","ac"',), ('["ab","ab"',)),
        (
            {"prefixItems": [{"type": "string"}, LETTERS, LETTERS], "minItems": 3},
            ('["ab","b","a"]', '["a'),
            ('["a"', '["b"', '["ab","b","b"'),
        ),
        ({"prefixItems": [{"type": "object"}, {"const": {"a": 1}}], "minItems": 2}, ('[{"a":1,"b":2},{"a":1}]',), ('[{"a":1}',)),
        ({"prefixItems": [{"type": "integer"}, {"const": 0}], "minItems": 2}, ("[1,0]", "[10"), ("[0", "[-0")),
        ({"items": {"type": "object"}, "contains": {"const": {}}, "minItems": 2}, ('[{},{"a":1}]', '[{"a":1},{}'), ('[{"a":1},{"b":1}]',)),
    ],
)
def test_values_that_others_need(kernel: Engine, schema: Schema, taken: tuple[str, ...], refused: tuple[str, ...]) -> None:
    """A place where many values may stand takes none that a later place cannot do without."""
    start = matcher(kernel, json_schema_grammar({**UNIQUE, **schema}, whitespace="compact")[0])
    assert all(start.fork().accept_bytes(text.encode()) for text in taken)
    assert not any(start.fork().accept_bytes(text.encode()) for text in refused)


def test_too_many_kinds() -> None:
    """More items than values can be told apart beside values of other kinds are a limit, not a dead end."""
    schema = {**UNIQUE, "prefixItems": [LETTER, LETTER], "items": {"type": "string", "pattern": "^[a-z]{2}$"}, "minItems": 700}
    with pytest.raises(LimitError, match="700 different items"):
        json_schema_grammar(schema)


PAIRS = {"type": "object", "propertyNames": LETTERS, "additionalProperties": BOOLEAN}
SHORT = {"type": "array", "items": BOOLEAN, "maxItems": 2}


@pytest.mark.parametrize(
    ("schema", "total"),
    [
        ({"enum": [0.5, 1, 1.0, "1", True]}, 4),
        ({"type": "number", "multipleOf": 0.5, "minimum": 0, "maximum": 1}, 3),
        ({"type": "integer", "minimum": 1, "maximum": 300}, None),
        ({"type": "string", "pattern": "^[a-z]{2}$"}, None),
        (SHORT, 7),
        ({**SHORT, "uniqueItems": True}, 5),
        ({**SHORT, "not": {"uniqueItems": True}}, 2),
        ({**SHORT, "contains": {"const": True}, "maxContains": 1}, 3),
        ({**SHORT, "prefixItems": [NULL], "contains": {"const": True}}, 1),
        ({**SHORT, "minItems": 3}, 0),
        ({**SHORT, "not": {"prefixItems": [BOOLEAN], "items": {"const": True}}}, 2),
        ({"type": "array", "items": LETTER, "maxItems": 10_000}, None),
        ({**SHORT, "maxItems": 14}, None),
        ({**SHORT, "minItems": 13, "maxItems": 13}, None),
        ({"type": "array", "items": BOOLEAN}, None),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, None),
        ({"type": "array", "items": {"$ref": "#"}, "maxItems": 1}, None),
        ({"type": "array", "items": False}, 1),
        (PAIRS, 9),
        ({**PAIRS, "minProperties": 1, "maxProperties": 1}, 4),
        ({**PAIRS, "required": ["a"]}, 6),
        ({**PAIRS, "not": {"additionalProperties": {"const": True}}}, 5),
        ({**PAIRS, "properties": {"a": {"type": "string"}}}, None),
        ({**PAIRS, "propertyNames": {"enum": [*"abcdefghij"]}}, None),
        ({**PAIRS, "propertyNames": {"maxLength": 1}}, None),
        ({**PAIRS, "propertyNames": {"minLength": 1}, "additionalProperties": False}, 1),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, 0),
        ({"type": "object", "maxProperties": 0}, 1),
        ({**CLOSED, "minProperties": 2}, 0),
        ({**CLOSED, "minProperties": 1}, None),
        ({**CLOSED, "patternProperties": {"^[bc]$": {}}, "minProperties": 4}, 0),
        ({**CLOSED, "patternProperties": {"^[bc]$": False}, "minProperties": 2}, 0),
        ({**CLOSED, "patternProperties": {"^[bc]$": {}}, "minProperties": 3}, None),
        ({"type": "array", "items": {**CLOSED, "minProperties": 2}}, 1),
    ],
)
def test_values_one_by_one(schema: Schema, total: int | None) -> None:
    """The values of a subschema are told where they are few."""
    algebra = Algebra(Registry(schema), Budget(None))
    values = Finite(algebra).values(frozenset((algebra.numbering.literal(schema, algebra.registry.root),)))
    assert (None if values is None else len(values)) == total
    validator = jsonschema.Draft202012Validator(schema)
    for value in (values or {}).values():
        assert validator.is_valid(float(value) if isinstance(value, Decimal) else value)


@pytest.mark.parametrize(
    ("schema", "total"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 300}, 300),
        ({"type": ["string", "null"], "pattern": "^[a-z]{2}$"}, 677),
        ({"type": "string"}, 700),
        ({"type": "number", "minimum": 1, "maximum": 2}, 700),
        ({"type": "array"}, 700),
        ({"enum": ["a", [], {}]}, 3),
    ],
)
def test_number_of_values(schema: Schema, total: int) -> None:
    """More values are counted, as far as that matters."""
    algebra = Algebra(Registry(schema), Budget(None))
    assert Finite(algebra).number(frozenset((algebra.numbering.literal(schema, algebra.registry.root),)), 700) == total


@pytest.mark.parametrize(
    ("schema", "endless"),
    [
        (True, True),
        ({"$ref": "#/$defs/text", "$defs": {"text": {"type": "string"}}}, True),
        ({"anyOf": [{"type": "boolean"}, {"type": "integer"}]}, True),
        ({"anyOf": [{"type": "boolean"}, {"const": 1}]}, False),
        ({"allOf": [{"type": "string"}]}, False),
        ({"type": ["null", "boolean"]}, False),
        ({"type": "string", "maxLength": 0}, False),
        ({"type": "integer", "minimum": 1}, True),
        ({"type": "integer", "minimum": 1, "maximum": 2}, False),
        ({"type": "array", "items": BOOLEAN}, True),
        ({"type": "array", "items": BOOLEAN, "maxItems": 3}, False),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 3}, True),
        ({"type": "array", "items": BOOLEAN, "contains": BOOLEAN}, False),
        ({"type": "object", "maxProperties": 0}, False),
        (FLAG, False),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {"type": "string", "minLength": 3}}, "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 2}}, "additionalProperties": False}, False),
        ({"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 2}, "uniqueItems": True}, True),
        ({"type": "array", "items": {"type": "string", "minLength": 3, "maxLength": 2}, "uniqueItems": True}, False),
        ({"type": "array", "items": {"enum": []}}, False),
    ],
)
def test_no_end_of_values(schema: Any, endless: bool) -> None:
    """A look tells that values never run out, where it is easy to tell."""
    registry = Registry(schema)
    assert surely_endless(registry, schema, registry.root) is endless
