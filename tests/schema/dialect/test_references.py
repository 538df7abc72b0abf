"""References, against the `referencing` library on the official suite, and rule by rule."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import referencing
import referencing.exceptions
import referencing.jsonschema
from support import suite
from support.engines import accepts, matcher
from support.pace import as_quick_as

from stackmask.pda import engine
from stackmask.pda.exceptions import LimitError, SchemaError
from stackmask.pda.limits import Limits
from stackmask.schema.dialect.dialects import DIALECTS
from stackmask.schema.dialect.references import MANY, METASCHEMAS, NAMED, ONE, Registry, metaschema, resolve_uri
from stackmask.schema.json_schema import json_schema_grammar

SPECIFICATIONS = {
    "draft4": referencing.jsonschema.DRAFT4,
    "draft6": referencing.jsonschema.DRAFT6,
    "draft7": referencing.jsonschema.DRAFT7,
    "2019-09": referencing.jsonschema.DRAFT201909,
    "2020-12": referencing.jsonschema.DRAFT202012,
}


@pytest.mark.skipif(not suite.ARCHIVE.exists(), reason="the official suite is not at hand")
@pytest.mark.parametrize("draft", SPECIFICATIONS)
def test_suite_references(draft: str) -> None:
    """Every `$ref` of the suite's schemas leads to the same subschema that the `referencing` library finds."""
    specification = SPECIFICATIONS[draft]
    documents = suite.remotes()
    others = referencing.Registry().with_resources(
        [(uri, referencing.Resource.from_contents(d, default_specification=specification)) for uri, d in documents.items()]
        + [
            (uri, referencing.Resource.from_contents(metaschema(name), default_specification=specification))
            for uri, name in METASCHEMAS.items()
        ]
    )
    schemas = {id(case.schema): case.schema for part in ("", "optional") for case in suite.cases(draft, part)}
    compared = 0
    for root in schemas.values():
        registry = Registry(root, documents, default=DIALECTS[draft])
        resolver = others.resolver_with_root(referencing.Resource.from_contents(root, default_specification=specification))
        stack = [(root, registry.root, resolver)]
        while stack:
            schema, scope, theirs = stack.pop()
            if not isinstance(schema, dict):
                continue
            scope = registry.enter(scope, schema)
            if schema is not root:
                theirs = theirs.in_subresource(specification.create_resource(schema))
            if isinstance(schema.get("$ref"), str):
                try:
                    expected = theirs.lookup(schema["$ref"]).contents
                except referencing.exceptions.Unresolvable:
                    expected = None
                except TypeError:  # The library trips over the boolean schemas of later drafts when it searches in draft 4.
                    continue
                if expected is None:
                    with pytest.raises(SchemaError):
                        registry.resolve(scope, schema["$ref"])
                else:
                    assert registry.resolve(scope, schema["$ref"])[0] == expected, (schema["$ref"], scope)
                    compared += 1
            for keyword, value in schema.items():
                if keyword in NAMED and isinstance(value, dict):
                    stack.extend((member, scope, theirs) for member in value.values())
                elif keyword in ONE and isinstance(value, dict):
                    stack.append((value, scope, theirs))
                elif keyword in MANY and isinstance(value, list):
                    stack.extend((member, scope, theirs) for member in value)
    assert compared > (10 if draft == "draft4" else 50)


@pytest.mark.parametrize(
    ("base", "reference", "expected"),
    [
        ("http://a/b/c/d;p?q", "g", "http://a/b/c/g"),
        ("http://a/b/c/d;p?q", "./g/", "http://a/b/c/g/"),
        ("http://a/b/c/d;p?q", "/g", "http://a/g"),
        ("http://a/b/c/d;p?q", "//g", "http://g"),
        ("http://a/b/c/d;p?q", "?y", "http://a/b/c/d;p?y"),
        ("http://a/b/c/d;p?q", "", "http://a/b/c/d;p?q"),
        ("http://a/b/c/d;p?q", "..", "http://a/b/"),
        ("http://a/b/c/d;p?q", "../../../g", "http://a/g"),
        ("http://a/b/c/d;p?q", "/./g", "http://a/g"),
        ("http://a/b/c/d;p?q", "g;x=1/../y", "http://a/b/c/y"),
        ("http://a/b/c/d;p?q", "g:h", "g:h"),
        ("http://a", "g", "http://a/g"),
        ("urn:example:a", "urn:example:b", "urn:example:b"),
        ("", "item.json", "item.json"),
    ],
)
def test_uri_resolution(base: str, reference: str, expected: str) -> None:
    """The examples of RFC 3986 section 5.4, and schemas without a base."""
    assert resolve_uri(base, reference) == expected


def test_pointer_escapes() -> None:
    """~0, ~1 and percent escapes in a pointer; array indexes; places that are no keyword."""
    schema = {"$defs": {"a/b": {"const": 1}, "c~d": {"const": 2}, "e%f": {"const": 3}}, "unknown": [{"const": 4}], "allOf": [{"const": 5}]}
    registry = Registry(schema)
    for pointer, value in [("a~1b", 1), ("c~0d", 2), ("e%25f", 3)]:
        assert registry.resolve(registry.root, f"#/$defs/{pointer}")[0] == {"const": value}
    assert registry.resolve(registry.root, "#/unknown/0")[0] == {"const": 4}
    assert registry.resolve(registry.root, "#/allOf/0")[0] == {"const": 5}
    assert registry.resolve(registry.root, "#")[0] is schema


@pytest.mark.parametrize(
    "reference", ["#/$defs/none", "#none", "other.json", "http://example.com/x", "#/$defs/list", "#/$defs/list/01x", 5]
)
def test_leading_nowhere(reference: object) -> None:
    """A reference that leads nowhere is an error that names what is missing."""
    registry = Registry({"$defs": {"list": [1]}})
    with pytest.raises(SchemaError, match=r"leads nowhere|not a schema|must be a string"):
        registry.resolve(registry.root, reference)


def test_dynamic_scope() -> None:
    """`$dynamicRef` finds the outermost anchor among the resources entered."""
    strict = {
        "$id": "http://x/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": False,
        "$defs": {"t": {"$id": "tree", "$dynamicAnchor": "node", "items": {"$dynamicRef": "#node"}}},
    }
    registry = Registry(strict)
    tree, inside = registry.resolve(registry.root, "tree")
    assert tree is strict["$defs"]["t"]  # type: ignore[index]
    assert registry.resolve_dynamic(inside, "#node")[0] is strict
    alone = Registry(strict["$defs"]["t"])  # type: ignore[index]
    assert alone.resolve_dynamic(alone.root, "#node")[0] is alone.root.resource.root
    assert registry.resolve(registry.root, "tree")[1] == inside, "scopes compare by value"


def test_vocabularies() -> None:
    """A custom metaschema without the validation vocabulary turns its keywords off; one that needs an unknown vocabulary is refused."""
    documents = {
        "http://x/meta": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$vocabulary": {
                "https://json-schema.org/draft/2020-12/vocab/core": True,
                "https://json-schema.org/draft/2020-12/vocab/applicator": True,
            },
        },
        "http://x/strange": {"$vocabulary": {"http://x/vocab": True}},
    }
    keywords = Registry({"$schema": "http://x/meta"}, documents).root.resource.dialect.keywords
    assert "properties" in keywords
    assert "$ref" in keywords
    assert "minimum" not in keywords
    with pytest.raises(SchemaError, match="http://x/vocab"):
        Registry({"$schema": "http://x/strange"}, documents)
    unknown = Registry({"$schema": "http://x/none"}, documents)
    assert unknown.root.resource.dialect.name == "2020-12"
    assert unknown.unknown_dialects == ["http://x/none"]


def test_metaschemas() -> None:
    """Every bundled metaschema is there under its URI."""
    registry = Registry({})
    for uri in METASCHEMAS:
        target, scope = registry.resolve(registry.root, uri + "#")
        assert target[scope.resource.dialect.identifier].rstrip("#") == uri


def test_recursive_references() -> None:
    """`$recursiveRef` finds the outermost resource in scope with `$recursiveAnchor: true`, from one that has it too."""
    root = {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$id": "http://x/outer",
        "$recursiveAnchor": True,
        "$defs": {"inner": {"$id": "inner", "$recursiveAnchor": True}, "plain": {"$id": "plain"}},
    }
    registry = Registry(root)
    inner = registry.resolve(registry.root, "inner")[1]
    assert registry.resolve_recursive(inner, "#")[0] is root
    plain, inside = registry.resolve(registry.root, "plain")
    assert registry.resolve_recursive(inside, "#")[0] is plain
    alone = Registry({"$schema": root["$schema"], "$recursiveAnchor": True})
    assert alone.resolve_recursive(alone.root, "#")[0] is alone.root.resource.root
    with pytest.raises(SchemaError, match="must be"):
        registry.resolve_recursive(inner, "#/x")
    assert repr(registry.root.resource) == "<resource http://x/outer>"


def test_identifiers_inside_documents() -> None:
    """A URI that only a subschema of some document has is found when all else fails."""
    documents = {"http://x/a": {"$defs": {"b": {"$id": "http://y/b", "const": 1}}}, "http://x/meta": {"$schema": 5}}
    registry = Registry({"$schema": "http://x/meta"}, documents)
    assert registry.resolve(registry.root, "http://y/b")[0] == {"$id": "http://y/b", "const": 1}
    assert registry.root.resource.dialect is DIALECTS["2020-12"]


def ring(count: int, anchor: Callable[[int], str]) -> Any:
    """So many resources, each with a dynamic anchor and references to it, to the next resource and to the one after that."""
    return {
        "$id": "http://x/root",
        "$ref": "r0",
        "$defs": {
            f"d{n}": {
                "$id": f"r{n}",
                "$dynamicAnchor": anchor(n),
                "type": "object",
                "properties": {
                    f"v{n}": {"type": "integer"},
                    "here": {"$dynamicRef": f"#{anchor(n)}"},
                    **{f"next{step}": {"$ref": f"r{(n + step) % count}"} for step in (1, 2)},
                },
                "additionalProperties": False,
            }
            for n in range(count)
        },
    }


@pytest.mark.parametrize("anchor", [lambda _: "node", lambda n: f"node{n}", lambda n: f"node{n // 2}"])
def test_rings_of_dynamic_references(anchor: Callable[[int], str]) -> None:
    """A dynamic reference leads to the outermost resource with its anchor, on whatever way through six resources."""
    schema = ring(6, anchor)
    start = matcher(engine, json_schema_grammar(schema)[0])
    for way in itertools.product((1, 2), repeat=4):
        entered = [0]
        for step in way:
            entered.append((entered[-1] + step) % 6)
        found = next(n for n in entered if anchor(n) == anchor(entered[-1]))
        opening = "".join(f'{{"next{step}":' for step in way)
        for n in range(6):
            assert accepts(start, f'{opening}{{"here":{{"v{n}":1}}}}{"}" * len(way)}'.encode()) is (n == found)


@pytest.mark.parametrize("anchor", [lambda _: "node", lambda n: f"node{n}"])
def test_work_of_dynamic_references(anchor: Callable[[int], str]) -> None:
    """Each of a thousand resources is compiled in one scope, be their anchors the same or of a name each; it was every way through them."""
    limits = Limits(compile_work=30_000)
    assert len(json_schema_grammar(ring(1_000, anchor), limits=limits)[0].rules) < 6_000


def chain(count: int) -> Any:
    """So many pairs of resources with an anchor of one name, each with a reference to it and to the next resource."""
    definitions = {}
    for n in range(count):
        for this, following in (f"x{n}", f"y{n}"), (f"y{n}", f"x{(n + 1) % count}"):
            definitions[this] = {
                "$id": this,
                "$dynamicAnchor": f"node{n}",
                "properties": {this: {"type": "integer"}, "here": {"$dynamicRef": f"#node{n}"}, "next": {"$ref": following}},
                "additionalProperties": False,
            }
    return {"$id": "http://x/root", "$ref": "x0", "$defs": definitions}


def test_chains_of_dynamic_references() -> None:
    """Of two resources with one anchor the one entered first is found, and of a row of pairs each is compiled in one scope."""
    start = matcher(engine, json_schema_grammar(chain(3))[0])
    for steps in range(14):
        found = f"x{steps // 2 % 3}"
        for key in ("x0", "y0", "x1", "y1", "x2", "y2"):
            text = '{"next":' * steps + f'{{"here":{{"{key}":1}}}}' + "}" * steps
            assert accepts(start, text.encode()) is (key == found)
    assert len(json_schema_grammar(chain(1_000), limits=Limits(compile_work=800_000))[0].rules) < 14_000


@pytest.mark.parametrize("count", [30, 1_000])
@pytest.mark.parametrize("shared", [2, 3])
def test_too_many_scopes(count: int, shared: int) -> None:
    """Where each way through the resources is a scope, those are counted, and refused before long."""
    # It takes 60 to 80, 130 where memory is slow; 2,700 to 3,200 where scopes cost nothing (of 30 resources by threes 90).
    with as_quick_as(200), pytest.raises(LimitError) as caught:
        json_schema_grammar(ring(count, lambda n: f"node{n // shared}"))
    assert caught.value.limit == "compile_work"
    assert "/$defs/" in str(caught.value)
