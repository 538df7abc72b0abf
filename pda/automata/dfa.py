"""Deterministic finite automata over code points, and the Boolean algebra of their languages.

A Dfa is the payload of an AUTOMATON node: per state the sorted transitions (lo, hi, target), and whether the state accepts.
Every function of this module and of nfa.py returns the *canonical* automaton of its language: minimal, trimmed (only states from which a
text is accepted), numbered breadth first in the order of the transitions, adjacent ranges joined.
So two languages are equal exactly when their automata are equal, and an automaton is a dictionary key for its language.
The one state of the empty language, 0, has no transitions and does not accept.

The alphabet is all scalar values: no transition reads a surrogate.

Inside an operation a row is a list of (target, label), labels interned in Labels.
That makes an entry of a row cost one dictionary lookup, however many ranges its label has.
Products have rows of one target for each class of characters instead (dense.py), where these are few.
Minimisation is Hopcroft's "process the smaller half" in the coalgebraic form of Jacobs and Wissmann, "Fast coalgebraic bisimilarity
minimization" (POPL 2023): O(m log n) for m entries, and partial automata need no sink.

Not here: questions about a language (language.py), concatenation, repetition and reversal (nfa.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Final, TypeAlias

from ..budget import Budget
from . import charset
from .charset import CharSet
from .dense import MOST_CLASSES, Dense, DenseRow, Spelling, Stretch, common_lengths, dense, side_by_side, widened
from .labels import NO_LABEL, LabelId, Labels

LARGE_PRODUCT: Final = 1_000
"""Pairs of states of a product that looks at lengths first."""

Transitions: TypeAlias = tuple[tuple[tuple[int, int, int], ...], ...]
Row: TypeAlias = list[tuple[int, LabelId]]


@dataclass(frozen=True, slots=True)
class Dfa:
    """A deterministic automaton with start state 0; `transitions[state]` are sorted disjoint (lo, hi, target)."""

    transitions: Transitions
    accepting: tuple[bool, ...]
    tables: list[Dense | None] = field(default_factory=list, init=False, repr=False, compare=False)
    """The rows by classes, once they were needed; see `by_classes`."""

    def __repr__(self) -> str:
        return f"<Dfa of {len(self.accepting)} states, {sum(map(len, self.transitions))} transitions>"


def by_classes(automaton: Dfa) -> Dense | None:
    """The rows of an automaton by classes of characters, None where it has too many of both; kept with the automaton."""
    if not automaton.tables:
        automaton.tables.append(dense(automaton.transitions))
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
    budget = budget or Budget()
    children, final = _trie(words, budget)
    labels = Labels()
    rows: list[Row] = []
    accepting: list[bool] = []
    folded = [0] * len(children)
    known: dict[tuple[bool, tuple[tuple[int, LabelId], ...]], int] = {}
    for node in range(len(children) - 1, -1, -1):  # a child is younger than its parent
        by_target: dict[int, list[tuple[int, int]]] = {}
        for character, child in children[node].items():
            by_target.setdefault(folded[child], []).append((ord(character), ord(character)))
        row = [(target, labels.intern(charset.from_ranges(points))) for target, points in sorted(by_target.items())]
        key = (final[node], tuple(row))
        state = known.get(key)
        if state is None:
            state = known[key] = len(rows)
            rows.append(row)
            accepting.append(final[node])
        folded[node] = state
    if not rows[-1] and not accepting[-1]:
        return NOTHING
    return _number(rows, accepting, len(rows) - 1, labels)


def _trie(words: Iterable[str], budget: Budget) -> tuple[list[dict[str, int]], list[bool]]:
    children: list[dict[str, int]] = [{}]
    final = [False]
    for word in words:
        if any("\ud800" <= character <= "\udfff" for character in word):
            continue
        node = 0
        for character in word:
            child = children[node].get(character)
            if child is None:
                child = children[node][character] = len(children)
                children.append({})
                final.append(False)
            node = child
        final[node] = True
        budget.check_positions(len(children))
    return children, final


def union(*automata: Dfa, budget: Budget | None = None) -> Dfa:
    """Texts that any of the automata accepts."""
    return _fold(automata, NOTHING, True, True, False, budget or Budget())


def intersection(*automata: Dfa, budget: Budget | None = None) -> Dfa:
    """Texts that all of the automata accept; any text without automata."""
    return _fold(automata, ANYTHING, False, False, True, budget or Budget())


def difference(left: Dfa, right: Dfa, *, budget: Budget | None = None) -> Dfa:
    """Texts that `left` accepts and `right` does not."""
    return _product(left, right, False, True, False, budget or Budget())


def complement(automaton: Dfa, *, budget: Budget | None = None) -> Dfa:
    """All texts that the automaton, a canonical one, does not accept.

    Completed by a sink it is still minimal.
    So there is nothing to merge, and at most one state, from which every text was accepted, to leave out.

    >>> complement(complement(from_string("ab"))) == from_string("ab")
    True
    """
    sink = len(automaton.accepting)
    (budget or Budget()).check_states(sink + 1)
    universal = next((state for state, row in enumerate(automaton.transitions) if automaton.accepting[state] and _is_loop(row, state)), -1)
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


def _is_loop(row: tuple[tuple[int, int, int], ...], state: int) -> bool:
    """Whether a row leads back to its state whatever is read."""
    return row == ((0, 0xD7FF, state), (0xE000, 0x10FFFF, state))


def contains(outer: Dfa, inner: Dfa, *, budget: Budget | None = None) -> bool:
    """Whether `outer` accepts every text that `inner` accepts."""
    return not _reaches(inner, outer, True, budget or Budget())


def overlaps(left: Dfa, right: Dfa, *, budget: Budget | None = None) -> bool:
    """Whether there is a text that both accept."""
    return _reaches(left, right, False, budget or Budget())


def equivalent(left: Dfa, right: Dfa, *, budget: Budget | None = None) -> bool:
    """Whether both accept the same texts; for canonical automata this is `left == right`."""
    return left == right or (contains(left, right, budget=budget) and contains(right, left, budget=budget))


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
    return canonical(rows, accepting, labels, budget)


# Products. A pair of states is one number, left * (right states + 1) + right; a sink completes a side where texts that the side does not
# accept count too.


def _fold(automata: tuple[Dfa, ...], unit: Dfa, left_sink: bool, right_sink: bool, conjunction: bool, budget: Budget) -> Dfa:
    """The product of many automata, as a balanced tree of products so that no automaton is carried through all of them."""
    if not automata:
        return unit
    level = list(automata)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [_product(a, b, left_sink, right_sink, conjunction, budget) for a, b in pairs] + level[len(level) & ~1 :]
    return level[0]


def _product(left: Dfa, right: Dfa, left_sink: bool, right_sink: bool, conjunction: bool, budget: Budget) -> Dfa:
    """Union (two sinks), intersection (conjunction, no sink) or difference (a sink on the right)."""
    if conjunction and NOTHING in (left, right):
        return NOTHING
    one, other = by_classes(left), by_classes(right)
    if one is None or other is None:
        return _labelled_product(left, right, left_sink, right_sink, conjunction, budget)
    stretches, classes = side_by_side((one, other))
    # Class 0 leads nowhere on its side, and so in the product unless a sink completes it.
    chosen = [i for i, (p, q) in enumerate(classes) if (p or left_sink) and (q or right_sink) and (p or q)]
    if not chosen or len(chosen) > MOST_CLASSES:
        return _labelled_product(left, right, left_sink, right_sink, conjunction, budget)
    width = len(other.rows) + right_sink
    nowhere = -len(one.rows) * width - width
    dead = nowhere if not (left_sink and right_sink) else len(one.rows) * width + width - 1
    one_rows = _keys(one.rows, [classes[i][0] for i in chosen], width, left_sink, nowhere)
    other_rows = _keys(other.rows, [classes[i][1] for i in chosen], 1, right_sink, nowhere)
    numbers = {0: 0}
    todo = [0]
    rows: list[DenseRow] = []
    number = numbers.__getitem__
    # PERF: where a side has texts of few lengths only, as a timestamp of 24 characters, few of the pairs in reach lead to an end.
    bounds = None
    if conjunction and len(one.rows) * len(other.rows) > LARGE_PRODUCT:
        bounds = common_lengths((one.rows, left.accepting), (other.rows, right.accepting))
    for pair in todo:
        p, q = divmod(pair, width)
        targets = list(map(add, one_rows[p], other_rows[q]))
        for target in set(targets):
            if target not in numbers:
                if target < 0 or target == dead or (bounds is not None and not bounds(*divmod(target, width))):
                    numbers[target] = -1
                else:
                    numbers[target] = len(todo)
                    todo.append(target)
        rows.append(tuple(map(number, targets)))
        if not len(rows) & 0xFF:
            budget.check_states(len(todo))
    budget.check_states(len(todo))
    left_accepting, right_accepting = (*left.accepting, False), (*right.accepting, False)
    pairs = [divmod(pair, width) for pair in todo]
    if conjunction:
        accepting = [left_accepting[p] and right_accepting[q] for p, q in pairs]
    elif left_sink:
        accepting = [left_accepting[p] or right_accepting[q] for p, q in pairs]
    else:
        accepting = [left_accepting[p] and not right_accepting[q] for p, q in pairs]
    place = {number: place for place, number in enumerate(chosen)}
    return _canonical_dense(rows, [(lo, hi, place[its]) for lo, hi, its in stretches if its in place], accepting, budget)


def _keys(rows: list[DenseRow], classes: list[int], factor: int, sink: bool, nowhere: int) -> list[DenseRow]:
    """The rows of one side of a product with the part that each target has in the number of a pair."""
    parts = [target * factor for target in range(len(rows) + sink)]
    if not sink:
        parts.append(nowhere)  # the last is what -1 picks, and so the sink where there is one
    part = parts.__getitem__
    found = [tuple(map(part, row)) for row in widened(rows, classes)]
    if sink:
        found.append((parts[-1],) * len(classes))
    return found


def _labelled_product(left: Dfa, right: Dfa, left_sink: bool, right_sink: bool, conjunction: bool, budget: Budget) -> Dfa:
    """As _product, by rows of labels: where there are many classes, most of them with few targets."""
    labels = Labels()
    left_rows, left_accepting = _completed(left, labels, left_sink)
    right_rows, right_accepting = _completed(right, labels, right_sink)
    width = len(right_rows)
    dead = (width - 1) + (len(left_rows) - 1) * width if left_sink and right_sink else -1
    numbers: dict[int, int] = {0: 0}
    todo = [0]
    rows: list[Row] = []
    accepting: list[bool] = []
    for pair in todo:
        p, q = divmod(pair, width)
        if conjunction:
            accepting.append(left_accepting[p] and right_accepting[q])
        elif left_sink:
            accepting.append(left_accepting[p] or right_accepting[q])
        else:
            accepting.append(left_accepting[p] and not right_accepting[q])
        row: Row = []
        for key, label in _meet_rows(left_rows[p], right_rows[q], width, labels):
            if key != dead:
                number = numbers.get(key)
                if number is None:
                    number = numbers[key] = len(todo)
                    todo.append(key)
                row.append((number, label))
        rows.append(row)
        budget.check_states(len(todo))
    return canonical(rows, accepting, labels, budget)


def _reaches(left: Dfa, right: Dfa, negated: bool, budget: Budget) -> bool:
    """Whether `left` accepts a text that `right` accepts, or with `negated` one that it does not; stops at the first one found."""
    labels = Labels()
    left_rows, left_accepting = _completed(left, labels, False)
    right_rows, right_accepting = _completed(right, labels, negated)
    width = len(right_rows)
    seen = {0}
    todo = [0]
    for pair in todo:
        p, q = divmod(pair, width)
        if left_accepting[p] and right_accepting[q] != negated:
            return True
        for key, _ in _meet_rows(left_rows[p], right_rows[q], width, labels):
            if key not in seen:
                seen.add(key)
                todo.append(key)
        budget.check_states(len(todo))
    return False


def _completed(automaton: Dfa, labels: Labels, sink: bool) -> tuple[list[Row], tuple[bool, ...]]:
    """The rows of an automaton, with a last state that takes over where the automaton has no transition."""
    rows = label_rows(automaton, labels)
    if not sink:
        return rows, automaton.accepting
    last = len(rows)
    rows.append([])
    for row in rows:
        rest = labels.complement(labels.union([label for _, label in row])) if row else labels.intern(charset.ANY)
        if rest != NO_LABEL:
            row.append((last, rest))
    return rows, (*automaton.accepting, False)


def _meet_rows(left: Row, right: Row, width: int, labels: Labels) -> Iterable[tuple[int, LabelId]]:
    """The transitions of a pair of states."""
    if len(left) * len(right) > 256:
        return _merge_rows(left, right, width, labels)
    meet = labels.meet
    return [(p * width + q, both) for p, one in left for q, other in right if (both := meet(one, other))]


def _merge_rows(left: Row, right: Row, width: int, labels: Labels) -> Iterable[tuple[int, LabelId]]:
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


# The canonical form.


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


def canonical(rows: list[Row], accepting: list[bool], labels: Labels, budget: Budget) -> Dfa:
    """The canonical Dfa of rows from start state 0: trimmed, minimised, numbered.

    The labels of a row are disjoint; several entries may share a target.
    """
    used = tuple(sorted({label for row in rows for _, label in row}))
    if used and sum(len(labels.sets[label]) for label in used) <= 2 * MOST_CLASSES:
        return _canonical_dense(*_by_minterms(rows, used, labels), accepting, budget)
    predecessors = _predecessors(rows)
    left = _steps_left(accepting, predecessors)
    if left[0] < 0:
        return NOTHING
    if -1 in left:
        rows = [[entry for entry in row if left[entry[0]] >= 0] if left[state] >= 0 else [] for state, row in enumerate(rows)]
    block = _minimize(left, predecessors, lambda block: lambda state: _signature(rows[state], block, labels), budget)
    representative: dict[int, int] = {}
    for state, number in enumerate(block[:-1]):
        representative.setdefault(number, state)
    quotient: list[Row] = [[] for _ in representative]
    place = {number: index for index, number in enumerate(representative)}
    for number, state in representative.items():
        by_target: dict[int, list[LabelId]] = {}
        for target, label in rows[state]:
            by_target.setdefault(place[block[target]], []).append(label)
        quotient[place[number]] = [(target, labels.union(found)) for target, found in by_target.items()]
    return _number(quotient, [accepting[state] for state in representative.values()], 0, labels)


def _by_minterms(rows: list[Row], used: tuple[LabelId, ...], labels: Labels) -> tuple[list[DenseRow], list[Stretch]]:
    """Rows of labels by the classes that all of these tell apart, and the stretches of these classes."""
    parts = sorted(labels.partition(used), key=lambda part: labels.sets[part[0]])
    stretches = sorted((lo, hi, number) for number, (part, _) in enumerate(parts) for lo, hi in charset.pairs(labels.sets[part]))
    members: dict[LabelId, list[int]] = {}
    for number, (_, holding) in enumerate(parts):
        for label in holding:
            members.setdefault(label, []).append(number)
    dense_rows: list[DenseRow] = []
    for row in rows:
        cells = [-1] * len(parts)
        for target, label in row:
            for number in members[label]:
                cells[number] = target
        dense_rows.append(tuple(cells))
    return dense_rows, stretches


def _canonical_dense(rows: list[DenseRow], stretches: list[Stretch], accepting: list[bool], budget: Budget) -> Dfa:
    """As `canonical`, for rows by classes, which are in the order of their first characters."""
    predecessors: list[list[int]] = [[] for _ in rows]
    predecessors.append([])  # what the target -1 picks
    for state, row in enumerate(rows):
        for target in set(row):
            predecessors[target].append(state)
    left = _steps_left(accepting, predecessors)
    if left[0] < 0:
        return NOTHING
    if -1 in left:
        kept = [*[state if steps >= 0 else -1 for state, steps in enumerate(left)], -1].__getitem__
        rows = [tuple(map(kept, row)) for row in rows]
    block = _minimize(left, predecessors, lambda block: lambda state: tuple(map(block.__getitem__, rows[state])), budget)
    representative: dict[int, int] = {}
    for state, number in enumerate(block[:-1]):
        representative.setdefault(number, state)
    numbers = {block[0]: 0, -1: -1}
    order = [0]
    classes = block.__getitem__
    spelling = Spelling(stretches)
    transitions: list[tuple[tuple[int, int, int], ...]] = []
    for state in order:
        targets = list(map(classes, rows[state]))
        for target in dict.fromkeys(targets):
            if target not in numbers:
                numbers[target] = len(order)
                order.append(representative[target])
        transitions.append(spelling.row(list(map(numbers.__getitem__, targets))))
    return Dfa(tuple(transitions), tuple([accepting[state] for state in order]))


def _predecessors(rows: list[Row]) -> list[list[int]]:
    predecessors: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for target, _ in row:
            predecessors[target].append(state)
    return predecessors


def live_states(accepting: list[bool], predecessors: list[list[int]]) -> list[bool]:
    """From which states a text is accepted."""
    live = accepting[:]
    todo = [state for state, accepts in enumerate(accepting) if accepts]
    for state in todo:
        for predecessor in predecessors[state]:
            if not live[predecessor]:
                live[predecessor] = True
                todo.append(predecessor)
    return live


def _steps_left(accepting: list[bool], predecessors: list[list[int]]) -> list[int]:
    """The length of the shortest text accepted from each state, -1 for none."""
    left = [0 if accepts else -1 for accepts in accepting]
    todo = [state for state, accepts in enumerate(accepting) if accepts]
    for state in todo:
        steps = left[state] + 1
        for predecessor in predecessors[state]:
            if left[predecessor] < 0:
                left[predecessor] = steps
                todo.append(predecessor)
    return left


def sources(rows: Sequence[Sequence[tuple[int, int, int]]]) -> list[list[int]]:
    """Per state those that a transition leads from, once for each."""
    result: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for _, _, target in row:
            result[target].append(state)
    return result


def restricted(
    rows: Sequence[Sequence[tuple[int, int, int]]], accepting: Sequence[bool], alive: Sequence[bool]
) -> tuple[Transitions, tuple[bool, ...]]:
    """Transitions and accepting states of an automaton, with some of its states only, which keep their order."""
    kept = [state for state, living in enumerate(alive) if living]
    names = [-1] * len(alive)
    for name, state in enumerate(kept):
        names[state] = name
    return (
        tuple([tuple([(lo, hi, names[target]) for lo, hi, target in rows[state] if alive[target]]) for state in kept]),
        tuple([accepting[state] for state in kept]),
    )


def _minimize(
    left: list[int],
    predecessors: list[list[int]],
    signatures: Callable[[list[int]], Callable[[int], Hashable]],
    budget: Budget,
) -> list[int]:
    """The number of the equivalence class of every state, and -1.

    `left` are the lengths of the shortest texts that states accept, by which they are told apart before anything else.
    A state's signature is its row with every target replaced by its class; `signatures` makes that function of the classes.
        all states are dirty
        while a class has dirty states:
            split it by signature, its clean states being one part (they kept the signature they were put together for)
            the largest part keeps the number of the class, the others get new numbers, and their predecessors become dirty
    A state gets a new number only when it falls into the smaller part, so at most log n times.
    """
    # A dead state has no transitions either: a class of its own keeps it apart from the accepting end of the automaton.
    dead = max(left) + 1
    block = [steps if steps >= 0 else dead for steps in left]
    signature = signatures(block)
    members: dict[int, set[int]] = {}
    for state, number in enumerate(block):
        members.setdefault(number, set()).add(state)
    block.append(-1)  # what the target -1 picks
    # The nearest to an end come first, that is last: most others are told apart by what becomes of these.
    dirty = {number: set(members[number]) for number in range(dead - 1, -1, -1) if len(members[number]) > 1}
    fresh = dead + 1
    rounds = 0
    while dirty:
        number, states = dirty.popitem()
        parts: dict[Hashable, list[int]] = {}
        for state in states:
            parts.setdefault(signature(state), []).append(state)
        whole = members[number]
        clean = len(whole) - len(states)
        if clean == 0 and len(parts) == 1:
            continue
        largest = max(parts.values(), key=len)
        groups: list[Iterable[int]]
        if clean >= len(largest):
            groups = list(parts.values())
        else:
            groups = [part for part in parts.values() if part is not largest]
            if clean:
                groups.append(whole - states)
        for group in groups:
            whole.difference_update(group)
            members[fresh] = set(group)
            for state in group:
                block[state] = fresh
            fresh += 1
        for group in groups:
            for state in group:
                for predecessor in predecessors[state]:
                    its = block[predecessor]
                    if len(members[its]) > 1:
                        dirty.setdefault(its, set()).add(predecessor)
        rounds += 1
        if not rounds & 0x3F:
            budget.check_time()
    return block


def _signature(row: Row, block: list[int], labels: Labels) -> frozenset[tuple[int, LabelId]]:
    if len(row) == 1:
        target, label = row[0]
        return frozenset(((block[target], label),))
    by_block: dict[int, list[LabelId]] = {}
    for target, label in row:
        by_block.setdefault(block[target], []).append(label)
    return frozenset([(number, labels.union(found)) for number, found in by_block.items()])


def _number(rows: list[Row], accepting: list[bool], start: int, labels: Labels) -> Dfa:
    """A minimal automaton, numbered breadth first and written with ranges."""
    sets = labels.sets
    numbers = {start: 0}
    order = [start]
    transitions: list[tuple[tuple[int, int, int], ...]] = []
    for state in order:
        row = rows[state]
        if len(row) > 1:
            row = sorted(row, key=lambda entry: sets[entry[1]][0])
        ranges: list[tuple[int, int, int]] = []
        for target, label in row:
            number = numbers.get(target)
            if number is None:
                number = numbers[target] = len(order)
                order.append(target)
            flat = sets[label]
            if len(flat) == 2:
                ranges.append((flat[0], flat[1], number))
            else:
                ranges.extend((lo, hi, number) for lo, hi in zip(flat[::2], flat[1::2], strict=True))
        ranges.sort()
        transitions.append(tuple(ranges))
    return Dfa(tuple(transitions), tuple(accepting[state] for state in order))
