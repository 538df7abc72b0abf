"""Deterministic finite automata over code points, and the Boolean algebra of their languages.

A Dfa is the payload of an AUTOMATON node: per state the sorted transitions (lo, hi, target), and whether the state accepts.
Every function of this module and of nfa.py returns the *canonical* automaton of its language: minimal, trimmed (only states from which a
text is accepted), numbered breadth first in the order of the transitions, adjacent ranges joined.
So two languages are equal exactly when their automata are equal, and an automaton is a dictionary key for its language.
The one state of the empty language, 0, has no transitions and does not accept.

The alphabet is all scalar values: no transition reads a surrogate.

Inside an operation rows are not ranges but have a target for each class of characters, or, where classes are many, are lists of
(target, label): minimize.py.

Not here: minimisation (minimize.py), questions about a language (language.py), concatenation, repetition and reversal (nfa.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from operator import add, and_, gt, or_
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from ..budget import Budget
from . import charset
from .char_classes import (
    MOST_CLASSES,
    NO_LABEL,
    ClassRow,
    ClassTable,
    Interval,
    LabelId,
    Labels,
    class_table,
    common_lengths,
    common_refinement,
    project,
)
from .charset import CharSet
from .minimize import ClassRows, LabelRows, Row, Rows, Transitions, canonical_form, numbered, rows_of

FEW_WORDS: Final = 4
"""Unions of more automata than this are looked at for words."""
LARGE_PRODUCT: Final = 1_000
"""Pairs of states of a product that looks at lengths first."""


@dataclass(frozen=True, slots=True)
class Dfa:
    """A deterministic automaton with start state 0; `transitions[state]` are sorted disjoint (lo, hi, target)."""

    transitions: Transitions
    accepting: tuple[bool, ...]
    tables: list[ClassTable | None] = field(default_factory=list, init=False, repr=False, compare=False)
    """The rows by classes, once they were needed; see `by_classes`."""

    def __repr__(self) -> str:
        return f"<Dfa of {len(self.accepting)} states, {sum(map(len, self.transitions))} transitions>"


def by_classes(automaton: Dfa) -> ClassTable | None:
    """The rows of an automaton by classes of characters, None where it has too many of both; kept with the automaton."""
    if not automaton.tables:
        automaton.tables.append(class_table(automaton.transitions))
    return automaton.tables[0]


NOTHING: Final = Dfa(((),), (False,))
EPSILON: Final = Dfa(((),), (True,))
ANYTHING: Final = Dfa((((0, 0xD7FF, 0), (0xE000, 0x10FFFF, 0)),), (True,))


def from_set(chars: CharSet) -> Dfa:
    """One character out of a set.

    >>> from_set((97, 99)).transitions
    (((97, 99, 1),), ())
    """
    chars = charset.from_ranges(charset.pairs(chars))
    return Dfa((tuple((lo, hi, 1) for lo, hi in charset.pairs(chars)), ()), (False, True)) if chars else NOTHING


def from_string(text: str) -> Dfa:
    """One text."""
    return from_strings((text,))


def from_strings(words: Iterable[str], *, budget: Budget | None = None) -> Dfa:
    """The words and no other text; a word with a lone surrogate is no text and is left out.

    The trie is folded bottom up, equal subtrees into one, so the time is linear in the text.

    >>> from_strings(["cat", "rat"])
    <Dfa of 4 states, 4 transitions>
    """
    texts = (word for word in words if not any("\ud800" <= character <= "\udfff" for character in word))
    return from_letters(texts, lambda character: (ord(character), ord(character)), budget or Budget())


LetterT = TypeVar("LetterT", bound=Hashable)


def from_letters(
    words: Iterable[Sequence[LetterT]], chars: Callable[[LetterT], CharSet], budget: Budget, *, prefix_free: bool = False
) -> Dfa:
    """Words over letters that stand for disjoint sets of characters; with `prefix_free` without those that begin with an earlier word."""
    children, final = _trie(words, prefix_free, budget)
    labels = Labels()
    rows: list[Row] = []
    accepting: list[bool] = []
    folded = [0] * len(children)
    budget.spend(2 * len(children))
    known: dict[tuple[bool, tuple[tuple[int, LabelId], ...]], int] = {}
    sets: dict[LetterT, LabelId] = {}
    for node in range(len(children) - 1, -1, -1):  # a child is younger than its parent
        row: Row = []
        by_target: dict[int, list[LabelId]] = {}
        for letter, child in children[node].items():
            label = sets.get(letter)
            if label is None:
                label = sets[letter] = labels.intern(chars(letter))
            if len(children[node]) == 1:  # PERF: most nodes have one child
                row = [(folded[child], label)]
            else:
                by_target.setdefault(folded[child], []).append(label)
        if by_target:
            row = [(target, labels.union(found)) for target, found in sorted(by_target.items())]
        key = (final[node], tuple(row))
        state = known.get(key)
        if state is None:
            state = known[key] = len(rows)
            rows.append(row)
            accepting.append(final[node])
        folded[node] = state
    if not rows[-1] and not accepting[-1]:
        return NOTHING
    return Dfa(*numbered(LabelRows(rows, labels), accepting, list(range(len(rows))), len(rows) - 1, budget))


def _trie(words: Iterable[Sequence[LetterT]], prefix_free: bool, budget: Budget) -> tuple[list[dict[LetterT, int]], list[bool]]:
    children: list[dict[LetterT, int]] = [{}]
    final = [False]
    for word in words:
        budget.spend(1 + len(word))
        node = 0
        for letter in word:
            if prefix_free and final[node]:
                break
            child = children[node].get(letter)
            if child is None:
                child = children[node][letter] = len(children)
                children.append({})
                final.append(False)
            node = child
        final[node] = True
        budget.check_positions(len(children))
    return children, final


def union(*automata: Dfa, budget: Budget | None = None) -> Dfa:
    """Texts that any of the automata accepts."""
    budget = budget or Budget()
    if len(automata) > FEW_WORDS:
        # PERF: words are one trie, where a tree of products would copy each of them at every level.
        words = {place: word for place, automaton in enumerate(automata) if (word := _word(automaton)) is not None}
        if len(words) > FEW_WORDS:
            others = [automaton for place, automaton in enumerate(automata) if place not in words]
            automata = (from_strings(words.values(), budget=budget), *others)
    return _fold(automata, NOTHING, UNION, budget)


def _word(automaton: Dfa) -> str | None:
    """The only text that an automaton accepts; None if it accepts none or several, or is not canonical."""
    text = []
    for state, row in enumerate(automaton.transitions[:-1]):
        if len(row) != 1 or row[0][0] != row[0][1] or row[0][2] != state + 1 or automaton.accepting[state]:
            return None
        text.append(chr(row[0][0]))
    return "".join(text) if automaton.accepting[-1] and not automaton.transitions[-1] else None


def intersection(*automata: Dfa, budget: Budget | None = None) -> Dfa:
    """Texts that all of the automata accept; any text without automata."""
    return _fold(automata, ANYTHING, INTERSECTION, budget or Budget())


def difference(left: Dfa, right: Dfa, *, budget: Budget | None = None) -> Dfa:
    """Texts that `left` accepts and `right` does not."""
    return _product(left, right, DIFFERENCE, budget or Budget())


def complement(automaton: Dfa, *, budget: Budget | None = None) -> Dfa:
    """All texts that the automaton, a canonical one, does not accept.

    Completed by a sink it is still minimal.
    So there is nothing to merge, and at most one state, from which every text was accepted, to leave out.

    >>> complement(complement(from_string("ab"))) == from_string("ab")
    True
    """
    sink = len(automaton.accepting)
    budget = budget or Budget()
    budget.check_states(sink + 1)
    budget.spend(3 * sink)
    universal = universal_state(automaton)
    if not universal:
        return NOTHING
    numbers = {0: 0} if automaton != NOTHING else {sink: 0}
    order = [*numbers]
    transitions: list[tuple[tuple[int, int, int], ...]] = []
    for state in order:
        row: list[tuple[int, int, int]] = []
        end = 0
        for lo, hi, target in (*(automaton.transitions[state] if state != sink else ()), (0x110000, 0, universal)):
            if lo > end:
                row += [(max(end, low), min(lo - 1, high), sink) for low, high in _SCALARS if low < lo and end <= high]
            if target != universal:
                row.append((lo, hi, target))
            end = hi + 1
        for _, _, target in row:
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
        transitions.append(tuple([(lo, hi, numbers[target]) for lo, hi, target in row]))
    return Dfa(tuple(transitions), tuple([state == sink or not automaton.accepting[state] for state in order]))


_SCALARS: Final = ((0, 0xD7FF), (0xE000, 0x10FFFF))


def universal_state(automaton: Dfa) -> int:
    """The state from which every text is accepted, of which a canonical automaton has at most one; -1 where there is none."""
    return next((state for state, row in enumerate(automaton.transitions) if automaton.accepting[state] and _is_loop(row, state)), -1)


def _is_loop(row: tuple[tuple[int, int, int], ...], state: int) -> bool:
    """Whether a row leads back to its state whatever is read."""
    return row == ((0, 0xD7FF, state), (0xE000, 0x10FFFF, state))


def by_right_state(left: Dfa, right: Dfa, *, budget: Budget | None = None) -> dict[int, Dfa]:
    """For each state of `right` the texts that `left` accepts and that lead there; states that no such text leads to are left out.

    One exploration serves them all, and each is trimmed from its own ends backwards: of a tree of words, each takes its path alone.

    >>> found = by_right_state(ANYTHING, from_strings(["ab", "ac"]))
    >>> {state: automaton == from_string(text) for (state, automaton), text in zip(found.items(), ["", "a"])}
    {0: True, 1: True}
    """
    budget = budget or Budget()
    pairs = _LabelPairs(left, right, INTERSECTION, budget)
    numbers = {0: 0}
    todo = [0]
    rows: list[Row] = []
    before: list[list[int]] = [[]]
    for place, pair in enumerate(todo):
        row, _ = pairs.row(pair)
        moves: Row = []
        for target, label in row:
            number = numbers.get(target)
            if number is None:
                number = numbers[target] = len(todo)
                todo.append(target)
                before.append([])
            moves.append((number, label))
            before[number].append(place)
        rows.append(moves)
        budget.check_states(len(todo))
    ends: dict[int, list[int]] = {}
    for place, pair in enumerate(todo):
        p, q = divmod(pair, pairs.width)
        if left.accepting[p]:
            ends.setdefault(q, []).append(place)
    found: dict[int, Dfa] = {}
    for state, its in sorted(ends.items()):
        live = dict.fromkeys(its)
        order = [*live]
        for place in order:
            for source in before[place]:
                if source not in live:
                    live[source] = None
                    order.append(source)
        kept = sorted(order)  # the start is in it, and the first
        names = {place: name for name, place in enumerate(kept)}
        budget.spend(4 + 2 * len(kept))
        some = [[(names[target], label) for target, label in rows[place] if target in names] for place in kept]
        chosen = set(its)
        found[state] = canonical(some, [place in chosen for place in kept], pairs.labels, budget)
    return found


def contains(outer: Dfa, inner: Dfa, *, budget: Budget | None = None) -> bool:
    """Whether `outer` accepts every text that `inner` accepts."""
    return not _leaves(inner, outer, budget or Budget())


def minimize(automaton: Dfa, *, budget: Budget | None = None) -> Dfa:
    """The canonical automaton of the language of any automaton: trimmed or not, its ranges joined or not, with surrogates or without."""
    labels = Labels()
    rows = [
        [(target, label) for lo, hi, target in transitions if (label := labels.intern(charset.from_ranges([(lo, hi)]))) != NO_LABEL]
        for transitions in automaton.transitions
    ]
    return canonical(rows, list(automaton.accepting), labels, budget or Budget())


def restrict_length(automaton: Dfa, minimum: int, maximum: int = -1, *, budget: Budget | None = None) -> Dfa:
    """The accepted texts of `minimum` to `maximum` characters, -1 for no bound.

    >>> restrict_length(from_strings(["", "a", "ab", "abc"]), 1, 2)
    <Dfa of 3 states, 2 transitions>
    """
    budget = budget or Budget()
    last = minimum if maximum < 0 else maximum + 1  # the counter stops here: enough read, or too much
    if maximum >= 0 and maximum < minimum:
        return NOTHING
    labels = Labels()
    source = label_rows(automaton, labels)
    numbers = {(0, 0): 0}
    todo = [(0, 0)]
    rows: list[Row] = []
    accepting: list[bool] = []
    for state, read in todo:
        accepting.append(automaton.accepting[state] and read >= minimum)
        following = min(read + 1, last)
        row: Row = []
        if maximum < 0 or following <= maximum:
            for target, label in source[state]:
                number = numbers.get((target, following))
                if number is None:
                    number = numbers[target, following] = len(todo)
                    todo.append((target, following))
                row.append((number, label))
        rows.append(row)
        budget.check_states(len(todo))
        budget.spend(2 + len(row))
    return canonical(rows, accepting, labels, budget)


def canonical(rows: list[Row], accepting: list[bool], labels: Labels, budget: Budget) -> Dfa:
    """The canonical Dfa of rows of labels from start state 0."""
    return Dfa(*canonical_form(rows_of(rows, labels), accepting, budget))


def label_rows(automaton: Dfa, labels: Labels) -> list[Row]:
    """The rows of an automaton with interned labels, one entry a target."""
    rows: list[Row] = []
    intern = labels.intern
    for transitions in automaton.transitions:
        if len(transitions) == 1:
            lo, hi, target = transitions[0]
            rows.append([(target, intern((lo, hi)))])
            continue
        by_target: dict[int, list[int]] = {}
        for lo, hi, target in transitions:
            flat = by_target.get(target)
            if flat is None:
                by_target[target] = [lo, hi]
            elif flat[-1] + 1 == lo:
                flat[-1] = hi
            else:
                flat += (lo, hi)
        rows.append([(target, intern(tuple(flat))) for target, flat in by_target.items()])
    return rows


# Products. A pair of states is one number, left * width + right, where width counts the states on the right.


class BooleanOp(NamedTuple):
    """A Boolean operation on two languages."""

    accepts: Callable[[bool, bool], bool]
    """Whether a text is in the result, by whether it is in the left language and in the right one."""
    left_sink: bool
    """Whether texts matter on which the left automaton fails: a sink completes it then."""
    right_sink: bool
    """The same for the right automaton."""


UNION: Final = BooleanOp(or_, True, True)
INTERSECTION: Final = BooleanOp(and_, False, False)
DIFFERENCE: Final = BooleanOp(gt, False, True)  # True > False and no other pair


def _fold(automata: tuple[Dfa, ...], unit: Dfa, operation: BooleanOp, budget: Budget) -> Dfa:
    """The product of many automata, always of the two smallest that are left.

    So no automaton is carried through all of them, and where the whole is too large, that shows in a product of two about as large, before
    any other nearly as large was made.
    """
    if not automata:
        return unit
    left = [(len(automaton.accepting), place, automaton) for place, automaton in enumerate(automata)]
    heapify(left)
    for place in range(len(automata), 2 * len(automata) - 1):
        found = _product(heappop(left)[2], heappop(left)[2], operation, budget)
        heappush(left, (len(found.accepting), place, found))
    return left[0][2]


def _product(left: Dfa, right: Dfa, operation: BooleanOp, budget: Budget) -> Dfa:
    """The canonical automaton of a Boolean operation on two."""
    if operation is INTERSECTION and NOTHING in (left, right):
        return NOTHING
    pairs = _ClassPairs.of(left, right, operation)
    with budget.part("one product of two automata"):
        if pairs is None:
            return _explore(_LabelPairs(left, right, operation, budget), left, right, operation, budget)
        return _explore(pairs, left, right, operation, budget)


RowT = TypeVar("RowT")
KeyT = TypeVar("KeyT", bound=Sized)


class _Pairs(Protocol[KeyT, RowT]):
    """The transitions of pairs of states: KeyT is a row with pairs for targets, RowT the same with their numbers."""

    width: int

    def row(self, pair: int) -> tuple[KeyT, set[int]]:
        """The row of a pair, and its targets."""

    def is_dead(self, pair: int) -> bool:
        """Whether no text is accepted from a pair, as far as that is easy to tell."""

    def renamed(self, row: KeyT, numbers: dict[int, int]) -> RowT:
        """A row with numbers for targets; -1 is the number of dead pairs."""

    def rows(self, rows: list[RowT]) -> Rows[Any]:
        """All rows, to be minimised."""


def _explore(pairs: _Pairs[KeyT, RowT], left: Dfa, right: Dfa, operation: BooleanOp, budget: Budget) -> Dfa:
    """Breadth first over the pairs in reach.

    PERF: a pair of 17 classes takes 3 us here and 10 us to be minimised and numbered, so the latter is expected from the start: an
    intersection of 16 lookaheads is refused after 0.2 s instead of 2.4 s.
    """
    numbers = {0: 0}
    todo = [0]
    rows: list[RowT] = []
    work = expected = 0
    row_of, renamed, is_dead = pairs.row, pairs.renamed, pairs.is_dead
    for pair in todo:
        row, targets = row_of(pair)
        for target in targets.difference(numbers):
            if is_dead(target):
                numbers[target] = -1
            else:
                numbers[target] = len(todo)
                todo.append(target)
        rows.append(renamed(row, numbers))
        work += 4 + len(row) // 4
        expected += 4 + len(targets) // 2
        if work > 500:
            budget.check_states(len(todo))
            budget.spend(work)
            budget.expect(expected)
            work = 0
    budget.check_states(len(todo))
    budget.spend(work)
    # Index -1 of either side is its sink.
    ends = [divmod(pair, pairs.width) for pair in todo]
    in_left, in_right = (*left.accepting, False), (*right.accepting, False)
    accepting = [operation.accepts(in_left[p], in_right[q]) for p, q in ends]
    written = pairs.rows(rows)
    found = Dfa(*canonical_form(written, accepting, budget))
    if isinstance(written, ClassRows) and written.numbered:
        found.tables.append(written.table())
    return found


class _ClassPairs:
    """Pairs of states by classes of characters: a row is one addition for each class."""

    def __init__(
        self, one: ClassTable, other: ClassTable, classes: list[tuple[int, int]], intervals: list[Interval], operation: BooleanOp
    ) -> None:
        self.intervals = intervals
        self.width = width = len(other.rows) + operation.right_sink
        nowhere = -len(one.rows) * width - width
        self.dead = len(one.rows) * width + width - 1 if operation.left_sink and operation.right_sink else nowhere
        self.left = _keys(one.rows, [p for p, _ in classes], width, operation.left_sink, nowhere)
        self.right = _keys(other.rows, [q for _, q in classes], 1, operation.right_sink, nowhere)
        self.may_meet: Callable[[int, int], bool] | None = None

    @classmethod
    def of(cls, left: Dfa, right: Dfa, operation: BooleanOp) -> _ClassPairs | None:
        """The pairs of two automata; None where these have too many classes."""
        one, other = by_classes(left), by_classes(right)
        if one is None or other is None:
            return None
        intervals, classes = common_refinement((one, other))
        # Class 0 leads nowhere on its side, and so in the product unless a sink completes it.
        chosen = [i for i, (p, q) in enumerate(classes) if (p or operation.left_sink) and (q or operation.right_sink) and (p or q)]
        if not chosen or len(chosen) > MOST_CLASSES:
            return None
        index = {number: place for place, number in enumerate(chosen)}
        intervals = [(lo, hi, index[its]) for lo, hi, its in intervals if its in index]
        pairs = cls(one, other, [(classes[i][0], classes[i][1]) for i in chosen], intervals, operation)
        # PERF: where a side has texts of few lengths only, as a timestamp of 24 characters, few of the pairs in reach lead to an end.
        if operation is INTERSECTION and len(one.rows) * len(other.rows) > LARGE_PRODUCT:
            pairs.may_meet = common_lengths((one.rows, left.accepting), (other.rows, right.accepting))
        return pairs

    def row(self, pair: int) -> tuple[list[int], set[int]]:
        p, q = divmod(pair, self.width)
        targets = list(map(add, self.left[p], self.right[q]))
        return targets, set(targets)

    def is_dead(self, pair: int) -> bool:
        return pair < 0 or pair == self.dead or (self.may_meet is not None and not self.may_meet(*divmod(pair, self.width)))

    def renamed(self, row: list[int], numbers: dict[int, int]) -> ClassRow:
        return tuple(map(numbers.__getitem__, row))

    def rows(self, rows: list[ClassRow]) -> ClassRows:
        return ClassRows(rows, self.intervals)


def _keys(rows: list[ClassRow], classes: list[int], factor: int, sink: bool, nowhere: int) -> list[ClassRow]:
    """The rows of one side of a product with the part that each target has in the number of a pair."""
    parts = [target * factor for target in range(len(rows) + sink)]
    if not sink:
        parts.append(nowhere)  # the last is what -1 picks, and so the sink where there is one
    part = parts.__getitem__
    found = [tuple(map(part, row)) for row in project(rows, classes)]
    if sink:
        found.append((parts[-1],) * len(classes))
    return found


class _LabelPairs:
    """Pairs of states by labels: where there are many classes, most states have few targets."""

    def __init__(self, left: Dfa, right: Dfa, operation: BooleanOp, budget: Budget) -> None:
        self.labels = Labels()
        self.budget = budget
        self.left = _completed(left, self.labels, operation.left_sink, budget)
        self.right = _completed(right, self.labels, operation.right_sink, budget)
        self.width = len(self.right)
        self.dead = len(self.left) * self.width - 1 if operation.left_sink and operation.right_sink else -1

    def row(self, pair: int) -> tuple[Row, set[int]]:
        p, q = divmod(pair, self.width)
        self.budget.spend(1 + min(len(self.left[p]) * len(self.right[q]), len(self.left[p]) + len(self.right[q]) + 256) // 2)
        row = _meet_rows(self.left[p], self.right[q], self.width, self.labels)
        return row, {target for target, _ in row}

    def is_dead(self, pair: int) -> bool:
        return pair == self.dead

    def renamed(self, row: Row, numbers: dict[int, int]) -> Row:
        return [(numbers[target], label) for target, label in row if numbers[target] >= 0]

    def rows(self, rows: list[Row]) -> Rows[Any]:
        return rows_of(rows, self.labels)


def _leaves(inner: Dfa, outer: Dfa, budget: Budget) -> bool:
    """Whether `inner` accepts a text that `outer` does not; stops at the first one found."""
    pairs = _LabelPairs(inner, outer, DIFFERENCE, budget)
    in_outer = (*outer.accepting, False)
    seen = {0}
    todo = [0]
    for pair in todo:
        p, q = divmod(pair, pairs.width)
        if inner.accepting[p] and not in_outer[q]:
            return True
        for target in pairs.row(pair)[1]:
            if target not in seen:
                seen.add(target)
                todo.append(target)
        budget.check_states(len(todo))
    return False


def _completed(automaton: Dfa, labels: Labels, sink: bool, budget: Budget) -> list[Row]:
    """The rows of an automaton, with a last state that takes over where the automaton has no transition."""
    rows = label_rows(automaton, labels)
    if sink:
        last = len(rows)
        rows.append([])
        for row in rows:
            budget.spend(2 + len(row))
            rest = labels.complement(labels.union([label for _, label in row])) if row else labels.intern(charset.ANY)
            if rest != NO_LABEL:
                row.append((last, rest))
    return rows


def _meet_rows(left: Row, right: Row, width: int, labels: Labels) -> Row:
    """The transitions of a pair of states."""
    if len(left) * len(right) > 256:
        return _merge_rows(left, right, width, labels)
    meet = labels.meet
    return [(p * width + q, both) for p, one in left for q, other in right if (both := meet(one, other))]


def _merge_rows(left: Row, right: Row, width: int, labels: Labels) -> Row:
    """As _meet_rows, for rows of many targets: one pass over the ranges instead of all pairs of labels."""
    one, other = _ranges(left, labels), _ranges(right, labels)
    found: dict[int, list[int]] = {}
    i = j = 0
    while i < len(one) and j < len(other):
        lo, hi, p = one[i]
        other_lo, other_hi, q = other[j]
        lo = max(lo, other_lo)
        if lo <= min(hi, other_hi):
            found.setdefault(p * width + q, []).extend((lo, min(hi, other_hi)))
        if hi < other_hi:
            i += 1
        else:
            j += 1
    return [(key, labels.intern(tuple(flat))) for key, flat in found.items()]


def _ranges(row: Row, labels: Labels) -> list[tuple[int, int, int]]:
    return sorted((lo, hi, target) for target, label in row for lo, hi in charset.pairs(labels.sets[label]))
