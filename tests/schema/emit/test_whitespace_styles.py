"""Blanks as JSON printers write them."""

import json

import pytest

from stackmask import Compiler, SchemaError, Vocabulary

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


def test_a_wrong_name(compiler):
    """The error names the styles."""
    with pytest.raises(SchemaError, match="'flexible', 'compact', 'single', 'printed' or a regex"):
        compiler.json_schema({}, whitespace="pretty")
