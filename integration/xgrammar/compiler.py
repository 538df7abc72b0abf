"""Grammars compiled for a vocabulary."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from ...pda.exceptions import StackmaskError
from .. import compiler as own
from .exception import DeserializeFormatError, runtime_errors
from .grammar import Grammar, Schema, named, packed, schema_options, schema_value, unpacked
from .structural_tag import tag_of
from .tokenizer_info import TokenizerInfo

_UNLIMITED: Final = 1 << 62


class CompiledGrammar:
    """A grammar for one vocabulary."""

    def __init__(self, compiled: own.CompiledGrammar, tokenizer_info: TokenizerInfo) -> None:
        self._compiled = compiled
        self._tokenizer_info = tokenizer_info

    @property
    def compiled(self) -> own.CompiledGrammar:
        """The compiled grammar of stackmask, with its report, statistics and fingerprint."""
        return self._compiled

    @property
    def grammar(self) -> Grammar:
        """The grammar."""
        return Grammar(self._compiled.grammar)

    @property
    def tokenizer_info(self) -> TokenizerInfo:
        """The vocabulary."""
        return self._tokenizer_info

    @property
    def memory_size_bytes(self) -> int:
        """About how many bytes it takes; it grows with use."""
        return self._compiled.size

    def serialize_json(self) -> str:
        """The grammar as JSON; the vocabulary is named in it, not contained."""
        return packed("compiled", self._compiled.to_bytes())

    @staticmethod
    def deserialize_json(json_str: str, tokenizer_info: TokenizerInfo) -> CompiledGrammar:
        """The grammar that `serialize_json` wrote for the same vocabulary; safe for a text from anywhere."""
        data = unpacked("compiled", json_str)
        try:
            return CompiledGrammar(own.CompiledGrammar.from_bytes(data, tokenizer_info.vocabulary), tokenizer_info)
        except StackmaskError as error:
            raise DeserializeFormatError(str(error)) from error


class GrammarCompiler:
    """Compiles for one vocabulary. -1 means no limit on the cache."""

    def __init__(
        self, tokenizer_info: TokenizerInfo, *, max_threads: int = 8, cache_enabled: bool = True, cache_limit_bytes: int = -1
    ) -> None:
        self._tokenizer_info = tokenizer_info
        self._cache_limit_bytes = cache_limit_bytes
        limit = 0 if not cache_enabled else _UNLIMITED if cache_limit_bytes < 0 else cache_limit_bytes
        self._compiler = own.Compiler(tokenizer_info.vocabulary, cache_bytes=limit, threads=max_threads)

    def compile_json_schema(
        self,
        schema: Schema,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        any_order: bool = False,
    ) -> CompiledGrammar:
        """The instances of a JSON Schema."""
        options = schema_options(any_whitespace, indent, separators, max_whitespace_cnt, any_order)
        with runtime_errors():
            return self._of(self._compiler.json_schema(schema_value(schema, strict_mode), **options))

    def compile_builtin_json_grammar(self) -> CompiledGrammar:
        """Any JSON value."""
        return self._of(self._compiler.json(whitespace="flexible"))

    def compile_regex(self, regex: str) -> CompiledGrammar:
        """The texts that a regular expression matches as a whole."""
        with runtime_errors():
            return self._of(self._compiler.regex(regex))

    def compile_lark(self, lark_string: str, *, named_grammars: Mapping[str, Grammar | str] | None = None) -> CompiledGrammar:
        """A grammar in Lark's language; it can name special tokens, and the named grammars as @name, which are grammars or Lark texts."""
        with runtime_errors():
            return self._of(self._compiler.lark(lark_string, grammars=named(named_grammars), whitespace="flexible"))

    def compile_structural_tag(self, *args: Any) -> CompiledGrammar:
        """A structural tag, or tags and triggers of the older form; it can name special tokens."""
        with runtime_errors():
            return self._of(self._compiler.structural_tag(tag_of(*args)))

    def compile_grammar(self, grammar: str | Grammar, *, root_rule_name: str = "root") -> CompiledGrammar:
        """A grammar, or its text in EBNF, which can name special tokens; a grammar that is no text is not cached."""
        with runtime_errors():
            if isinstance(grammar, str):
                return self._of(self._compiler.ebnf(grammar, root_rule_name))
            vocabulary, limits = self._compiler.vocabulary, self._compiler.limits
            return self._of(own.CompiledGrammar.build(vocabulary, "grammar", grammar.ir, None, time.monotonic(), limits))

    def clear_cache(self) -> None:
        """Clear the cache."""
        self._compiler.clear_cache()

    def get_cache_size_bytes(self) -> int:
        """About how many bytes the cache takes."""
        return self._compiler.cache_info.size

    @property
    def cache_limit_bytes(self) -> int:
        """The value passed for it."""
        return self._cache_limit_bytes

    def _of(self, compiled: own.CompiledGrammar) -> CompiledGrammar:
        return CompiledGrammar(compiled, self._tokenizer_info)
