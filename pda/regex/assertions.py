r"""Assertions anywhere in a pattern: anchors, word boundaries, lookahead and lookbehind, exactly.

A pattern with lookarounds is an alternating automaton with negation: a match ahead is a second thread that must succeed, or fail, on
the rest of the text, whatever the first thread does (Chandra, Kozen and Stockmeyer, "Alternation", 1981; Miyazaki and Minamide,
"Derivatives of regular expressions with lookahead", 2019).
This module determinises it on the fly.

    A *program* is a position automaton to be matched against the whole text: the pattern itself, `body .*` for a lookahead,
    `.* body` for a lookbehind. Assertions in it are silent positions.
    The state of a program is a set of *threads* (obligations, positions): the program accepts if, for one of them, the rest of the
    text leads from one of the positions to the end and meets all obligations.
    An *obligation* (negated, lookahead, state) says that the program of that lookahead, in that state, accepts the rest of the text,
    or does not.
    A state of the result is (what the last character was, the state of every lookbehind since the start of the text, the state
    of the pattern). The first two depend on the text alone, so all programs share them.

A silent position is passed when the next character is known, so anchors and boundaries are decided on the spot, and a lookbehind is true
if one of its threads is at its end there, under the obligations of that thread; its negation is the dual: one obligation of every
such thread is broken.
A lookahead adds an obligation to the thread that passes it.
An obligation that has become certain leaves its thread, or takes it along.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from ..automata import charset
from ..automata.char_classes import NO_LABEL, LabelId
from ..automata.dfa import Dfa, canonical
from ..automata.minimize import Row
from ..automata.nfa import Fragment, Steps, bits, mask_of, set_key
from ..budget import Budget
from .ast import Anchor, Ast, AstId, Boundary, Look, Place
from .char_class import LINE_TERMINATORS
from .to_nfa import Unfolding

# The number of a set of threads; equal sets have the same number.
ThreadsId: TypeAlias = int
Obligation: TypeAlias = tuple[bool, AstId, ThreadsId]
State: TypeAlias = tuple[int, tuple[ThreadsId, ...], ThreadsId]
Obligations: TypeAlias = frozenset[Obligation]

# Positions of which a set is followed in a step, as a power of two.
_BITS_A_STEP: Final = 11
# A state here takes as long to make as this many of a subset construction.
_WEIGHT: Final = 8

_NONE: Final[Obligations] = frozenset()
_ALWAYS: Final[dict[Obligations, tuple[int, bool]]] = {_NONE: (0, True)}
_FAILED: Final = 0  # no thread is left
_MATCHED: Final = 1  # whatever follows, the program accepts
_MAIN: Final = AstId(-1)
_START_OF_TEXT: Final = -1
_END_OF_TEXT: Final = -1


class Program(NamedTuple):
    """A part of the position automaton: its start position, its last ones, and those from which every text is accepted."""

    start: int
    last: int
    complete: int


class Moment:
    """One place between two characters: what stood before, and the kind of character that comes next, or the end.

    A kind is the tracked sets that hold the character, as bits: line terminators, word characters.
    """

    __slots__ = ("behinds", "closures", "following", "previous", "stepped", "truths")

    def __init__(self, previous: int, behinds: tuple[ThreadsId, ...], following: int) -> None:
        self.previous = previous
        self.behinds = behinds
        self.following = following
        self.truths: dict[AstId, tuple[Obligations, ...]] = {}
        self.closures: dict[tuple[AstId, ThreadsId], dict[Obligations, tuple[int, bool]]] = {}
        self.stepped: dict[tuple[int, AstId, ThreadsId], ThreadsId] = {}


class AlternatingAutomaton:
    """The determinisation of one pattern."""

    def __init__(self, ast: Ast, *, search: bool, budget: Budget) -> None:
        self.nodes = ast.nodes
        self.budget = budget
        unfolding = Unfolding(ast, budget)
        nfa = unfolding.nfa
        looks = [(AstId(index), node) for index, node in enumerate(ast.nodes) if isinstance(node, Look)]
        fragments: dict[AstId, Fragment] = {}
        main = unfolding.fragment(ast.root)
        fragments[_MAIN] = nfa.concatenate(nfa.anything(), nfa.concatenate(main, nfa.anything())) if search else main
        for index, look in looks:
            body = unfolding.fragment(look.body)
            fragments[index] = nfa.concatenate(body, nfa.anything()) if look.ahead else nfa.concatenate(nfa.anything(), body)
        starts: dict[AstId, int] = {}
        for index, fragment in fragments.items():
            starts[index] = nfa.silent_position()
            nfa.follow[starts[index]] = fragment.first
        self.steps = Steps(nfa)
        # A set of positions takes as long to follow as it has words of memory.
        self.closure_work = 4 + (len(nfa.follow) >> _BITS_A_STEP)
        self.assertions = unfolding.assertions
        self.silent = mask_of(sorted(self.assertions))
        self.programs: dict[AstId, Program] = {}
        for index, fragment in fragments.items():
            start = 1 << starts[index]
            last = fragment.last | (start if fragment.nullable else 0)
            self.programs[index] = Program(start, last, self.steps.complete(last)[0])
        self.threads: list[tuple[tuple[Obligations, int], ...]] = [(), ()]
        self.threads_ids: dict[frozenset[tuple[Obligations, tuple[int, int]]], ThreadsId] = {frozenset(): _FAILED}
        self.moments: dict[tuple[int, tuple[ThreadsId, ...], int], Moment] = {}
        self.initial = {index: self.intern({_NONE: program.start}) for index, program in self.programs.items()}
        # Lookbehinds stand in the table after those inside of them.
        self.behinds = [index for index, look in looks if not look.ahead]
        self.behind_places = {index: place for place, index in enumerate(self.behinds)}
        self.classes, self.class_masks = self.partition()

    def partition(self) -> tuple[list[LabelId], list[int]]:
        """The classes of characters that the pattern tells apart, and the positions that read each."""
        labels = self.steps.labels
        tracked = dict.fromkeys(
            labels.intern(LINE_TERMINATORS if isinstance(node, Anchor) else node.word)
            for node in self.nodes
            if (isinstance(node, Anchor) and node.place in (Place.LINE_START, Place.LINE_END)) or isinstance(node, Boundary)
        )
        self.tracked = {label: 1 << place for place, label in enumerate(tracked)}
        used = tuple(sorted({labels.intern(charset.ANY), *self.steps.masks, *tracked}))
        classes: list[LabelId] = []
        masks: list[int] = []
        for part, members in labels.partition(used):
            classes.append(part)
            mask = 0
            for label in members:
                mask |= self.steps.masks.get(label, 0)
            masks.append(mask)
        self.kinds = [
            sum(bit for label, bit in self.tracked.items() if labels.meet(part, label) != NO_LABEL) for part in classes
        ]  # which tracked sets hold a class
        return classes, masks

    def intern(self, threads: dict[Obligations, int]) -> ThreadsId:
        """The number of a set of threads; of two threads at one position the one with fewer obligations stands for both."""
        self.budget.spend(2 + len(threads) ** 2 // 8)
        if len(threads) > 1:
            for obligations in sorted(threads, key=len):
                for other in threads:
                    if obligations < other:
                        threads[other] &= ~threads[obligations]
            threads = {obligations: positions for obligations, positions in threads.items() if positions}
        key = frozenset([(obligations, set_key(positions)) for obligations, positions in threads.items()])
        found = self.threads_ids.get(key)
        if found is None:
            found = self.threads_ids[key] = len(self.threads)
            self.threads.append(tuple(threads.items()))
            self.budget.check_states(len(self.threads), _WEIGHT)
        return found

    def dfa(self) -> Dfa:
        """The canonical automaton of the texts that match."""
        with self.budget.part("one automaton"):
            return self._explored()

    def _explored(self) -> Dfa:
        labels = self.steps.labels
        matched: State = (0, (), _MATCHED)
        start: State = (_START_OF_TEXT, tuple([self.initial[index] for index in self.behinds]), self.initial[_MAIN])
        numbers: dict[State, int] = {start: 0}
        todo = [start]
        rows: list[Row] = []
        accepting: list[bool] = []
        for state in todo:
            previous, behinds, threads = state
            if threads == _MATCHED:
                accepting.append(True)
                rows.append([(numbers[state], labels.intern(charset.ANY))])
                continue
            accepting.append(self.ends(self.moment(previous, behinds, _END_OF_TEXT), _MAIN, threads))
            by_target: dict[int, list[LabelId]] = {}
            self.budget.check_states(len(rows), (len(self.classes) + _WEIGHT) // 2)
            for symbol, label in enumerate(self.classes):
                moment = self.moment(previous, behinds, self.kinds[symbol])
                following = self.step(moment, symbol, _MAIN, threads)
                if following == _FAILED:
                    continue
                target = matched
                if following != _MATCHED:
                    after = tuple(
                        [self.step(moment, symbol, index, state_behind) for index, state_behind in zip(self.behinds, behinds, strict=True)]
                    )
                    target = (self.kinds[symbol], after, following)
                number = numbers.get(target)
                if number is None:
                    number = numbers[target] = len(todo)
                    todo.append(target)
                by_target.setdefault(number, []).append(label)
            rows.append([(number, labels.union(found)) for number, found in by_target.items()])
            self.budget.spend(len(self.classes))
            self.budget.check_states(len(todo), _WEIGHT)
        return canonical(rows, accepting, labels, self.budget)

    def moment(self, previous: int, behinds: tuple[ThreadsId, ...], following: int) -> Moment:
        """The moment with these properties, and the known facts about it."""
        key = (previous, behinds, following)
        found = self.moments.get(key)
        if found is None:
            found = self.moments[key] = Moment(previous, behinds, following)
        return found

    def closure(self, moment: Moment, index: AstId, threads: ThreadsId) -> dict[Obligations, tuple[int, bool]]:
        """For all ways through silent positions: under which obligations which positions may come next, and whether the end is reached."""
        if threads == _MATCHED:
            return _ALWAYS
        found = moment.closures.get((index, threads))
        if found is not None:
            return found
        program = self.programs[index]
        found = {}
        seen: set[tuple[Obligations, int]] = set()
        todo = list(self.threads[threads])
        while todo:
            obligations, positions = todo.pop()
            following = self.steps.following(positions)
            known, ended = found.get(obligations, (0, False))
            found[obligations] = (known | following & ~self.silent, ended or positions & program.last != 0)
            for position in bits(following & self.silent):
                if (obligations, position) in seen:
                    continue
                seen.add((obligations, position))
                for more in self.truth(moment, self.assertions[position]):
                    todo.append((obligations | more, 1 << position))
            self.budget.spend(self.closure_work)
        moment.closures[index, threads] = found
        return found

    def truth(self, moment: Moment, index: AstId) -> tuple[Obligations, ...]:
        """The obligations under which an assertion holds: any one of these is enough; with none it never holds."""
        found = moment.truths.get(index)
        if found is None:
            node = self.nodes[index]
            if isinstance(node, Look):
                found = self.look(moment, index, node)
            else:
                assert isinstance(node, Anchor | Boundary)
                found = (_NONE,) if self.holds(moment, node) else ()
            moment.truths[index] = found
        return found

    def holds(self, moment: Moment, node: Anchor | Boundary) -> bool:
        """Whether an anchor or a word boundary holds."""
        labels = self.steps.labels
        at_start, at_end = moment.previous == _START_OF_TEXT, moment.following == _END_OF_TEXT
        if isinstance(node, Boundary):
            bit = self.tracked[labels.intern(node.word)]
            before = not at_start and moment.previous & bit != 0
            after = not at_end and moment.following & bit != 0
            return (before != after) != node.negated
        match node.place:
            case Place.START:
                return at_start
            case Place.END:
                return at_end
            case Place.LINE_START:
                return at_start or moment.previous & self.tracked[labels.intern(LINE_TERMINATORS)] != 0
        assert node.place == Place.LINE_END, "the other places are Python's"
        return at_end or moment.following & self.tracked[labels.intern(LINE_TERMINATORS)] != 0

    def look(self, moment: Moment, index: AstId, node: Look) -> tuple[Obligations, ...]:
        """Under which obligations a lookaround holds."""
        if node.ahead:
            return (frozenset([(node.negated, index, self.initial[index])]),)
        threads = moment.behinds[self.behind_places[index]]
        ended = [obligations for obligations, (_, ends) in self.closure(moment, index, threads).items() if ends]
        return self.negation(ended) if node.negated else _minimal(set(ended))

    def negation(self, alternatives: list[Obligations]) -> tuple[Obligations, ...]:
        """Not any of the alternatives: of each, one obligation is broken."""
        found: set[Obligations] = {_NONE}
        for obligations in alternatives:
            broken = [(not negated, index, threads) for negated, index, threads in obligations]
            self.budget.spend((len(found) * len(broken)) ** 2 // 8)
            found = set(_minimal({chosen | {one} for chosen in found for one in broken}))
            self.budget.check_states(len(found), _WEIGHT)
        return tuple(found)

    def step(self, moment: Moment, symbol: int, index: AstId, threads: ThreadsId) -> ThreadsId:
        """The state of a program after a character of a class."""
        if threads == _MATCHED:
            return _MATCHED
        key = (symbol, index, threads)
        found = moment.stepped.get(key)
        if found is None:
            found = moment.stepped[key] = self.step_threads(moment, symbol, index, threads)
        return found

    def step_threads(self, moment: Moment, symbol: int, index: AstId, threads: ThreadsId) -> ThreadsId:
        """As `step`, not remembered."""
        complete = self.programs[index].complete
        mask = self.class_masks[symbol]
        self.budget.spend(2)
        after: dict[Obligations, int] = {}
        for obligations, (following, _) in self.closure(moment, index, threads).items():
            positions = following & mask
            if not positions:
                continue
            left = self.step_obligations(moment, symbol, obligations) if obligations else _NONE
            if left is None:
                continue
            if not left and positions & complete:
                return _MATCHED
            after[left] = after.get(left, 0) | positions
        return self.intern(after) if after else _FAILED

    def step_obligations(self, moment: Moment, symbol: int, obligations: Obligations) -> Obligations | None:
        """The obligations that remain after a character; None where one of them has failed."""
        left: list[Obligation] = []
        for negated, index, threads in obligations:
            following = self.step(moment, symbol, index, threads)
            if following in (_FAILED, _MATCHED):
                if (following == _MATCHED) == negated:
                    return None
            else:
                left.append((negated, index, following))
        return frozenset(left)

    def ends(self, moment: Moment, index: AstId, threads: ThreadsId) -> bool:
        """Whether a program accepts, the text being over."""
        return any(
            ends and all(self.ends(moment, other, state) != negated for negated, other, state in obligations)
            for obligations, (_, ends) in self.closure(moment, index, threads).items()
        )


def _minimal(alternatives: set[Obligations]) -> tuple[Obligations, ...]:
    """The alternatives that ask for no more than another one does."""
    return tuple(one for one in alternatives if not any(other < one for other in alternatives))
