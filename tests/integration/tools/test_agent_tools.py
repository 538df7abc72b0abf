r"""A hundred tools as coding agents and servers of tools send them: each compiles, all compile in one request, and calls are valid.

The schemas are written after public reports of what local servers refuse or ignore: patterns that zod makes, with lookaheads; `\S`, `\d`
and `\p{..}`; strings of up to 65,536 characters; chains of `$defs` and recursive blocks; `anyOf` with null; formats; open objects.
"""

import json
import random
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from stackmask.integration.compiler import Compiler
from stackmask.integration.demo import demo_vocabulary
from stackmask.integration.tools import FORMATS, Call, CallParser, choose, named_tokens, read_tools, structural_tag
from stackmask.pda.limits import Limits

TOOLS = [json.loads(line) for line in (Path(__file__).parents[2] / "corpus" / "agent_tools.jsonl").read_text("utf-8").splitlines()]
SCHEMAS = {tool["name"]: tool["parameters"] for tool in TOOLS}
VOCABULARY = demo_vocabulary()
# Steps of compilation for all of them together: 31,000 where arguments are JSON, 54 to 81 ms of CPU time; 111,000 where each is a text of
# its own, which no string inside it may end. A time would fail where the machine is busy or the lines that run are counted.
WORK = {"hermes": 45_000, "llama3_json": 45_000, "mistral": 45_000, "qwen3_coder": 130_000}
BLANK = "\\t-\\r \\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
WORD = "[A-Za-z0-9_]"
OUTSIDE = {"s": f"[{BLANK}]", "S": f"[^{BLANK}]", "d": "[0-9]", "w": WORD, "b": f"(?:(?<={WORD})(?!{WORD})|(?<!{WORD})(?={WORD}))"}
INSIDE = {"s": BLANK, "d": "0-9", "w": WORD[1:-1]}


def request(tools):
    """Tools as a request has them."""
    parts = [{key: tool[key] for key in ("name", "description", "parameters")} for tool in tools]
    return read_tools([{"type": "function", "function": part} for part in parts])


def walk(grammar, seed, steps):
    """A text of a grammar: random tokens, and then the shortest end."""
    matcher, randomness = grammar.matcher(), random.Random(seed)
    text = b""
    for _ in range(steps):
        allowed = [token for token in matcher.allowed_tokens() if VOCABULARY.token_bytes(token) is not None]
        if not allowed:
            break
        # Letters are most tokens: every other step prefers what goes on with the structure.
        short = [token for token in allowed if len(VOCABULARY.token_bytes(token)) == 1 and VOCABULARY.token_bytes(token) in b'"{}[],:0']
        token = randomness.choice(short if short and randomness.random() < 0.5 else allowed)
        assert matcher.accept_token(token)
        text += VOCABULARY.token_bytes(token)
    rest = matcher.shortest_completion()
    assert matcher.accept_bytes(rest)
    assert matcher.is_completed()
    return (text + rest).decode()


def python_pattern(pattern):
    """A pattern of JavaScript as Python's `re` reads it; None where that knows no such class."""
    if "\\p" in pattern:
        return None
    if "[\\s\\S]" in pattern:
        return python_pattern(pattern.replace("[\\s\\S]", "[^\\x00]"))  # no text has one
    out, place, inside = "", 0, False
    while place < len(pattern):
        character = pattern[place]
        if character == "\\":
            place += 1
            out += (INSIDE if inside else OUTSIDE).get(pattern[place], "\\" + pattern[place])
        else:
            inside = (inside or character == "[") and character != "]"
            out += "\\Z" if character == "$" and not inside else character
        place += 1
    return out


def valid(schema, value):
    """Whether a value is an instance, by another validator, for which patterns are put into Python's dialect."""

    def translate(node):
        if isinstance(node.get("pattern"), str):
            pattern = python_pattern(node.pop("pattern"))
            return node if pattern is None else {**node, "pattern": pattern}
        return node

    return Draft202012Validator(json.loads(json.dumps(schema), object_hook=translate)).is_valid(value)


def test_there_are_a_hundred():
    assert len(SCHEMAS) == len(TOOLS) == 100


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool["name"])
def test_each_compiles_and_its_texts_are_instances(tool):
    """Exactly, without a keyword left out; texts of random tokens are instances of the schema."""
    grammar = Compiler(VOCABULARY).json_schema(tool["parameters"], whitespace="compact")
    assert not grammar.report.warnings
    for seed in range(3):
        text = walk(grammar, f"{tool['name']} {seed}", 60)
        assert valid(tool["parameters"], json.loads(text)), text


@pytest.mark.parametrize("name", WORK)
def test_all_in_one_request(name):
    """A hundred tools at once compile with little work, and their calls are calls of these tools with valid arguments."""
    tools = request(TOOLS)
    format = FORMATS[name]
    names = named_tokens(format, VOCABULARY.special)
    tag = structural_tag(format, choose(tools, "required", parallel=False), special=names)
    grammar = Compiler(VOCABULARY, limits=Limits(compile_work=WORK[name])).structural_tag(tag)
    called = set()
    for seed in range(40):
        text = walk(grammar, seed, 60)
        calls = [piece for piece in CallParser(format, tools, special=names).feed(text, final=True) if isinstance(piece, Call)]
        assert len(calls) == 1, text
        called.add(calls[0].name)
        assert valid(SCHEMAS[calls[0].name], json.loads(calls[0].arguments)), text
    assert len(called) > 10


def test_forty_at_once_leave_the_rest_out():
    """A request for 40 tools allows these alone."""
    tools = request(TOOLS[:40])
    format = FORMATS["hermes"]
    tag = structural_tag(format, choose(tools, "required", parallel=False), special=named_tokens(format, VOCABULARY.special))
    grammar = Compiler(VOCABULARY).structural_tag(tag)
    text = walk(grammar, 1, 0)
    for tool in TOOLS:
        (name,) = [json.loads(text.partition("<tool_call>")[2].partition("</tool_call>")[0])["name"]]
        other = text.replace(f'"{name}"', f'"{tool["name"]}"').split('"arguments"')[0]
        assert grammar.matcher().accept_bytes(other.encode()) == (tool in TOOLS[:40])
