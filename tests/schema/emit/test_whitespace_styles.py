"""Blanks as JSON printers write them."""

import json

import pytest

from stackmask import Compiler, SchemaError, StructuralTagError, Vocabulary
from stackmask.schema.emit.json_parts import Separators

VALUE = {"a": [1, {"b": None}, []], "c": {}, "d": {"e": "x"}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "array"}, "c": True, "d": {"type": "object"}}, "required": ["a"]}


@pytest.fixture(scope="module")
def compiler():
    return Compiler(Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], stop_token_ids=[256], size=257))


def accepts(compiler, whitespace, text, schema=SCHEMA):
    """Whether a text is one of the schema."""
    matcher = compiler.json_schema(schema, whitespace=whitespace).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_completed()


@pytest.mark.parametrize("schema", [SCHEMA, True])
def test_what_printers_write(compiler, schema):
    """Both take compact text and that of `json.dumps`; "printed" takes every indentation."""
    for style in ("single", "printed"):
        assert accepts(compiler, style, json.dumps(VALUE), schema)
        assert accepts(compiler, style, json.dumps(VALUE, separators=(",", ":")), schema)
    for indent in (0, 1, 2, 4, 8, "\t"):
        text = json.dumps(VALUE, indent=indent)
        assert accepts(compiler, "printed", text, schema) and not accepts(compiler, "single", text, schema)
        assert accepts(compiler, "printed", text.replace("\n", "\r\n"), schema)
    assert accepts(compiler, "printed", '{ "a" : [ 1, 2 ] }', schema) and not accepts(compiler, "single", '{ "a": []}', schema)


@pytest.mark.parametrize(
    "text", ['{"a":  []}', '{"a": [1,  2]}', '{  "a": []}', '{"a": [1 ,2]}', '{\n\n"a": []}', '{"a":\n[]}', '{"a": [\n \n]}', ' {"a": []}']
)
def test_no_padding(compiler, text):
    """Two blanks in a row, empty lines and blanks before a comma are refused, though they are JSON."""
    assert not accepts(compiler, "printed", text) and not accepts(compiler, "single", text)
    assert accepts(compiler, "flexible", text) == (text[0] != " ")


@pytest.mark.parametrize(
    "text", ['{"a" : [ ], "c" : { }}', '{\n\t"a": [],\n\t"c": 1.5\n}', '{ "a": [ 1 ] }', '{\r\n   "a" : [\r\n   ]\r\n}']
)
def test_other_printers(compiler, text):
    """Printers of other languages put a blank before a colon or inside of brackets, and end lines in either way."""
    assert accepts(compiler, "printed", text) and json.loads(text)


@pytest.mark.parametrize("pair", [(", ", ": "), (",", ":"), ("\r\n,", "\t: ")])
def test_fixed_separators(compiler, pair):
    """The texts that `json.dumps` writes with them, and no others."""
    every = [json.dumps(VALUE, separators=other) for other in ((", ", ": "), (",", ":"), ("\r\n,", "\t: "), (", ", ":"), (",", ": "))]
    every += [every[0].replace("{}", "{ }"), every[1].replace("{}", "{ }"), json.dumps(VALUE, indent=2)]
    for schema in (SCHEMA, True):
        assert [accepts(compiler, Separators(*pair), text, schema) for text in every] == [
            text == json.dumps(VALUE, separators=pair) for text in every
        ]
    found = compiler.json_schema(SCHEMA, whitespace=Separators(",", ":")).matcher().explain(b'{ "a": []}').reasons
    assert found == (
        "the text: more blanks than whitespace=Separators(item=',', key=':') allows; whitespace=\"flexible\" allows 40 in a gap",
    )


@pytest.mark.parametrize("pair", [(";", ":"), (",", ""), ("\xa0,", ":"), (",", 1)])
def test_wrong_separators(compiler, pair):
    """What is no JSON is an error."""
    with pytest.raises(SchemaError, match="separators must be , and : with blanks of JSON around them, not "):
        compiler.json_schema(SCHEMA, whitespace=Separators(*pair))


def test_the_default(compiler):
    """Without the option, JSON is printed: schemas, any JSON, and what a Lark grammar asks for."""
    assert compiler.json_schema(SCHEMA) is compiler.json_schema(SCHEMA, whitespace="printed")
    assert compiler.json() is compiler.json(whitespace="printed")
    for grammar in (compiler.json(), compiler.lark("start: %json {}"), compiler.lark("start: %json {}", whitespace="single")):
        assert grammar.matcher().accept_bytes(b"[1, 2]") and not grammar.matcher().accept_bytes(b"[1,  2]")
    assert compiler.lark("start: %json {}", whitespace="flexible").matcher().accept_bytes(b"[1,  2]")
    with pytest.raises(SchemaError, match="whitespace must be a string, not 1"):
        compiler.lark("start: %json {}", whitespace=1)


@pytest.mark.parametrize(
    ("option", "texts"),
    [
        ({}, ["[1,2]", "[1,  2]"]),
        ({"whitespace": "flexible"}, ["[1,2]", "[1,  2]"]),
        ({"whitespace": "printed"}, ["[1, 2]", "[\n  1,\n  2\n]"]),
        ({"whitespace": "single"}, ["[1, 2]"]),
        ({"whitespace": "compact"}, ["[1,2]"]),
        ({"whitespace": "\\t?"}, ["[\t1,\t2]"]),
    ],
)
def test_in_a_tag(compiler, option, texts):
    """A format of a structural tag takes the option too; without it, it takes any blanks, as other engines do."""
    grammar = compiler.structural_tag({"type": "json_schema", "json_schema": {"const": [1, 2]}, **option})
    every = ["[1,2]", "[1, 2]", "[1,  2]", "[\n  1,\n  2\n]", "[\t1,\t2]"]
    found = [text for text in every if (at := grammar.matcher()).accept_bytes(text.encode()) and at.is_completed()]
    assert set(texts) <= set(found)
    if option:
        plain = compiler.json_schema({"const": [1, 2]}, **option)
        assert found == [text for text in every if plain.matcher().accept_bytes(text.encode())]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"whitespace": "pretty"}, "whitespace: whitespace must be 'flexible', 'compact', 'single', 'printed' or a regex"),
        ({"whitespace": "("}, "whitespace: "),
        ({"whitespace": 1}, "whitespace: must be a string, not "),
        ({"whitespace": "single", "max_whitespace_cnt": 1}, "whitespace: goes with the style json only, and without max_whitespace_cnt"),
        ({"whitespace": "single", "style": "qwen_xml"}, "whitespace: goes with the style json only, and without max_whitespace_cnt"),
    ],
)
def test_wrong_options_of_a_tag(compiler, fields, message):
    """The error names the field."""
    with pytest.raises(StructuralTagError) as caught:
        compiler.structural_tag({"type": "json_schema", "json_schema": {"type": "object"}, **fields})
    assert message in str(caught.value)


def test_a_wrong_name(compiler):
    """The error names the styles."""
    with pytest.raises(SchemaError, match="'flexible', 'compact', 'single', 'printed' or a regex"):
        compiler.json_schema({}, whitespace="pretty")
