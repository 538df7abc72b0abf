"""Random specifications for every front end, and those of the corpus."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from random import Random
from typing import Any, Final

from support.corpus import cases, read_grammar
from support.generators import Features, random_grammar
from support.schemas import Schemas
from support.structural_tags import SCHEMAS, random_format

from stackmask.schema.structural_tag_styles import STYLES

CLASSES: Final = (
    ".", "[^,]", "[^a]", "[^\\n]", "[^\"]", "\\w", "\\W", "\\s", "\\S", "\\d", "\\D", "[a-z]", "[0-9a-f]", "[A-Za-z_]",
    "[à-ü]", "[^é]", "[a-zé]", "[日本]", "[\\u0080-\\uffff]", "[^\\x00-\\x7f]", "[😀-😏]", "[ -~]", "[^\\s]", "[\\s\\S]",
    "[\\u00a0]", "[^\\u2028]", "[.,;]", "[^0-9]",
)  # fmt: skip
CHARACTERS: Final = (
    "a",
    "b",
    "x1",
    "é",
    "ß",
    "š",
    "日",
    "本",
    "😀",
    "\u00a0",
    ",",
    "-",
    "\\.",
    "\\[",
    " ",
    "ab",
    "the",
    "\\n",
    '"',
    "/",
    ":",
)
COUNTS: Final = ("", "", "", "*", "+", "?", "{2}", "{0,3}", "{1,40}", "{3,}", "{17,33}", "{0,80}", "{100}")
PATTERNS: Final = (
    "^.é", "^[^,]*$", "a|b", "^.{2}é", "\\d+", "^[a-z]+-[0-9]{2,4}$", "é$", "^\\S+@\\S+$", "^(?!a)", "\\W😀", "^[A-Z]{3}",
    "^$", "^.*[.]$", "(?i)^ab",
)  # fmt: skip


def regex(random: Random, depth: int = 3) -> str:
    """A pattern; lookaheads and anchors are rare, and it may be no pattern that is taken."""
    roll = random.random()
    if depth == 0 or roll < 0.3:
        return random.choice(CLASSES if random.random() < 0.55 else CHARACTERS) + random.choice(COUNTS)
    if roll < 0.7:
        return "".join(regex(random, depth - 1) for _ in range(random.randint(1, 3)))
    if roll < 0.85:
        return f"({'|'.join(regex(random, depth - 1) for _ in range(random.randint(1, 3)))}){random.choice(COUNTS[:9])}"
    if roll < 0.9:
        return f"(?{random.choice(('=', '!'))}{regex(random, 0)})" + regex(random, depth - 1)
    if roll < 0.94:
        return regex(random, depth - 1) + f"(?<{random.choice(('=', '!'))}{random.choice(CHARACTERS)})" + regex(random, depth - 1)
    if roll < 0.97:
        return random.choice(("(?i)", "\\b", "^", "(?s)")) + regex(random, depth - 1)
    return regex(random, depth - 1) + random.choice(("$", "\\b", ""))


def string_schema(random: Random) -> dict[str, Any]:
    """A string with a length, a pattern, a format or a list of what it may be."""
    schema: dict[str, Any] = {"type": "string"}
    if random.random() < 0.5:
        schema["maxLength"] = random.choice((0, 1, 2, 5, 40, 80, 300))
    if random.random() < 0.2:
        schema["minLength"] = random.choice((0, 1, 3, 30))
    if random.random() < 0.4:
        schema["pattern"] = random.choice(PATTERNS) if random.random() < 0.5 else regex(random, 1)
    if random.random() < 0.1:
        schema = {"type": "string", "format": random.choice(("date", "time", "uuid", "ipv4", "email", "uri", "hostname", "date-time"))}
    if random.random() < 0.1:
        schema = {"enum": random.sample(["a", "b", "é", "a/b", "ab", 'q"', "日本", ""], 3)}
    return schema


def value_schema(random: Random, depth: int) -> Any:
    """A schema as people write them: objects of strings with bounds, lists of numbers, and finite sets of both."""
    roll = random.random()
    if depth == 0 or roll < 0.4:
        if random.random() < 0.6:
            return string_schema(random)
        plain = [{"type": name} for name in ("integer", "number", "boolean", "null")]
        bounded = [{"type": "integer", "minimum": 0, "maximum": 20}, {"multipleOf": 3}]
        return random.choice([*plain, *bounded, {"enum": [1, 1.0, "a", None]}, {"type": ["string", "null"]}, {"const": {"a": 1}}, True])
    if roll < 0.6:
        return array_schema(random, depth)
    names = random.sample(["a", "b", "ab", "name", "é", "x-y", "a b"], random.randint(1, 4))
    schema: dict[str, Any] = {"type": "object", "properties": {name: value_schema(random, depth - 1) for name in names}}
    if random.random() < 0.5:
        schema["required"] = random.sample(names, random.randint(0, len(names)))
    extra = random.random()
    if extra < 0.4:
        schema["additionalProperties"] = False if extra < 0.2 else value_schema(random, depth - 1)
    if random.random() < 0.15:
        schema["patternProperties"] = {random.choice(("^a", "b$", "^[ab]$", "^x.é")): value_schema(random, depth - 1)}
    if random.random() < 0.15:
        schema["propertyNames"] = random.choice(({"maxLength": 2}, {"pattern": "^[a-z]"}, {"enum": ["a", "b", "c"]}, {"pattern": "^.é?$"}))
    for bound in ("minProperties", "maxProperties"):
        if random.random() < 0.15:
            schema[bound] = random.randint(0, 4)
    return schema


def array_schema(random: Random, depth: int) -> dict[str, Any]:
    """A list, sometimes of different values, with counts."""
    schema: dict[str, Any] = {"type": "array", "items": value_schema(random, depth - 1)}
    if random.random() < 0.5:
        schema["uniqueItems"] = True
        if random.random() < 0.5:
            finite = (
                {"enum": ["a", "b", "c"]}, {"type": "boolean"}, {"enum": [0, 1, 1.5, None]},
                {"type": "string", "maxLength": 1, "pattern": "^[ab]*$"}, {"type": "array", "maxItems": 1, "items": {"type": "boolean"}},
                {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False},
            )  # fmt: skip
            schema["items"] = random.choice(finite)
    for bound in ("minItems", "maxItems", "minContains", "maxContains"):
        if random.random() < 0.2:
            schema[bound] = random.randint(0, 4)
    if "minContains" in schema or "maxContains" in schema:
        schema["contains"] = random.choice((True, {"type": "integer"}, {"const": "a"}, {"type": "boolean"}))
    if random.random() < 0.1:
        schema["prefixItems"] = [value_schema(random, 0) for _ in range(2)]
    return schema


def json_schema(random: Random) -> tuple[Any, dict[str, Any]]:
    """A schema, of keywords in any mixture or as people write them, and options."""
    roll = random.random()
    options: dict[str, Any] = {}
    if roll < 0.15:
        case = random.choice(cases("json_schema.toml"))
        schema, options = _parsed(case["schema"]), dict(case.get("options", {}))
    elif roll < 0.5:
        schema = Schemas(random.getrandbits(32)).root(random.choice((1, 2, 2, 3)))
    else:
        schema = value_schema(random, random.choice((1, 2, 2, 3)))
    options["property_order"] = random.choice(("schema", "any"))
    if random.random() < 0.5:
        options["whitespace"] = random.choice(("compact", "flexible", "[ ]{0,2}"))
    if random.random() < 0.2:
        options["escapes"] = "any"
    return schema, options


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:  # a text that is no JSON on purpose
        return value


def ebnf(random: Random) -> str:
    """Rules over literals, classes and each other, some of them left recursive."""
    if random.random() < 0.25:
        return str(random.choice(_good("ebnf.toml"))["grammar"])
    names = ["root", "b", "c", "d"][: random.randint(1, 4)]

    def item(depth: int, here: int) -> str:
        roll = random.random()
        if roll < 0.3:
            return json.dumps(random.choice(("a", "b", "ab", "é", "日本", ",", "(", ")", "x1", '"', " ", "😀")), ensure_ascii=False)
        if roll < 0.6 or depth == 0:
            return random.choice(
                ("[a-z]", "[^a]", "[^,é]", "[0-9]", "[à-ü]", "[^\\n]", "[ab]", "[^\\x00-\\x7f]", ".", '[^"\\\\]')
            ) + random.choice(("", "*", "+", "?", "{2,5}", "{1,40}"))
        if roll < 0.8:
            # rules that read themselves again and again, and counted ones too, have so many readings that masks take minutes
            later = names[here + 1 :]
            return (
                random.choice(later) + random.choice(("", "", "*", "?", "{0,3}"))
                if later and random.random() < 0.7
                else random.choice(names)
            )
        return f"({alternatives(depth - 1, here)})" + random.choice(("", "", "*", "?", "{2}", "{0,20}"))

    def alternatives(depth: int, here: int) -> str:
        return " | ".join(" ".join(item(depth, here) for _ in range(random.randint(1, 3))) for _ in range(random.randint(1, 3)))

    rules = [f"{name} ::= {alternatives(2, here)}" for here, name in enumerate(names)]
    if random.random() < 0.1:
        rules[-1] += " | <s1> | <[^300]>"
    return "\n".join(rules)


def lark(random: Random) -> str:
    """Rules and terminals, with ranges, regexes and repetitions."""
    if random.random() < 0.35:
        return str(random.choice(_good("lark.toml"))["grammar"])
    rules = ["start", "b", "c"][: random.randint(1, 3)]
    terminals = ["A", "B", "C"][: random.randint(1, 3)]

    def pattern() -> str:
        return "/" + regex(random, 1).replace("/", "\\/").replace("\n", "\\n") + "/"

    def item(depth: int) -> str:
        roll = random.random()
        if roll < 0.25:
            return json.dumps(random.choice(("a", "ab", "é", ",", "(", "x", "日")), ensure_ascii=False) + random.choice(("", "", "i"))
        if roll < 0.6:
            return random.choice(terminals) + random.choice(("", "", "*", "+", "?", "~2..4", "~3"))
        if roll < 0.8 or depth == 0:
            return random.choice(rules) + random.choice(("", "?", "*"))
        return f"({item(depth - 1)} | {item(depth - 1)} {item(depth - 1)})" + random.choice(("", "*", "?"))

    def body() -> str:
        return " | ".join(" ".join(item(2) for _ in range(random.randint(1, 3))) for _ in range(random.randint(1, 2)))

    lines = [f"{name}: {body()}" for name in rules]
    lines += [
        f"{name}: {pattern() if random.random() < 0.7 else json.dumps(random.choice(('k', 'key', 'é.')), ensure_ascii=False)}"
        for name in terminals
    ]
    if random.random() < 0.2:
        lines.append("%ignore /[ ]/")
    return "\n".join(lines)


def choice(random: Random) -> list[str]:
    """A list of texts."""
    return [
        "".join(random.choice(("a", "b", "é", " ", '"', "日", "ab", "the", ".")) for _ in range(random.randint(0, 6)))
        for _ in range(random.randint(1, 8))
    ]


def structural_tag(random: Random) -> Any:
    """A tag of the corpus, a random one, or an object in one of the styles."""
    roll = random.random()
    if roll < 0.3:
        return _parsed(random.choice(_good(random.choice(("structural_tag.toml", "structural_tag_styles.toml"))))["tag"])
    if roll < 0.6:
        return random_format(random, random.choice((0, 1, 2)))
    schema = value_schema(random, 2)
    if not isinstance(schema, dict) or schema.get("type") != "object":
        schema = {"type": "object", "properties": {"a": schema, "b": random.choice(SCHEMAS)}, "required": random.choice(([], ["a"]))}
    tag: dict[str, Any] = {"type": "json_schema", "style": random.choice(sorted(STYLES)), "json_schema": schema}
    if random.random() < 0.3:
        tag["any_order"] = True
    if random.random() < 0.4:
        tag["max_whitespace_cnt"] = random.choice((0, 1, 2))
    if random.random() < 0.4:
        tag = {
            "type": "triggered_tags",
            "triggers": ["<f"],
            "tags": [{"type": "tag", "begin": "<f>", "content": tag, "end": random.choice(("</f>", "\n</f>"))}],
        }
    return tag


def grammar(random: Random) -> Any:
    """A grammar of the intermediate representation."""
    if random.random() < 0.1:
        return read_grammar(random.choice(_good("grammar.toml"))["rules"])
    features = Features(
        tokens=random.random() < 0.2, counted=random.random() < 0.4, options=random.random() < 0.2, distinct=random.random() < 0.4
    )
    if features.options:
        features = Features(tokens=features.tokens, counted=features.counted, options=True, distinct=False)
    return random_grammar(random, features, vocabulary=20)


@cache
def _good(file: str) -> tuple[Mapping[str, Any], ...]:
    """The cases of a corpus file that compile without more than the file says."""
    return tuple(
        case for case in cases(file) if not case.keys() & {"error", "unsatisfiable", "special", "root", "start", "limits", "warns"}
    )


def unique(random: Random) -> tuple[Any, dict[str, Any]]:
    """A list of different values that guards have to tell apart: few or endless ones, strings and others, lists in lists."""
    words = ["a", "b", "ab", "abc", "é", "a/b", "日本", "b1"]
    values: list[Any] = [
        {"type": "string"},
        {"type": "string", "maxLength": random.choice((1, 2, 5, 40))},
        {"type": "string", "pattern": random.choice(("^[ab]+$", "^[a-z]{1,2}$", "^.é?$", "a", "^a.*b$"))},
        {"enum": random.sample(words, random.randint(1, 6))},
        {"enum": [0, 1, 1.5, None, True, "a", [1], {"a": 1}][: random.randint(1, 8)]},
        {"type": "integer", "minimum": 0, "maximum": random.choice((0, 3, 12))},
        {"type": random.choice(("integer", "number", "boolean", "null"))},
        {"not": {"enum": words}, "type": "string"},
        {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "boolean"}]},
        value_schema(random, 1),
    ]
    items = random.choice(values)
    if random.random() < 0.25:
        items = {"type": "array", "items": items, "uniqueItems": True, "maxItems": random.choice((1, 2, 9))}
    elif random.random() < 0.2:
        items = {"type": "object", "properties": {"a": items, "b": {"type": "boolean"}}, "additionalProperties": False}
    schema: Any = {"type": "array", "uniqueItems": True, "items": items}
    for bound in ("minItems", "maxItems"):
        if random.random() < 0.3:
            schema[bound] = random.randint(0, 5)
    if random.random() < 0.2:
        schema = {"type": "object", "properties": {"k": schema, "l": {"type": "string"}}, "required": ["k"]}
    options = {"property_order": random.choice(("schema", "any")), "whitespace": random.choice(("compact", "compact", "flexible"))}
    if random.random() < 0.2:
        options["escapes"] = "any"
    return schema, options


KINDS: Final[Mapping[str, tuple[str, Callable[[Random], tuple[Any, dict[str, Any]]]]]] = {
    "grammar": ("grammar", lambda random: (grammar(random), {})),
    "regex": ("regex", lambda random: (random.choice(_good("regex.toml"))["pattern"] if random.random() < 0.1 else regex(random), {})),
    "json_schema": ("json_schema", json_schema),
    "unique": ("json_schema", unique),
    "ebnf": ("ebnf", lambda random: (ebnf(random), {})),
    "lark": ("lark", lambda random: (lark(random), {})),
    "choice": ("choice", lambda random: (choice(random), {})),
    "structural_tag": ("structural_tag", lambda random: (structural_tag(random), {})),
}
"""By name: the front end, and a function that draws a specification for it and its options."""
