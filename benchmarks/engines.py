"""The engines that are compared, behind one interface: JSON Schema text in, masks out.

Each is called by its public interface from one thread, with its cache off and its defaults otherwise, except that XGrammar's strict mode,
which forbids what the schema leaves open, is off, as JSON Schema has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.int32]
Tokens = list[int]


@dataclass(frozen=True, slots=True)
class Walk:
    """One text being generated: `fill` writes the mask, `accept` takes a token and says whether it did."""

    mask: Mask
    fill: Callable[[], object]
    accept: Callable[[int], bool]


class Engine(Protocol):
    """An engine with its vocabulary loaded."""

    tokenizer: Tokenizer

    def compile(self, schema: str) -> Callable[[], Walk]:
        """What begins a text of the schema; raises where the engine refuses it."""

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
        self._vocabulary = stackmask.Vocabulary.from_transformers(tokenizer.backend, stop_token_ids=tokenizer.stop)
        self._mask = stackmask.allocate_token_bitmask(1, self._vocabulary.size)
        self.fresh()

    def fresh(self) -> None:
        """A compiler whose cache is empty."""
        self._compiler = self._module.Compiler(self._vocabulary)

    def compile(self, schema: str) -> Callable[[], Walk]:
        """A compiled grammar, shared by its matchers."""
        grammar, mask = self._compiler.json_schema(schema), self._mask

        def start() -> Walk:
            matcher = grammar.matcher()
            fill = matcher.fill_next_token_bitmask
            return Walk(mask[0], lambda: fill(mask), matcher.accept_token)

        return start


class XGrammar:
    """XGrammar, compiling in one thread."""

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
        grammar, mask = self._compiler.compile_json_schema(schema, strict_mode=False), self._mask

        def start() -> Walk:
            matcher = self._module.GrammarMatcher(grammar)
            fill = matcher.fill_next_token_bitmask
            return Walk(mask.numpy()[0], lambda: fill(mask), matcher.accept_token)

        return start


class LLGuidance:
    """llguidance; the fastest of its ways to fill a mask takes a pointer."""

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
        grammar = self._module.LLMatcher.grammar_from_json_schema(schema)
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
            return Walk(mask, lambda: fill(address, size), matcher.consume_token)

        return start

    def _matcher(self, grammar: str) -> Any:
        matcher = self._module.LLMatcher(self._vocabulary, grammar, log_level=0)
        if error := matcher.get_error():
            raise ValueError(error)
        return matcher


class Entry(NamedTuple):
    """An engine's distribution and its adapter."""

    distribution: str
    load: Callable[[Tokenizer], Engine]


ENGINES: Final[Mapping[str, Entry]] = {
    "stackmask": Entry("stackmask", Stackmask),
    "llguidance": Entry("llguidance", LLGuidance),
    "xgrammar": Entry("xgrammar", XGrammar),
}


def label(name: str) -> str | None:
    """An engine's name and version, None where it is not installed."""
    try:
        return f"{name} {version(ENGINES[name].distribution)}"
    except PackageNotFoundError:
        return name if name == "stackmask" else None
