"""Keywords that a draft does not have."""

from __future__ import annotations

import random
import re
from difflib import get_close_matches

import pytest

from stackmask.schema.dialect.dialects import DIALECTS
from stackmask.schema.dialect.unknown_keywords import KNOWN, has_note, note_on_unknown
from stackmask.schema.json_schema import json_schema_grammar


def test_close_matches() -> None:
    """The keyword that a misspelt one is taken for is the closest of all keywords by difflib, though few are compared by it."""
    draw, guessed, marked = random.Random(0), 0, 0
    for keyword in sorted(KNOWN):
        for _ in range(20):
            word = keyword
            for _ in range(draw.randrange(1, 5)):
                place, width = draw.randrange(len(word) + 1), draw.randrange(2)
                word = word[:place] + draw.choice(["", *"aeTx-_$\u0391"]) + word[place + width :]
            close = get_close_matches(word, sorted(KNOWN), 1, 0.8)
            is_marked = not re.match(r"(?!x-)[a-zA-Z$\u0391]", word)
            marked += is_marked and bool(close)
            if word not in KNOWN and not is_marked:
                expected = f'unknown keyword; did you mean "{close[0]}"?' if close else ""
                assert note_on_unknown(word, "draft7") == expected
                guessed += bool(close)
    assert guessed > 500
    assert marked > 20


@pytest.mark.parametrize("mark", ["x-", "_", "//", "#", "@", "-", "1"])
def test_marked_keywords(mark: str) -> None:
    """A keyword behind a mark is not taken for a misspelt one: it is an extension, turned off, or of another notation."""
    for keyword in sorted(KNOWN):
        word = mark + keyword
        assert has_note(word, DIALECTS["draft7"]) == (word == "x-guidance"), word
        assert mark != "_" or get_close_matches(word, [keyword], 1, 0.8)
    for word in ("x", "xtype", "typex-", "ype", "$type"):
        assert has_note(word, DIALECTS["draft7"]) == bool(get_close_matches(word, sorted(KNOWN), 1, 0.8))


def test_keywords_without_notes() -> None:
    """Most keywords that a draft does not have mean nothing to it, however long they are."""
    dialect = DIALECTS["draft6"]
    for word in ("customer", "customer-" * 20, *(f"x-{number}" for number in range(1_000))):
        assert not has_note(word, dialect)
    assert has_note("minimun", dialect)
    assert has_note("prefixItems", dialect)
    assert has_note(1, dialect)


def test_a_note_comes_back_beside_words_without_one() -> None:
    """A misspelt keyword has a note in every schema, whatever was compiled before, and in each of its subschemas."""
    schema = {"x-order": 1, "properties": {"a": {"x-order": 2, "minimun": 1}, "b": {"x-order": 3}, "c": {"minimun": 2, "x-order": 4}}}
    for _ in range(3):
        _, report = json_schema_grammar(schema)
        assert report.messages == ('/properties/a/minimun and 1 other place: unknown keyword; did you mean "minimum"?',)
