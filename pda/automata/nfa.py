"""Position automata: regular operations that need nondeterminism, and the way back to a Dfa.

A position automaton (Glushkov, "The abstract theory of automata", 1961) has one state a character position of an expression, and no empty
transitions: a fragment is (first, last, nullable), the sets of positions where a text may begin and end, and follow[p] says what comes
after position p.
All transitions into a position carry its label, so sets of positions are Python integers, and a step of the subset construction is a few
`and`, `or` and shifts (Navarro and Raffinot, "Compact DFA representation for fast regular expression search", 2001).
A position that its neighbour follows moves with one shift for all.

Concatenation, repetition and reversal of Dfas go through the same automaton: an edge of a Dfa is a position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ..budget import Budget
from ..exceptions import LimitError
from . import charset
from .char_classes import LabelId, Labels
from .dfa import EPSILON, NOTHING, Dfa, canonical, label_rows
from .minimize import Row

# Bits that the sets of positions of one subset construction may take in all: 128 MiB.
SUBSET_BITS: Final = 1 << 30
# How many bits are touched in a step of work, as a power of two.
_BITS_A_STEP: Final = 14
# The cost of an operation beside the bits of a set of positions, in bits.
_OVERHEAD: Final = 1 << 12
# PERF: Python hashes an int modulo 2 ** 61 - 1, where 2 has order 61, so sets that differ in one position share 61 hashes.
# Modulo this prime they spread: 15,000 states of `x{0,15000}` in 0.3 s instead of 1.
_HASH_PRIME: Final = 1_073_741_789


class Fragment(NamedTuple):
    """A part of a position automaton: where it begins, where it ends (sets as bits), and whether it accepts the empty text."""

    first: int
    last: int
    nullable: bool


_SILENT: Final = LabelId(-1)

EMPTY_FRAGMENT: Final = Fragment(0, 0, True)
NEVER_FRAGMENT: Final = Fragment(0, 0, False)


def set_key(positions: int) -> tuple[int, int]:
    """A dictionary key for a set of positions."""
    return positions % _HASH_PRIME, positions


def bits(number: int) -> Iterator[int]:
    """The places of the one bits, lowest first.

    >>> list(bits(0b10110))
    [1, 2, 4]
    """
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


class Copies(NamedTuple):
    """Copies of one part in a row, any of which may be the last: the first position, the positions of a copy, and how many there are."""

    begin: int
    width: int
    times: int


class Nfa:
    """A position automaton under construction; position 0 is the start and reads nothing."""

    __slots__ = ("budget", "copies", "follow", "labels", "position_labels")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.labels = Labels()
        self.copies: list[Copies] = []  # inner ones first
        self.follow: list[int] = [0]
        self.position_labels: list[LabelId] = [_SILENT]

    def position(self, label: LabelId) -> int:
        """A new position that reads one character of a label."""
        self.follow.append(0)
        self.position_labels.append(label)
        if not len(self.follow) & 0xFF:
            self.budget.check_positions(len(self.follow))
            self.budget.spend(0x200)
        return len(self.follow) - 1

    def silent_position(self) -> int:
        """A new position that reads nothing; the caller that steps the automaton decides what passes through it."""
        return self.position(_SILENT)

    def character(self, label: LabelId) -> Fragment:
        """One character of a label."""
        if not self.labels.sets[label]:
            return NEVER_FRAGMENT
        bit = 1 << self.position(label)
        return Fragment(bit, bit, False)

    def concatenate(self, left: Fragment, right: Fragment) -> Fragment:
        """One fragment, then another."""
        if right.first:
            for position in bits(left.last):
                self.follow[position] |= right.first
        return Fragment(
            left.first | right.first if left.nullable else left.first,
            left.last | right.last if right.nullable else right.last,
            left.nullable and right.nullable,
        )

    def star(self, fragment: Fragment) -> Fragment:
        """The fragment any number of times."""
        for position in bits(fragment.last):
            self.follow[position] |= fragment.first
        return Fragment(fragment.first, fragment.last, True)

    def anything(self) -> Fragment:
        """Any text."""
        return self.star(self.character(self.labels.intern(charset.ANY)))

    def alternate(self, fragments: Iterable[Fragment]) -> Fragment:
        """Any one of the fragments."""
        first = last = 0
        nullable = False
        for fragment in fragments:
            first |= fragment.first
            last |= fragment.last
            nullable = nullable or fragment.nullable
        return Fragment(first, last, nullable)

    def automaton(self, automaton: Dfa) -> Fragment:
        """A Dfa as a fragment: a position for every pair of target and label."""
        rows = label_rows(automaton, self.labels)
        positions: dict[tuple[int, LabelId], int] = {}
        leaving: list[int] = []
        for row in rows:
            mask = 0
            for entry in row:
                place = positions.get(entry)
                if place is None:
                    place = positions[entry] = self.position(entry[1])
                mask |= 1 << place
            leaving.append(mask)
        last = 0
        for (target, _), place in positions.items():
            self.follow[place] |= leaving[target]
            if automaton.accepting[target]:
                last |= 1 << place
        return Fragment(leaving[0], last, automaton.accepting[0])

    def determinize(self, fragment: Fragment) -> Dfa:
        """The canonical Dfa of a fragment."""
        self.follow[0] = fragment.first
        last = fragment.last | fragment.nullable
        with self.budget.part("one automaton"):
            rows, accepting = _subsets(self, Steps(self), Covered(self) if self.copies else None, last)
            return canonical(rows, accepting, self.labels, self.budget)


class Steps:
    """The transition function of a position automaton on sets of positions."""

    __slots__ = ("branching", "cost", "labels", "loop", "masks", "position_labels", "rest", "shift", "work")

    def __init__(self, nfa: Nfa) -> None:
        self.labels = nfa.labels
        self.position_labels = nfa.position_labels
        # follow[p] in three parts: p + 1 (bit p of shift), p (bit p of loop), and the rest, kept for the positions that have one.
        self.rest: dict[int, int] = {}
        self.cost = len(nfa.follow) + _OVERHEAD
        self.work = 0
        shift, loop, branching = [], [], []
        for position, following in enumerate(nfa.follow):
            bit = 1 << position
            if following & bit << 1:
                shift.append(position)
            if following & bit:
                loop.append(position)
            following &= ~(bit | bit << 1)
            if following:
                branching.append(position)
                self.rest[position] = following
        self.shift, self.loop, self.branching = mask_of(shift), mask_of(loop), mask_of(branching)
        by_label: dict[LabelId, list[int]] = {}
        for position, label in enumerate(nfa.position_labels):
            if label != _SILENT:
                by_label.setdefault(label, []).append(position)
        self.masks = {label: mask_of(positions) for label, positions in by_label.items()}

    def following(self, positions: int) -> int:
        """The positions that may come after any of `positions`."""
        found = (positions & self.shift) << 1 | positions & self.loop
        branching = positions & self.branching
        if branching:
            self.work += branching.bit_count() * self.cost
        while branching:
            low = branching & -branching
            found |= self.rest[low.bit_length() - 1]
            branching ^= low
        return found

    def complete(self, last: int) -> tuple[int, int]:
        """The positions from which any text at all leads to acceptance, and one that stays so.

        All sets that hold such a position are the same state.
        Without that an unanchored pattern would continue to look for matches after the first.
        """
        universal = self.masks.get(self.labels.intern(charset.ANY), 0) & self.loop & last
        # A position of `universal` follows itself (loop), its neighbour (shift), or any of the rest.
        before = universal | (universal >> 1) & self.shift
        before |= mask_of([position for position, following in self.rest.items() if following & universal])
        return before & last, universal & -universal

    def moves(self, reachable: int) -> list[tuple[int, LabelId]]:
        """(set of positions, label) for every way to read one character into `reachable`, the labels disjoint."""
        masks = self.masks
        if reachable.bit_count() < len(masks):
            active = tuple(sorted({self.position_labels[position] for position in bits(reachable)}))
        else:
            active = tuple([label for label, mask in masks.items() if mask & reachable])
        if len(active) == 1:
            return [(reachable, active[0])]
        self.work += 8 * len(active) * self.cost
        targets: dict[tuple[int, int], list[LabelId]] = {}
        for part, members in self.labels.partition(active):
            mask = 0
            for label in members:
                mask |= masks[label]
            targets.setdefault(set_key(reachable & mask), []).append(part)
        return [(target, self.labels.union(parts)) for (_, target), parts in targets.items()]


class Covered:
    """Drops positions that others cover: of a place in several copies of a part the one in the first copy is left.

    Behind a copy as many others may follow as come after it, so the first copy allows all that later ones allow. A text that may be cut
    anywhere, as `(?:[a-z]{1,9} ?){1,30}` cuts it, stands in one or two positions then, and the Dfa has a state for these; otherwise the
    subset construction has a set for each way to be cut, exponentially many. The order is that of the antichains of De Wulf, Doyen,
    Henzinger and Raskin ("Antichains: a new algorithm for checking universality of finite automata", CAV 2006).
    Linear in the positions of a set for each level of counts in counts.
    """

    __slots__ = ("cost", "levels", "mask", "work")

    def __init__(self, nfa: Nfa) -> None:
        self.work = 0
        self.cost = 1 + (len(nfa.follow) >> _BITS_A_STEP)
        # By how many counted parts are inside of it: a number for each place of a copy, which it shares with that place of the others.
        self.levels: list[dict[int, int]] = []
        numbers = 0
        for begin, width, times in nfa.copies:
            nfa.budget.spend(1 + (times * width >> 3))
            inside = range(begin, begin + width)
            level = sum(any(map(places.__contains__, inside)) for places in self.levels)
            if level == len(self.levels):
                self.levels.append({})
            for start in range(begin, begin + times * width, width):
                self.levels[level].update(zip(range(start, start + width), range(numbers, numbers + width), strict=True))
            numbers += width
        self.mask = mask_of(sorted(set().union(*self.levels)))

    def left(self, positions: int) -> int:
        """The positions of a set that no other one of it covers."""
        inside = positions & self.mask
        if not inside & (inside - 1):
            return positions
        kept = list(bits(inside))
        self.work += len(kept) * self.cost
        for places in self.levels:
            first = {places.get(position, -position): position for position in reversed(kept)}
            if len(first) < len(kept):
                kept = sorted(first.values())
        return positions & ~self.mask | mask_of(kept)


def mask_of(positions: list[int]) -> int:
    """A set of positions as bits; linear in the highest one, unlike a sum of shifts."""
    if not positions:
        return 0
    data = bytearray((positions[-1] >> 3) + 1)
    for position in positions:
        data[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(data, "little")


def _subsets(nfa: Nfa, steps: Steps, covered: Covered | None, last: int) -> tuple[list[Row], list[bool]]:
    """The subset construction from the start position on.

    What it takes to write the rows is expected from the start: one of a large class has hundreds of ranges.
    """
    sets = nfa.labels.sets
    ranges = 0
    complete, universal = steps.complete(last)
    numbers = {set_key(1): 0}
    todo = [1]
    rows: list[Row] = []
    accepting: list[bool] = []
    spent = counted = 0
    each = 3 + (len(nfa.follow) >> _BITS_A_STEP)
    for subset in todo:
        accepting.append(subset & last != 0)
        row: Row = []
        for target, label in steps.moves(steps.following(subset)):
            if target & complete:
                target = universal
            elif covered is not None:
                target = covered.left(target)
            key = set_key(target)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(todo)
                todo.append(target)
                spent += target.bit_length()
            row.append((number, label))
            ranges += len(sets[label]) // 2
        rows.append(row)
        nfa.budget.check_states(len(todo))
        touched = (steps.work >> _BITS_A_STEP) + steps.labels.effort + (0 if covered is None else covered.work)
        nfa.budget.spend(each * (1 + len(row)) + touched - counted)
        counted = touched
        nfa.budget.expect(2 * len(rows) + ranges // 2)
        if spent > SUBSET_BITS:
            raise LimitError(
                f"the determinisation of {len(nfa.follow)} states that overlap takes too much memory",
                limit="states",
                value=nfa.budget.limits.states,
            )
    return rows, accepting


def concatenation(*automata: Dfa, budget: Budget | None = None) -> Dfa:
    """A text of each automaton, one after the other; the empty text without automata."""
    if NOTHING in automata:
        return NOTHING
    parts = [automaton for automaton in automata if automaton != EPSILON]
    if len(parts) < 2:
        return parts[0] if parts else EPSILON
    nfa = Nfa(budget or Budget())
    fragment = EMPTY_FRAGMENT
    for automaton in reversed(parts):  # from the right: only the left part's ends are walked
        fragment = nfa.concatenate(nfa.automaton(automaton), fragment)
    return nfa.determinize(fragment)


def repeat(automaton: Dfa, minimum: int = 0, maximum: int = -1, *, budget: Budget | None = None) -> Dfa:
    """`minimum` to `maximum` texts of the automaton, one after the other; -1 is no bound.

    >>> from stackmask.pda.automata.dfa import from_string
    >>> repeat(from_string("ab"), 2, 3)
    <Dfa of 7 states, 6 transitions>
    """
    if 0 <= maximum < minimum:
        return NOTHING
    nfa = Nfa(budget or Budget())
    if maximum < 0:
        fragment = nfa.star(nfa.automaton(automaton))
    else:
        fragment = EMPTY_FRAGMENT
        for _ in range(maximum - minimum):
            fragment = nfa.concatenate(nfa.automaton(automaton), fragment)._replace(nullable=True)
    for _ in range(minimum):
        fragment = nfa.concatenate(nfa.automaton(automaton), fragment)
    return nfa.determinize(fragment)


def reverse(automaton: Dfa, *, budget: Budget | None = None) -> Dfa:
    """The texts of the automaton, read backwards."""
    nfa = Nfa(budget or Budget())
    fragment = nfa.automaton(automaton)
    follow = [0] * len(nfa.follow)
    for position, following in enumerate(nfa.follow):
        for target in bits(following):
            follow[target] |= 1 << position
    nfa.follow = follow
    return nfa.determinize(Fragment(fragment.last, fragment.first, fragment.nullable))
