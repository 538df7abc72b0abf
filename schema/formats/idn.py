"""The format `idn-hostname`: names of hosts in any script, by IDNA 2008 (RFC 5890 to 5893).

A label is checked for its characters (PVALID), the contextual rules for joiners, middle dots, Greek and Hebrew signs and digits, hyphens,
marks at the beginning, and, in a name with a label that runs from right to left, the Bidi rule.

Nothing else is accepted, but not every valid name is, because three rules are not regular or too dear:

- a label has to fit into 63 octets once it is encoded, and how long that is no automaton can tell: a label with characters beyond ASCII
  has at most 19 characters, 9 if one is beyond U+07FF, which always fit, and fewer where marks or signs stand among them;
- a label has to be in normal form C: marks that could join another character are refused, and so are two marks side by side that have
  a combining class;
- encoded labels, `xn--...`, are refused, as in `hostname`.

A name with a label beyond ASCII has at most three labels, and one more of up to 31 small ASCII letters.

idn_tables.py has the code points by their flags: the Bidi class (L, R, A, E, S, N, O), the size (1, 3, 5 for ASCII, below U+0800,
and above), then m mark, v virama, c another combining class, y may compose with the character before, g Greek, h Hebrew, k Japanese or
Chinese, j joins to the left, i joins to the right; or "@" and a character with a rule of its own.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from typing import Final

from ...pda.automata import charset
from ...pda.automata.charset import CharSet
from ...pda.automata.varints import unpack
from ...pda.grammar import UTF8, GrammarBuilder, NodeId
from .hostname import LONGEST_LABEL, plain_label_node, plain_name_node
from .idn_tables import CLASSES

DOTS: Final = (0x2E, 0x2E, 0x3002, 0x3002, 0xFF0E, 0xFF0E, 0xFF61, 0xFF61)
SHORT, LONG = 9, 19
"""Most characters of a label: of any, and of those below U+0800.

In a label so short one of these takes at most 3 octets, any other 5, and there are 59 behind "xn--".
"""


@cache
def _class(flags: str) -> CharSet:
    """The code points with these flags, out of the gaps between the ends of their ranges."""
    return tuple(accumulate(unpack(CLASSES[flags])))


@cache
def _characters(bidi: str, *, sizes: str = "135", having: str = "", lacking: str = "@mvcy") -> CharSet:
    """The code points with one of some Bidi classes and sizes, some flag of `having` if there is any, and none of `lacking`."""
    chosen = [
        flags
        for flags in CLASSES
        if flags[0] in bidi
        and flags[1] in sizes
        and (not having or any(flag in flags[2:] for flag in having))
        and not any(flag in flags[2:] for flag in lacking)
    ]
    return charset.union(*map(_class, chosen))


class _Labels:
    """Nodes for labels in one encoding."""

    def __init__(self, builder: GrammarBuilder, encoding: int) -> None:
        self.builder = builder
        self.encoding = encoding

    def one(self, characters: CharSet) -> NodeId:
        """One of some characters."""
        return self.builder.chars(characters, self.encoding)

    def some(self, characters: CharSet, least: int, most: int) -> NodeId:
        """A row of characters."""
        return self.builder.repeat(self.one(characters), least, most)

    def left_to_right(self) -> NodeId:
        """A label without characters that run from right to left."""
        b = self.builder
        ell, hyphen = (0x6C, 0x6C), self.one((0x2D, 0x2D))
        small = charset.union(_characters("LEO", sizes="13"), ell)
        letter = charset.union(_characters("LEO"), ell)
        # Spacing marks, such as the vowels of Indian scripts, stand anywhere but in front.
        inner = charset.union(letter, _characters("LEON", having="m", lacking="@vcy"))
        virama, mark = _characters("LN", having="v", lacking="@cy"), _characters("LN", having="c", lacking="@vy")
        greek, kana = _characters("LO", having="g"), _characters("LO", having="k")
        dotted = charset.union(kana, (0x30FB, 0x30FB))
        ascii_letters = (0x61, 0x7A)
        word = b.seq(self.one(letter), self.some(inner, 0, 1))
        clustered = b.alt(
            b.seq(word, self.one(mark)),
            b.seq(word, self.one(virama), b.optional(self.one((0x200C, 0x200D)))),
        )
        return b.alt(
            plain_label_node(b, LONGEST_LABEL, self.encoding),
            self.some(small, 1, LONG),
            b.seq(self.one(letter), self.some(inner, 0, SHORT - 1)),
            b.seq(self.some(small, 1, 9), hyphen, self.some(small, 1, 9)),
            b.seq(self.some(letter, 1, 4), hyphen, self.some(letter, 1, 4)),
            b.seq(b.repeat(clustered, 1, 2), b.optional(self.some(letter, 1, 1))),
            b.seq(self.some(ascii_letters, 0, 8), self.one(ell), self.one((0xB7, 0xB7)), self.one(ell), self.some(ascii_letters, 0, 8)),
            b.seq(self.some(greek, 0, 3), self.one((0x375, 0x375)), self.some(greek, 1, 4)),
            b.seq(self.some(dotted, 0, 4), self.one(kana), self.some(dotted, 0, 4)),
        )

    def by_bidi_rule(self) -> NodeId:
        """A label of a name in which some label runs from right to left, both kinds."""
        b = self.builder
        ell = (0x6C, 0x6C)
        hyphen, letters = self.one((0x2D, 0x2D)), (0x61, 0x7A)
        digits = _characters("E")
        latin = charset.union(letters, (0x30, 0x39))
        nodes = [
            b.seq(self.one(letters), self.some(latin, 0, LONG - 1)),
            b.seq(self.one(letters), self.some(latin, 0, 8), hyphen, self.some(latin, 1, 8)),
            b.seq(self.one(charset.union(_characters("L"), ell)), self.some(charset.union(_characters("LE"), ell), 0, SHORT - 1)),
        ]
        arabic, hebrew = _characters("R", sizes="3"), _characters("R", having="h")
        for numbers in (digits, _characters("A")):  # the two kinds of digits do not mix
            word = charset.union(arabic, numbers)
            nodes += [
                b.seq(self.one(arabic), self.some(word, 0, LONG - 1)),
                b.seq(self.one(arabic), self.some(word, 0, 8), hyphen, self.some(word, 1, 8)),
                b.seq(self.one(_characters("R")), self.some(charset.union(_characters("R"), numbers), 0, SHORT - 1)),
            ]
        nodes.append(b.seq(self.some(hebrew, 1, 8), self.one((0x5F3, 0x5F4)), self.some(hebrew, 0, 8)))
        joins_left, joins_right = _characters("R", having="j"), _characters("R", having="i")
        nodes.append(
            b.seq(self.some(arabic, 0, 2), self.one(joins_left), self.one((0x200C, 0x200C)), self.one(joins_right), self.some(arabic, 0, 3))
        )
        return b.alt(*nodes)


def idn_hostname_node(builder: GrammarBuilder, encoding: int = UTF8) -> NodeId:
    """The names of ASCII labels, those without a label from right to left, and those that keep the Bidi rule."""
    b = builder
    labels = _Labels(b, encoding)
    dot = b.chars(DOTS, encoding)
    top = b.optional(b.seq(dot, b.repeat(b.chars((97, 122), encoding), 1, 31)))
    names = [plain_name_node(b, DOTS, encoding)]
    for label in (labels.left_to_right(), labels.by_bidi_rule()):
        names.append(b.seq(label, b.repeat(b.seq(dot, label), 0, 2), top))
    return b.alt(*names)
