"""The changes of JSON that is still being written: together they are the value, and no longer than the text by more than a factor."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.integration.answers.patch import LONGEST_PATH, PartialPatch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9) | st.just("k" * 150), inner, max_size=4),
    max_leaves=30,
)


def applied(value, changes):
    """A value after changes, by RFC 6902."""
    for change in changes:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in change["path"].split("/")[1:]]
        if not steps:
            value = change["value"]
            continue
        inner = value
        for step in steps[:-1]:
            inner = inner[int(step)] if isinstance(inner, list) else inner[step]
        if isinstance(inner, list):
            assert int(steps[-1]) == len(inner)
            inner.append(change["value"])
        else:
            inner[steps[-1]] = change["value"]
    return value


@given(JSON, st.randoms(use_true_random=False), st.booleans())
def test_the_changes_are_the_value(value, rng, ascii_only):
    """However the text is cut into pieces."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    reader, found, start = PartialPatch(), None, 0
    while start < len(text):
        end = start + rng.randint(1, 5)
        found = applied(found, reader.changes(text[start:end], final=end >= len(text)))
        start = end
    assert found == value


def test_each_part_is_told_once_and_when_it_is_final():
    """A string at its closing quote, a number when something follows it, an array as it begins."""
    reader = PartialPatch()
    told = [
        [(change["path"], change["value"]) for change in reader.changes(piece)] for piece in ('{"a": "x', '", "b": 1', "2", ", ", '"c": [[')
    ]
    assert told == [[("", {})], [("/a", "x")], [], [("/b", 12)], [("/c", []), ("/c/0", [])]]


@pytest.mark.parametrize(
    "text", ["[" * 400 + "]" * 400, '{"' + "k" * 3000 + '": [' + ", ".join("1" * 3000) + "]}", '{"a": ' * 300 + "1" + "}" * 300]
)
def test_the_changes_are_as_long_as_the_text(text):
    """What is deep, or below a long name, comes as a whole, so that paths are no burden."""
    reader = PartialPatch()
    changes = [change for piece in text for change in reader.changes(piece)]
    assert applied(None, changes) == json.loads(text)
    assert len("".join(change["path"] for change in changes)) <= (LONGEST_PATH + 10) * len(changes) + len(text)
    assert len(changes) <= len(text)


def test_a_number_beyond_floats_is_null():
    """JSON has no infinity."""
    assert PartialPatch().changes("[1e999,")[1] == {"op": "add", "path": "/0", "value": None}


def test_names_are_escaped():
    """As in JSON pointers."""
    rng = random.Random(1)
    key = "".join(rng.choice("~/a") for _ in range(20))
    assert applied(None, PartialPatch().changes(json.dumps({key: 1}))) == {key: 1}
