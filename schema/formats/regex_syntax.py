r"""The format `regex`: the syntax of ECMA-262 regular expressions with the u flag, as a context-free grammar.

Groups nest, so the language is not regular, and the grammar is a rule that calls itself.
Checked are the brackets, what a quantifier may stand behind, every escape, the order of the bounds in `{2,5}` and of the ends in `[a-f]`.

These are the decisions on properties that no context-free grammar can express, and on rare ones:

- a back reference by number is refused; one by name is taken, whether the group exists is not checked, nor that names are used once;
- `\p{...}` is checked by its form, not by the list of properties;
- the order of a class range is checked where it begins with an ASCII letter or digit, that of bounds of up to two digits; longer bounds
  have to differ in length;
- `\-` and other escaped punctuation, which the u flag forbids outside classes, is taken: everybody writes it;
- modifiers, `(?i:...)`, and the set notation of the v flag are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ...pda.automata.dfa import Dfa
from ...pda.automata.minimize import live_states, restricted, sources
from ...pda.grammar import JSON, JSON_ANY, UTF8, GrammarBuilder, NodeId

LAST: Final = "\U0010ffff"
_NAME_BEGINS: Final = "$$AZ__az"
_NAME: Final = "$$09AZ__az"
FLAT: Final = "regex-without-groups"
"""The name of the regular expressions without groups in the tables of automata."""
DEPTH: Final = 2
"""The maximal nesting of groups if an automaton has to recognize a regular expression."""


def ascii_text(builder: GrammarBuilder, text: str, encoding: int) -> NodeId:
    """A short text, as one literal where the encoding writes it as it is."""
    if encoding == JSON_ANY or (encoding == JSON and any(c in '"\\/' for c in text)):
        return builder.seq(*(builder.chars((ord(c), ord(c)), encoding) for c in text))
    return builder.literal(text.encode())


class Characters:
    """Nodes for characters and short texts in one encoding."""

    def __init__(self, builder: GrammarBuilder, encoding: int) -> None:
        self.builder = builder
        self.encoding = encoding

    def between(self, *ends: str) -> NodeId:
        """One character of some ranges: two ends each, in order."""
        return self.builder.chars(tuple(map(ord, ends)), self.encoding)

    def any_of(self, characters: str) -> NodeId:
        """One of these characters."""
        return self.between(*(c for c in sorted(characters) for _ in range(2)))

    def text(self, characters: str) -> NodeId:
        """These characters."""
        return ascii_text(self.builder, characters, self.encoding)

    def texts(self, options: Iterable[str]) -> NodeId:
        """One of these texts."""
        return self.builder.alt(*map(self.text, options))

    def sequence(self, *parts: NodeId | str) -> NodeId:
        """Nodes and texts one after the other."""
        return self.builder.seq(*(self.text(part) if isinstance(part, str) else part for part in parts))


def regex_syntax_node(builder: GrammarBuilder, encoding: int = UTF8) -> NodeId:
    """A call of the rule `regex`, which is added to `builder`."""
    b, c = builder, Characters(builder, encoding)
    rule = b.rule("regex")
    inner = b.call(rule)
    name = c.sequence("<", c.between(*_NAME_BEGINS), b.repeat(c.between(*_NAME)), ">")
    opening = b.alt(c.text("("), c.text("(?:"), c.sequence("(?", name))
    group = c.sequence(opening, inner, ")")
    looking = c.sequence(c.texts(("(?=", "(?!", "(?<=", "(?<!")), inner, ")")
    b.define(rule, disjunction(c, group, looking))
    return inner


def disjunction(c: Characters, group: NodeId, looking: NodeId) -> NodeId:
    """A whole regular expression, given the nodes for a group and for a lookaround."""
    b = c.builder
    digit = c.between("0", "9")
    name = c.sequence("<", c.between(*_NAME_BEGINS), b.repeat(c.between(*_NAME)), ">")
    one, many = _escapes(c)
    bracketed = c.sequence("[", b.optional(c.any_of("^")), _class_contents(c, one, many), "]")
    assertion = b.alt(c.any_of("^$"), c.texts(("\\b", "\\B")), looking)
    # Every character but those with a meaning, and for the place behind \0 also without digits.
    letters = c.between("\0", "#", "%", "'", ",", "-", "/", "/", ":", ">", "@", "Z", "_", "z", "~", LAST)
    other_atom = b.alt(c.any_of("."), bracketed, group, c.sequence("\\", b.alt(one, many, c.sequence("k", name))))
    quantifier = c.sequence(b.alt(c.any_of("*+?"), _bounds(c)), b.optional(c.any_of("?")))
    # States: 0 between terms, 2 there where no digit may follow, 3 behind an atom, 4 behind a \0, 1 the end.
    # PERF: one graph, so that letters behind one another are a loop of one state. Terms in a rule of their own would be left and entered
    # again behind each letter of a token: five to ten times the work of a mask.
    return b.graph(
        5,
        (
            0, 2, -1, 0, 3, digit, 2, 3, letters, 2, 3, other_atom, 2, 0, assertion, 2, 4, c.text("\\0"), 2, 0, c.text("|"), 2, 1, -1,
            3, 0, quantifier, 3, 0, -1, 4, 0, quantifier, 4, 2, -1,
        ),
    )  # fmt: skip


def _escapes(c: Characters) -> tuple[NodeId, NodeId]:
    r"""The escapes after a backslash: for one character, except `\0`, and for a set of characters."""
    b = c.builder
    hexadecimal = c.between("0", "9", "A", "F", "a", "f")
    wide = b.alt(b.repeat(hexadecimal, 1, 5), c.sequence("10", b.repeat(hexadecimal, 4, 4)))
    one = b.alt(
        c.any_of("fnrtv"),
        c.sequence("c", c.between("A", "Z", "a", "z")),
        c.sequence("x", hexadecimal, hexadecimal),
        c.sequence("u", b.alt(b.repeat(hexadecimal, 4, 4), c.sequence("{", b.repeat(c.any_of("0")), wide, "}"))),
        c.between("!", "/", ":", "@", "[", "`", "{", "~"),
    )
    word = b.repeat(c.between("0", "9", "A", "Z", "_", "_", "a", "z"), 1)
    many = b.alt(c.any_of("dDsSwW"), c.sequence(c.any_of("pP"), "{", word, b.optional(c.sequence("=", word)), "}"))
    return one, many


def _class_contents(c: Characters, one: NodeId, many: NodeId) -> NodeId:
    """The inside of a character class.

    States: 0 where an atom or a range begins, 2 behind an atom, 4 at either, 3 behind an atom and a dash, which only the end may follow;
    1 the end.
    A range leads to 0, where a dash is an atom again, and behind an atom none may begin with a dash.
    """
    b = c.builder
    escaped = c.sequence("\\", b.alt(one, c.any_of("b")))
    plain = c.between("\0", ",", ".", "[", "^", LAST)
    dash = c.any_of("-")
    # Letters and digits may begin a range to what is not less; of other characters the order is not checked.
    ranges = [
        c.sequence(first, "-", b.alt(c.between(first, "[", "^", LAST) if first < "[" else c.between(first, LAST), escaped))
        for first in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    ]
    others = b.alt(c.between("\0", ",", ".", "/", ":", "@", "[", "[", "^", "`", "{", LAST), escaped, c.text("\\0"))
    last = b.alt(plain, dash, escaped)
    range_node = b.alt(*ranges, c.sequence(others, "-", last))
    atom = b.alt(plain, escaped, c.sequence("\\", many))
    from_dash = c.sequence("--", last)
    return b.graph(
        5,
        (
            0, 4, -1, 2, 4, -1, 4, 0, range_node, 4, 2, atom, 0, 0, from_dash, 0, 2, dash, 2, 3, dash, 0, 1, -1, 2, 1, -1, 3, 1, -1,
        ),
    )  # fmt: skip


def _bounds(c: Characters) -> NodeId:
    """The quantifiers {n}, {n,} and {n,m} with n <= m."""
    b = c.builder
    digit, first = c.between("0", "9"), c.between("1", "9")
    number = b.alt(c.any_of("0"), c.sequence(first, b.repeat(digit)))
    digits = "0123456789"
    pairs = [c.sequence(n, ",", c.between(n, "9")) for n in digits]
    tens = digits[1:]
    pairs += [c.sequence(t, digit, ",", c.between(chr(ord(t) + 1), "9"), digit) for t in tens[:-1]]
    pairs += [c.sequence(t, n, ",", t, c.between(n, "9")) for t in tens for n in digits]
    # Numbers of more digits are greater; up to four digits are enough for every engine there is.
    pairs += [
        c.sequence(digit if size == 1 else c.sequence(first, b.repeat(digit, size - 1, size - 1)), ",", first, b.repeat(digit, size))
        for size in range(1, 5)
    ]
    return c.sequence("{", b.alt(number, c.sequence(number, ","), *pairs), "}")


class Nested(NamedTuple):
    """What automata can say of regular expressions."""

    within: Dfa
    """Those whose groups are nested at most DEPTH deep."""
    beyond: Dfa
    """All texts that begin like one with deeper groups."""
    either: Dfa
    """Both. PERF: it has the same states; their union as a product took 0.4 s."""


def nested(flat: Dfa) -> Nested:
    """The regular expressions by how deep their groups are nested.

    `flat` accepts those without groups. Between terms, a group is read as a letter is, and a lookaround as the assertion `^`, which leads
    to the start; so a state inside of groups is a state of `flat` and, for each group around it, whether it is a lookaround.
    """
    marks = {point: [_target(row, ord(point)) for row in flat.transitions] for point in "^a"}
    # Inside of a class ^ is a letter like others.
    between = [target == 0 for target in marks["^"]]
    outside: tuple[int, ...] = ()
    start = (outside, 0, "")
    numbers: dict[tuple[tuple[int, ...], int, str], int] = {start: 0}
    todo = [start]
    rows: list[list[tuple[int, int, int]]] = []

    def number(state: tuple[tuple[int, ...], int, str]) -> int:
        found = numbers.setdefault(state, len(todo))
        if found == len(todo):
            todo.append(state)
        return found

    for around, state, opening in todo:
        # `opening`: what was read of the beginning of a group; then `state` is the one before it.
        group, looking = (*around, marks["a"][state]), (*around, 0)
        row: dict[str, tuple[tuple[int, ...], int, str]] = {}
        if opening in ("", "("):
            inside, at = (around, state) if not opening else (group, 0)
            found = [(low, high, number((inside, target, ""))) for low, high, target in flat.transitions[at]]
            if opening:
                row["?"] = (around, state, "(?")
            if between[at]:
                row["("] = (inside, at, "(") if len(inside) < DEPTH else (outside, -1, "deeper")
            if inside and flat.accepting[at]:
                row[")"] = (inside[:-1], inside[-1], "")
        elif opening == "deeper":
            found = [(0, ord(LAST), number((around, state, opening)))]
        else:
            found = []
            if opening == "(?":
                row |= {":": (group, 0, ""), "=": (looking, 0, ""), "!": (looking, 0, ""), "<": (around, state, "(?<")}
            elif opening == "(?<":
                row |= {"=": (looking, 0, ""), "!": (looking, 0, "")}
            else:
                row[">"] = (group, 0, "")
            if opening != "(?":
                ranges = _NAME if opening == "(?<n" else _NAME_BEGINS
                for low, high in zip(ranges[::2], ranges[1::2], strict=True):
                    found.append((ord(low), ord(high), number((around, state, "(?<n"))))
        rows.append(sorted([*found, *((ord(point), ord(point), number(target)) for point, target in row.items())]))
    within = [not around and not opening and flat.accepting[state] for around, state, opening in todo]
    beyond = [opening == "deeper" for _, _, opening in todo]
    before = sources(rows)
    either = [inside or deeper for inside, deeper in zip(within, beyond, strict=True)]
    return Nested(*(Dfa(*restricted(rows, accepting, live_states(accepting, before))) for accepting in (within, beyond, either)))


def _target(row: Sequence[tuple[int, int, int]], point: int) -> int:
    """The state after a character, -1 for none."""
    return next((target for low, high, target in row if low <= point <= high), -1)
