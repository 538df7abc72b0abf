"""The work of compilations that once exploded, in counted steps: what is bounded stays bounded, and what is refused is refused early."""

from __future__ import annotations

import itertools
import json
import re
import string
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.engines import accepts as generates
from tests.support.engines import matcher
from tests.support.pace import as_quick_as

from stackmask.pda import engine
from stackmask.pda.automata import dfa
from stackmask.pda.automata.language import accepts
from stackmask.pda.budget import Budget
from stackmask.pda.ebnf import ebnf_grammar
from stackmask.pda.exceptions import LimitError, SchemaError, UnsatisfiableError
from stackmask.pda.grammar import GrammarBuilder
from stackmask.pda.lark import lark_grammar
from stackmask.pda.limits import Limits
from stackmask.pda.regex import regex_dfa, regex_grammar
from stackmask.schema.algebra import boolean
from stackmask.schema.emit import arrays, object_graph, objects, unordered
from stackmask.schema.json_schema import json_schema_grammar, json_schema_node
from stackmask.schema.sets.strings import Strings
from stackmask.schema.structural_tag import structural_tag_grammar

Compile = Callable[[Limits], object]


def names(count: int) -> list[str]:
    """Words of four letters, all different, that begin in many ways."""
    return [f"{chr(97 + n * 7 % 26)}{chr(97 + n * 3 % 25)}{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(count)]


def schema(value: Any, order: str = "schema") -> Compile:
    """The compilation of a JSON Schema."""
    return lambda limits: json_schema_grammar(value, property_order=order, limits=limits)


def closed_unions(size: int) -> Any:
    """Closed objects with patterns of keys, three levels of so many in a oneOf."""
    value: Any = {"type": "string"}
    for level in range(3):
        value = {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"type": {"const": f"t{level}{n}"}, f"in{n}": value},
                    "required": ["type", f"in{n}"],
                    "patternProperties": {f"^x-{n}[a-z]*$": {"type": "string"}},
                    "additionalProperties": False,
                }
                for n in range(size)
            ]
        }
    return value


def dispatch(size: int) -> Any:
    """Free text with so many tags, each with free text that has as many others."""
    inner = [[f"{name}:", {"type": "const_string", "value": name[::-1]}] for name in names(size)]
    content = {"type": "tag", "begin": "{", "content": {"type": "dispatch", "rules": inner, "excludes": ["}"]}, "end": "}"}
    return {"type": "dispatch", "rules": [[f"<{name}", content] for name in names(size)]}


def conditions(size: int, listed: int = 1) -> Any:
    """A kind on which so many conditions depend, each for so many values."""
    return {
        "type": "object",
        "properties": {"kind": {"enum": [f"v{n}" for n in range(size)]}},
        "required": ["kind"],
        "allOf": [
            {
                "if": {"properties": {"kind": {"enum": [f"v{(n + i) % size}" for i in range(listed)]}}},
                "then": {"required": [f"x{n}"], "properties": {f"x{n}": {"type": "integer"}}},
            }
            for n in range(size)
        ],
    }


def dependent(keys: list[str]) -> Any:
    """Keys each of which asks for the next."""
    return {"properties": dict.fromkeys(keys, INTEGERS), "dependentRequired": {a: [b] for a, b in itertools.pairwise(keys)}}


def required(combinator: str, size: int) -> Any:
    """So many keys, of which one has to be there, or one alone."""
    keys = [f"k{n}" for n in range(size)]
    return {"type": "object", "properties": dict.fromkeys(keys, INTEGERS), combinator: [{"required": [key]} for key in keys]}


def kinds(number: int) -> Any:
    """An object of one kind."""
    return {"type": "object", "properties": {"kind": {"const": f"k{number}"}, f"v{number}": {}}, "required": ["kind"]}


def services(size: int) -> Any:
    """So many open objects of a union, which their required keys tell apart and share most of the others."""
    shared = {"name": {"type": "string"}, "env": {"type": "array", "items": {"type": "string"}}, "replicas": {"type": "integer"}}
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {**shared, f"k{n}": {"type": "string"}, f"a{n}": {"type": "array", "items": {"type": "integer"}}},
                "required": ["name", f"k{n}"],
            }
            for n in range(size)
        ]
    }


def patterns_of_keys(count: int, value: Callable[[int], Any]) -> Any:
    """So many patterns that match anywhere in a key, with the subschemas of their values."""
    return {"type": "object", "patternProperties": {word[1:3]: value(n) for n, word in enumerate(names(count))}}


WORDS = names(720)
FOLLOWERS = " | ".join(f'"{word}"' for word in WORDS)
INTEGERS = {"type": "integer"}
KINDS = ("integer", "string", "boolean")
EXPONENTIAL = {"type": "string", "pattern": "^[ab]*a[ab]{18}$"}
CASES: dict[str, tuple[int, Compile]] = {
    "nested unions of closed objects": (60_000, schema(closed_unions(10))),
    "patterns of which one holds": (400_000, schema({"oneOf": [{"type": "string", "pattern": f"^.*{w[:3]}[a-z]*$"} for w in WORDS[:26]]})),
    "a pattern alone, which has a million deterministic states": (
        1_000,
        schema({"properties": {f"p{n}": part for n, part in enumerate((EXPONENTIAL, {"allOf": [{"type": "string"}, EXPONENTIAL]}))}}),
    ),
    "excluded patterns": (300_000, schema({"type": "string", "allOf": [{"not": {"pattern": word}} for word in WORDS[:120]]})),
    "arrays that contain many": (
        200_000,  # a graph may take a quarter of it
        schema({"type": "array", "items": INTEGERS, "contains": {"const": 1}, "minContains": 1_700, "maxContains": 3_500}),
    ),
    "dependent keys in any order": (120_000, schema(dependent(WORDS[:90]), "any")),
    "many dependent keys in any order": (700_000, schema(dependent(WORDS[:256]), "any")),
    "a union of objects in any order": (12_000, schema(services(6), "any")),
    "patterns of keys with few subschemas": (30_000, schema(patterns_of_keys(100, lambda n: {"type": KINDS[n % 3]}))),
    "patterns of keys whose values are those of one of them": (300_000, schema(patterns_of_keys(10, lambda n: {"maxLength": n}))),
    "patterns of keys that part at once": (
        10_000,
        schema({"patternProperties": {f"^name{n}_[a-z]{{1,40}}(-[0-9]{{2,8}})*$": INTEGERS for n in range(6)}}),
    ),
    "patterns of keys that part nowhere": (1_200, schema(patterns_of_keys(6, lambda _: INTEGERS))),
    "many conditions on a kind": (80_000, schema(conditions(60))),
    "many conditions on a kind, as lists that overlap": (160_000, schema(conditions(60, 3))),
    "a union of open objects": (1_900_000, schema(services(100))),
    "one of many keys, which are declared": (200_000, schema(required("anyOf", 3_000))),
    "one of many keys in any order": (80_000, schema(required("anyOf", 1_000), "any")),
    "many branches of a kind each": (30_000, schema({"oneOf": [kinds(n) for n in range(400)]})),
    "tags inside of tags": (60_000, lambda limits: structural_tag_grammar(dispatch(60), limits=limits)),
    "what follows a lookahead": (
        250_000,
        lambda limits: ebnf_grammar(f"root ::= (name ({FOLLOWERS}) [;])+\nname ::= [a-z]+ (= {FOLLOWERS})", limits=limits),
    ),
    "parts of a text": (
        150_000,
        lambda limits: lark_grammar('start: S\nS: %regex {"substring_chars": "' + " ".join(WORDS * 5) + '"}', limits=limits),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_work(name: str) -> None:
    """Each compiles within this work; it took ten times as much, or was quadratic."""
    work, compile_ = CASES[name]
    compile_(Limits(compile_work=work))


REFUSED: dict[str, tuple[str, Compile]] = {
    "/": ("more than", schema({"type": "string", "allOf": [{"pattern": f"{word[:3]}[0-9]"} for word in WORDS[:60]]})),
    "/properties/a": (
        "steps|states",
        schema({"properties": {"a": {"type": "string", "pattern": "(a|b)*a(a|b){20}", "not": {"pattern": "x"}}}}),
    ),
    "/properties/b/multipleOf": ("100000 states", schema({"properties": {"b": {"multipleOf": 123_456_789}}})),
    "rule `r`": ("more than", lambda limits: ebnf_grammar('root ::= r\nr ::= l - "b"\nl ::= [ab]* "a" [ab]{30}', limits=limits)),
    "one product": ("steps", lambda limits: regex_grammar("".join(f"(?=.*{word[:2]}[0-9])" for word in WORDS[:24]) + ".*", limits=limits)),
}


@pytest.mark.parametrize("count", [13, 30, 60])
def test_too_many_patterns_of_keys(count: int) -> None:
    """Keys that patterns cut into too many sets are refused before all of these are found."""
    with as_quick_as(160), pytest.raises(LimitError, match="cut its keys into more than"):  # takes 40
        json_schema_grammar(patterns_of_keys(count, lambda n: {"const": n}))


@pytest.mark.parametrize("place", REFUSED)
def test_refusals(place: str) -> None:
    """What explodes is refused by its place, within the share of one part and what came before it."""
    what, compile_ = REFUSED[place]
    with pytest.raises(LimitError, match=what) as caught:
        compile_(Limits())
    assert str(caught.value).startswith(place)


KEYS = [f"k{n}" for n in range(1_000)]
CONTAINED = [{"contains": {"const": n}} for n in range(1_000)]
FORESEEN: dict[str, tuple[str, int, Any]] = {
    "items of which each contains another": ("graph", 60_000, {"prefixItems": [{}, INTEGERS], "items": INTEGERS, "allOf": CONTAINED}),
    "as many of each": ("graph", 60_000, {"allOf": [{**one, "minContains": 2, "maxContains": 3} for one in CONTAINED]}),
    "different items of which each contains another": ("graph", 60_000, {"uniqueItems": True, "allOf": CONTAINED}),
    "few items of which each contains another": ("graph", 60_000, {"maxItems": 900, "allOf": CONTAINED}),
    "a fifth of many optional keys": (
        "200000 states",
        20_000,
        {"properties": dict.fromkeys(KEYS, INTEGERS), "maxProperties": 200, "additionalProperties": False},
    ),
    "one alone of many keys": ("2,000,000 steps", 160_000, required("oneOf", 350)),
    "keys each of which asks for another": (
        "2,000,000 steps",
        6_000,
        {"dependentSchemas": {f"k{n}": {"required": [f"x{n}"]} for n in range(64)}, "properties": dict.fromkeys(KEYS[:64], INTEGERS)},
    ),
}


@pytest.mark.parametrize("name", FORESEEN)
def test_foreseen_refusals(name: str) -> None:
    """States that will surely come count before they are there."""
    message, most, value = FORESEEN[name]
    budget = Budget()
    with pytest.raises(LimitError, match=message):
        json_schema_node(GrammarBuilder(), {"type": "array" if "allOf" in value else "object", **value}, budget=budget)
    assert budget.work < most


BRANCHES: tuple[Any, ...] = (
    *({"required": [key]} for key in "abc"),
    *({"required": ["a", "b"]}, {"not": {"required": ["c"]}}, {"not": {"required": ["a", "b"]}}, {"minProperties": 3}),
    *({"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"const": 1}}, "required": ["b"]}, {"properties": {"c": False}}),
    *({"not": {"properties": {"b": {"const": 1}}}}, {"additionalProperties": {"type": "string"}}),
)
MEMBERS = [dict(zip("abcd", some, strict=True)) for some in itertools.product((1, "x", None), repeat=4)]
OBJECTS = [{key: value for key, value in one.items() if value is not None} for one in MEMBERS]


@given(st.lists(st.sampled_from(BRANCHES), min_size=3, max_size=7), st.sampled_from(["anyOf", "oneOf"]), st.sampled_from(["schema", "any"]))
def test_branches_of_objects(branches: list[Any], combinator: str, order: str) -> None:
    """A union of objects has those that jsonschema finds valid, whatever runs of branches are put together."""
    value = {"type": "object", "properties": dict.fromkeys("abcd", True), combinator: branches}
    is_valid = jsonschema.Draft202012Validator(value).is_valid
    try:
        start = matcher(engine, json_schema_grammar(value, property_order=order)[0])
    except UnsatisfiableError:
        assert not any(map(is_valid, OBJECTS))
        return
    assert [generates(start, json.dumps(one, separators=(",", ":")).encode()) for one in OBJECTS] == [*map(is_valid, OBJECTS)]


@pytest.mark.parametrize("bounds", [{"maxProperties": 4}, {"minProperties": 3}, {"minProperties": 2, "maxProperties": 5}])
def test_states_of_counted_members(monkeypatch: pytest.MonkeyPatch, bounds: Any) -> None:
    """What is foreseen is no more than what comes: with as many states as the graph has, none is refused."""
    needed: list[int] = []
    made = object_graph.OrderedGraph.node

    def node(self: Any) -> Any:
        found = made(self)
        needed.append(len(self.numbers) + 1)
        return found

    schemas = [
        {"type": "object", "properties": dict.fromkeys(KEYS[:size], INTEGERS), "required": KEYS[:size:step], **bounds, **others}
        for size in range(1, 9)
        for step in (1, 2, 3, 9)
        for others in ({}, {"additionalProperties": False})
    ]
    monkeypatch.setattr(object_graph.OrderedGraph, "node", node)
    for value in schemas:
        needed.clear()
        try:
            json_schema_grammar(value)
        except UnsatisfiableError:
            continue
        if needed:
            with monkeypatch.context() as patch:
                patch.setattr(object_graph, "GRAPH_STATES", max(needed))
                json_schema_grammar(value)


def pairs_of_keys(size: int) -> Iterator[Any]:
    """Objects in which so many keys ask for others, or for one of two."""
    keys, others = [f"k{n}" for n in range(size)], [f"x{n}" for n in range(size)]
    asking = {"dependentRequired": {key: [other] for key, other in zip(keys, others, strict=True)}}
    excluding = {"allOf": [{"anyOf": [{"required": [key]}, {"required": [other]}]} for key, other in zip(keys, others, strict=True)]}
    shared = {"dependentRequired": {key: ["x0", other] for key, other in zip(keys, others, strict=True)}}
    for names_ in ([*keys, *others], [*others, *keys], keys, [key for pair in zip(keys, others, strict=True) for key in pair]):
        for demands in (asking, excluding, shared):
            for bounds in ({}, {"additionalProperties": False}, {"minProperties": size}, {"required": names_[:1]}):
                yield {"type": "object", "properties": dict.fromkeys(names_, INTEGERS), **demands, **bounds}


@pytest.mark.parametrize("size", [1, 3, 4, 7])
def test_sets_of_open_clauses(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The work that is expected for sets of clauses is no more than what the graph takes."""
    expected: list[int] = []
    sets = object_graph.OrderedGraph.expect_sets

    def expect_sets(self: Any, start: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Budget, "expect", lambda _, work: expected.append(work))
            sets(self, start)

    monkeypatch.setattr(object_graph.OrderedGraph, "expect_sets", expect_sets)
    for value in pairs_of_keys(size):
        budget = Budget()
        expected.clear()
        json_schema_node(GrammarBuilder(), value, budget=budget)
        assert sum(expected) <= budget.work


@pytest.mark.parametrize("size", [1, 3, 5])
def test_sets_of_clauses_in_any_order(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A graph with as many states as it needs is not given up for the sets of clauses that surely come."""
    node = unordered.Unordered.node

    def twice(self: Any, states: int) -> Any:
        sizes: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(unordered.Unordered, "alone", lambda _: 0)
            patch.setattr(type(self.b), "graph", lambda _, size, edges: sizes.append(size))
            patch.setattr(type(self.b), "seq", lambda *_: 0)
            node(self, states)
        assert node(self, sizes[0]) is not None
        raise LimitError("the graph is seen", limit="states", value=0)

    monkeypatch.setattr(unordered.Unordered, "node", twice)
    monkeypatch.setattr(objects, "MOST_OPTIONS", 0)
    for value in pairs_of_keys(size):
        with pytest.raises(LimitError, match="the graph is seen"):
            json_schema_grammar(value, property_order="any")


def contained(size: int) -> Iterator[Any]:
    """Arrays that contain so many constants, or more than one of several."""
    for counts in (
        [{"contains": {"const": n}} for n in range(size)],
        [{"contains": {"enum": [n, n + 1]}} for n in range(size)],
        [{"contains": {"const": n}, "minContains": 1 + n % 2, "maxContains": 2} for n in range(size)],
        [*({"contains": {"enum": [n, n + 1]}} for n in range(size)), {"contains": {"const": 1}, "maxContains": 1}],
    ):
        for prefix in ([], [{"const": 0}], [{"enum": [0, 1]}, {}]):
            for bounds in ({}, {"maxItems": size + 1}, {"uniqueItems": True}, {"items": {"enum": [0, 1, "a"]}}, {"minItems": 2}):
                yield {"type": "array", "allOf": counts, **({"prefixItems": prefix} if prefix else {}), **bounds}


def graph_states(monkeypatch: pytest.MonkeyPatch, value: Any) -> int:
    """The most states of a graph in the grammar of a schema, 0 if it has none."""
    states = [0]
    made = GrammarBuilder.graph

    def graph(self: GrammarBuilder, count: int, edges: tuple[int, ...]) -> Any:
        states.append(count)
        return made(self, count, edges)

    with monkeypatch.context() as patch:
        patch.setattr(GrammarBuilder, "graph", graph)
        json_schema_grammar(value)
    return max(states)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_states_of_counted_items(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """What is foreseen is no more than what comes: with as many states as the graph has, none is refused."""
    for value in contained(size):
        try:
            needed = graph_states(monkeypatch, value)
        except (UnsatisfiableError, LimitError):
            continue
        if needed:
            with monkeypatch.context() as patch:
                patch.setattr(arrays, "GRAPH_STATES", needed)
                json_schema_grammar(value)


@pytest.mark.parametrize(
    ("size", "states", "value"),
    [
        (100, 201, {"prefixItems": [{"enum": [n, n + 1]} for n in range(100)], "items": False, "minItems": 100}),
        (20, 22, {"prefixItems": [{"enum": [n]} for n in range(10)], "items": {"enum": [*range(5, 25)]}, "minItems": 20}),
        (12, 25, {"prefixItems": [{"enum": [n, "a"]} for n in range(12)], "items": {"type": "string"}, "minItems": 12}),
        (4, 9, {"prefixItems": [{"enum": [0, 1]}] * 2, "items": {"enum": [0, 1, 2, 3]}, "contains": {"const": 3}, "maxItems": 6}),
        (6, 12, {"prefixItems": [{"enum": [0, 1, 2]}, {"const": "a"}], "items": {"enum": [*range(13)]}, "minItems": 6}),
        (4, 7, {"prefixItems": [{"enum": [0, 1, "b"]}, {"const": "a"}, *[{"enum": [0, 1, 2]}] * 3], "items": False, "minItems": 3}),
    ],
)
def test_states_of_different_items(monkeypatch: pytest.MonkeyPatch, size: int, states: int, value: Any) -> None:
    """Taken values count as long as a later item may run out of them."""
    found = graph_states(monkeypatch, {"type": "array", "uniqueItems": True, **value})
    assert size < found == states


def test_different_items_of_many_kinds() -> None:
    """What has too many states is refused early, although each of a thousand values is of a kind of its own."""
    prefix = [{"enum": [n, n + 1, "x" * (n % 16)]} for n in range(1000)]
    value = {"type": "array", "prefixItems": prefix, "items": False, "minItems": 1000, "uniqueItems": True}
    with as_quick_as(250), pytest.raises(LimitError, match="one array"):  # takes 100; it took 1,500
        json_schema_grammar(value)


def test_many_ignored_patterns() -> None:
    """Of ignored patterns the ways to begin are found once, not at every place where one may end."""
    words = names(150)
    ignored = "\n".join(f"%ignore /{word}+[ ]*/" for word in words)
    with as_quick_as(120):  # takes 50, and took 190
        lark_grammar(f'start: A+\nA: /[a-z]{{1,9}}/\n{ignored}\n%ignore " "')


def test_terminals_in_a_row() -> None:
    """The automaton of one terminal may take half of the work, as any other."""
    parts = "".join(f"(?:[a-{chr(98 + n % 24)}]{{1,5}}|(?:{word})+)" for n, word in enumerate(names(300)))
    with as_quick_as(250), pytest.raises(LimitError, match="one automaton takes more than 1,000,000 steps"):  # takes 110
        lark_grammar(f"start: A+\nA: /{parts}/")


def test_many_tuples_that_are_told_apart() -> None:
    """Each kind of tuple has its own first item, so that no two are intersected."""
    kinds = [
        {"type": "array", "prefixItems": [{"const": n}, {"type": "string", "maxLength": n + 1}], "minItems": 2, "maxItems": 2}
        for n in range(300)
    ]
    with as_quick_as(30):  # takes 1, and took 220
        json_schema_grammar({"type": "array", "items": {"oneOf": kinds}})


def test_branches_that_share_arrays() -> None:
    """Branches that all have the empty array are surely to be compared, so very many are refused before they are, and no others."""
    with as_quick_as(60), pytest.raises(LimitError, match="2,000,000 steps"):  # takes 15, and took 1,000
        json_schema_grammar({"oneOf": [{"type": "array", "items": {"const": n}} for n in range(320)]})
    json_schema_grammar({"oneOf": [{"type": "array", "items": {"const": n}} for n in range(200)]})
    json_schema_grammar({"oneOf": [{"type": "array", "prefixItems": [{"const": n}], "minItems": 1} for n in range(320)]})
    json_schema_grammar({"oneOf": [{"type": "array", "items": {"const": n}, "contains": {"const": n}} for n in range(225)]})


def test_branches_that_begin_differently() -> None:
    """Patterns that begin with different words are told apart without their automata."""
    with as_quick_as(60):  # takes 7, and took 195
        json_schema_grammar({"oneOf": [{"type": "string", "pattern": f"^{name}[a-z]*$"} for name in names(250)]})


def test_many_branches_with_lookaheads() -> None:
    """The size of a pattern is found once, not for each of its branches."""
    pattern = "|".join(f"(?=.*{word}){word[0]}.*" for word in names(300))
    with as_quick_as(120):  # takes 55, and took 220
        regex_grammar(pattern)


def lookaheads(count: int, after: str = "") -> str:
    """So many letters, each of which has to come somewhere, perhaps with something after it."""
    return "".join(f"(?=.*{letter}{after})" for letter in string.ascii_lowercase[:count]) + ".{8,}"


EARLY: dict[str, tuple[int, str]] = {
    "16 lookaheads": (700_000, lookaheads(16)),
    "24 lookaheads": (700_000, lookaheads(24)),
    "longer lookaheads": (700_000, lookaheads(24, "[0-9]")),
    "a large class counted": (250_000, r"\P{Lu}(?:\P{Lu}[a-z]?){9999}"),
}


@pytest.mark.parametrize("name", EARLY)
def test_early_refusals(name: str) -> None:
    """What an automaton will take to be minimised and written counts while its states are found, so a refusal comes before that."""
    most, pattern = EARLY[name]
    budget = Budget()
    with as_quick_as(120), pytest.raises(LimitError, match=r"1,000,000 steps|states"):  # takes 30; the lookaheads took 240
        regex_dfa(pattern, search=False, budget=budget)
    assert budget.work < most


@pytest.mark.parametrize("count", [8, 14, 15])
def test_lookaheads(count: int) -> None:
    """Nothing that fits is refused for what was expected of it."""
    automaton = regex_dfa(lookaheads(count), search=False)
    letters = string.ascii_lowercase[:count]
    assert len(automaton.accepting) == 1 << count
    assert accepts(automaton, letters[::-1])
    assert not accepts(automaton, letters[1:] + "........")


def test_searches_for_a_common_text() -> None:
    """The search for a text of many patterns counts each class of characters that it tries."""
    budget = Budget()
    tests = frozenset(("pattern", f"{word[:3]}[0-9]", True) for word in WORDS[:30])
    Strings(budget).shortest(tests)
    assert budget.work > 90_000


PIECES = st.sampled_from(["a", "b", "[ab]", ".", "b*", "(a|bb)", "a?"])
PATTERNS = st.builds(
    lambda start, pieces, end: start + "".join(pieces) + end,
    st.sampled_from(["", "^"]),
    st.lists(PIECES, max_size=3),
    st.sampled_from(["", "$"]),
)
TEXTS = ["".join(text) for length in range(5) for text in itertools.product("ab", repeat=length)]


@given(st.lists(PATTERNS, min_size=2, max_size=7))
def test_exactly_one(patterns: list[str]) -> None:
    """Of overlapping patterns in a oneOf exactly one holds, however many overlap."""
    before = boolean.MANY_OVERLAPS
    boolean.MANY_OVERLAPS = 0
    try:
        grammar = json_schema_grammar({"oneOf": [{"type": "string", "pattern": pattern} for pattern in patterns]})[0]
    except UnsatisfiableError:
        grammar = None
    finally:
        boolean.MANY_OVERLAPS = before
    start = None if grammar is None else matcher(engine, grammar)
    for text in TEXTS:
        expected = sum(bool(re.search(pattern, text)) for pattern in patterns) == 1
        assert (start is not None and generates(start, f'"{text}"'.encode())) is expected


@given(PATTERNS, st.lists(st.text("ab", max_size=4), min_size=1, max_size=6))
def test_by_right_state(pattern: str, words: list[str]) -> None:
    """The texts that lead to each state of another automaton, told by definition."""
    left, right = regex_dfa(pattern, search=True), dfa.from_strings(words)
    found = dfa.by_right_state(left, right)
    for text in TEXTS:
        state: int | None = 0
        for character in text:
            moves = right.transitions[state] if state is not None else ()
            state = next((target for low, high, target in moves if low <= ord(character) <= high), None)
        reached = {number for number, automaton in found.items() if accepts(automaton, text)}
        assert reached == ({state} if state is not None and accepts(left, text) else set())


@given(st.lists(st.text("ab", max_size=4), max_size=12), st.lists(PATTERNS, max_size=3))
def test_unions_of_words(words: list[str], patterns: list[str]) -> None:
    """A union of many words and others is the canonical automaton of them all."""
    others = [regex_dfa(pattern, search=False) for pattern in patterns]
    found = dfa.union(*others, *map(dfa.from_string, words))
    expected = dfa.NOTHING
    for part in [*others, *map(dfa.from_string, words)]:
        expected = dfa.union(expected, part)
    assert found == expected


CIRCLE = {
    "s": {"type": "object", "allOf": [{"$ref": "#/$defs/s"}, {"properties": {"b": {"type": "integer"}}}]},
    "t": {"allOf": [{"$ref": "#/$defs/u"}], "minimum": 3},
    "u": {"$ref": "#/$defs/t"},
}


@pytest.mark.parametrize("order", ["schema", "any"])
def test_conjunctions_in_a_circle(order: str) -> None:
    """What refers to itself by allOf and references alone has no instance, and leaves the rest as it is; by anyOf it is refused."""
    member = {"type": "object", "properties": {"a": {"$ref": "#/$defs/s"}, "c": {"type": "integer"}}, "additionalProperties": False}
    start = matcher(engine, json_schema_grammar({**member, "$defs": CIRCLE}, property_order=order)[0])
    assert [text for text in ("{}", '{"a":{}}', '{"a":{"b":1}}', '{"c":1}') if generates(start, text.encode())] == ["{}", '{"c":1}']
    union = {"anyOf": [{"$ref": "#/$defs/s"}, {"$ref": "#/$defs/u"}, {"const": 1}], "$defs": CIRCLE}
    start = matcher(engine, json_schema_grammar(union, property_order=order)[0])
    assert [text for text in ("{}", "1", "4") if generates(start, text.encode())] == ["1"]
    with pytest.raises(UnsatisfiableError):
        json_schema_grammar({"$ref": "#/$defs/u", "$defs": CIRCLE}, property_order=order)
    with pytest.raises(SchemaError, match="refers to itself"):
        json_schema_grammar(
            {"$defs": {"s": {"anyOf": [{"$ref": "#/$defs/s"}, {"type": "string"}], "minLength": 2}}, "not": {"$ref": "#/$defs/s"}}
        )
