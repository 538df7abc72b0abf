"""The runs of a list of chunks: every text that some chunks in a row make, the empty one included.

The suffix automaton of the list (Blumer et al., "The smallest automaton recognizing the subwords of a text", Theoretical Computer Science
40, 1985) has at most two states a chunk and reads chunk by chunk.
Its edges are then spelt out in characters; where one chunk begins another, several readings are followed at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..budget import Budget
from .dfa import Dfa

# An edge under way: what is left of its chunk, and the state behind it; at a state nothing is left.
_Place = tuple[str, int]


def substring_dfa(chunks: Sequence[str], budget: Budget) -> Dfa:
    """An automaton, not minimal, of the runs of the chunks.

    >>> from stackmask.pda.automata.language import accepts
    >>> runs = substring_dfa(["ab", "c", "ab"], Budget())
    >>> [text for text in ("", "ab", "abc", "cab", "abab", "b") if accepts(runs, text)]
    ['', 'ab', 'abc', 'cab']
    """
    edges = _suffix_automaton([chunk for chunk in chunks if chunk], budget)
    if all(len(chunk) <= 1 for chunk in chunks):
        budget.spend(3 * len(edges))
        rows = [[(ord(chunk), ord(chunk), target) for chunk, target in row.items()] for row in edges]
        return Dfa(tuple([tuple(sorted(row)) for row in rows]), (True,) * len(rows))
    start = frozenset({("", 0)})
    numbers = {start: 0}
    todo = [start]
    transitions: list[tuple[tuple[int, int, int], ...]] = []
    accepting: list[bool] = []
    for places in todo:
        budget.check_positions(len(numbers))
        budget.spend(4)
        row: dict[str, set[_Place]] = {}
        for rest, state in places:
            for text, target in [(rest, state)] if rest else edges[state].items():
                row.setdefault(text[0], set()).add((text[1:], target))
        accepting.append(any(not rest for rest, _ in places))
        moves = []
        for character, targets in sorted(row.items()):
            following = frozenset(targets)
            number = numbers.get(following)
            if number is None:
                number = numbers[following] = len(numbers)
                todo.append(following)
            moves.append((ord(character), ord(character), number))
        transitions.append(tuple(moves))
    return Dfa(tuple(transitions), tuple(accepting))


def _suffix_automaton(chunks: Sequence[str], budget: Budget) -> list[dict[str, int]]:
    """The edges of the suffix automaton of a list, by state; state 0 is the start.

    Extending it by one chunk follows the suffix links of the last state:

        every state on the way that lacks an edge for the chunk gets one to the new state
        where one has it and leads one step further in length, that is the new state's suffix
        else its target is split: a copy takes over the shorter ways into it
    """
    edges: list[dict[str, int]] = [{}]
    lengths = [0]
    links = [-1]
    last = 0
    for chunk in chunks:
        new = len(edges)
        edges.append({})
        lengths.append(lengths[last] + 1)
        links.append(0)
        state = last
        while state >= 0 and chunk not in edges[state]:
            edges[state][chunk] = new
            state = links[state]
        if state >= 0:
            target = edges[state][chunk]
            if lengths[target] > lengths[state] + 1:
                copy = len(edges)
                edges.append(dict(edges[target]))
                lengths.append(lengths[state] + 1)
                links.append(links[target])
                links[target] = copy
                while state >= 0 and edges[state].get(chunk) == target:
                    edges[state][chunk] = copy
                    state = links[state]
                target = copy
            links[new] = target
        last = new
        if not last & 0xFF:
            budget.check_positions(len(edges))
            budget.spend(0x200)
    return edges
