r"""The common shape of lookarounds: at the ends of the pattern or of its outermost branches, as in `^(?!foo)(?=.*[0-9])[a-z0-9]+(?<!-)$`.

There the language is a few Boolean operations on automata that are already minimal, which is ten times faster than the general
construction of assertions.py, and as exact.
A branch is  left  before  core  after  right:

    left    what stands to the left of the match: nothing at an anchor or in a whole match, else any text, restricted by the lookbehinds at
            the begin of the match
    right   the mirror image, with the lookaheads at the end of the match
    before  the lookaheads at the begin: they restrict  core right
    after   the lookbehinds at the end: they restrict  left core

A lookahead may hold word boundaries between its parts and behind the last one, as in `(?!(?:if|else)\b)[a-z]+` or `^(?!.*\bspam\b)`: its
texts are those where one part ends with a character of a word and the next one begins with another, or there is none, and those the other
way round.
Lookarounds that hold other assertions than these and an anchor at their far end are left to the general construction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..automata import dfa
from ..automata.dfa import ANYTHING, EPSILON, Dfa
from ..automata.nfa import concatenation
from ..budget import Budget
from .analysis import all_widths
from .ast import END, START, Alt, Anchor, Ast, AstId, Atomic, Boundary, Look, Repeat, Seq
from .branches import Branch, trim_branches
from .to_nfa import branches_dfa


@dataclass(slots=True)
class _Edge:
    """The assertions at one end of a branch."""

    anchored: bool
    ahead: list[Look] = field(default_factory=list)
    behind: list[Look] = field(default_factory=list)


def lookaround_dfa(ast: Ast, *, search: bool, budget: Budget) -> Dfa | None:
    """The canonical automaton of a pattern of the common shape, None for any other."""
    counts = _count_assertions(ast)
    plain: list[Branch] = []
    found: list[Dfa] = []
    reads = [shortest > 0 for shortest, _ in all_widths(ast)]
    for branch in trim_branches(ast.nodes, ast.root)[0]:
        if not any(counts[part] for part in branch.parts):
            plain.append(branch)
            continue
        left = _Edge(branch.starts or not search)
        right = _Edge(branch.ends or not search)
        begin, end = _edges(ast, branch, left, right)
        core = Branch(branch.parts[begin:end], True, True)
        if any(counts[part] for part in core.parts) or (left.ahead and right.behind and not (left.anchored or right.anchored)):
            return None
        looks = (*left.ahead, *left.behind, *right.ahead, *right.behind)
        if not all(_is_simple(ast, counts, reads, look, left.anchored and look in left.ahead) for look in looks):
            return None
        found.append(_branch_dfa(ast, core, left, right, budget))
    if plain:
        found.append(branches_dfa(ast, plain, search=search, budget=budget))
    return dfa.union(*found, budget=budget)


def _count_assertions(ast: Ast) -> list[int]:
    """For every node how many assertions it holds, itself among them."""
    counts: list[int] = []
    for node in ast.nodes:
        match node:
            case Seq(parts) | Alt(parts):
                counts.append(sum([counts[part] for part in parts]))
            case Repeat(body) | Atomic(body):
                counts.append(counts[body])
            case Look(body):
                counts.append(counts[body] + 1)
            case Anchor() | Boundary():
                counts.append(1)
            case _:
                counts.append(0)
    return counts


def _edges(ast: Ast, branch: Branch, left: _Edge, right: _Edge) -> tuple[int, int]:
    """Take the assertions at both ends of a branch; parts[begin:end] remain."""
    begin, end = 0, len(branch.parts)
    while begin < end and _take(ast, branch.parts[begin], left, START):
        begin += 1
    while end > begin and _take(ast, branch.parts[end - 1], right, END):
        end -= 1
    return begin, end


def _take(ast: Ast, part: AstId, edge: _Edge, anchor: Anchor) -> bool:
    node = ast.nodes[part]
    if node == anchor:
        edge.anchored = True
    elif isinstance(node, Look):
        (edge.ahead if node.ahead else edge.behind).append(node)
    else:
        return False
    return True


def _is_simple(ast: Ast, counts: list[int], reads: list[bool], look: Look, anchored: bool) -> bool:
    """Whether a lookaround has no assertions but anchors at the end that it looks to, and word boundaries between its parts.

    Beside a boundary stands a character: of each part, with `anchored` also none at the start of the text, and none at its end.
    """
    branches, taken = trim_branches(ast.nodes, look.body)
    if look.ahead:
        for branch in branches:
            segments, boundaries = _segments(ast, branch)
            if boundaries:
                first, *middle = [any(reads[part] for part in parts) for parts in segments[:-1]]
                last = not segments[-1] or any(reads[part] for part in segments[-1])
                taken += len(boundaries) if (first or anchored) and all(middle) and last else 0
    return taken == counts[look.body] and not any(branch.starts if look.ahead else branch.ends for branch in branches)


def _segments(ast: Ast, branch: Branch) -> tuple[list[tuple[AstId, ...]], list[Boundary]]:
    """The parts of a branch between its boundaries, and these."""
    segments: list[list[AstId]] = [[]]
    boundaries: list[Boundary] = []
    for part in branch.parts:
        node = ast.nodes[part]
        if isinstance(node, Boundary):
            boundaries.append(node)
            segments.append([])
        else:
            segments[-1].append(part)
    return [tuple(segment) for segment in segments], boundaries


def _look_dfa(ast: Ast, look: Look, budget: Budget) -> Dfa:
    """The texts, from here to the end or from the start to here, that a lookaround wants."""
    plain: list[Branch] = []
    members: list[Dfa] = []
    words: dict[Boundary, list[Branch]] = {}  # what stands before a boundary that ends a branch
    for parts, starts, ends in trim_branches(ast.nodes, look.body)[0]:
        branch = Branch(parts, starts or look.ahead, ends or not look.ahead)
        segments, boundaries = _segments(ast, branch)
        if not boundaries:
            plain.append(branch)
        elif len(boundaries) == 1 and not segments[1] and not ends:
            words.setdefault(boundaries[0], []).append(Branch(segments[0], True, True))
        else:
            texts = [branches_dfa(ast, [Branch(segment, True, True)], search=False, budget=budget) for segment in segments]
            members.append(_bounded_dfa(texts, boundaries, ends, budget))
    for boundary, group in words.items():
        members.append(_bounded_dfa([branches_dfa(ast, group, search=False, budget=budget), EPSILON], [boundary], False, budget))
    if plain or not members:
        members.append(branches_dfa(ast, plain, search=True, budget=budget))
    found = dfa.union(*members, budget=budget)
    return dfa.complement(found, budget=budget) if look.negated else found


def _bounded_dfa(segments: list[Dfa], boundaries: list[Boundary], ends: bool, budget: Budget) -> Dfa:
    """The texts of segments with boundaries between them, and with any text behind unless it `ends` there.

    No character, before the first segment or behind the last one, is like a character of no word.
    """
    *before, last = segments
    before.append(last if ends else concatenation(last, ANYTHING, budget=budget))
    found = before[0]
    for boundary, following in zip(boundaries, before[1:], strict=True):
        inside = dfa.from_set(boundary.word)
        word_last = dfa.intersection(found, concatenation(ANYTHING, inside, budget=budget), budget=budget)
        word_first = dfa.intersection(following, concatenation(inside, ANYTHING, budget=budget), budget=budget)
        other_last, other_first = dfa.difference(found, word_last, budget=budget), dfa.difference(following, word_first, budget=budget)
        if boundary.negated:
            word_first, other_first = other_first, word_first
        found = dfa.union(
            concatenation(word_last, other_first, budget=budget), concatenation(other_last, word_first, budget=budget), budget=budget
        )
    return found


def _branch_dfa(ast: Ast, core: Branch, left: _Edge, right: _Edge, budget: Budget) -> Dfa:
    def restricted(automaton: Dfa, looks: list[Look]) -> Dfa:
        return dfa.intersection(automaton, *[_look_dfa(ast, look, budget) for look in looks], budget=budget)

    before = restricted(EPSILON if left.anchored else ANYTHING, left.behind)
    after = restricted(EPSILON if right.anchored else ANYTHING, right.ahead)
    middle = branches_dfa(ast, [core], search=False, budget=budget)
    if left.anchored:
        # The match begins where the text does, or nowhere: `before` is the empty text or nothing, and both restrictions see it all.
        middle = restricted(concatenation(before, middle, budget=budget), right.behind)
        return restricted(concatenation(middle, after, budget=budget), left.ahead)
    middle = restricted(concatenation(middle, after, budget=budget), left.ahead)
    if right.anchored:
        return restricted(concatenation(before, middle, budget=budget), right.behind)
    if not right.behind:
        return concatenation(before, middle, budget=budget)
    middle = branches_dfa(ast, [core], search=False, budget=budget)
    return concatenation(restricted(concatenation(before, middle, budget=budget), right.behind), after, budget=budget)
