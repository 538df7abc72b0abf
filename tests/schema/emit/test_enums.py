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
    for values in ([{key: 1}], [{"a": {key: 1}}, [2]]):
        with pytest.raises(SchemaError, match="JSON requires a string"):
            compiler.json_schema({"enum": values})
