"""Limits on the cost of one specification, so that hostile input ends in an error and not in a hang."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on a compilation and on the grammar it makes; exceeding one raises LimitError with its name.

    `specification_bytes`: size of the specification text.
    `nesting`: depth of nested groups, subschemas or tags in a specification.
    `rules`: rules of the grammar. `states`: states of an automaton before or after determinisation, and NFA states of a grammar. The
    latter are made when a text first needs them, so a matcher may be the first to exceed this limit.
    `stack_depth`: entries of the pushdown stack at run time.
    `compile_work`: steps of one compilation, such as transitions of automata and pairs of alternatives. The default takes about 2 s if
    steps are slow. It is a count, not a time: a specification is refused on every machine or on none.
    `step_work`: work of one call of a matcher in the kernel, such as a mask or an accepted token, in units of about 10 ns. It is counted,
    not timed, so equal calls end alike in all processes. A completion may take 40 times as much, and a text as much again for every
    8,192 bytes.
    `compile_seconds`: wall-clock budget of one compilation, checked often; infinite by default, since the clocks of two machines differ.
    `grammar_bytes`: memory of the lazily built tables of one grammar; beyond it they are dropped and rebuilt. The parts that matchers
    hold stay, and no matcher continues while those parts alone exceed the limit.
    """

    specification_bytes: int = 16 << 20
    nesting: int = 20_000
    rules: int = 500_000
    states: int = 2_000_000
    stack_depth: int = 4_000_000
    compile_work: int = 2_000_000
    step_work: int = 2_000_000
    compile_seconds: float = inf
    grammar_bytes: int = 256 << 20
