"""Other engines behind the suite runner's interface, for the comparison in docs/json_schema.md; `pip install -e '.[bench]'` has them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from support.suite import DATA, Candidate, Grammar, Nothing, Stackmask, llama3_vocabulary

TOKENIZER = str(DATA / "tokenizers" / "llama3" / "tokenizer.json")


def _tokenizer() -> Any:
    import transformers

    return transformers.PreTrainedTokenizerFast(tokenizer_file=TOKENIZER, eos_token="<|end_of_text|>")


def _encoder(tokenizer: Any) -> Callable[[str], list[int]]:
    backend = tokenizer.backend_tokenizer
    return lambda text: list(backend.encode(text, add_special_tokens=False).ids)


class XGrammar:
    """XGrammar as JSON Schema means it: not strict, with any whitespace."""

    def __init__(self) -> None:
        import xgrammar

        self.name = f"XGrammar {version('xgrammar')}"
        self.xgrammar = xgrammar
        tokenizer = _tokenizer()
        self.encode = _encoder(tokenizer)
        self.stop = tokenizer.eos_token_id
        self.compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(tokenizer), max_threads=1, cache_enabled=False)

    def compile(self, schema: Any, documents: Mapping[str, Any]) -> Grammar:
        """The grammar of a schema; other documents cannot be handed over."""
        grammar = self.compiler.compile_json_schema(json.dumps(schema), any_whitespace=True, strict_mode=False)
        return _XGrammarGrammar(self, grammar)


class _XGrammarGrammar:
    def __init__(self, engine: XGrammar, grammar: Any) -> None:
        self.engine = engine
        self.grammar = grammar

    def accepts(self, text: str) -> bool:
        matcher = self.engine.xgrammar.GrammarMatcher(self.grammar)
        tokens = self.engine.encode(text)
        return all(map(matcher.accept_token, tokens)) and bool(matcher.accept_token(self.engine.stop)) and bool(matcher.is_terminated())


class LLGuidance:
    """llguidance with its default options."""

    def __init__(self) -> None:
        import llguidance
        import llguidance.hf

        self.name = f"llguidance {version('llguidance')}"
        self.llguidance = llguidance
        tokenizer = _tokenizer()
        self.encode = _encoder(tokenizer)
        self.tokenizer = llguidance.hf.from_tokenizer(tokenizer)

    def compile(self, schema: Any, documents: Mapping[str, Any]) -> Grammar:
        """The grammar of a schema; other documents cannot be handed over."""
        grammar = self.llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        matcher = self.llguidance.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            if "nsatisfiable" in matcher.get_error():
                return Nothing()
            raise ValueError(matcher.get_error())
        return _LLGuidanceGrammar(self, matcher)


class _LLGuidanceGrammar:
    def __init__(self, engine: LLGuidance, matcher: Any) -> None:
        self.engine = engine
        self.matcher = matcher

    def accepts(self, text: str) -> bool:
        tokens = self.engine.encode(text)
        matcher = self.matcher.deep_copy()
        return matcher.validate_tokens(tokens) == len(tokens) and bool(matcher.consume_tokens(tokens)) and bool(matcher.is_accepting())


class OutlinesCore:
    """The regular expression that outlines-core makes of a schema, matched by Python: to build its index takes up to a minute a schema."""

    def __init__(self) -> None:
        self.name = f"outlines-core {version('outlines-core')}"

    def compile(self, schema: Any, documents: Mapping[str, Any]) -> Grammar:
        """The grammar of a schema; other documents cannot be handed over."""
        from outlines_core.json_schema import build_regex_from_schema

        return _Pattern(re.compile(build_regex_from_schema(json.dumps(schema))))


class _Pattern:
    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern

    def accepts(self, text: str) -> bool:
        return self.pattern.fullmatch(text) is not None


def stackmask(formats: str = "annotate") -> Candidate:
    """The engine of this repository."""
    return Stackmask(*llama3_vocabulary(), format=formats)


CANDIDATES: dict[str, Callable[[], Candidate]] = {
    "stackmask": stackmask,
    "xgrammar": XGrammar,
    "llguidance": LLGuidance,
    "outlines-core": OutlinesCore,
}
