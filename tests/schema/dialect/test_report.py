"""The report: what became of every keyword."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest
from support.schemas import Schemas

from stackmask.pda.engine import KernelGrammar, Matcher, TokenTrie
from stackmask.pda.exceptions import StackmaskError
from stackmask.pda.grammar import Grammar
from stackmask.schema.dialect import report as report_module
from stackmask.schema.dialect.references import Registry
from stackmask.schema.dialect.report import (  # fmt: skip
    ALLOWED,
    ANNOTATION,
    APPROXIMATED,
    DEEPEST,
    ENFORCED,
    NOTHING_NOTED,
    REPEATED_KEYS,
    Entry,
    Noted,
    Report,
)
from stackmask.schema.json_schema import json_schema_grammar

TRIE = TokenTrie([bytes([byte]) for byte in range(256)], 257)


def generates(grammar: Grammar, text: str) -> bool:
    """Whether a text is one of the grammar's."""
    matcher = Matcher(KernelGrammar(TRIE, grammar, states=500_000, stack_depth=100_000, memory=1 << 26, seconds=10.0), [256])
    return bool(matcher.accept_bytes(text.encode()) and matcher.is_completed())


def statuses(schema: object, **options: bool) -> dict[str, tuple[str, str]]:
    """Status and note by pointer."""
    return {entry.pointer: (entry.status, entry.note) for entry in Report(Registry(schema), **options)}


def test_every_occurrence() -> None:
    """Every keyword of every subschema has an entry with its pointer; names of properties are no keywords."""
    found = statuses(
        {
            "title": "t",
            "properties": {"a/b": {"type": "string", "minLength": 1}, "enum": {"const": {"type": 1}}},
            "allOf": [{"required": ["x"]}],
            "dependencies": {"a": ["b"]},
            "x-vendor": 1,
        }
    )
    assert list(found) == [
        "/title",
        "/properties",
        "/allOf",
        "/dependencies",
        "/x-vendor",
        "/properties/a~1b/type",
        "/properties/a~1b/minLength",
        "/properties/enum/const",
        "/allOf/0/required",
    ]
    assert found["/title"] == found["/x-vendor"] == (ANNOTATION, "")
    assert found["/properties/a~1b/minLength"] == found["/allOf/0/required"] == (ENFORCED, "")
    assert found["/dependencies"] == (ANNOTATION, "no keyword of 2020-12, but of draft4, draft6, draft7")


def test_misspelt() -> None:
    """A misspelt keyword is an annotation with a warning."""
    report = Report(Registry({"requried": ["a"], "additionalProperty": False, "colour": "red"}))
    assert [entry.note for entry in report.warnings] == [
        'unknown keyword; did you mean "required"?',
        'unknown keyword; did you mean "additionalProperties"?',
    ]
    assert [entry.status for entry in report] == [ANNOTATION] * 3


def test_formats() -> None:
    """Known formats are enforced unless they are to be annotations; unknown ones never are."""
    schema = {"properties": {"a": {"format": "date"}, "b": {"format": "color"}}}
    assert statuses(schema)["/properties/a/format"] == (ENFORCED, "")
    assert statuses(schema)["/properties/b/format"] == (ANNOTATION, "unknown format 'color'")
    assert statuses(schema, formats=False)["/properties/a/format"] == (ANNOTATION, "")


def test_without_effect() -> None:
    """Keywords that need another one, and siblings of $ref in old drafts, have no effect, and the report says so."""
    found = statuses({"then": False, "minContains": 2})
    assert found["/then"] == (ANNOTATION, "no effect without if")
    assert found["/minContains"] == (ANNOTATION, "no effect without contains")
    found = statuses({"$schema": "http://json-schema.org/draft-07/schema#", "items": {"$ref": "#", "minimum": 1, "title": "x"}})
    assert found["/items/minimum"] == (ANNOTATION, "ignored beside $ref in draft7")
    assert found["/items/title"] == (ANNOTATION, "")
    assert found["/items/$ref"] == (ENFORCED, "")
    assert statuses({"$schema": "http://example.com/none"})["/$schema"][0] == ENFORCED


def test_unknown_dialect() -> None:
    """A $schema that nothing is known of is reported."""
    entries = Report(Registry({"$schema": "http://example.com/none"})).entries
    assert entries[0] == Entry("/$schema", "$schema", ANNOTATION, "unknown dialect 'http://example.com/none'; read as draft 2020-12")


def test_approximated() -> None:
    """What a lenient compilation gave up replaces the entry of its keyword."""
    given = Entry("/not", "not", APPROXIMATED, "too many cases")
    report = Report(Registry({"not": {"type": "null"}}), approximated=(given,))
    assert report.approximated == (given,)
    assert report.warnings == (given,)
    assert [entry.pointer for entry in report] == ["/not", "/not/type"]


def test_values() -> None:
    """Reports compare and pickle by their entries, print as a table, and boolean schemas have an empty one."""
    report = Report(Registry({"type": "null", "requried": []}))
    copy = pickle.loads(pickle.dumps(report))
    assert copy == report
    assert hash(copy) == hash(report)
    assert str(report).splitlines()[2] == 'annotation  requried  /requried  unknown keyword; did you mean "required"?'
    assert repr(report) == "<Report of 2 keywords, 1 warnings>"
    assert len(Report(Registry(True))) == 0
    assert report != 1


def test_deep_schemas() -> None:
    """The report on a schema nested 20,000 deep is bounded, and says what it leaves out."""
    schema: object = {"type": "null"}
    for _ in range(20_000):
        schema = {"items": schema}
    entries = Report(Registry(schema)).entries
    assert len(entries) == 1001
    assert entries[-1].note == "what is below is not listed"
    assert not entries[-1].is_warning


def test_warnings_are_the_entries_with_a_note() -> None:
    """They are found by ways of their own, which look at few keywords: in resources, beside references, in other mappings, deep."""
    deep: dict[str, object] = {"requried": ["a"]}
    for _ in range(DEEPEST + 2):
        deep = {"not": deep}
    draft4 = "http://json-schema.org/draft-04/schema#"
    schemas: list[object] = [
        True,
        {"properties": {"a/b~": {"x-guidance": {}, "requird": []}, "c": {"format": "nonsense"}, "d": {"format": "date"}}},
        {"$schema": draft4, "if": {}, "items": [{"$ref": "#", "type": "string", "if": {}}, {"$ref": "#"}], "id": "http://x/a"},
        {"$schema": "http://nowhere/", "then": {}, "anyOf": [{"else": {}}, {"minContains": 1}, {"contains": {}, "maxContains": 1}]},
        {"$defs": {"old": {"$schema": draft4, "id": "http://x/b", "$defs": {}, "dependencies": {"a": {"if": True}, "b": ["c"]}}}},
        {"$defs": {"old": {"$schema": draft4, "$id": "http://x/b", "const": 1, "prefixItems": [{"const": {"typ": 1}}]}}},
        MappingProxyType({"properties": MappingProxyType({"a": MappingProxyType({"typ": "x"})}), "allOf": ({"typ": 1},)}),
        {"enum": [{"typ": 1}], "const": {"typ": 1}, "default": {"typ": 1}},
        deep,
    ]
    noted = 0
    for schema in schemas:
        for formats in (True, False):
            lazily, whole = Report(Registry(schema), formats=formats), Report(Registry(schema), formats=formats)
            assert lazily.warnings == tuple(entry for entry in whole.entries if entry.is_warning)
            noted += len(lazily.warnings)
    assert noted > 20


INTEGER = {"type": "integer"}
FREE = {"type": "object", "additionalProperties": INTEGER}
OBJECTS = [
    True,
    {},
    {"description": "anything"},
    {"minLength": 2},
    {"type": ["null", "object"]},
    {"type": "string"},
    FREE,
    {"properties": {"a": INTEGER}},
    {"properties": {"a": INTEGER}, "additionalProperties": False},
    {"type": "object", "properties": {"a": INTEGER}, "unevaluatedProperties": False},
    {"type": "object", "patternProperties": {"^b": INTEGER}, "additionalProperties": False},
    {"type": "object", "patternProperties": {"^b": False}, "additionalProperties": False},
    {"type": "object", "propertyNames": {"enum": ["b", "c"]}},
    {"type": "object", "propertyNames": False},
    {"const": {"b": 1}},
    {"enum": [{"b": 1}, {}]},
    {**FREE, "required": ["b"]},
    {**FREE, "required": ["c"]},
    {**FREE, "maxProperties": 1},
    {**FREE, "maxProperties": 2},
    {**FREE, "required": ["a", "c"], "maxProperties": 3},
    {**FREE, "required": ["a", "c"], "maxProperties": 4},
    {**FREE, "minProperties": 1},
    {**FREE, "minProperties": 2},
    {**FREE, "required": ["a"], "minProperties": 1},
    {**FREE, "required": ["a"], "minProperties": 2},
    {**FREE, "required": ["a"], "minProperties": 3},
    {**FREE, "required": ["c"], "minProperties": 2},
    {**FREE, "required": ["c", "b"], "minProperties": 4},
    {**FREE, "required": ["a", "b", "c"], "minProperties": 1},
    {**FREE, "minProperties": 0},
    {"anyOf": [{"type": "null"}, FREE]},
    {"anyOf": [{"type": "null"}, {"type": "object", "additionalProperties": False}]},
    {"type": "object", "oneOf": [{"required": ["a"], "additionalProperties": False}, {"maxProperties": 0}]},
    {"type": "object", "not": {"required": ["c"]}},
    {"type": "object", "if": {"required": ["c"]}, "then": {"required": ["a"]}},
    {"$ref": "#/$defs/free", "$defs": {"free": FREE}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/free", "definitions": {"free": FREE}},
]


MISSPELT = {"minimun": 1}
DOUBTFUL_PLACES: tuple[Any, ...] = (
    {"type": "null", **MISSPELT},
    {"type": "object", "properties": {"a": MISSPELT}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": MISSPELT},
    {"properties": {"a": {"items": MISSPELT}}},
    {"type": "array", "items": MISSPELT},
    {"type": "array", "prefixItems": [{}, MISSPELT]},
    {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2], **MISSPELT}},
    {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"type": "boolean", **MISSPELT}},
    {"type": "array", "uniqueItems": True, "minItems": 2, "prefixItems": [{}, {"type": "boolean", **MISSPELT}]},
    {"type": "array", "uniqueItems": True, "minItems": 2, "maxItems": 2, "prefixItems": [{}, {"type": "boolean"}, MISSPELT]},
    {"type": "string", "properties": {"a": MISSPELT}},
    {"type": "object", "items": MISSPELT},
    {"type": "array", "properties": {"a": MISSPELT}},
    {"type": "object", "properties": {"b": {}}, "items": MISSPELT},
    {"type": "array", "minItems": 1, "properties": {"a": MISSPELT}},
    {"type": "string", "minLength": 1, "items": MISSPELT},
    {"type": ["string", "null"], "minLength": 1, "items": MISSPELT},
    {"type": ["string", "array"], "properties": {"a": MISSPELT}},
    {"type": "string", "format": "nonsense"},
    {"type": "string", "format": "nonsense", "pattern": "^a"},
    {"type": "array", "uniqueItems": True, "items": {"type": "string", **MISSPELT}},
    {"format": "nonsense"},
    {"type": "integer", "format": "nonsense"},
    {"type": "integer", "minimum": 1, "format": "nonsense"},
    {"type": ["string", "null"], "format": "nonsense"},
    {"type": "object", "format": "nonsense"},
    {"enum": [1], "items": MISSPELT},
    {"$defs": {"a": MISSPELT}},
    {"$defs": {"a": {"properties": {"b": {"items": [MISSPELT]}}}}},
    {"$defs": {"a": {"anyOf": [{}, {"allOf": [MISSPELT]}]}}},
    {"$defs": {"a": {"$defs": {"b": MISSPELT}}}},
    {"$defs": {"a": {"format": "nonsense"}}},
    {"$defs": {"a": {"then": {}}}},
    {"$defs": {"a": {"contentSchema": MISSPELT}}},
    {"$defs": {"a": {"x-guidance": {}}}},
    {"$defs": {"a": {"$id": "https://example.com/a", "$schema": "http://json-schema.org/draft-06/schema#", "prefixItems": [{}]}}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}, "b": {"not": MISSPELT}}},
    {"$ref": "#/$defs/a/items", "$defs": {"a": {"items": {"type": "null"}, **MISSPELT}}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$defs": {"b": MISSPELT}, "type": "null"}}},
    {"definitions": {"a": {"type": "null"}}, "items": {"definitions": {"b": MISSPELT}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": MISSPELT}, "type": "object"},
    {"$schema": "http://json-schema.org/draft-07/schema#", "items": {}, "additionalItems": MISSPELT},
    {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "definitions": {"a": {}}, "type": "object"},
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"a": {"$ref": "#/definitions/a", "description": "x", "minLength": 1}},
        "definitions": {"a": {"type": "string"}},
    },
    {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$ref": "#", "minLength": 1}}},
    {"$schema": "https://example.com/none"},
    {"then": {}},
    {"type": "array", "maxContains": 1},
    {"contentSchema": MISSPELT},
    {"anyOf": [{"type": "object", "properties": {"a": MISSPELT}}, {"type": "null"}]},
    {"anyOf": [{"type": "null"}, {"const": 1}], "$defs": {"a": MISSPELT}},
    {"type": "object", "anyOf": [{"properties": {"a": MISSPELT}}, {"required": ["a"]}]},
    {"type": "object", "anyOf": [{"items": MISSPELT}, {"required": ["a"]}]},
    {"oneOf": [{"type": "null"}, {"type": "array", "items": MISSPELT}]},
    {"allOf": [MISSPELT]},
    {"allOf": [{"items": MISSPELT}, {"type": "array"}]},
    {"not": {"items": MISSPELT}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {"b": MISSPELT}}}},
    {"$id": "https://example.com/a", "properties": {"a": {"$id": "b", "items": MISSPELT}}},
    {"properties": {"a": {"$id": "b", "$schema": "http://json-schema.org/draft-06/schema#", "items": {"prefixItems": [{}]}}}},
    {"patternProperties": {"a": MISSPELT}},
)


@pytest.mark.parametrize("schema", DOUBTFUL_PLACES, ids=json.dumps)
def test_a_note_is_found_wherever_it_stands(schema: Any) -> None:
    """A compilation may say that there are no notes only where the search for them would find none."""
    expected = Report(Registry(schema)).messages
    assert expected
    assert json_schema_grammar(schema)[1].messages == expected
    report = json_schema_grammar(schema, format="annotate")[1]
    assert report.messages == Report(Registry(schema), formats=False).messages


@pytest.mark.untraced
@pytest.mark.parametrize("block", range(4))
def test_notes_in_random_places(block: int) -> None:
    """The same, for a misspelt keyword in each subschema of random schemas, also deep ones, in two of them, and in none."""
    for seed in range(block * 60, block * 60 + 60):
        schema, choose = Schemas(seed).root(), random.Random(seed)
        for _ in range((seed % 3 == 0) * 40):
            schema = {"type": "array", "items": schema} if seed % 2 else {"properties": {"a": schema}}
        spots = list(mappings(schema))
        for chosen in [[], *([spot] for spot in spots), *([spot, choose.choice(spots)] for spot in spots)]:
            for spot in chosen:
                spot["minimun"] = {}
            try:
                report = json_schema_grammar(schema)[1]
            except StackmaskError:
                pass
            else:
                assert report.messages == Report(Registry(schema)).messages
                assert report.warnings == tuple(entry for entry in report.entries if entry.is_warning)
            for spot in chosen:
                spot.pop("minimun", None)


def test_the_search_for_notes_ends_behind_the_last_place() -> None:
    """A compilation that knows which subschemas may have notes saves the walk through all behind these, and the look at all others."""
    schema: Any = {"minimun": 1, "properties": {"a": {"requird": []}, "b": {"maxlength": 1}}}
    inner = schema["properties"]["a"]
    one, two, nowhere = {id(schema)}, {id(schema), id(inner)}, {0}
    for noted, count in (
        (NOTHING_NOTED, 0),
        (Noted(one, set()), 1),
        (Noted(two, set()), 2),
        (Noted(two, two), 2),
        (Noted(two, one), 2),
        (Noted(nowhere, nowhere), 0),
        (None, 3),
    ):
        assert len(Report(Registry(schema), noted=noted).messages) == len(Report(Registry(schema), noted=noted).warnings) == count
    unknown = Report(Registry({"$schema": "http://nowhere/"}), noted=NOTHING_NOTED)
    assert unknown.messages == ("/$schema: unknown dialect 'http://nowhere/'; read as draft 2020-12",)


WRONG: dict[str, Any] = {"type": "integer", "minimun": 1}
NESTED: dict[str, Any] = {"properties": {"y": WRONG}, "type": "object"}
SHARED: dict[str, Any] = {"type": "string", "maxlength": 1}


def deep(levels: int) -> dict[str, Any]:
    """A misspelt keyword that deep."""
    schema = dict(WRONG)
    for level in range(levels):
        schema = {"type": "array", "items": schema} if level % 2 else {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}, "b": NESTED, "c": {"items": WRONG, "type": "array"}}},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": WRONG},
        {"type": "array", "prefixItems": [NESTED], "items": {"anyOf": [{"type": "null"}, {"oneOf": [NESTED]}]}},
        {"$ref": "#/$defs/X", "$defs": {"X": NESTED, "unused": {"type": "null"}}},
        {"$ref": "#/$defs/X", "$defs": {"X": {"type": "null"}, "unused": NESTED}},
        {"$ref": "#/$defs/X", "$defs": {"X": {"$ref": "#/$defs/Y"}, "Y": {"type": "array", "items": NESTED}}},
        {"$ref": "#/$defs/X/properties/y", "$defs": {"X": NESTED}},
        {"properties": {"a": {"$ref": "#/$defs/X/properties/y"}}, "$defs": {"X": {"type": "null", "properties": {"y": WRONG}}}},
        {"$ref": "#y", "$defs": {"X": {"properties": {"y": {**WRONG, "$anchor": "y"}}}}},
        {"$dynamicRef": "#y", "$defs": {"X": {"properties": {"y": {**WRONG, "$dynamicAnchor": "y"}}}}},
        {"properties": {"a": {"$ref": "http://a/b"}}, "$defs": {"X": {"$id": "http://a/b", "items": WRONG}}},
        {"allOf": [{"$ref": "#/$defs/X/properties/y"}, {"not": {"const": 1}}], "$defs": {"X": NESTED}},
        {"not": {"type": "string"}, "properties": {"a": {"$ref": "#/$defs/X/properties/y"}}, "$defs": {"X": NESTED}},
        {
            "allOf": [{"$ref": "#/$defs/X/properties/z"}],
            "properties": {"b": {}},
            "type": "object",
            "$defs": {"X": {"properties": {"z": NESTED}}},
        },
        {"type": "string", "items": NESTED, "properties": {"b": WRONG}},
        {"properties": {"a": {"type": "string", "maxItems": 1, "formats": ""}}},
        {"properties": {"a": {"type": "string", "format": "unheard-of"}, "b": {"type": "string", "minContains": 1}}},
        {"properties": {"a": {"then": NESTED}, "b": {"enum": [1], "description": "x", "then": {}}}},
        {"type": "object", "properties": {"b": {"contains": WRONG, "type": "array", "uniqueItems": True}}},
        {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2], "minimun": 1}},
        {"definitions": {"a": {"definitions": {"b": NESTED}}}, "type": "object"},
        {"properties": {"a": {"$defs": {"b": NESTED}, "type": "object"}}, "type": "object"},
        {"type": "object", "$defs": {"X": {"items": SHARED}}, "properties": {"a": {"items": SHARED, "type": "array"}}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"a": {"$ref": "#/definitions/X", "minimum": 1}},
            "definitions": {"X": NESTED},
        },
        {"dependencies": {"a": NESTED}, "properties": {"b": WRONG}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "dependencies": {"a": ["b"], "c": NESTED},
            "properties": {"b": WRONG},
        },
        {"properties": {"o": {"type": "object", "properties": {"a": {"$defs": {"b": NESTED}, "type": "object"}}}}},
        {"properties": {"o": {"type": "object", "properties": {"a": {"type": "string", "items": NESTED}}}}},
        {"type": "string", "minLength": 1, "items": NESTED},
        {"type": "array", "uniqueItems": True, "minItems": 2, "prefixItems": [{}, {"type": "boolean", "minimun": 1}]},
        {"type": "array", "uniqueItems": True, "minItems": 2, "prefixItems": [{}, {"enum": [2]}], "maxItems": 2, "items": NESTED},
        {"properties": {"a": {"anyOf": [NESTED, {"type": "null"}]}}},
        {"properties": {"a": {"not": NESTED}}},
        {"type": "object", "anyOf": [{"required": ["a"], "items": NESTED}, {"required": ["b"]}]},
        {"$ref": "#/$defs/X", "$defs": {"X": {"not": NESTED}}},
        deep(20),
        deep(80),
        {"anyOf": [{"properties": {"a": deep(40)}}, {"not": {"properties": {"a": deep(40)}}}]},
        {"$ref": "#/$defs/X/items/properties/a", "$defs": {"X": deep(40)}},
        {"patternProperties": {"a": {"$ref": "#/$defs/X/properties/y"}}, "allOf": [{"$ref": "#/$defs/X"}], "$defs": {"X": NESTED}},
        {"not": {"type": "null", "minimun": 1, "javaType": "x"}},
        {"type": "object", "properties": {"a": SHARED, "b": SHARED, "c": WRONG}},
        {"$schema": "http://nowhere/", "minimun": 1},
        {"type": "object", "properties": {"a/b": {"minimun": 1}, "~": {"maximun": 1}, "c": {"requird": 1}}},
    ],
)
def test_the_ways_to_notes(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compilation knows the ways to all places that a search of the whole schema finds; where it did not, that search would find them."""
    expected = Report(Registry(schema)).messages
    assert expected
    report = json_schema_grammar(schema)[1]
    noted = report._noted
    assert noted is not None
    assert Report(Registry(schema), noted=Noted(noted.places, frozenset())).messages == expected
    monkeypatch.setattr(report_module, "_search", None)
    assert report.messages == expected


def test_notes_deeper_than_all_that_is_listed() -> None:
    """A report lists nothing that lies deeper, whether or not the way there is known."""
    schema = {"properties": {"a": {"minimun": 1}, "b": deep(DEEPEST + 10)}}
    messages = json_schema_grammar(schema)[1].messages
    assert messages == Report(Registry(schema)).messages
    assert len(messages) == 1


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object in a value."""
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from mappings(part)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": "object", "properties": {"a": {"type": "string", "format": "date"}, "b": {"type": "array", "items": {"type": "number"}}}},
        {"anyOf": [{"type": "null"}, {"type": "object", "additionalProperties": {"enum": [1, "a"]}}], "title": "t"},
        {"$id": "https://example.com/a", "type": ["integer", "null"], "minimum": 0},
        {"type": "object", "properties": {"a": {"x-order": 1, "type": "null"}}, "markdownDescription": "a"},
        {
            "properties": {"a": {"$ref": "#/$defs/a"}, "b": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"type": "null"}},
        },
        {
            "type": "null",
            "$defs": {"a": {"properties": {"b": {"items": [{"type": "null"}]}}, "anyOf": [{"format": "date"}]}, "b": True, "c": {}},
        },
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/a",
            "description": "a",
            "definitions": {"a": {"type": "null"}, "b": {"$ref": "#/definitions/a", "title": "b"}},
        },
        {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
    ],
    ids=json.dumps,
)
def test_most_schemas_are_not_searched_for_notes(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their compilation has seen every keyword of every subschema."""
    monkeypatch.setattr(report_module, "_notes", None)
    assert json_schema_grammar(schema)[1].messages == ()


@pytest.mark.parametrize("property_order", ["schema", "any"])
@pytest.mark.parametrize("schema", OBJECTS, ids=json.dumps)
def test_keys_that_may_come_twice(schema: Any, property_order: str) -> None:
    """The report has an entry where the grammar takes a key twice that the schema does not name, and none where keys differ."""
    texts = ['{"b":1,"b":2}', '{"a":1,"b":1,"b":2}', '{"a":1,"c":1,"b":1,"b":2}', '{"c":1,"b":1,"b":2}', '{"b":1,"d":1,"d":2}']
    texts += ['{"a":1,"b":1,"c":1,"d":1,"d":2}', '{"c":1,"b":1,"d":1,"d":2}']
    for distinct_keys in (False, True):
        options: dict[str, Any] = {"property_order": property_order, "distinct_keys": distinct_keys}
        grammar, report = json_schema_grammar(schema, **options)
        taken = [text for text in texts if generates(grammar, text)]
        noted = [entry for entry in report if entry.status == ALLOWED]
        assert not distinct_keys or not (taken or noted)
        # Subschemas that apply together may tell keys apart, or name them, where one of them alone does not.
        assert bool(noted) == bool(taken) or (noted and "if" in schema), (taken, noted)
        assert {entry.note for entry in noted} <= {REPEATED_KEYS}
        assert not report.warnings
        once = generates(json_schema_grammar(schema, property_order=property_order)[0], '{"a":1,"c":1,"b":1}')
        assert generates(grammar, '{"a":1,"c":1,"b":1}') == once


@pytest.mark.parametrize(
    ("schema", "pointers"),
    [
        ({"type": "object", "properties": {"a": FREE, "b/c": {}}, "additionalProperties": False}, ["/properties/a", "/properties/b~1c"]),
        ({"type": "array"}, [""]),
        ({"type": "array", "items": FREE}, ["/items"]),
        ({"type": "array", "items": INTEGER}, []),
        ({"type": "array", "prefixItems": [INTEGER]}, [""]),
        ({"type": "array", "prefixItems": [INTEGER], "items": False}, []),
        ({"type": "array", "maxItems": 0}, []),
        ({"type": "array", "unevaluatedItems": False}, []),
        ({"properties": {"not": FREE}, "not": FREE, "type": "object", "additionalProperties": False}, ["/properties/not"]),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "array", "items": [INTEGER]}, [""]),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "array", "items": [INTEGER], "additionalItems": False}, []),
    ],
)
def test_places_that_leave_keys_free(schema: Any, pointers: list[str]) -> None:
    """Each subschema that leaves keys or items free is an entry at its pointer."""
    report = json_schema_grammar(schema)[1]
    assert [entry.pointer for entry in report if entry.status == ALLOWED] == pointers


def test_closed_objects_leave_no_key_free() -> None:
    """Where objects are read as closed, those that declare properties have no other keys."""
    schema = {"type": "object", "properties": {"a": FREE, "b": {"type": "object", "properties": {"c": INTEGER}}}}
    for extra_properties, pointers in (("schema", ["", "/properties/a", "/properties/b"]), ("closed", ["/properties/a"])):
        report = json_schema_grammar(schema, extra_properties=extra_properties)[1]
        assert [entry.pointer for entry in report if entry.status == ALLOWED] == pointers
    schema["properties"]["b"] = {"type": "object", "properties": {"c": {"type": "string", "pattern": r"^(.)\1$"}}}
    report = json_schema_grammar(schema, extra_properties="closed", lenient=True)[1]
    assert [entry.pointer for entry in report if entry.status == ALLOWED] == ["/properties/a"]
    assert [entry.pointer for entry in report.approximated] == ["/properties/b/properties/c/pattern"]
