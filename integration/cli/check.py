"""`stackmask check`: shows what a specification enforces, and where a text violates it."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import replace
from unicodedata import east_asian_width

from ...pda.exceptions import GrammarError
from ...pda.matcher import SHOWN_NEAREST, Matcher, show_bytes
from ...pda.vocabulary import Vocabulary
from ..compiler import CompiledGrammar, Compiler
from .command import OK, REFUSED, Command, CommandError, colour, seconds
from .specification import Specification, add_specification, read_bytes, read_specification

NAMES = {"json_schema": "JSON Schema", "json": "JSON", "regex": "regex", "ebnf": "EBNF grammar", "lark": "Lark grammar", "choice": "choice"}

SHOWN_ENTRIES = 40


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_specification(parser)
    parser.add_argument("instances", nargs="*", metavar="INSTANCE", help="files that are accepted or refused ('-' is standard input)")
    parser.add_argument("--full", action="store_true", help=f"list every keyword of a schema that has more than {SHOWN_ENTRIES}")
    parser.add_argument("--print-grammar", action="store_true", help="print the compiled rules, as EBNF that --ebnf reads")
    parser.add_argument("--quiet", action="store_true", help="say nothing about the specification")


def run(arguments: argparse.Namespace) -> int:
    """Compile, report, and judge each instance."""
    specification = read_specification(arguments)
    grammar = _compile(specification)
    if not arguments.quiet:
        _report(specification, grammar, full=arguments.full)
    if arguments.print_grammar:
        try:
            print(grammar.grammar.to_ebnf())
        except GrammarError as error:
            raise CommandError(f"{specification.label}: {error}") from None
    code = OK
    for path in arguments.instances:
        data = read_bytes(path)
        problem = judge(grammar, data)
        verdict = colour("accepted", "green", sys.stdout) if problem is None else f"{colour('refused', 'red', sys.stdout)}\n{problem}"
        print(f"{path}: {verdict}")
        if problem is not None:
            code = REFUSED
            ordered = specification.kind == "json_schema" and "property_order" not in specification.options
            if (
                ordered
                and judge(_compile(replace(specification, options={**specification.options, "property_order": "any"}), quiet=True), data)
                is None
            ):
                print("  the keys are in another order than the schema's: --property-order any accepts it")
    return code


def judge(grammar: CompiledGrammar, data: bytes) -> str | None:
    """None for a text of the grammar; otherwise the place where it leaves the grammar and the expected bytes.

    The line end that editors put at the end of a file is not taken for part of the text, unless the grammar wants one.
    """
    matcher = grammar.matcher()
    fits = matcher.matching_prefix(data)
    if fits == len(data) and _completes(matcher, data):
        return None
    stripped = data.removesuffix(b"\n").removesuffix(b"\r")
    if fits >= len(stripped) and _completes(matcher, stripped):
        return None
    return refusal(matcher, data if fits < len(stripped) else stripped, min(fits, len(stripped)))


def refusal(matcher: Matcher, data: bytes, fits: int) -> str:
    """The place where a text is refused, its line with a caret below, and the expected bytes."""
    explanation = matcher.explain(data)
    reasons = explanation.reasons if fits < len(data) else matcher.missing(data)
    lines = [*(f"  {reason}" for reason in reasons), f"  {place(data, fits)}"]
    if fits < len(data):
        lines.append(_excerpt(data, fits))
    else:
        matcher.accept_bytes(data)
        rest = matcher.shortest_completion().decode("utf-8", "replace")
        lines[-1] += f": the text ends too early; the shortest end would be {rest[:60]!r}"
    expected = [f"one of {show_bytes(explanation.expected)}" if len(explanation.expected) > 1 else show_bytes(explanation.expected)]
    expected = [part for part in expected if part] + (["the end of the text"] if explanation.complete else [])
    if expected:
        lines.append(f"  expected {' or '.join(expected)}")
    if explanation.rules:
        lines.append(f"  in {', in '.join(explanation.rules[:6])}{', ...' if len(explanation.rules) > 6 else ''}")
    lines += [f"  {line}" for found in explanation.places for line in found.splitlines()]
    if explanation.nearest is not None:
        lines.append(f"  nearest text that fits: {_visible(explanation.nearest[:SHOWN_NEAREST])}")
    return "\n".join(lines)


def place(data: bytes, position: int) -> str:
    r"""A position for people: lines and columns count from one, columns in characters.

    >>> place(b'{\n "a": x', 8)
    'line 2, column 7, byte 8'
    """
    before = data[:position]
    column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
    return f"line {before.count(10) + 1}, column {column}, byte {position}"


def _excerpt(data: bytes, position: int) -> str:
    """The part of a line around a position, and a caret below the position."""
    start = max(data.rfind(b"\n", 0, position) + 1, position - 60)
    end = data.find(b"\n", position)
    left, right = _visible(data[start:position]), _visible(data[position : min(len(data) if end < 0 else end, position + 40)])
    columns = sum(1 + (east_asian_width(char) in "WF") for char in left)
    return f"    {left}{right}\n    {' ' * columns}{colour('^', 'red', sys.stdout)}"


def _visible(data: bytes) -> str:
    """Text that moves no cursor."""
    return "".join(char if char.isprintable() else "�" if char != "\t" else " " for char in data.decode("utf-8", "replace"))


def _compile(specification: Specification, *, quiet: bool = False) -> CompiledGrammar:
    """The grammar over a vocabulary of single bytes, which is all that it takes to judge a text."""
    vocabulary = Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], stop_token_ids=[256], size=257)
    return specification.compile(Compiler(vocabulary), quiet=quiet)


def _completes(matcher: Matcher, data: bytes) -> bool:
    """Whether a text is all that the grammar asks for."""
    fork = matcher.fork()
    return (not data or fork.accept_bytes(data)) and fork.is_completed()


def _report(specification: Specification, grammar: CompiledGrammar, *, full: bool) -> None:
    """The compiled specification, and how it is enforced."""
    stats = grammar.stats
    name = NAMES[specification.kind]
    print(f"{specification.label}: {name}, {stats.rules} rules, {stats.nodes} nodes, compiled in {seconds(stats.seconds)}")
    entries, warnings = ((), ()) if grammar.report is None else (grammar.report.entries, grammar.report.warnings)
    shown = entries if full or len(entries) <= SHOWN_ENTRIES else warnings
    for entry in shown:
        status = colour(f"{entry.status:12}", "yellow", sys.stdout) if entry.is_warning else f"{entry.status:12}"
        print(f"  {status}{entry.pointer or '/'}{f'  {entry.note}' if entry.note else ''}")
    if len(shown) < len(entries):
        counts = Counter(entry.status for entry in entries)
        print(f"  {', '.join(f'{count} {status}' for status, count in counts.items())}; --full lists them")


COMMAND = Command("check", "compile a specification, show what it enforces, and accept or refuse instances", configure, run)
