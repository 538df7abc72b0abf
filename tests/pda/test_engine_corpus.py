"""Every grammar of the corpus on every engine."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.corpus import cases, read_grammar, read_text
from support.engines import STOP, Engine, accepts, mask_of, matcher, prepare

from stackmask.pda.exceptions import GrammarError, UnsatisfiableError

CASES = cases("grammar.toml")
SATISFIABLE = [case for case in CASES if not case.get("unsatisfiable")]


def names(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", SATISFIABLE, ids=names)
def test_texts(engine: Engine, case: dict[str, Any]) -> None:
    """Exactly the texts that the grammar generates are accepted, at once and byte by byte, and so says the mask."""
    start = matcher(engine, read_grammar(case["rules"]))
    assert case["accepts"] or case["rejects"]
    for text in map(read_text, case["accepts"]):
        assert accepts(start, text), text
        at = start.fork()
        for i, byte in enumerate(text):
            assert byte in mask_of(at, STOP + 1), text[:i]
            assert at.accept_token(byte), text[:i]
        assert at.is_completed()
        assert STOP in at.allowed_tokens()
        assert at.accept_token(STOP)
    for text in map(read_text, case["rejects"]):
        assert not accepts(start, text), text


@pytest.mark.parametrize("case", [case for case in SATISFIABLE if "next" in case], ids=names)
def test_next_bytes(engine: Engine, case: dict[str, Any]) -> None:
    """After a text exactly these bytes may follow."""
    start = matcher(engine, read_grammar(case["rules"]))
    for text, following in case["next"]:
        data = read_text(text)
        assert start.next_bytes(data) == bytes(sorted(read_text(following))), text
        at = start.fork()
        assert at.accept_bytes(data)
        assert [i for i in at.allowed_tokens() if i != STOP] == sorted(read_text(following)), text


@pytest.mark.parametrize("case", [case for case in SATISFIABLE if "shortest" in case], ids=names)
def test_shortest(engine: Engine, case: dict[str, Any]) -> None:
    """The shortest completion of the empty text is a shortest text of the grammar."""
    assert matcher(engine, read_grammar(case["rules"])).shortest_completion() == read_text(case["shortest"])


@pytest.mark.parametrize("case", [case for case in SATISFIABLE if "completions" in case], ids=names)
def test_completions(engine: Engine, case: dict[str, Any]) -> None:
    """The shortest completion of a text is as long as it should be, and completes it; or there is none."""
    start = matcher(engine, read_grammar(case["rules"]))
    for text, length in case["completions"]:
        at = start.fork()
        assert at.accept_bytes(read_text(text)), text
        assert engine.completion_lengths([at]) == [length], text
        if length < 0:
            with pytest.raises(GrammarError, match="by its id"):
                at.shortest_completion()
        else:
            rest = at.shortest_completion()
            assert len(rest) == length, text
            assert accepts(at, rest), text


@pytest.mark.parametrize("case", SATISFIABLE, ids=names)
def test_every_prefix_has_a_completion(engine: Engine, case: dict[str, Any]) -> None:
    """From every prefix of an accepted text the shortest completion leads to a complete text, and none from there is shorter."""
    start = matcher(engine, read_grammar(case["rules"]))
    for text in map(read_text, case["accepts"]):
        at = start.fork()
        rest = at.shortest_completion()
        assert len(rest) <= len(text)
        for i, byte in enumerate(text):
            assert at.accept_token(byte)
            before, rest = rest, at.shortest_completion()
            assert engine.completion_lengths([at]) == [len(rest)]
            assert len(before) - 1 <= len(rest) <= len(text) - i - 1
            assert accepts(at, rest)


@pytest.mark.parametrize("case", [case for case in CASES if case.get("unsatisfiable")], ids=names)
def test_unsatisfiable(engine: Engine, case: dict[str, Any]) -> None:
    """A grammar that generates nothing is an error."""
    with pytest.raises(UnsatisfiableError):
        prepare(engine, read_grammar(case["rules"]))


@pytest.mark.parametrize("case", SATISFIABLE, ids=names)
def test_tokens_across_everything(engine: Engine, case: dict[str, Any]) -> None:
    """However an accepted text is cut into tokens, they are accepted one after the other."""
    grammar = read_grammar(case["rules"])
    texts = [text for text in map(read_text, case["accepts"]) if text]
    pieces = sorted({text[i:j] for text in texts for i in range(len(text)) for j in range(i + 1, min(i + 9, len(text) + 1))})
    ids = {piece: i for i, piece in enumerate(pieces)}
    start = matcher(engine, grammar, [*pieces, None], (len(pieces),))

    random = Random(0)
    for text in texts:
        for _ in range(5):
            at, place = start.fork(), 0
            while place < len(text):
                length = random.randint(1, min(8, len(text) - place))
                assert at.accept_token(ids[text[place : place + length]]), text[:place]
                place += length
            assert at.is_completed()
