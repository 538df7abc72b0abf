"""Small objects, by brute force: members that cannot be, required ones, and others, in the schema's order and in any."""

import json
from itertools import combinations, product

import jsonschema
import pytest
from tests.support.compiled import start

from stackmask import Compiler, UnsatisfiableError, Vocabulary
from stackmask.pda import _kernel
from stackmask.schema.emit.json_parts import ROOT, template
from stackmask.schema.emit.objects import object_node, unordered

NEVER, OPTIONAL, REQUIRED = range(3)


@pytest.mark.parametrize("write", [object_node, unordered])
def test_objects_of_members(write):
    """An object has the members that it can have, and those that it needs, each once, and any number of others."""
    parts = template("compact", "needed")
    f = parts.fragments
    texts = [b'"a":1', b'"b":2', b'"c":3']
    for kinds in (kinds for count in range(4) for kinds in product((NEVER, OPTIONAL, REQUIRED), repeat=count)):
        for has_others in (False, True):
            b = parts.builder.copy()
            members = [f.never if kind == NEVER else b.literal(text) for kind, text in zip(kinds, texts, strict=False)]
            made = write(b, f, members, [kind == REQUIRED for kind in kinds], b.literal(b'"x":0') if has_others else f.never)
            assert made != f.never
            b.define(ROOT, made)
            begin = start(_kernel, b.build(ROOT))
            for size in range(len(kinds) + 2):
                for order, others, ending in product(product(range(len(kinds)), repeat=size), range(3), (b"", b",")):
                    is_right = (
                        len(set(order)) == size
                        and all(kind != REQUIRED or place in order for place, kind in enumerate(kinds))
                        and all(kinds[place] != NEVER for place in order)
                        and (write is unordered or list(order) == sorted(order))
                        and (has_others or not others)
                        and not ending
                    )
                    text = b"{" + b",".join([texts[place] for place in order] + [b'"x":0'] * others) + ending + b"}"
                    matcher = begin.fork()
                    accepted = all(matcher.accept_token(byte) for byte in text) and matcher.is_completed()
                    assert accepted == is_right, (kinds, has_others, text)


@pytest.mark.parametrize("write", [object_node, unordered])
def test_a_member_that_is_needed_and_cannot_be(write):
    """Such an object cannot be."""
    parts = template("compact", "needed")
    f, b = parts.fragments, parts.builder.copy()
    for has_others in (False, True):
        others = b.literal(b'"x":0') if has_others else f.never
        assert write(b, f, [b.literal(b'"a":1'), f.never], [False, True], others) == f.never
        assert write(b, f, [f.never], [True], others) == f.never


@pytest.mark.parametrize("order", ["schema", "any"])
def test_small_object_schemas(order):
    """Objects of up to three keys, declared or not, required once or twice or not at all, beside all that may be said of others."""
    compiler = Compiler(Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], stop_token_ids=[256], size=257))
    values = [dict.fromkeys(chosen, number) for number in (1, 7) for size in range(4) for chosen in combinations("abc", size)]
    empty = 0
    for a, b, required, others in product(
        (None, False, {}, {"const": 1}),
        (None, False, {"const": 1}),
        ([], ["a"], ["b", "a", "b"], ["c", "a"]),
        (None, True, False, {"const": 1}),
    ):
        properties = {key: schema for key, schema in (("b", b), ("a", a)) if schema is not None}
        schema = {"type": "object", "properties": properties, "required": required}
        if others is not None:
            schema["additionalProperties"] = others
        validator = jsonschema.Draft202012Validator({**schema, "required": sorted(set(required))})
        right = [value for value in values if validator.is_valid(value)]
        try:
            grammar = compiler.json_schema(schema, property_order=order, whitespace="compact")
        except UnsatisfiableError:
            empty += 1
            assert not right, schema
            continue
        declared = [*properties, *dict.fromkeys(key for key in required if key not in properties)]
        for value in values:
            ordered = {key: value[key] for key in [*declared, *"abc"] if key in value}
            text = json.dumps(ordered, separators=(",", ":"))
            matcher = grammar.matcher()
            accepted = all(matcher.accept_token(byte) for byte in text.encode()) and matcher.is_completed()
            assert accepted == (value in right), (schema, text)
    assert empty > 20
