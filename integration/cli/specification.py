"""The arguments that name a specification, the same for every command that takes one."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...pda.exceptions import StackmaskError
from ..compiler import CompiledGrammar, Compiler
from .command import CommandError, colour, note


@dataclass(frozen=True, slots=True)
class Specification:
    """A constraint on the text: the compiler's method, its argument and options, and a name for messages."""

    kind: str
    value: Any
    options: dict[str, Any]
    label: str

    def compile(self, compiler: Compiler, *, quiet: bool = False) -> CompiledGrammar:
        """The grammar for one vocabulary; harmless oddities are reported unless `quiet`."""
        arguments = [] if self.kind == "json" else [self.value]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                grammar: CompiledGrammar = getattr(compiler, self.kind)(*arguments, **self.options)
            except StackmaskError as error:
                raise CommandError(f"{self.label}: {error}") from None
        for warning in caught:
            if not quiet:
                note(f"{colour('warning:', 'yellow')} {self.label}: {warning.message}")
        return grammar

    @property
    def schema(self) -> Any:
        """The JSON Schema as a value; None for other kinds."""
        return json.loads(self.value) if self.kind == "json_schema" else None


def add_specification(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Declare the arguments: one kind of specification, and the options of those kinds that have some."""
    kinds = parser.add_argument_group("what the text must be (one of these)").add_mutually_exclusive_group(required=required)
    kinds.add_argument("--json-schema", metavar="FILE", help="an instance of the JSON Schema in FILE ('-' is standard input)")
    kinds.add_argument("--regex", metavar="REGEX", help="a text that matches REGEX as a whole")
    kinds.add_argument("--ebnf", metavar="FILE", help="a text of the grammar in FILE: GBNF, XGrammar's or the W3C's EBNF")
    kinds.add_argument("--lark", metavar="FILE", help="a text of the Lark grammar in FILE")
    kinds.add_argument("--json", action="store_true", help="any JSON")
    kinds.add_argument("--choice", action="append", metavar="TEXT", help="one of these texts (repeatable: --choice yes --choice no)")
    options = parser.add_argument_group("options of JSON and of grammars")
    options.add_argument("--whitespace", metavar="HOW", help="blanks in JSON: printed (default), single, compact, flexible, or a regex")
    options.add_argument("--property-order", choices=("schema", "any"), help="keys in the schema's order (default), or in any order")
    options.add_argument(
        "--extra-properties", choices=("schema", "closed"), help="undeclared keys where the schema allows them (default), or none"
    )
    options.add_argument("--lenient", action="store_true", help="report keywords that cannot be enforced, instead of refusing the schema")
    options.add_argument("--strict-keywords", action="store_true", help="refuse a schema with misspelt keywords or unknown formats")
    options.add_argument("--distinct-keys", action="store_true", help="no key of an object comes twice, undeclared ones included")
    options.add_argument("--root", metavar="RULE", help="start rule of an EBNF or Lark grammar (default: root, or start for Lark)")


def has_specification(arguments: argparse.Namespace) -> bool:
    """Whether the arguments name one."""
    return arguments.json or any(getattr(arguments, kind) is not None for kind in ("json_schema", "regex", "ebnf", "lark", "choice"))


def read_specification(arguments: argparse.Namespace) -> Specification:
    """The specification that the arguments name."""
    if arguments.regex is not None:
        kind, value, label = "regex", arguments.regex, "the regex"
    elif arguments.choice is not None:
        kind, value, label = "choice", arguments.choice, "the choice"
    elif arguments.json:
        kind, value, label = "json", None, "any JSON"
    else:
        kind, path = next((kind, path) for kind in ("json_schema", "ebnf", "lark") if (path := getattr(arguments, kind)) is not None)
        value, label = read_text(path), path
    return Specification(kind, value, _options(kind, arguments), label)


def read_bytes(path: str) -> bytes:
    """The content of a file, or of standard input for '-'."""
    return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()


def read_text(path: str) -> str:
    """The content of a file as text."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: not UTF-8: byte {error.start} is 0x{data[error.start]:02X}") from None


def _options(kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that were given, each checked to mean something for this kind."""
    given = {
        "whitespace": arguments.whitespace,
        "property_order": arguments.property_order,
        "extra_properties": arguments.extra_properties,
        "lenient": arguments.lenient or None,
        "strict_keywords": arguments.strict_keywords or None,
        "distinct_keys": arguments.distinct_keys or None,
        "root": arguments.root,
    }
    given = {name: value for name, value in given.items() if value is not None}
    of_schemas = {"whitespace", "property_order", "extra_properties", "lenient", "strict_keywords", "distinct_keys"}
    takes = {"json_schema": of_schemas, "json": {"whitespace", "distinct_keys"}, "ebnf": {"root"}, "lark": {"root"}}
    for name in given.keys() - takes.get(kind, set()):
        raise CommandError(f"--{name.replace('_', '-')} has no effect with --{kind.replace('_', '-')}")
    if kind == "lark" and "root" in given:
        given["start"] = given.pop("root")
    return given
