"""Free text that is interrupted by tags, as a graph: the text up to a tag is watched for all tags and excluded texts at once.

The states are those of Aho and Corasick, "Efficient string matching", Communications of the ACM 18 (1975): the longest end of the text
that begins a tag or an excluded text.
The free text may end in each of them; where a tag is complete the rule behind it must follow, and where an excluded text is complete the
text is dead.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from .automata.charset import ANY, complement, from_chars, pairs
from .automata.dfa import Dfa
from .budget import Budget
from .grammar import GrammarBuilder, NodeId

_START = 0
_END = 1


class DispatchError(Exception):
    """Tags that are ambiguous or can never be reached; the message names them."""


class Watch(NamedTuple):
    """The states of an Aho-Corasick automaton: per state the next state for each character that has one, and the complete texts."""

    moves: list[dict[str, int]]
    complete: list[frozenset[int]]
    own: list[dict[str, int]]
    """The moves that differ from those of the fallback, by which states come in `order`."""
    fallback: list[int]
    order: list[int]


def text_dispatch(
    builder: GrammarBuilder,
    tags: Sequence[tuple[str, NodeId]],
    excluded: Sequence[str],
    *,
    loop: bool,
    budget: Budget,
    marks: Sequence[tuple[str, NodeId]] = (),
) -> NodeId:
    """Free text with tags, each followed by its node; then free text again or, without `loop`, the end.

    A mark is a text, perhaps the empty one, and a node that may follow wherever the free text ends with it; unlike a tag's it need not.
    """
    names = [tag for tag, _ in tags]
    words = [*names, *excluded]
    after_mark = len(words)
    watch = aho_corasick([*words, *(text for text, _ in marks if text)], budget)
    _check(watch, names, words)
    anywhere = [node for text, node in marks if not text]
    somewhere = [node for text, node in marks if text]
    # Graph states: 0 and 1 are the ends of the graph, state s of the watch is s + 2, and the tags' own states come after.
    edges: list[int] = [_START, 2, -1]
    after = {number: len(watch.moves) + 2 + number for number in range(len(tags))}
    states = len(watch.moves) + 2 + len(tags)
    for node in anywhere:  # one state for all of them, which every state of the watch leads to
        edges += [states, 2 if loop else _END, node]
    letters: dict[str, NodeId] = {}
    rest: dict[frozenset[str], NodeId] = {}
    for state, moves in enumerate(watch.moves):
        budget.spend(4 + len(moves))
        if any(number < after_mark for number in watch.complete[state]):
            continue
        edges += [state + 2, _END, -1]
        if anywhere:
            edges += [state + 2, states, -1]
        for number in sorted(watch.complete[state]):
            edges += [state + 2, 2 if loop else _END, somewhere[number - after_mark]]
        read = frozenset(moves)
        others = rest.get(read)
        if others is None:
            others = rest[read] = builder.chars(complement(from_chars(moves)))
        edges += [state + 2, 2, others]
        for character, target in moves.items():  # one character leads to a state, the last of its text
            letter = letters.get(character)
            if letter is None:
                letter = letters[character] = builder.chars((ord(character), ord(character)))
            complete = [number for number in watch.complete[target] if number < after_mark]
            if not complete:
                edges += [state + 2, target + 2, letter]
            for number in sorted(complete):
                if number < len(tags):
                    edges += [state + 2, after[number], letter]
    for number, (_, node) in enumerate(tags):
        edges += [after[number], 2 if loop else _END, node]
    return builder.graph(states + bool(anywhere), tuple(edges))


def text_without(builder: GrammarBuilder, excluded: Sequence[str], *, minimum: int = 0, maximum: int = -1, budget: Budget) -> NodeId:
    """Free text of `minimum` to `maximum` characters, -1 for no bound, that holds none of the excluded texts."""
    if 0 <= maximum < minimum:
        return builder.never()
    automaton = automaton_without(excluded, budget=budget)
    return builder.automaton(automaton.transitions, automaton.accepting, minimum=minimum, maximum=maximum)


def automaton_without(excluded: Sequence[str], *, budget: Budget) -> Dfa:
    """The texts that hold none of the excluded ones."""
    watch = aho_corasick(excluded, budget)
    # Dead states are dropped, so the others are numbered anew.
    numbers: dict[int, int] = {}
    for state, complete in enumerate(watch.complete):
        if not complete:
            numbers[state] = len(numbers)
    rows: dict[int, _Row] = {}
    for state in watch.order:
        budget.spend(2 + len(watch.moves[state]) // 8)
        row: _Row = rows[watch.fallback[state]] if state else tuple([(lo, hi, 0) for lo, hi in pairs(ANY)])
        for character, target in watch.own[state].items():
            row = _turned(row, ord(character), numbers.get(target, -1))
        rows[state] = row
    return Dfa(tuple([rows[state] for state in numbers]), (True,) * len(numbers))


_Row = tuple[tuple[int, int, int], ...]


def _turned(row: _Row, point: int, target: int) -> _Row:
    """A row in which one character leads elsewhere, or nowhere where that is -1."""
    place = bisect_right(row, (point, 0x110000, 0)) - 1
    middle = [(point, point, target)] if target >= 0 else []
    if place < 0 or row[place][1] < point:
        return (*row[: place + 1], *middle, *row[place + 1 :])
    low, high, others = row[place]
    before = [(low, point - 1, others)] if low < point else []
    after = [(point + 1, high, others)] if point < high else []
    return (*row[:place], *before, *middle, *after, *row[place + 1 :])


def token_dispatch(builder: GrammarBuilder, tags: Sequence[tuple[int, NodeId]], excluded: Sequence[int], *, loop: bool) -> NodeId:
    """Free tokens with tags that are tokens themselves, each followed by its node."""
    edges = [_START, 2, -1, 2, _END, -1]
    edges += [2, 2, builder.tokens(tuple(sorted({*excluded, *(tag for tag, _ in tags)})), negated=True)]
    for number, (tag, node) in enumerate(tags):
        edges += [2, 3 + number, builder.tokens((tag,)), 3 + number, 2 if loop else _END, node]
    return builder.graph(3 + len(tags), tuple(edges))


def _check(watch: Watch, tags: Sequence[str], words: Sequence[str]) -> None:
    """Refuse a tag that holds another tag before its end, or an excluded text anywhere: it could never be completed."""
    for tag in tags:
        state = 0
        for length, character in enumerate(tag, 1):
            state = watch.moves[state][character]
            contained = [words[n] for n in watch.complete[state] if n < len(words) and (length < len(tag) or n >= len(tags))]
            if contained:
                raise DispatchError(f"tag {tag!r} can never be completed, because it contains {min(contained)!r}")


def aho_corasick(words: Sequence[str], budget: Budget) -> Watch:
    """The automaton that watches for words.

    A breadth-first walk of their trie gives each state its fallback, the state of its longest proper end; moves that a state lacks are
    those of its fallback.
    """
    moves: list[dict[str, int]] = [{}]
    complete: list[frozenset[int]] = [frozenset()]
    for number, word in enumerate(words):
        state = 0
        for character in word:
            following = moves[state].get(character)
            if following is None:
                following = moves[state][character] = len(moves)
                moves.append({})
                complete.append(frozenset())
            state = following
        complete[state] |= {number}
        budget.check_positions(len(moves))
        budget.spend(1 + len(word) // 2)
    fallback = [0] * len(moves)
    its_own: list[dict[str, int]] = [{}] * len(moves)
    todo = [0]
    entries = 0
    for state in todo:
        own = its_own[state] = dict(moves[state])
        if state:
            moves[state] = {**moves[fallback[state]], **own}
        entries += len(moves[state])
        budget.check_positions(entries)
        budget.spend(2 + len(moves[state]) // 8)
        for character, target in own.items():
            fallback[target] = moves[fallback[state]].get(character, 0) if state else 0
            complete[target] |= complete[fallback[target]]
            todo.append(target)
    return Watch(moves, complete, its_own, fallback, todo)
