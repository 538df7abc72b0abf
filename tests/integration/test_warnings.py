"""What has no effect in a schema is said: as a warning in Python, in answers of the server, on the command line, or as an error."""

import json
import warnings

import pytest

import stackmask
from stackmask import Compiler, SchemaError, StackmaskWarning, Vocabulary
from stackmask.integration.cli import main
from stackmask.integration.compiler import compiler as compiler_module

VOCABULARY = Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], stop_token_ids=[256], size=257)
ODD = {"type": "object", "requried": ["a"], "properties": {"a": {"type": "string", "format": "dat"}}}
SAID = ['/requried: unknown keyword; did you mean "required"?', "/properties/a/format: unknown format 'dat'"]


@pytest.fixture
def compiler():
    return Compiler(VOCABULARY)


def test_misspelt_keywords_and_unknown_formats_warn(compiler):
    """One warning each, at the caller's line, whether the grammar was there before or not."""
    for _ in range(2):
        with pytest.warns(StackmaskWarning) as caught:
            grammar = compiler.json_schema(ODD)
        assert [str(warning.message) for warning in caught] == SAID == list(grammar.warnings)
        assert {warning.filename for warning in caught} == {__file__}


def test_nothing_is_said_of_what_means_something(compiler):
    """Annotations, extensions and formats that are known or switched off are no reason to warn."""
    assert compiler.json_schema({"type": "string", "title": "t", "x-order": 3, "format": "date"}).warnings == ()
    assert compiler.json_schema({"format": "dat"}, format="annotate").warnings == ()
    assert compiler.regex("a").warnings == ()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"then": True}, "/then: no effect without if"),
        ({"minContains": 2}, "/minContains: no effect without contains"),
        ({"items": {"dependencies": {}, "divisibleBy": 2}}, "/items/dependencies: no keyword of 2020-12"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "type": "string", "definitions": {"a": True}},
         "/type: ignored beside $ref in draft7"),
        ({"$schema": "https://example.org/unknown"}, "/$schema: unknown dialect"),
        ({"items": {"x-guidance": {}}}, "/items/x-guidance: read in the root of a schema only"),
        ({"anyOf": [{"maxLenght": 3}]}, '/anyOf/0/maxLenght: unknown keyword; did you mean "maxLength"?'),
    ],
)  # fmt: skip
def test_every_note_of_the_report_is_a_warning(compiler, schema, message):
    """Whatever the report notes is said."""
    with pytest.warns(StackmaskWarning) as caught:
        compiler.json_schema(schema)
    assert str(caught[0].message).startswith(message)


def test_the_same_at_several_places_is_said_once(compiler):
    """A keyword that is misspelt everywhere is one warning with the number of places; another spelling is a second one."""
    properties = {name: {"readonly": True} for name in "abcd"} | {"e": {"format": "dat"}, "f": {"format": "dat"}, "g": {"format": "dta"}}
    said = [
        '/properties/a/readonly and 3 other places: unknown keyword; did you mean "readOnly"?',
        "/properties/e/format and 1 other place: unknown format 'dat'",
        "/properties/g/format: unknown format 'dta'",
    ]
    with pytest.warns(StackmaskWarning) as caught:
        grammar = compiler.json_schema({"properties": properties})
    assert [str(warning.message) for warning in caught] == said == list(grammar.warnings)
    with pytest.raises(SchemaError) as error:
        compiler.json_schema({"properties": properties}, strict_keywords=True)
    assert str(error.value).splitlines()[1:] == [f"  {line}" for line in said]


def test_texts_of_clients_are_not_kept(compiler):
    """A message is printed once where it comes again, but only so many are remembered, and none in the module that is warned."""
    printed = []
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_: printed.append(str(message))
        for _ in range(3):
            for number in range(50):
                compiler.json_schema({"properties": {f"a{number}": {"requried": []}}})
        assert len(printed) == 50
        for number in range(1_000):
            compiler.json_schema({"properties": {f"b{number}": {"requried": []}}})
            assert sum(map(len, compiler_module._PRINTED.values())) <= 1_000
        assert len(printed) == 1_050
        compiler.json_schema({"properties": {"b999": {"requried": []}}})
        assert len(printed) == 1_051, "another line"
    assert not any("requried" in str(key) for key in globals().get("__warningregistry__", {}))


def test_very_many_warnings_and_long_pointers(compiler):
    """One schema issues a hundred; a message has the beginning and the end of a long pointer, and the report the whole."""
    with pytest.warns(StackmaskWarning) as caught:
        grammar = compiler.json_schema({"properties": {f"a{number}": {"format": f"dat{number}"} for number in range(250)}})
    assert [str(warning.message) for warning in caught] == [
        *grammar.warnings[:100],
        "and 150 other warnings, which `grammar.warnings` lists",
    ]
    assert len(grammar.warnings) == 250
    assert {warning.filename for warning in caught} == {__file__}
    long = "k" * 1_000
    with pytest.warns(StackmaskWarning) as caught:
        grammar = compiler.json_schema({"properties": {long: {"requried": []}}})
    (message,) = {str(warning.message) for warning in caught}
    assert message == f'/properties/{"k" * 188}...{"k" * 191}/requried: unknown keyword; did you mean "required"?'
    assert f"/properties/{long}/requried" in [entry.pointer for entry in grammar.report.entries]


def test_strict_keywords(compiler):
    """The warnings are errors, all in one; a schema without any compiles."""
    with pytest.raises(SchemaError) as caught:
        compiler.json_schema(ODD, strict_keywords=True)
    assert str(caught.value) == "keywords without effect, which strict_keywords refuses:\n  " + "\n  ".join(SAID)
    assert compiler.json_schema({"type": "string"}, strict_keywords=True).warnings == ()
    with pytest.raises(SchemaError, match="one of them"):
        compiler.json_schema({}, strict_keywords=True, lenient=True)


def test_what_lenient_leaves_out_is_a_warning(compiler):
    """A keyword that cannot be exact is said, beside its entry in the report."""
    with pytest.warns(StackmaskWarning, match="^/pattern: "):
        grammar = compiler.json_schema({"type": "string", "pattern": r"(a)\1"}, lenient=True)
    assert grammar.report.approximated


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"name": "person", "schema": {"type": "object"}}, "OpenAI's wrapper around a schema, .*: pass the value of schema$"),
        ({"name": "p", "schema": {}, "strict": True}, 'pass the value of schema, and extra_properties="closed" for "strict": true'),
        ({"type": "json_schema", "name": "p", "schema": {}}, "OpenAI's wrapper around a schema"),
        ({"type": "json_schema", "json_schema": {"name": "p", "schema": {}}}, "response_format, .*: pass the value of json_schema.schema"),
        ({"type": "function", "function": {"name": "f", "parameters": {}}}, "definition of a tool.* function.parameters"),
        ({"type": "function", "name": "f", "parameters": {}}, "definition of a function.* pass the value of parameters"),
        ({"name": "Anna", "age": 31}, "no member of the object is a keyword of JSON Schema: 'name', 'age'; this looks like an instance"),
        ({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}, "'d', 'e', ...;"),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_an_error(compiler, schema, message):
    """The error says what it is and what to pass instead."""
    with pytest.raises(SchemaError, match=message):
        compiler.json_schema(schema)


@pytest.mark.parametrize("schema", [{}, {"x-order": 1}, {"title": "any"}, {"properties": {"schema": True, "name": True}}, {"$comment": ""}])
def test_what_is_a_schema_compiles(compiler, schema):
    """Annotations and extensions are enough."""
    assert compiler.json_schema(schema).matcher().accept_bytes(b"{")


class TestGuidance:
    """x-guidance."""

    @pytest.mark.parametrize(
        ("options", "takes", "refuses"),
        [
            ({"whitespace_flexible": False}, b'{"a":1}', b'{ "a":1}'),
            ({"whitespace_flexible": True, "coerce_one_of": True}, b'{ "a":\n1}', b"[]"),
            ({"whitespace_pattern": "[ ]?", "whitespace_flexible": False}, b'{ "a":1}', b'{  "a":1}'),
            ({"item_separator": ",", "key_separator": ":"}, b'{"a": 1}', b"[]"),
        ],
    )
    def test_is_honoured(self, compiler, options, takes, refuses):
        """The options that have a meaning here have an effect."""
        matcher = compiler.json_schema({"type": "object", "x-guidance": options}).matcher()
        assert matcher.explain(takes).accepted and not matcher.explain(refuses).accepted

    @pytest.mark.parametrize("whitespace", ["printed", "flexible"])
    @pytest.mark.parametrize(
        ("options", "takes", "refuses"),
        [
            ({}, b'{"a": 1}', b"[]"),
            ({"whitespace_flexible": False}, b'{"a":1}', b'{"a": 1}'),
            ({"whitespace_flexible": True}, b'{"a":  1}', b"[]"),
            ({"whitespace_pattern": "\\t?"}, b'{"a":\t1}', b'{"a": 1}'),
        ],
    )
    def test_inside_a_lark_grammar(self, compiler, whitespace, options, takes, refuses):
        """What stands behind %json, or has a name, has options of its own; they win over those of the grammar around it."""
        schema = json.dumps({"type": "object", "x-guidance": options})
        texts = (
            f'start: "<" %json {schema} ">"',
            json.dumps({"grammars": [{"lark_grammar": 'start: "<" @a ">"'}, {"name": "a", "json_schema": json.loads(schema)}]}),
        )
        for text in texts:
            matcher = compiler.lark(text, whitespace=whitespace).matcher()
            assert matcher.explain(b"<" + takes + b">").accepted and not matcher.explain(b"<" + refuses + b">").accepted

    def test_two_whitespaces_inside_a_lark_grammar(self, compiler):
        """Each part has its own."""
        compact = {"x-guidance": {"whitespace_flexible": False}}
        matcher = compiler.lark(f"start: %json {{}} %json {json.dumps(compact)}").matcher()
        assert matcher.explain(b"[1, 2][1,2]").accepted and not matcher.explain(b"[1,2][1, 2]").accepted

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"max_items": 3}, "/x-guidance/max_items: unknown option; available: whitespace_flexible, "),
            ({"whitespace_pattern": "x"}, "a regex that matches nothing but blanks"),
        ],
    )
    def test_is_refused_inside_a_lark_grammar(self, compiler, options, message):
        """By name, as in a schema by itself."""
        with pytest.raises(SchemaError, match=message):
            compiler.lark(f"start: %json {json.dumps({'x-guidance': options})}")

    def test_lenient_inside_a_lark_grammar(self, compiler):
        """What cannot be exact is left out there too, and an error without the option."""
        schema = {"type": "string", "pattern": r"(a)\1"}
        with pytest.raises(SchemaError):
            compiler.lark(f"start: %json {json.dumps(schema)}")
        lenient = json.dumps({**schema, "x-guidance": {"lenient": True}})
        assert compiler.lark(f"start: %json {lenient}").matcher().explain(b'"b"').accepted

    def test_lenient(self, compiler):
        """As the option of that name."""
        schema = {"type": "string", "pattern": r"(a)\1", "x-guidance": {"lenient": True}}
        with pytest.warns(StackmaskWarning):
            assert compiler.json_schema(schema).report.approximated

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (3, "^/x-guidance: must be an object, not 3"),
            ({"max_items": 3}, "^/x-guidance/max_items: unknown option; available: whitespace_flexible, "),
            ({"lenient": 1}, "^/x-guidance/lenient: must be true or false, not 1"),
            ({"whitespace_pattern": 1}, "^/x-guidance/whitespace_pattern: must be a regex, not 1"),
            ({"item_separator": ", "}, "^/x-guidance/item_separator: ', ' is not supported, only ',' with blanks"),
        ],
    )
    def test_is_refused_by_name(self, compiler, options, message):
        """What has no meaning here is an error with its place."""
        with pytest.raises(SchemaError, match=message):
            compiler.json_schema({"x-guidance": options})

    def test_two_whitespaces(self, compiler):
        """A schema and a caller that ask for different blanks are a contradiction."""
        schema = {"x-guidance": {"whitespace_flexible": False}}
        with pytest.raises(SchemaError, match="its whitespace is 'compact', but whitespace="):
            compiler.json_schema(schema, whitespace="[ ]?")
        assert compiler.json_schema(schema, whitespace="compact")


class TestCommandLine:
    """stackmask check and generate."""

    def test_a_line_for_each(self, capsys, tmp_path):
        """Warnings go to standard error."""
        path = tmp_path / "odd.json"
        path.write_text(json.dumps(ODD))
        assert main(["check", "--json-schema", str(path), "--quiet"]) == 0
        assert capsys.readouterr().err == "".join(f"warning: {path}: {line}\n" for line in SAID)

    def test_strict(self, capsys, tmp_path):
        """--strict-keywords refuses the schema."""
        path = tmp_path / "odd.json"
        path.write_text(json.dumps(ODD))
        assert main(["check", "--json-schema", str(path), "--strict-keywords"]) == 2
        assert 'did you mean "required"?' in capsys.readouterr().err


def test_generate_warns_and_takes_the_option(model):
    """`generate` warns at its caller's line; `strict_keywords` is one of its options."""
    model, tokenizer = model
    with pytest.warns(StackmaskWarning) as caught:
        stackmask.generate(model, tokenizer, "x", json_schema={"type": "null", "requried": []}, max_tokens=5)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.raises(SchemaError, match="strict_keywords"):
        stackmask.generate(model, tokenizer, "x", json_schema={"type": "null", "requried": []}, strict_keywords=True)


def test_threads_of_the_compiler_do_not_warn(compiler):
    """Engines and servers read `warnings` of the grammar instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiler.submit("json_schema", ODD).result().warnings == tuple(SAID)
