r"""The format `regex`: the syntax of ECMA-262 regular expressions with the u flag, as a context-free grammar.

Groups nest, so the language is not regular, and the grammar is a rule that calls itself.
Checked are the brackets, what a quantifier may stand behind, every escape, the order of the bounds in `{2,5}` and of the ends in `[a-f]`.

What no context-free grammar can know, and what is rare, is decided so:

- a back reference by number is refused; one by name is taken, whether the group exists is not checked, nor that names are used once;
- `\p{...}` is checked by its form, not by the list of properties;
- the order of a class range is checked where it begins with an ASCII letter or digit, that of bounds of up to two digits; longer bounds
  have to differ in length;
- `\-` and other escaped punctuation, which the u flag forbids outside classes, is taken: everybody writes it;
- modifiers, `(?i:...)`, and the set notation of the v flag are refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from stackmask.pda.grammar import JSON, JSON_ANY, UTF8, GrammarBuilder, NodeId


def ascii_text(builder: GrammarBuilder, text: str, encoding: int) -> NodeId:
    """A short text, as one literal where the encoding writes it as it is."""
    if encoding == JSON_ANY or (encoding == JSON and any(c in '"\\/' for c in text)):
        return builder.seq(*(builder.chars((ord(c), ord(c)), encoding) for c in text))
    return builder.literal(text.encode())


class _Characters:
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
    b, c = builder, _Characters(builder, encoding)
    disjunction = b.rule("regex")
    inner = b.call(disjunction)
    digit = c.between("0", "9")
    name = c.sequence(
        "<", c.between("$", "$", "A", "Z", "_", "_", "a", "z"), b.repeat(c.between("$", "$", "0", "9", "A", "Z", "_", "_", "a", "z")), ">"
    )
    one, many = _escapes(c)
    bracketed = c.sequence("[", b.optional(c.any_of("^")), _class_contents(c, one, many), "]")
    opening = b.alt(c.text("("), c.text("(?:"), c.sequence("(?", name))
    group = c.sequence(opening, inner, ")")
    looking = c.sequence(c.texts(("(?=", "(?!", "(?<=", "(?<!")), inner, ")")
    assertion = b.alt(c.any_of("^$"), c.texts(("\\b", "\\B")), looking)
    # Every character but those with a meaning, and for the place behind \0 also without digits.
    letters = c.between("\0", "#", "%", "'", ",", "-", "/", "/", ":", ">", "@", "Z", "_", "z", "~", "\U0010ffff")
    other_atom = b.alt(letters, c.any_of("."), bracketed, group, c.sequence("\\", b.alt(one, many, c.sequence("k", name))))
    quantifier = c.sequence(b.alt(c.any_of("*+?"), _bounds(c)), b.optional(c.any_of("?")))
    zero = c.text("\\0")
    term = b.alt(assertion, c.sequence(other_atom, b.optional(quantifier)), c.sequence(zero, quantifier))
    # States: 0 and 2 between terms, 3 behind a \0 that a digit may not follow, 1 the end.
    alternative = b.graph(
        4,
        (0, 2, -1, 2, 2, term, 2, 2, c.sequence(digit, b.optional(quantifier)), 2, 3, zero, 3, 3, zero, 3, 2, term, 2, 1, -1, 3, 1, -1),
    )
    b.define(disjunction, b.seq(alternative, b.repeat(c.sequence("|", alternative))))
    return inner


def _escapes(c: _Characters) -> tuple[NodeId, NodeId]:
    r"""What may stand behind a backslash: for one character, `\0` aside, and for a set of characters."""
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


def _class_contents(c: _Characters, one: NodeId, many: NodeId) -> NodeId:
    """The inside of a character class.

    States: 0 where an atom or a range begins, 2 behind an atom, 3 behind an atom and a dash, which only the end may follow; 1 the end.
    A range leads to 0, where a dash is an atom again, and behind an atom none may begin with a dash.
    """
    b = c.builder
    escaped = c.sequence("\\", b.alt(one, c.any_of("b")))
    plain = c.between("\0", ",", ".", "[", "^", "\U0010ffff")
    dash = c.any_of("-")
    # Letters and digits may begin a range to what is not less; of other characters the order is not checked.
    ranges = [
        c.sequence(first, "-", b.alt(c.between(first, "[", "^", "\U0010ffff") if first < "[" else c.between(first, "\U0010ffff"), escaped))
        for first in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    ]
    others = b.alt(c.between("\0", ",", ".", "/", ":", "@", "[", "[", "^", "`", "{", "\U0010ffff"), escaped, c.text("\\0"))
    last = b.alt(plain, dash, escaped)
    range_node = b.alt(*ranges, c.sequence(others, "-", last))
    atom = b.alt(plain, escaped, c.sequence("\\", many))
    from_dash = c.sequence("--", last)
    return b.graph(
        4,
        (0, 0, range_node, 0, 0, from_dash, 0, 2, atom, 0, 2, dash, 2, 2, atom, 2, 0, range_node, 2, 3, dash, 0, 1, -1, 2, 1, -1, 3, 1, -1),
    )


def _bounds(c: _Characters) -> NodeId:
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
