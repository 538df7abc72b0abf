"""The evaluator against the official test suite and python-jsonschema; it knows nothing of grammars."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support import suite

from stackmask.schema.dialect.dialects import DIALECTS
from stackmask.schema.dialect.references import Registry
from stackmask.schema.refusal.evaluate import DEEPEST, Evaluator, GivenUpError
from stackmask.schema.refusal.problems import Problem, written

XN = ("hostname", "idn-hostname")  # formats that no automaton reads wholly: docs/json_schema.md names the texts that are refused


def problems(schema, instance, *, draft="2020-12", documents=None, formats=False):
    """What the evaluator finds."""
    registry = Registry(schema, documents, default=DIALECTS[draft])
    return Evaluator(registry, formats=formats).problems(json.loads(json.dumps(instance), parse_float=Decimal))


@pytest.mark.parametrize("part", ["", "optional/format"])
@pytest.mark.parametrize("draft", suite.DRAFTS)
def test_the_official_suite(draft, part):
    """An instance has problems exactly where it is invalid."""
    if not suite.ARCHIVE.exists():
        pytest.skip("the test suite is not there")
    documents = suite.remotes()
    count = 0
    for case in suite.cases(draft, part):
        if case.file.rpartition("/")[2] in XN:
            continue
        found = problems(case.schema, case.instance, draft=draft, documents=documents, formats=bool(part))
        assert bool(found) != case.valid, (case.name, [str(problem) for problem in found])
        count += 1
    assert count > (10 if part else 500)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 6) | st.sampled_from(["", "a", "ab", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=5,
)
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object", ["string", "null"]]),
        "minimum": st.integers(-2, 3),
        "exclusiveMaximum": st.integers(0, 5),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["a", "^b", "b$"]),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "required": st.lists(st.sampled_from(["a", "b"]), unique=True),
        "minItems": st.integers(0, 2),
        "maxProperties": st.integers(0, 2),
        "uniqueItems": st.booleans(),
    },
)
SCHEMAS = st.recursive(
    LEAVES | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "minContains": st.integers(0, 2),
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "unevaluatedProperties": inner,
            "unevaluatedItems": inner,
            "dependentRequired": st.just({"a": ["b"]}),
            "dependentSchemas": st.dictionaries(st.just("a"), inner, max_size=1),
        },
    ),
    max_leaves=6,
)


@given(SCHEMAS, VALUES)
def test_random_schemas(schema, value):
    """The evaluator and python-jsonschema agree, and a problem that they both name stands at a keyword of the schema."""
    found = problems(schema, value)
    assert bool(found) == (not Draft202012Validator(schema).is_valid(value)), [str(problem) for problem in found]
    for problem in found:
        place = schema
        for step in problem.pointer.split("/")[1:]:
            place = place[int(step)] if isinstance(place, list) else place[step]


def test_gives_up():
    """Where a schema nests too deep or branches too much, there are no sentences, and soon."""
    deep = {}
    for _ in range(DEEPEST + 1):
        deep = {"allOf": [deep]}
    with pytest.raises(GivenUpError):
        problems(deep, 1)
    wide = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"anyOf": [{"items": {"$ref": "#/$defs/a"}, "maxItems": 1}, {"items": {"$ref": "#/$defs/a"}}]}},
    }
    value = 1
    for _ in range(25):
        value = [value, value] if value == 1 else [value]
    with pytest.raises(GivenUpError):
        problems({**wide, "$defs": {"a": {"anyOf": [{"items": {"$ref": "#/$defs/a"}, "not": {}}] * 4}}}, value)


def test_other_documents_have_names():
    """A pointer into another document begins with its URI."""
    (problem,) = problems(
        {"$ref": "https://example.org/s#/$defs/n"}, 1, documents={"https://example.org/s": {"$defs": {"n": {"type": "null"}}}}
    )
    assert str(problem) == "the value: 1 is an integer, not null (https://example.org/s#/$defs/n/type)"


def test_values_are_cut():
    """A sentence shows the beginning of a long value, and costs nothing for a huge one."""
    assert written({"a": [1, {"b": None}], "c": "é"}) == '{"a": [1, {"b": null}], "c": "é"}'
    assert written("x" * 10**6) == '"' + "x" * 56 + "..."
    assert len(written([list(range(1000))] * 1000)) == 60
    nested = []
    for _ in range(100_000):
        nested = [nested]
    assert written(nested) == "[" * 57 + "..."
    assert str(Problem((), "", " is not allowed")) == "the value is not allowed (schema /)"
