"""Which keywords of JSON Schema the engines enforce: one instance for each, which jsonschema judges too.

    python -m benchmarks.keywords        # a table; takes a second

*Right* is jsonschema's verdict. *Refused* is an error that the engine raises on purpose: safe, but there is no output. *Wrong* is an
invalid instance that is accepted, or a valid one that is not. A token is a byte here, and every engine has its defaults.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import jsonschema

from benchmarks.report import markdown

PAIR = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
CASES: list[tuple[str, dict[str, Any], str]] = [  # the keyword, a schema, an instance
    ("not", {"type": "integer", "not": {"const": 3}}, "3"),
    ("uniqueItems", {**NUMBERS, "uniqueItems": True}, "[1,1]"),
    ("contains", {**NUMBERS, "contains": {"const": 5}}, "[1]"),
    ("if, then", {**PAIR, "if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}}, '{"a":1}'),
    ("dependentRequired", {**PAIR, "dependentRequired": {"a": ["b"]}}, '{"a":1}'),
    ("minLength", {"type": "string", "minLength": 1}, '"a\\n"'),
]
BYTES: list[bytes] = [bytes([byte]) for byte in range(256)]
END = 256


def stackmask_accepts(schema: dict[str, Any], text: str) -> bool:
    """Stackmask's verdict; an error of the package where it refuses the schema."""
    import stackmask

    vocabulary = stackmask.Vocabulary.from_bytes([*BYTES, None], stop_token_ids=[END])
    matcher = stackmask.Compiler(vocabulary).json_schema(schema).matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_completed()


def llguidance_accepts(schema: dict[str, Any], text: str) -> bool:
    """The verdict of llguidance; ValueError where it refuses the schema."""
    import llguidance

    matcher = llguidance.LLMatcher(llguidance.LLTokenizer("byte"), llguidance.LLMatcher.grammar_from_json_schema(schema))
    if matcher.is_error():
        raise ValueError(matcher.get_error())
    data = text.encode()
    return bool(matcher.try_consume_tokens(list(data)) == len(data) and matcher.is_accepting())


def xgrammar_accepts(schema: dict[str, Any], text: str) -> bool:
    """XGrammar's verdict; RuntimeError where it refuses the schema."""
    import xgrammar

    tokens = xgrammar.TokenizerInfo([*BYTES, b"</s>"], stop_token_ids=[END])
    matcher = xgrammar.GrammarMatcher(xgrammar.GrammarCompiler(tokens).compile_json_schema(json.dumps(schema)))
    return bool(matcher.accept_string(text) and matcher.is_completed())


ENGINES = {"stackmask": stackmask_accepts, "llguidance": llguidance_accepts, "xgrammar": xgrammar_accepts}


def verdict(accepts: Callable[[dict[str, Any], str], bool], schema: dict[str, Any], text: str) -> str:
    """What an engine makes of an instance: right, refused or wrong."""
    valid = jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
    try:
        accepted = accepts(schema, text)
    except (ValueError, RuntimeError):
        return "refused"
    return "right" if accepted == valid else f"**wrong**: {'accepts' if accepted else 'refuses'} `{text}`"


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; there are no arguments."""
    names = [name if name == "stackmask" else f"{name} {version(name)}" for name in ENGINES]
    lines = [["keyword", *names]]
    for keyword, schema, text in CASES:
        lines.append([f"`{keyword}`", *(verdict(accepts, schema, text) for accepts in ENGINES.values())])
    print(markdown(lines))
    return 0


if __name__ == "__main__":
    main()
