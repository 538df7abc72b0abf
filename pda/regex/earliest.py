"""Rows of many loops: each part between two loops is matched where it first can be.

    C* X D* ...      where D holds all characters of C and of X
                     is First(C* X) D* ...: the text up to its first end of a match, and then anything that the loops read

What follows the first match of X is in D*, whether a later match of X was meant or not, so no text is lost. A prefix-free automaton
replaces the loop, and a state of the whole pattern is a state of one part. Otherwise it holds all loops up to the furthest one: 1,000 words
with `.*` between them had states of 1,000 items, steps of 60 ms and 170 MB.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from ..automata.charset import CharSet, pairs, union
from ..automata.dfa import EPSILON, Dfa, minimize
from ..automata.minimize import Range, Transitions
from ..automata.nfa import Nfa
from ..budget import Budget
from ..grammar import GrammarBuilder, NodeId
from .analysis import one_character
from .ast import Alt, Ast, AstId, AstNode, Chars, Repeat, Seq, Text
from .to_nfa import MAX_POSITIONS, Unfolding, count_positions, within_states

MANY_LOOPS: Final = 16
"""Loops of a sequence from which on each part is matched first; shorter ones become small automata anyway."""
MOST_POSITIONS: Final = 64
"""Characters of a part between two loops that becomes an automaton, and the states of that."""
MOST_DETERMINISED: Final = 200
"""Parts of a pattern that are determinised, each in up to 3 ms; the others stay as they are. Plain words need no determinisation."""


class _Loop(NamedTuple):
    place: int
    chars: CharSet
    minimum: int


def match_earliest(
    builder: GrammarBuilder, ast: Ast, parts: tuple[AstId, ...], emitted: list[NodeId], encoding: int, budget: Budget
) -> list[NodeId]:
    """The nodes of the parts of a sequence, which `emitted` has one by one."""
    plain = [emitted[part] for part in parts]
    if len(parts) < 2 * MANY_LOOPS:
        return plain
    loops = [loop for place, part in enumerate(parts) if (loop := _loop(ast, place, part)) is not None]
    if len(loops) < MANY_LOOPS:
        return plain
    counts = count_positions(ast)
    if counts[ast.root] > MAX_POSITIONS:
        return plain
    unfolding = Unfolding(ast, budget)
    left = MOST_DETERMINISED
    nodes = plain[: loops[0].place]
    for loop, following in pairwise(loops):
        middle = parts[loop.place + 1 : following.place]
        read = None if sum([counts[part] for part in middle]) > MOST_POSITIONS else _characters(ast, middle)
        budget.spend(2)
        if not middle or read is None or union(loop.chars, read, following.chars) != following.chars:
            nodes += plain[loop.place : following.place]
            continue
        word = _word(ast.nodes[middle[0]]) if len(middle) == 1 and not loop.minimum else ""
        if word and union(loop.chars, read) == loop.chars:
            budget.spend(4 * len(word))
            nodes.append(builder.automaton(*until_word(loop.chars, word), encoding))
            continue
        first = _first(unfolding, parts[loop.place : following.place], budget) if left else None
        left -= left > 0
        if first is None:
            nodes += plain[loop.place : following.place]
        elif first != EPSILON:
            nodes.append(builder.automaton(first.transitions, first.accepting, encoding))
    return nodes + plain[loops[-1].place :]


def _loop(ast: Ast, place: int, part: AstId) -> _Loop | None:
    """The loop over one set of characters at a place of a sequence, None for another part."""
    node = ast.nodes[part]
    if not isinstance(node, Repeat) or node.maximum >= 0 or node.minimum > 1:
        return None
    chars = one_character(ast.nodes[node.body])
    return None if chars is None else _Loop(place, chars, node.minimum)


def _characters(ast: Ast, parts: tuple[AstId, ...]) -> CharSet | None:
    """All characters that some parts may read, None where a part has atomic groups."""
    found: set[CharSet] = set()
    todo = [*parts]
    while todo:
        node = ast.nodes[todo.pop()]
        if isinstance(node, Chars):
            found.add(node.chars)
        elif isinstance(node, Text):
            found.update((ord(character), ord(character)) for character in node.text)
        elif isinstance(node, Seq | Alt):
            todo += node.parts
        elif isinstance(node, Repeat):
            todo.append(node.body)
        else:
            return None
    return union(*found)


def _word(node: AstNode) -> str:
    """The only text of a node, the empty one where there is none or where there are several."""
    if isinstance(node, Chars) and len(node.chars) == 2 and node.chars[0] == node.chars[1]:
        return chr(node.chars[0])
    return node.text if isinstance(node, Text) else ""


def until_word(chars: CharSet, word: str) -> tuple[Transitions, tuple[bool, ...]]:
    """The canonical automaton of the characters up to the first time that they have read a word, all of which is in them.

    Its states are how much of the word was read (Knuth, Morris and Pratt, "Fast pattern matching in strings", 1977).

    >>> until_word((97, 99), "ab")
    ((((97, 97, 1), (98, 99, 0)), ((97, 97, 1), (98, 98, 2), (99, 99, 0)), ()), (False, False, True))
    """
    rows: list[dict[int, int]] = []
    border = 0  # the state of all but the first character read so far
    for state, character in enumerate(word):
        row = {**rows[border]} if state else {}
        border = row.get(ord(character), 0)
        row[ord(character)] = state + 1
        rows.append(row)
    transitions: list[tuple[Range, ...]] = []
    for row in rows:
        ranges: list[Range] = []
        targets = sorted(row.items())
        for lo, hi in pairs(chars):
            start = lo
            for point, target in targets:
                if start <= point <= hi:
                    if start < point:
                        ranges.append((start, point - 1, 0))
                    ranges.append((point, point, target))
                    start = point + 1
            if start <= hi:
                ranges.append((start, hi, 0))
        transitions.append(tuple(ranges))
    return (*transitions, ()), (*(False,) * len(word), True)


def _first(unfolding: Unfolding, parts: tuple[AstId, ...], budget: Budget) -> Dfa | None:
    """The texts of parts that begin with no other such text, None where they have no small automaton."""
    unfolding.nfa = Nfa(budget)
    whole = within_states(lambda: unfolding.nfa.determinize(unfolding.sequence(parts)), MOST_POSITIONS, budget)
    if whole is None:
        return None
    ended = [() if accepts else row for row, accepts in zip(whole.transitions, whole.accepting, strict=True)]
    return minimize(Dfa(tuple(ended), whole.accepting), budget=budget)
