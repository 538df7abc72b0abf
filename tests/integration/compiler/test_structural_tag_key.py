"""Keys of structural tags: equal for equal ones, different for others, whatever Python values they are made of."""

from __future__ import annotations

import copy
import json
import re
from random import Random
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.structural_tags import random_format

from stackmask.integration.compiler.structural_tag_key import TagKey, entries_of_key, tag_key, tag_of_key
from stackmask.pda.embed import compact
from stackmask.pda.exceptions import LimitError, SchemaError, StructuralTagError
from stackmask.pda.limits import Limits
from stackmask.schema.structural_tag import StructuralTags, structural_tag_grammar
from stackmask.schema.structural_tag.tag_cache import Part

LEAF = {"begin": "<", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": ">"}
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "sequence",
        "elements": [
            {"type": "triggered_tags", "triggers": ["<"], "tags": [LEAF, {**LEAF, "begin": "<a"}]},
            {"type": "tag", "begin": "(", "content": {"type": "optional", "content": {"type": "tag", **LEAF}}, "end": ")"},
            {"type": "dispatch", "rules": [["x", {"type": "tag", **LEAF}], ["y", {"type": "any_text"}]]},
        ],
    },
}
LIMITS = Limits()


def opened(value: Any) -> Any:
    """A tag with its parts in their places."""
    if isinstance(value, Part):
        return opened(value.open())
    if isinstance(value, dict):
        return {name: opened(inner) for name, inner in value.items()}
    return [opened(inner) for inner in value] if isinstance(value, list | tuple) else value


def key_of(tag: object) -> TagKey:
    """The key of a tag, checked for being undone."""
    before = copy.deepcopy(tag) if isinstance(tag, dict) else tag
    key, value = tag_key(tag, LIMITS)
    assert tag == before, "the caller's value is left alone"
    assert json.dumps(opened(value)) == json.dumps(opened(tag_of_key(key))), "the order of members counts"
    return key


def test_parts() -> None:
    """Tags that hold no list of tags or rules are parts; equal ones have equal keys."""
    key = key_of(TAG)
    assert len(key.parts) == len(set(key.parts)) == 4
    assert key == key_of(json.loads(json.dumps(TAG))) == key_of({**TAG})
    assert opened(tag_of_key(key)) == TAG
    assert [entry.pointer for entry in entries_of_key(key)] == [
        f"/format/elements/{place}/content/json_schema/type" for place in ("0/tags/0", "0/tags/1", "1/content/content", "2/rules/0/1")
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, inner in items for found in places(inner, (*path, key)))]


@pytest.mark.parametrize("path", places(TAG)[1:], ids=str)
def test_any_change_is_another_key(path: tuple[Any, ...]) -> None:
    """Whatever is changed, the key changes, and is undone all the same."""
    for other in (None, True, 1, 1.0, "", [], {}, (), {"type": "tag"}, [[]], LEAF, {"content": {"type": []}}):
        changed = copy.deepcopy(TAG)
        holder: Any = changed
        for step in path[:-1]:
            holder = holder[step]
        same = type(holder[path[-1]]) is type(other) and holder[path[-1]] == other
        holder[path[-1]] = other
        assert (key_of(changed) == key_of(TAG)) is same


def test_what_is_a_part() -> None:
    """A tag around lists of tags or rules is cut further, wherever they stand; one that only names them is not."""
    rules = {"type": "dispatch", "rules": [["x", {"type": "any_text"}]]}
    calls = {
        "type": "tags_with_separator",
        "separator": "",
        "tags": [LEAF, {**LEAF, "content": {"type": "const_string", "value": "dispatch"}}],
    }
    for inner, count in (
        (LEAF["content"], 1),
        (rules, 0),
        (calls, 2),
        ({"type": "regex", "pattern": "triggered_tags"}, 1),
    ):
        for content in (inner, {"type": "sequence", "elements": [{"type": "any_text"}, inner]}, {"type": "star", "content": inner}):
            tag = {"type": "tag", "begin": "<", "content": content, "end": ">"}
            assert len(key_of({"format": tag}).parts) == len(key_of({"type": "or", "elements": [tag]}).parts) == count
    wide = {
        "type": "tag",
        "begin": "",
        "content": {"type": "or", "elements": [{"type": "const_string", "value": "dispatch"}] * 2_000},
        "end": "",
    }
    assert not key_of({"format": wide}).parts
    nested = calls
    for _ in range(50):
        nested = {"type": "tag", "begin": "", "content": {"type": "star", "content": nested}, "end": ""}
    assert len(key_of({"format": nested}).parts) == 2


@pytest.mark.parametrize("seed", range(80))
def test_grammars_of_random_tags(seed: int) -> None:
    """A tag is the same grammar whether its parts were there before or not, and has the same errors."""
    random = Random(seed)
    kept = StructuralTags({})
    formats = [random_format(random, random.randint(1, 3)) for _ in range(6)]
    for tag in [*formats, {"type": "sequence", "elements": formats[:3]}, {"type": "or", "elements": formats[2:]}] * 2:
        key, value = tag_key(tag, LIMITS)
        try:
            expected = structural_tag_grammar(tag)
        except StructuralTagError as error:
            for same in (value, tag_of_key(key)):
                with pytest.raises(StructuralTagError, match=f"^{re.escape(str(error))}$"):
                    kept.grammar(same, key.parts)
            continue
        for same in (value, tag_of_key(key)):
            assert compact(kept.grammar(same, key.parts)) == compact(expected)


FORMATS = st.recursive(
    st.sampled_from([{"type": "any_text"}, {"type": "tag", **LEAF}, LEAF, None, "tag", 1, True]),
    lambda inner: st.one_of(
        st.builds(lambda name, value: {"type": name, "content": value}, st.sampled_from(["tag", "optional"]), inner),
        st.builds(
            lambda field, values: {"type": "or", field: values},
            st.sampled_from(["elements", "tags", "structures", "rules", "others"]),
            st.lists(inner, max_size=3),
        ),
        st.builds(lambda value: {"type": "dispatch", "rules": [["x", value]]}, inner),
    ),
    max_leaves=12,
)


@given(FORMATS, FORMATS)
def test_equal_keys_are_equal_tags(one: Any, other: Any) -> None:
    """Two tags have one key exactly if they are written the same way."""
    one, other = {"format": one}, {"format": other}
    assert (key_of(one) == key_of(other)) is (json.dumps(one) == json.dumps(other))


def test_values_that_are_not_plain() -> None:
    """They are copied; what holds itself, or is nested too deep, or is no JSON, is an error."""
    odd = MappingProxyType({"type": "sequence", "elements": (MappingProxyType({"type": "tag", **LEAF}),)})
    assert key_of(odd) == key_of({"type": "sequence", "elements": [{"type": "tag", **LEAF}]})
    deep: Any = {"type": "any_text"}
    for _ in range(5_000):
        deep = {"type": "optional", "content": deep}
    key, value = tag_key(deep, Limits(nesting=10_000))
    assert not key.parts
    for tag in (value, tag_of_key(key)):
        inner = tag
        for _ in range(5_000):
            inner = inner["content"]
        assert inner == {"type": "any_text"}
    with pytest.raises(LimitError, match="nested more than"):
        tag_key(deep, Limits(nesting=100))
    held: Any = {"type": "or"}
    held["elements"] = [held, held]
    with pytest.raises(LimitError, match="nested more than"):
        tag_key(held, LIMITS)
    with pytest.raises(SchemaError, match="must contain JSON values, not set"):
        tag_key({"type": {1}, "format": object()}, LIMITS)
    with pytest.raises(LimitError, match="takes more than 50 bytes"):
        tag_key(TAG, Limits(specification_bytes=50))
