"""Sets of strings: their algebra, and their automata over decoded characters.

A set is a union of `Text` parts. Tests stay symbolic until an automaton is asked for: to intersect two of them, to decide emptiness, or
to tell which keys a pattern takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import getitem
from typing import Final, NamedTuple, TypeVar

from ...pda.automata import dfa as automata
from ...pda.automata import language
from ...pda.automata.char_classes import common_refinement, project
from ...pda.automata.dfa import ANYTHING, NOTHING, Dfa, by_classes
from ...pda.budget import Budget
from ...pda.exceptions import LimitError
from ...pda.regex import regex_dfa
from ..errors import Inexact, excess
from ..formats import format_accepts, format_dfa, format_lengths
from ..formats.rfc import approximations
from .types import Text, high_bound

FREE: Final = Text()
K = TypeVar("K")
V = TypeVar("V")
Texts = tuple[Text, ...]
Tests = frozenset[tuple[str, object, bool]]
_EXCLUDED: Final = ("words", False)
MOST_PAIRS: Final = 8
"""Unions of more pairs of parts are put together before they meet."""


class _LongWord(NamedTuple):
    """A string that passes some tests, the state that it leads each of them to, and a length that no shortest string is below."""

    least: int
    word: str
    states: dict[tuple[str, object, bool], int]


class Strings:
    """The sets of strings of one compilation, and results about them."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.tests: dict[tuple[str, object, bool], Dfa] = {}
        self.combined: dict[Tests, Dfa] = {frozenset(): ANYTHING}
        self.bounded: dict[Text, Dfa] = {}
        self.shortest_lengths: dict[Tests, int] = {}
        self.common_words: dict[str, Tests] = {}
        """Shortest strings that pass all of some tests, the latest last, and these tests."""
        self.long_words: dict[Tests, _LongWord] = {}
        """By tests for which the search for a shortest string was given up some string that passes them all, the latest last."""
        self.lengths: dict[Tests, tuple[int, int | None] | None] = {}
        self.pairs: dict[tuple[int, int], tuple[Dfa, Dfa, Dfa]] = {}
        """The intersections of two automata, with the two, which so keep their identities."""
        self.unions: dict[Dfa, int] = {}
        """The automata of unions that were put together, each with its number."""
        self.gathered: dict[Texts, Texts] = {}
        """The results of `together` for unions."""
        self.sources: dict[tuple[str, object], tuple[object, str, str]] = {}
        """The first place of a test: subschema, keyword, and the rest of the pointer."""

    def test(self, test: tuple[str, object, bool]) -> Dfa:
        """The automaton of one test."""
        found = self.tests.get(test)
        if found is None:
            try:
                found = self._test(test)
            except LimitError as error:
                what, argument, _ = test
                source = self.sources.get((what, argument))
                raise error if source is None else excess(error, source[0], source[1] + source[2]) from None
            self.tests[test] = found
        return found

    def _test(self, test: tuple[str, object, bool]) -> Dfa:
        """As `test`, not remembered."""
        what, argument, holds = test
        if not holds:
            found = automata.complement(self.possible(what, argument), budget=self.budget)
        elif what == "pattern":
            assert isinstance(argument, str)
            found = pattern_dfa(argument, self.budget)
        elif what == "format":
            assert isinstance(argument, str)
            nearly = approximations(argument)
            automaton = format_dfa(argument) if nearly is None else nearly.within
            if automaton is None:
                schema, keyword, _ = self.sources["format", argument]
                raise Inexact(
                    schema,
                    keyword,
                    f"format {argument!r} has no automaton: it cannot be negated, nor meet another constraint on the same string",
                )
            found = automaton
        else:
            assert what == "words" and isinstance(argument, frozenset)
            found = automata.from_strings(argument, budget=self.budget)
        return found

    @staticmethod
    def have_automata(tests: Tests) -> bool:
        """Whether all tests have automata; those without meet no other test."""
        formats = [str(argument) for what, argument, _ in tests if what == "format"]
        return all(approximations(name) is not None or format_dfa(name) is not None for name in formats)

    def possible(self, what: str, argument: object) -> Dfa:
        """The automaton of the strings that may pass a test: that of the test where it is exact."""
        nearly = approximations(argument) if what == "format" and isinstance(argument, str) else None
        return self.test((what, argument, True)) if nearly is None else nearly.either

    @staticmethod
    def unknown(texts: Texts) -> Dfa:
        """Strings that the automaton of a union may wrongly leave out: those that no automaton tells from others, as nested as they are."""
        found = {
            nearly.beyond
            for text in texts
            for what, argument, _ in text.tests
            if what == "format" and (nearly := approximations(str(argument))) is not None
        }
        return next(iter(found), NOTHING)

    def all_of(self, tests: Tests) -> Dfa:
        """The automaton of the strings that pass every test."""
        found = self.combined.get(tests)
        if found is None:
            level = sorted(map(self.test, in_order(tests)), key=_size)
            if len(level) >= _MANY_TESTS:
                self.budget.spend(len(level) * sum(map(_size, level)) // 8)  # the texts of each are read by all
                self.budget.check_states(language.least_states(level, self.budget.states))
            found = self.combined[tests] = self.meet(level)
        return found

    def meet(self, level: Sequence[Dfa]) -> Dfa:
        """The intersection of some automata, as a balanced tree.

        PERF: texts that differ in a few of many tests, as the branches of a oneOf do, share most of the tree.
        """
        while len(level) > 1:
            level = [*map(self.pair, level[::2], level[1::2]), *level[len(level) & ~1 :]]
        return level[0]

    def pair(self, a: Dfa, b: Dfa) -> Dfa:
        """The intersection of two automata."""
        key = (id(a), id(b))
        found = self.pairs.get(key)
        if found is None:
            found = self.pairs[key] = (a, b, automata.intersection(a, b, budget=self.budget))
        return found[2]

    def automaton(self, text: Text) -> Dfa:
        """The automaton of one part, bounds included."""
        found = self.bounded.get(text)
        if found is None:
            if text.words is not None:
                found = automata.from_strings(text.words, budget=self.budget)
            else:
                found = self.all_of(text.tests)
                lengths = self.length_bounds(text.tests) if text.low > 0 or text.high >= 0 else None
                if lengths is not None and lengths[1] is not None and lengths[1] < text.low:
                    found = NOTHING
                elif lengths is not None:
                    # A bound that all texts keep anyway costs no states; any other takes as many as it counts to.
                    low = text.low if text.low > lengths[0] else 0
                    high = text.high if lengths[1] is None or lengths[1] > text.high else -1
                    self.budget.check_states(max(low, high))
                    found = bounded(found, low, high, self.budget) if low or high >= 0 else found
            self.bounded[text] = found
        return found

    def union(self, texts: Texts) -> Dfa:
        """The automaton of a union of parts."""
        return automata.union(*(self.automaton(text) for text in texts), budget=self.budget)

    def within(self, text: Text) -> bool:
        """Whether every string that passes the tests of a part keeps its bounds anyway."""
        low, high, tests, _ = text
        if low <= 0 and high < 0:
            return True
        lengths = self.length_bounds(tests)
        return lengths is None or (lengths[0] >= low and (high < 0 or (lengths[1] is not None and lengths[1] <= high)))

    def length_bounds(self, tests: Tests) -> tuple[int, int | None] | None:
        """The lengths of the shortest and the longest string that passes all tests, as `language.length_bounds` gives them."""
        if tests not in self.lengths:
            self.lengths[tests] = language.length_bounds(self.all_of(tests))
        return self.lengths[tests]

    def has(self, text: Text, word: str) -> bool:
        """Whether a part holds a string."""
        if text.words is not None:
            return word in text.words
        return bool(self.kept(frozenset((word,)), text))

    def kept(self, words: frozenset[str], text: Text) -> frozenset[str]:
        """Those of some words that keep the bounds and pass the tests of a part."""
        low, high, tests, _ = text
        if low > 0 or high >= 0:
            words = frozenset(word for word in words if low <= len(word) and (high < 0 or len(word) <= high))
        for what, argument, holds in tests:
            if what == "words":
                words = words & argument if holds else words - argument  # type: ignore[operator]
            elif words and what == "format":
                # Also formats that have no automaton can be asked of single words. The bound on the length is with the part.
                words = frozenset(word for word in words if format_accepts(str(argument), word) is holds)
            elif words:
                automaton = self.test((what, argument, holds))
                words = frozenset(word for word in words if language.accepts(automaton, word))
        return words

    def reduced(self, text: Text) -> Text | None:
        """The part in its simplest form, None where it holds no string."""
        low, high, tests, words = text
        if words is not None:
            kept = words if text[:3] == FREE[:3] else self.kept(words, text)
            return Text(words=kept) if kept else None
        if 0 <= high < low:
            return None
        if high == 0:
            return self.reduced(Text(low, -1, tests, frozenset({""})))
        if len(tests) == 1:
            ((what, argument, holds),) = tests
            if what == "format" and holds:
                assert isinstance(argument, str)
                shortest, longest = format_lengths(argument)
                return None if 0 <= high < shortest or (longest is not None and longest < low) else text
        kinds = [(what, holds) for what, _, holds in tests]
        if kinds.count(_EXCLUDED) > 1:
            tests = _merge_excluded(tests)
            text = Text(low, high, tests)
        regular = len(tests) - (_EXCLUDED in kinds)
        # Finitely many words excluded from all strings, or from an endless language, leave some.
        if regular > 1 or (regular and (low or high >= 0)) or (len(tests) > regular > 0 and self.is_finite(tests)):
            shortest = self.shortest(tests)
            if shortest < 0 or 0 <= high < shortest:
                return None
            # PERF: with several tests this would take the automaton of them all; what is empty then is found when it is written.
            if low > shortest and len(tests) == 1 and self.longest(tests, low) < low:
                return None
        return text

    def shortest(self, tests: Tests) -> int:
        """At most the length of the shortest string that passes all tests, -1 where surely none does; needs no automaton of them all."""
        found = self.shortest_lengths.get(tests)
        if found is None:
            found = self.shortest_lengths[tests] = self._shortest(tests)
        return found

    def _shortest(self, tests: Tests) -> int:
        """As `shortest`, not remembered.

        PERF: tests mostly come one by one, as those of an allOf or of the other branches of a oneOf do. A shortest string of the tests
        before that passes the new ones too is a shortest string of them all.
        """
        for word, passed in reversed(self.common_words.items()):
            self.budget.spend()
            if passed <= tests and all(language.accepts(self.test(test), word) for test in tests - passed):
                self.common_words[word] = tests
                return len(word)
        before = next((known for passed, known in reversed(self.long_words.items()) if passed < tests), None)
        if before is not None and self._lengthened(tests, before):
            return before.least
        length, common = _shortest_common([self.test(test) for test in tests], self.budget)
        if common is not None:
            _keep_latest(self.common_words, common, tests)
        elif length > 0:
            self._lengthened(tests, _LongWord(length, "", {}))
        return length

    def _lengthened(self, tests: Tests, before: _LongWord) -> bool:
        """Whether a string passes more tests with shortest strings of the new ones behind it; then it is kept.

        PERF: for dozens of patterns that may match anywhere each search for a shortest string is given up, after 10 to 50 ms.
        """
        new = in_order(tests.difference(before.states))
        added = "".join([language.shortest(self.test(test)) or "" for test in new])
        word = before.word + added
        if len(word) > _MOST_OF_A_WORD:
            return False
        self.budget.spend((len(word) * len(new) + len(added) * len(tests)) // 2)
        states: dict[tuple[str, object, bool], int] = {}
        for test in tests:
            automaton, known = self.test(test), before.states.get(test)
            state = language.after(automaton, word) if known is None else language.after(automaton, added, known)
            if state is None or not automaton.accepting[state]:
                return False
            states[test] = state
        _keep_latest(self.long_words, tests, _LongWord(before.least, word, states))
        return True

    def longest(self, tests: Tests, enough: int) -> int:
        """The length of the longest string that passes all tests, or at least a length that is `enough`."""
        lengths = self.length_bounds(tests)
        return -1 if lengths is None else enough if lengths[1] is None else lengths[1]

    def is_finite(self, tests: Tests) -> bool:
        """Whether one of the tests that are no excluded words passes finitely many strings."""
        return any(language.is_finite(self.test(test)) for test in tests if (test[0], test[2]) != _EXCLUDED)

    def intersect(self, left: Texts, right: Texts) -> Texts:
        """Strings in both unions."""
        if left == (FREE,):
            return right
        if right == (FREE,):
            return left
        if len(left) * len(right) > MOST_PAIRS:
            left, right = self.together(left), self.together(right)
        found = (self.both(a, b) for a in left for b in right)
        return tuple(dict.fromkeys(text for text in found if text is not None))

    def together(self, texts: Texts) -> Texts:
        """A union in fewer parts: those with the same bounds are one, by the automaton of their union."""
        found = self.gathered.get(texts)
        if found is None:
            found = self.gathered[texts] = self._together(texts)
        return found

    def _together(self, texts: Texts) -> Texts:
        groups: dict[tuple[int, int], list[Text]] = {}
        for text in texts:
            groups.setdefault(text[:2] if text.words is None else (0, 0), []).append(text)
        result: list[Text] = []
        for (low, high), parts in groups.items():
            if len(parts) == 1 or parts[0].words is not None or any(self.is_beyond_automata(text) for text in parts):
                result += parts
                continue
            union = automata.union(*(self.all_of(text.tests) for text in parts), budget=self.budget)
            test = ("union", self.unions.setdefault(union, len(self.unions)), True)
            self.tests[test] = union
            result.append(Text(low, high, frozenset((test,))) if union != ANYTHING else Text(low, high))
        return tuple(result)

    def exactly_one(self, unions: Sequence[Texts]) -> Texts | None:
        """The strings in one of some unions and in no other; None where they have bounds, or automata do not represent them exactly.

        PERF: as the complements of all others met one by one, each union would keep apart which others took a string. It matters only
        whether none, one or more did, so half of the unions are put together as these two automata, then both halves.
        """
        parts = [text for texts in unions for text in texts]
        inexact = (what == "format" and approximations(str(argument)) is not None for text in parts for what, argument, _ in text.tests)
        if any(text.low > 0 or text.high >= 0 or text.words is not None or self.is_beyond_automata(text) for text in parts) or any(inexact):
            return None
        meet, unite, budget = automata.intersection, automata.union, self.budget
        level = []
        for texts in unions:
            one = self.union(texts)
            level.append((one, automata.complement(one, budget=budget)))
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            level = [
                (
                    unite(meet(one, no_other, budget=budget), meet(none, other, budget=budget), budget=budget),
                    meet(none, no_other, budget=budget),
                )
                for (one, none), (other, no_other) in pairs
            ] + level[len(level) & ~1 :]
        found = level[0][0]
        if found in (NOTHING, ANYTHING):
            return (FREE,) if found == ANYTHING else ()
        test = ("union", self.unions.setdefault(found, len(self.unions)), True)
        self.tests[test] = found
        return (Text(tests=frozenset((test,))),)

    @staticmethod
    def is_beyond_automata(text: Text) -> bool:
        """Whether one of the tests has no automaton."""
        return any(what == "format" and format_dfa(str(argument)) is None for what, argument, _ in text.tests)

    def both(self, a: Text, b: Text) -> Text | None:
        """Strings in both parts."""
        words = a.words if b.words is None else b.words if a.words is None else a.words & b.words
        return self.reduced(Text(max(a.low, b.low), high_bound(a.high, b.high), a.tests | b.tests, words))

    @staticmethod
    def complement(text: Text) -> Texts:
        """All strings outside a part."""
        if text.words is not None:
            return (Text(tests=frozenset({("words", text.words, False)})),)
        tests = in_order(text.tests)
        result = [Text(tests=frozenset({(what, argument, not holds)})) for what, argument, holds in tests]
        for index, (what, argument, holds) in enumerate(tests):
            if what == "words" and not holds:
                assert isinstance(argument, frozenset)
                result[index] = Text(words=argument)
        if text.low > 0:
            result.append(Text(high=text.low - 1))
        if text.high >= 0:
            result.append(Text(low=text.high + 1))
        return tuple(result)

    def values(self, text: Text, limit: int) -> Iterable[str] | None:
        """The strings of a part, None where there are more than `limit`."""
        if text.words is not None:
            return sorted(text.words) if len(text.words) <= limit else None
        if not text.tests and text.high != 0:
            return None
        automaton = self.all_of(text.tests)
        if language.has_more(automaton, text.low, text.high, limit):
            return None
        automaton = self.automaton(text)
        total = language.count(automaton, limit + 1)
        return list(language.enumerate_texts(automaton)) if total is not None and total <= limit else None


def in_order(tests: Tests) -> Sequence[tuple[str, object, bool]]:
    """The tests in an order that is the same in every process, as a set of strings is not: equal schemas give equal grammars."""
    if len(tests) < 2:
        return list(tests)
    return sorted(tests, key=lambda test: (test[0], test[2], sorted(test[1]) if isinstance(test[1], frozenset) else [str(test[1])]))


def _keep_latest(table: dict[K, V], key: K, value: V) -> None:
    """Keep a value as the latest, and no more than the latest few."""
    table.pop(key, None)
    table[key] = value
    if len(table) > _MOST_COMMON:
        del table[next(iter(table))]


def _size(automaton: Dfa) -> int:
    """The number of states."""
    return len(automaton.accepting)


class _Patterns:
    """Automata of patterns compiled before, each with the work it took, so that no verdict depends on what was compiled before.

    PERF: many schemas share patterns, and one of ordinary size takes 0.3 to 1 ms. When they are too many, or too large together, they are
    dropped.
    """

    def __init__(self) -> None:
        self.found: dict[str, tuple[Dfa, int]] = {}
        self.transitions = 0

    def keep(self, pattern: str, found: Dfa, work: int) -> None:
        """Keep the automaton of a pattern if both are small."""
        transitions = sum(map(len, found.transitions))
        if len(pattern) > _MOST_OF_A_PATTERN or transitions > _MOST_OF_A_PATTERN:
            return
        if len(self.found) >= _MOST_PATTERNS or self.transitions + transitions > _MOST_TRANSITIONS:
            self.found.clear()
            self.transitions = 0
        self.found[pattern] = found, work
        self.transitions += transitions


_PATTERNS: Final = _Patterns()
_MOST_PATTERNS: Final = 512
_MOST_TRANSITIONS: Final = 1 << 17
"""Those of all automata that are kept; one takes about 100 bytes."""
_MOST_OF_A_PATTERN: Final = 1 << 12
"""The most characters of a pattern that is kept, and the most transitions of its automaton."""


def pattern_dfa(pattern: str, budget: Budget) -> Dfa:
    """The automaton of the strings in which a pattern finds a match; small ones are remembered."""
    known = _PATTERNS.found.get(pattern)
    if known is None:
        before = budget.work
        found = regex_dfa(pattern, search=True, budget=budget)
        _PATTERNS.keep(pattern, found, budget.work - before)
    else:
        found, work = known
        budget.spend(work)
    budget.check_states(len(found.accepting))
    return found


MOST_TUPLES: Final = 2_000
"""The bound of a search for the shortest common text. A set that it does not find empty is found empty when it is written."""
_MANY_TESTS: Final = 8
"""So many automata may have an intersection that surely has too many states."""
_MOST_COMMON: Final = 16
_MOST_OF_A_WORD: Final = 2_000


def _shortest_common(automata_of_tests: Sequence[Dfa], budget: Budget) -> tuple[int, str | None]:
    """The length of a shortest text that all automata accept, or a lower one where that is long to find, -1 for none; and the text.

    The text is None if there is none, or if the search takes too long or leaves out an automaton.
    Breadth first over tuples of states, so it stops at the first text and never builds the product; without automata that are very large.
    """
    if len(automata_of_tests) == 2 and language.begin_differently(*automata_of_tests):
        return -1, None
    known = [(table, automaton.accepting) for automaton in automata_of_tests if (table := by_classes(automaton)) is not None]
    if not known:
        return 0, None
    # Class 0 leads nowhere: only the characters that all automata read matter.
    intervals, refined = common_refinement([table for table, _ in known])
    budget.spend(60 + len(intervals) * (1 + len(known) // 4))  # 60 us for small automata, too
    places = [number for number, classes in enumerate(refined) if all(classes)]
    shared = [refined[number] for number in places]
    ends = [accepting for _, accepting in known]
    rows = [project(table.rows, [classes[place] for classes in shared]) for place, (table, _) in enumerate(known)]
    budget.spend(sum(map(len, rows)) * (1 + len(shared) // 32))
    start = (0,) * len(known)
    seen = {start: start}  # each with the one before it
    level = [start]
    length = 0
    while level:
        for states in level:
            if all(map(getitem, ends, states)):
                if len(known) < len(automata_of_tests):
                    return length, None
                first = {number: chr(lo) for lo, _, number in reversed(intervals)}
                text = []
                while states != start:
                    before = seen[states]
                    read = list(zip(*map(getitem, rows, before), strict=True)).index(states)
                    text.append(first[places[read]])
                    states = before
                return length, "".join(reversed(text))
        following: dict[tuple[int, ...], tuple[int, ...]] = {}
        for states in level:
            following.update(dict.fromkeys(zip(*map(getitem, rows, states), strict=True), states))
        level = [states for states in following if states not in seen and -1 not in states]
        seen.update((states, following[states]) for states in level)
        budget.spend(len(level) * (2 + len(shared) // 4 + len(known) * len(shared) // 32))
        length += 1
        if len(seen) > MOST_TUPLES:
            return length, None
    return -1, None


def _merge_excluded(tests: Tests) -> Tests:
    """The tests with all sets of excluded words put together."""
    words: list[frozenset[str]] = [argument for what, argument, holds in tests if (what, holds) == _EXCLUDED]  # type: ignore[misc]
    rest = {test for test in tests if (test[0], test[2]) != _EXCLUDED}
    return frozenset({*rest, ("words", frozenset().union(*words), False)})


def bounded(automaton: Dfa, low: int, high: int, budget: Budget) -> Dfa:
    """An automaton, not minimal, of the accepted texts of `low` to `high` characters (-1 is no bound).

    Its states are pairs of a state and a count, only those from which a text of the right length can still be finished.
    """
    transitions, accepting = automaton.transitions, automaton.accepting
    distance = language.distances(automaton)
    last = low if high < 0 else high
    alive: list[set[int]] | None = None
    if low > 0:
        sources: list[set[int]] = [set() for _ in transitions]
        for state, row in enumerate(transitions):
            for _, _, target in row:
                sources[target].add(state)
        final = {state for state, accepts in enumerate(accepting) if accepts}
        # Past `low` without an upper bound every state of a trimmed automaton can finish.
        current = set(range(len(accepting))) if high < 0 else set(final)
        alive = [current]
        for count in range(last - 1, -1, -1):
            current = {source for target in current for source in sources[target]}
            if count >= low:
                current |= final
            alive.append(current)
            budget.spend(1 + len(current) // 4)
        alive.reverse()
        if 0 not in alive[0]:
            return NOTHING
    elif distance[0] > high:
        return NOTHING
    start = (0, 0)
    numbers = {start: 0}
    todo = [start]
    rows: list[tuple[tuple[int, int, int], ...]] = []
    ends: list[bool] = []
    for state, count in todo:
        ends.append(accepting[state] and count >= low)
        moves: list[tuple[int, int, int]] = []
        following = count + 1
        if following > last:
            following = last if high < 0 else -1
        if following >= 0:
            for lo, hi, target in transitions[state]:
                if (target in alive[following]) if alive is not None else distance[target] <= high - following:
                    pair = (target, following)
                    number = numbers.get(pair)
                    if number is None:
                        number = numbers[pair] = len(todo)
                        todo.append(pair)
                    moves.append((lo, hi, number))
        rows.append(tuple(moves))
        budget.spend(1 + len(transitions[state]) // 2)
        if not len(rows) & 1023:
            budget.check_states(len(todo))
    return Dfa(tuple(rows), tuple(ends))


def merged(texts: Sequence[Text]) -> Texts:
    """A union with all finite sets put together, and alone where it is every string."""
    if FREE in texts:
        return (FREE,)
    words = [text.words for text in texts if text.words is not None]
    if len(words) > 1:
        return (Text(words=frozenset().union(*words)), *dict.fromkeys(text for text in texts if text.words is None))
    return tuple(dict.fromkeys(texts))
