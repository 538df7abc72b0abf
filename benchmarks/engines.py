"""The engines that are compared, behind one interface: JSON Schema text or another specification in, masks out.

Each is called by its public interface from one thread, with its cache off and its defaults otherwise, except that XGrammar's strict mode,
which forbids what the schema leaves open, is off, as JSON Schema has it. `xgrammar-strict` has it on, and no blanks in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.int32]
Tokens = list[int]
KINDS: Final = ("regex", "json_schema", "ebnf", "lark", "structural_tag", "choice")


class NotTakenError(Exception):
    """The engine has no specifications of this kind."""


@dataclass(frozen=True, slots=True)
class Walk:
    """One text being generated: `fill` writes the mask, `accept` takes a token and says whether it did."""

    mask: Mask
    fill: Callable[[], object]
    accept: Callable[[int], bool]
    error: Callable[[], str | None] = lambda: None
    """Why the engine gave up, where it says so without an exception."""


class Engine(Protocol):
    """An engine with its vocabulary loaded."""

    tokenizer: Tokenizer
    refusals: tuple[type[Exception], ...]
    """What it raises where it refuses a specification; any other exception is a failure."""

    def compile(self, schema: str) -> Callable[[], Walk]:
        """What begins a text of the schema; raises where the engine refuses it."""

    def compile_kind(self, kind: str, specification: Any, **options: str) -> Callable[[], Walk]:
        """The same for any kind of specification (`KINDS`); raises NotTakenError where the engine has no such kind or option."""

    def fresh(self) -> None:
        """Forget all grammars."""


class Tokenizer:
    """The tokenizer in a folder; text that looks like a special token is text."""

    def __init__(self, folder: Path) -> None:
        import tokenizers

        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        self._file, self._end = str(folder / "tokenizer.json"), config["eos_token"]
        self.backend = tokenizers.Tokenizer.from_file(self._file)
        self.backend.encode_special_tokens = True
        self.stop = int(self.backend.token_to_id(self._end) or 0)

    @cached_property
    def transformers(self) -> Any:
        """The same tokenizer as transformers has it."""
        import transformers

        make: Any = transformers.PreTrainedTokenizerFast
        return make(tokenizer_file=self._file, eos_token=self._end)

    def encode(self, text: str) -> Tokens:
        """The ids of a text's tokens."""
        return list(self.backend.encode(text, add_special_tokens=False).ids)

    def start(self, text: str, place: int) -> int:
        """Where in the text a token begins; the stop token begins at the end."""
        offsets = self.backend.encode(text, add_special_tokens=False).offsets
        return int(offsets[place][0]) if place < len(offsets) else len(text)


class Stackmask:
    """The engine of this repository, through its facade."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        import stackmask

        self._module = stackmask
        self.refusals: tuple[type[Exception], ...] = (stackmask.StackmaskError,)
        self._vocabulary = stackmask.Vocabulary.from_transformers(tokenizer.backend, stop_token_ids=tokenizer.stop)
        self._mask = stackmask.allocate_token_bitmask(1, self._vocabulary.size)
        self.fresh()

    def fresh(self) -> None:
        """A compiler whose cache is empty."""
        self._compiler = self._module.Compiler(self._vocabulary)

    def compile(self, schema: str) -> Callable[[], Walk]:
        """A compiled grammar, shared by its matchers, with any blanks, as the other engines have them."""
        return self.compile_kind("json_schema", schema, whitespace="flexible")

    def compile_kind(self, kind: str, specification: Any, **options: str) -> Callable[[], Walk]:
        """The method of this name."""
        grammar, mask = getattr(self._compiler, kind)(as_text(kind, specification), **options), self._mask

        def start() -> Walk:
            matcher = grammar.matcher()
            fill = matcher.fill_next_token_bitmask
            return Walk(mask[0], lambda: fill(mask), matcher.accept_token)

        return start


class XGrammar:
    """XGrammar, compiling in one thread."""

    refusals: tuple[type[Exception], ...] = (Exception,)
    schema_options: ClassVar[Mapping[str, Any]] = {"strict_mode": False}

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        import xgrammar

        self._module = xgrammar
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer.transformers, stop_token_ids=tokenizer.stop)
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self._mask = xgrammar.allocate_token_bitmask(1, info.vocab_size)

    def fresh(self) -> None:
        """Nothing is kept from one compilation to the next."""

    def compile(self, schema: str) -> Callable[[], Walk]:
        """A compiled grammar, shared by its matchers."""
        return self.compile_kind("json_schema", schema)

    def compile_kind(self, kind: str, specification: Any, **options: str) -> Callable[[], Walk]:
        """The method for this kind; a choice is a rule with as many alternatives."""
        if options.get("property_order", "schema") != "schema":
            raise NotTakenError("any order of keys")
        text = as_text(kind, specification)
        if kind == "json_schema":
            grammar = self._compiler.compile_json_schema(text, **self.schema_options)
        elif kind in ("ebnf", "choice"):
            grammar = self._compiler.compile_grammar(f"root ::= {alternatives(text)}" if kind == "choice" else text)
        else:
            grammar = getattr(self._compiler, f"compile_{kind}")(text)
        mask = self._mask

        def start() -> Walk:
            matcher = self._module.GrammarMatcher(grammar)
            fill = matcher.fill_next_token_bitmask
            return Walk(mask.numpy()[0], lambda: fill(mask), matcher.accept_token)

        return start


class StrictXGrammar(XGrammar):
    """XGrammar, where objects have the declared keys only, and compact JSON has no blanks."""

    schema_options: ClassVar[Mapping[str, Any]] = {"strict_mode": True, "any_whitespace": False, "separators": (",", ":")}


class LLGuidance:
    """llguidance; the fastest of its ways to fill a mask takes a pointer."""

    refusals: tuple[type[Exception], ...] = (Exception,)

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        import llguidance.hf

        self._module = llguidance
        self._vocabulary = llguidance.hf.from_tokenizer(tokenizer.transformers)
        self._mask = np.full((self._vocabulary.vocab_size + 31) // 32, -1, np.int32)

    def fresh(self) -> None:
        """Nothing is kept from one compilation to the next."""

    def compile(self, schema: str) -> Callable[[], Walk]:
        """A matcher; the grammar's tables live in it, so texts after the first go through the same one."""
        return self.compile_kind("json_schema", schema)

    def compile_kind(self, kind: str, specification: Any, **options: str) -> Callable[[], Walk]:
        """The function for this kind; EBNF goes through llguidance's own conversion to Lark, and a choice is a rule of Lark."""
        from llguidance.gbnf_to_lark import any_to_lark

        if kind == "structural_tag" or options.get("property_order", "schema") != "schema":
            raise NotTakenError(f"{kind} {options}")
        text = as_text(kind, specification)
        make = self._module.LLMatcher
        if kind in ("regex", "json_schema"):
            grammar = getattr(make, f"grammar_from_{kind}")(text)
        else:
            lark = any_to_lark(text) if kind == "ebnf" else f"start: {alternatives(text)}" if kind == "choice" else text
            grammar = make.grammar_from_lark(lark)
        matcher = self._matcher(grammar)
        used = False
        mask = self._mask
        address, size = mask.ctypes.data, mask.nbytes

        def start() -> Walk:
            nonlocal matcher, used
            if used and not (not matcher.is_error() and matcher.reset()):
                matcher = self._matcher(grammar)
            used = True
            fill = matcher.unsafe_compute_mask_ptr
            return Walk(mask, lambda: fill(address, size), matcher.consume_token, lambda: matcher.get_error() or None)

        return start

    def _matcher(self, grammar: str) -> Any:
        matcher = self._module.LLMatcher(self._vocabulary, grammar, log_level=0)
        if error := matcher.get_error():
            raise ValueError(error)
        return matcher


class OutlinesCore:
    """outlines-core: a schema becomes a regular expression, and this an automaton over the tokens before the first mask."""

    refusals: tuple[type[Exception], ...] = (Exception,)

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        import outlines_core

        import stackmask

        self._module = outlines_core
        ids: dict[bytes, list[int]] = {}
        vocabulary = stackmask.Vocabulary.from_transformers(tokenizer.backend, stop_token_ids=tokenizer.stop)
        for token, data in enumerate(vocabulary.tokens):
            if data:
                ids.setdefault(data, []).append(token)
        self._vocabulary = outlines_core.Vocabulary(tokenizer.stop, ids)
        self._mask = np.zeros((vocabulary.size + 31) // 32, np.int32)

    def fresh(self) -> None:
        """Nothing is kept from one compilation to the next."""

    def compile(self, schema: str) -> Callable[[], Walk]:
        """An automaton over tokens, shared by the guides that walk it."""
        return self.compile_kind("json_schema", schema)

    def compile_kind(self, kind: str, specification: Any, **options: str) -> Callable[[], Walk]:
        """Regular expressions, and schemas as such."""
        if kind not in ("regex", "json_schema") or options.get("property_order", "schema") != "schema":
            raise NotTakenError(f"{kind} {options}")
        text = as_text(kind, specification)
        if kind == "json_schema":
            text = self._module.json_schema.build_regex_from_schema(text)
        index, mask = self._module.Index(text, self._vocabulary), self._mask
        address, count, width = mask.ctypes.data, mask.size, mask.itemsize

        def start() -> Walk:
            guide = self._module.Guide(index)

            def accept(token: int) -> bool:
                if token == self.tokenizer.stop:
                    return bool(guide.is_finished())
                guide.advance(token, return_tokens=False)
                return True

            return Walk(mask, lambda: guide.write_mask_into(address, count, width), accept)

        return start


def as_text(kind: str, specification: Any) -> Any:
    """A specification as servers get it: schemas and structural tags are JSON text."""
    if kind == "structural_tag":
        specification = {"type": "structural_tag", "format": specification}
    return specification if isinstance(specification, str) or kind == "choice" else json.dumps(specification)


def alternatives(options: list[str]) -> str:
    """Texts of plain letters as the alternatives of a rule."""
    return " | ".join(map(json.dumps, options))


class Entry(NamedTuple):
    """An engine's distribution and its adapter."""

    distribution: str
    load: Callable[[Tokenizer], Engine]


ENGINES: Final[Mapping[str, Entry]] = {
    "stackmask": Entry("stackmask", Stackmask),
    "llguidance": Entry("llguidance", LLGuidance),
    "xgrammar": Entry("xgrammar", XGrammar),
    "xgrammar-strict": Entry("xgrammar", StrictXGrammar),
    "outlines-core": Entry("outlines-core", OutlinesCore),
}
MAIN: Final = ("stackmask", "llguidance", "xgrammar")
"""Those that a benchmark runs if it is not asked for others."""


def label(name: str) -> str | None:
    """An engine's name and version, None where it is not installed."""
    try:
        return f"{name} {version(ENGINES[name].distribution)}"
    except PackageNotFoundError:
        return name if name == "stackmask" else None
