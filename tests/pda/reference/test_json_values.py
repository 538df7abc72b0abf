"""When two JSON texts are one value, in the reference engine."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmask.pda.reference.json_values import value_digest

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
MALFORMED = [b"", b" ", b"[", b"]", b"[1", b"[1,", b"[,1]", b"[1 2]", b"[1]]", b"{", b"{1:2}", b'{"a"}', b'{"a":}', b'{"a":1', b'{"a":1,}']
MALFORMED += [b"1 2", b"01", b"+1", b".5", b"1.", b"1e", b"tru", b"nan", b",", b":", b'"', b'"\\x"', b'"\n"', b'"\\u12"', b"'a'"]
MALFORMED += [b'{"a":1 2}', b'"\xff"']


@given(VALUES, VALUES)
def test_spelling_does_not_matter(first: object, second: object) -> None:
    """However a value is spelled it has one digest, and different values have different ones."""
    compact = json.dumps(first, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    if b"\xed" not in compact:
        assert value_digest(compact) == value_digest(json.dumps(first, indent=1, sort_keys=True).encode())
    is_same = json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    assert (value_digest(json.dumps(first).encode()) == value_digest(json.dumps(second).encode())) == is_same


def test_text_that_is_no_json() -> None:
    """A malformed text is equal to itself alone."""
    for first, second in combinations([*MALFORMED, b"1", b"[1]", b'"x"', b'{"a":1}'], 2):
        assert value_digest(first) != value_digest(second), (first, second)


def test_deep_values() -> None:
    """Values nested very deep are compared without recursion."""
    deep = b"[" * 100_000 + b"1" + b"]" * 100_000
    assert value_digest(deep) == value_digest(deep.replace(b"1", b" 1.0 "))
    assert value_digest(deep) != value_digest(b"[" + deep + b"]")


@pytest.mark.parametrize("digits", [1, 4_299, 50_000])
def test_long_numbers(digits: int) -> None:
    """Numbers and exponents of any length are compared exactly."""
    long = b"1" + b"0" * digits
    assert value_digest(long) == value_digest(b"1e%d" % digits) == value_digest(long + b".0")
    assert value_digest(long) != value_digest(long[:-1] + b"1")
    assert value_digest(b"1e" + long) == value_digest(b"10e" + b"9" * digits)
    assert value_digest(b"0e" + long) == value_digest(b"-0.000")
