"""The facade compiles each specification once, for all threads, keeps it within bounds, and writes grammars to bytes and back."""

import contextlib
import dataclasses
import enum
import gc
import hashlib
import itertools
import json
import pickle
import random
import signal
import struct
import sys
import threading
import time
import tracemalloc
import warnings
from collections import OrderedDict, defaultdict
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from support.pace import as_quick_as, ordinary_compilation

import stackmask
from stackmask.integration.compiler import CompiledGrammar, Compiler, jobs
from stackmask.integration.compiler import compiler as compilers
from stackmask.integration.compiler.cache import Cache
from stackmask.integration.compiler.cache_key import _plain_key, schema_key, schema_of_key
from stackmask.integration.compiler.serialization import from_bytes, to_bytes
from stackmask.pda import grammar as ir
from stackmask.pda.exceptions import (
    GrammarError,
    LarkError,
    LimitError,
    RegexError,
    SchemaError,
    StackmaskError,
    StructuralTagError,
    UnsatisfiableError,
    UnsupportedSchemaError,
)
from stackmask.pda.grammar import Grammar, GrammarBuilder, memory_of
from stackmask.pda.limits import Limits
from stackmask.pda.regex import regex_grammar
from stackmask.pda.vocabulary import Vocabulary
from stackmask.schema.dialect.pointers import check_schema_size
from stackmask.schema.dialect.serialiser import surely_fits
from stackmask.schema.json_schema import json_schema_grammar

STOP, NAMED = 256, 257
TOKENS = [*(bytes([byte]) for byte in range(256)), None, None, b'{"', b'": ', b"true", b"fal", b"12"]
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}, "name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.from_bytes(TOKENS, stop_token_ids=[STOP], special={"<call>": NAMED}, size=320)


@pytest.fixture
def compiler(vocabulary):
    return Compiler(vocabulary)


def accepts(grammar, text):
    """Whether a text is in the language."""
    matcher = grammar.matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_completed()


def test_every_kind(compiler):
    """Each method compiles its kind of specification."""
    assert accepts(compiler.json_schema(SCHEMA, whitespace="compact"), '{"age":3,"name":"x"}')
    assert accepts(compiler.json(), '[1, {"a": null}]')
    assert accepts(compiler.regex("a+b"), "aab")
    assert accepts(compiler.ebnf('start ::= "x" start | "y"', root="start"), "xxy")
    assert accepts(compiler.lark('top: "x" top | %json {"type": "boolean"}', start="top"), "xxtrue")
    assert accepts(compiler.choice(["yes", "no"]), "no")
    assert not accepts(compiler.choice(["yes", "no"]), "n")


def test_named_grammars(compiler):
    """A Lark text knows others as @name: Lark texts, JSON Schemas, types and grammars; equal ones are found in the cache."""
    text = 'start: @word " " @flag " " @number " " @digits'
    named = {"word": "start: /[a-z]+/", "flag": {"type": "boolean"}, "number": int, "digits": regex_grammar("[0-9]{2}")}
    grammar = compiler.lark(text, grammars=named)
    assert accepts(grammar, "ab true 7 42")
    assert not any(accepts(grammar, other) for other in ("1 true 7 42", "ab yes 7 42", "ab true x 42", "ab true 7 4"))
    plain = {"a": "start: @b", "b": {"const": "x"}}
    assert compiler.lark("start: @a", grammars=plain) is compiler.lark("start: @a", grammars=dict(reversed(plain.items())))
    assert accepts(compiler.lark("start: @a", grammars=plain), '"x"')
    assert not accepts(compiler.lark("start: @a", grammars=plain | {"b": {"const": "y"}}), '"x"')
    assert not accepts(compiler.lark("start: @a", grammars=plain | {"b": '{"const": "x"}'.join(["start: /", "/"])}), '"x"')
    with pytest.raises(LarkError, match="no grammar is named @c; available: @a, @b"):
        compiler.lark("start: @c", grammars=plain)
    with pytest.raises(LarkError, match="leads to itself"):
        compiler.lark("start: @a", grammars={"a": "start: @a"})
    for wrong in ([], {1: "start: /a/"}):
        with pytest.raises(LarkError, match="grammars must map names to Lark texts, JSON Schemas or grammars, not "):
            compiler.lark("start: @a", grammars=wrong)


def test_any_json(compiler):
    """`$$ANY$$` in place of a schema is any JSON, as SGLang means it."""
    assert compiler.json_schema("$$ANY$$") is compiler.json()


def test_tags_begin_with_the_first(vocabulary):
    """A compiler that never sees a tag does not order the names of special tokens, which takes as long as a small schema."""
    compiler = Compiler(vocabulary)
    compiler.json_schema({"type": "integer"})
    assert "tags" not in vars(compiler._jobs)
    compiler.structural_tag({"type": "structural_tag", "format": {"type": "const_string", "value": "yes"}})
    assert "tags" in vars(compiler._jobs)


def test_structural_tags(compiler):
    """Mappings, JSON text and models are the same tag, which can name special tokens; a tag inside is compiled once."""
    call = {"begin": "<call>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "."}
    tag = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<call>"], "tags": [call]}}

    class Model:
        def model_dump(self, *, by_alias):
            return tag

    compiled = compiler.structural_tag(tag)
    assert compiler.structural_tag(json.dumps(tag)) is compiled is compiler.structural_tag(Model())
    assert compiler.submit("structural_tag", tag).result(10) is compiled
    matcher = compiled.matcher()
    assert [matcher.accept_token(token) for token in (97, NAMED, 49, 46, STOP)] == [True] * 5
    other = {"begin": "<call>x", "content": {"type": "any_text"}, "end": "."}
    both = compiler.structural_tag({**tag, "format": {**tag["format"], "tags": [call, other]}})
    assert accepts(both, "<call>1.<call>xy.")
    assert len(compiler._jobs.tags._arenas._free[-1].tags) == 2
    alone = Compiler(compiler.vocabulary).structural_tag({**tag, "format": {**tag["format"], "tags": [call, other]}})
    assert alone.grammar == both.grammar
    assert alone.fingerprint == both.fingerprint
    assert CompiledGrammar.from_bytes(both.to_bytes(), compiler.vocabulary).fingerprint == both.fingerprint
    odd = {**call, "content": {**call["content"], "json_schema": MappingProxyType({"enum": [7]})}}
    assert accepts(compiler.structural_tag({**tag, "format": {**tag["format"], "tags": [odd]}}), "<call>7.")


def test_report_of_a_structural_tag(compiler):
    """It lists the keywords of all schemas inside, by their pointers into the tag, whichever form the tag has."""
    schema = {"type": "object", "properties": {"a/b": {"type": "string", "format": "no-such"}}, "requried": []}
    call = {"begin": "<", "content": {"type": "json_schema", "json_schema": schema}, "end": ">"}
    inner = {
        "type": "tags_with_separator",
        "tags": [{**call, "end": "<"}, {**call, "content": {"type": "optional", "content": call["content"]}}],
    }
    inner["separator"] = ","
    rules = [["x", {"type": "qwen_xml_parameter", "json_schema": schema}], ["y", {"type": "any_text"}]]
    format = {"type": "sequence", "elements": [inner, {"type": "tag", **call}, {"type": "dispatch", "rules": rules}]}
    report = compiler.structural_tag({"type": "structural_tag", "format": format}).report
    places = ["0/tags/0/content", "0/tags/1/content/content", "1/content", "2/rules/0/1"]
    keywords = ["type", "properties", "requried", "properties/a~1b/type", "properties/a~1b/format"]
    assert [entry.pointer for entry in report] == [f"/format/elements/{place}/json_schema/{name}" for place in places for name in keywords]
    assert {entry.note for entry in report.warnings} == {"unknown format 'no-such'", 'unknown keyword; did you mean "required"?'}
    again = compiler.structural_tag({"type": "structural_tag", "format": format}).report
    assert pickle.loads(pickle.dumps(again)) == report
    assert CompiledGrammar.from_bytes(compiler.structural_tag(format).to_bytes(), compiler.vocabulary).report.entries[0].pointer == (
        "/elements/0/tags/0/content/json_schema/type"
    )
    structures = [{"begin": "<a", "schema": json.dumps(schema), "end": ">"}, {"begin": "<b", "schema": None, "end": ">"}]
    older = compiler.structural_tag({"type": "structural_tag", "structures": structures, "triggers": ["<"]})
    assert [entry.pointer for entry in older.report] == [f"/structures/0/schema/{name}" for name in keywords]
    assert len(compiler.structural_tag({"type": "any_text"}).report) == 0


def test_special_tokens_by_name(compiler):
    """EBNF and Lark grammars name special tokens of the vocabulary."""
    for grammar in (compiler.ebnf('root ::= "a" <call> "b"'), compiler.lark('start: "a" <call> "b"')):
        matcher = grammar.matcher()
        assert [matcher.accept_token(token) for token in (97, NAMED, 98, STOP)] == [True] * 4


@pytest.mark.parametrize(
    ("method", "specification", "error"),
    [
        ("ebnf", 'root ::= "a" !<[{}]>', "line 1, column 15"),
        ("lark", 'start: "a" <[3-{}]>', "line 1, column 12"),
        ("structural_tag", '{{"type": "sequence", "elements": [{{"type": "token", "token": {}}}]}}', "format.elements[0].token"),
        ("structural_tag", '{{"type": "grammar", "grammar": "root ::= <[{}]>"}}', "format.grammar: "),
        ("structural_tag", '{{"type": "grammar", "syntax": "lark", "grammar": "start: <[^{}]>"}}', "format.grammar: "),
    ],
)
def test_ids_of_tokens_outside_the_vocabulary(compiler, vocabulary, method, specification, error):
    """The largest id compiles, and the next one is an error that says where it stands."""
    if method == "structural_tag":
        specification = f'{{{{"type": "structural_tag", "format": {specification}}}}}'
    assert getattr(compiler, method)(specification.format(vocabulary.size - 1))
    with pytest.raises(GrammarError) as caught:
        getattr(compiler, method)(specification.format(vocabulary.size))
    assert f"the vocabulary has no token {vocabulary.size}; its ids end at {vocabulary.size - 1}" in str(caught.value)
    assert error in str(caught.value)


def test_captures_that_end_with_a_stop_token(compiler):
    """A stop token that the grammar asks for is part of what is captured, as a token without text; another one is not."""
    grammar = compiler.ebnf('root ::= body <call>?\nbody[capture="body"] ::= [ab]+ <call> | "c"')
    for text, token in ((b"ab", NAMED), (b"c", STOP), (b"c", NAMED)):
        matcher = grammar.matcher([NAMED, STOP])
        assert matcher.accept_bytes(text)
        assert matcher.accept_token(token)
        assert matcher.is_terminated()
        assert matcher.get_captures() == [("body", text)]


def test_first_mask_of_a_large_grammar(vocabulary, monkeypatch):
    """A long compilation makes the first mask and counts its time; a mask that exceeds a limit is the first request's error, not its."""

    def masks_of(limits=None):
        grammar = Compiler(vocabulary, limits=limits).regex("(?:(?:a{0,9}){0,9}){0,9}")
        made = grammar._kernel.statistics["masks"]
        grammar.matcher().fill_next_token_bitmask(stackmask.allocate_token_bitmask(1, vocabulary.size))
        return made, grammar._kernel.statistics["masks"], grammar.stats.engine_seconds

    monkeypatch.setattr(compilers, "LARGE_SECONDS", 60)
    assert masks_of()[:2] == (0, 1)
    monkeypatch.setattr(compilers, "LARGE_SECONDS", 0)
    assert masks_of()[:2] == (1, 1)
    fill = stackmask.Matcher.fill_next_token_bitmask
    monkeypatch.setattr(stackmask.Matcher, "fill_next_token_bitmask", lambda *args: time.sleep(0.1) or fill(*args))
    assert masks_of()[2] > 0.1
    with pytest.raises(LimitError, match="more than 50 units of work"):
        masks_of(stackmask.Limits(step_work=50))


def test_what_a_compiled_grammar_says(compiler, vocabulary):
    """Statistics, the grammar in words, the vocabulary, a fingerprint that depends on both."""
    grammar = compiler.regex("a+b")
    assert grammar.vocabulary is vocabulary is compiler.vocabulary
    assert (grammar.stats.kind, grammar.stats.rules, grammar.report) == ("regex", 1, None)
    assert 0 < grammar.stats.seconds == grammar.stats.front_end_seconds + grammar.stats.engine_seconds < 5
    assert "::=" in str(grammar.grammar)
    assert grammar.fingerprint == Compiler(vocabulary).regex("a+b").fingerprint != compiler.regex("a+c").fingerprint
    other = Vocabulary.from_bytes(TOKENS, stop_token_ids=[STOP], size=321)
    assert Compiler(other).regex("a+b").fingerprint != grammar.fingerprint
    assert repr(grammar).startswith("<CompiledGrammar regex rules=1")
    assert grammar.size > 100


def test_stop_tokens_of_a_matcher(compiler):
    """A matcher can have stop tokens of its own."""
    matcher = compiler.regex("a").matcher(stop_token_ids=[300, 301])
    assert matcher.accept_token(97)
    assert matcher.allowed_tokens() == [300, 301]
    with pytest.raises(ValueError, match="out of range"):
        compiler.regex("a").matcher(stop_token_ids=[320])


def test_a_matcher_outlives_compiler_and_grammar(vocabulary):
    """A matcher keeps what it needs alive, and nothing else does."""
    compiler = Compiler(vocabulary)
    grammar = compiler.regex("ab")
    matcher = grammar.matcher()
    del compiler, grammar
    gc.collect()
    assert matcher.accept_bytes(b"ab")
    assert matcher.fork().is_completed()


def test_one_grammar_for_equal_specifications(compiler):
    """Text, mapping and a mapping of another class are one specification; order and options tell specifications apart."""
    grammar = compiler.json_schema(SCHEMA)
    assert compiler.json_schema(json.dumps(SCHEMA)) is grammar
    assert compiler.json_schema(json.loads(json.dumps(SCHEMA))) is grammar
    proxy = MappingProxyType(SCHEMA)
    assert compiler.json_schema(proxy) is compiler.json_schema(proxy)
    assert compiler.json_schema(SCHEMA, whitespace="compact") is not grammar
    assert compiler.json_schema(dict(reversed(SCHEMA.items()))) is not grammar
    assert compiler.json_schema({"const": 1}) is not compiler.json_schema({"const": True})
    assert compiler.json() is compiler.json_schema(True)
    assert compiler.regex("a") is not compiler.choice(["a"])
    assert compiler.choice(("a", "b")) is compiler.choice(["a", "b"])
    assert compiler.cache_info.hits == 5
    compiler.clear_cache()
    assert compiler.cache_info.entries == compiler.cache_info.size == 0
    assert compiler.json_schema(SCHEMA) is not grammar


PAIR = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}}


@pytest.mark.parametrize("forms", [*itertools.permutations([PAIR, json.dumps(PAIR), json.dumps(PAIR, indent=1)])])
def test_texts_and_mappings_are_one(vocabulary, forms):
    """A schema is compiled once, whichever of its forms comes first and however its text is laid out, and is not taken for its likes."""
    compiler = Compiler(vocabulary)
    other = json.dumps(PAIR).replace("null", "boolean")  # the same names
    first, second = compiler.json_schema(forms[0]), compiler.json_schema(other)
    assert accepts(first, '{"b": null}') and accepts(second, '{"b": true}')
    assert all(compiler.json_schema(form) is first for form in (*forms, *reversed(forms)))
    assert all(compiler.json_schema(form) is second for form in (other, json.loads(other), other))
    assert compiler.cache_info.misses == 2


def test_texts_as_keys(vocabulary):
    """A text that was compiled is found without reading it; few texts are remembered as keys, no long one, and none that may change."""

    class Text(str):
        __slots__ = ()

        def __eq__(self, other):
            return other != "$$ANY$$"

        __hash__ = str.__hash__

    compiler = Compiler(vocabulary)
    texts = [json.dumps({"title": "x" * 2000, "properties": {f"key {number}": {"type": "null"}}}) for number in range(600)]
    grammars = [compiler.json_schema(text) for text in texts]
    known = compiler._jobs._texts.known
    assert 10 < len(known) <= 256
    assert sum(text in known for text in texts) == len(known)
    assert [compiler.json_schema(text) for text in texts] == grammars
    long = json.dumps(PAIR | {"title": "x" * 5000})
    grammar = compiler.json_schema(long)
    assert compiler.json_schema(json.loads(long)) is compiler.json_schema(long) is grammar
    assert long not in known
    for size in (4095, 4096, 4097):
        text = json.dumps(PAIR | {"title": "", str(size): ""})
        text = text.replace('"title": "', '"title": "'.ljust(size - len(text) + len('"title": "'), "x"))
        assert len(text) == size
        assert compiler.json_schema(text) is compiler.json_schema(json.loads(text))
        assert (text in known) == (size <= 4096)
    assert {*map(type, compiler._jobs._texts._first)} == {int}  # names may take any memory
    assert not accepts(compiler.json_schema(Text('{"type": "null"}')), "1")
    assert not accepts(compiler.json_schema(Text('{"type": "integer"}')), "null")
    assert all(type(text) is str for text in known)


def test_documents(compiler):
    """Other documents are part of the specification."""
    schema = {"$ref": "https://example.org/a"}
    integer = compiler.json_schema(schema, documents={"https://example.org/a": {"type": "integer"}})
    boolean = compiler.json_schema(schema, documents={"https://example.org/a": {"type": "boolean"}})
    assert accepts(integer, "12")
    assert accepts(boolean, "true")
    assert compiler.submit("json_schema", schema, documents={"https://example.org/a": {"type": "integer"}}).result() is integer


def test_the_report_is_of_the_schema_that_was_compiled(compiler):
    """The report can be asked for later, whatever has happened to the schema since."""
    schema = {"type": "string", "title": "a"}
    grammar = compiler.json_schema(schema)
    schema |= {"pattern": "x", "requried": 3}
    assert [(entry.keyword, entry.status) for entry in grammar.report] == [("type", "enforced"), ("title", "annotation")]


def test_python_types(compiler):
    """A pydantic model, a dataclass and any type that pydantic knows are schemas."""
    pydantic = pytest.importorskip("pydantic")

    class Person(pydantic.BaseModel):
        name: str
        age: int

    @dataclasses.dataclass
    class Point:
        x: int
        y: int

    assert accepts(compiler.json_schema(Person), '{"name": "a", "age": 3}')
    assert compiler.json_schema(Person) is compiler.json_schema(Person.model_json_schema(), extra_properties="closed")
    assert accepts(compiler.json_schema(Point), '{"x": 1, "y": 2}')
    assert accepts(compiler.json_schema(list[bool]), "[true]")
    with pytest.raises(SchemaError, match="pydantic cannot make a JSON Schema"):
        compiler.json_schema(threading.Lock)


def test_types_are_closed(compiler):
    """Objects of Python types have no invented keys, unless the type or the caller allows them; schemas mean what they say."""
    pydantic = pytest.importorskip("pydantic")
    from typing_extensions import TypedDict  # which pydantic depends on, and asks for before Python 3.12

    class Point(pydantic.BaseModel):
        x: int

    class Line(pydantic.BaseModel):
        ends: list[Point]
        label: Point | None = None
        weights: dict[str, int] | None = None

    class Loose(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        x: int

    @dataclasses.dataclass
    class Pair:
        first: Point
        second: int

    class Options(TypedDict, total=False):
        x: int

    line = compiler.json_schema(Line)
    assert accepts(line, '{"ends": [{"x": 1}], "label": {"x": 2}, "weights": {"any": 3}}')
    for text in ('{"ends": [], "more": 1}', '{"ends": [{"x": 1, "y": 2}]}', '{"ends": [], "label": {"x": 1, "y": 2}}'):
        assert not accepts(line, text), text
        for as_schema in (compiler.json_schema(Line.model_json_schema()), compiler.json_schema(Line, extra_properties="schema")):
            assert accepts(as_schema, text), text
    assert accepts(compiler.json_schema(Loose), '{"x": 1, "y": 2}')
    assert not accepts(compiler.json_schema(Pair), '{"first": {"x": 1}, "second": 2, "third": 3}')
    assert not accepts(compiler.json_schema(Pair), '{"first": {"x": 1, "y": 1}, "second": 2}')
    assert not accepts(compiler.json_schema(Options), '{"y": 1}')
    assert accepts(compiler.json_schema(Options), "{}")
    text = json.dumps(Line.model_json_schema())
    assert compiler.json_schema(text) is compiler.json_schema(text, extra_properties="schema")
    assert compiler.json_schema(text) is not compiler.json_schema(text, extra_properties="closed")
    assert compiler.json_schema(Line, extra_properties="closed") is line
    loaded = CompiledGrammar.from_bytes(line.to_bytes(), compiler.vocabulary)
    assert not accepts(loaded, '{"ends": [], "more": 1}')
    with pytest.raises(SchemaError, match="extra_properties must be 'schema' or 'closed', not 'open'"):
        compiler.json_schema(Line, extra_properties="open")
    with pytest.raises(SchemaError, match="extra_properties must be 'schema' or 'closed', not False"):
        compiler.json_schema(Line, extra_properties=False)


def test_closing_that_leaves_nothing(compiler):
    """Where closing leaves no instance, the error names what contradicts it."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "minProperties": 2}
    compiler.json_schema(schema)
    with pytest.raises(UnsatisfiableError, match="/minProperties"):
        compiler.json_schema(schema, extra_properties="closed")


def test_types_without_pydantic(compiler, monkeypatch):
    """Where pydantic is not installed, types are refused with the reason; a class that makes its own schema needs none."""
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(SchemaError, match="needs pydantic"):
        compiler.json_schema(list[int])

    class Own:
        @staticmethod
        def model_json_schema():
            """As pydantic's models have it."""
            return {"type": "integer"}

    assert accepts(compiler.json_schema(Own), "3")


def test_schemas_that_are_not_plain(compiler):
    """Mappings, strings and numbers of other classes count as the values that they are; what is no JSON is refused."""

    class Name(enum.StrEnum):
        INTEGER = "integer"

    grammar = compiler.json_schema(OrderedDict(type=Name.INTEGER, minimum=np.float64(3.0)))
    assert accepts(grammar, "3")
    assert not accepts(grammar, "2")
    key = schema_key(MappingProxyType({"a": (1, 2.5, None, True, Name.INTEGER), "b": [], "c": {}, "d": [[3]]}), Limits())
    plain = schema_of_key(key)
    assert plain == {"a": [1, 2.5, None, True, "integer"], "b": [], "c": {}, "d": [[3]]}
    assert [type(value) for value in plain["a"]] == [int, float, type(None), bool, str]
    assert key != schema_key(MappingProxyType({"a": (1, 2.5, None, 1, Name.INTEGER), "b": [], "c": {}, "d": [[3]]}), Limits())
    for bad in ({"enum": [object()]}, {"enum": [{1, 2}]}, MappingProxyType({1: 2})):
        with pytest.raises(SchemaError):
            compiler.json_schema(bad)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", r"not JSON: Expecting .*\nline 1, column 2"),
        ('{"type": "null"} {}', r"not JSON: Extra data\nline 1, column 18"),
        ("{}]", r"not JSON: Extra data\nline 1, column 3"),
        ("[]]", r"not JSON: Extra data\nline 1, column 3"),
        ('{"a": NaN}', "NaN is not a JSON value"),
        ("1" * 5000, "not JSON"),
        ("\ufeff{}", r"not JSON: it begins with a byte order mark\nline 1, column 1"),
        ("[]", "not list"),
        ("null", "not NoneType"),
        (3, "not int"),
        (None, "not NoneType"),
        ([], "not list"),
        (b"{}", "not bytes"),
        (Path("a.json"), r"Path; pass the text of the file: path.read_text\(\)"),
        ("a.json", "not JSON: Expecting value; 'a.json' reads like the name of a file"),
        ("\n", "^the text is empty, where JSON is expected, such as {}$"),
    ],
)
def test_what_is_no_schema(compiler, schema, message):
    """Bad JSON text and values that are no schema raise SchemaError, which says where or what."""
    with pytest.raises(SchemaError, match=message):
        compiler.json_schema(schema)
    with pytest.raises(SchemaError, match=message):
        compiler.submit("json_schema", schema).result(10)


def test_guidance_beside_options():
    """What a schema asks for in `x-guidance` is added to the options of the call, and takes none of them back."""
    for asked in ({}, {"whitespace_flexible": False}, {"lenient": True}, {"lenient": False}):
        schema = {"x-guidance": asked, "type": "string", "pattern": r"^(a+)\1$"}
        assert json_schema_grammar(schema, lenient=True)[1].approximated
        if asked.get("lenient"):
            assert json_schema_grammar(schema)[1].approximated
        else:
            with pytest.raises(UnsupportedSchemaError):
                json_schema_grammar(schema)


def test_nesting_of_every_form(vocabulary):
    """A schema is as deep in any form, and the same error says that it is too deep."""
    compiler = Compiler(vocabulary, limits=Limits(nesting=50))
    for depth, title in itertools.product((40, 60), ("", "x" * 5000)):
        schema = {"type": "null", "title": title}
        for _ in range(depth):
            schema = {"items": schema}
        for form in (schema, json.dumps(schema), MappingProxyType(schema)):
            if depth < 50:
                assert accepts(compiler.json_schema(form), "[[null]]")
            else:
                with pytest.raises(LimitError) as caught:
                    compiler.json_schema(form)
                assert caught.value.limit == "nesting"


def test_size_of_texts(vocabulary):
    """A JSON text counts with its blanks, since all of it is read; blanks around a value are part of JSON."""
    compiler = Compiler(vocabulary, limits=Limits(specification_bytes=100))
    text = ' \n{"type": "null"}\t '
    assert accepts(compiler.json_schema(text.ljust(100)), "null")
    assert accepts(compiler.json_schema(text.strip().ljust(100)), "null")
    for long in (text.ljust(101), text.strip().ljust(101), text.rjust(101)):
        with pytest.raises(LimitError) as caught:
            compiler.json_schema(long)
        assert caught.value.limit == "specification_bytes"


def test_an_instance_is_no_schema(compiler):
    """An instance of a model or a dataclass is an error that names its type; the type is a schema."""
    pydantic = pytest.importorskip("pydantic")

    class Line(pydantic.BaseModel):
        text: str

    @dataclasses.dataclass
    class Page:
        number: int

    for kind, instance in ((Line, Line(text="a")), (Page, Page(3))):
        with pytest.raises(SchemaError, match=rf"but .*{kind.__name__}\(.* is an instance: pass {kind.__name__}$"):
            compiler.json_schema(instance)
        assert compiler.json_schema(kind).matcher().accept_bytes(b"{")


@pytest.mark.parametrize("tag", ["{", 3, [], None])
def test_what_is_no_structural_tag(compiler, tag):
    """So do bad structural tags, with their own error."""
    with pytest.raises(StructuralTagError):
        compiler.structural_tag(tag)
    assert isinstance(compiler.submit("structural_tag", tag).exception(10), StructuralTagError)


def test_hostile_schemas(vocabulary):
    """Objects that hold themselves, deep nesting and large texts end in LimitError."""
    compiler = Compiler(vocabulary, limits=Limits(nesting=500, specification_bytes=10_000))
    loop: dict[str, object] = {}
    loop["properties"] = {"a": loop, "b": loop}
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"items": deep}
    for schema in (loop, deep, '{"items":' * 100_000 + "{}" + "}" * 100_000, '{"items":' * 990, {"enum": ["x" * 20_000]}, " " * 10_001):
        with pytest.raises((LimitError, SchemaError)):
            compiler.json_schema(schema)
    nested: dict[str, object] = {"type": "integer"}
    for _ in range(400):
        nested = {"items": nested, "type": "array"}
    copied = schema_of_key(schema_key(MappingProxyType(nested), Limits(nesting=500)))
    assert json.dumps(copied) == json.dumps(nested)


@pytest.mark.parametrize("wrap", [dict, MappingProxyType])
def test_what_stands_in_several_places(vocabulary, wrap):
    """A subschema counts at each of its places, and a schema whose text would have no end ends at the limit on its size."""

    def doubled(times):
        schema = wrap({"type": "integer"})
        for _ in range(times):
            schema = wrap({"type": "object", "properties": wrap({"a": schema, "b": schema})})
        return schema

    compiler = Compiler(vocabulary, limits=Limits(specification_bytes=200_000))
    assert accepts(compiler.json_schema(doubled(3)), '{"a":{"a":{"a":1,"b":2}},"b":{"b":{}}}')
    endless, tag = doubled(60), wrap({"type": "json_schema", "json_schema": doubled(60)})
    for call in (
        lambda: compiler.json_schema(endless),
        lambda: compiler.json_schema({}, documents={"https://example.com/a": endless}),
        lambda: compiler.structural_tag(wrap({"type": "structural_tag", "format": tag})),
        lambda: compiler.structural_tag(wrap({"type": "structural_tag", "format": wrap({"type": "sequence", "elements": [tag] * 1000})})),
        lambda: compiler.lark("start: @schema", grammars={"schema": endless}),
        lambda: compiler.submit("json_schema", endless).result(),
        lambda: json_schema_grammar(endless, limits=Limits(specification_bytes=200_000)),
    ):
        with pytest.raises(LimitError, match="takes more than 200000 bytes") as caught:
            call()
        assert caught.value.limit == "specification_bytes"


def test_a_large_schema_has_one_key(vocabulary):
    """A schema has the same key as text and as a mapping, also where the serialiser writes several frames."""
    schema = {"enum": [f"{number:0{number % 90_000}}" for number in range(0, 1_000_000, 7_001)], "type": ["string", "null"]}
    key = schema_key(schema, Limits())
    assert len(key) > 1_000_000
    assert key == schema_key(json.dumps(schema), Limits())
    assert schema_of_key(key) == schema


def test_a_key_after_one_that_was_given_up():
    """A value that is too deep to be serialised leaves nothing behind for the next key, though a part of it was written."""
    first = _plain_key({"a": [1]})
    deep = {}
    for _ in range(sys.getrecursionlimit()):
        deep = {"enum": ["x" * 500], "not": deep}
    with pytest.raises(RecursionError):
        _plain_key(deep)
    assert _plain_key({"a": [1]}) == first == schema_key({"a": [1]}, Limits())


def test_errors_are_not_kept(compiler, monkeypatch):
    """A failure is forgotten: the next compilation starts anew."""
    with pytest.raises(RegexError):
        compiler.regex("(")
    assert compiler.cache_info.entries == 0
    monkeypatch.setattr(jobs, "regex_grammar", lambda pattern, *, limits: literal("x"))
    assert accepts(compiler.regex("("), "x")


@pytest.mark.parametrize(
    "call", [lambda c: c.regex(3), lambda c: c.regex([]), lambda c: c.choice("ab"), lambda c: c.choice([[]]), lambda c: c.ebnf({})]
)
def test_specifications_of_a_wrong_type(compiler, call):
    """What is no text is refused by the front end, whether it can be hashed or not."""
    with pytest.raises(GrammarError):
        call(compiler)


def literal(text):
    """The grammar of one text."""
    builder = GrammarBuilder()
    root = builder.rule("root")
    builder.define(root, builder.literal(text.encode()))
    return builder.build(root)


class Counted:
    """A front end that counts its calls and waits until it is told to go on."""

    def __init__(self, error=None):
        self.calls = 0
        self.go_on = threading.Event()
        self.error = error

    def __call__(self, pattern, *, limits):
        """Stand in for `regex_grammar`."""
        self.calls += 1
        assert self.go_on.wait(10)
        if self.error:
            raise self.error
        return literal(pattern)


@pytest.mark.parametrize("error", [None, RegexError("no")])
def test_one_compilation_for_all_who_wait(compiler, monkeypatch, error):
    """Calls and futures for one specification share one compilation, and its failure."""
    front_end = Counted(error)
    monkeypatch.setattr(jobs, "regex_grammar", front_end)
    futures = [compiler.submit("regex", "x") for _ in range(5)]
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(compiler.regex, "x") for _ in range(8)]
        while compiler.cache_info.waited < 12:
            time.sleep(0.001)
        assert futures[3].cancel()
        front_end.go_on.set()
        waiters = [*futures[:3], futures[4], *calls]
        outcomes = {future.exception(10) if error else future.result(10) for future in waiters}
    assert len(outcomes) == front_end.calls == 1
    assert error is None or outcomes == {error}
    assert compiler.cache_info.entries == (error is None)
    with pytest.raises(CancelledError):
        futures[3].result()


def test_submit(compiler):
    """`submit` gives what the method of the same name gives; a wrong specification is an exception of the future."""
    assert compiler.submit("regex", "a+").result(10) is compiler.regex("a+")
    assert compiler.submit("json").result(10) is compiler.json()
    assert compiler.submit("ebnf", 'a ::= "b"', root="a").result(10) is compiler.ebnf('a ::= "b"', "a")
    assert isinstance(compiler.submit("regex", "(").exception(10), RegexError)
    with pytest.raises(ValueError, match="json_schema, json, regex, ebnf, lark, choice, structural_tag"):
        compiler.submit("xml", "<a/>")
    with pytest.raises(TypeError):
        compiler.submit("regex", "a", flags="i")


def test_submit_takes_a_copy(vocabulary, monkeypatch):
    """What happens to a schema after `submit` does not matter."""
    compiler, front_end = Compiler(vocabulary, threads=1), Counted()
    monkeypatch.setattr(jobs, "regex_grammar", front_end)
    blocked = compiler.submit("regex", "x")
    schema = {"enum": ["a"]}
    future = compiler.submit("json_schema", schema)
    schema["enum"].append("b")
    front_end.go_on.set()
    assert not accepts(future.result(10), '"b"')
    assert blocked.result(10)


SLOW = {"type": "string", "allOf": [{"pattern": f"^x.*{a}{b}[0-9]"} for a in "abcdefgh" for b in "abcdefgh"]}
"""A schema whose compilation takes minutes where nothing bounds it."""


def test_what_nobody_waits_for_ends(vocabulary):
    """A compilation whose futures are all cancelled ends at its next step; one future that is left keeps it."""
    compiler = Compiler(vocabulary, limits=Limits(compile_work=1 << 40, states=1 << 40), threads=1)
    futures = [compiler.submit("json_schema", SLOW) for _ in range(3)]
    futures[0].begun.result(10)
    for future in futures:
        assert not compiler._executor._work_queue.qsize()
        time.sleep(0.05)
        assert not future.done() and future.cancel()
    with as_quick_as(100):  # where they go on, all these compile for minutes
        assert compiler.submit("regex", "x").result(10)
    assert not compiler._cache._pending and not compiler._cache._wanted


def test_an_interrupt_ends_a_compilation(vocabulary):
    """Ctrl-C ends a compilation in the caller's thread within 50 ms of its work, five ordinary ones, and leaves the compiler as it was."""
    compiler, began = Compiler(vocabulary, limits=Limits(compile_work=1 << 40, states=1 << 40)), []

    def interrupt(number, frame):
        began.append(time.process_time())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            compiler.json_schema(SLOW)
        assert time.process_time() - began[0] < 5 * ordinary_compilation()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert compiler.regex("x")


def test_an_interrupt_concerns_one_thread(vocabulary, monkeypatch):
    """When the thread that compiles is interrupted, those who wait for it are cancelled, and the next one compiles anew."""
    compiler, front_end = Compiler(vocabulary), Counted(KeyboardInterrupt())
    monkeypatch.setattr(jobs, "regex_grammar", front_end)
    with ThreadPoolExecutor(1) as pool:
        interrupted = pool.submit(compiler.regex, "x")
        while not front_end.calls:
            time.sleep(0.001)
        waiting = compiler.submit("regex", "x")
        front_end.go_on.set()
        assert isinstance(interrupted.exception(10), KeyboardInterrupt)
        with pytest.raises(CancelledError):
            waiting.result(10)
    front_end.error = None
    assert compiler.regex("x")


def test_submit_when_no_thread_can_be_had(compiler, monkeypatch):
    """Where the pool takes no work, `submit` raises, and nobody waits for what is never made."""
    compiler._executor.shutdown()
    with pytest.raises(RuntimeError):
        compiler.submit("regex", "a")
    assert accepts(compiler.regex("a"), "a")


def test_time_budget(vocabulary, monkeypatch):
    """The front end's time counts against the limit of the whole compilation."""
    monkeypatch.setattr(jobs, "regex_grammar", lambda pattern, *, limits: (time.sleep(0.02), literal("x"))[1])
    with pytest.raises(LimitError, match=r"more than 0\.01 s"):
        Compiler(vocabulary, limits=Limits(compile_seconds=0.01)).regex("x")


def test_the_cache_is_bounded_in_bytes(vocabulary):
    """The least recently used grammars go first; what is too large alone is not kept."""
    size = Compiler(vocabulary).regex("a").size
    compiler = Compiler(vocabulary, cache_bytes=3 * size + size // 2)
    first = compiler.regex("a")
    for pattern in "bca":
        compiler.regex(pattern)
    assert compiler.regex("d") is compiler.regex("d")
    assert compiler.regex("a") is first
    info = compiler.cache_info
    assert info.entries == 3
    assert info.size <= info.capacity
    misses = compiler.cache_info.misses
    compiler.regex("b")
    assert compiler.cache_info.misses == misses + 1
    tiny = Compiler(vocabulary, cache_bytes=10)
    assert tiny.regex("a") is not tiny.regex("a")
    assert tiny.cache_info.size == 0


def test_grown_values_are_measured_again():
    """A value that grew while it was in use counts with its new size when it is asked for."""

    @dataclasses.dataclass(eq=False)
    class Value:
        size: int

    cache: Cache[Value] = Cache(100)
    old, young = cache.get("old", lambda: Value(10)), cache.get("young", lambda: Value(10))
    young.size = 95
    assert cache.get("young", lambda: Value(0)) is young
    assert (cache.info.entries, cache.info.size) == (1, 95)
    assert cache.get("old", lambda: Value(5)) is not old
    assert (cache.info.entries, cache.info.size) == (2, 100)


def test_specifications_are_measured(compiler):
    """A grammar counts what its specification takes: its key, and for a JSON Schema the value that its report keeps, documents too."""
    texts = sum(map(sys.getsizeof, ("regex", "a" * 3_000)))
    assert compiler.read("regex", "a" * 3_000).memory == texts
    document = {"title": "x" * 7_000}
    plain = compiler.read("json_schema", {"title": "x" * 5_000})
    for job, more in (
        (plain, 0),
        (compiler.read("json_schema", {"title": "x" * 5_000}, whitespace="[ ]?" * 200), 800),
        (compiler.read("json_schema", {"title": "x" * 5_000}, documents={"http://a": document, "http://b": document}), 4 * 7_000),
    ):
        assert 10_000 + more < job.memory < 11_000 + more
    assert compiler.compile(plain).size == compiler.compile(plain).described(None).size + plain.memory


def test_the_size_is_about_right():
    """The estimate behind the bound is within a factor of three of what Python allocates."""
    specifications = [
        {"enum": [f"value {i}" for i in range(3000)]},
        {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(300)}},
    ]
    for schema in specifications:
        json_schema_grammar(schema)
        gc.collect()
        tracemalloc.start()
        grammar, _ = json_schema_grammar(schema)
        gc.collect()
        allocated = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert allocated / 3 < memory_of(grammar.nodes, len(grammar.rules)) < allocated * 3


def test_the_size_of_nodes_is_not_measured(compiler):
    """What the tables in nodes take is estimated by the engine's form of them; with all else the estimate is within a factor of two."""
    specifications = [
        ("json_schema", {"enum": [f"value {i}" for i in range(3_000)]}),
        ("json_schema", {"enum": ["x" * 100_000]}),
        ("json_schema", {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(300)}}),
        ("json_schema", {"type": "string", "pattern": "(a|b)*a(a|b){9}$"}),
        ("json_schema", {"type": "integer", "multipleOf": 9_973}),
        ("json_schema", {"type": "string", "format": "uri"}),
        ("regex", "(?i)" + "|".join(f"word{i * 7919 % 10_007}" for i in range(2_000))),
        ("choice", [f"{i:x}" * 20 for i in range(500)]),
        ("choice", ["a", "b"]),
        ("ebnf", 'root ::= ([a-z]{1,30} "," | "x")*'),
    ]
    for kind, specification in specifications:
        made = compiler.compile(compiler.read(kind, specification))
        others = made.size - made._static_size
        exact = memory_of(made.grammar.nodes, len(made.grammar.rules)) + others
        assert exact / 2 < made.size < exact * 2
    small = compiler.compile(compiler.read("choice", ["a", "b"]))
    assert small._static_size < 2_000


def test_small_schemas():
    """A schema that fits by the length of its key, or does not, is said to be so by a walk too, however its text is made up."""
    draw, small, large = random.Random(0), 0, 0
    ways = defaultdict(set)

    def value(depth):
        kind = draw.randrange(9 if depth else 7)
        if kind > 6:
            members = [value(depth - 1) for _ in range(draw.randrange(5))]
            return members if kind == 7 else {draw.choice(["", "a", "items", "\u0394"]) * (n + 1): m for n, m in enumerate(members)}
        return (None, True, False, draw.choice(["", "x", "\u0394" * 9]), draw.randrange(-(10**9), 10**9), 10**40, -1.2345678901234567e-300)[
            kind
        ]

    for size, nesting in itertools.product((60, 600, 6000), (2, 5, 40, 5000)):
        limits = Limits(specification_bytes=size, nesting=nesting)
        for _ in range(200):
            schema = {"a": value(4)}
            key = schema_key(schema, Limits())
            fits = surely_fits(len(key), limits)
            for way, (form, *known) in enumerate(((MappingProxyType(schema),), (schema,), (schema, len(key)))):  # no proxy is serialised
                with contextlib.nullcontext() if fits else contextlib.suppress(LimitError):
                    check_schema_size(form, limits, *known)
                    ways[limits, str(schema)].add(way)
            small += fits
            large += not ways[limits, str(schema)]
    assert small > 200
    assert large > 50
    assert sorted(set(map(len, ways.values()))) == [0, 3]


def test_no_garbage(compiler):
    """A compilation leaves nothing that only the garbage collector frees, so that none comes in the middle of another one."""
    plain = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"$id": "http://example.org/b", "type": "null"}}}
    for schema in (plain, {**plain, "anyOf": [{"required": ["a"]}, {"not": {"pattern": "^a"}}]}, {**plain, "requried": ["a"]}):
        text = json.dumps(schema)
        gc.collect()
        gc.disable()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compiler.json_schema(text)
            compiler.clear_cache()
            assert gc.collect() == 0
        finally:
            gc.enable()


def test_overhead_of_the_facade(compiler, monkeypatch):
    """Normalising and looking up a schema of 2 KB takes microseconds (8 on an idle machine)."""
    schema = {"type": "object", "properties": {f"property {i}": {"type": "string", "description": "text " * 3} for i in range(30)}}
    compiler.json_schema(schema)
    times = []
    for _ in range(200):
        start = time.thread_time()
        compiler.json_schema(schema)
        times.append(time.thread_time() - start)
    assert 1900 < len(json.dumps(schema)) < 3000
    assert min(times) < 100e-6


def test_deep_json_text(compiler):
    """A text nested deeper than Python's JSON parser reads is over the limit of nesting."""
    with pytest.raises(LimitError, match="nested deeper"):
        compiler.json_schema('{"items":' * 100_000 + "{}" + "}" * 100_000)
    assert compiler.limits == Limits()


def test_a_compiler_needs_a_vocabulary():
    """A tokenizer is no vocabulary."""
    with pytest.raises(TypeError, match=r"stackmask\.Vocabulary, not list"):
        Compiler([b"a"])


def every_node():
    """A grammar with every kind of node."""
    b = GrammarBuilder()
    rule = b.rule("every node")
    a, digit, char = b.literal(b"a\xff"), b.bytes((48, 57)), b.chars((97, 122, 0x4E00, 0x9FFF), ir.JSON)
    dfa = b.automaton((((97, 98, 1),), ((99, 0x10FFFF, 1),)), (False, True), ir.JSON_ANY)
    graph = b.graph(3, (0, 2, digit, 2, 1, -1))
    parts = [a, digit, char, dfa, graph, b.repeat(digit, 2, 5), b.optional(char), b.call(rule), b.empty(), b.never()]
    parts += [
        b.tokens((NAMED,)),
        b.tokens((NAMED, 1), negated=True),
        b.tokens((1,), negated=True, textless=True),
        b.scope(b.distinct(digit)),
    ]
    parts += [b.permute((a, ir.REQUIRED, digit, ir.REPEATABLE), b.empty(), minimum=1, maximum=3)]
    b.define(rule, b.alt(b.seq(a, digit), *parts))
    return b.build(rule)


def test_bytes_and_back(compiler, vocabulary):
    """Every node comes back as it was, and what is compiled from it is the same language."""
    grammar = every_node()
    data = to_bytes(grammar, None, vocabulary="v", kind="ebnf")
    assert from_bytes(data, vocabulary="v", size=320, limits=Limits()) == (grammar, None, "ebnf")
    for compiled in (
        compiler.json_schema(SCHEMA),
        compiler.regex("[a-z]{3}|é"),
        compiler.ebnf('root ::= "(" root ")" | <call>'),
        compiler.json(),
    ):
        again = CompiledGrammar.from_bytes(compiled.to_bytes(), vocabulary)
        assert again.grammar == compiled.grammar
        assert again.fingerprint == compiled.fingerprint
        assert again.stats.kind == compiled.stats.kind
        assert again.report == compiled.report
        assert again.matcher().allowed_tokens() == compiled.matcher().allowed_tokens()


def test_bytes_of_counted_automata_and_exceptions():
    """The bounds of an automaton come back, and excluded words, those that are texts."""
    b = GrammarBuilder()
    rule = b.rule("counted")
    b.define(rule, b.alt(*(b.automaton((((97, 98, 0),),), (True,), minimum=low, maximum=high) for low, high in ((2, 5), (0, 5), (2, -1)))))
    other = b.rule("other")
    b.define(other, b.except_words(["b", "é", "a", "\ud800"], ir.JSON))
    grammar = b.build(rule)
    assert from_bytes(to_bytes(grammar, None, vocabulary="v", kind="ebnf"), vocabulary="v", size=320, limits=Limits())[0] == grammar


def test_bytes_for_another_vocabulary(compiler):
    """A grammar is bound to its vocabulary."""
    other = Vocabulary.from_bytes(TOKENS, stop_token_ids=[STOP], size=321)
    with pytest.raises(GrammarError, match="another vocabulary"):
        CompiledGrammar.from_bytes(compiler.regex("a").to_bytes(), other)


def test_damaged_bytes(compiler, vocabulary):
    """Anything but what was written is refused: other data, a cut, a changed byte, another version, too much."""
    data = compiler.regex("a").to_bytes()
    version = data.index(b"\n") + 1
    for bad in (
        b"",
        b"x",
        data[:30],
        data[:-1],
        data + b" ",
        data[:-5] + b"?" + data[-4:],
        data.replace(b"stack", b"STACK"),
        bytearray(data),
    ):
        with pytest.raises(GrammarError):
            CompiledGrammar.from_bytes(bad, vocabulary)
    with pytest.raises(GrammarError, match="version 9"):
        CompiledGrammar.from_bytes(data[:version] + struct.pack("<H", 9) + data[version + 2 :], vocabulary)
    with pytest.raises(LimitError):
        CompiledGrammar.from_bytes(data, vocabulary, limits=Limits(grammar_bytes=50))
    with pytest.raises(LimitError):
        CompiledGrammar.from_bytes(data, vocabulary, limits=Limits(rules=0))


def sealed(content):
    """Bytes with a right envelope around any content."""
    payload = content if isinstance(content, bytes) else json.dumps(content).encode()
    return b"stackmask grammar\n" + struct.pack("<HQ32s", 1, len(payload), hashlib.sha256(payload).digest()) + payload


def content_of(grammar, fingerprint):
    data = to_bytes(grammar, None, vocabulary=fingerprint, kind="regex")
    return json.loads(data[data.index(b'{"vocab') :])


@pytest.mark.parametrize(
    "node",
    [
        None, [], 0, [15], [-1], [True], ["0"], [0, 1], [1, []], [2], [2, ""], [2, 5], [2, "\u0100"], [3, []], [3, [5]],
        [3, [5, 4]], [3, [0, 256]], [3, [0, 5, 5, 9]], [3, [0.5, 1]], [3, [False, True]], [4, [0, 1], 0], [4, [0, 1], 4],
        [4, [0, 0x110000], 1], [4, [0, 1]], [5], [5, 99], [5, -1], [6, 0, "1"], [7, 0, 0], [7, 99, 0, 1], [7, 0, -1, 1],
        [7, 0, 3, 2], [7, 0, 0, -2], [7, 0, 0, 1 << 40], [7, 0, 1 << 40, -1], [7, 0, 0, True], [8], [8, 1], [8, -1], [9, 1, []],
        [9, 2, [0, 1]], [9, 2, [0, 2, -1]], [9, 2, [0, 1, 99]], [9, 1 << 40, []], [9, 2, [0, 1, -2]], [10, [], [], 1], [10, [[]],
        [], 1], [10, [[]], [1], 1], [10, [[[0, 1]]], [True], 1], [10, [[[0, 1, 1]]], [True], 1], [10, [[[1, 0, 0]]], [True], 1],
        [10, [[[0, 5, 0], [5, 6, 0]]], [True], 1], [10, [[[0, 256, 0]]], [True], 0], [10, [3], [True], 1], [11, [320], 0],
        [11, [-1], 0], [11, [1], 3], [11, 5, 0], [12, [0], 0, 0, -1], [12, [0, 4], 0, 0, -1], [12, [0, 1], 99, 0, -1],
        [10, [[]], [True], 1, 0], [10, [[]], [True], 1, 2, 1], [10, [[]], [True], 1, 0, -2], [10, [[]], [True], 1, 0, 1, 0],
        [10, [[[0, 1, 1]], [[0, 1, 0]]], [True, False], 1, 3, 3],
        [18, ["a"], 0], [18, ["b", "a"], 1], [18, ["a", "a"], 1], [18, ["\ud800"], 1], [18, "ab", 1], [18, [1], 1], [18, ["a"]],
        [12, [99, 1], 0, 0, -1], [12, [0, 1], 0, 2, 1], [13], [13, 99], [14, 0, 0], [14, None],
        [15, 0], [15, 0, -1], [15, 9, 1], [15, 0, True], [16, 0], [16, 0, 3], [17, 0, -1.0], [17, 0, 1], [17, 99, 1.0],
    ],
)  # fmt: skip
def test_nodes_that_cannot_be(vocabulary, node):
    """Every field of every node is checked, whoever made the bytes."""
    content = content_of(literal("x"), vocabulary.fingerprint)
    content["nodes"].append(node)
    with pytest.raises(GrammarError, match="cannot be read"):
        CompiledGrammar.from_bytes(sealed(content), vocabulary)


@pytest.mark.parametrize(
    "change",
    [
        {"root": 1},
        {"root": True},
        {"rules": [1]},
        {"rules": {}},
        {"rules": [0, 0]},
        {"names": [3]},
        {"names": "x"},
        {"nodes": "x"},
        {"kind": 3},
        {"report": 3},
        {"report": [3]},
        {"report": [["", "type", "enforced"]]},
        {"report": [["", "type", "enforced", 3]]},
        {"more": 1},
    ],
)
def test_tables_that_cannot_be(vocabulary, change):
    """So are the tables around the nodes."""
    with pytest.raises(GrammarError, match="cannot be read"):
        CompiledGrammar.from_bytes(sealed(content_of(literal("x"), vocabulary.fingerprint) | change), vocabulary)


@pytest.mark.parametrize("payload", [b"{", b"3", b"{}", b"[" * 100_000, b'{"root": NaN}', b"\xff", b"1" * 5000])
def test_contents_that_cannot_be(vocabulary, payload):
    """And the JSON that holds them."""
    with pytest.raises(GrammarError, match="cannot be read"):
        CompiledGrammar.from_bytes(sealed(payload), vocabulary)


def test_random_changes(vocabulary):
    """Whatever is changed, there comes a grammar or an error of ours, and a grammar that comes can be run."""
    rng = random.Random(4)
    text = json.dumps(content_of(every_node(), vocabulary.fingerprint))
    limits = Limits(states=10_000, stack_depth=1000, compile_seconds=5)
    grammars = 0
    for _ in range(1500):
        changed = text
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(text.index("root"), len(changed))
            changed = changed[:place] + rng.choice("0123456789,[]-") + changed[place + rng.randrange(2) :]
        try:
            grammar = CompiledGrammar.from_bytes(sealed(changed.encode()), vocabulary, limits=limits)
            grammar.matcher().fill_next_token_bitmask(stackmask.allocate_token_bitmask(1, vocabulary.size))
        except StackmaskError:
            continue
        grammars += 1
    assert grammars > 5


def test_grammars_of_the_front_ends_can_be_written(compiler, vocabulary):
    """Whatever a front end emits passes the checks of `from_bytes`."""
    schemas = [True, SCHEMA, {"type": "array", "uniqueItems": True, "items": {"type": "integer"}}, {"enum": [1, "a", None]}]
    schemas += [
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
        {"type": "string", "pattern": "^a+$"},
    ]
    for schema in schemas:
        for options in ({}, {"property_order": "any"}, {"whitespace": "compact"}, {"escapes": "any"}):
            try:
                compiled = compiler.json_schema(schema, **options)
            except GrammarError:
                continue
            assert CompiledGrammar.from_bytes(compiled.to_bytes(), vocabulary).grammar == compiled.grammar


def test_public_names():
    """What the package exports is what it says, in order."""
    assert stackmask.__all__ == sorted(stackmask.__all__)
    assert all(hasattr(stackmask, name) for name in stackmask.__all__)
    assert Grammar.__module__ == "stackmask.pda.grammar"
