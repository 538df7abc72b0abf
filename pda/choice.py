"""One out of a list of texts, as the smallest automaton over bytes that reads exactly these.

The texts are sorted, so that each shares its longest prefix with the one before (Daciuk, Mihov, Watson and Watson, "Incremental
construction of minimal acyclic finite-state automata", Computational Linguistics 26, 2000):

    for each text in order:
        close the states on the way to the last text that lie below the common prefix, from the end:
            a closed state that equals one met before is replaced by it
    close the rest

So a trie is never built, and time and memory are linear in the bytes that differ from text to text.
Of long texts each byte would still be a state: they become a compressed trie (Morrison, "PATRICIA", Journal of the ACM 15, 1968), whose
size is linear in the number of texts.

Words in any case are rows of sets of characters. The sets are numbered, and the numbers are the bytes of a text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import AnyStr, Final

from .automata.charset import CharSet, pairs, union
from .automata.dfa import from_letters
from .budget import Budget
from .exceptions import GrammarError
from .grammar import RAW, UTF8, Grammar, GrammarBuilder, NodeId
from .limits import Limits

_LIMITS = Limits()
LONG: Final = 64
"""Texts that are longer on average share little but their beginnings, which an engine finds, so they are literals."""
_BYTES: Final = 256


def choice_grammar(options: Sequence[str], *, limits: Limits = _LIMITS) -> Grammar:
    """The grammar that generates each of the options, and nothing else; equal options count once.

    Raises GrammarError where there is no option or one is not text, LimitError where the automaton has too many states.

    >>> len(choice_grammar(["yes", "eyes"]).nodes[0][1])
    5
    """
    if isinstance(options, str | bytes) or not isinstance(options, Sequence):
        raise GrammarError(f"a choice must be a list of texts, not {type(options).__name__}")
    if not options:
        raise GrammarError("a choice needs at least one option")
    texts = _encoded(options)
    builder = GrammarBuilder()
    root = builder.rule("choice")
    builder.define(root, choice_node(builder, texts, Budget(limits)))
    return builder.build(root)


def choice_node(builder: GrammarBuilder, texts: Sequence[bytes], budget: Budget) -> NodeId:
    """The node of texts in UTF-8, which are sorted and distinct."""
    if len(texts) == 1:
        return builder.literal(texts[0])
    if sum(map(len, texts)) > LONG * len(texts):
        budget.spend(sum(4 + len(text) // 2048 for text in texts))
        return builder.alt(*(builder.literal(text) for text in texts))
    transitions, accepting = _Automaton(budget).build(texts)
    return builder.automaton(transitions, accepting, RAW)


def without_extensions(texts: Iterable[AnyStr]) -> list[AnyStr]:
    """The texts that do not begin with an earlier one.

    >>> without_extensions(["ab", "cd", "abc", "c", "ab"])
    ['ab', 'cd', 'c']
    """
    kept: dict[AnyStr, None] = {}
    for text in texts:
        if not any(text[:end] in kept for end in range(len(text) + 1)):
            kept[text] = None
    return list(kept)


def words_node(builder: GrammarBuilder, words: Collection[Sequence[CharSet]], budget: Budget, *, prefix_free: bool = False) -> NodeId:
    """The node of words whose letters are sets of characters, any two equal or disjoint; one word at least.

    With `prefix_free`, words that begin with an earlier word are left out.

    >>> builder = GrammarBuilder()
    >>> words_node(builder, [((65, 65, 97, 97), (48, 57)), ((48, 57),)], Budget())
    0
    >>> builder.nodes[0][1]
    (((48, 57, 2), (65, 65, 1), (97, 97, 1)), ((48, 57, 2),), ())
    """
    letters = sorted({letter for word in words for letter in word})
    budget.spend(sum(map(len, words)) // 2 + sum(map(len, letters)))
    if len(letters) > _BYTES:
        automaton = from_letters(words, lambda letter: letter, budget, prefix_free=prefix_free)
        return builder.automaton(automaton.transitions, automaton.accepting)
    numbers = {letter: number for number, letter in enumerate(letters)}
    texts = [bytes(map(numbers.__getitem__, word)) for word in words]
    transitions, accepting = _Automaton(budget).build(sorted(without_extensions(texts) if prefix_free else set(texts)))
    single = [tuple(pairs(letter)) for letter in letters]
    rows: list[tuple[tuple[int, int, int], ...]] = []
    for row in transitions:
        if len(row) == 1 and row[0][0] == row[0][1]:  # PERF: most states lead to one state by one letter
            target = row[0][2]
            rows.append(tuple([(low, high, target) for low, high in single[row[0][0]]]))
            continue
        by_target: dict[int, list[CharSet]] = {}
        for first, last, target in row:
            by_target.setdefault(target, []).extend(letters[first : last + 1])
        rows.append(tuple(sorted((low, high, target) for target, found in by_target.items() for low, high in pairs(union(*found)))))
    return builder.automaton(tuple(rows), accepting, UTF8)


def _encoded(options: Sequence[str]) -> list[bytes]:
    """The distinct options as UTF-8, sorted."""
    for index, option in enumerate(options):
        if not isinstance(option, str):
            raise GrammarError(f"option {index} of the choice is not text but {type(option).__name__}")
    try:
        return sorted({option.encode() for option in options})
    except UnicodeEncodeError as error:
        index = options.index(error.object)
        code = ord(error.object[error.start])
        raise GrammarError(f"option {index} of the choice contains U+{code:04X}, a lone surrogate, which has no UTF-8") from None


class _Automaton:
    """The automaton under construction; a state is closed, and has a number, when no text can add to it any more."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        # Most states lead to one state by one byte and do not accept. PERF: an integer, target << 8 | byte, finds those twice as fast
        # as a tuple, and takes a third of the memory.
        self.chains: dict[int, int] = {}
        self.others: dict[tuple[bool, tuple[int, ...]], int] = {(True, ()): 0}
        self.states: list[int | tuple[bool, tuple[int, ...]]] = [(True, ())]

    def build(self, texts: Sequence[bytes]) -> tuple[tuple[tuple[tuple[int, int, int], ...], ...], tuple[bool, ...]]:
        """The transitions and accepting states for sorted distinct texts."""
        last = texts[0]
        # The open states on the way to the last text: what they already lead to, each edge as target << 8 | byte.
        edges: list[list[int]] = [[] for _ in range(len(last) + 1)]
        ends = [False] * len(last) + [True]
        for number, text in enumerate(texts[1:]):
            if not number & 0xFFF:
                self.budget.check_positions(len(self.states))
            self.budget.spend(1 + len(text) // 2)
            shared = 0
            for byte, other in zip(text, last, strict=False):
                if byte != other:
                    break
                shared += 1
            self.close(last, edges, ends, shared)
            edges.extend([] for _ in range(len(text) - shared))
            ends.extend([False] * (len(text) - shared))
            ends[-1] = True
            last = text
        self.close(last, edges, ends, 0)
        self.state(edges[0], ends[0])
        self.budget.check_positions(len(self.states))
        self.budget.spend(len(self.states))
        return self.numbered()

    def close(self, text: bytes, edges: list[list[int]], ends: list[bool], depth: int) -> None:
        """Close the states below `depth` on the way to a text, and hang the highest of them into the state at `depth`."""
        chains, states = self.chains, self.states
        for offset in range(len(text) - 1, depth - 1, -1):
            outgoing, end = edges.pop(), ends.pop()
            if len(outgoing) == 1 and not end:
                key = outgoing[0]
                target = chains.get(key)
                if target is None:
                    target = chains[key] = len(states)
                    states.append(key)
            else:
                target = self.state(outgoing, end)
            edges[-1].append(target << 8 | text[offset])

    def state(self, edges: list[int], end: bool) -> int:
        """The number of a state with these edges."""
        key = (end, tuple(edges))
        found = self.others.get(key)
        if found is None:
            found = self.others[key] = len(self.states)
            self.states.append(key)
        return found

    def numbered(self) -> tuple[tuple[tuple[tuple[int, int, int], ...], ...], tuple[bool, ...]]:
        """The states in the order of the grammar: the start state, which was closed last, is state 0."""
        start = len(self.states) - 1
        transitions = []
        accepting = []
        for state in reversed(self.states):
            end, edges = (False, (state,)) if isinstance(state, int) else state
            accepting.append(end)
            row: list[tuple[int, int, int]] = []
            for edge in edges:
                target, byte = start - (edge >> 8), edge & 0xFF
                if row and row[-1][2] == target and row[-1][1] == byte - 1:
                    row[-1] = (row[-1][0], byte, target)
                else:
                    row.append((byte, byte, target))
            transitions.append(tuple(row))
        return tuple(transitions), tuple(accepting)
