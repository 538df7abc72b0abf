"""Objects: every combination of a few keys against the definition, declared order, and the size of the graphs."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import STOP, Engine, accepts, matcher, prepare
from support.schemas import takes

from stackmask.pda.automata.dfa import minimize
from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import UnsatisfiableError
from stackmask.pda.limits import Limits
from stackmask.pda.operators import PERMUTE
from stackmask.schema.emit.direct import Compilation
from stackmask.schema.json_schema import json_schema_grammar
from stackmask.schema.sets import keys
from stackmask.schema.sets import objects as algebra_of_objects
from stackmask.schema.sets.keys import Partition
from stackmask.schema.sets.objects import lacks, plain, requires
from stackmask.schema.sets.strings import pattern_dfa
from stackmask.schema.sets.types import Object

KEYS = ("a", "b", "c", "d")


def objects() -> Iterator[dict[str, Any]]:
    """Every object of some of four keys with values 0 or "x"."""
    for size in range(len(KEYS) + 1):
        for names in itertools.combinations(KEYS, size):
            for values in itertools.product((0, "x"), repeat=size):
                yield dict(zip(names, values, strict=True))


PARTS: tuple[dict[str, Any], ...] = (
    {"properties": {"b": {"type": "integer"}, "a": {"type": "string"}}},
    {"required": ["a"]},
    {"required": ["d", "b"]},
    {"properties": {"c": False}},
    {"additionalProperties": {"type": "integer"}, "properties": {"a": True}},
    {"patternProperties": {"^[ab]$": {"type": "integer"}}},
    {"propertyNames": {"enum": ["a", "b", "c"]}},
    {"minProperties": 2},
    {"maxProperties": 2},
    {"dependentRequired": {"a": ["b"], "c": ["a"]}},
    {"dependentSchemas": {"b": {"properties": {"a": {"type": "string"}}}}},
    {"anyOf": [{"required": ["c"]}, {"properties": {"a": {"const": 0}}, "required": ["a"]}]},
    {"not": {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}]},
)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(("i", "j"), list(itertools.combinations_with_replacement(range(len(PARTS)), 2)))
def test_every_object(kernel: Engine, i: int, j: int, order: str) -> None:
    """Two groups of keywords together accept exactly the objects that jsonschema finds valid."""
    schema = {"type": "object", "allOf": [PARTS[i], PARTS[j]]}
    validator = jsonschema.Draft202012Validator(schema)
    expected = [validator.is_valid(value) for value in objects()]
    try:
        ready = prepare(kernel, json_schema_grammar(schema, property_order=order)[0])
    except UnsatisfiableError:
        assert not any(expected)
        return
    start = kernel.Matcher(ready, [STOP])
    assert [takes(start, value) for value in objects()] == expected


def test_declared_order(engine: Engine) -> None:
    """Declared keys come in their order, then required ones that are not declared, then any others."""
    schema = {"type": "object", "properties": {"b": True, "a": True}, "required": ["r"]}
    start = matcher(engine, json_schema_grammar(schema)[0])
    assert accepts(start, b'{"b":1,"a":1,"r":1,"x":1}')
    for text in (b'{"a":1,"b":1,"r":1}', b'{"r":1,"a":1}', b'{"x":1,"r":1}', b'{"a":1,"a":1,"r":1}', b'{"b":1,"r":1,"b":1}'):
        assert not accepts(start, text)


@pytest.mark.parametrize("patterns", [["^[^x]*$"], ["^[^x]*$", "^b"]])
def test_lone_surrogates_among_patterns(kernel: Engine, patterns: list[str]) -> None:
    """A key that no text can be, and that may not be there, is in the way of no other."""
    schema = {
        "type": "object",
        "properties": {"\ud800": False, "b": True},
        "patternProperties": {pattern: {"type": "string"} for pattern in patterns},
    }
    start = matcher(kernel, json_schema_grammar(schema)[0])
    assert accepts(start, '{"b":"","\u00e9":"","x":1}'.encode())
    assert not accepts(start, b'{"y":1}')


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("beside", [{}, {"minProperties": 1}, {"dependentRequired": {"abc": ["x"]}}, {"unevaluatedProperties": False}])
def test_patterns_whose_values_are_those_of_others(kernel: Engine, beside: dict[str, Any], order: str) -> None:
    """Keys of several patterns have values that meet the subschemas of all, and are one set where these come to the same."""
    values = ({"type": "string"}, {"maxLength": 1}, {"maxLength": 2}, {"type": ["string", "null"]}, {"maxLength": 1, "minLength": 1})
    patterns = {letter: values[place % 5] for place, letter in enumerate("abcdefg")}
    schema = {"type": "object", "properties": {"cb": {"minLength": 1}}, "patternProperties": patterns, **beside}
    start = matcher(kernel, json_schema_grammar(schema, property_order=order)[0])
    validator = jsonschema.Draft202012Validator(schema)
    keys = ["".join(letters) for size in range(4) for letters in itertools.combinations("abcdex", size)]
    for value in ("", "1", "12", "123", None, 7):
        for key in (*keys, "cb"):
            assert takes(start, {key: value}) == validator.is_valid({key: value})


def branches_beside_unevaluated(kind: str, count: int) -> dict[str, Any]:
    """So many branches that look at members of their own, or at those of all."""
    one = lambda n: {"properties": {f"p{n}": {"type": "string"}}, "required": [f"p{n}"]}  # noqa: E731
    if kind == "required":
        branches = [one(n) for n in range(count)]
    elif kind == "optional":
        branches = [{"properties": {f"p{n}": {"type": "string"}, "kind": True}} for n in range(count)]
    elif kind == "kinds":
        branches = [{"properties": {"kind": {"const": n}, f"p{n}": {"type": "string"}}, "required": ["kind"]} for n in range(count)]
    elif kind == "nested":
        branches = [{"anyOf": [one(n), {"anyOf": [one(n + count), {"required": ["kind"]}]}]} for n in range(count)]
    else:
        branches = [{"properties": {f"p{i}": {"type": "string"} for i in range(n)}} for n in range(count)]
    return {"type": "object", "properties": {"p1": True}, "anyOf": branches, "unevaluatedProperties": {"type": "null"}}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("kind", ["required", "optional", "kinds", "nested", "more and more"])
def test_branches_beside_unevaluated_properties(kernel: Engine, kind: str, order: str) -> None:
    """What branches look at depends on which of them hold, of any number; a large number compiles."""
    schema = branches_beside_unevaluated(kind, 4)
    start = matcher(kernel, json_schema_grammar(schema, property_order=order)[0])
    validator = jsonschema.Draft202012Validator(schema)
    names = ("p1", "kind", "p0", "p2", "p5") if kind == "nested" else ("p1", "kind", "p0", "p2", "x")
    for size in range(4):
        for chosen in itertools.combinations(names, size):
            for values in itertools.product(("", 2, None), repeat=size):
                value = dict(zip(chosen, values, strict=True))
                texts = itertools.permutations(value) if order == "schema" else [tuple(value)]
                taken = any(takes(start, {name: value[name] for name in text}) for text in texts)
                assert taken == validator.is_valid(value), value
    many = branches_beside_unevaluated(kind, 6 if kind == "nested" else 30)
    json_schema_grammar({**many, "unevaluatedProperties": False}, property_order=order, limits=Limits(compile_work=200_000))


def test_branches_keep_the_order_of_the_schema(kernel: Engine) -> None:
    """Keys of branches that hold together come in the order of the branches."""
    branches = [{"properties": {name: {"type": "string"}}, "required": [name]} for name in "zcxab"]
    schema = {"type": "object", "properties": {"m": True}, "anyOf": branches, "unevaluatedProperties": False}
    start = matcher(kernel, json_schema_grammar(schema)[0])
    assert accepts(start, b'{"m":1,"z":"","c":"","b":""}')
    assert accepts(start, b'{"x":"","a":""}')
    assert not accepts(start, b'{"c":"","z":""}')


def test_many_conditions_are_put_together_in_pairs() -> None:
    """Objects of an allOf are put together without a look at all clauses before each of them."""
    schema = {"type": "object", "allOf": [{"not": {"required": [f"a{n}", f"a{n + 1}"]}} for n in range(256)]}
    needed, looked_at = algebra_of_objects._needed, 0

    def counted(atoms: Any, clauses: Any) -> Any:
        nonlocal looked_at
        clauses = list(clauses)
        looked_at += len(clauses)
        return needed(atoms, clauses)

    with patch.object(algebra_of_objects, "_needed", counted):
        json_schema_grammar(schema)
    assert looked_at < 5_000  # 33,000 one after the other


def test_absent_keys_are_told_with_those_of_other_values() -> None:
    """An object without a member of a certain value lacks it, or has another value there: one demand, which none of the others repeats."""
    literal = 7
    other = requires("b")
    (outside,) = algebra_of_objects.complement(Object(atoms=(requires("a"), plain("a", literal), other.negated())))
    assert outside == Object(clauses=((plain("a", -literal), other),))
    assert algebra_of_objects.complement(Object(atoms=(requires("a"), plain("a", literal)))) == [Object(atoms=(plain("a", -literal),))]
    assert algebra_of_objects.merged((plain("b", literal), lacks("a"), lacks("b"))) == (plain("b", literal), lacks("a"))


def test_recursive_members_that_must_not_have_a_value(kernel: Engine) -> None:
    """Whether a complement is cheap to write is asked of it while it is being made: no test goes down for ever."""
    names, others = ["a", "b"], {"^x": {"$ref": "#"}}
    both = {"type": "object", "properties": {key: {"$ref": "#"} for key in names}, "required": names, "additionalProperties": False}
    some = {"type": "object", "patternProperties": others, "additionalProperties": False, "minProperties": 1}
    schema = {"oneOf": [{"type": "integer"}, {"oneOf": [both, some, {**some, "patternProperties": {"x$": {"$ref": "#"}}}]}]}
    start = matcher(kernel, json_schema_grammar(schema)[0])
    for text in (b"7", b'{"a":7,"b":{"xx1":7}}', b'{"x1":{"1x":7}}'):
        assert accepts(start, text)
    for text in (b"{}", b'{"a":7}', b'{"x":7}', b'{"x1":""}', b'{"a":7,"b":{"x":7}}'):
        assert not accepts(start, text)


def test_parts_and_clauses_that_say_nothing_new() -> None:
    """A clause that another one implies goes, and a part of a union that another one holds, unless its keys come in another order."""
    one, two, three = requires("a"), lacks("b"), plain("c", 5)
    both = algebra_of_objects.intersect(Object(clauses=((one, two, three), (one, two))), Object(atoms=(three,), clauses=((two, one),)))
    assert both.clauses == ((one, two),)
    assert algebra_of_objects.intersect(Object(atoms=(one,)), both).clauses == ()
    wide, narrow = Object(clauses=((one, two),), high=9), Object(atoms=(three,), clauses=((one,),), low=1, high=8)
    assert algebra_of_objects.unite([narrow, wide]) == algebra_of_objects.unite([wide, narrow]) == (wide,)
    for other in (narrow._replace(order=("c",)), narrow._replace(high=-1), narrow._replace(clauses=((one, three),))):
        assert set(algebra_of_objects.unite([other, wide])) == {other, wide}


@pytest.mark.parametrize("required", [(), ("p3",), ("p0", "p9")])
def test_leading_optional_members(engine: Engine, required: tuple[str, ...]) -> None:
    """Commas are right whatever is left out."""
    names = [f"p{i}" for i in range(10)]
    schema = {
        "type": "object",
        "properties": {n: {"type": "integer"} for n in names},
        "required": list(required),
        "additionalProperties": False,
    }
    start = matcher(engine, json_schema_grammar(schema)[0])
    for chosen in (*itertools.combinations(names, 2), (), names[3:4], names):
        text = json.dumps(dict.fromkeys(chosen, 1), separators=(",", ":"))
        assert accepts(start, text.encode()) == set(required).issubset(chosen)
    assert not accepts(start, b'{,"p1":1}')
    assert not accepts(start, b'{"p1":1,}')


def test_nesting_does_not_multiply() -> None:
    """Optional members nested in optional members are written once each."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(25):
        schema = {"type": "object", "properties": {"a": schema, "b": {"type": "array", "items": {"type": "integer"}}}}
    grammar = json_schema_grammar(schema)[0]
    edges = sum(len(node[2]) for node in grammar.nodes if node[0] == 9)  # type: ignore[arg-type]
    assert edges < 2_000


def test_counts_over_many_members(kernel: Engine) -> None:
    """Counts of members cost a factor, not a power."""
    names = [f"p{i}" for i in range(60)]
    schema = {"type": "object", "properties": {n: {"type": "integer"} for n in names}, "minProperties": 2, "maxProperties": 4}
    start = matcher(kernel, json_schema_grammar(schema)[0])
    for size, expected in ((1, False), (2, True), (4, True), (5, False)):
        assert accepts(start, json.dumps(dict.fromkeys(names[:size], 1)).encode()) is expected
        assert accepts(start, json.dumps({f"x{i}": None for i in range(size)}).encode()) is expected


def test_one_key_for_several_conditions(kernel: Engine) -> None:
    """One undeclared key may be what several conditions ask for, also where keys come in any order."""
    schema = {
        "type": "object",
        "allOf": [{"not": {"propertyNames": {"pattern": "^a"}}}, {"not": {"const": {}}}, {"not": {"propertyNames": {"pattern": "b$"}}}],
    }
    validator = jsonschema.Draft202012Validator(schema)
    for order in ("schema", "any"):
        start = matcher(kernel, json_schema_grammar(schema, property_order=order)[0])
        for value in ({}, {"c": 1}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {"a": 1, "ab": 1}, {"b": 1, "a": 1, "c": 1}):
            assert accepts(start, json.dumps(value, separators=(",", ":")).encode()) == validator.is_valid(value), (order, value)


def opened(**properties: Any) -> dict[str, Any]:
    """Objects with these members, the first of which is required."""
    return {"type": "object", "properties": properties, "required": list(properties)[:1]}


NUMBER, TEXT = {"type": "number"}, {"type": "string"}
MERGED: tuple[dict[str, Any], ...] = (
    {"allOf": [opened(a=NUMBER, b=TEXT), opened(c=NUMBER)]},
    {"allOf": [opened(a=NUMBER, b=TEXT), {"properties": {"a": {"const": 0}}, "required": ["d"]}]},
    {"allOf": [opened(a=NUMBER), {**opened(a=NUMBER, b=TEXT), "additionalProperties": False}]},
    {"allOf": [{**opened(a={}, b={}), "additionalProperties": False}, {**opened(b={}, c={}), "additionalProperties": False}]},
    {"allOf": [{**opened(a={}), "additionalProperties": False}, opened(b={})]},
    {**opened(a=NUMBER), "allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"properties": {"b": TEXT}, "allOf": [{"required": ["b"]}]}}},
    {**opened(a={}), "oneOf": [{"properties": {"a": {"const": 0}, "b": TEXT}}, {"properties": {"a": {"const": "x"}, "c": TEXT}}]},
    {"type": "object", "required": ["d"], "oneOf": [{**opened(a={}, d={}), "additionalProperties": False}, opened(b={})]},
    {"allOf": [opened(a={}), {"oneOf": [opened(b=TEXT), {"properties": {"b": False}}]}]},
)


@pytest.mark.parametrize("schema", MERGED)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_objects_in_several_places(kernel: Engine, schema: dict[str, Any], order: str) -> None:
    """What subschemas say together of the members of an object, written as one object or not, is what jsonschema makes of it."""
    validator = jsonschema.Draft202012Validator(schema)
    try:
        ready = prepare(kernel, json_schema_grammar(schema, property_order=order)[0])
    except UnsatisfiableError:
        assert not any(map(validator.is_valid, objects()))
        return
    start = kernel.Matcher(ready, [STOP])
    for value in (*objects(), 0, None, [], "x"):
        assert takes(start, value) == validator.is_valid(value), value


def test_plain_objects_need_no_algebra() -> None:
    """Members that are declared here and there are one object, in the order in which a reader meets them."""
    merged, _ = json_schema_grammar({**opened(a=NUMBER), "allOf": [opened(b=TEXT), opened(c={})]})
    plain, _ = json_schema_grammar({**opened(a=NUMBER, b=TEXT, c={}), "required": ["a", "b", "c"]})
    assert merged == plain


@pytest.mark.parametrize("silent", [{"$defs": {"x": {"type": "null"}}}, {"then": False}, {"minContains": 2}, {"contentSchema": False}])
@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [opened(a=NUMBER)]},
        {**opened(a=NUMBER), "allOf": [opened(b=TEXT), opened(c={})]},
        {**opened(a={}), "oneOf": [{"properties": {"a": {"const": 0}, "b": TEXT}}, {"properties": {"a": {"const": "x"}, "c": TEXT}}]},
    ],
)
def test_keywords_that_constrain_nothing_need_no_algebra(schema: dict[str, Any], silent: dict[str, Any], monkeypatch: Any) -> None:
    """Definitions, and keywords without the one that they belong to, leave a schema as plain as it is."""
    plain, _ = json_schema_grammar(schema)
    monkeypatch.setattr(Compilation, "via_algebra", None)
    assert json_schema_grammar({**schema, **silent})[0] == plain


@given(st.lists(st.sampled_from(["^a", "b$", "[ab]+c", "^[^x]*$", "é", "^.{2,5}$", "a.*b", r"\d"]), min_size=2, max_size=4, unique=True))
def test_cells_of_large_automata(patterns: list[str]) -> None:
    """The classes of several patterns are the same where the automata are too large for tables."""
    languages = [(number, pattern_dfa(pattern, Budget())) for number, pattern in enumerate(patterns)]
    partition = Partition(languages, Budget())
    with patch.object(keys, "by_classes", lambda automaton: None):
        other = Partition(languages, Budget())
    assert partition.classes.keys() == other.classes.keys()
    assert all(minimize(partition.automaton([key_class])) == minimize(other.automaton([key_class])) for key_class in partition.classes)


def test_any_order_of_many_alternatives(engine: Engine) -> None:
    """Clauses that each have many atoms, in any order: 10**5 alternatives and one graph."""
    groups = [[f"{letter}{number}" for number in range(10)] for letter in "abcde"]
    schema = {"type": "object", "allOf": [{"anyOf": [{"required": [name]} for name in names]} for names in groups]}
    ready = prepare(engine, json_schema_grammar(schema, property_order="any", whitespace="compact")[0])
    source = random.Random(5)
    for _ in range(30):
        names = [source.choice(group) for group in groups if source.random() < 0.9] + source.sample(["x", "a0", "b1", "y"], 2)
        names = list(dict.fromkeys(names))
        source.shuffle(names)
        text = json.dumps(dict.fromkeys(names, 1), separators=(",", ":")).encode()
        matcher = engine.Matcher(ready, [STOP])
        assert (matcher.accept_bytes(text) and matcher.is_completed()) == all(any(name in names for name in group) for group in groups)
    matcher = engine.Matcher(ready, [STOP])
    assert not matcher.accept_bytes(b'{"a0":1,"a0":')


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("demands", [1, 2])
def test_any_order_of_branches_told_apart_by_a_member(engine: Engine, required: bool, demands: int) -> None:
    """Conditions on the value of one member multiply nothing: each of its values is one alternative."""
    kinds = [f"kind{number}" for number in range(40)]
    schema = {
        "type": "object",
        "allOf": [
            {
                "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
                "then": {"required": [kind], **({"properties": {"n": {"const": n}}} if demands == 2 else {})},
            }
            for n, kind in enumerate(kinds)
        ],
        **({"required": ["type"]} if required else {}),
    }
    validator = jsonschema.Draft202012Validator(schema)
    grammar, _ = json_schema_grammar(schema, property_order="any")
    assert sum(node[0] == PERMUTE for node in grammar.nodes) == len(kinds) + 1
    ready = prepare(engine, grammar)
    for value in (
        {"type": "kind7", "n": 7, "kind7": 1},
        {"n": 7, "kind7": 1, "type": "kind7"},
        {"kind7": 1, "type": "kind7"},
        {"n": 7, "type": "kind7"},
        {"n": 7, "kind7": 1, "type": "kind8"},
        {"n": 8, "kind8": 1, "type": "kind8", "kind7": 2},
        {"n": 7},
        {},
        {"type": "other", "n": 3},
    ):
        matcher = engine.Matcher(ready, [STOP])
        taken = matcher.accept_bytes(json.dumps(value).encode()) and matcher.is_completed()
        assert taken == validator.is_valid(value), value


LISTS: tuple[list[Any], ...] = (["a"], ["a", "b"], ["b", "c"], ["c"], [1, "a"], [None, 1], ["d"], [True, 1.5, "b"])


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("seed", range(12))
def test_conditions_on_lists_of_values(kernel: Engine, seed: int, order: str) -> None:
    """Conditions by lists of scalars that overlap, and their complements: every value of the member against the definition."""
    chosen = random.Random(seed)
    kinds: list[Any] = ["a", "b", "c", "d", 1, 1.5, True, None, "other", [1], {}]
    conditions: list[dict[str, Any]] = []
    for number in range(chosen.randrange(4, 8)):
        test: dict[str, Any] = {"enum": chosen.choice(LISTS)}
        if chosen.random() < 0.3:
            test = {"not": test}
        if chosen.random() < 0.2:
            test = {"type": chosen.choice(["string", "integer", "array"])}
        branch = chosen.choice(["then", "else"])
        conditions.append({"if": {"properties": {"k": test}, "required": ["k"]}, branch: {"required": [f"x{number % 3}"]}})
    schema: dict[str, Any] = {"type": "object", "properties": {"k": {}, "x0": {}, "x1": {}, "x2": {}}, "allOf": conditions}
    if chosen.random() < 0.6:
        schema["properties"]["k"] = {"enum": chosen.sample(kinds, 6)}
    validator = jsonschema.Draft202012Validator(schema)
    start = matcher(kernel, json_schema_grammar(schema, whitespace="compact", property_order=order)[0])
    for kind in (..., *kinds):
        for present in itertools.product((False, True), repeat=3):
            instance = {} if kind is ... else {"k": kind}
            instance |= {f"x{i}": 0 for i, there in enumerate(present) if there}
            assert takes(start, instance) == validator.is_valid(instance), (schema, instance)
