"""What an agent with 500 tools costs, each tool with parameters of its own, in one structural tag.

The promise: the first mask comes within 60 ms of the request; where one tool has changed since the last request, within 5 ms; and along a
conversation of text and calls a token (a mask and an accept) costs 5 us on average.

The tools are made from a seed: three to eight parameters with the keywords that tools use.
XGrammar takes the same tags in the same process, with its cache on and one thread, but for few tools (`--peer-tools`), since it takes
seconds for tens of them.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from importlib.metadata import version
from random import Random
from statistics import mean, median
from typing import Any

from benchmarks.report import machine, markdown, number
from benchmarks.timing import command_line, load_vocabulary, once, verdict

FIRST_LIMIT, AGAIN_LIMIT, STEP_LIMIT = 60.0, 5.0, 5.0
WORDS = (
    "city", "country", "user", "name", "id", "date", "start", "end", "limit", "query", "page", "size", "sort", "order", "filter", "email",
    "phone", "address", "status", "type",
)  # fmt: skip
Json = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table."""
    parser = command_line("tools", __doc__, rounds=5)
    parser.add_argument("--tools", type=int, default=500, metavar="N", help="how many tools (default: 500)")
    parser.add_argument("--style", default="json", help="the style of their arguments (default: json)")
    parser.add_argument(
        "--peer-tools", type=int, default=20, metavar="N", help="how many of them for XGrammar, 0 to leave it out (default: 20)"
    )
    options = parser.parse_args(arguments)
    import stackmask

    vocabulary, tokenizer = load_vocabulary(options.tokenizer)
    mask = stackmask.allocate_token_bitmask(1, vocabulary.size)
    lines = [["", "tools", "first mask, ms", "one tool changed, ms", "of it before the kernel, ms", "step mean, us"]]
    rounds = [measure(vocabulary, mask, options.tools, options.style, seed) for seed in range(options.rounds)]
    first, again, front = (median(values) for values in zip(*(measured for measured, _, _ in rounds), strict=True))
    _, tools, grammar = rounds[-1]
    conversation = tokenizer.encode(text_of(tools, options.style, Random(0)))
    walk(grammar.matcher(), mask, conversation)  # the tables of a grammar are made as they are needed
    step = mean(walk(grammar.matcher(), mask, conversation))
    lines.append(["stackmask", str(options.tools), number(first), number(again), number(front), f"{step:.2f}"])
    if options.peer_tools:
        lines.append(peer(tokenizer, options.peer_tools, options.style))
    print(f"{vocabulary.size:,} tokens, style {options.style}; {machine()}\n\n{markdown(lines)}")
    broken = [f"first mask: {first:.1f} ms, promised {FIRST_LIMIT}"] * (first > FIRST_LIMIT)
    broken += [f"one tool changed: {again:.1f} ms, promised {AGAIN_LIMIT}"] * (again > AGAIN_LIMIT)
    broken += [f"step: {step:.2f} us, promised {STEP_LIMIT}"] * (step > STEP_LIMIT)
    return verdict(broken, check=options.check)


def measure(vocabulary: Any, mask: Any, count: int, style: str, seed: int) -> tuple[tuple[float, float, float], list[Json], Any]:
    """Milliseconds to the first mask of a first and of a second request, and of the second one's front end; its tools and its grammar."""
    import stackmask

    compiler = stackmask.Compiler(vocabulary)
    tools = make_tools(count, Random(seed))
    grammars: list[Any] = []

    def first_mask(tag: Json) -> None:
        grammars.append(compiler.structural_tag(tag))
        grammars[-1].matcher().fill_next_token_bitmask(mask)

    spent = []
    for _ in range(2):
        tag = tag_of(tools, style)
        spent.append(once(partial(first_mask, tag)) / 1e3)
        tools[count // 2] = make_tools(1, Random(-1 - seed))[0]
    return (spent[0], spent[1], grammars[1].stats.front_end_seconds * 1e3), tools, grammars[1]


def walk(matcher: Any, mask: Any, tokens: list[int]) -> list[float]:
    """The microseconds of each token."""

    def step(token: int) -> None:
        matcher.fill_next_token_bitmask(mask)
        if not matcher.accept_token(token):
            raise AssertionError(f"token {token} is refused")

    return [once(partial(step, token)) for token in tokens]


def peer(tokenizer: Any, count: int, style: str) -> list[str]:
    """The row of XGrammar."""
    import xgrammar

    compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(tokenizer.transformers), max_threads=1)
    bitmask = xgrammar.allocate_token_bitmask(1, len(tokenizer.transformers))

    def first_mask(tag: Json) -> None:
        xgrammar.GrammarMatcher(compiler.compile_structural_tag(xgrammar.StructuralTag.model_validate(tag))).fill_next_token_bitmask(
            bitmask
        )

    tools = make_tools(count, Random(0))
    first = once(lambda: first_mask(tag_of(tools, style))) / 1e3
    tools[count // 2] = make_tools(1, Random(-1))[0]
    tag = tag_of(tools, style)
    again = once(lambda: first_mask(tag)) / 1e3
    matcher = xgrammar.GrammarMatcher(compiler.compile_structural_tag(xgrammar.StructuralTag.model_validate(tag)))
    conversation = tokenizer.encode(text_of(tools, style, Random(0)))
    step = mean(walk(matcher, bitmask, conversation))
    return [f"XGrammar {version('xgrammar')}", str(count), number(first), number(again), "", f"{step:.2f}"]


def make_tools(count: int, random: Random) -> list[Json]:
    """Tools that differ from each other."""
    return [{"name": f"{random.choice(WORDS)}_{random.randrange(10**6)}", "parameters": parameters(random)} for _ in range(count)]


def parameters(random: Random) -> Json:
    """The schema of a tool's arguments."""
    properties = {f"{random.choice(WORDS)}_{place}": parameter(random) for place in range(random.randint(3, 8))}
    required = list(properties)[: random.randint(1, len(properties))]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def parameter(random: Random) -> Json:
    """The schema of one argument."""
    match random.randrange(8):
        case 0 | 1:
            return {"type": "string", "description": f"The {random.choice(WORDS)} of the {random.choice(WORDS)}."}
        case 2:
            return {"type": "integer", "minimum": random.randint(0, 5), "maximum": random.randint(10, 1000)}
        case 3:
            return {"type": random.choice(["boolean", "number"])}
        case 4:
            return {"type": "string", "enum": [f"{random.choice(WORDS)}{place}" for place in range(random.randint(2, 6))]}
        case 5:
            return {"type": "array", "items": {"type": "string"}, "maxItems": random.randint(2, 9)}
        case 6:
            return {"type": "string", "minLength": 1, "maxLength": random.randint(10, 99)}
        case _:
            inner = {"a": {"type": "string"}, "b": {"type": "integer"}}
            return {"type": "object", "properties": inner, "required": ["a"], "additionalProperties": False}


def tag_of(tools: list[Json], style: str) -> Json:
    """The structural tag of an agent that may call any of the tools."""
    before, after = ("<tool_call><f=%s>", "</f></tool_call>")
    if style == "json":
        before, after = ('<tool_call>{"name": "%s", "arguments": ', "}</tool_call>")
    tags = [
        {
            "type": "tag",
            "begin": before % tool["name"],
            "content": {"type": "json_schema", "json_schema": tool["parameters"], "style": style},
            "end": after,
        }
        for tool in tools
    ]
    return {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<tool_call>"], "tags": tags}}


def text_of(tools: list[Json], style: str, random: Random) -> str:
    """Text with calls in it; only the required arguments are given."""
    parts = []
    for tool in random.sample(tools, min(8, len(tools))):
        parts.append("I will look that up, and tell you what I find: is a < b, or b < a? Let me see.\n")
        (tag,) = tag_of([tool], style)["format"]["tags"]
        schema = tool["parameters"]
        given = {name: value_of(schema["properties"][name]) for name in schema["required"]}
        body = (
            json.dumps(given)
            if style == "json"
            else "".join(f"<parameter={name}>{raw(value)}</parameter>\n" for name, value in given.items())
        )
        parts.append(f"{tag['begin']}{body}{tag['end']}\n")
    return "".join(parts)


def value_of(schema: Json) -> Any:
    """A value of one of the parameters."""
    if "enum" in schema:
        return schema["enum"][0]
    values = {"string": "some words", "integer": 10, "boolean": True, "number": 1.5, "array": ["one", "two"], "object": {"a": "x", "b": 3}}
    return values[schema["type"]]


def raw(value: Any) -> str:
    """An argument as a tagged parameter has it."""
    return value if isinstance(value, str) else json.dumps(value)


if __name__ == "__main__":
    sys.exit(main())
