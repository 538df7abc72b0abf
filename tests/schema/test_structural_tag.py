"""Structural tags: the corpus on both engines, errors with their paths, and what hostile tags cost."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.engines import Engine
from support.structural_tags import SPECIAL, random_format, token_of
from support.structural_tags import accepts as recognised

from stackmask.pda.exceptions import StructuralTagError
from stackmask.pda.grammar import Grammar
from stackmask.pda.limits import Limits
from stackmask.schema.structural_tag import structural_tag_grammar

CORPUS = Path(__file__).parents[1] / "corpus"
CASES = [
    case
    for name in ("structural_tag.toml", "structural_tag_styles.toml")
    if (CORPUS / name).exists()
    for case in tomllib.loads((CORPUS / name).read_text(encoding="utf-8"))["case"]
]
TOKENS = [*(bytes([byte]) for byte in range(256)), *[None] * 60]
STOP = 315
J = '{"type":"json_schema","json_schema":{"type":"integer"}}'


def compiled(engine: Engine, grammar: Grammar) -> Any:
    """A matcher at the start of a grammar over bytes and special tokens."""
    trie = engine.TokenTrie(TOKENS, 320)
    kernel = engine.KernelGrammar(trie, grammar, states=200_000, stack_depth=100_000, memory=1 << 26, seconds=10.0)
    return engine.Matcher(kernel, [STOP])


def generates(start: Any, text: str | Sequence[str | int]) -> bool:
    """Whether the text, a string or a list of strings and token ids, is one that the grammar generates."""
    at = start.fork()
    for piece in [text] if isinstance(text, str) else text:
        if isinstance(piece, int):
            if piece not in at.allowed_tokens() or not at.accept_token(piece):
                return False
        elif piece and not at.accept_bytes(piece.encode()):
            return False
    return bool(at.is_completed())


def parse(case: dict[str, Any], limits: Limits | None = None) -> Grammar:
    """The grammar of a case, with J written out."""
    tag = case["tag"]
    for before in ":,[":
        tag = tag.replace(f"{before}J", before + J)
    return structural_tag_grammar(tag, special=case.get("special", {}), limits=limits)


@pytest.mark.parametrize("case", [case for case in CASES if "error" not in case], ids=lambda case: case["name"])
def test_corpus(engine: Engine, case: dict[str, Any]) -> None:
    """A tag generates the texts listed as accepted, and none of those listed as rejected."""
    start = compiled(engine, parse(case))
    assert [text for text in case["accepts"] if not generates(start, text)] == []
    assert [text for text in case["rejects"] if generates(start, text)] == []


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=lambda case: case["name"])
def test_errors(case: dict[str, Any]) -> None:
    """A mistake in a tag raises an error that begins with the path of the field."""
    with pytest.raises(StructuralTagError) as caught:
        parse(case)
    assert str(caught.value).startswith(case["error"])


def walk(start: Any, random: Random, steps: int) -> str | None:
    """A random text of a grammar, as `support.structural_tags` writes texts; None where none was found in this many steps."""
    at, tokens = start.fork(), []
    for step in range(4 * steps):
        allowed = at.allowed_tokens()
        if STOP in allowed and (step > steps or random.random() < 0.1 or len(allowed) == 1):
            return "".join(
                chr(SPECIAL + key - 300) if special else bytes(group).decode()
                for special, some in groupby(tokens, lambda token: token >= 300)
                for group in ([list(some)] if not special else ([token] for token in some))
                for key in group[:1]
            )
        # free text would hardly ever come upon what ends it
        likely = [token for token in allowed if token in LIKELY or token >= 300]
        closing = [token for token in allowed if token in CLOSING or token >= 300] if step > steps else []
        plain = [token for token in allowed if 32 <= token < 127]
        token = random.choice(closing or likely or plain or [token for token in allowed if token != STOP])
        if token != STOP:
            assert at.accept_token(token)
            tokens.append(token)
    return None


LIKELY = frozenset(b'<>/abx.(),{}[]":=_n 01')
CLOSING = frozenset(b'</a>.)"}],0')


@pytest.mark.parametrize("seed", range(60))
def test_random_walks(kernel: Engine, seed: int) -> None:
    """What random tags generate is what a recogniser without grammars accepts; and it accepts no more after a random change."""
    random = Random(seed)
    format = random_format(random, random.randint(0, 3))
    try:
        start = compiled(kernel, structural_tag_grammar(format))
    except StructuralTagError as error:
        assert "can never be completed" in str(error), format
        return
    for _ in range(8):
        text = walk(start, random, random.randint(0, 60))
        if text is None:
            continue
        assert recognised(format, text), (format, text)
        for _ in range(4):
            place = random.randint(0, len(text))
            other = text[:place] + random.choice(["", "x", "<a", ".", "\ue000"]) + text[place + random.randint(0, 2) :]
            tokens = [token for c in other for token in ([token_of(c)] if token_of(c) >= 300 else c.encode())]
            assert recognised(format, other) == generates(start, tokens), (format, other)
