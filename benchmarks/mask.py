"""What a mask costs in the states that are expensive in other designs.

The promise, with the vocabulary of Llama 3: a mask that was computed before costs at most 2 us in every state, and one that was not at most
500 us.

    first   the first mask of this kind with this vocabulary, whose shared tables are built on the way
    cold    the same mask in a grammar compiled anew
    next    the mask in another state of the same kind: after one more token of the text
    warm    the same mask again
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any, Final

from benchmarks.report import machine, markdown, number
from benchmarks.timing import command_line, load_vocabulary, once, typical, verdict

WARM_LIMIT, COLD_LIMIT = 2.0, 500.0
PROGRAM: Final = """
root ::= statement*
statement ::= identifier ws "=" ws expression ";" ws | "if" ws "(" expression ")" ws block | "while" ws "(" expression ")" ws block | block
            | "return" ws expression ";" ws
block ::= "{" ws statement* "}" ws
expression ::= term (("+" | "-" | "*" | "/" | "==" | "<" | "&&" | "||") ws term)*
term ::= (identifier | number | "(" ws expression ")" | identifier "(" ws (expression ("," ws expression)*)? ")") ws
identifier ::= [a-zA-Z_] [a-zA-Z0-9_]*
number ::= [0-9]+ ("." [0-9]+)?
ws ::= [ \\n\\t]*
"""
PERSON: Final = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("name", "street", "city", "country")},
    "required": ["name"],
}


def states(compiler: Any) -> Mapping[str, tuple[Callable[[], Any], str, str]]:
    """By name: how to compile the grammar, the text before the state, and one that leads on to the next state of its kind."""

    def schema(value: Any) -> Callable[[], Any]:
        return partial(compiler.json_schema, value)

    return {
        "string interior": (schema({"type": "string"}), '"Once upon a', " time"),
        "after a key": (schema(PERSON), '{"name":"Anna","street"', ':"x","city"'),
        "inside a key": (schema(PERSON), '{"n', "am"),
        "identifier in a large loop": (partial(compiler.ebnf, PROGRAM), "while (index < limit) { value", "s"),
        "`.*`": (partial(compiler.regex, ".*"), "Once upon a", " time"),
        "unanchored pattern": (schema({"type": "string", "pattern": "[0-9]{4}-[0-9]{2}"}), '"on 19', "4"),
        "pattern in text": (partial(compiler.regex, ".*[a-zA-Z0-9_-]{20}.*"), "Once upon a", " time"),
        "text behind a blank": (partial(compiler.ebnf, r'root ::= ("- " [^\n]+ "\n")+'), "- Once\n-", " upon\n-"),
        "bounded repetition": (schema({"type": "string", "minLength": 3, "maxLength": 500}), '"Once upon a', " time"),
        "end of a bounded repetition": (schema({"type": "string", "maxLength": 20}), '"Once upon a', " time"),
        "deep nest": (compiler.json, '[{"a":' * 1000 + "[1", ",2"),
        "any JSON": (compiler.json, '{"a":[1,', "2,"),
        "number": (schema({"type": "number"}), "12", "34"),
        "large enum": (schema({"enum": [f"item-{number * 7919 % 10007}" for number in range(2000)]}), '"item-1', "2"),
        "40 keys in any order": (
            partial(compiler.json_schema, {"properties": {f"key{n}": {"type": "integer"} for n in range(40)}}, property_order="any"),
            '{"key7":1,',
            '"key9":2,',
        ),
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Measure each state and print the table."""
    options = command_line("mask", __doc__, rounds=15).parse_args(arguments)
    import stackmask

    vocabulary, _ = load_vocabulary(options.tokenizer)
    compiler = stackmask.Compiler(vocabulary)
    mask = stackmask.allocate_token_bitmask(1, vocabulary.size)
    lines, broken = [["mask, us", "first", "cold", "next", "warm", "allowed tokens"]], []
    for name, (make, before, further) in states(compiler).items():
        colds, nexts = [], []
        for _ in range(options.rounds):
            compiler.clear_cache()
            matcher = make().matcher()
            assert matcher.accept_bytes(before.encode())
            colds.append(once(partial(matcher.fill_next_token_bitmask, mask)))
            fork = matcher.fork()
            assert fork.accept_bytes(further.encode())
            nexts.append(once(partial(fork.fill_next_token_bitmask, mask)))
        warm = typical(partial(matcher.fill_next_token_bitmask, mask), repeat=15, calls=1000)
        cold = median(colds[1:] or colds)
        allowed = f"{len(matcher.allowed_tokens()):,}"
        lines.append([name, number(colds[0]), number(cold), number(median(nexts[1:] or nexts)), number(warm), allowed])
        broken += [f"{name}: {number(warm)} us warm, promised {WARM_LIMIT:g}"] * (warm > WARM_LIMIT)
        broken += [f"{name}: {number(cold)} us cold, promised {COLD_LIMIT:g}"] * (cold > COLD_LIMIT)
    print(f"{vocabulary.size:,} tokens; {machine()}\n\n{markdown(lines)}")
    return verdict(broken, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
