"""Structural tags: the corpus on both engines, errors with their paths, and what hostile tags cost."""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.engines import Engine
from support.schemas import Schemas
from support.structural_tags import SPECIAL, random_format, token_of
from support.structural_tags import accepts as recognised

from stackmask.pda.embed import compact
from stackmask.pda.exceptions import LimitError, StructuralTagError, UnsatisfiableError
from stackmask.pda.grammar import Grammar, NodeId, memory_of
from stackmask.pda.limits import Limits
from stackmask.schema.structural_tag import StructuralTags, structural_tag_grammar
from stackmask.schema.structural_tag.formats import FORMATS
from stackmask.schema.structural_tag.notations import STYLES
from stackmask.schema.structural_tag.tag_cache import Arena, Arenas, Part, Tag

CORPUS = Path(__file__).parents[2] / "corpus"
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


def nested(depth: int, kind: str) -> dict[str, Any]:
    """Formats in formats."""
    format: dict[str, Any] = {"type": "const_string", "value": "x"}
    for _ in range(depth):
        match kind:
            case "tag":
                format = {"type": "tag", "begin": "(", "content": format, "end": ")"}
            case "sequence":
                format = {"type": "sequence", "elements": [format]}
            case "triggered_tags":
                format = {"type": "triggered_tags", "triggers": ["("], "tags": [{"begin": "(", "content": format, "end": ")"}]}
            case _:
                format = {"type": kind, "content": format}
    return format


@pytest.mark.parametrize("kind", ["tag", "sequence", "optional", "triggered_tags"])
def test_deep_formats(kernel: Engine, kind: str) -> None:
    """Formats nest as deep as the limits allow, without recursion."""
    start = compiled(kernel, structural_tag_grammar(nested(3000, kind)))
    assert generates(start, "(" * 3000 + "x" + ")" * 3000 if kind == "tag" else "x")
    with pytest.raises(LimitError, match="nested more than 50 deep"):
        structural_tag_grammar(nested(60, kind), limits=Limits(nesting=50))


def test_limits() -> None:
    """Texts, rules and states have their limits."""
    with pytest.raises(LimitError, match="more than 10"):
        structural_tag_grammar('{"type":"any_text"}', limits=Limits(specification_bytes=10))
    with pytest.raises(LimitError, match="nested deeper than Python's JSON parser reads"):
        structural_tag_grammar("[" * 200_000)
    tags = [{"begin": f"<{i}>", "content": {"type": "const_string", "value": f"x{i}"}, "end": ""} for i in range(200)]
    with pytest.raises(LimitError, match="more than 100 rules"):
        structural_tag_grammar({"type": "tags_with_separator", "tags": tags, "separator": ""}, limits=Limits(rules=100))
    with pytest.raises(LimitError):
        structural_tag_grammar({"type": "any_text", "excludes": ["ab" * 50_000]}, limits=Limits(states=1000))
    tree = {
        "$ref": "#/$defs/0",
        "$defs": {str(i): {"type": "object", "properties": {"a": {"$ref": f"#/$defs/{i + 1}"}}} for i in range(99)},
    }
    tree["$defs"]["99"] = {"type": "integer"}
    with pytest.raises(LimitError, match="more than 50 rules"):
        structural_tag_grammar({"type": "json_schema", "style": "cohere_xml", "json_schema": tree}, limits=Limits(rules=50))
    with pytest.raises(LimitError, match="more than 2000000 states"):  # each state of the watch has moves for all of them
        structural_tag_grammar({"type": "any_text", "excludes": [chr(0x4E00 + i) * 20 for i in range(5000)]})
    with pytest.raises(LimitError, match="compilation took more than"):
        structural_tag_grammar({"type": "any_text"}, limits=Limits(compile_seconds=-1.0))


def fields_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all fields and items."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, inner in items for found in fields_of(inner, (*path, key)))]


@pytest.mark.parametrize("case", [case for case in CASES if "error" not in case], ids=lambda case: case["name"])
def test_any_field_may_be_anything(case: dict[str, Any]) -> None:
    """Whatever stands in the place of a field, the tag is compiled or refused with an error of its own."""
    tag = case["tag"]
    for before in ":,[":
        tag = tag.replace(f"{before}J", before + J)
    random = Random(case["name"])
    for path in fields_of(json.loads(tag)):
        for other in random.sample([None, True, -1, 7, 1.5, "", "x", [], ["x"], [[]], {}, {"type": "token"}, "\ud800", 2**40], 4):
            changed = json.loads(tag)
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            if path:
                holder[path[-1]] = other
            else:
                changed = other
            with contextlib.suppress(StructuralTagError, LimitError):
                structural_tag_grammar(changed, special=case.get("special", {}))


def agent(names: Sequence[str]) -> dict[str, Any]:
    """A tag with tools."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x+$"}}, "required": ["a"]}
    tags = [
        {
            "begin": f"<call>{name}:",
            "content": {"type": "json_schema", "json_schema": {**schema, "title": name}, "max_whitespace_cnt": len(name) % 2},
            "end": "</call>",
        }
        for name in names
    ]
    return {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<call>"], "tags": tags}}


def kept_grammar(kept: StructuralTags, tag: dict[str, Any]) -> Grammar:
    """The grammar of a tag with Parts in the place of those inside it."""
    name = "structures" if "structures" in tag else "tags"
    format = tag if "structures" in tag else tag["format"]
    parts = [Part(json.dumps(inner).encode(), dict(inner)) for inner in format[name]]
    format = {**format, name: parts}
    return kept.grammar(format if "structures" in tag else {**tag, "format": format}, [part.key for part in parts])


def test_kept_tags(kernel: Engine) -> None:
    """A compiler that has seen tags before makes the same grammar as one that has not."""
    kept = StructuralTags({})
    for names in (["a", "bb"], ["bb", "c"], ["a", "c", "dd"], ["a", "bb"]):
        found = kept_grammar(kept, agent(names))
        assert compact(found) == compact(structural_tag_grammar(agent(names)))
        (arena,) = kept._arenas._free
        assert arena._measured.memory == memory_of(found.nodes, len(found.rules))
        start = compiled(kernel, found)
        for name in ("a", "bb", "c", "dd"):
            assert generates(start, f'x<call>{name}:{{"a":"xx"}}</call>y') == (name in names)


def test_kept_tags_after_an_error(kernel: Engine) -> None:
    """What an error left half done is in no later grammar."""
    kept = StructuralTags({})
    kept_grammar(kept, agent(["a"]))
    bad = agent(["a", "b"])
    bad["format"]["tags"].append({"begin": "<call>", "content": {"type": "regex", "pattern": "("}, "end": ""})
    with pytest.raises(StructuralTagError, match=r"format.tags\[2\].content.pattern"):
        kept_grammar(kept, bad)
    assert len(kept._arenas) == 1
    again = kept_grammar(kept, agent(["a", "b"]))
    assert compact(again) == compact(structural_tag_grammar(agent(["a", "b"])))
    assert generates(compiled(kernel, again), '<call>b:{"a":"x"}</call>')


def test_kept_tags_of_a_large_agent_after_an_error() -> None:
    """An error costs nobody the tags that were there before."""
    kept = StructuralTags({})
    large = agent([str(number) for number in range(1200)])
    assert len(kept_grammar(kept, large).nodes) > 5_000
    bad = {**large, "format": {**large["format"], "tags": [*large["format"]["tags"], {"begin": "", "content": {}, "end": ""}]}}
    with pytest.raises(StructuralTagError, match=r"format.tags\[1200\].content.type"):
        kept_grammar(kept, bad)
    (arena,) = kept._arenas._free
    assert len(arena.tags) == 1200


def test_kept_tags_of_many_agents() -> None:
    """Grammars do not grow with the tags of others, beyond a bound."""
    kept = StructuralTags({})
    sizes = [len(kept_grammar(kept, agent([f"{number}-{tool}" for tool in range(50)])).nodes) for number in range(40)]
    assert sizes[0] < 500
    assert max(sizes) < 6_000


def test_kept_tags_in_threads() -> None:
    """A thread that finds the kept grammar in use makes one of its own."""
    kept = StructuralTags({})
    agents = [agent([str(number), "x", "yy"]) for number in range(20)]
    alone = [compact(structural_tag_grammar(tag)) for tag in agents]
    with ThreadPoolExecutor(8) as pool:
        assert [compact(grammar) for grammar in pool.map(partial(kept_grammar, kept), agents * 3)] == alone * 3
    assert 1 <= len(kept._arenas) <= 8


def test_kept_tags_are_bounded() -> None:
    """Arenas that were used longest ago are forgotten; tags go where most of them are, or where there is room."""
    arenas = Arenas()
    held = []
    for number in range(70):
        arena = arenas.take([b"a%d" % number, b"b"])
        assert not arena.tags
        arena.keep(b"a%d" % number, Tag("<", NodeId(0)))
        arena.builder.nodes += [(0,)] * 6_000
        held.append(arena)
        arenas.give(arena, 6_000)
    assert len(arenas) == 64
    assert arenas.take([b"a7", b"x"]) is held[7]
    assert arenas.take([b"a7", b"x"]) is not held[7]
    assert arenas.take([b"a8", b"x", b"y"]) is not held[8]
    arenas.give(held[7], 200)
    assert arenas.take([b"a7"]) is not held[7]
    small = Arena()
    arenas.give(small, 0)
    assert arenas.take([b"z"]) is small


def test_kept_tags_are_bounded_in_bytes() -> None:
    """Few tags with long texts are many bytes; a tag that failed counts no more."""
    arenas = Arenas()
    kept = StructuralTags({})
    for number in range(12):
        arena = arenas.take([b"a%d" % number])
        arena.keep(b"%d" % number * 4_000_000, Tag("<", NodeId(0)))
        arena.builder.nodes += [(0,)] * 6_000
        arenas.give(arena, 6_000)
        assert sum(free.size for free in arenas._free) <= 64 << 20
    assert 2 <= len(arenas) < 6
    assert arenas._free[-1] is arena, "the last one"
    large = Arena()
    large.keep(b"x" * (22 << 20), Tag("<", NodeId(0)))
    arenas.give(large, 0)
    assert large not in arenas._free
    for number in range(30):
        text = "x" * 1_000_000 + str(number)
        tag = {"type": "tag", "begin": text, "content": {"type": "regex", "pattern": "a"}, "end": "</a>"}
        part = Part(json.dumps(tag).encode(), tag)
        kept.grammar({"type": "structural_tag", "format": part}, [part.key])
        assert sum(free.size for free in kept._arenas._free) <= 64 << 20
        with pytest.raises(StructuralTagError):
            wrong = Part(b"wrong" * 1_000_000, {**tag, "end": 3})
            elements = [Part(part.key + b"other", tag), wrong]
            kept.grammar({"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}, [part.key])
        for arena in kept._arenas._free:
            assert arena._written == sum(map(len, arena.tags))


@pytest.mark.parametrize("seed", range(12))
def test_kept_tags_of_random_schemas(seed: int) -> None:
    """What a tag becomes depends on nothing that was compiled before it, and errors leave nothing behind."""
    kept, source = StructuralTags({}), Schemas(seed)
    alone: list[tuple[dict[str, Any], Grammar]] = []
    for number in range(25):
        schema = source.root()
        if source.random.random() < 0.7:
            schema = {"type": "object", "properties": {"p": schema, "q": source.schema(1)}, "required": ["p"]}
            schema |= source.random.choice([{}, {"additionalProperties": False}])
        style = source.random.choice(["json", "json", *sorted(STYLES)])
        inner = {"begin": f"<{number}>", "content": {"type": "json_schema", "json_schema": schema, "style": style}, "end": "<"}
        tag = {"type": "structural_tag", "format": {"type": "tags_with_separator", "tags": [inner], "separator": ""}}
        try:
            grammar = compact(structural_tag_grammar(tag))
        except StructuralTagError as error:
            with pytest.raises(StructuralTagError, match=re.escape(str(error))):
                kept_grammar(kept, tag)
            continue
        assert [compact(kept_grammar(kept, tag)) for _ in range(2)] == [grammar] * 2
        alone.append((inner, grammar))
        some = source.random.sample([one for one, _ in alone], min(4, len(alone)))
        tag["format"] |= {"tags": some, "at_least_one": True}
        assert compact(kept_grammar(kept, tag)) == compact(structural_tag_grammar(tag))


SIMPLE = [
    {"type": "string"}, {"type": "string", "minLength": 1, "maxLength": 3}, {"type": "string", "maxLength": 0},
    {"type": "string", "minLength": 2}, {"type": "string", "minLength": 3, "maxLength": 2},
    {"type": "string", "enum": ["a", "b</parameter>", "", 7, "a"]}, {"type": "string", "enum": [7]},
    {"type": "string", "enum": ["ab", "c"], "maxLength": 1}, {"type": "string", "enum": ["a"], "const": "b"},
    {"type": "string", "const": "b"}, {"type": "string", "pattern": "^[ab]+$"}, {"type": "string", "format": "date"},
    {"type": "integer", "minimum": 3, "maximum": 12}, {"type": "integer", "minimum": 5, "maximum": 4},
    {"type": "number", "exclusiveMinimum": 2}, {"type": "integer", "enum": [1, 2.0]},
    {"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {"enum": ["a", 1]},
    {"type": "array", "items": {"type": "null"}}, {"type": "object", "properties": {"x": {"type": "null"}}},
    {"type": "object", "properties": {"x": {"enum": [1]}}, "additionalProperties": False}, True, False, {},
]  # fmt: skip


@pytest.mark.parametrize("style", sorted(STYLES))
def test_simple_parameters(kernel: Engine, style: str) -> None:
    """A schema that only lists its parameters is written without the algebra, and means what it means with it."""
    random = Random(style)
    for _ in range(25):
        names = random.sample(["a", "b", "c1", "d-e"], 3)
        schema: dict[str, Any] = {"type": "object", "properties": {name: random.choice(SIMPLE) for name in names}}
        schema |= {"required": random.sample([*names, "e"], random.randint(0, 2))} | random.choice([{}, {"additionalProperties": False}])
        found = []
        for same in (schema, {"allOf": [schema, {"minProperties": 0}, {"maxProperties": 50}]}):
            content = {"type": "json_schema", "json_schema": same, "style": style, "max_whitespace_cnt": 1}
            with contextlib.suppress(UnsatisfiableError):
                try:
                    found.append(compiled(kernel, structural_tag_grammar(content)))
                except StructuralTagError as error:
                    if "cannot count properties" in str(error):
                        content["json_schema"] = {"allOf": [schema]}
                        found.append(compiled(kernel, structural_tag_grammar(content)))
                        continue
                    assert "no instance can satisfy" in str(error)
        if not found:
            continue
        assert len(found) == 2
        for one, other in (found, found[::-1]):
            for _ in range(4):
                text = walk(one, random, random.randint(10, 60))
                assert text is None or generates(other, text), (schema, text)


NESTED = [
    ("array", {"type": "array"}, lambda text: [text]),
    ("array", {"type": "array", "items": {"type": "string"}}, lambda text: ["", text]),
    ("array", {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 80}}, lambda text: [text]),
    ("array", {"type": "array", "items": {"type": "string", "pattern": "/|^x"}}, lambda text: [text + "/"]),
    ("array", {"type": "array", "items": {"anyOf": [{"type": "string", "not": {"const": "q"}}, {"type": "null"}]}}, lambda text: [text]),
    ("object", {"type": "object"}, lambda text: {"k": {text: 1}}),
    ("object", {"type": "object", "properties": {"k": {"type": "string"}}}, lambda text: {text: 1}),
    ("object", {"type": "object", "properties": {"k": {"type": "string"}}, "minProperties": 1}, lambda text: {"k": text}),
    ("object", {"type": "object", "propertyNames": {"pattern": "x|<|｜"}}, lambda text: {f"x{text}": 1}),
]


@pytest.mark.parametrize("style", sorted(name for name, notation in STYLES.items() if not notation.item))
def test_no_string_inside_a_value_ends_it(kernel: Engine, style: str) -> None:
    """No string and no key of a value in JSON holds the text that closes the argument, and any other text stands in them as it is."""
    notation = STYLES[style]
    close = notation.close
    for kind, schema, value in NESTED:
        tool = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
        start = compiled(kernel, structural_tag_grammar({"type": "json_schema", "json_schema": tool, "style": style}))
        for text in (
            "a",
            close,
            f"x{close}y",
            close[:-1],
            close[1:],
            close[:3] + close,
            close[0] * 2 + close[2:],
            close[:2] + " " + close[2:],
        ):
            written = json.dumps(value(text), ensure_ascii=False)
            argument = notation.pair.replace("$key", "a").replace("$kind", notation.kinds.get(kind, "")).replace("$value", written)
            assert generates(start, argument) == (close not in written), argument


def test_kept_structures(kernel: Engine) -> None:
    """The older form keeps its structures, and its errors their paths."""
    kept = StructuralTags({})
    tag: dict[str, Any] = {
        "type": "structural_tag",
        "structures": [{"begin": "<a", "schema": '{"enum":[7]}', "end": ">"}],
        "triggers": ["<"],
    }
    for _ in range(2):
        found = kept_grammar(kept, tag)
        assert compact(found) == compact(structural_tag_grammar(tag))
        assert generates(compiled(kernel, found), "x<a7>")
    with pytest.raises(StructuralTagError, match=r"^structures\[0\].schema: is not JSON"):
        kept_grammar(kept, {**tag, "structures": [{"begin": "<a", "schema": "{", "end": ">"}]})


class Model:
    """A model of another library, as far as it matters here."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, *, by_alias: bool = False) -> dict[str, Any]:
        """Its fields."""
        assert by_alias
        return self.fields


def test_models(reference: Engine) -> None:
    """Models stand for what they are written out as, wherever they are."""
    inner = Model(type="const_string", value="x")
    tag: Any = Model(type="sequence", elements=[inner, {"type": "tag", "begin": Model(token=301), "content": inner, "end": "."}])
    assert generates(compiled(reference, structural_tag_grammar(tag)), ["x", 301, "x."])


def test_schema_of_a_model() -> None:
    """A class that has a schema stands for it; what has none is refused."""

    class Point:
        @staticmethod
        def model_json_schema() -> dict[str, Any]:
            return {"type": "integer"}

    content = {"type": "json_schema", "json_schema": Point}
    assert structural_tag_grammar(content) == structural_tag_grammar({"type": "json_schema", "json_schema": {"type": "integer"}})
    with pytest.raises(StructuralTagError, match="json_schema: must be a JSON Schema, an object or a boolean, not type"):
        structural_tag_grammar({"type": "json_schema", "json_schema": int})


@pytest.mark.parametrize("special", [{"<|a|>": 300}, {}])
def test_text_never_matches_special_tokens(engine: Engine, special: dict[str, int]) -> None:
    """A special token stands only where the tag spells its name."""
    start = compiled(
        engine, structural_tag_grammar({"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": "<|a|>"}, special=special)
    )
    assert generates(start, "x<|a|>")
    assert generates(start, ["x", 300]) == bool(special)
    assert not generates(start, ["x", 301, "<|a|>"])


SAID = {"type": "any_text"}
STOPPED: list[tuple[Any, list[list[str | int]], list[list[str | int]]]] = [
    ({"type": "tag", "begin": "(", "content": SAID, "end": {"token": 305}}, [["(x", 305]], [["(x", 306], ["(x", STOP], [305]]),
    ({"type": "tag", "begin": "(", "content": SAID, "end": [".", {"token": 305}]}, [["(x", 305], ["(x.", 306]], [["(x", 306]]),
    ({"type": "tag", "begin": {"token": 304}, "content": SAID, "end": "<|a|>"}, [[304, "a", 305]], [[305], [304, 306]]),
    (
        {"type": "triggered_tags", "triggers": ["("], "tags": [{"begin": "(", "content": SAID, "end": {"token": 305}}]},
        [["x(y", 305], ["x", 305], ["x", 306]],
        [["x(y", 306], ["x(y", STOP]],
    ),
    ({"type": "sequence", "elements": [{"type": "token", "token": 305}, {"type": "const_string", "value": "x"}]}, [], [[305]]),
    (
        {
            "type": "sequence",
            "elements": [{"type": "token", "token": 306}, {"type": "optional", "content": {"type": "token", "token": 305}}],
        },
        [[306]],
        [[305]],
    ),
    ({"type": "sequence", "elements": [{"type": "token", "token": 304}, {"type": "token", "token": 90}]}, [], [[304, 90], [304, "Z"]]),
]


@pytest.mark.parametrize(("tag", "ended", "refused"), STOPPED)
def test_stop_tokens_that_a_tag_asks_for(engine: Engine, tag: Any, ended: list[list[str | int]], refused: list[list[str | int]]) -> None:
    """They end the text where nothing has to follow them, and stand nowhere else."""
    trie = engine.TokenTrie(TOKENS, 320)
    grammar = structural_tag_grammar(tag, special={"<|a|>": 305})
    kernel = engine.KernelGrammar(trie, grammar, states=200_000, stack_depth=100_000, memory=1 << 26, seconds=10.0)
    for parts, is_ended in [*((parts, True) for parts in ended), *((parts, False) for parts in refused)]:
        at = engine.Matcher(kernel, [305, 306, STOP, ord("Z")])
        steps = [token for part in parts for token in ([part] if isinstance(part, int) else part.encode())]
        assert at.validate_tokens(steps) == len(steps) if is_ended else at.validate_tokens(steps) < len(steps)
        for token in steps[:-1]:
            if not at.accept_token(token):
                break
        before = at.num_accepted
        assert (steps[-1] in at.allowed_tokens()) is is_ended
        assert at.accept_token(steps[-1]) is is_ended
        assert at.is_terminated() is is_ended
        if is_ended:
            assert at.is_completed()
            assert at.allowed_tokens() == sorted([305, 306, STOP, ord("Z")])
            at.rollback(1)
            assert (at.num_accepted, at.is_terminated()) == (before, False)
            assert at.fork().accept_token(steps[-1])


@pytest.mark.parametrize("seed", range(40))
def test_stop_tokens_in_random_tags(engine: Engine, seed: int) -> None:
    """A stop token is allowed where the text is complete, and where reading it completes the text; other tokens do not know of it."""
    random = Random(seed)
    stops = [300, 303, 305, 65, STOP]
    try:
        grammar = structural_tag_grammar(random_format(random, random.randint(1, 3)))
    except StructuralTagError:
        return
    kernel = engine.KernelGrammar(engine.TokenTrie(TOKENS, 320), grammar, states=200_000, stack_depth=100_000, memory=1 << 26, seconds=10.0)
    for _ in range(6):
        plain, at = engine.Matcher(kernel, [STOP]), engine.Matcher(kernel, stops)
        for _ in range(25):
            expected = set(plain.allowed_tokens()) - set(stops)
            for token in stops:
                reader = plain.fork()
                if plain.is_completed() or (token not in (65, STOP) and reader.accept_token(token) and reader.is_completed()):
                    expected.add(token)
            assert at.allowed_tokens() == sorted(expected)
            for token in stops:
                fork = at.fork()
                assert (fork.accept_token(token), fork.is_terminated()) == (token in expected,) * 2
            likely = [token for token in sorted(expected - set(stops)) if token in LIKELY or token >= 300]
            following = likely or sorted(expected - set(stops))
            if not following:
                break
            token = random.choice(following)
            assert plain.accept_token(token)
            assert at.accept_token(token)


DOCUMENTATION = (Path(__file__).parents[3] / "docs" / "structural_tags.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```json\n(.*?)```\n```text\n(.*?)\n```", DOCUMENTATION, re.DOTALL)


@pytest.mark.parametrize(("tag", "text"), EXAMPLES)
def test_documentation(kernel: Engine, tag: str, text: str) -> None:
    """The examples in the documentation generate the texts beside them."""
    start = compiled(kernel, structural_tag_grammar(tag))
    assert generates(start, text)
    assert not generates(start, text + "<f=")


def test_documentation_is_complete() -> None:
    """It has every type of format with every field, and an example of every style."""
    for name, (_, fields) in FORMATS.items():
        rows = [
            row for row in DOCUMENTATION.partition("## Styles")[0].splitlines() if row.startswith("|") and f"`{name}`" in row.split("|")[1]
        ]
        assert len(rows) == 1, name
        assert all(f"`{field}`" in rows[0] for field in fields - {"type"}), name
    assert {json.loads(tag).get("style") for tag, _ in EXAMPLES} >= STYLES.keys()


def test_tokens_with_a_name_and_a_text(reference: Engine) -> None:
    """A token that has a text is found by its name, but a text that spells the name is just that text."""
    tags = StructuralTags({"<|a|>": 300, "xy": 301}, spelled=["<|a|>"])
    elements = [{"type": "const_string", "value": "<|a|>xy"}, {"type": "token", "token": "xy"}]
    start = compiled(reference, tags.grammar({"type": "sequence", "elements": elements}))
    assert generates(start, [300, "xy", 301])
    assert not generates(start, [300, 301, 301])


def test_max_tokens(engine: Engine) -> None:
    """Tokens are counted whatever their length, one that leaves the text included; then the tag ends."""
    tokens = [*TOKENS[:256], b"ab", b"abc", b"c</", *[None] * 41]
    kernel = engine.KernelGrammar(
        engine.TokenTrie(tokens, 320),
        structural_tag_grammar({"type": "tag", "begin": "<", "content": {"type": "any_text", "max_tokens": 2}, "end": "</"}),
        states=200_000, stack_depth=100_000, memory=1 << 26, seconds=10.0,
    )  # fmt: skip
    start = engine.Matcher(kernel, [STOP])
    for texts, allowed in (([60, 257, 257], True), ([60, 257, 258], True), ([60, 257, 97, 97], False), ([60, 257, 97, 60, 47], True)):
        at = start.fork()
        assert all(map(at.accept_token, texts)) is allowed, texts
    at = start.fork()
    assert all(map(at.accept_token, [60, 257, 257]))
    assert set(at.allowed_tokens()) == {60}
