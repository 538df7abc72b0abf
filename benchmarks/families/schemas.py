"""JSON Schema: arrays and objects whose members depend on each other."""

from __future__ import annotations

from random import Random
from typing import Any

from benchmarks.families.family import LONGEST_TEXT, Case, closed, compact, family, row, shuffled, words


@family("both_orders", *row(10, 1000))
def unique_items_with_finite_parts(size: int, random: Random) -> Case:
    """An array of n different texts and objects, where the objects hold parts of which there are only few."""
    env = {"type": "array", "items": {"enum": ["web", "console"]}}
    items = {"oneOf": [{"type": "string"}, closed({"file": {"type": "string"}, "env": env}, ["file"])]}
    names = words(random, size)
    value = [name if n % 3 else {"file": name, "env": ["web"] * (n % 5)} for n, name in enumerate(names)]
    return {"type": "array", "uniqueItems": True, "items": items}, compact(value)


@family("json_schema", *row(100, 10_000))
def unique_integers(size: int, random: Random) -> Case:
    """An array of n different integers."""
    return {"type": "array", "uniqueItems": True, "items": {"type": "integer"}}, compact(random.sample(range(10 * size), size))


@family("json_schema", *row(4, 256))
def unique_items_of_an_enum(size: int, random: Random) -> Case:
    """An array of all values of an enum of n."""
    options = words(random, size)
    return {"type": "array", "uniqueItems": True, "items": {"enum": options}, "minItems": size // 2}, compact(random.sample(options, size))


@family("json_schema", *row(10, 2000))
def unique_strings_of_a_pattern(size: int, random: Random) -> Case:
    """An array of n different strings of a pattern."""
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string", "pattern": "^[a-z]{1,8}(-[0-9]{1,3})?$"}}
    return schema, compact(words(random, size))


@family("json_schema", *row(10, 10_000))
def arrays_that_contain(size: int, random: Random) -> Case:
    """An array with at least n ones among other integers."""
    schema = {"type": "array", "items": {"type": "integer"}, "contains": {"const": 1}, "minContains": size, "maxContains": 2 * size}
    value = [1] * size + [2, 3] * (size // 2)
    return schema, compact(random.sample(value, len(value)))


@family("json_schema", *row(10, 3000))
def tuples(size: int, random: Random) -> Case:
    """An array of n items, each with its own schema."""
    kinds: list[tuple[Any, Any]] = [({"type": "integer"}, 7), ({"type": "string", "maxLength": 9}, "text"), ({"type": "boolean"}, True)]
    picked = random.choices(kinds, k=size)
    return {"type": "array", "prefixItems": [schema for schema, _ in picked], "items": False}, compact([value for _, value in picked])


@family("json_schema", *row(3, 300))
def arrays_in_counted_arrays(size: int, random: Random) -> Case:
    """Arrays of at most n items, four deep, of integers."""
    schema: Any = {"type": "integer"}
    for _ in range(4):
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": size}
    side = min(size, 6)
    value: Any = 12
    for _ in range(4):
        value = [value] * side
    return schema, compact(value)


@family("both_orders", *row(10, 1000))
def optional_keys_with_at_most_a_fifth(size: int, random: Random) -> Case:
    """So many optional keys, of which a fifth may come."""
    names = words(random, size)
    value = dict.fromkeys(sorted(random.sample(names, size // 5), key=names.index), 1)
    return closed({name: {"type": "integer"} for name in names}, [], maxProperties=size // 5), compact(value)


@family("any_order", *row(4, 256))
def pattern_keys_in_any_order(size: int, random: Random) -> Case:
    """So many keys and as many patterns of keys, in any order."""
    names = words(random, size)
    patterns = {f"^{name[:2]}[a-z]*{number % 10}$": {"type": "string"} for number, name in enumerate(names)}
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "patternProperties": patterns,
        "required": names,
    }
    value = {**dict.fromkeys(names, 1), **{f"{name[:2]}x{number % 10}": "text" for number, name in enumerate(names)}}
    return {**schema, "additionalProperties": False}, compact(shuffled(random, value))


@family("both_orders", *row(3, 300))
def patterns_that_match_anywhere(size: int, random: Random) -> Case:
    """So many patterns of keys that may match anywhere, for values of three types."""
    begins = dict.fromkeys(name[:2] for name in words(random, size))
    patterns = {begin: {"type": ["integer", "string", "boolean"][n % 3]} for n, begin in enumerate(begins)}
    value = {f"1{pattern}": [3, "text", True][n % 3] for n, pattern in enumerate(patterns)}
    return {"type": "object", "patternProperties": patterns}, compact(value)


@family("both_orders", *row(3, 100))
def branches_beside_unevaluated_properties(size: int, random: Random) -> Case:
    """Any of n objects with a required key each, and no key that none of those which hold declares."""
    names = words(random, size)
    branches = [{"properties": {name: {"type": "string"}}, "required": [name]} for name in names]
    return {"type": "object", "anyOf": branches, "unevaluatedProperties": False}, compact(dict.fromkeys(names[::3], "text"))


@family("both_orders", *row(2, 100))
def union_of_services(size: int, random: Random) -> Case:
    """One of n open objects that have most keys in common, each with a required key of its own."""
    shared, own = words(random, 5), words(random, size, 7)
    branches = [
        {
            "type": "object",
            "properties": {**{name: {"type": "string"} for name in shared}, name: {"type": "string"}, f"{name}_many": {"type": "array"}},
            "required": [shared[0], name],
        }
        for name in own
    ]
    return {"oneOf": branches}, compact({**dict.fromkeys(shared, "text"), own[-1]: "more"})


@family("both_orders", *row(2, 100))
def union_of_closed_objects(size: int, random: Random) -> Case:
    """So many closed objects of twelve keys, told apart by one of them."""
    shared = words(random, 11)
    branches = [
        closed({"kind": {"const": f"k{n}"}, **{name: {"type": ["integer", "string"][n % 2]} for name in shared}}) for n in range(size)
    ]
    picked = size // 2
    value = {"kind": f"k{picked}", **dict.fromkeys(shared, ["text", 1][picked % 2 == 0])}
    return {"oneOf": branches}, compact(value)


@family("both_orders", *row(2, 50))
def union_of_large_objects(size: int, random: Random) -> Case:
    """Any of n open objects of forty keys, some of them shared."""
    shared = words(random, 20)
    own = [words(random, 20, 7) for _ in range(size)]
    branches = [
        {"type": "object", "properties": {name: {"type": "string"} for name in [*shared, *names]}, "required": names[:3]} for names in own
    ]
    return {"anyOf": branches}, compact({**dict.fromkeys(shared, "text"), **dict.fromkeys(own[size // 2], "more")})


@family("both_orders", *row(2, 100))
def conditions_on_members(size: int, random: Random) -> Case:
    """So many `if`/`then` pairs about one member, each of which asks for another."""
    names = words(random, size)
    conditions = [
        {"if": {"properties": {"kind": {"const": name}}, "required": ["kind"]}, "then": {"required": [f"{name}_value"]}} for name in names
    ]
    properties = {"kind": {"enum": names}, **{f"{name}_value": {"type": "integer"} for name in names}}
    value = {"kind": names[-1], f"{names[-1]}_value": 3}
    return {"type": "object", "properties": properties, "required": ["kind"], "allOf": conditions}, compact(value)


@family("json_schema", *row(2, 100))
def conditions_over_shared_references(size: int, random: Random) -> Case:
    """So many `if`/`then` pairs in an array's items, all of which refer to the same definitions."""
    names = words(random, size)
    conditions = [
        {
            "if": {"properties": {"op": {"const": name}}},
            "then": {"properties": {"value": {"$ref": f"#/$defs/{['text', 'node'][n % 2]}"}}, "required": ["value"]},
        }
        for n, name in enumerate(names)
    ]
    node = {"type": "object", "properties": {"op": {"enum": names}, "value": True}, "required": ["op"], "allOf": conditions}
    text = {"type": "string", "pattern": "^[a-z]+$"}
    value: Any = "text"
    for level in range(6):
        value = {"op": names[(2 * level + (level > 0)) % size], "value": value} if size > 1 else value
    return {"$ref": "#/$defs/node", "$defs": {"node": node, "text": text}}, compact(value) if size > 12 else None


@family("json_schema", *row(2, 30, 4))
def nested_unions_with_pattern_keys(size: int, random: Random) -> Case:
    """Closed objects with patterns of keys, n in a `oneOf`, three levels of them."""
    schema: Any = {"type": "string"}
    for level in range(3):
        branches = [
            closed({"type": {"const": f"t{level}{n}"}, f"in{n}": schema}, patternProperties={f"^x-{n}[a-z]*$": {"type": "string"}})
            for n in range(size)
        ]
        schema = {"oneOf": branches}
    value: Any = "text"
    for level in range(3):
        value = {"type": f"t{level}1", "in1": value, "x-1ab": "more"}
    return schema, compact(value)


@family("both_orders", *row(2, 64))
def dependent_schemas(size: int, random: Random) -> Case:
    """So many keys, each of which narrows what another one holds."""
    names = words(random, size)
    dependents = {name: {"properties": {names[(n + 1) % size]: {"maximum": 9}}} for n, name in enumerate(names)}
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "dependentSchemas": dependents}
    return schema, compact(dict.fromkeys(names, 5))


@family("both_orders", *row(4, 256))
def dependent_keys(size: int, random: Random) -> Case:
    """So many keys, each of which asks for the next two."""
    names = words(random, size)
    dependents = {name: names[n + 1 : n + 3] for n, name in enumerate(names)}
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "dependentRequired": dependents}
    return schema, compact(dict.fromkeys(names[size // 2 :], 5))


@family("both_orders", *row(2, 32))
def one_of_several_sets_of_required_keys(size: int, random: Random) -> Case:
    """An object of 20 keys and others that has all keys of exactly one of n sets."""
    names = words(random, 20)
    sets = [random.sample(names, 3) for _ in range(size)]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "oneOf": [{"required": keys} for keys in sets]}
    return schema, compact({**dict.fromkeys(sorted(sets[0], key=names.index), 5), "other": 1})


@family("json_schema", *row(3, 100))
def names_of_a_pattern(size: int, random: Random) -> Case:
    """Keys of a pattern, at most n, none of some others."""
    schema = {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z][a-z0-9_]{2,40}$", "not": {"enum": words(random, size)}},
        "maxProperties": size,
        "additionalProperties": {"type": "integer"},
    }
    return schema, compact({f"key_{name}": 1 for name in words(random, size)})


@family("json_schema", *row(10, 3000))
def nested_objects(size: int, random: Random) -> Case:
    """A schema of objects nested so deep."""
    schema: Any = {"type": "integer"}
    text = "1"
    for level in range(size):
        schema = {"type": "object", "properties": {f"k{level % 7}": schema}, "required": [f"k{level % 7}"]}
        text = f'{{"k{level % 7}":{text}}}'
    return json_text(schema, size), text


def json_text(schema: Any, size: int) -> Any:
    """A schema as a value, or as text where it is nested deeper than Python's own reader and writer go."""
    if size < 300:
        return schema
    levels = []
    while "properties" in schema:
        ((name, schema),) = schema["properties"].items()
        levels.append(name)
    opening = "".join(f'{{"type":"object","required":["{name}"],"properties":{{"{name}":' for name in levels)
    return opening + compact(schema) + "}}" * len(levels)


@family("json_schema", *row(3, 300))
def trees_with_unevaluated_keys(size: int, random: Random) -> Case:
    """A tree whose nodes refer to the root through n `allOf` parts, and have no other keys."""
    names = words(random, size)
    parts = [{"properties": {name: {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}} for name in names]
    schema = {"type": "object", "allOf": parts, "unevaluatedProperties": False}
    value: Any = None
    for _ in range(8):
        value = {names[0]: value, names[-1]: None}
    return schema, compact(value)


@family("json_schema", 2, 3, 5, 8)
def unique_arrays_in_unique_arrays(size: int, random: Random) -> Case:
    """Arrays of different integers, in arrays that differ, n deep."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(size):
        schema = {"type": "array", "uniqueItems": True, "items": schema}
    value: list[Any] = [1, 2, 3]
    for _ in range(size - 1):
        value = [value, value[:-1], value[1:]]
    return schema, compact(value)[:LONGEST_TEXT]


@family("json_schema", *row(3, 300))
def unique_objects_of_three(size: int, random: Random) -> Case:
    """An array of n different objects, two of whose three members have few values."""
    item = closed({"a": {"type": "boolean"}, "b": {"enum": [1, 2, 3]}, "c": {"type": "string"}})
    value = [{"a": bool(n % 2), "b": n % 3 + 1, "c": name} for n, name in enumerate(words(random, size))]
    return {"type": "array", "uniqueItems": True, "items": item}, compact(value)


@family("json_schema", *row(5, 100))
def counted_words_of_a_maximal_length(size: int, random: Random) -> Case:
    """A pattern of at most n words of at most n letters, with a blank behind each or none, and a maxLength that cuts some off."""
    pattern = f"^(?:[a-z]{{1,{size}}} ?){{1,{size}}}$"
    text = " ".join(words(random, max(1, size // 3), min(size, 5)))
    return {"type": "string", "pattern": pattern, "maxLength": 3 * size}, compact(text[: 3 * size].strip())


@family("both_orders", *row(3, 300))
def unique_tuples(size: int, random: Random) -> Case:
    """Tuples of n different items, each of which is one of two numbers or a text that others may be, too."""
    items = [{"enum": [place, place + 1, "x" * (place % 5 + 1)]} for place in range(size)]
    return {"type": "array", "prefixItems": items, "items": False, "minItems": size, "uniqueItems": True}, compact([*range(size)])


@family("both_orders", *row(3, 1000))
def tagged_tuples(size: int, random: Random) -> Case:
    """Arrays of tuples of n kinds, told apart by their first item."""
    names = words(random, size)
    kinds = [
        {"type": "array", "prefixItems": [{"const": name}, {"type": "string", "maxLength": place + 4}], "minItems": 2, "maxItems": 2}
        for place, name in enumerate(names)
    ]
    return {"type": "array", "items": {"oneOf": kinds}}, compact([[name, "text"] for name in names[:100]])


@family("both_orders", *row(3, 300))
def one_of_arrays(size: int, random: Random) -> Case:
    """One of n kinds of arrays, all of which have the empty one."""
    return {"oneOf": [{"type": "array", "items": {"const": value}} for value in range(size)]}, compact([size - 1] * 100)


@family("both_orders", *row(3, 300))
def one_of_patterns_in_a_member(size: int, random: Random) -> Case:
    """One of n objects, told apart by a pattern of the same member."""
    names = words(random, size)
    branches = [closed({"id": {"type": "string", "pattern": f"^{name}:[a-z]*$"}}) for name in names]
    return {"oneOf": branches}, compact({"id": f"{names[-1]}:some"})


@family("both_orders", *row(2, 200))
def patterns_of_keys_in_a_union(size: int, random: Random) -> Case:
    """Any of 2 n objects, each with a pattern of keys, a type of their values, and one of the keys required."""
    names = words(random, 2 * size, 4)
    branches = [
        {
            "patternProperties": {f"^{name}": {"type": "array", "items": {"type": ("string", "integer")[place % 2]}}},
            "required": [f"{name}x"],
        }
        for place, name in enumerate(names)
    ]
    return {"type": "object", "anyOf": branches}, compact({f"{names[0]}x": ["text"], f"{names[0]}y": ["more"], f"{names[1]}x": [1, 2]})


@family("both_orders", *row(3, 300))
def two_kinds_of_items_counted(size: int, random: Random) -> Case:
    """Arrays with n to 2n large integers and at least n small ones."""
    some = {"contains": {"minimum": 5}, "minContains": size, "maxContains": 2 * size}
    others = {"contains": {"maximum": 3}, "minContains": size}
    return {"type": "array", "items": {"type": "integer"}, "allOf": [some, others]}, compact([7, 1] * size)
