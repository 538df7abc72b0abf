r"""Grammars as GBNF, the notation of llama.cpp, for servers that take nothing else.

    gbnf = to_gbnf(regex_grammar("(?!ab)[a-c]{2}"))
    gbnf.text       the rules
    gbnf.lost       what GBNF cannot say, a sentence each

GBNF has literals, classes of characters, sequences, alternatives, repetitions and tokens by their ids. All else is rewritten to these:

    code points inside JSON strings         classes, beside the escapes spelt out
    automata, and all texts but some words  right-linear rules
    counted automata                        a repetition, or their product with the counter while that has at most PRODUCT states
    members in any order                    a graph of the sets of members, while that has at most PRODUCT states
    more than 2,000 repetitions             repetitions of repetitions: llama.cpp has no bound above 2,000

What is left over is dropped and reported: bounds of larger products, values that must differ, limits on tokens, temperatures. The text then
stands for more than the grammar, never for less; where nothing is lost, it stands for the same.
llama.cpp takes no left recursion; a grammar whose text has some is an error that names the rule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Final

from .analysis import nullable, productive
from .automata import charset
from .exceptions import GrammarError
from .grammar import Grammar, GrammarBuilder, NodeId, RuleId
from .grammar_text import ATOM, LONGEST_LINE, Text, Writer, alternatives, identifier
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
    operands,
)
from .reference.spelling import spellings

REPETITIONS: Final = 2000
"""The largest count of a repetition in llama.cpp."""
PRODUCT: Final = 4096
"""The largest number of states that a counted automaton or a permutation is written out in."""
BLOCK: Final = 1000  # of repetitions beyond that, this many at a time
MANY: Final = 16  # a repetition of more is a rule of its own

Automaton = tuple[tuple[tuple[int, int, int], ...], ...]

_QUOTED: Final = re.compile(r"""("(?:[^"\\]|\\.)*")|'((?:[^'\\]|\\.)*)'|(\[(?:[^\]\\]|\\.)*\])""")
_ESCAPED: Final = re.compile(r"\\(.)", re.S)


@dataclass(frozen=True, slots=True)
class Gbnf:
    """A grammar in GBNF, and what of it GBNF cannot say: the text stands for the same language where `lost` is empty, else for more."""

    text: str
    lost: tuple[str, ...]

    def __str__(self) -> str:
        return self.text


def to_gbnf(grammar: Grammar) -> Gbnf:
    r"""A grammar in GBNF; GrammarError where it generates no text, has raw bytes, or is left-recursive.

    >>> from stackmask.pda.ebnf import ebnf_grammar
    >>> print(to_gbnf(ebnf_grammar('root ::= "a" [0-9]{2,3} | Permute(x, y)\nx ::= "x"\ny ::= "y"')))
    root ::= "a" [0-9]{2,3} | y x | x y
    x ::= "x"
    y ::= "y"
    """
    lowering = _Lowering(grammar)
    lowered = lowering.run()
    names = [_name(name) for name in grammar.names]
    text = _Writer(lowered.nodes, lowered.rules, names).write(lowered.root)
    text = _QUOTED.sub(_quoted, text)
    _check_left_recursion(text, has_tokens=any(node[0] == TOKENS for node in lowered.nodes))
    return Gbnf(text, tuple(dict.fromkeys(lowering.lost)))


class _Lowering:
    """The same grammar with the operators that GBNF has."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.builder = GrammarBuilder()
        self.lost: list[str] = []
        self._owner = ""
        self._done: dict[int, NodeId] = {}

    def run(self) -> Grammar:
        """The rules that the root reaches; others are left without a text."""
        grammar, builder = self.grammar, self.builder
        rules = [builder.rule(name) for name in grammar.names]
        generates, rule_generates = productive(grammar.nodes, grammar.rules)
        waiting, seen = [grammar.root], {grammar.root}
        while waiting:
            rule = waiting.pop()
            self._owner = grammar.names[rule]
            for index in _below(grammar.nodes, grammar.rules[rule], self._done):
                node = grammar.nodes[index]
                if node[0] == CALL and node[1] not in seen:
                    seen.add(node[1])
                    waiting.append(node[1])
                self._done[index] = self._lower(node) if generates[index] else builder.never()
            builder.define(rules[rule], self._done[grammar.rules[rule]])
        for number, unused in enumerate(rules):
            if number not in seen:
                builder.define(unused, builder.never())
        if not rule_generates[grammar.root]:
            raise GrammarError(f"rule `{grammar.names[grammar.root]}` generates no text, so there is nothing to write")
        return Grammar(tuple(builder.nodes), tuple(builder.rules), grammar.names, grammar.root)

    def _lose(self, what: str) -> None:
        self.lost.append(f"rule `{self._owner}`: {what}")

    def _lower(self, node: Node) -> NodeId:
        """One node, whose operands are lowered."""
        builder, done = self.builder, self._done
        match node:
            case (op,) if op == EMPTY:
                return builder.empty()
            case (op,) if op == NEVER:
                return builder.never()
            case (op, data) if op == LITERAL:
                if not _is_text(data):
                    raise GrammarError(f"rule `{self._owner}`: the bytes {data!r} are not UTF-8, and GBNF spells characters")
                return builder.literal(data)
            case (op, ranges) if op == BYTES:
                if any(byte > 0x7F for byte in ranges):
                    raise GrammarError(f"rule `{self._owner}`: bytes above 0x7F are not characters, and GBNF spells characters")
                return builder.chars(ranges)
            case (op, ranges, encoding) if op == CHARS:
                return self._chars(ranges, encoding)
            case (op, *parts) if op == SEQ:
                return builder.seq(*(done[part] for part in parts))
            case (op, *parts) if op == ALT:
                return builder.alt(*(done[part] for part in parts))
            case (op, part, minimum, maximum) if op == REPEAT:
                return self._repeat(done[part], minimum, maximum)
            case (op, rule) if op == CALL:
                return builder.call(RuleId(rule))
            case (op, states, edges) if op == GRAPH:
                labels = [done[part] if part >= 0 else -1 for part in edges[2::3]]
                return builder.graph(states, tuple(x for edge in zip(edges[::3], edges[1::3], labels, strict=True) for x in edge))
            case (op, transitions, accepting, encoding, *bounds) if op == AUTOMATON:
                minimum, maximum = bounds or (0, -1)
                return self._counted(transitions, accepting, encoding, minimum, maximum)
            case (op, words, encoding) if op == EXCEPT:
                return self._automaton(*_all_but(words), encoding)
            case (op, ids, negated) if op == TOKENS:
                others = [f"tokens {', '.join(map(str, ids[1:]))}"] if len(ids) > 1 else []
                lost = ["tokens without text", *others] if negated == 1 else others if negated else []
                if lost:
                    self._lose(f"a token other than some also allows {' and '.join(lost)}")
                return builder.tokens(ids, negated=bool(negated))
            case (op, members, separator, minimum, maximum) if op == PERMUTE:
                pairs = [(done[part], flags) for part, flags in zip(members[::2], members[1::2], strict=True)]
                return self._permute([pair for pair in pairs if builder.nodes[pair[0]][0] != NEVER], done[separator], minimum, maximum)
            case (op, part, *rest) if op in (SCOPE, DISTINCT, LIMIT, CAPTURE, TEMPERATURE):
                if op == DISTINCT:
                    self._lose("values need not differ from each other")
                elif op == LIMIT:
                    self._lose(f"there is no limit of {rest[0]} tokens")
                elif op == TEMPERATURE:
                    self._lose(f"the temperature {rest[0]:g} is left to the sampler")
                return done[part]
        raise AssertionError(node)

    def _chars(self, ranges: tuple[int, ...], encoding: int) -> NodeId:
        """One character of some, as it is written in an encoding."""
        builder = self.builder
        if encoding in (UTF8, RAW):
            return builder.chars(ranges)
        plain: list[tuple[int, int]] = []
        escapes: dict[tuple[tuple[int, ...], ...], list[tuple[int, int]]] = {}  # by all but their last characters
        for low, high in charset.pairs(ranges):
            plain += [(max(low, a), min(high, b)) for a, b in ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)) if max(low, a) <= min(high, b)]
            for spelling in spellings(low, high, encoding):
                if spelling[0] == (0x5C, 0x5C):
                    escapes.setdefault(tuple(map(_joined, spelling[:-1])), []).extend(charset.pairs(spelling[-1]))
        choices = [builder.chars(tuple(charset.from_ranges(plain)))] if plain else []
        for before, last in escapes.items():
            choices.append(builder.seq(*map(builder.chars, before), builder.chars(tuple(charset.from_ranges(last)))))
        return builder.alt(*choices)

    def _repeat(self, part: NodeId, minimum: int, maximum: int) -> NodeId:
        """A repetition whose counts are not too large for llama.cpp."""
        if max(minimum, maximum) <= REPETITIONS:
            return self._times(part, minimum, maximum)
        rest = self._up_to(part, maximum - minimum) if maximum >= 0 else self._times(part, 0, -1)
        return self.builder.seq(self._exactly(part, minimum), rest)

    def _exactly(self, part: NodeId, count: int) -> NodeId:
        if count <= REPETITIONS:
            return self._times(part, count, count)
        blocks, rest = divmod(count, BLOCK)
        return self.builder.seq(self._exactly(self._times(part, BLOCK, BLOCK), blocks), self._times(part, rest, rest))

    def _up_to(self, part: NodeId, count: int) -> NodeId:
        """At most `count`: some blocks of b, and then at most b and the remainder, so that no number of blocks leaves a gap."""
        if count <= REPETITIONS:
            return self._times(part, 0, count)
        block = min(isqrt(count), BLOCK)
        blocks = count // block - 1
        whole = self._up_to(self._times(part, block, block), blocks)
        return self.builder.seq(whole, self._up_to(part, count - blocks * block))

    def _times(self, part: NodeId, minimum: int, maximum: int) -> NodeId:
        """A repetition as it is: the builder would make one of two that stand for a larger count."""
        if maximum == 0:
            return self.builder.empty()
        return part if minimum == maximum == 1 else self.builder.node((REPEAT, part, minimum, maximum))

    def _counted(self, transitions: Automaton, accepting: Sequence[int], encoding: int, minimum: int, maximum: int) -> NodeId:
        """The texts of an automaton that have a given number of characters."""
        if encoding == RAW and any(high > 0x7F for row in transitions for _, high, _ in row):
            raise GrammarError(f"rule `{self._owner}`: bytes above 0x7F are not characters, and GBNF spells characters")
        if minimum <= 0 and maximum < 0:
            return self._automaton(transitions, accepting, encoding)
        if len(transitions) == 1 and accepting[0]:
            ranges = charset.from_ranges([(low, high) for low, high, _ in transitions[0]])
            return self._repeat(self._chars(tuple(ranges), encoding), max(minimum, 0), maximum)
        bound = maximum if maximum >= 0 else minimum
        if len(transitions) * (bound + 1) > PRODUCT:
            bounds = [f"fewer than {minimum}"] * (minimum > 0) + [f"more than {maximum}"] * (maximum >= 0)
            self._lose(f"texts of a pattern may have {' or '.join(bounds)} characters")
            return self._automaton(transitions, accepting, encoding)
        width = len(transitions)
        rows: list[tuple[tuple[int, int, int], ...]] = []
        ends: list[int] = []
        for count in range(bound + 1):
            after = count + 1 if count < bound else count if maximum < 0 else -1  # beyond a minimum nothing is counted
            for state in range(width):
                rows.append(tuple((low, high, after * width + target) for low, high, target in transitions[state] if after >= 0))
                ends.append(bool(accepting[state]) and count >= minimum)
        return self._automaton(tuple(rows), ends, encoding)

    def _automaton(self, transitions: Automaton, accepting: Sequence[int], encoding: int) -> NodeId:
        """A DFA, whose state s is state s + 2 of a graph where its characters have escapes."""
        if encoding in (UTF8, RAW):
            return self.builder.automaton(transitions, tuple(map(bool, accepting)))
        edges = [0, 2, -1]
        for state, row in enumerate(transitions):
            by_target: dict[int, list[tuple[int, int]]] = {}
            for low, high, target in row:
                by_target.setdefault(target, []).append((low, high))
            for target, ranges in by_target.items():
                edges += [state + 2, target + 2, self._chars(tuple(charset.from_ranges(ranges)), encoding)]
            if accepting[state]:
                edges += [state + 2, 1, -1]
        return self.builder.graph(len(transitions) + 2, tuple(edges))

    def _permute(self, members: Sequence[tuple[NodeId, int]], separator: NodeId, minimum: int, maximum: int) -> NodeId:
        """Members in any order, as a graph whose states are the set of those that occurred, and how many did."""
        builder = self.builder
        if builder.nodes[separator][0] == NEVER:
            maximum = 1 if maximum < 0 else min(maximum, 1)  # no two can stand beside each other
        bound = max(1, minimum, maximum)
        if (bound + 1) << len(members) > PRODUCT:
            if any(not flags & REPEATABLE for _, flags in members):
                self._lose(f"{len(members)} members in any order may be repeated or left out")
            any_member = builder.alt(*(part for part, _ in members))
            most = maximum - 1 if maximum >= 0 else -1
            some = builder.seq(any_member, self._repeat(builder.seq(separator, any_member), max(minimum - 1, 0), most))
            return some if minimum > 0 else builder.optional(some)
        required = sum(1 << place for place, (_, flags) in enumerate(members) if flags & REQUIRED)
        states: dict[tuple[int, int], int] = {(0, 0): 0}
        edges: list[int] = []
        for used, count in (pending := [(0, 0)]):  # which grows
            source = states[used, count]
            if used & required == required and count >= minimum:
                edges += [source, 1, -1]
            if 0 <= maximum <= count:
                continue
            for place, (part, flags) in enumerate(members):
                if used >> place & 1 and not flags & REPEATABLE:
                    continue
                following = (used | 1 << place, min(count + 1, bound))
                if following not in states:
                    states[following] = len(states) + 1  # 1 is the end
                    pending.append(following)
                edges += [source, states[following], part if count == 0 else builder.seq(separator, part)]
        return builder.graph(len(states) + 1, tuple(edges))


class _Writer(Writer):
    """The writer of EBNF, where GBNF is written otherwise."""

    def _find_own(self) -> set[int]:
        """A counted repetition is a rule, and so is its body: llama.cpp multiplies the counts of nested ones."""
        own = super()._find_own()
        for index, node in enumerate(self.nodes):
            if node[0] == REPEAT and max(node[2], node[3]) > 1:
                if self.nodes[node[1]][0] not in (CHARS, LITERAL):
                    own.add(node[1])
                if max(node[2], node[3]) > MANY:
                    own.add(index)
        return own

    def _body(self, index: int) -> Text:
        node = self.nodes[index]
        if node[0] != TOKENS:
            return super()._body(index)
        ids, negated = node[1:]
        if not negated:
            return alternatives([Text(f"<[{token}]>", ATOM) for token in ids])
        first = ids[0] if ids else 0
        other = Text(f"!<[{first}]>", ATOM)
        return other if ids else alternatives([Text(f"<[{first}]>", ATOM), other])

    def _put(self, name: str, head: str, body: Text) -> None:
        """Write a rule; a line may only end after an operator."""
        line = f"{head} ::= {body.text}"
        if len(line) > LONGEST_LINE and len(body.choices) > 1:
            line = f"{head} ::=\n    " + " |\n    ".join(body.choices)
        self.written[name] = line


def _below(nodes: Sequence[Node], root: int, done: dict[int, NodeId]) -> list[int]:
    """A node and those below it that are not done, each after its parts."""
    found: list[int] = []
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        index = waiting.pop()
        if index not in seen and index not in done:
            seen.add(index)
            found.append(index)
            waiting += operands(nodes[index])
    return sorted(found)  # parts precede the nodes that contain them


def _all_but(words: Sequence[str]) -> tuple[Automaton, list[bool]]:
    """A DFA of all texts but some words: their trie, and a state behind it."""
    children: list[dict[int, int]] = [{}, {}]
    ends = {0} if "" in words else set[int]()
    for word in words:
        state = 0
        for character in word:
            if ord(character) not in children[state]:
                children[state][ord(character)] = len(children)
                children.append({})
            state = children[state][ord(character)]
        ends.add(state)
    rows = []
    for known in children:
        row, low = [], 0
        for point, target in sorted(known.items()):
            row += [(low, point - 1, 1)] * (low < point) + [(point, point, target)]
            low = point + 1
        rows.append((*row, *[(low, 0x10FFFF, 1)] * (low <= 0x10FFFF)))
    return tuple(rows), [state not in ends for state in range(len(children))]


def _joined(position: Sequence[int]) -> tuple[int, ...]:
    """The byte ranges of a position in order."""
    return tuple(charset.from_ranges(charset.pairs(tuple(position))))


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _name(name: str) -> str:
    """A rule's name in letters, digits and hyphens."""
    name = re.sub(r"[^A-Za-z0-9-]", "-", name)
    return name if re.match(r"[A-Za-z]", name) and identifier(name) == name else f"r-{name}"


def _quoted(found: re.Match[str]) -> str:
    """A literal in double quotes, and a class with the escapes that GBNF has."""
    double, single, chars = found.groups()
    if double is not None:
        return str(double)
    if single is not None:
        return '"' + single.replace('"', '\\"') + '"'
    return _ESCAPED.sub(lambda escape: f"\\x{ord(escape[1]):02X}" if escape[1] in "^-#" else escape[0], chars)


def _check_left_recursion(text: str, *, has_tokens: bool) -> None:
    """GrammarError where a rule of a GBNF can begin with itself."""
    from .ebnf import ebnf_grammar  # PERF: loads lark, which `import stackmask` does without

    if has_tokens:
        text = re.sub(r"!?<\[[0-9]+\]>", '"t"', text)
    grammar = ebnf_grammar(text)
    empty = nullable(grammar.nodes, grammar.rules)[0]
    begins: dict[int, set[int]] = {}
    for rule, body in enumerate(grammar.rules):
        calls: set[int] = set()
        waiting: list[int] = [body]
        for index in waiting:  # which grows
            node = grammar.nodes[index]
            if node[0] == CALL:
                calls.add(node[1])
            elif node[0] == SEQ:
                for part in node[1:]:
                    waiting.append(part)
                    if not empty[part]:
                        break
            else:
                waiting += operands(node)
                if node[0] == REPEAT and node[3] != 1 and empty[node[1]]:
                    raise GrammarError(f"rule `{grammar.names[rule]}` repeats what may be empty, which llama.cpp takes for left recursion")
        begins[rule] = calls
    for rule in begins:
        seen = set[int]()
        pending = list(begins[rule])
        while pending:
            call = pending.pop()
            if call == rule:
                raise GrammarError(f"rule `{grammar.names[rule]}` is left-recursive, which llama.cpp does not take")
            if call not in seen:
                seen.add(call)
                pending += begins[call]
