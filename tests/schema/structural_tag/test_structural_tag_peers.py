"""Structural tags beside XGrammar, whose formats they are: on random texts of either side both agree, or a named reason says why not.

XGrammar comes with the extra `bench`; without it these tests are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from support.engines import Engine
from support.structural_tags import PARAMETERS

from stackmask.schema.structural_tag import structural_tag_grammar

xgrammar = pytest.importorskip("xgrammar", reason="the extra `bench` has XGrammar, which is not installed")

STOP = 256
TOKENS = [bytes([byte]) for byte in range(STOP)]
TEXT = np.array([3.0 if chr(i) in 'abexyz<>{}[]":,/=|_ 01' else 0.3 if 32 < i < 127 else 0.02 for i in range(128)])
CLOSED = {"additionalProperties": False}
J = {"type": "json_schema", "json_schema": {"type": "integer", "minimum": 0, "maximum": 50}}
ANY = {"type": "any_text"}


def tag(begin: str, content: Any = J, end: Any = "</a>") -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def text(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


TAGS = [tag("<a>"), tag("<ab>", ANY, [".", "</b>"])]
OBJECT = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "integer", "minimum": 0},
        "e": {"enum": ["x", "yy", 1]},
        "o": {"type": "object", "properties": {"k": {"type": "boolean"}}, "required": ["k"], **CLOSED},
        "l": {"type": "array", "items": {"type": "null"}},
        "u": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["s", "n"],
    **CLOSED,
}
FORMATS: dict[str, Any] = {
    "any_text": {"type": "any_text", "excludes": ["ab", "<a"]},
    "any_text-max_chars": tag("<a>", {"type": "any_text", "max_chars": 5}),
    "json_schema": {"type": "json_schema", "json_schema": OBJECT, "max_whitespace_cnt": 2},
    "grammar": {"type": "grammar", "grammar": 'root ::= "a" inner "b"\ninner ::= "(" inner ")" | [0-9]{2}'},
    "regex": {"type": "regex", "pattern": "(ab|c)*d{2,3}"},
    "or": {"type": "or", "elements": [text("x"), J, tag("<")]},
    "sequence": {"type": "sequence", "elements": [{"type": "any_text", "excludes": ["."]}, text("."), J]},
    "star": {"type": "star", "content": tag("<")},
    "plus": {"type": "plus", "content": {"type": "optional", "content": text("ab")}},
    "repeat": {"type": "repeat", "min": 1, "max": 3, "content": tag("<", ANY, ">")},
    "tag": tag("<a>", {"type": "sequence", "elements": [ANY, text("q")]}, ["</a>", "."]),
    "tag-in-tag": tag("(", tag("[", ANY, "]"), ")"),
    "tag-end": tag("<a>", J, ["", "</a>"]),
    "triggered_tags": {"type": "triggered_tags", "triggers": ["<a"], "tags": TAGS},
    "triggered_tags-excludes": {"type": "triggered_tags", "triggers": ["<a"], "tags": TAGS, "excludes": ["ab", "<ax"]},
    "triggered_tags-at_least_one": {"type": "triggered_tags", "triggers": ["<a"], "tags": TAGS, "at_least_one": True},
    "triggered_tags-stop_after_first": {"type": "triggered_tags", "triggers": ["<a"], "tags": TAGS, "stop_after_first": True},
    "triggered_tags-one": {"type": "triggered_tags", "triggers": ["<a"], "tags": TAGS, "stop_after_first": True, "at_least_one": True},
    "triggered_tags-in-tag": tag("(", {"type": "triggered_tags", "triggers": ["<a"], "tags": TAGS}, ")"),
    "tags_with_separator": {"type": "tags_with_separator", "separator": ",", "tags": TAGS},
    "tags_with_separator-one": {"type": "tags_with_separator", "separator": "", "tags": TAGS, "at_least_one": True},
    "dispatch": {"type": "dispatch", "rules": [["<a", J], ["b<", tag("x")]], "excludes": ["aa"]},
    "dispatch-once": tag("(", {"type": "dispatch", "rules": [["<a", J]], "loop": False, "excludes": [")"]}, ")"),
    "legacy": None,
    **{
        style: {"type": "json_schema", "style": style, "json_schema": OBJECT, "max_whitespace_cnt": 2}
        for style in (
            "qwen_xml",
            "minimax_xml",
            "glm_xml",
            "deepseek_xml",
            "deepseek_v4_1_xml",
            "kimi_k3_xml",
            "cohere_xml",
            "minimax_m3_xml",
        )
    },
    "qwen_xml_parameter": {"type": "qwen_xml_parameter", "json_schema": PARAMETERS},
}
LEGACY = {
    "type": "structural_tag",
    "structures": [{"begin": "<f=a>", "schema": J["json_schema"], "end": "</f>"}],
    "triggers": ["<f="],
}
MODELS = sorted(xgrammar.builtin_structural_tag._structural_tag_registry)
TOOLS = [
    {"type": "function", "function": {"name": "get", "parameters": OBJECT}},
    {"type": "function", "function": {"name": "put", "parameters": {"type": "object", "properties": {}, **CLOSED}}},
]

# Why a text is on one side only; the documentation says more.
OURS: dict[str, Callable[[str], object]] = {
    "blanks may stand in an object or array without members": lambda text: re.search(r"\[<(?!/)[^<]*>\s+\]<\]minimax\[>\[</", text),
}
THEIRS: dict[str, Callable[[str], object]] = {
    "only necessary escapes are written": lambda text: re.search(r"\\[u/]", text),
    "the first argument adjoins the name of a tool": lambda text: re.search(r"<tool_call>[\w.-]+\s", text),
    "the type of an argument and its value agree": lambda text: re.search(r'key="[eu]" type="', text),
}


@cache
def compiler() -> Any:
    """XGrammar's compiler for a vocabulary of bytes."""
    tokens = [*TOKENS, b"</s>"]
    info = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[STOP], vocab_size=len(tokens))
    return xgrammar.GrammarCompiler(info, max_threads=1)


class Theirs:
    """XGrammar at a place of a text."""

    def __init__(self, tag: Any) -> None:
        self.grammar = compiler().compile_structural_tag(tag)
        self.bitmask = xgrammar.allocate_token_bitmask(1, STOP + 1)
        self.begin()

    def begin(self) -> None:
        """Go back to the beginning."""
        self.matcher = xgrammar.GrammarMatcher(self.grammar)

    def allowed(self) -> list[int]:
        """The tokens that may follow."""
        self.matcher.fill_next_token_bitmask(self.bitmask)
        bits = np.unpackbits(self.bitmask.numpy().view(np.uint8).reshape(-1), bitorder="little")
        return [int(i) for i in np.flatnonzero(bits[: STOP + 1])]

    def accept(self, token: int) -> bool:
        """Take a token."""
        return bool(self.matcher.accept_token(token))

    def generates(self, text: bytes) -> bool:
        """Whether it is a whole text."""
        self.begin()
        return all(map(self.accept, text)) and STOP in self.allowed()


class Ours:
    """stackmask at a place of a text."""

    def __init__(self, engine: Engine, tag: Any) -> None:
        trie = engine.TokenTrie([*TOKENS, None], STOP + 1)
        kernel = engine.KernelGrammar(trie, structural_tag_grammar(tag), states=200_000, stack_depth=100_000, memory=1 << 26, seconds=10.0)
        self.start = engine.Matcher(kernel, [STOP])
        self.begin()

    def begin(self) -> None:
        """Go back to the beginning."""
        self.matcher = self.start.fork()

    def allowed(self) -> list[int]:
        """The tokens that may follow."""
        return list(self.matcher.allowed_tokens())

    def accept(self, token: int) -> bool:
        """Take a token."""
        return bool(self.matcher.accept_token(token))

    def generates(self, text: bytes) -> bool:
        """Whether it is a whole text."""
        at = self.start.fork()
        return bool(at.accept_bytes(text) and at.is_completed())

    def completion(self, text: bytes) -> bytes:
        """The shortest way to the end after a text, nothing where the text is no beginning."""
        at = self.start.fork()
        return bytes(at.shortest_completion()) if at.accept_bytes(text) else b""


def walk(side: Ours | Theirs, guide: Ours, random: Random, steps: int) -> bytes | None:
    """A random text of one side; after some steps it goes where the other one, if it can, sees the shortest way to the end."""
    side.begin()
    text = b""
    for step in range(steps + 400):
        allowed = side.allowed()
        if STOP in allowed and (step > steps or len(allowed) == 1 or random.random() < 0.05):
            return text
        # free text of XGrammar's may break off in the middle of a character, so the walk stays with ASCII
        plain = [token for token in allowed if token < 128]
        token = random.choices(plain, [TEXT[i] for i in plain])[0] if plain else allowed[0]
        if step > steps and (rest := guide.completion(text)) and rest[0] in allowed:
            token = rest[0]
        assert side.accept(token)
        text += bytes([token])
    return None


def compare(engine: Engine, tag: Any, random: Random, walks: int) -> None:
    """Texts of either side are texts of the other, or one of the reasons is seen in them."""
    ours, theirs = Ours(engine, tag), Theirs(tag)
    for source, other, reasons in ((ours, theirs, OURS), (theirs, ours, THEIRS)):
        for _ in range(walks):
            found = walk(source, ours, random, random.randint(0, 80))
            if found is not None and not other.generates(found):
                text = found.decode()
                assert any(reason(text) for reason in reasons.values()), f"{type(source).__name__} alone: {text!r}"


@pytest.mark.parametrize("name", FORMATS)
def test_formats(kernel: Engine, name: str) -> None:
    """Each type of format, and each style, means what it means to XGrammar."""
    tag = LEGACY if name == "legacy" else {"type": "structural_tag", "format": FORMATS[name]}
    if name == "legacy":
        theirs = xgrammar.StructuralTag.from_legacy_structural_tag(
            [xgrammar.StructuralTagItem(**structure) for structure in LEGACY["structures"]], LEGACY["triggers"]
        )
        assert json.loads(theirs.model_dump_json())["format"]["triggers"] == LEGACY["triggers"]
        tag = theirs.model_dump()
    compare(kernel, tag, Random(name), 25)


@pytest.mark.parametrize("choice", ["auto", "required", "named"])
@pytest.mark.parametrize("model", MODELS)
def test_templates(kernel: Engine, model: str, choice: str) -> None:
    """So do the tags that servers make for tools, for every family of models that XGrammar has."""
    wanted: Any = {"type": "function", "function": {"name": "get"}} if choice == "named" else choice
    tag = xgrammar.get_model_structural_tag(model, tools=TOOLS, tool_choice=wanted, reasoning="disabled", max_whitespace_cnt=2)
    compare(kernel, tag.model_dump(), Random(model + choice), 6)
