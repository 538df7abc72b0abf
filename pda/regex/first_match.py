"""Leftmost-first semantics: the texts of a regular expression that `re.match` finds whole, as nodes of a grammar or as an automaton.

Of several matches that begin at one place, backtracking engines such as Python's `re` find the first in the order of their attempts:
earlier alternatives before later ones, more repetitions before fewer, or fewer before more where the quantifier is lazy. Rust's regex crate
calls this leftmost-first.
A text is *preferred* if this first match, with no other text around, is all of the text. So `".*?"` generates "a" in quotes and not
`"a"b"`, and `a|ab` generates only a, as in lark, which matches terminals with `re`.

The preferred texts are found in the cheapest way that is open:

    all texts are preferred where each is read in one way only and no quantifier is lazy: the tree becomes nodes as it stands. The condition
    is that of Brueggemann-Klein, "Regular expressions into finite automata" (1993): the next character alone says which part of the
    expression it belongs to
    a list of words loses those of which an earlier word is the beginning: words.py; many are a choice
    such a tree behind negative lookaheads loses the texts that they rule out: lookaround.py
    all texts are preferred where no text is the beginning of another, which the position automaton shows: to_nfa.py
    else the automaton is made of lists of threads, the preferred one first

Lists of threads (Cox, "Regular Expression Matching: the Virtual Machine Approach", 2009):

    a thread is a state of an NFA; a match drops all threads after it, and a text is preferred if after it the first match is a thread's
    an assertion about the character before or after is decided when the next character is known
    a lookahead starts an obligation: threads of its own NFA that the thread carries along, which have to match, or must not
    a match with open obligations stays in the list until they are settled
    a lookbehind is tracked from the start of the text: threads of its NFA that start anew at every place

An assertion sees this text alone. One that would need other text around it, as in `a(?=b)` or `(?<=a)b`, is refused; a negative one such as
`a(?!b)` is taken to hold at the edges.
Lookarounds inside each other are supported where the inner one asks for one character.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ..automata import dfa
from ..automata.char_classes import Labels
from ..automata.charset import CharSet, contains, intersection, pairs, size, union
from ..automata.dfa import Dfa
from ..automata.nfa import bits
from ..budget import Budget
from ..choice import choice_node, words_node
from ..exceptions import LimitError, RegexError
from ..grammar import UTF8, GrammarBuilder, NodeId
from .analysis import one_character
from .ast import Alt, Anchor, Ast, AstId, Boundary, Chars, Look, Place, Repeat, Seq, Text
from .branches import Branch
from .lookaround import lookaround_dfa
from .to_grammar import emit, held
from .to_nfa import MAX_POSITIONS, branches_dfa, count_positions, small_dfa
from .words import plain_words, word_list, words_dfa

MANY_WORDS: Final = 32
"""More words than this are no pattern but a choice."""


def preferred_node(builder: GrammarBuilder, ast: Ast, budget: Budget) -> NodeId:
    """A node for the preferred texts of a tree, NEVER if there are none."""
    words = plain_words(ast)
    if words is not None and len(words) > MANY_WORDS:
        budget.spend(sum(map(len, words)))
        return choice_node(builder, sorted([word.encode() for word in words]), budget)
    listed = word_list(ast, ast.root)
    if listed is not None and len(listed) > MANY_WORDS:
        return words_node(builder, listed, budget, prefix_free=True)
    if is_deterministic(ast, budget):
        return emit(builder, ast, _all_of(ast), search=False, encoding=UTF8, budget=budget)
    automaton = preferred_dfa(ast, budget)
    return builder.never() if automaton == dfa.NOTHING else builder.automaton(automaton.transitions, automaton.accepting)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Of a part: whether it generates the empty text, the first characters, and those that may extend a text of it; None if unclear."""

    empty: bool
    first: CharSet
    more: CharSet


def is_deterministic(ast: Ast, budget: Budget) -> bool:
    """Whether each text is read in one way, and the longest match is preferred.

    >>> from stackmask.pda.regex.parser import parse_python as parse
    >>> [is_deterministic(parse(pattern, Budget()), Budget()) for pattern in ("[a-z]+", "a|b*c", "a*a", "a|ab", "a+?", "a$")]
    [True, True, False, False, False, False]
    """
    return _shape(ast, (ast.root,), budget) is not None


def _shape(ast: Ast, roots: Sequence[AstId], budget: Budget) -> _Shape | None:
    """The shape of a sequence of parts; None where not each text of each part in them is read in one way."""
    shapes: dict[int, _Shape] = {}
    for index in held(ast.nodes, list(roots)):
        match ast.nodes[index]:
            case Chars(chars):
                shape: _Shape | None = _Shape(False, chars, ())
            case Text(text):
                shape = _Shape(False, (ord(text[0]), ord(text[0])), ())
            case Seq(parts):
                shape = _sequence([shapes[part] for part in parts], budget)
            case Alt(parts):
                shape = _alternatives([shapes[part] for part in parts])
            case Repeat(_, _, _, True):
                shape = None
            case Repeat(body, minimum, maximum):
                # (x{0,2}){3,4} is x{0,8}: rounds may be empty, so those before the last are as long as they can be.
                while isinstance(inner := ast.nodes[body], Repeat) and not inner.minimum and not inner.lazy and maximum:
                    body, minimum, maximum = inner.body, 0, -1 if maximum < 0 or inner.maximum < 0 else inner.maximum * maximum
                shape = _repetition(shapes[body], minimum, maximum)
            case _:
                shape = None
        if shape is None:
            return None
        shapes[index] = shape
    return _sequence([shapes[root] for root in roots], budget)


def _sequence(parts: list[_Shape], budget: Budget) -> _Shape | None:
    result = _Shape(True, (), ())
    for part in parts:
        budget.spend(2 + (len(result.more) + len(part.first)) // 4)
        if intersection(result.more, part.first) or (result.empty and intersection(result.first, part.first)):
            return None
        more = union(part.more, result.more, part.first) if part.empty else part.more
        first = union(result.first, part.first) if result.empty else result.first
        result = _Shape(result.empty and part.empty, first, more)
    return result


def _alternatives(parts: list[_Shape]) -> _Shape | None:
    first = union(*(part.first for part in parts))
    # The empty text is preferred to every later branch.
    if size(first) < sum(size(part.first) for part in parts) or any(part.empty for part in parts[:-1]):
        return None
    return _Shape(parts[-1].empty, first, union(*(part.more for part in parts)))


def _repetition(body: _Shape, minimum: int, maximum: int) -> _Shape | None:
    if maximum == 0:
        return _Shape(True, (), ())
    if maximum == 1:
        return _Shape(body.empty or minimum == 0, body.first, body.more)
    if body.empty or intersection(body.more, body.first):
        return None
    return _Shape(minimum == 0, body.first, body.more if minimum == maximum else union(body.more, body.first))


def whole_dfa(ast: Ast, budget: Budget) -> Dfa:
    """The canonical automaton of all texts that match as a whole, preferred or not.

    >>> from stackmask.pda.regex.parser import parse_python as parse
    >>> whole_dfa(parse("a|ab", Budget()), Budget()) == dfa.from_strings(["a", "ab"])
    True
    """
    words = word_list(ast, ast.root)
    if words is not None:
        return words_dfa(words, budget)
    if not ast.assertions and count_positions(ast)[ast.root] <= MAX_POSITIONS:
        return branches_dfa(ast, _all_of(ast), search=False, budget=budget)
    return _Threads(_Nfa(ast, budget), budget, preferring=False).dfa()


def preferred_dfa(ast: Ast, budget: Budget) -> Dfa:
    """The canonical automaton of the preferred texts of a tree.

    >>> from stackmask.pda.regex.parser import parse_python as parse
    >>> preferred_dfa(parse("a|ab", Budget()), Budget()) == dfa.from_string("a")
    True
    """
    words = word_list(ast, ast.root)
    if words is not None:
        return words_dfa(words, budget, first_match=True)
    if not ast.assertions:
        # Where no text that matches is the beginning of another, each is the only match of itself.
        whole = small_dfa(ast, _all_of(ast), budget)
        if whole is not None and not any(accepts and row for accepts, row in zip(whole.accepting, whole.transitions, strict=True)):
            return whole
    elif _is_ruled_out_ahead(ast, budget):
        whole = lookaround_dfa(ast, search=False, budget=budget)
        if whole is not None:
            return whole
    return _Threads(_Nfa(ast, budget), budget).dfa()


def _is_ruled_out_ahead(ast: Ast, budget: Budget) -> bool:
    """Whether a pattern is negative lookaheads, as keywords that a name must not be, and behind them what is read in one way.

    The lookaheads rule out some of the texts, and each of the others is its only match.
    """
    root = ast.nodes[ast.root]
    parts = root.parts if isinstance(root, Seq) else ()
    begin = 0
    while begin < len(parts) and isinstance(look := ast.nodes[parts[begin]], Look) and look.ahead and look.negated:
        begin += 1
    return begin > 0 and _shape(ast, parts[begin:], budget) is not None


def _all_of(ast: Ast) -> list[Branch]:
    """A pattern without assertions as its own only branch."""
    return [Branch((ast.root,), False, False)]


class _Test(NamedTuple):
    """An assertion about the characters before and after: holds where its value for these two is true."""

    kind: str
    chars: CharSet = ()
    negated: bool = False


class _Lookaround(NamedTuple):
    """An assertion that takes an NFA: its start, how it is meant, and its states if it looks behind and has to match."""

    start: int
    behind: bool
    negated: bool
    states: frozenset[int] = frozenset()


class _Nfa:
    """States of the expression and of its lookarounds; each is a choice, reads a character, asks something, or matches."""

    def __init__(self, ast: Ast, budget: Budget) -> None:
        self.nodes = ast.nodes
        self.budget = budget
        self.choices: list[list[int]] = []
        self.reads: dict[int, tuple[CharSet, int]] = {}
        self.tests: dict[int, tuple[_Test, int]] = {}
        self.looks: dict[int, tuple[int, int]] = {}
        self.lookarounds: list[_Lookaround] = []
        self.matching: set[int] = set()
        # Loops by the state where a turn begins: the body, what comes after the loop, and which of the two is preferred.
        self.loops: dict[int, tuple[int, int, bool]] = {}
        # By the state where a turn ends: the loop.
        self.turns: dict[int, int] = {}
        self.start = self.build(ast.root, nested=False)

    def state(self) -> int:
        """A new state."""
        self.choices.append([])
        if not len(self.choices) & 0xFF:
            self.budget.check_positions(len(self.choices))
            self.budget.spend(0x200)
        return len(self.choices) - 1

    def build(self, root: AstId, nested: bool) -> int:
        """The states of a tree, or of a lookaround's body; gives the first."""
        start, end = self.state(), self.state()
        self.matching.add(end)
        todo = [(root, start, end)]
        while todo:
            index, entry, leave = todo.pop()
            match self.nodes[index]:
                case Chars(chars):
                    self.reads[entry] = (chars, leave)
                case Text(text):
                    for character in text[:-1]:
                        following = self.state()
                        self.reads[entry] = ((ord(character), ord(character)), following)
                        entry = following
                    self.reads[entry] = ((ord(text[-1]), ord(text[-1])), leave)
                case Seq(parts):
                    stops = [entry, *(self.state() for _ in parts[1:]), leave]
                    todo += [(part, stops[place], stops[place + 1]) for place, part in enumerate(parts)]
                    if not parts:
                        self.choices[entry].append(leave)
                case Alt(parts):
                    for part in parts:
                        first = self.state()
                        self.choices[entry].append(first)
                        todo.append((part, first, leave))
                case Repeat() as repetition:
                    todo += self.repetition(repetition, entry, leave)
                case Anchor(Place.LAST_LINE_END):
                    self.last_line_end(entry, leave, nested)
                case Anchor(place):
                    self.tests[entry] = (_Test(place.name, (10, 10)), leave)
                case Boundary(chars, negated):
                    self.tests[entry] = (_Test("BOUNDARY", chars, negated), leave)
                case Look() as look:
                    self.look(look, entry, leave, nested)
        return start

    def silent(self, state: int) -> Sequence[int]:
        """The states that a state leads to without reading a character, whether or not its assertion holds."""
        if state in self.tests or state in self.looks:
            return ((self.tests.get(state) or self.looks[state])[1],)
        if state in self.loops:
            return self.loops[state][:2]
        if state in self.turns:
            return (self.turns[state], self.loops[self.turns[state]][1])
        return self.choices[state]

    def repetition(self, repetition: Repeat, entry: int, leave: int) -> Iterator[tuple[AstId, int, int]]:
        """The copies of a repetition's body: those that must be, then a loop or those that may be."""
        body, minimum, maximum, lazy = repetition
        for _ in range(minimum):
            following = self.state()
            yield body, entry, following
            entry = following
        if maximum < 0:
            inside, after = self.state(), self.state()
            self.loops[entry] = (inside, leave, lazy)
            self.turns[after] = entry
            yield body, inside, after
            return
        for _ in range(maximum - minimum):
            inside, following = self.state(), self.state()
            self.choices[entry] += [leave, inside] if lazy else [inside, leave]
            yield body, inside, following
            entry = following
        self.choices[entry].append(leave)

    def last_line_end(self, entry: int, leave: int, nested: bool) -> None:
        """`$`: the end, or before a newline at the end. At the end of a lookahead the newline can be read, since nothing comes after."""
        end, newline, after = self.state(), self.state(), self.state()
        self.choices[entry] += [end, newline]
        self.tests[end] = (_Test("END"), leave)
        self.reads[newline] = ((10, 10), after)
        if not nested:
            start, match = self.state(), self.state()
            self.reads[start] = ((10, 10), after)
            self.tests[after] = (_Test("END"), match)
            self.matching.add(match)
            self.lookarounds.append(_Lookaround(start, behind=False, negated=False))
            del self.reads[newline]
            self.looks[newline] = (len(self.lookarounds) - 1, leave)
        elif leave in self.matching:
            self.tests[after] = (_Test("END"), leave)
        else:
            raise RegexError("`$` inside a lookaround is supported at its end; write \\Z")

    def look(self, look: Look, entry: int, leave: int, nested: bool) -> None:
        """A lookaround: a test if it asks for one character, otherwise a separate NFA."""
        behind, negated = not look.ahead, look.negated
        chars = one_character(self.nodes[look.body])
        if chars is not None:
            self.tests[entry] = (_Test("BEFORE" if behind else "AFTER", chars, negated), leave)
        elif nested:
            raise RegexError("a lookaround inside another is supported where it asks for one character")
        else:
            number = len(self.lookarounds)
            self.lookarounds.append(_Lookaround(-1, behind, negated))
            start = self.build(look.body, nested=True)
            states = frozenset(range(start, len(self.choices))) if behind and not negated else frozenset()
            self.lookarounds[number] = _Lookaround(start, behind, negated, states)
            self.looks[entry] = (number, leave)


# Loops in each other of which a turn begins at one place; sets of them are kept for each state, so their number is bounded.
MAX_TURNING: Final = 100

END: Final = -1
MATCHED: Final = -1
START: Final = -1

Obligations: TypeAlias = frozenset[tuple[int, frozenset[int]]]
"""Lookaheads under way: the number of each, and the states of its threads."""

Thread: TypeAlias = tuple[int, Obligations]
"""A state of the expression's NFA, or MATCHED, with what else has to hold."""

Tracker: TypeAlias = tuple[frozenset[int], frozenset[int]]
"""The threads of a lookbehind, and those that it would have, were the right text to stand before this one."""

Step: TypeAlias = tuple[int, frozenset[int], frozenset[int]]
"""A state, the lookaheads passed, and the loops of which a turn began at this place: a turn that is empty ends the loop."""

Moment: TypeAlias = tuple[int, tuple[Thread, ...], tuple[Tracker, ...]]
"""A state of the automaton: what counts of the character before, the threads, and the lookbehinds."""

_NO_OBLIGATIONS: Final[Obligations] = frozenset()
# Among the lookaheads that a thread has passed: it needs some other text around this one.
_BEYOND: Final = -1


class _Threads:
    """The automaton of an NFA under construction, over classes of characters that no set tells apart."""

    def __init__(self, nfa: _Nfa, budget: Budget, *, preferring: bool = True) -> None:
        self.nfa = nfa
        self.budget = budget
        self.preferring = preferring
        tests = [test for test, _ in nfa.tests.values()]
        sets = [chars for chars, _ in nfa.reads.values()] + [test.chars for test in tests if test.chars] + [(10, 10)]
        labels = Labels()
        distinct = tuple(dict.fromkeys(map(labels.intern, sets)))
        self.classes = [labels.sets[members] for members, _ in labels.partition(distinct)]
        self.members = {chars: self.mask(chars) for chars in {*sets, ()}}
        self.behind = [number for number, look in enumerate(nfa.lookarounds) if look.behind]
        # The character before, as far as it is known: the places of its class in these sets, START for none.
        before = {test.chars for test in tests if test.kind in ("BEFORE", "BOUNDARY", "LINE_START")}
        self.looks_back = bool(before) or any(test.kind == "START" for test in tests)
        self.before = sorted(before)
        # Whether some match would need text before or after this one, which a terminal's own text cannot show.
        self.beyond = False
        self.reading: dict[int, int] = {MATCHED: 0}
        self.advanced: dict[tuple[int, frozenset[int], int, int], tuple[bool, frozenset[int]]] = {}

    def mask(self, chars: CharSet) -> int:
        """The classes inside a set, as bits."""
        return sum(1 << number for number, members in enumerate(self.classes) if contains(chars, members[0]))

    def signature(self, number: int) -> int:
        """The facts about a class as the character before."""
        return sum(1 << place for place, chars in enumerate(self.before) if self.members[chars] >> number & 1)

    def readable(self, thread: int) -> int:
        """The classes that a thread may read next, whatever its assertions say, as bits."""
        found = self.reading.get(thread)
        if found is None:
            nfa = self.nfa
            found = 0
            seen = {thread}
            todo = [thread]
            for state in todo:
                if state in nfa.reads:
                    found |= self.members[nfa.reads[state][0]]
                    continue
                for target in nfa.silent(state):
                    if target not in seen:
                        seen.add(target)
                        todo.append(target)
            self.budget.spend(len(todo))
            self.reading[thread] = found
        return found

    def holds(self, test: _Test, before: int, after: int) -> bool:
        """Whether an assertion holds between two characters: a signature or START, and a class or END."""
        match test.kind:
            case "START":
                return before == START
            case "END":
                return after == END
            case "LINE_START":
                return before == START or self.was_in(before, (10, 10))
            case "LINE_END":
                return after == END or self.is_in(after, (10, 10))
            case "BEFORE":
                return self.was_in(before, test.chars) != test.negated
            case "AFTER":
                return self.is_in(after, test.chars) != test.negated
        return (self.was_in(before, test.chars) != self.is_in(after, test.chars)) != test.negated

    def was_in(self, before: int, chars: CharSet) -> bool:
        """Whether the character before is in a set."""
        return before != START and before >> self.before.index(chars) & 1 == 1

    def is_in(self, after: int, chars: CharSet) -> bool:
        """Whether the character after is in a set."""
        return after != END and self.members[chars] >> after & 1 == 1

    def could_hold(self, test: _Test, before: int, after: int) -> bool:
        """Whether an assertion that fails at the start or end of the text could hold there in some other text."""
        if test.kind == "BOUNDARY":
            return before == START or after == END
        return not test.negated and ((test.kind == "BEFORE" and before == START) or (test.kind == "AFTER" and after == END))

    def closure(
        self, state: int, before: int, after: int, behind: Mapping[int, bool | None], seen: set[Step]
    ) -> Iterator[tuple[int, frozenset[int]]]:
        """The results of a thread in order of preference: MATCHED or the state after the next character, and the lookaheads it passed.

        `behind` says which lookbehinds hold, None for those that would with other text before this one.
        `seen` are the steps of threads before this one, from which nothing new comes.
        """
        nfa = self.nfa
        stack: list[Step] = [(state, frozenset(), frozenset())]
        while stack:
            step = stack.pop()
            if step in seen:
                continue
            seen.add(step)
            self.budget.spend(3)  # a third of a microsecond each, so that what explodes is refused in time
            state, passed, turning = step
            if len(turning) > MAX_TURNING or not len(seen) & 0xFFF:
                self.check(len(seen), len(turning))
            if state in nfa.matching:
                yield MATCHED, passed
            elif state in nfa.reads:
                chars, target = nfa.reads[state]
                if self.is_in(after, chars):
                    yield target, passed
            elif state in nfa.tests:
                test, target = nfa.tests[state]
                if self.holds(test, before, after):
                    stack.append((target, passed, turning))
                elif self.could_hold(test, before, after):
                    stack.append((target, passed | {_BEYOND}, turning))
            elif state in nfa.looks:
                number, target = nfa.looks[state]
                if number not in behind:
                    stack.append((target, passed | {number}, turning))
                elif behind[number] is None:
                    stack.append((target, passed | {_BEYOND}, turning))
                elif behind[number] != nfa.lookarounds[number].negated:
                    stack.append((target, passed, turning))
            elif state in nfa.loops:
                inside, leave, lazy = nfa.loops[state]
                ways = [(inside, passed, turning | {state}), (leave, passed, turning - {state})]
                stack += ways if lazy else reversed(ways)
            elif state in nfa.turns:
                loop = nfa.turns[state]
                stack.append((nfa.loops[loop][1], passed, turning - {loop}))
                if loop not in turning:
                    stack.append((loop, passed, turning))
            else:
                stack += [(target, passed, turning) for target in reversed(nfa.choices[state])]

    def check(self, places: int, turning: int) -> None:
        """Raise where following the threads of one place takes too much."""
        self.budget.check_positions(places)
        if turning > MAX_TURNING:
            raise LimitError(f"more than {MAX_TURNING} loops are nested that may all be empty", limit="nesting", value=MAX_TURNING)

    def advance(self, number: int, threads: frozenset[int], before: int, after: int) -> tuple[bool, frozenset[int]]:
        """The threads of a lookaround past a character, and whether one of them matched before it."""
        key = (number, threads, before, after)
        found = self.advanced.get(key)
        if found is None:
            seen: set[Step] = set()
            reached = {
                target for thread in threads for target, passed in self.closure(thread, before, after, {}, seen) if _BEYOND not in passed
            }
            found = self.advanced[key] = (MATCHED in reached, frozenset(reached - {MATCHED}))
        return found

    def settle(self, obligations: Obligations, before: int, after: int) -> Obligations | None:
        """The obligations that are still open past a character; None where one failed."""
        still = []
        for number, threads in obligations:
            negated = self.nfa.lookarounds[number].negated
            matched, following = self.advance(number, threads, before, after)
            if matched or not following:
                if matched == negated:
                    self.beyond = self.beyond or (after == END and not negated)
                    return None
            else:
                still.append((number, following))
        return frozenset(still)

    def started(self, passed: frozenset[int]) -> Obligations:
        """The obligations of lookaheads that a thread has passed."""
        return frozenset((number, frozenset({self.nfa.lookarounds[number].start})) for number in passed)

    def look_behind(self, moment: Moment, after: int) -> dict[int, bool | None]:
        """Which lookbehinds hold here; None for those that would with other text before this one."""
        before, _, trackers = moment
        found: dict[int, bool | None] = {}
        for number, (threads, imagined) in zip(self.behind, trackers, strict=True):
            holds = self.advance(number, threads, before, after)[0]
            found[number] = None if not holds and self.advance(number, imagined, before, after)[0] else holds
        return found

    def outcomes(self, moment: Moment, after: int) -> Iterator[tuple[int, Obligations]]:
        """The results of the threads in order of preference; a match without obligations is the last."""
        before, threads, _ = moment
        behind = self.look_behind(moment, after)
        seen: defaultdict[Obligations, set[Step]] = defaultdict(set)
        for state, obligations in threads:
            settled = self.settle(obligations, before, after)
            if settled is None:
                continue
            if state == MATCHED:
                yield MATCHED, settled
                if not settled:
                    return
                continue
            for target, passed in self.closure(state, before, after, behind, seen[settled]):
                if _BEYOND in passed:
                    self.beyond = True
                    continue
                added = self.settle(self.started(passed), before, after)
                if added is not None:
                    yield target, settled | added
                    if target == MATCHED and self.preferring and not settled | added:
                        return

    def accepts(self, moment: Moment) -> bool:
        """Whether the first match, if the text ends here, ends here."""
        before, threads, _ = moment
        behind = self.look_behind(moment, END)
        seen: defaultdict[Obligations, set[Step]] = defaultdict(set)
        for state, obligations in threads:
            if state == MATCHED:
                if self.settle(obligations, before, END) is not None:
                    return False
                continue
            for _, passed in self.closure(state, before, END, behind, seen[obligations]):
                if _BEYOND in passed:
                    self.beyond = True
                elif self.settle(obligations | self.started(passed), before, END) is not None:
                    return True
        return False

    def step(self, moment: Moment, after: int) -> Moment | None:
        """The state past a character; None where no thread is left."""
        threads = list(dict.fromkeys(self.outcomes(moment, after)))
        if not self.preferring:
            threads = sorted({thread for thread in threads if thread[0] != MATCHED}, key=hash)
        if threads and threads[-1] == (MATCHED, _NO_OBLIGATIONS):
            threads.pop()
        # A match after which no thread follows can only be the second best.
        while threads and threads[-1][0] == MATCHED:
            threads.pop()
        if not threads:
            return None
        before, _, trackers = moment
        following = []
        for number, (behind, imagined) in zip(self.behind, trackers, strict=True):
            start = self.nfa.lookarounds[number].start
            following.append((self.advance(number, behind, before, after)[1] | {start}, self.advance(number, imagined, before, after)[1]))
        return self.signature(after) if self.looks_back else START, tuple(threads), tuple(following)

    def dfa(self) -> Dfa:
        """The automaton. The work of a state counts as soon as it is found, so what explodes is refused early."""
        looks = [self.nfa.lookarounds[number] for number in self.behind]
        starts = tuple((frozenset({look.start}), look.states) for look in looks)
        first: Moment = (START, ((self.nfa.start, _NO_OBLIGATIONS),), starts)
        numbers = {first: 0}
        todo: list[tuple[Moment, list[int]]] = []

        def add(moment: Moment) -> None:
            readable = 0
            for thread, _ in moment[1]:
                readable |= self.readable(thread)
            classes = list(bits(readable))
            self.budget.spend((12 + 6 * len(moment[1])) * len(classes))
            todo.append((moment, classes))

        rows: list[tuple[tuple[int, int, int], ...]] = []
        with self.budget.part("one automaton"):
            add(first)
            for moment, classes in todo:
                self.budget.check_states(len(numbers))
                row = []
                for number in classes:
                    following = self.step(moment, number)
                    if following is None:
                        continue
                    target = numbers.get(following)
                    if target is None:
                        target = numbers[following] = len(numbers)
                        add(following)
                    row += [(low, high, target) for low, high in pairs(self.classes[number])]
                rows.append(tuple(sorted(row)))
        accepting = tuple([self.accepts(moment) for moment, _ in todo])
        if self.beyond:
            raise RegexError("an assertion asks for text outside of this terminal; put that text into the terminal")
        return dfa.minimize(Dfa(tuple(rows), accepting), budget=self.budget)
