"""Every grammar of the corpus, whichever front end it is written for, compiled; and matchers for them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

from support.corpus import cases, read_grammar
from support.engines import Engine

from stackmask.pda.choice import choice_grammar
from stackmask.pda.ebnf import ebnf_grammar
from stackmask.pda.grammar import Grammar
from stackmask.pda.lark import lark_grammar
from stackmask.pda.limits import Limits
from stackmask.pda.regex import regex_grammar
from stackmask.schema.json_schema import json_schema_grammar
from stackmask.schema.structural_tag import structural_tag_grammar

MULTIPLE = [b'{"', b'": ', b'", "', b"true", b"12", b"ab", b"\\u00", "é".encode(), b"\xf0\x9f", b"]}"]
TOKENS = [*(bytes([byte]) for byte in range(256)), *[None] * 60, *MULTIPLE]
STOP = 315
J = '{"type":"json_schema","json_schema":{"type":"integer"}}'


def corpus() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every case of the corpus that has a grammar, with the name of its file."""
    for file in ("choice", "ebnf", "grammar", "json_schema", "lark", "options", "regex", "structural_tag", "structural_tag_styles"):
        for case in cases(f"{file}.toml"):
            if "error" not in case and "unsatisfiable" not in case:
                yield file, case


def compiled(file: str, case: dict[str, Any]) -> Grammar:
    """The grammar of a case; of its warnings the tests of its front end speak."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _compiled(file, case)


def _compiled(file: str, case: dict[str, Any]) -> Grammar:
    special = case.get("special", {})
    match file:
        case "choice":
            return choice_grammar(case["options"])
        case "ebnf":
            return ebnf_grammar(case["grammar"], root=case.get("root", "root"), special=special)
        case "grammar" | "options":
            return read_grammar(case["rules"])
        case "json_schema":
            return json_schema_grammar(json.loads(case["schema"]), **case.get("options", {}))[0]
        case "lark":
            text = f"{case['options']}\n{case['grammar']}" if "options" in case else case["grammar"]
            limits = Limits(**case.get("limits", {}))
            return lark_grammar(text, start=case.get("start", "start"), special=special, grammars=case.get("grammars", {}), limits=limits)
        case "regex":
            return regex_grammar(case["pattern"])
        case _:
            tag = case["tag"]
            for before in ":,[":
                tag = tag.replace(f"{before}J", before + J)
            return structural_tag_grammar(tag, special=special)


def start(engine: Engine, grammar: Grammar, tokens: list[bytes | None] = TOKENS, stop: int = STOP) -> Any:
    """A matcher at the beginning of a grammar."""
    trie = engine.TokenTrie(tokens, len(tokens))
    prepared = engine.KernelGrammar(trie, grammar, states=500_000, stack_depth=100_000, memory=1 << 26, seconds=30.0)
    return engine.Matcher(prepared, [stop])


def token_ids(sample: str | list[str | int]) -> list[int]:
    """A text of the corpus as tokens: texts in bytes, and ids."""
    pieces = [sample] if isinstance(sample, str) else sample
    return [token for piece in pieces for token in ([piece] if isinstance(piece, int) else piece.encode())]
