"""Grammars that belong to no vocabulary."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from ...pda import grammar as ir
from ...pda.ebnf import ebnf_grammar
from ...pda.embed import splice
from ...pda.exceptions import GrammarError
from ...pda.grammar import GrammarBuilder, NodeId
from ...pda.lark import lark_grammar
from ...pda.limits import Limits
from ...pda.regex import regex_grammar
from ...pda.vocabulary import MAX_SIZE
from ...schema.emit.json_parts import Separators, Whitespace
from ...schema.json_schema import json_schema_grammar, json_schema_node
from ...schema.structural_tag import structural_tag_grammar
from ..compiler.cache_key import schema_key, schema_of_key
from ..compiler.serialization import from_bytes, to_bytes
from .exception import (
    DeserializeFormatError,
    DeserializeVersionError,
    InvalidJSONError,
    refuse,
    runtime_errors,
)
from .strict import closed
from .structural_tag import tag_of
from .tokenizer_info import TokenizerInfo

Schema = str | type | Mapping[str, Any]

_VERSION: Final = "stackmask 1"


class Grammar:
    """A grammar; the front ends are stackmask's."""

    def __init__(self, grammar: ir.Grammar) -> None:
        self._grammar = grammar

    @property
    def ir(self) -> ir.Grammar:
        """The grammar in the intermediate representation."""
        return self._grammar

    def __str__(self) -> str:
        return str(self._grammar)

    @staticmethod
    def from_ebnf(ebnf_string: str, *, root_rule_name: str = "root") -> Grammar:
        """A grammar in EBNF."""
        with runtime_errors():
            return Grammar(ebnf_grammar(ebnf_string, root=root_rule_name))

    @staticmethod
    def from_json_schema(
        schema: Schema,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        print_converted_ebnf: bool = False,
        any_order: bool = False,
    ) -> Grammar:
        """The instances of a JSON Schema."""
        options = schema_options(any_whitespace, indent, separators, max_whitespace_cnt, any_order)
        with runtime_errors():
            grammar = Grammar(json_schema_grammar(schema_value(schema, strict_mode), **options)[0])
        return _printed(grammar, print_converted_ebnf)

    @staticmethod
    def from_regex(regex_string: str, *, print_converted_ebnf: bool = False) -> Grammar:
        """The texts that a regular expression matches as a whole."""
        with runtime_errors():
            return _printed(Grammar(regex_grammar(regex_string)), print_converted_ebnf)

    @staticmethod
    def from_lark(
        lark_string: str, *, tokenizer_info: TokenizerInfo | None = None, named_grammars: Mapping[str, Grammar | str] | None = None
    ) -> Grammar:
        """A grammar in Lark's language, which knows the named ones as @name; with a tokenizer, it can name special tokens."""
        special = tokenizer_info.vocabulary.special if tokenizer_info else {}
        with runtime_errors():
            return Grammar(lark_grammar(lark_string, special=special, json_node=_json_node, grammars=named(named_grammars)))

    @staticmethod
    def from_structural_tag(*args: Any, tokenizer_info: TokenizerInfo | None = None) -> Grammar:
        """A structural tag, or tags and triggers of the older form; with a tokenizer, it can name special tokens."""
        with runtime_errors():
            return Grammar(structural_tag_grammar(tag_of(*args), special=tokenizer_info.vocabulary.special if tokenizer_info else {}))

    @staticmethod
    def builtin_json_grammar() -> Grammar:
        """Any JSON value."""
        return Grammar(json_schema_grammar(True, whitespace="flexible")[0])

    @staticmethod
    def concat(*grammars: Grammar) -> Grammar:
        """One after the other."""
        return _combined(grammars, GrammarBuilder.seq)

    @staticmethod
    def union(*grammars: Grammar) -> Grammar:
        """Any of them."""
        return _combined(grammars, GrammarBuilder.alt)

    def serialize_json(self) -> str:
        """The grammar as JSON."""
        return packed("grammar", to_bytes(self._grammar, None, vocabulary="", kind="grammar"))

    @staticmethod
    def deserialize_json(json_string: str) -> Grammar:
        """The grammar that `serialize_json` wrote; safe for a text from anywhere."""
        try:
            return Grammar(from_bytes(unpacked("grammar", json_string), vocabulary="", size=MAX_SIZE, limits=Limits())[0])
        except GrammarError as error:
            raise DeserializeFormatError(str(error)) from error


def get_serialization_version() -> str:
    """The version of the form of serialised objects."""
    return _VERSION


def named(grammars: Mapping[str, Grammar | str] | None) -> dict[str, str | ir.Grammar]:
    """Grammars and Lark texts by the names that a Lark text knows them by; anything else is a TypeError, as in XGrammar."""
    found: dict[str, str | ir.Grammar] = {}
    for name, value in ({} if grammars is None else grammars).items():
        if not isinstance(name, str) or not isinstance(value, Grammar | str):
            raise TypeError("named_grammars must map names to grammars or Lark texts")
        found[name] = value.ir if isinstance(value, Grammar) else value
    return found


def schema_value(schema: Schema, strict_mode: bool) -> Any:
    """A schema as a plain value, closed in strict mode."""
    value = schema_of_key(schema_key(schema, Limits()))
    return closed(value) if strict_mode else value


def schema_options(
    any_whitespace: bool, indent: int | None, separators: tuple[str, str] | None, max_whitespace_cnt: int | None, any_order: bool
) -> dict[str, Any]:
    """XGrammar's options for JSON as stackmask's."""
    whitespace: Whitespace
    if any_whitespace:
        whitespace = "flexible" if max_whitespace_cnt is None else f"[ \\t\\n\\r]{{0,{max_whitespace_cnt}}}"
    else:
        refuse(indent=indent)
        whitespace = Separators() if separators is None else Separators(*separators)
    return {"whitespace": whitespace, "property_order": "any" if any_order else "schema"}


def packed(kind: str, data: bytes) -> str:
    """Bytes inside JSON."""
    return json.dumps({"__VERSION__": _VERSION, kind: base64.b64encode(data).decode()})


def unpacked(kind: str, text: str) -> bytes:
    """The bytes that `packed` put there."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"not JSON: {error}") from error
    found = value.get("__VERSION__") if isinstance(value, dict) else None
    if found != _VERSION:
        raise DeserializeVersionError(f"the object is of version {found!r}; this reads {_VERSION!r}")
    try:
        return base64.b64decode(value[kind], validate=True)
    except (KeyError, TypeError, ValueError) as error:
        raise DeserializeFormatError(f"this is not a serialised {kind}") from error


def _combined(grammars: tuple[Grammar, ...], combine: Any) -> Grammar:
    builder = GrammarBuilder()
    root = builder.rule("root")
    builder.define(root, combine(builder, *(splice(builder, grammar.ir) for grammar in grammars)))
    return Grammar(builder.build(root))


def _json_node(builder: GrammarBuilder, schema: Any) -> NodeId:
    """The value after %json in a Lark text."""
    return json_schema_node(builder, schema, whitespace="flexible")[0]


def _printed(grammar: Grammar, asked: bool) -> Grammar:
    if asked:
        print(grammar)
    return grammar
