"""A grammar that is ready for one vocabulary, and what its compilation cost."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Self

from ...pda import html
from ...pda.budget import time_is_over
from ...pda.captures import CaptureReader
from ...pda.embed import compact
from ...pda.engine import KernelGrammar
from ...pda.exceptions import (
    LimitError,
)
from ...pda.gbnf import Gbnf, to_gbnf
from ...pda.grammar import NODE_BYTES, TOKENS, Grammar
from ...pda.limits import Limits
from ...pda.matcher import Matcher, Tell, allocate_token_bitmask
from ...pda.packed import PackedGrammar
from ...pda.vocabulary import Vocabulary
from ...schema.dialect.report import Report
from .serialization import from_bytes, to_bytes

_EMPTY_FORM_BYTES: Final = 46_000
"""About what the engine's form of a grammar takes that has one node."""
SHOWN_ENTRIES: Final = 500
SHOWN_NODES: Final = 20_000
SHOWN_TEXT: Final = 20_000
"""The most that a notebook shows of a grammar: entries of its report, nodes of a grammar whose rules are shown, and their characters."""


class CompileStats(NamedTuple):
    """The cost of a compilation: wall-clock seconds in the front end and in the engine, and the size of the grammar between the two."""

    kind: str
    front_end_seconds: float
    engine_seconds: float
    rules: int
    nodes: int

    @property
    def seconds(self) -> float:
        """The whole compilation."""
        return self.front_end_seconds + self.engine_seconds


class CompiledGrammar:
    """A grammar ready for one vocabulary, shared by all requests that use it; `report` lists how keywords of JSON Schemas are treated."""

    __slots__ = (
        "__weakref__",
        "_captures",
        "_fingerprint",
        "_grammar",
        "_is_shared",
        "_kernel",
        "_limits",
        "_report",
        "_specification_size",
        "_static_size",
        "_stats",
        "_tell",
        "_vocabulary",
    )

    def __init__(
        self,
        vocabulary: Vocabulary,
        grammar: Grammar | PackedGrammar,
        kernel: KernelGrammar,
        stats: CompileStats,
        report: Report | None = None,
        *,
        limits: Limits | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self._grammar = grammar
        self._is_shared = stats.kind == "structural_tag"  # with parts of other tags, which StructuralTags keeps in one builder
        self._kernel = kernel
        self._stats = stats
        self._report = report
        self._limits = limits or Limits()
        self._fingerprint: str | None = None
        self._tell: Tell | None = None
        self._specification_size = 0
        if isinstance(grammar, PackedGrammar):
            self._static_size = grammar.size
        else:
            # PERF: the tables that stand in nodes take about what the engine's form of them takes; to measure each took as long as a
            # twelfth of an everyday schema
            tables = max(0, kernel.memory - _EMPTY_FORM_BYTES)
            self._static_size = NODE_BYTES * (len(grammar.nodes) + len(grammar.rules)) + tables
        self._captures: CaptureReader | None = None

    def matcher(self, stop_token_ids: Iterable[int] | None = None) -> Matcher:
        """A matcher at the start of a text; `stop_token_ids` replaces the vocabulary's."""
        return Matcher(self._kernel, self._vocabulary, stop_token_ids, captures=self._capture_reader, tell=self._tell)

    def _capture_reader(self) -> CaptureReader:
        """What finds the captures of its texts. PERF: made for the first text whose captures are asked for, which few are."""
        if self._captures is None:
            self._captures = CaptureReader(self._grammar, self._vocabulary.size, self._vocabulary.token_bytes, self._limits)
        return self._captures

    def described(self, tell: Tell | None, memory: int = 0) -> Self:
        """Return itself; its matchers explain refusals with `tell` from now on. Its specification takes `memory` bytes."""
        self._tell = tell
        self._specification_size = memory
        return self

    def warm_up(self) -> None:
        """Build the tables that the first request needs, without holding the interpreter and at a priority that yields to other threads."""
        self._kernel.warm_up()

    def make_first_mask(self) -> None:
        """Make the mask that every text begins with, which the grammar then keeps. The first request meets the limits that this exceeds."""
        start = time.monotonic()
        with contextlib.suppress(LimitError):
            self.matcher().fill_next_token_bitmask(allocate_token_bitmask(1, self._vocabulary.size))
        self._stats = self._stats._replace(engine_seconds=self._stats.engine_seconds + time.monotonic() - start)

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the masks."""
        return self._vocabulary

    @property
    def grammar(self) -> Grammar:
        """The front end's grammar; `str` and `to_ebnf` show it."""
        if isinstance(self._grammar, PackedGrammar):
            self._grammar = self._grammar.unpack()
        if self._is_shared:  # PERF: only people and files ask, and an engine reads what is not reached in no time
            self._grammar, self._is_shared = compact(self._grammar), False
        return self._grammar

    def to_gbnf(self) -> Gbnf:
        """The grammar in llama.cpp's notation GBNF, with a report of the parts that GBNF cannot express."""
        return to_gbnf(self.grammar)

    @property
    def asks_for_tokens(self) -> bool:
        """Whether any part of the grammar asks for tokens by their ids."""
        if isinstance(self._grammar, PackedGrammar) and not self._grammar.asks_for_tokens:
            return False
        return any(node[0] == TOKENS for node in self.grammar.nodes)

    @property
    def has_temperature(self) -> bool:
        """Whether any part of the grammar sets a temperature; if not, `matcher.temperature` is always None."""
        return self._kernel.has_temperature

    @property
    def stats(self) -> CompileStats:
        """The cost of the compilation."""
        return self._stats

    @property
    def report(self) -> Report | None:
        """The fate of the keywords of a JSON Schema, or of those in a structural tag; None for other specifications."""
        return self._report

    @property
    def warnings(self) -> tuple[str, ...]:
        """Parts of the schema that have no effect but were probably meant to, each with its JSON pointer and the reason.

        Equal ones at several places are one message, with the first pointer and their number.
        """
        return () if self._report is None else self._report.messages

    @property
    def fingerprint(self) -> str:
        """A hash of the grammar and the vocabulary, equal in every process."""
        if self._fingerprint is None:
            self._fingerprint = hashlib.sha256(self.to_bytes()).hexdigest()
        return self._fingerprint

    @property
    def size(self) -> int:
        """Its approximate memory in bytes: the schema, the grammar's nodes, the engine's automata, and its tables, which grow with use."""
        return self._static_size + self._specification_size + self._kernel.memory

    def to_bytes(self) -> bytes:
        """The grammar and its report as bytes, which `from_bytes` reads for the same vocabulary."""
        return to_bytes(self.grammar, self._report, vocabulary=self._vocabulary.fingerprint, kind=self._stats.kind)

    @classmethod
    def from_bytes(cls, data: bytes, vocabulary: Vocabulary, *, limits: Limits | None = None) -> Self:
        """Read a grammar that `to_bytes` wrote. Safe for untrusted data: it is checked, and bounded by `limits`."""
        limits = limits or Limits()
        start = time.monotonic()
        grammar, report, kind = from_bytes(data, vocabulary=vocabulary.fingerprint, size=vocabulary.size, limits=limits)
        return cls.build(vocabulary, kind, grammar, report, start, limits)

    @classmethod
    def build(
        cls, vocabulary: Vocabulary, kind: str, grammar: Grammar | PackedGrammar, report: Report | None, start: float, limits: Limits
    ) -> Self:
        """Build the grammar in the engine, within the rest of the time that began at `start`."""
        middle = time.monotonic()
        left = limits.compile_seconds - (middle - start)
        if left <= 0:
            raise time_is_over(limits.compile_seconds)
        if isinstance(grammar, PackedGrammar):
            form: Grammar | bytes = grammar.for_engine
            rules, nodes = grammar.rules, grammar.nodes
        else:
            form, rules, nodes = grammar, len(grammar.rules), len(grammar.nodes)
        kernel = KernelGrammar(
            vocabulary.trie,
            form,
            states=limits.states,
            stack_depth=limits.stack_depth,
            memory=limits.grammar_bytes,
            seconds=left,
            step_work=limits.step_work,
        )
        stats = CompileStats(kind, middle - start, time.monotonic() - middle, rules, nodes)
        return cls(vocabulary, grammar, kernel, stats, report, limits=limits)

    def __copy__(self) -> Self:
        return self  # immutable, so it is its own copy

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the bytes of `to_bytes` and the vocabulary; the process that reads them rebuilds the engine's tables."""
        return _restored, (type(self), self.to_bytes(), self._vocabulary, self._limits)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._stats.kind} rules={self._stats.rules} nodes={self._stats.nodes}>"

    def _repr_html_(self) -> str:
        """For notebooks: its size, the report, and its rules as EBNF; see `stackmask.pda.html`."""
        stats = self._stats
        rows = [("kind", stats.kind), ("rules", stats.rules), ("nodes", stats.nodes), ("compiled in", f"{stats.seconds * 1e3:.2f} ms")]
        entries = [] if self._report is None else self._report.entries[:SHOWN_ENTRIES]
        report = "\n".join(f"{entry.status:12} {entry.pointer or '/'} {entry.note}".rstrip() for entry in entries)
        text = str(self.grammar) if stats.nodes <= SHOWN_NODES else f"{stats.nodes} nodes are too many to show"
        return html.table(rows) + (html.details("report", report) if report else "") + html.details("rules", text[:SHOWN_TEXT])


def _restored(kind: type[CompiledGrammar], data: bytes, vocabulary: Vocabulary, limits: Limits) -> CompiledGrammar:
    """A grammar from a pickle."""
    return kind.from_bytes(data, vocabulary, limits=limits)
