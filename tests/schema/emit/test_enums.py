"""Values of an enum, which share what they begin with where they are many."""

import json
from random import Random

import pytest

from stackmask import Compiler, SchemaError, Vocabulary


@pytest.fixture(scope="module")
def compiler():
    return Compiler(Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], stop_token_ids=[256], size=257))


def value(random, depth):
    """A value out of so few that many begin alike."""
    if depth == 0 or random.random() < 0.3:
        return random.choice([0, 1, 10, 1.0, -1, "a", "ab", "", None, True, False])
    if random.random() < 0.4:
        return [value(random, depth - 1) for _ in range(random.randrange(4))]
    return {name: value(random, depth - 1) for name in "abc"[: random.randrange(4)]}


def text_of(value, separators):
    """As `json.dumps` writes it."""
    return json.dumps(value, separators=separators)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 60, 300])
def test_an_enum_takes_its_values_and_no_others(compiler, count):
    """However many there are, a text is allowed if and only if its value is one of the enum's."""
    for seed in range(6):
        random = Random(f"{count} {seed}")
        values = [value(random, 3) for _ in range(count)]
        grammar = compiler.json_schema({"enum": values})
        known = {text_of(each, (",", ":")) for each in values} | {text_of(each, (",", ":")).replace("1.0", "1") for each in values}
        for each in [*values, *(value(random, 3) for _ in range(200))]:
            for separators in ((",", ":"), (", ", ": ")):
                text, matcher = text_of(each, separators), grammar.matcher()
                allowed = matcher.accept_bytes(text.encode()) and matcher.is_completed()
                assert allowed == (text_of(each, (",", ":")) in known), (values, text)


def shuffled(random, value):
    """The same value, its keys in another order."""
    if isinstance(value, dict):
        return {name: shuffled(random, value[name]) for name in random.sample(list(value), len(value))}
    return [shuffled(random, item) for item in value] if isinstance(value, list) else value


def whole(random, depth):
    """A value without fractions."""
    return json.loads(json.dumps(value(random, depth)).replace("1.0", "1"))


def sorted_text(value):
    """One text for all orders of the keys."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


@pytest.mark.parametrize("count", [1, 2, 5, 20, 100])
def test_keys_of_constants_come_in_any_order(compiler, count):
    """Objects are equal whatever the order of their keys, however deep they are: so they are texts of a constant in any of these orders."""
    for seed in range(6):
        random = Random(f"order {count} {seed}")
        values = [whole(random, 3) for _ in range(count)]
        name, options = ("const", values[0]) if count == 1 else ("enum", values)
        outer = compiler.json_schema({name: options}, property_order="any")
        inner = compiler.json_schema({"properties": {"k": {name: options}}, "required": ["k"]}, property_order="any")
        known = set(map(sorted_text, values))
        for each in [*(shuffled(random, each) for each in values for _ in range(3)), *(whole(random, 3) for _ in range(100))]:
            allowed = []
            for grammar, text in ((outer, json.dumps(each)), (inner, json.dumps({"k": each, "z": 0}))):
                matcher = grammar.matcher()
                allowed.append(matcher.accept_bytes(text.encode()) and matcher.is_completed())
            assert allowed == [sorted_text(each) in known] * 2, (values, each)


@pytest.mark.parametrize("depth", [10, 3000])
def test_deep_constants_in_any_order(compiler, depth):
    """Constants may be nested as deeply as schemas."""
    constant, text = 1, "1"
    for _ in range(depth):
        constant, text = {"a": [constant], "b": 0}, f'{{"b": 0, "a": [{text}]}}'
    matcher = compiler.json_schema({"const": constant}, property_order="any").matcher()
    assert matcher.accept_bytes(text.encode())
    assert matcher.is_completed()


def test_values_that_fork_without_end(compiler):
    """Each value begins as the next one does: their common parts are shared some forks deep, and all of them are there."""
    values = [[1] * length for length in range(200)]
    grammar = compiler.json_schema({"enum": values})
    for length in (0, 1, 31, 32, 33, 34, 100, 199, 200):
        matcher = grammar.matcher()
        assert (matcher.accept_bytes(json.dumps([1] * length).encode()) and matcher.is_completed()) == (length < 200)


@pytest.mark.parametrize("key", [1, None, True, 1.5, ("a",)])
def test_keys_are_strings(compiler, key):
    """JSON has no other keys, whatever Python's dicts have."""
    for values in ([{key: 1}], [{"a": {key: 1}}, [2]], [{"a": {key: 1}, "b": 2}]):
        for order in ("schema", "any"):
            with pytest.raises(SchemaError, match="JSON requires a string"):
                compiler.json_schema({"enum": values}, property_order=order)
