"""What vLLM's tool parsers read of the calls that stackmask writes, in vLLM's structural tags and in the notations of stackmask's server.

    scripts/vllm_environment.sh DIR && DIR/bin/python scripts/vllm_parsers.py

For each parser: random calls of strict tools, with strings that hold blanks, quotes, line breaks and markup, in the structural tag that
vLLM sends with `tool_choice: required`, if it sends one, and in each format of stackmask's table that names the parser. Each answer is
read at once and in pieces. In a tag of vLLM, every call must have a known tool and arguments that its schema allows; in a notation of
stackmask, the calls must be those that stackmask's own reader finds. A table says how many answers were read otherwise; `--show` prints
the first of them. What remains are parsers' own limits, which docs/vllm.md lists.
"""

from __future__ import annotations

import contextlib
import json
import logging
import random
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from random_calls import SCHEMAS, compiled, fits, pieces_of, token_names, walk

from stackmask.integration.tools import FORMATS, Call, CallParser, Format, ToolError, choose, named_tokens, read_tools, structural_tag

SPECIAL = re.compile(
    r"(<[|｜][^<>\s]*?[|｜]>|\[[A-Z_]+\]|</?(?:\w+:|longcat_)?tool_calls?>|<\|tool_call>|<tool_call\|>|</?｜DSML｜ ?|</?dots_function_call>"
    r"|\]<\]minimax\[>\[|</?arg_(?:key|value)>|</?tool_sep>|<(?:start|end)_function_call>|<escape>)"
)
"""Texts that are single tokens in the vocabularies of their models."""
NEEDED = {"llama3_json": {"<|python_tag|>"}, "llama4_json": {"<|python_tag|>"}}
"""Tokens that a parser wants of its tokenizer and no call has."""
TOOLS = [{"type": "function", "function": {"name": name, "parameters": schema, "strict": True}} for name, schema in SCHEMAS.items()]
Calls = list[tuple[str, Any]]


def main() -> None:
    """Check the parsers named on the command line, or all."""
    from vllm.parser.parser_manager import ParserManager
    from vllm.tool_parsers import ToolParserManager

    logging.disable(logging.CRITICAL)
    shows = "--show" in sys.argv
    for name in [name for name in sys.argv[1:] if name != "--show"] or sorted(ToolParserManager.list_registered()):
        try:
            kind = ParserManager.get_parser(tool_parser_name=name, enable_auto_tools=True, is_harmony=name == "openai")
        except Exception as error:  # a package that it needs
            print(f"{name:16} {str(error).splitlines()[0]}")
            continue
        if name == "openai":
            print(f"{name:16} reads the ids of its own tokenizer's tokens, not texts")
            continue
        formats = [form for form in FORMATS.values() if name in names_of(form)]
        for label, case in [("vLLM's tag", None), *((form.name, form) for form in formats)]:
            try:
                found = check(kind, name, case, shows)
            except Exception as error:
                found = f"{type(error).__name__}: {error}".splitlines()[0]
            if found is not None:
                print(f"{name:16} {label:16} {found}", flush=True)


def names_of(form: Format) -> list[str]:
    """The names of vLLM's parsers for a format."""
    engines = dict(part.split(" ", 1) for part in form.parsers.split("; "))
    return engines.get("vLLM", "").split(", ")


def check(kind: type[Any], name: str, form: Format | None, shows: bool, answers: int = 60) -> str | None:
    """How many of some answers are read otherwise, at once and in pieces; None where vLLM has no tag for the parser."""
    if form is None:
        tag = tag_of(kind, name)
        if tag is None:
            return None
    else:
        tag = own_tag(form, ())
    special = {*token_names(tag), *SPECIAL.findall("\0".join(texts_of(tag)))}
    special |= NEEDED.get(name, set())
    if form is not None:
        tag = own_tag(form, special)
    tokenizer = tokenizer_of(special)
    grammar, rng = compiled(tag, special), random.Random(2)
    written, wrong, first = 0, {"at once": 0, "in pieces": 0}, ""
    for _ in range(answers):
        text = walk(grammar, rng)
        if text is None:
            continue
        written += 1
        expected = None if form is None else own_calls(form, special, text)
        for how, read in (("at once", read_whole), ("in pieces", read_pieces)):
            try:
                calls = read(kind(tokenizer, request(form).tools), tokenizer, request(form), text, rng)
            except Exception as error:
                calls = [(f"{type(error).__name__}: {error}", "")]
            is_right = fits(calls) if expected is None else decoded(calls) == expected
            wrong[how] += not is_right
            if not is_right and not first:
                first = f"\n    {how}: {text!r}\n    read as {calls}"
    return f"{written} answers, read otherwise: {wrong['at once']} at once, {wrong['in pieces']} in pieces{first if shows else ''}"


def own_tag(form: Format, special: Any) -> dict[str, Any]:
    """The structural tag of stackmask's server for a required call."""
    tools = read_tools(TOOLS)
    for kept in (tools, [tool for tool in tools if tool.name != "pick"]):  # formats of literals write no pattern, which they refuse
        choice = choose(tuple(kept), "required")
        assert choice is not None
        with contextlib.suppress(ToolError):
            return structural_tag(form, choice, special=special)
    raise ToolError(f"the format {form.name} refuses the tools", "tools")


def own_calls(form: Format, special: Any, text: str) -> Calls:
    """The calls that stackmask's own reader finds."""
    shown = named_tokens(form, special)
    marked = "".join(shown.get(part, part) for part in SPECIAL.split(text))
    found: dict[int, tuple[str, str]] = {}
    for piece in CallParser(form, read_tools(TOOLS), special=special).feed(marked, final=True):
        if isinstance(piece, Call):
            found[piece.index] = (piece.name, found.get(piece.index, ("", ""))[1] + piece.arguments)
    return decoded(found.values())


def request(form: Format | None) -> Any:
    """A request with the tools: vLLM's tag is that of a required call, and without a tag a parser reads what a model writes on its own."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    choice = "required" if form is None else "auto"
    return ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "x"}], tools=TOOLS, tool_choice=choice)


def tag_of(kind: type[Any], name: str) -> Any:
    """The structural tag that vLLM makes for a required call; None where it makes none."""
    from vllm.tool_parsers import ToolParserManager

    if ToolParserManager.get_tool_parser(name).structural_tag_model is None:
        return None
    asked = request(None)
    own = [text for form in FORMATS.values() if name in names_of(form) for text in texts_of(own_tag(form, ()))]
    named = {*SPECIAL.findall("\0".join(own)), *NEEDED.get(name, ())}
    made = kind(tokenizer_of(named), asked.tools).adjust_request(asked)
    outputs = made.structured_outputs
    return None if outputs is None or outputs.structural_tag is None else json.loads(outputs.structural_tag)


def tokenizer_of(special: Any) -> Any:
    """A tokenizer of transformers with a token for each byte, and these special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = {letter: place for place, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(sorted(special))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def texts_of(value: Any) -> Iterator[str]:
    """The texts in a structural tag, without those of schemas."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for key, inner in value.items() if key != "json_schema" for text in texts_of(inner))
    elif isinstance(value, list):
        yield from (text for inner in value for text in texts_of(inner))


def read_whole(parser: Any, tokenizer: Any, asked: Any, text: str, rng: random.Random) -> Calls:
    """The calls of a whole text."""
    ids = tokenizer.encode(text, add_special_tokens=False)
    _, _, calls = parser.parse(text, asked, enable_auto_tools=True, model_output_token_ids=ids)
    return [(call.name, call.arguments) for call in calls or []]


def read_pieces(parser: Any, tokenizer: Any, asked: Any, text: str, rng: random.Random) -> Calls:
    """The calls of a text that arrives in pieces."""
    found: dict[int, tuple[str, str]] = {}
    pieces = pieces_of(text, SPECIAL, rng)
    for place, piece in enumerate(pieces):
        ids = tokenizer.encode(piece, add_special_tokens=False)
        delta = parser.parse_delta(piece, ids, asked, prompt_token_ids=[], finished=place == len(pieces) - 1)
        for call in (delta and delta.tool_calls) or []:
            name, arguments = found.get(call.index, ("", ""))
            more = call.function
            found[call.index] = (name or (more and more.name) or "", arguments + ((more and more.arguments) or ""))
    return [found[index] for index in sorted(found)]


def decoded(calls: Iterable[tuple[str, str]]) -> Calls:
    """Calls with their arguments as values; text that is not JSON stays as it is."""
    read: Calls = []
    for name, arguments in calls:
        try:
            read.append((name, json.loads(arguments)))
        except ValueError:
            read.append((name, arguments))
    return read


if __name__ == "__main__":
    main()
