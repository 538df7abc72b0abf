"""Sets of strings as nodes: patterns and formats by their grammars, bounded ones by automata that count, all others by automata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...pda.automata.dfa import NOTHING
from ...pda.grammar import ALT, GrammarBuilder, NodeId
from ...pda.regex import counted_node, regex_node
from ..formats import format_lengths, format_node
from ..sets.strings import Strings
from ..sets.types import Text
from .json_parts import Fragments, any_text, may_hold, quoted

_SYNTAX: Final = frozenset(r"^$\.*+?()[]{}|/-")
_PLAIN_FORMATS: Final = frozenset(
    ("date", "time", "date-time", "duration", "ipv4", "ipv6", "uuid", "hostname", "uri", "uri-reference", "iri", "iri-reference")
)
"""Formats whose texts have no `<` and no line break."""


class StringWriter:
    """Text parts written into one builder."""

    def __init__(self, b: GrammarBuilder, f: Fragments, strings: Strings) -> None:
        self.b = b
        self.f = f
        self.strings = strings
        self.written: dict[Text, NodeId] = {}

    def node(self, text: Text) -> NodeId:
        """The strings of a part, in quotes."""
        found = self.written.get(text)
        if found is None:
            found = self.written[text] = self._node(text)
        return found

    def _node(self, text: Text) -> NodeId:
        b, f = self.b, self.f
        if text.words is not None:
            words = [b.literal(quoted(word, f.closing)) for word in sorted(text.words)]
            return words[0] if len(words) == 1 else b.node((ALT, *words)) if words else f.never
        inside = self.inside(text)
        return f.never if inside == f.never else b.seq(f.quote, inside, f.quote)

    def inside(self, text: Text) -> NodeId:
        """The strings of a part, without their quotes."""
        b, f, strings = self.b, self.f, self.strings
        low, high, tests, _ = text
        if 0 <= high < low:
            return f.never
        if not tests:
            return any_text(b, f.character, f.encoding, f.closing, low, high)
        if f.closing and not is_plain(text, f.closing) and strings.have_automata(tests) and may_hold(strings.all_of(tests), f.closing):
            tests = tests | {("pattern", pattern_of(f.closing), False)}
            text = text._replace(tests=tests)
        if len(tests) == 1:
            ((what, argument, holds),) = tests
            if what == "format" and holds:
                assert isinstance(argument, str)
                shortest, longest = format_lengths(argument)
                if low <= shortest and (high < 0 or (longest is not None and longest <= high)):
                    node = format_node(b, argument, f.encoding)
                    assert node is not None
                    return node
            if what == "pattern" and holds and low == 0 and high < 0:
                assert isinstance(argument, str)
                return regex_node(b, argument, search=True, encoding=f.encoding, limits=strings.budget.limits)
            if what == "words" and low == 0 and high < 0:
                assert isinstance(argument, frozenset)
                return b.except_words(argument, f.encoding)
        automaton = strings.all_of(tests)
        if automaton == NOTHING:
            return f.never
        if not strings.within(text):
            node = counted_node(b, automaton, strings.length_bounds(tests), low, high, f.encoding)
            if node is not None:
                return node
            automaton = strings.automaton(text)
        return f.never if automaton == NOTHING else b.automaton(automaton.transitions, automaton.accepting, f.encoding)


def is_plain(text: Text, absent: Sequence[str] = ("\n",)) -> bool:
    """Whether all tests of a part are formats without `<` and line breaks, so that its strings hold none of these texts."""
    formats = all(what == "format" and holds and name in _PLAIN_FORMATS for what, name, holds in text.tests)
    return formats and all("<" in other or "\n" in other for other in absent)


def pattern_of(texts: Sequence[str]) -> str:
    """A regular expression that finds any of these texts."""
    return "|".join("".join(f"\\{c}" if c in _SYNTAX else c for c in text) for text in texts)
