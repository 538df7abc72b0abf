r"""The intermediate representation, which every front end emits, and which the kernel and the reference engine run.

A grammar is a table of expression nodes and a table of rules, each rule one expression.
A node is a plain tuple whose first element is its operator, and refers to other nodes by index.
So a grammar is immutable and hashable, costs about 0.2 us a node to build, and is read by the kernel in one pass.
Nodes are hash-consed: equal expressions have the same index.

    (EMPTY,)                                   the empty text
    (NEVER,)                                   no text at all
    (LITERAL, data)                            the bytes `data`
    (BYTES, ranges)                            one byte;       ranges = (lo, hi, lo, hi, ...) inclusive, sorted, disjoint
    (CHARS, ranges, encoding)                  one code point; ranges as above over 0..0x10FFFF, surrogates are ignored
    (SEQ, node, ...)                           one after the other
    (ALT, node, ...)                           any one of them
    (REPEAT, node, minimum, maximum)           maximum -1 is no bound
    (CALL, rule)                               another rule, by index
    (GRAPH, states, edges)                     an NFA whose edges read expressions: edges = (source, target, node, ...),
                                               node -1 reads nothing; starts in state 0, ends in state 1
    (AUTOMATON, transitions, accepting, encoding)
                                               a DFA over code points (bytes with encoding RAW), start state 0;
                                               transitions[state] = ((lo, hi, target), ...), accepting[state] = bool
    (AUTOMATON, transitions, accepting, encoding, minimum, maximum)
                                               a counted automaton: of these texts those of minimum to maximum code points (bytes with
                                               RAW), -1 is no bound; see below
    (EXCEPT, words, encoding)                  any text but these words: sorted, different, without surrogates; not with RAW
    (TOKENS, ids, negated)                     one token by id, whatever its text: negated 0: one of `ids`, 1: any that has text but these,
                                               2: any but these
    (PERMUTE, members, separator, minimum, maximum)
                                               each member at most once and in any order, `separator` (a node) between two of them;
                                               members = (node, flags, ...), flags: 1 = must occur, 2 = may occur any number of times;
                                               minimum and maximum bound how many occur in all, -1 is no bound
    (SCOPE, node)                              `node` with a new, empty set of values seen
    (DISTINCT, node)                           the text that `node` reads is a JSON value that differs, as a value, from all that
                                               DISTINCT read before it in the innermost SCOPE around it
                                               (an engine sees for each DISTINCT that follows whether it has a value left, and not what
                                               one value takes from the others: a SCOPE counts where that could leave too few)
    (LIMIT, node, tokens)                      the text that `node` reads spans at most `tokens` tokens, as far as it may end in time:
                                               once that many have contributed to it, it ends at the first boundary between two tokens
                                               where it may end
    (CAPTURE, node, name)                      `node`, whose text can be asked for by this name
    (TEMPERATURE, node, value)                 `node`; tokens inside it are sampled at this temperature

A counted automaton stands for the product of a DFA with a counter, which nobody has to build.
least(s) and greatest(s) are the lengths of the shortest and the longest text that the DFA accepts from state s.
INVARIANT: with `count` read, state s leads to a text within the bounds if and only if count + least(s) <= maximum and
count + greatest(s) >= minimum, each where there is such a bound.
This holds for every DFA where one bound alone is given.
Where both are, no state may have texts of lengths m and n, and none between, with n - m > maximum - minimum + 1; see
`language.skips_lengths`.

Encodings say how a code point is written as bytes:

    RAW       code point = byte (AUTOMATON only)
    UTF8      UTF-8
    JSON      as it stands inside a JSON string (RFC 8259 section 7): UTF-8, escaped where it must be, by the short escape where one
              exists (`\"` `\\` `\b` `\f` `\n` `\r` `\t`), by \u00XX otherwise; `/` also as `\/`
    JSON_ANY  as JSON, or any character as \uXXXX (a surrogate pair above U+FFFF), hexadecimal digits of either case
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NewType

from .exceptions import GrammarError
from .grammar_text import write_ebnf
from .operators import (
    ALT,
    AUTOMATON,
    BYTES,
    CALL,
    CAPTURE,
    CHARS,
    DISTINCT,
    EMPTY,
    EXCEPT,
    GRAPH,
    JSON,
    JSON_ANY,
    LIMIT,
    LITERAL,
    NEVER,
    PERMUTE,
    RAW,
    REPEAT,
    REPEATABLE,
    REQUIRED,
    SCOPE,
    SEQ,
    TEMPERATURE,
    TOKENS,
    UTF8,
    Node,
    Op,
    Operand,
    operands,
)

__all__ = [  # noqa: RUF022 - as text, like every other list of names here
    "ALT",
    "AUTOMATON",
    "BYTES",
    "CALL",
    "CAPTURE",
    "CHARS",
    "DISTINCT",
    "EMPTY",
    "EXCEPT",
    "GRAPH",
    "Grammar",
    "GrammarBuilder",
    "JSON",
    "JSON_ANY",
    "LIMIT",
    "LITERAL",
    "NEVER",
    "NODE_BYTES",
    "Node",
    "NodeId",
    "Op",
    "Operand",
    "PERMUTE",
    "RAW",
    "REPEAT",
    "REPEATABLE",
    "REQUIRED",
    "RuleId",
    "SCOPE",
    "SEQ",
    "TEMPERATURE",
    "TOKENS",
    "UTF8",
    "memory_of",
    "operands",
]

NodeId = NewType("NodeId", int)
RuleId = NewType("RuleId", int)

_Bytes = bytes  # GrammarBuilder has a method of this name
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A context-free grammar over bytes and tokens; `rules[r]` is the node of rule r, `names[r]` its name for messages."""

    nodes: tuple[Node, ...]
    rules: tuple[NodeId, ...]
    names: tuple[str, ...]
    root: RuleId

    def to_ebnf(self) -> str:
        """The rules that the root reaches, as text that `ebnf_grammar` reads as a grammar of the same language.

        grammar_text.py says how each operator is written.
        Raises GrammarError, which names the rule, if the root generates no text or the notation cannot say it.
        """
        return write_ebnf(self.nodes, self.rules, self.names, self.root)

    def __str__(self) -> str:
        """As `to_ebnf`; of a grammar that cannot be written the reason, as a comment."""
        try:
            return self.to_ebnf()
        except GrammarError as error:
            return f"# {error}"


@dataclass(slots=True)
class GrammarBuilder:
    """Builds a Grammar node by node.

    >>> b = GrammarBuilder()
    >>> pair = b.rule("pair")
    >>> b.define(pair, b.alt(b.literal(b"()"), b.seq(b.literal(b"("), b.call(pair), b.literal(b")"))))
    >>> print(b.build(pair))
    root ::= pair
    pair ::= "()" | "(" pair ")"
    """

    nodes: list[Node] = field(default_factory=list)
    index: dict[Node, NodeId] = field(default_factory=dict)
    rules: list[NodeId] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def copy(self) -> GrammarBuilder:
        """A builder of its own that begins with the same nodes and rules."""
        return GrammarBuilder(self.nodes.copy(), self.index.copy(), self.rules.copy(), self.names.copy())

    def node(self, node: Node) -> NodeId:
        """The index of `node`, added where it is new."""
        # PERF: a tuple does not keep its hash, so the table is asked once; and NodeId(...) is a call.
        nodes = self.nodes
        following: NodeId = len(nodes)  # type: ignore[assignment]
        found = self.index.setdefault(node, following)
        if found == following:
            nodes.append(node)
        return found

    def empty(self) -> NodeId:
        """The empty text."""
        return self.node((EMPTY,))

    def never(self) -> NodeId:
        """No text at all."""
        return self.node((NEVER,))

    def literal(self, data: bytes) -> NodeId:
        """These bytes."""
        return self.node((LITERAL, data) if data else (EMPTY,))

    def literals(self, texts: Iterable[_Bytes]) -> list[NodeId]:
        """Each of some texts, none of them empty, as `literal` has it. PERF: a schema may list thousands of values."""
        nodes, number = self.nodes, self.index.setdefault
        found: list[NodeId] = []
        for data in texts:
            node = (LITERAL, data)
            following: NodeId = len(nodes)  # type: ignore[assignment]
            place = number(node, following)
            if place == following:
                nodes.append(node)
            found.append(place)
        return found

    def bytes(self, ranges: tuple[int, ...]) -> NodeId:
        """One byte out of inclusive ranges (lo, hi, lo, hi, ...)."""
        return self.node((BYTES, ranges) if ranges else (NEVER,))

    def chars(self, ranges: tuple[int, ...], encoding: int = UTF8) -> NodeId:
        """One code point out of inclusive ranges (lo, hi, lo, hi, ...)."""
        return self.node((CHARS, ranges, encoding) if ranges else (NEVER,))

    def seq(self, *nodes: NodeId) -> NodeId:
        """The nodes one after the other."""
        return nodes[0] if len(nodes) == 1 else self.node((SEQ, *nodes) if nodes else (EMPTY,))

    def alt(self, *nodes: NodeId) -> NodeId:
        """Any one of the nodes."""
        return nodes[0] if len(nodes) == 1 else self.node((ALT, *nodes) if nodes else (NEVER,))

    def repeat(self, node: NodeId, minimum: int = 0, maximum: int = -1) -> NodeId:
        """`node` from `minimum` to `maximum` times, -1 for no bound.

        A repetition of a repetition is one repetition where the counts leave no gap: `(x{2,5}){3,4}` is `x{6,20}`, and `(x{2}){3,4}` stays.
        If they leave one only above none at all, it is optional: `(x{2,5}){0,4}` is `(x{2,20})?`.
        """
        if 0 <= maximum < minimum:
            return self.never()
        inner = self.nodes[node]
        if inner[0] == REPEAT and maximum:
            counts = nested_counts(inner[2], inner[3], minimum, maximum)
            if counts is not None:
                return self.repeat(inner[1], *counts)
            if minimum == 0 and maximum != 1:
                counts = nested_counts(inner[2], inner[3], 1, maximum)
                if counts is not None:
                    return self.optional(self.repeat(inner[1], *counts))
        return node if minimum == maximum == 1 else self.node((REPEAT, node, minimum, maximum) if maximum else (EMPTY,))

    def optional(self, node: NodeId) -> NodeId:
        """`node` or nothing."""
        return self.node((REPEAT, node, 0, 1))

    def graph(self, states: int, edges: tuple[int, ...]) -> NodeId:
        """An NFA over expressions: edges (source, target, node, ...), node -1 reads nothing, from state 0 to state 1."""
        return self.node((GRAPH, states, edges))

    def automaton(
        self,
        transitions: tuple[tuple[tuple[int, int, int], ...], ...],
        accepting: tuple[bool, ...],
        encoding: int = UTF8,
        *,
        minimum: int = 0,
        maximum: int = -1,
    ) -> NodeId:
        """A DFA over code points, start state 0; of its texts those of `minimum` to `maximum` code points, -1 for no bound."""
        if minimum <= 0 and maximum < 0:
            return self.node((AUTOMATON, transitions, accepting, encoding))
        return self.node((AUTOMATON, transitions, accepting, encoding, minimum, maximum))

    def except_words(self, words: Iterable[str], encoding: int = UTF8) -> NodeId:
        """Any text but these words; a word with a lone surrogate is no text and is left out."""
        found = {*words}
        if not "".join(found).isascii():
            found = {word for word in found if not _SURROGATE.search(word)}
        return self.node((EXCEPT, tuple(sorted(found)), encoding))

    def tokens(self, ids: tuple[int, ...], *, negated: bool = False, textless: bool = False) -> NodeId:
        """One token by id: one of `ids`, or any but these that has text, or with `textless` any but these."""
        return self.node((TOKENS, ids, 1 + textless if negated else 0))

    def permute(self, members: tuple[int, ...], separator: NodeId, *, minimum: int = 0, maximum: int = -1) -> NodeId:
        """Members (node, flags, ...) in any order, with a separator between two."""
        return self.node((PERMUTE, members, separator, minimum, maximum))

    def scope(self, node: NodeId) -> NodeId:
        """`node` with a new, empty set of values seen."""
        return self.node((SCOPE, node))

    def distinct(self, node: NodeId) -> NodeId:
        """A JSON value unlike all that were read by `distinct` before, in the innermost scope."""
        return self.node((DISTINCT, node))

    def limit(self, node: NodeId, *, tokens: int = -1) -> NodeId:
        """`node`, whose text ends as soon as it may once `tokens` tokens have contributed to it; -1 is no bound."""
        return node if tokens < 0 else self.node((LIMIT, node, tokens))

    def capture(self, node: NodeId, name: str) -> NodeId:
        """`node`, whose text can be asked for by this name."""
        return self.node((CAPTURE, node, name))

    def temperature(self, node: NodeId, value: float) -> NodeId:
        """`node`; tokens inside it are sampled at this temperature."""
        return self.node((TEMPERATURE, node, float(value)))

    def rule(self, name: str) -> RuleId:
        """A new rule, to be defined later."""
        self.rules.append(NodeId(-1))
        self.names.append(name)
        return RuleId(len(self.rules) - 1)

    def define(self, rule: RuleId, node: NodeId) -> None:
        """Give a rule its expression."""
        self.rules[rule] = node

    def call(self, rule: RuleId) -> NodeId:
        """A reference to a rule."""
        return self.node((CALL, rule))

    def build(self, root: RuleId) -> Grammar:
        """The finished grammar."""
        return Grammar(tuple(self.nodes), tuple(self.rules), tuple(self.names), root)


_MOST_COUNT: Final = 2**31 - 1
"""The largest count that the kernel reads."""


def nested_counts(least: int, most: int, minimum: int, maximum: int) -> tuple[int, int] | None:
    """The bounds of `(x{least,most}){minimum,maximum}` as one repetition of x; None where its counts have gaps or are too large.

    k rounds are k*least to k*most of x, and the next round begins at most one above where the last one ends: (k+1)*least <= k*most + 1.
    That is hardest for the fewest rounds. -1 is no bound, as in `GrammarBuilder.repeat`.

    >>> nested_counts(0, 99, 0, 99), nested_counts(2, 5, 3, -1), nested_counts(2, 3, 1, 2), nested_counts(2, 2, 1, 2)
    ((0, 9801), (6, -1), (2, 6), None)
    """
    rounds_meet = minimum >= 1 or least <= 1 if most < 0 else minimum * (most - least) >= least - 1
    if minimum != maximum and not rounds_meet:
        return None
    counts = minimum * least, -1 if most < 0 or maximum < 0 else maximum * most
    return None if max(counts) > _MOST_COUNT else counts


NODE_BYTES: Final = 160
"""About what a node or a rule takes: a tuple of three, its numbers and its place in the table."""
_TABLES: Final = {LITERAL: (1, 1), CHARS: (16, 1), TOKENS: (16, 1), GRAPH: (16, 2), PERMUTE: (16, 1), AUTOMATON: (240, 1), EXCEPT: (80, 1)}
"""The size of an entry of a node's table, and the position of the table; a state of an automaton is taken to have two transitions."""


def memory_of(nodes: Sequence[Node], rules: int) -> int:
    """About how many bytes nodes take, by the tables in them, and a number of rules; within a factor of two of the truth."""
    size, table_of = NODE_BYTES * (len(nodes) + rules), _TABLES.get
    for node in nodes:
        table = table_of(node[0])
        if table is not None:
            size += table[0] * len(node[table[1]])
    return size
