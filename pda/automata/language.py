"""Questions about the language of a Dfa: membership, size, lengths, members.

The answers need no new automaton, so this sits beside dfa.py (Boolean algebra) and nfa.py (concatenation, repetition).
The automata are taken to be trimmed, as all functions of those modules leave them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice

from .dfa import Dfa, universal_state

_MOST_WORK = 20_000
_MOST_OF_A_BEGINNING = 32
_MOST_TRIED = 64
"""The most states of an automaton, or pairs of these, that are looked at for one text."""
_FEW_RANGES = 16
"""The most pairs of ranges that are compared with each other."""


def is_empty(automaton: Dfa) -> bool:
    """Whether no text is accepted."""
    return not any(automaton.accepting)


def accepts(automaton: Dfa, text: str, state: int = 0) -> bool:
    """Whether the text is accepted, from a state."""
    reached = after(automaton, text, state)
    return reached is not None and automaton.accepting[reached]


def after(automaton: Dfa, text: str, state: int = 0) -> int | None:
    """The state that a text leads to, None where nothing that begins so is accepted."""
    for character in text:
        point = ord(character)
        for lo, hi, target in automaton.transitions[state]:
            if lo <= point <= hi:
                state = target
                break
        else:
            return None
    return state


def begin_differently(a: Dfa, b: Dfa) -> bool:
    """Whether two automata have no text in common since, behind a beginning that both have, no character is next in both.

    PERF: two patterns that begin with different words take 2 us, and 60 where their characters are cut into classes first.
    """
    one = other = 0
    for _ in range(_MOST_OF_A_BEGINNING):
        if a.accepting[one] and b.accepting[other]:
            return False
        row, its = a.transitions[one], b.transitions[other]
        if len(row) * len(its) > _FEW_RANGES:
            return False
        next_states = {(s, t) for lo, hi, s in row for low, high, t in its if lo <= high and low <= hi}
        if len(next_states) != 1:
            return not next_states
        ((one, other),) = next_states
    return False


def in_order(rows: Sequence[Sequence[tuple[int, int, int]]]) -> tuple[list[int], list[int]]:
    """The states, each after all that lead to it, as far as there are such; and how many transitions from the others enter each state."""
    entering = [0] * len(rows)
    for row in rows:
        for _, _, target in row:
            entering[target] += 1
    order = [] if entering[0] else [0]
    for state in order:
        for _, _, target in rows[state]:
            entering[target] -= 1
            if not entering[target]:
                order.append(target)
    return order, entering


def topological_order(automaton: Dfa) -> list[int] | None:
    """The states, each before its successors; None where there is a cycle, that is where the language is infinite."""
    order, entering = in_order(automaton.transitions)
    return order if len(order) == len(entering) else None


def is_finite(automaton: Dfa) -> bool:
    """Whether finitely many texts are accepted."""
    return topological_order(automaton) is not None


def count(automaton: Dfa, cap: int | None = None) -> int | None:
    """The number of accepted texts, None for infinitely many; with a cap, at most the cap in either case.

    >>> from stackmask.pda.automata.dfa import ANYTHING, from_strings
    >>> count(from_strings(["a", "b", "ab"])), count(ANYTHING), count(ANYTHING, cap=10)
    (3, None, 10)
    """
    order = topological_order(automaton)
    if order is None:
        return cap
    counts = [0] * len(order)
    for state in reversed(order):
        found = int(automaton.accepting[state]) + sum((hi - lo + 1) * counts[target] for lo, hi, target in automaton.transitions[state])
        counts[state] = found if cap is None else min(found, cap)
    return counts[0]


def has_more(automaton: Dfa, low: int, high: int, limit: int) -> bool:
    """Whether more than `limit` of the accepted texts have `low` to `high` characters, -1 for no bound; false where it is long to tell.

    >>> from stackmask.pda.automata.dfa import ANYTHING, from_strings
    >>> [has_more(from_strings(["a", "b", "ab"]), 0, high, 1) for high in (0, 1, -1)], has_more(ANYTHING, 7, -1, 1000)
    ([False, True, True], True)
    """
    if high < 0:
        if not is_finite(automaton):
            return True
        high = len(automaton.accepting)
    found = length = work = 0
    ways = {0: 1}
    while ways and length <= high and work < _MOST_WORK:
        if length >= low:
            found += sum([number for state, number in ways.items() if automaton.accepting[state]])
            if found > limit:
                return True
        length += 1
        following: dict[int, int] = {}
        for state, number in ways.items():
            for lo, hi, target in automaton.transitions[state]:
                # As many as the limit at a state are enough: one that leads on leads to as many texts.
                following[target] = min(following.get(target, 0) + number * (hi - lo + 1), limit + 1)
        ways = following
        work += len(ways)
    return False


def length_bounds(automaton: Dfa) -> tuple[int, int | None] | None:
    """The lengths of the shortest and the longest accepted text, None in place of the latter for no bound; None for the empty language.

    >>> from stackmask.pda.automata.dfa import from_strings
    >>> length_bounds(from_strings(["a", "abc"]))
    (1, 3)
    """
    if is_empty(automaton):
        return None
    order = topological_order(automaton)
    longest = None
    if order is not None:
        lengths = [0] * len(order)
        for state in reversed(order):
            lengths[state] = max((1 + lengths[target] for _, _, target in automaton.transitions[state]), default=0)
        longest = lengths[0]
    return distances(automaton)[0], longest


def distances(automaton: Dfa) -> list[int]:
    """For every state the length of the shortest text accepted from it."""
    predecessors: list[list[int]] = [[] for _ in automaton.transitions]
    for state, row in enumerate(automaton.transitions):
        for _, _, target in row:
            predecessors[target].append(state)
    found = [0 if accepting else -1 for accepting in automaton.accepting]
    todo = [state for state, accepting in enumerate(automaton.accepting) if accepting]
    for state in todo:
        for predecessor in predecessors[state]:
            if found[predecessor] < 0:
                found[predecessor] = found[state] + 1
                todo.append(predecessor)
    return found


def skips_lengths(automaton: Dfa, width: int, *, steps: int = 1_000_000) -> bool:
    """Whether from some state the lengths of the accepted texts leave out `width` in a row, between two that there are.

    No automaton of n states skips n: a text longer than n goes through a cycle, and there is a text without it.
    Where `steps` do not decide, this says that it does.

    >>> from stackmask.pda.automata.dfa import from_strings
    >>> skips_lengths(from_strings(["", "abcd"]), 3), skips_lengths(from_strings(["", "abcd"]), 4)
    (True, False)
    """
    transitions = automaton.transitions
    if width >= len(transitions):
        return False
    before = [0] * len(transitions)
    for state, row in enumerate(transitions):
        for _, _, target in row:
            before[target] |= 1 << state
    # `current` are the states that accept a text of exactly `length` characters, a bit each; as they come back, so do all after them.
    current = sum(1 << state for state, accepts in enumerate(automaton.accepting) if accepts)
    last = [-1] * len(transitions)
    seen: dict[int, int] = {}
    length = end = 0
    while current and (not end or length < end):
        if not end and current in seen:
            end = 2 * length - seen[current]
        seen[current] = length
        bits, current = current, 0
        while bits:
            lowest = bits & -bits
            state = lowest.bit_length() - 1
            bits ^= lowest
            if 0 <= last[state] < length - width:
                return True
            last[state] = length
            current |= before[state]
            steps -= 1
        length += 1
        if steps < 0:
            return True
    return False


def shortest(automaton: Dfa) -> str | None:
    """The first of the shortest accepted texts in code point order, None for the empty language."""
    if is_empty(automaton):
        return None
    left = distances(automaton)
    state = 0
    text: list[str] = []
    while left[state]:
        point, state = next((lo, target) for lo, _, target in automaton.transitions[state] if left[target] == left[state] - 1)
        text.append(chr(point))
    return "".join(text)


def least_states(automata: Sequence[Dfa], enough: int) -> int:
    """At most the number of states of the minimal automaton of an intersection; more than 1 only where many texts may stand anywhere.

    The automata are minimal. Take n of them that each come to an end, a state in which they accept every text, by a text of their own that
    leads each of all others from its start to its start. Any set of these texts leads to a state of the intersection, and no two sets to
    the same: behind the texts that the one set lacks all is accepted, and of the other set one of them is still lacking. That makes 2^n
    states, if automata that are not among the n accept the empty text.

    Where fewer are among the n than there are automata, those count that remember a text, if they are more: see `_remembered`.

    If all are among the n, accept at their ends only, and a character leads each to its start from everywhere else, there are more: with
    each set one of the other automata may be on its way, at a state that it comes to while all others stay at their starts. A text tells
    two such states of one automaton apart by its end, which it leads to from one of them only; the character and the texts that the
    others lack follow. This is looked at where 2^n is not `enough`.

    >>> from stackmask.pda.regex import regex_dfa
    >>> patterns = [regex_dfa(pattern, search=True) for pattern in ("ab", "cd", "[0-9]x")]
    >>> least_states(patterns, 1), least_states(patterns, 10)
    (8, 20)
    """
    gap = _neutral(automata)
    ends: dict[int, int] = {}
    for place, automaton in enumerate(automata):
        own, end = shortest(automaton), universal_state(automaton)
        # the text of an automaton that has other ends, too, may lead to one of these
        if own and after(automaton, own) == end and all(after(other, own + gap) == 0 for other in _others(automata, place)):
            ends[place] = end
        elif not automaton.accepting[0]:
            return 1
    found = 1 << len(ends)
    if found >= enough:
        return found
    if len(ends) < len(automata):
        return max(found, 1 << _remembered(automata, gap, enough.bit_length()))
    on_their_way = 0
    for place, end in ends.items():
        automaton = automata[place]
        states = range(len(automaton.accepting))
        if sum(automaton.accepting) > 1 or any(after(automaton, gap, state) != 0 for state in states if state != end):
            return found
        on_their_way += _alone(automaton, end, _others(automata, place))
    return found + found // 2 * on_their_way


def _remembered(automata: Sequence[Dfa], gap: str, most: int) -> int:
    """How many automata, of at most 4 * `most`, each remember a text of their own, so that an intersection has a state for any set of them.

    The text leads its automaton from the start to another state, and again to that; all others it leads from the start to the start, and
    from the state that they remember their text in to the same. Two sets of these texts differ in one: its two states accept different
    texts, and one that only one of them accepts, but all other automata from both of theirs, tells the sets apart.
    """
    texts: dict[int, str] = {}
    states: dict[int, int] = {}
    for place, automaton in enumerate(automata[: 4 * most]):
        others = _others(automata, place)
        for text, state in _ways(automaton):
            text += gap
            if after(automaton, text) == after(automaton, text, state) == state and all(after(other, text) == 0 for other in others):
                texts[place], states[place] = text, state
                break
    for place in [*texts]:
        end = _only_one(automata[place], states[place])
        beside = [(automaton, at) for other, automaton in enumerate(automata) if other != place for at in {0, states.get(other, 0)}]
        if end is None or not all(after(other, texts[place], at) == at and accepts(other, end, at) for other, at in beside):
            del texts[place], states[place]
    return len(texts)


def _ways(automaton: Dfa) -> Iterator[tuple[str, int]]:
    """The states nearest to the start, each with a shortest text that leads to it."""
    ways = {0: ""}
    todo = [0]
    for state in islice(todo, _MOST_TRIED):
        for lo, _, target in automaton.transitions[state]:
            if target not in ways:
                ways[target] = ways[state] + chr(lo)
                todo.append(target)
                yield ways[target], target


def _only_one(automaton: Dfa, state: int) -> str | None:
    """A shortest text that an automaton accepts from its start or from a state, but not from both; None if all such texts are long."""
    seen = {(0, state)}
    todo: list[tuple[int, int, str]] = [(0, state, "")]
    for one, other, text in islice(todo, _MOST_TRIED):
        if (one >= 0 and automaton.accepting[one]) != (other >= 0 and automaton.accepting[other]):
            return text
        starts = {lo for at in (one, other) if at >= 0 for lo, _, _ in automaton.transitions[at]}
        starts |= {hi + 1 for at in (one, other) if at >= 0 for _, hi, _ in automaton.transitions[at] if hi < 0x10FFFF}
        for lo in sorted(starts):
            reached = [-1 if at < 0 or (to := after(automaton, chr(lo), at)) is None else to for at in (one, other)]
            pair = (reached[0], reached[1])
            if pair not in seen:
                seen.add(pair)
                todo.append((*pair, text + chr(lo)))
    return None


def _others(automata: Sequence[Dfa], place: int) -> list[Dfa]:
    """All automata but one."""
    return [*automata[:place], *automata[place + 1 :]]


def _neutral(automata: Sequence[Dfa]) -> str:
    """A character that no automaton leaves its start by, or the empty text."""
    # the rarest first: they belong to the fewest of the texts that are searched for
    candidates = (chr(lo) for lo, _, target in reversed(automata[0].transitions[0]) if not target)
    return next((text for text in candidates if all(after(automaton, text) == 0 for automaton in automata)), "")


def _alone(automaton: Dfa, end: int, others: Sequence[Dfa]) -> int:
    """How many states but its start and its end an automaton surely gets to while others stay at their starts."""
    seen = {0, end}
    todo = [0]
    for state in todo:
        for lo, _, target in automaton.transitions[state]:
            if target not in seen and all(after(other, chr(lo)) == 0 for other in others):
                seen.add(target)
                todo.append(target)
    return len(todo) - 1


def enumerate_texts(automaton: Dfa, maximum_length: int | None = None) -> Iterator[str]:
    """The accepted texts, shorter ones first and equally long ones in code point order; endless for an infinite language without a bound.

    >>> from stackmask.pda.automata.dfa import from_strings
    >>> list(enumerate_texts(from_strings(["b", "ab", "a", ""])))
    ['', 'a', 'b', 'ab']
    """
    # INVARIANT: `within[k]` are the states that accept a text of exactly k characters, so no branch of the search is a dead end.
    within: list[set[int]] = [{state for state, accepting in enumerate(automaton.accepting) if accepting}]
    length = 0
    while within[-1]:
        yield from _texts_of_length(automaton, within, length)
        if length == maximum_length:
            return
        length += 1
        within.append({state for state, row in enumerate(automaton.transitions) if any(target in within[-1] for _, _, target in row)})


def _texts_of_length(automaton: Dfa, within: list[set[int]], length: int) -> Iterator[str]:
    if 0 not in within[length]:
        return
    text: list[str] = []
    stack: list[Iterator[tuple[int, int]]] = []
    state = 0
    while True:
        left = length - len(text)
        if left:
            stack.append(_steps(automaton, state, within[left - 1]))
        else:
            yield "".join(text)
        while stack:
            step = next(stack[-1], None)
            del text[len(stack) - 1 :]
            if step is not None:
                text.append(chr(step[0]))
                state = step[1]
                break
            stack.pop()
        else:
            return


def _steps(automaton: Dfa, state: int, allowed: set[int]) -> Iterator[tuple[int, int]]:
    """Every (code point, target) from a state into the allowed ones."""
    for lo, hi, target in automaton.transitions[state]:
        if target in allowed:
            for point in range(lo, hi + 1):
                yield point, target


def sample(automaton: Dfa, rng: random.Random, *, mean_length: float = 10.0) -> str | None:
    """A random accepted text, None for the empty language.

    Each step stops at an accepting state with probability 1 / `mean_length`, or where nothing follows; after 4 mean lengths the shortest
    way out is taken.
    Among ranges each is equally likely, so a letter comes up as readily as one of the 100,000 ideographs.
    """
    if is_empty(automaton):
        return None
    left = distances(automaton)
    state = 0
    text: list[str] = []
    while True:
        row = automaton.transitions[state]
        if automaton.accepting[state] and (not row or rng.random() < 1.0 / mean_length or len(text) > 4 * mean_length):
            return "".join(text)
        if len(text) > 4 * mean_length:
            row = tuple(entry for entry in row if left[entry[2]] < left[state])
        lo, hi, state = rng.choice(row)
        text.append(chr(rng.randint(lo, hi)))
