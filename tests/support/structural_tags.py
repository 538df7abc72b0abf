"""Structural tags without grammars: a recogniser that follows the description of each format, and random tags to try it on.

A text is a string; the character U+E000 + i stands for the special token 300 + i, and an ASCII character also for the token of its byte.
`ends` gives every place where a format that begins at a given place may end, so formats are put together by sets of places.
"""

from __future__ import annotations

import json
import re
from itertools import product
from random import Random
from typing import Any

from jsonschema import Draft202012Validator

SPECIAL = 0xE000
Json = dict[str, Any]
_DECODER = json.JSONDecoder()
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_STYLES = {
    "qwen_xml": (r"<parameter=([^>]+)>()", "</parameter>"),
    "minimax_xml": (r'<parameter name="([^"]+)">()', "</parameter>"),
    "glm_xml": (r"<arg_key>(.+?)</arg_key>\s*<arg_value>()", "</arg_value>"),
    "deepseek_xml": (r'<｜DSML｜parameter name="([^"]+)" string="(true|false)">', "</｜DSML｜parameter>"),
    "deepseek_v4_1_xml": (r'<｜DSML｜ parameter name="([^"]+)" string="(true|false)">', "</｜DSML｜ parameter>"),
    "kimi_k3_xml": (r'<\|open\|>argument key="([^"]+)" type="(\w+)"<\|sep\|>', "<|close|>argument<|sep|>"),
}


def token_of(character: str) -> int:
    """The token that a character stands for, -1 where it takes several."""
    point = ord(character)
    return point - SPECIAL + 300 if SPECIAL <= point < SPECIAL + 20 else point if point < 128 else -1


def accepts(format: Json, text: str) -> bool:
    """Whether the whole text is one of a format."""
    return len(text) in ends(format, text, 0, ())


def ends(f: Json, text: str, start: int, around: tuple[Any, ...]) -> set[int]:
    """Where a format that begins at `start` may end; `around` is what the innermost tag ends with."""
    match f["type"]:
        case "const_string":
            return {start + len(f["value"])} if text.startswith(f["value"], start) else set()
        case "any_text":
            return _free(text, start, (*f.get("excludes", ()), *(end for end in around if isinstance(end, str))), f.get("max_chars"))
        case "regex":
            pattern = re.compile(f["pattern"])
            return {end for end in range(start, len(text) + 1) if pattern.fullmatch(text, start, end)}
        case "json_schema":
            return _values(f, text, start)
        case "sequence":
            places = {start}
            for element in f["elements"]:
                places = {end for place in places for end in ends(element, text, place, around)}
            return places
        case "or":
            return {end for element in f["elements"] for end in ends(element, text, start, around)}
        case "optional" | "star" | "plus" | "repeat":
            low, high = {"optional": (0, 1), "star": (0, -1), "plus": (1, -1), "repeat": (f.get("min", 0), f.get("max", 0))}[f["type"]]
            return _times(lambda place: ends(f["content"], text, place, around), start, low, high)
        case "tag":
            return _tag(f, text, start)
        case "token":
            return _tokens(text, start, lambda token: token == f["token"])
        case "exclude_token":
            return _tokens(text, start, _other((*f.get("exclude_tokens", ()), *_ids(around))))
        case "any_tokens":
            step = _other((*f.get("exclude_tokens", ()), *_ids(around)))
            return _times(lambda place: _tokens(text, place, step), start, 0, -1 if f.get("max_tokens") is None else f["max_tokens"])
        case "tags_with_separator":
            return _separated(f, text, start)
        case "triggered_tags":
            excludes = (*f.get("excludes", ()), *(end for end in around if isinstance(end, str)))
            return _triggered(f, text, start, lambda place: _announced(text, place, f["triggers"], excludes))
        case "token_triggered_tags":
            step = _other((*f.get("exclude_tokens", ()), *f["trigger_tokens"], *_ids(around)))
            return _triggered(f, text, start, lambda place: _times(lambda p: _tokens(text, p, step), place, 0, -1))
        case "dispatch":

            def free(place: int) -> set[int]:
                return _announced(text, place, [pattern for pattern, _ in f["rules"]], f.get("excludes", ()))

            rules = [({"type": "const_string", "value": pattern}, content) for pattern, content in f["rules"]]
            return _dispatched(rules, text, start, around, free, f.get("loop", True))
        case "token_dispatch":
            step = _other((*f.get("exclude_tokens", ()), *(pattern for pattern, _ in f["rules"])))
            rules = [({"type": "token", "token": pattern}, content) for pattern, content in f["rules"]]

            def free_tokens(place: int) -> set[int]:
                return _times(lambda p: _tokens(text, p, step), place, 0, -1)

            return _dispatched(rules, text, start, around, free_tokens, f.get("loop", True))
    raise AssertionError(f["type"])


def _free(text: str, start: int, excludes: Any, most: int | None = None) -> set[int]:
    """Free text, which holds nothing that is excluded."""
    places = set()
    for end in range(start, len(text) + 1):
        if any(text[start:end].endswith(word) for word in excludes) or (end > start and token_of(text[end - 1]) >= 300):
            break
        if most is None or end - start <= most:
            places.add(end)
    return places


def _announced(text: str, start: int, triggers: Any, excludes: Any) -> set[int]:
    """Free text up to the first trigger: the places before triggers, and all others before the first one is complete."""
    return _free(text, start, (*excludes, *triggers))


def _ids(around: tuple[Any, ...]) -> list[int]:
    return [end["token"] for end in around if not isinstance(end, str)]


def _other(excluded: tuple[int, ...]) -> Any:
    return lambda token: token not in excluded and 0 <= token < 300


def _tokens(text: str, start: int, allowed: Any) -> set[int]:
    return {start + 1} if start < len(text) and allowed(token_of(text[start])) else set()


def _times(step: Any, start: int, low: int, high: int) -> set[int]:
    """A step from `low` to `high` times, -1 for no bound."""
    places = {start}
    for _ in range(low):
        places = {end for place in places for end in step(place)}
    found, new = set(places), places
    while new and high != low:
        new = {end for place in new for end in step(place)} - found
        found |= new
        high -= 1
    return found


def _literal(end: Any, text: str, start: int) -> set[int]:
    return {start + len(end)} & _free_ends(end, text, start) if isinstance(end, str) else _tokens(text, start, lambda t: t == end["token"])


def _free_ends(end: str, text: str, start: int) -> set[int]:
    return {start + len(end)} if text.startswith(end, start) else set()


def _tag(tag: Json, text: str, start: int) -> set[int]:
    many = tag["end"] if isinstance(tag["end"], list) else [tag["end"]]
    around = tuple(end for end in many if end != "")
    inside = {end for place in _literal(tag["begin"], text, start) for end in ends(tag["content"], text, place, around)}
    return {end for place in inside for last in many for end in _literal(last, text, place)}


def _separated(f: Json, text: str, start: int) -> set[int]:
    found = {start} if not f.get("at_least_one") else set()
    places, seen = {start}, set()
    while places:
        done = {end for place in places for tag in f["tags"] for end in _tag(tag, text, place)} - seen
        seen |= done
        places = set() if f.get("stop_after_first") else {e for place in done for e in _free_ends(f["separator"], text, place)}
    return found | seen


def _triggered(f: Json, text: str, start: int, free: Any) -> set[int]:
    def tags(place: int) -> set[int]:
        return {end for tag in f["tags"] for end in _tag(tag, text, place)}

    once, first = f.get("stop_after_first"), f.get("at_least_one")
    if first and once:
        return tags(start)
    places = tags(start) if first else {start}
    return _alternating(places, free, tags, loop=not once)


def _dispatched(rules: Any, text: str, start: int, around: Any, free: Any, loop: bool) -> set[int]:
    def follow(place: int) -> set[int]:
        return {e for pattern, content in rules for p in ends(pattern, text, place, ()) for e in ends(content, text, p, around)}

    return _alternating({start}, free, follow, loop=loop)


def _alternating(places: set[int], free: Any, tags: Any, *, loop: bool) -> set[int]:
    """Free text and tags in turns, with free text at either end; without `loop` at most one tag, and nothing after it."""
    found: set[int] = set()
    seen: set[int] = set()
    while places:
        seen |= places
        reached = {end for place in places for end in free(place)}
        found |= reached
        after = {end for place in reached for end in tags(place)}
        if not loop:
            return found | after
        places = after - seen
    return found


def _values(f: Json, text: str, start: int) -> set[int]:
    """A JSON value, or an object in a style."""
    validator = Draft202012Validator(f["json_schema"])
    text = re.split("[\ue000-\ue0ff]", text[start:])[0]
    return {start + end for end in _valid(f, text, validator)}


def _valid(f: Json, text: str, validator: Any) -> set[int]:
    """Where the value at the beginning of a text may end."""
    start = 0
    if f.get("style", "json") != "json":
        return {end for end in range(start, len(text) + 1) if any(map(validator.is_valid, _objects(f["style"], text[start:end])))}
    candidates = []
    number = _NUMBER.match(text, start)
    if number:
        candidates = [end for end in range(start + 1, number.end() + 1) if _NUMBER.fullmatch(text, start, end)]
    elif text[start : start + 1].strip():
        try:
            candidates = [_DECODER.raw_decode(text, start)[1]]
        except ValueError:
            return set()
    too_many = re.compile(rf"[ \t\n\r]{{{40 if f.get('max_whitespace_cnt') is None else f['max_whitespace_cnt']}}}[ \t\n\r]")
    spelt = {end: text[start:end] for end in candidates}
    return {
        end
        for end, value in spelt.items()
        # an integer is written without a fraction
        if validator.is_valid(found := json.loads(value))
        and not isinstance(found, float)
        and not too_many.search(_JSON_STRING.sub("s", value))
    }


def _objects(style: str, text: str) -> list[Json]:
    """What objects a text in a style may mean, one for each reading of values that are strings or JSON."""
    opening, close = _STYLES[style]
    place = 0
    names: list[str] = []
    readings: list[list[Any]] = []
    text = text.strip()
    while place < len(text):
        found = re.compile(r"\s*" + opening).match(text, place)
        if found is None:
            return []
        # JSON may hold the closing text in a string, so its end is looked for first
        options: list[tuple[Any, int]] = []
        kind = found[2]
        inside = text[found.end() :]
        blanks = len(inside) - len(inside.lstrip())
        if kind not in ("true", "string"):
            try:
                value, end = _DECODER.raw_decode(inside, blanks)
                rest = inside[end:].lstrip()
                if rest.startswith(close) and (kind != "object" or isinstance(value, dict)):
                    options.append((value, found.end() + len(inside) - len(rest) + len(close)))
            except ValueError:
                pass
        if kind in ("", "true", "string") and close in inside:
            raw = inside[: inside.index(close)]
            options += [(reading, found.end() + len(raw) + len(close)) for reading in dict.fromkeys((raw, raw.strip()))]
        if not options or len({end for _, end in options}) > 1:
            return []
        names.append(found[1])
        readings.append([value for value, _ in options])
        place = options[0][1]
    if len(set(names)) < len(names):
        return []
    return [dict(zip(names, values, strict=True)) for values in product(*readings)]


SCHEMAS: tuple[Json, ...] = (
    {"type": "integer", "minimum": 0, "maximum": 20},
    {"enum": ["a", "<b>", None]},
    {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    {
        "type": "object", "properties": {"a": {"type": "string", "maxLength": 3}, "b": {"type": "null"}}, "required": ["a"],
        "additionalProperties": False,
    },
)  # fmt: skip
PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "s": {"type": "string"}, "n": {"type": "integer", "minimum": 0}, "e": {"enum": ["x", 1]},
        "l": {"type": "array", "items": {"type": "null"}},
    },
    "required": ["s"],
    "additionalProperties": False,
}  # fmt: skip


def random_format(random: Random, depth: int) -> Json:
    """A format, with others inside it at most `depth` deep."""
    leaves = ["const_string", "any_text", "regex", "json_schema", "style", "token", "exclude_token", "any_tokens"]
    inner = ["sequence", "or", "optional", "star", "plus", "repeat", "tag", "tag", "triggered_tags", "token_triggered_tags",
             "tags_with_separator", "dispatch", "token_dispatch"]  # fmt: skip
    kind = random.choice(leaves if depth == 0 else leaves + 2 * inner)

    def content() -> Json:
        return random_format(random, depth - 1)

    def end() -> Any:
        return random.choice(["</a>", ".", "", ["</a>", ")"], {"type": "token", "token": 305}, [".", {"type": "token", "token": 305}]])

    def tag(begin: Any) -> Json:
        return {"type": "tag", "begin": begin, "content": content(), "end": end()}

    flags = {name: random.random() < 0.3 for name in ("at_least_one", "stop_after_first")}
    match kind:
        case "const_string":
            return {"type": kind, "value": random.choice(["", "x", "<a", "yes."])}
        case "any_text":
            return {"type": kind, "excludes": random.choice([[], ["x"], ["<a", "b."]]), "max_chars": random.choice([None, 0, 3])}
        case "regex":
            return {"type": kind, "pattern": random.choice(["[ab]+", "(x|yy)?", "a{2}"])}
        case "json_schema":
            return {"type": kind, "json_schema": random.choice(SCHEMAS), "max_whitespace_cnt": random.choice([None, 0, 1])}
        case "style":
            return {"type": "json_schema", "json_schema": PARAMETERS, "style": random.choice(sorted(_STYLES)), "max_whitespace_cnt": 1}
        case "token":
            return {"type": kind, "token": random.choice([300, 301, 65])}
        case "exclude_token" | "any_tokens":
            return {"type": kind, "exclude_tokens": random.choice([[], [65, 300]])}
        case "sequence" | "or":
            return {"type": kind, "elements": [content() for _ in range(random.randint(1, 3))]}
        case "optional" | "star" | "plus":
            return {"type": kind, "content": content()}
        case "repeat":
            return {"type": kind, "min": random.randint(0, 2), "max": random.choice([2, 3, -1]), "content": content()}
        case "tag":
            return tag(random.choice(["<a>", "", {"type": "token", "token": 304}]))
        case "triggered_tags":
            return {
                "type": kind,
                "triggers": ["<a", "(("],
                "tags": [tag("<a>"), tag("<ab>"), tag("((")],
                "excludes": random.choice([[], ["x"]]),
                **flags,
            }
        case "token_triggered_tags":
            tokens = [302, 303]
            return {"type": kind, "trigger_tokens": tokens, "tags": [tag({"type": "token", "token": t}) for t in tokens], **flags}
        case "tags_with_separator":
            return {"type": kind, "separator": random.choice(["", ","]), "tags": [tag("<a>"), tag("<b>")], **flags}
        case "dispatch":
            return {
                "type": kind,
                "rules": [["<a>", content()], ["<c", content()]],
                "loop": random.random() < 0.6,
                "excludes": random.choice([[], ["."]]),
            }
        case _:
            return {"type": kind, "rules": [[302, content()], [66, content()]], "loop": random.random() < 0.6}
