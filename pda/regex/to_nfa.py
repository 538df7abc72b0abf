"""From a regular expression to a position automaton, and to the Dfa that is determinised from it.

The tree is unfolded with an explicit stack into positions of automata/nfa.py, a counted part once for every time it may occur.
Patterns with inner assertions continue in assertions.py.

A possessive quantifier or an atomic group changes the language in general: `a*+a` matches nothing.
It is taken where it makes no difference: around a part that matches in one way only, and around repetitions of one character set when no
text that may follow begins with a character of the set, so that giving characters back could never help.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ..automata.charset import CharSet, intersection
from ..automata.dfa import Dfa
from ..automata.nfa import EMPTY_FRAGMENT, Copies, Fragment, Nfa, bits
from ..budget import Budget
from ..exceptions import LimitError, RegexError
from .analysis import one_character
from .ast import END, Alt, Anchor, Ast, AstId, AstNode, Atomic, Boundary, Chars, Look, Repeat, Seq, Text
from .branches import Branch

# A set of positions takes a bit a position, and there is at least one set a position: this many take 128 MiB.
MAX_POSITIONS: Final = 1 << 15

SMALL_POSITIONS: Final = 2_000
SMALL_STATES: Final = 4_000
ATTEMPT: Final = 8
"""The fraction of a compilation's work that an automaton may take which only has to be tried."""
# The numbers in all sets of characters of a pattern: rows of thousands of ranges are no small automaton.
SMALL_RANGES: Final = 20_000


class Possessive(NamedTuple):
    """A repetition of one set that is to give nothing back: what follows its last positions inside of it, and its place in the pattern."""

    chars: CharSet
    inside: dict[int, int]
    position: int


class Unfolding:
    """A pattern becoming a position automaton; an assertion becomes a silent position, noted in `assertions`."""

    __slots__ = ("assertions", "ast", "nfa", "possessive")

    def __init__(self, ast: Ast, budget: Budget) -> None:
        if count_positions(ast)[ast.root] > MAX_POSITIONS:
            raise LimitError(
                f"the pattern unfolds to more than {MAX_POSITIONS} characters, too many to determinise",
                limit="states",
                value=budget.limits.states,
            )
        self.ast = ast
        self.nfa = Nfa(budget)
        self.assertions: dict[int, AstId] = {}
        self.possessive: list[Possessive] = []

    def fragment(self, root: AstId) -> Fragment:
        """The fragment of one node of the tree."""
        nodes = self.ast.nodes
        done: list[Fragment] = []
        todo: list[tuple[AstId, int]] = [(root, -1)]  # ... and the position at which a node that is put together begins
        while todo:
            index, begin = todo.pop()
            node = nodes[index]
            if begin >= 0:
                done.append(self._combine(node, done, begin))
                continue
            match node:
                case Chars(chars):
                    done.append(self.nfa.character(self.nfa.labels.intern(chars)))
                case Text(text):
                    done.append(self._text(text))
                case Anchor() | Boundary() | Look():
                    done.append(self._assertion(index))
                case _:
                    todo.append((index, len(self.nfa.follow)))
                    todo.extend([(part, -1) for part in reversed(_copies(node))])
        return done[0]

    def sequence(self, parts: tuple[AstId, ...]) -> Fragment:
        """The fragment of nodes one after the other."""
        fragment = EMPTY_FRAGMENT
        for part in parts:
            fragment = self.nfa.concatenate(fragment, self.fragment(part))
        return fragment

    def _text(self, text: str) -> Fragment:
        labels = self.nfa.labels
        fragment = EMPTY_FRAGMENT
        for character in text:
            point = ord(character)
            fragment = self.nfa.concatenate(fragment, self.nfa.character(labels.intern((point, point))))
        return fragment

    def _assertion(self, index: AstId) -> Fragment:
        position = self.nfa.silent_position()
        self.assertions[position] = index
        return Fragment(1 << position, 1 << position, False)

    def _combine(self, node: AstNode, done: list[Fragment], begin: int) -> Fragment:
        """The fragment of a node out of those of its parts, which are the last of `done` and leave it. It begins at a position."""
        nfa = self.nfa
        fragment = EMPTY_FRAGMENT
        match node:
            case Seq(parts):
                for _ in parts:
                    fragment = nfa.concatenate(done.pop(), fragment)
            case Alt(parts):
                fragment = nfa.alternate([done.pop() for _ in parts])
            case Repeat(_, minimum, maximum):
                if maximum > 1:
                    # behind a copy that may be the last the part may follow as often as there are others behind it
                    first = 0 if done[-1].nullable else max(minimum - 1, 0)
                    width = (len(nfa.follow) - begin) // maximum
                    if width and maximum - first > 1:
                        nfa.copies.append(Copies(begin + first * width, width, maximum - first))
                if maximum < 0:
                    body = done.pop()
                    fragment = nfa.star(body)._replace(nullable=minimum == 0 or body.nullable)
                for _ in range(maximum - minimum):
                    fragment = nfa.concatenate(done.pop(), fragment)._replace(nullable=True)
                for _ in range(minimum - (maximum < 0)):
                    fragment = nfa.concatenate(done.pop(), fragment)
            case _:
                assert isinstance(node, Atomic)
                fragment = done.pop()
                self._note_possessive(node.body, fragment, node.position)
        return fragment

    def _note_possessive(self, body: AstId, fragment: Fragment, position: int) -> None:
        node = self.ast.nodes[body]
        chars = one_character(self.ast.nodes[node.body]) if isinstance(node, Repeat) else None
        if chars is not None:
            inside = {last: self.nfa.follow[last] for last in bits(fragment.last)}
            self.possessive.append(Possessive(chars, inside, position))
        elif not _matches_one_way(self.ast, body):
            raise _refusal(self.ast, position)

    def check_possessive(self) -> None:
        """Raise where a possessive repetition could differ from a greedy one; every fragment it is part of is finished."""
        nfa = self.nfa
        for chars, inside, position in self.possessive:
            for last, within in inside.items():
                for following in bits(nfa.follow[last] & ~within):
                    if following in self.assertions:
                        harmless = self.ast.nodes[self.assertions[following]] == END
                    else:
                        harmless = not intersection(nfa.labels.sets[nfa.position_labels[following]], chars)
                    if not harmless:
                        raise _refusal(self.ast, position)


def _copies(node: AstNode) -> tuple[AstId, ...]:
    """The parts of a node as often as they are unfolded."""
    match node:
        case Seq(parts) | Alt(parts):
            return parts
        case Repeat(body, minimum, maximum):
            return (body,) * (max(minimum, 1) if maximum < 0 else maximum)
        case _:
            assert isinstance(node, Atomic | Look)
            return (node.body,)


def count_positions(ast: Ast) -> list[int]:
    """For every node the number of positions it unfolds to, as far as it matters.

    PERF: each branch with a lookaround asks for it again, in a pattern of a thousand branches.
    """
    if ast.position_counts:
        return ast.position_counts
    counts: list[int] = []
    for node in ast.nodes:
        match node:
            case Text(text):
                counts.append(len(text))
            case Repeat(body, minimum, maximum):
                counts.append(min(counts[body] * (max(minimum, 1) if maximum < 0 else maximum), 1 << 40))
            case Seq() | Alt() | Atomic() | Look():
                counts.append(sum([counts[part] for part in _copies(node)]))
            case _:
                counts.append(1)
    ast.position_counts[:] = counts
    return counts


def _matches_one_way(ast: Ast, root: AstId) -> bool:
    """Whether a node holds no choice: it matches one length only."""
    todo = [root]
    while todo:
        node = ast.nodes[todo.pop()]
        match node:
            case Chars() | Text():
                continue
            case Seq(parts):
                todo.extend(parts)
            case Repeat(body, minimum, maximum) if minimum == maximum:
                todo.append(body)
            case _:
                return False
    return True


def _refusal(ast: Ast, position: int) -> RegexError:
    return RegexError(
        "a possessive quantifier or an atomic group is supported only where it makes no difference, and here it may; "
        "write a greedy quantifier and say what must not follow, as in a*(?!a)",
        ast.pattern,
        position,
    )


def check_atoms(ast: Ast, budget: Budget) -> None:
    """Raise unless every possessive quantifier and atomic group of a pattern makes no difference."""
    if not ast.atoms:
        return
    unfolding = Unfolding(ast, budget)
    unfolding.fragment(ast.root)
    for node in ast.nodes:
        if isinstance(node, Look):
            before = len(unfolding.possessive)
            unfolding.fragment(node.body)
            # Inside a lookbehind the end of the text read is fixed, so giving back does matter.
            if not node.ahead and len(unfolding.possessive) > before:
                raise _refusal(ast, unfolding.possessive[-1].position)
    unfolding.check_possessive()


def branches_dfa(ast: Ast, branches: list[Branch], *, search: bool, budget: Budget) -> Dfa:
    """The canonical automaton of a pattern given by its outermost branches, which hold no assertion."""
    unfolding = Unfolding(ast, budget)
    nfa = unfolding.nfa
    groups: dict[tuple[bool, bool], list[Fragment]] = {}
    for parts, starts, ends in branches:
        key = (starts, ends) if search else (True, True)
        groups.setdefault(key, []).append(unfolding.sequence(parts))
    whole: list[Fragment] = []
    for (starts, ends), members in groups.items():
        middle = nfa.alternate(members)
        if not ends:
            middle = nfa.concatenate(middle, nfa.anything())
        if not starts:
            middle = nfa.concatenate(nfa.anything(), middle)
        whole.append(middle)
    return nfa.determinize(nfa.alternate(whole))


def small_dfa(ast: Ast, branches: list[Branch], budget: Budget) -> Dfa | None:
    """As branches_dfa, of the texts that match as a whole; None where the automaton is not small, which is soon found out."""
    if (
        count_positions(ast)[ast.root] > SMALL_POSITIONS
        or sum(len(node.chars) for node in ast.nodes if isinstance(node, Chars)) > SMALL_RANGES
    ):
        return None
    return within_states(lambda: branches_dfa(ast, branches, search=False, budget=budget), SMALL_STATES, budget)


def within_states(make: Callable[[], Dfa], states: int, budget: Budget) -> Dfa | None:
    """What is made if no automaton on the way takes more states than this, or more work than an attempt may; None otherwise."""
    most, ceiling = budget.states, budget.ceiling
    budget.states = min(most, states)
    budget.ceiling = min(ceiling, budget.work + budget.limits.compile_work // ATTEMPT)
    try:
        return make()
    except LimitError:
        budget.spend(0)  # the whole compilation may be at its end
        return None
    finally:
        budget.states, budget.ceiling = most, ceiling
