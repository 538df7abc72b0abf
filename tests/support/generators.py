"""Random grammars of the intermediate representation, written by a `Random`: for the fuzzer, and for hypothesis through `strategies`.

A new operator or feature extends this file.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from random import Random

from stackmask.pda.automata.dfa import Dfa
from stackmask.pda.automata.language import skips_lengths
from stackmask.pda.grammar import JSON, JSON_ANY, RAW, REPEATABLE, REQUIRED, UTF8, Grammar, GrammarBuilder, NodeId, RuleId

LITERALS = (
    b"a",
    b"b",
    b"ab",
    b"aba",
    b'"',
    b",",
    b'":',
    b"{",
    b"}",
    b"[",
    b"]",
    "é".encode(),
    "\U0001f600".encode(),
    b"\xc3",
    b"1",
    b"true",
)
CHARACTERS = (
    (0x61, 0x62),
    (0x61, 0x7A),
    (0xE0, 0xFF),
    (0x7F, 0x80),
    (0x7FF, 0x800),
    (0xD7FF, 0xE000),
    (0xFFFF, 0x10000),
    (0x1F600, 0x1F64F),
    (0, 0x1F),
    (0x22, 0x22, 0x5C, 0x5C),
    (0, 0x10FFFF),
    (0x20, 0x21, 0x23, 0x5B, 0x5D, 0x10FFFF),
)
BYTE_SETS = ((0x61, 0x62), (0x30, 0x39), (0, 0x1F, 0x22, 0x22), (0x80, 0xBF), (0, 0xFF), (0x20, 0x7E))
BOUNDS = ((0, 1), (0, -1), (1, -1), (2, 2), (0, 3), (1, 2), (3, -1), (2, 5), (0, 40), (17, 33), (30, -1))
WORDS = ("", "a", "ab", "abc", "b", "é", "日本", "a/b", 'q"')
JSON_WORDS = (b"true", b"false", b"null", b"1.0", b"0", b"-0", b"1e1", b'"a"', b'"\\u0061"', b"[]")


@dataclass(frozen=True, slots=True)
class Features:
    """What a random grammar may contain beside literals, sets, sequences, alternatives and repetitions."""

    calls: bool = True
    automata: bool = True
    counted: bool = False
    tokens: bool = False
    permutations: bool = True
    distinct: bool = True
    options: bool = False  # limits, captures and temperatures, which stand in no SCOPE
    left: bool = False  # bodies of repetitions and members that begin with a call, so that many counters are left recursive
    encodings: tuple[int, ...] = (UTF8, UTF8, JSON, JSON_ANY)


REGULAR = Features(calls=False, automata=False, permutations=False, distinct=False, encodings=(UTF8,))


def random_grammar(random: Random, features: Features, *, vocabulary: int = 8) -> Grammar:
    """A random grammar; `vocabulary` bounds the ids that its TOKENS name."""
    writer = _Writer(random, features, vocabulary)
    count = random.randint(1, 4) if features.calls else 1
    writer.rules = [writer.builder.rule(f"r{i}") for i in range(count)]
    for rule in writer.rules:
        writer.builder.define(rule, writer.expression(random.randint(1, 3)))
    return writer.builder.build(writer.rules[0])


@dataclass(slots=True)
class _Writer:
    """Writes one random grammar; each method makes an expression at most `depth` deep."""

    random: Random
    features: Features
    vocabulary: int
    builder: GrammarBuilder = field(default_factory=GrammarBuilder)
    rules: list[RuleId] = field(default_factory=list)

    def expression(self, depth: int) -> NodeId:
        """A random expression."""
        if depth == 0:
            return self.leaf()
        features = self.features
        kinds = ["leaf", "seq", "seq", "alt", "alt", "repeat"]
        kinds += ["call"] * 2 if features.calls else []
        kinds += ["graph"] if features.automata else []
        kinds += ["permute"] if features.permutations else []
        kinds += ["scope"] if features.distinct else []
        kinds += ["option"] * 3 if features.options else []
        kinds += ["left"] * 3 if features.left else []
        kind = self.random.choice(kinds)
        return getattr(self, kind)(depth - 1)  # type: ignore[no-any-return]

    def some(self, depth: int, least: int = 0, most: int = 3) -> list[NodeId]:
        """A few expressions."""
        return [self.expression(depth) for _ in range(self.random.randint(least, most))]

    def leaf(self, depth: int = 0) -> NodeId:
        """A literal, a set of bytes or characters, an automaton, tokens, or a call."""
        kinds = ["literal"] * 4 + ["chars"] * 2 + ["bytes", "empty"]
        kinds += ["automaton", "others"] if self.features.automata else []
        kinds += ["tokens"] if self.features.tokens else []
        kinds += ["call"] if self.features.calls else []
        kind = self.random.choice(kinds)
        match kind:
            case "literal":
                return self.builder.literal(self.random.choice(LITERALS))
            case "chars":
                encoding = self.random.choice(self.features.encodings)
                few = CHARACTERS[:8] if self.features.encodings == (UTF8,) else CHARACTERS
                return self.builder.chars(self.random.choice(few), encoding)
            case "bytes":
                return self.builder.bytes(self.random.choice(BYTE_SETS))
            case "empty":
                return self.builder.empty()
            case "automaton":
                return self.automaton()
            case "others":
                words = [word for word in WORDS if self.random.random() < 0.4]
                return self.builder.except_words(words, self.random.choice(self.features.encodings))
            case "tokens":
                ids = self.random.sample(range(self.vocabulary), self.random.randint(1, min(4, self.vocabulary)))
                return self.builder.tokens(tuple(sorted(ids)), negated=self.random.random() < 0.5, textless=self.random.random() < 0.5)
        return self.call(depth)

    def seq(self, depth: int) -> NodeId:
        return self.builder.seq(*self.some(depth))

    def alt(self, depth: int) -> NodeId:
        return self.builder.alt(*self.some(depth, 1, 4))

    def repeat(self, depth: int) -> NodeId:
        minimum, maximum = self.random.choice(BOUNDS)
        return self.builder.repeat(self.expression(depth), minimum, maximum)

    def call(self, depth: int) -> NodeId:
        return self.builder.call(self.random.choice(self.rules))

    def graph(self, depth: int) -> NodeId:
        states = self.random.randint(2, 5)
        edges: list[int] = []
        for _ in range(self.random.randint(1, 6)):
            source, target = self.random.randint(0, states - 1), self.random.randint(0, states - 1)
            edges += [source, target, -1 if self.random.randint(0, 4) == 0 else self.expression(depth)]
        return self.builder.graph(states, tuple(edges))

    def automaton(self) -> NodeId:
        """A DFA over disjoint ranges of characters."""
        states = self.random.randint(1, 4)
        encoding = self.random.choice((*self.features.encodings, RAW))
        cuts = (
            (0, 0x20, 0x22, 0x23, 0x61, 0x62, 0x63, 0x80)
            if encoding == RAW
            else (0, 0x22, 0x5C, 0x61, 0x62, 0x7B, 0xE0, 0x800, 0x10000, 0x1F600)
        )
        transitions: list[tuple[tuple[int, int, int], ...]] = []
        for _ in range(states):
            kept = [(lo, hi - 1) for lo, hi in itertools.pairwise(cuts) if self.random.random() < 0.5]
            transitions.append(tuple((lo, hi, self.random.randint(0, states - 1)) for lo, hi in kept))
        automaton = Dfa(tuple(transitions), tuple(self.random.random() < 0.5 for _ in range(states)))
        minimum, maximum = self.bounds(automaton) if self.features.counted else (0, -1)
        return self.builder.automaton(automaton.transitions, automaton.accepting, encoding, minimum=minimum, maximum=maximum)

    def bounds(self, automaton: Dfa) -> tuple[int, int]:
        """Bounds on the number of characters that a counted automaton may have."""
        minimum = self.random.randint(0, 4)
        maximum = self.random.choice((-1, self.random.randint(minimum, 8)))
        return (minimum, maximum) if maximum < 0 or not skips_lengths(automaton, maximum - minimum + 1) else (0, maximum)

    def permute(self, depth: int) -> NodeId:
        members = [
            number
            for part in self.some(depth, 1, 4)
            for number in (part, self.random.choice((0, REQUIRED, REPEATABLE, REQUIRED | REPEATABLE, 0)))
        ]
        separator = self.random.choice((b",", b"", b", ", b"a"))
        minimum, maximum = self.random.choice(((0, -1), (0, -1), (1, -1), (2, 3), (0, 2), (3, 3), (2, -1)))
        return self.builder.permute(tuple(members), self.builder.literal(separator), minimum=minimum, maximum=maximum)

    def left(self, depth: int) -> NodeId:
        """A counted repetition or a permutation that a rule is called in before anything is read, and another way."""
        builder, pick = self.builder, self.random.choice
        body = builder.seq(self.call(depth), self.expression(depth)) if self.random.random() < 0.5 else self.call(depth)
        if self.random.random() < 0.5:
            minimum, maximum = pick(BOUNDS)
            counted = builder.repeat(body, minimum, maximum)
        else:
            members = (body, pick((0, REQUIRED, REPEATABLE)), self.expression(depth), pick((0, REQUIRED)))
            counted = builder.permute(members, builder.literal(pick((b",", b""))))
        return builder.alt(counted, self.leaf())

    def option(self, depth: int) -> NodeId:
        """An expression with a limit, a capture or a temperature."""
        body = self.expression(depth)
        match self.random.randint(0, 4):
            case 0:
                return self.builder.capture(body, self.random.choice("xy"))
            case 1:
                return self.builder.temperature(body, self.random.choice((0.0, 0.5, 2.0)))
        return self.builder.limit(body, tokens=self.random.choice((0, 1, 1, 2, 2, 3, 5)))

    def scope(self, depth: int) -> NodeId:
        """An array of different values, DISTINCT in the same rule as its SCOPE."""
        builder = self.builder
        minimum, maximum = self.random.choice(((0, -1), (0, -1), (1, -1), (2, 3)))
        # One value may take the last one from the next: pda/grammar.py has a SCOPE count where that can be.
        value = builder.distinct(self.value(min(depth, 1), endless=minimum > 0))
        more = builder.repeat(builder.seq(builder.literal(b","), value), minimum, maximum)
        return builder.scope(builder.seq(builder.literal(b"["), value, more, builder.literal(b"]")))

    def value(self, depth: int, *, endless: bool) -> NodeId:
        """JSON values, mostly infinitely many and surely if they are to be endless, some of them in several spellings."""
        builder = self.builder
        digits = builder.bytes((0x30, 0x39))
        options = [builder.repeat(builder.bytes((0x31, 0x39)), 1, -1)] if endless or self.random.random() < 0.7 else [builder.literal(b"7")]
        options += [builder.literal(word) for word in JSON_WORDS if self.random.random() < 0.3]
        if self.random.random() < 0.5:
            characters = builder.chars((0x20, 0x7E, 0xE0, 0xFF), self.random.choice((JSON, JSON_ANY)))
            options.append(builder.seq(builder.literal(b'"'), builder.repeat(characters), builder.literal(b'"')))
        if self.random.random() < 0.5:
            options.append(builder.seq(builder.literal(b'{"a":'), builder.repeat(digits, 1, 2), builder.literal(b',"b":1}')))
            options.append(builder.seq(builder.literal(b'{"b":1,"a":'), builder.repeat(digits, 1, 2), builder.literal(b"}")))
        if depth:
            options.append(self.scope(depth - 1))
        return builder.alt(*options)
