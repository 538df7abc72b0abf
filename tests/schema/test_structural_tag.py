"""Structural tags: the corpus on both engines, errors with their paths, and what hostile tags cost."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.engines import Engine

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


def generates(start: Any, text: str | list[str | int]) -> bool:
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
