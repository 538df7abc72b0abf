r"""Grammars as text: the EBNF of pda/ebnf, which reads it back as a grammar of the same language.

    EMPTY, LITERAL, CHARS       "", "text" or 'text', [a-z]
    SEQ, ALT, REPEAT, CALL      a b, a | b, a* a+ a? a{2,3}, name
    TOKENS                      Token(5), ExcludeToken(5), AnyToken()
    PERMUTE                     Permute(a, (b, "?"), separator=c)
    EXCEPT                      .* - ("a" | "b")
    LIMIT, CAPTURE, TEMPERATURE, SCOPE, DISTINCT
                                a rule with the option max_tokens, capture, temperature, scope or distinct
    other encodings than UTF-8, counted automata
                                a rule with the options encoding, min_chars and max_chars, whose body spells code points
    GRAPH, AUTOMATON            an expression as far as the graph is one, and for each state where ways meet again a rule, which is
                                right-linear: a state is what can be read from it on

Expressions that generate no text are left out: NEVER, and those that need it.
An expression that stands in several places, or deep inside others, becomes a rule too, so that the text is linear in the grammar.

A graph turns into expressions by the three steps of Kleene's construction that copy nothing: ways between the same two states are
alternatives, a state with one way in and one way out is a sequence, and a way from a state to itself a repetition.
(Brzozowski and McCluskey 1963 continue with the remaining states, and copy: exponentially many symbols in the worst case.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from .analysis import nullable, productive
from .automata import charset
from .automata.charset import ANY, CharSet
from .exceptions import GrammarError
from .operators import (
    ALT,
    AUTOMATON,
    BYTES,
    CALL,
    CAPTURE,
    CHARS,
    DISTINCT,
    EMPTY,
    ENCODINGS,
    EXCEPT,
    GRAPH,
    LIMIT,
    LITERAL,
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

LONGEST_COPY: Final = 24
"""An expression that stands in several places and is longer than about this many characters becomes a rule."""
DEEPEST: Final = 12
"""An expression nested deeper than this becomes a rule."""
LONGEST_LINE: Final = 100
"""A rule longer than this has each of its alternatives on a separate line."""

_WRAPPERS: Final = (DISTINCT, SCOPE, LIMIT, TEMPERATURE, CAPTURE)  # from the inside to the outside, as the options of a rule apply
_RESERVED: Final = re.compile(r"i|true|false|[0-9].*|-.*|(?:Any|Exclude)?Token|Regex|Substring|Permute|(?:Token)?TagDispatch")
_QUANTIFIERS: Final = {(0, -1): "*", (1, -1): "+", (0, 1): "?", (1, 1): ""}
_ESCAPES: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\"}


class Text(NamedTuple):
    """An expression as text; `level` is its kind, and `choices` are its alternatives, or only itself."""

    text: str
    level: int
    choices: tuple[str, ...] = ()
    literal: str | None = None  # its text, if it is only a literal


ALTERNATIVES, SEQUENCE, REPETITION, ATOM = range(4)
EPSILON: Final = Text('""', ATOM, literal="")


def write_ebnf(nodes: Sequence[Node], rules: Sequence[int], names: Sequence[str], root: int) -> str:
    """The grammar with these nodes and rules as text, beginning with its root; GrammarError where it cannot be written."""
    return Writer(nodes, rules, names).write(root)


class Writer:
    """Writes the rules that the root reaches, each when it is first referred to."""

    def __init__(self, nodes: Sequence[Node], rules: Sequence[int], names: Sequence[str]) -> None:
        self.nodes = nodes
        self.rules = rules
        self.names = names
        self.generates, self.rule_generates = productive(nodes, rules)
        if any(node[0] == LIMIT and node[2] == 0 for node in nodes):
            # No token at all: the empty text where the body has it, else one token.
            empty = nullable(nodes, rules)[0]
            nodes = self.nodes = [(EMPTY,) if node[0] == LIMIT and node[2] == 0 and empty[node[1]] else node for node in nodes]
        self.used = Counter(identifier(name) for name in names)
        self.taken: set[str] = {"root"}
        self.rule_names: dict[int, str] = {}
        self.node_names: dict[int, str] = {}
        self.written: dict[str, str] = {}
        self.pending: list[tuple[str, int]] = []
        self.current = ""
        self.helpers: Counter[str] = Counter()
        self.owners: dict[str, str] = {}  # of the rules for parts: the rule of the grammar that they are parts of
        self.references = Counter(part for node in nodes for part in operands(node)) + Counter(body for body in rules if body >= 0)
        self.own = self._find_own()

    def write(self, root: int) -> str:
        """The text of all rules."""
        if not 0 <= root < len(self.rules) or not self.rule_generates[root]:
            name = self.names[root] if 0 <= root < len(self.names) else "root"
            raise GrammarError(f"rule `{name}` generates no text, so there is nothing to write")
        if identifier(self.names[root]) == "root" and self.used["root"] == 1:
            self.rule_names[root] = "root"
            self._await("root", self.rules[root])
        else:
            self.written["root"] = f"root ::= {self._rule(root)}"
        for name, node in self.pending:  # which grows
            self.current = name
            self._define(name, node)
        return "\n".join(self.written.values())

    # Which expressions become rules.

    def _find_own(self) -> set[int]:
        """The nodes that become rules, since they stand in several places, or deep inside of others, or need options."""
        sizes: list[int] = []
        depths: list[int] = []
        own: set[int] = set()
        for index, node in enumerate(self.nodes):
            parts = [part for part in operands(node) if self.generates[part]]
            size = _size(node) + sum(sizes[part] for part in parts)
            depth = 1 + max((depths[part] for part in parts), default=0)
            shared = self.references[index] > 1 and size > LONGEST_COPY and node[0] != CALL
            if shared or depth > DEEPEST or node[0] in _WRAPPERS or _options(node):
                own.add(index)
                size, depth = 8, 1
            sizes.append(size)
            depths.append(depth)
        return own

    # Names.

    def _unique(self, wanted: str) -> str:
        """A name that no other rule has."""
        name, number = wanted, 1
        while name in self.taken:
            number += 1
            name = f"{wanted}-{number}"
        self.taken.add(name)
        return name

    def _helper(self, wanted: str = "") -> str:
        """The name of a rule for a part of the current one."""
        if wanted:
            return self._unique(wanted if wanted not in self.used else f"{wanted}-1")
        owner = self.owners.get(self.current, self.current)
        while True:
            self.helpers[owner] += 1
            name = f"{owner}-{self.helpers[owner]}"
            if name not in self.taken and name not in self.used:
                self.owners[name] = owner
                return self._unique(name)

    def _rule(self, rule: int) -> str:
        """The name of a rule, which is written later."""
        if rule not in self.rule_names:
            name = identifier(self.names[rule])
            self.rule_names[rule] = self._unique(name if self.used[name] == 1 else f"{name}{rule}")
            self._await(self.rule_names[rule], self.rules[rule])
        return self.rule_names[rule]

    def _await(self, name: str, node: int) -> None:
        """A rule to be written, which from now on stands for its node."""
        self.node_names.setdefault(node, name)
        self.pending.append((name, node))

    def _named(self, index: int) -> str:
        """The name of a rule for a node."""
        node = self.nodes[index]
        if node[0] == CALL:
            return self._rule(node[1])
        if index not in self.node_names:
            self._await(self._helper(_HELPERS.get(node[0], "") if _options(node) else ""), index)
        return self.node_names[index]

    # Rules.

    def _define(self, name: str, index: int) -> None:
        """Write the rule of a node."""
        self.written[name] = ""  # so that a rule stands before its parts
        first = index
        options: list[str] = []
        rank = len(_WRAPPERS)
        while (operator := self.nodes[index][0]) in _WRAPPERS[:rank] and self.node_names[first] == name:
            rank = _WRAPPERS.index(operator)
            options[:0] = self._wrapping(self.nodes[index], name)
            index = self.nodes[index][1]
        encoded = _options(self.nodes[index])
        taken = options and (encoded or self.nodes[index][0] in _WRAPPERS or self.references[index] > 1)
        if index in self.own and (taken or self.node_names.get(index, name) != name):
            body = Text(self._named(index), ATOM)
        else:
            options += encoded
            body = self._body(index)
        self._put(name, f"{name}[{', '.join(options)}]" if options else name, body)

    def _put(self, name: str, head: str, body: Text) -> None:
        """Write a rule."""
        line = f"{head} ::= {body.text}"
        if len(line) > LONGEST_LINE and len(body.choices) > 1:
            line = f"{head} ::=\n    " + "\n  | ".join(body.choices)
        self.written[name] = line

    def _wrapping(self, node: Node, name: str) -> list[str]:
        """The option that stands for an operator around an expression."""
        match node:
            case (operator, _, tokens) if operator == LIMIT:
                return [f"max_tokens={max(tokens, 1)}"]
            case (operator, _, value) if operator == TEMPERATURE:
                return [f"temperature={_number(value)}"]
            case (operator, _, capture) if operator == CAPTURE:
                if not capture:
                    raise GrammarError(f"rule `{name}`: CAPTURE without a name cannot be written in EBNF")
                return ["capture" if capture == name else f"capture={_quoted_name(capture)}"]
            case (operator, *_):
                return ["scope" if operator == SCOPE else "distinct"]
        raise AssertionError(node)

    # Expressions.

    def _text(self, index: int) -> Text:
        """An expression, as a part of another."""
        return Text(self._named(index), ATOM) if index in self.own else self._body(index)

    def _body(self, index: int) -> Text:
        """An expression in full."""
        node = self.nodes[index]
        operator = node[0]
        if operator == EMPTY or _is_empty(node):
            return EPSILON
        if operator == LITERAL:
            return literal(_decoded(node[1]))
        if operator in (BYTES, CHARS):
            return character_class(charset.from_ranges(charset.pairs(node[1])))
        if operator == SEQ:
            return sequence([self._text(part) for part in node[1:]])
        if operator == ALT:
            return alternatives([self._text(part) for part in node[1:] if self.generates[part]])
        if operator == REPEAT:
            part, minimum, maximum = node[1:]
            if not self.generates[part] or maximum == 0:
                return EPSILON
            return repeated(self._text(part), max(minimum, 0), maximum)
        if operator == CALL:
            return Text(self._rule(node[1]), ATOM)
        if operator == TOKENS:
            macro = ("ExcludeToken" if node[1] else "AnyToken") if node[2] else "Token"
            textless = ["textless=true"] if node[2] > 1 else []
            return Text(f"{macro}({', '.join([*map(str, node[1]), *textless])})", ATOM)
        if operator == EXCEPT:
            return Text(f"(.* - ({' | '.join(map(quoted, node[1]))}))", ATOM) if node[1] else Text(".*", REPETITION)
        if operator == PERMUTE:
            return self._permutation(*node[1:])
        if operator == GRAPH:
            edges = node[2]
            steps = zip(edges[::3], edges[1::3], edges[2::3], strict=True)
            live = [step for step in steps if step[2] < 0 or self.generates[step[2]]]
            ways = _Ways([step[:2] for step in live], 0, {1})
            for source, target, part in live:
                if ways.is_live(source) and ways.is_live(target):
                    ways.add(source, target, EPSILON if part < 0 else self._text(part))
        else:
            assert operator == AUTOMATON
            ways = self._automaton(node)
        return self._graph(ways)

    def _automaton(self, node: Node) -> _Ways:
        """The ways through an automaton, each labelled with a class of characters."""
        transitions, accepting = node[1:3]
        arcs = [(state, target) for state, row in enumerate(transitions) for _, _, target in row]
        ways = _Ways(arcs, 0, {state for state, ends in enumerate(accepting) if ends})
        for source, row in enumerate(transitions):
            by_target: dict[int, list[tuple[int, int]]] = {}
            for low, high, target in row:
                if ways.is_live(source) and ways.is_live(target):
                    by_target.setdefault(target, []).append((low, high))
            for target, ranges in by_target.items():
                if chars := charset.from_ranges(ranges):
                    ways.add(source, target, character_class(chars))
        return ways

    def _permutation(self, members: Sequence[int], separator: int, minimum: int, maximum: int) -> Text:
        """Permute(...)."""
        arguments = []
        for part, flags in zip(members[::2], members[1::2], strict=True):
            if self.generates[part]:
                quantifier = _QUANTIFIERS[1 if flags & REQUIRED else 0, -1 if flags & REPEATABLE else 1]
                arguments.append(f'({self._named(part)}, "{quantifier}")' if quantifier else self._named(part))
        if self.generates[separator] and self.nodes[separator][0] != EMPTY:
            arguments.append(f"separator={self._named(separator)}")
        elif not self.generates[separator]:
            maximum = 1  # no two can stand beside each other
        if minimum > 0:
            arguments.append(f"min={minimum}")
        if maximum >= 0:
            arguments.append(f"max={maximum}")
        return Text(f"Permute({', '.join(arguments)})", ATOM)

    def _graph(self, ways: _Ways) -> Text:
        """The expression of a graph; a state where ways meet again becomes a rule."""
        ways.reduce()
        names: dict[int, str] = {}
        waiting: list[int] = []

        def reference(state: int) -> str:
            if state not in names:
                names[state] = self._helper()
                waiting.append(state)
            return names[state]

        def following(state: int, depth: int) -> Text:
            """The expression that is read from a state on."""
            found = []
            for target, label in ways.out[state].items():
                if target == state:
                    continue
                if target == _Ways.END:
                    found.append(label)
                elif len(ways.into[target] - {target}) > 1 or depth > DEEPEST // 2:
                    found.append(sequence([label, Text(reference(target), ATOM)]))
                else:
                    found.append(sequence([label, following(target, depth + 1)]))
            rest = alternatives(found)
            loop = ways.out[state].get(state)
            return rest if loop is None else sequence([repeated(loop, 0, -1), rest])

        result = following(_Ways.START, 0)
        while waiting:
            state = waiting.pop(0)
            self._put(names[state], names[state], following(state, 0))
        return result


class _Ways:
    """A graph from START to END whose ways are labelled with expressions."""

    START: Final = -1
    END: Final = -2

    def __init__(self, arcs: Iterable[tuple[int, int]], start: int, ends: set[int]) -> None:
        forward: dict[int, set[int]] = {}
        backward: dict[int, set[int]] = {}
        for source, target in arcs:
            forward.setdefault(source, set()).add(target)
            backward.setdefault(target, set()).add(source)
        self._live = _reached(forward, {start}) & _reached(backward, ends)
        self.out: dict[int, dict[int, Text]] = {state: {} for state in (self.START, self.END, *sorted(self._live))}
        self.into: dict[int, set[int]] = {state: set() for state in self.out}
        self.add(self.START, start, EPSILON)
        for end in sorted(ends & self._live):
            self.add(end, self.END, EPSILON)

    def is_live(self, state: int) -> bool:
        """Whether a state lies on a way from the start to an end."""
        return state in self._live

    def add(self, source: int, target: int, label: Text) -> None:
        """One more way; beside another it is an alternative."""
        label_before = self.out[source].get(target)
        self.out[source][target] = label if label_before is None else alternatives([label_before, label])
        self.into[target].add(source)

    def reduce(self) -> None:
        """Take out states as long as that copies nothing."""
        pending = list(self.out)
        while pending:
            state = pending.pop()
            if state in (self.START, self.END) or state not in self.out:
                continue
            if self.out[state].get(state) == EPSILON:
                del self.out[state][state]
                self.into[state].discard(state)
            before, after = self.into[state] - {state}, self.out[state].keys() - {state}
            loop = self.out[state].get(state)
            single = len(before) == 1 and len(after) == 1
            silent_out = loop is None and len(after) == 1 and all(self.out[state][target] == EPSILON for target in after)
            silent_in = loop is None and len(before) == 1 and all(self.out[source][state] == EPSILON for source in before)
            if not (single or silent_out or silent_in):
                continue
            middle = [] if loop is None else [repeated(loop, 0, -1)]
            ways = [(source, target, self.out[source][state], self.out[state][target]) for source in before for target in after]
            for source in before:
                del self.out[source][state]
            for target in after:
                self.into[target].discard(state)
            del self.out[state], self.into[state]
            for source, target, left, right in ways:
                self.add(source, target, sequence([left, *middle, right]))
            pending += sorted(before | after)


def _reached(arcs: dict[int, set[int]], start: set[int]) -> set[int]:
    """The states in reach."""
    seen = set(start)
    pending = list(start)
    for state in pending:
        new = arcs.get(state, set()) - seen
        seen |= new
        pending += new
    return seen


# How expressions are put together.


def sequence(parts: Sequence[Text]) -> Text:
    """One after the other; literals beside each other become one."""
    joined: list[Text] = []
    for part in parts:
        if part.literal is not None and joined and joined[-1].literal is not None:
            joined[-1] = literal(joined[-1].literal + part.literal)
        elif joined and part == repeated(joined[-1], 0, -1):
            joined[-1] = repeated(joined[-1], 1, -1)
        elif part != EPSILON:
            joined.append(part)
    if len(joined) < 2:
        return joined[0] if joined else EPSILON
    return Text(" ".join(part.text if part.level > ALTERNATIVES else f"({part.text})" for part in joined), SEQUENCE)


def alternatives(parts: Sequence[Text]) -> Text:
    """Any one of them."""
    choices = dict.fromkeys(choice for part in parts for choice in (part.choices or (part.text,)))
    nullable = choices.pop(EPSILON.text, EPSILON) is None
    if not choices:
        return EPSILON
    if len(choices) == 1:
        (rest,) = [part for part in parts if part != EPSILON][:1]
    else:
        rest = Text(" | ".join(choices), ALTERNATIVES, tuple(choices))
    return repeated(rest, 0, 1) if nullable else rest


def repeated(part: Text, minimum: int, maximum: int) -> Text:
    """An expression several times; -1 is no bound."""
    if part == EPSILON or minimum == maximum == 1:
        return part
    bounds = _QUANTIFIERS.get((minimum, maximum))
    if bounds is None:
        bounds = f"{{{minimum}}}" if minimum == maximum else f"{{{minimum},{'' if maximum < 0 else maximum}}}"
    return Text((part.text if part.level == ATOM else f"({part.text})") + bounds, REPETITION)


def literal(text: str) -> Text:
    """These characters."""
    return Text(quoted(text), ATOM, literal=text)


def character_class(chars: CharSet) -> Text:
    r"""One of these characters.

    >>> print(character_class((0x22, 0x22)).text, character_class((9, 10, 0x2D, 0x2D, 0x61, 0x7A)).text)
    '"' [\t\n\-a-z]
    """
    if chars == ANY:
        return Text(".", ATOM)
    if len(chars) == 2 and chars[0] == chars[1]:
        return literal(chr(chars[0]))
    others = charset.complement(chars)
    negated = len(others) < len(chars)
    ranges = "".join(_range(low, high) for low, high in charset.pairs(others if negated else chars))
    return Text(f"[{'^' if negated else ''}{ranges}]", ATOM)


def _range(low: int, high: int) -> str:
    ends = [_character(chr(point), "[]^-#") for point in (low, high)]
    return ends[0] if low == high else "".join(ends) if high == low + 1 else "-".join(ends)


def quoted(text: str) -> str:
    r"""A literal, in the quotes that need fewer escapes.

    >>> print(quoted('"a"'), quoted("\n\x00é\u200b"))
    '"a"' "\n\x00é\u200B"
    """
    quote = "'" if '"' in text and "'" not in text else '"'
    return quote + "".join(_character(character, quote) for character in text) + quote


def _character(character: str, special: str) -> str:
    """A character as it stands in quotes or in a class."""
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character in special:
        return "\\" + character
    point = ord(character)
    if character == " " or character.isprintable():
        return character
    return f"\\x{point:02X}" if point < 0x100 else f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"


def _number(value: float) -> str:
    """A number as the options of a rule take it."""
    text = repr(value)
    return text if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?", text) else format(value, ".17e")


def _quoted_name(name: str) -> str:
    """A name in an option, which holds no bracket and no line end."""
    return '"' + "".join(_character(c, '"') if c not in "[]" else f"\\x{ord(c):02X}" for c in name) + '"'


def identifier(name: str) -> str:
    """A rule's name in the characters that EBNF has for names, without those that mean something else there."""
    name = re.sub(r"[^A-Za-z0-9_.\-]", "_", name)[:200] or "_"
    return f"_{name}" if _RESERVED.fullmatch(name) or not name.strip(".-") else name


# Nodes that need a rule of their own, with options.

_HELPERS: Final = {CHARS: "char", BYTES: "byte", LITERAL: "bytes", AUTOMATON: "text", EXCEPT: "other"}


def _options(node: Node) -> list[str]:
    """The options that say how the code points of a node are written, and how many there are; empty where they are plain text."""
    operator = node[0]
    encoding, bounds = UTF8, (0, -1)
    if _is_empty(node):
        return []
    if (operator == BYTES and any(byte > 0x7F for byte in node[1])) or (operator == LITERAL and not _is_text(node[1])):
        encoding = RAW
    elif operator in (CHARS, EXCEPT):
        encoding = node[2]
    elif operator == AUTOMATON:
        encoding, bounds = node[3], node[4:] or bounds
        if encoding == RAW and not any(high > 0x7F for row in node[1] for _, high, _ in row):
            encoding = UTF8
    options = [f"encoding={ENCODINGS[encoding]}"] if encoding != UTF8 or bounds != (0, -1) else []
    return options + [f"{name}={bound}" for name, bound in zip(("min_chars", "max_chars"), bounds, strict=True) if bound > 0]


def _is_empty(node: Node) -> bool:
    """Whether a node is a counted automaton without a character to count."""
    return node[0] == AUTOMATON and node[4:][1:] == (0,)


def _is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decoded(data: bytes) -> str:
    """Bytes as text: a code point for each byte where they are no UTF-8."""
    return data.decode() if _is_text(data) else data.decode("latin-1")


def _size(node: Node) -> int:
    """About how many characters a node takes beside its parts."""
    operator = node[0]
    if operator == LITERAL:
        return 3 + len(node[1])
    if operator in (BYTES, CHARS):
        return 2 + 2 * len(node[1])
    if operator == AUTOMATON:
        return 6 * sum(map(len, node[1]))
    if operator in (SEQ, ALT):
        return 2 * len(node)
    if operator == GRAPH:
        return 2 * len(node[2])
    if operator in (TOKENS, EXCEPT, PERMUTE):
        return 8 * len(node[1])
    return 6
