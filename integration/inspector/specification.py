"""Specifications compiled for the inspector: a grammar, or the errors with their places in the specification's text."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...pda.exceptions import GrammarError, LimitError, StackmaskError, UnsupportedSchemaError
from ...pda.limits import Limits
from ...pda.vocabulary import Vocabulary
from ..compiler import CompiledGrammar, Compiler
from .json_text import find_ranges
from .request import Specification

_POINTER: Final = re.compile(r"(/[^\s:]*): ")
"""The beginning of messages about schemas."""


@dataclass(frozen=True, slots=True)
class SpecificationError:
    """Why a specification has no grammar; `problems` are sentences with the pointer and the range in code points that each is about."""

    kind: str
    message: str
    problems: tuple[tuple[str, str | None, tuple[int, int] | None], ...]


def compile_specification(compiler: Compiler, given: Specification) -> CompiledGrammar | SpecificationError:
    """The grammar of a specification, or its errors."""
    try:
        return compile_value(compiler, given, value_of(given))
    except json.JSONDecodeError as error:
        message = f"this is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        return SpecificationError("json", message, ((message, None, (error.pos, min(error.pos + 1, len(given.text)))),))
    except RecursionError:
        return SpecificationError("limit", "the JSON is nested too deep to be read", ())
    except UnsupportedSchemaError as error:
        ranges = find_ranges(given.text)
        return SpecificationError(
            "unsupported",
            "not every keyword of this schema can be enforced exactly",
            tuple((reason, pointer, ranges.get(pointer)) for pointer, reason in error.problems[:200]),
        )
    except (GrammarError, LimitError) as error:
        return _described(error, given)


def _described(error: StackmaskError, given: Specification) -> SpecificationError:
    message = str(getattr(error, "message", None) or error)
    kind = "limit" if isinstance(error, LimitError) else "grammar"
    position = getattr(error, "position", None)
    where = None
    if position is not None and getattr(error, "text", "") == given.text:
        where = (min(position, max(0, len(given.text) - 1)), min(position + 1, len(given.text)))
    pointer = None
    if given.kind in ("json_schema", "structural_tag") and (found := _POINTER.match(message)) is not None:
        ranges = find_ranges(given.text)
        pointer = found[1]
        where = ranges.get(pointer) or ranges.get(f"{pointer}#")
    return SpecificationError(kind, message[:4_000], ((message[:4_000], pointer, where),))


def value_of(given: Specification) -> Any:
    """The argument of the compiler's method: parsed JSON if the specification is JSON, else the text."""
    if given.kind in ("json_schema", "structural_tag", "choice"):
        return json.loads(given.text)
    return given.text


def compile_value(compiler: Compiler, given: Specification, value: Any, options: Mapping[str, Any] | None = None) -> CompiledGrammar:
    """The grammar of a value that `value_of` gives, or one like it."""
    arguments = () if given.kind == "json" else (value,)
    options = given.options if options is None else options
    compiled: CompiledGrammar = getattr(compiler, given.kind)(*arguments, **options)
    return compiled


class TrialCompiler:
    """Compiles variants of a schema over single bytes, which is all that it takes to say whether a text fits; made when first used."""

    def __init__(self, seconds: float = 0.5) -> None:
        self._limits = Limits(compile_seconds=seconds, states=200_000, specification_bytes=1 << 20)
        self._compiler: Compiler | None = None
        self._lock = threading.Lock()

    @property
    def compiler(self) -> Compiler:
        """The compiler over single bytes."""
        with self._lock:
            if self._compiler is None:
                self._compiler = Compiler(byte_vocabulary(), limits=self._limits, cache_bytes=32 << 20, threads=1)
            return self._compiler

    def fits(self, given: Specification, value: Any, options: Mapping[str, Any], data: bytes) -> bool:
        """Whether this text can begin one of the specification with another value in its place."""
        try:
            matcher = compile_value(self.compiler, given, value, options).matcher()
        except (StackmaskError, RecursionError):
            return False
        return matcher.matching_prefix(data) == len(data)


def byte_vocabulary() -> Vocabulary:
    """A vocabulary of the 256 bytes and a stop token."""
    return Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], stop_token_ids=[256], size=257)
