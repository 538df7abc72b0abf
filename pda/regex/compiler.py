r"""Regular expressions: from a pattern to an automaton or to nodes of a grammar.

    parse          the syntax tree                                       parser.py, char_class.py, ast.py
    regex_dfa      the canonical automaton of all texts that match       to_nfa.py, lookaround.py, assertions.py
    regex_node     a node of a grammar under construction                to_grammar.py, or the automaton
    regex_grammar  a grammar of its own

Two semantics: a *whole* match covers all of the text (a request's regex); a *search* finds a match anywhere in it (JSON Schema `pattern`).
The syntax and its decisions are described in parser.py and char_class.py.
What is no regular language (back-references, recursion) raises RegexError.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from typing import Final

from ..automata.dfa import NOTHING, Dfa, intersection
from ..automata.language import length_bounds
from ..budget import Budget
from ..exceptions import LimitError, RegexError, UnsatisfiableError, caret
from ..grammar import NEVER, UTF8, Grammar, GrammarBuilder, NodeId
from ..limits import Limits
from .assertions import AlternatingAutomaton
from .ast import Anchor, Ast, Boundary, Look, Repeat, Seq
from .branches import Branch, outer_branches
from .length_ahead import counted_node, split_length
from .lookaround import lookaround_dfa
from .parser import parse
from .to_grammar import emit
from .to_nfa import branches_dfa, check_atoms, small_dfa

__all__ = ["Ast", "parse", "regex_dfa", "regex_grammar", "regex_node"]

# A pattern that stands alone is determinised while this is cheap; beyond it the kernel, which only follows the text, is faster.
# It also counts large repetitions without a state for each count.
_MODEST_COUNT: Final = 32
# Steps of work that an error may take to find the assertion that is to blame, and among how many.
_BLAME_WORK: Final = 300_000
_MOST_BLAMED: Final = 20


def regex_dfa(pattern: str, *, search: bool, limits: Limits | None = None, budget: Budget | None = None) -> Dfa:
    """The canonical automaton of all texts that match, as a whole or with `search` somewhere in the text.

    A budget bounds the rest of the enclosing compilation, and brings its own limits.

    >>> regex_dfa("^a+$|b", search=False)
    <Dfa of 3 states, 3 transitions>
    """
    budget = budget or Budget(limits)
    ast = parse(pattern, limits=budget.limits)
    check_atoms(ast, budget)
    return _automaton(ast, outer_branches(ast, search=search), search, budget)


def _automaton(ast: Ast, branches: list[Branch] | None, search: bool, budget: Budget) -> Dfa:
    if branches is None:
        found = lookaround_dfa(ast, search=search, budget=budget)
        return AlternatingAutomaton(ast, search=search, budget=budget).dfa() if found is None else found
    return branches_dfa(ast, branches, search=search, budget=budget)


def regex_node(
    builder: GrammarBuilder,
    pattern: str,
    *,
    search: bool,
    encoding: int = UTF8,
    limits: Limits | None = None,
    budget: Budget | None = None,
) -> NodeId:
    """A node for all texts that match, NEVER where no text does.

    Patterns whose only assertions are anchors at the ends become nodes piece by piece; others become an AUTOMATON.
    """
    budget = budget or Budget(limits)
    ast = parse(pattern, limits=budget.limits)
    if ast.atoms:
        check_atoms(ast, budget)
    branches = outer_branches(ast, search=search)
    if branches is not None:
        return emit(builder, ast, branches, search=search, encoding=encoding, budget=budget)
    return _automaton_node(builder, _automaton(ast, branches, search, budget), encoding)


def _automaton_node(builder: GrammarBuilder, automaton: Dfa, encoding: int) -> NodeId:
    return builder.never() if automaton == NOTHING else builder.automaton(automaton.transitions, automaton.accepting, encoding)


def regex_grammar(pattern: str, *, limits: Limits | None = None) -> Grammar:
    r"""A grammar of all texts that match as a whole, in UTF-8.

    A pattern that comes with a request holds a NUL character only by mistake, so here it is refused; `\0` asks for one.
    In a JSON Schema, where `\u0000` spells it, it is an ordinary character.

    >>> regex_grammar("[ab]{2}").nodes
    ((10, (((97, 98, 1),), ((97, 98, 2),), ()), (False, False, True), 1),)
    """
    budget = Budget(limits)
    ast = parse(pattern, limits=budget.limits)
    if "\0" in pattern:
        raise RegexError(r"the pattern contains a NUL character; write \0", pattern, pattern.index("\0"))
    check_atoms(ast, budget)
    branches = outer_branches(ast, search=False)
    builder = GrammarBuilder()
    root = builder.rule("root")
    if branches is None:
        node = _counted(builder, pattern, budget)
        if node is None:
            node = _automaton_node(builder, _automaton(ast, branches, False, budget), UTF8)
    else:
        modest = _modest_automaton(ast, branches, budget)
        node = (
            emit(builder, ast, branches, search=False, encoding=UTF8, budget=budget)
            if modest is None
            else _automaton_node(builder, modest, UTF8)
        )
    if builder.nodes[node] == (NEVER,):
        raise no_text(ast, budget.limits)
    builder.define(root, node)
    return builder.build(root)


def _counted(builder: GrammarBuilder, pattern: str, budget: Budget) -> NodeId | None:
    """The texts that match a pattern as a whole, counted where a lookahead asks for their length; None where none does."""
    split = split_length(pattern, search=False, limits=budget.limits)
    if split is None:
        return None
    automaton = reduce(partial(intersection, budget=budget), (regex_dfa(part, search=False, budget=budget) for part in split.patterns))
    return counted_node(builder, automaton, length_bounds(automaton), split.minimum, split.maximum, UTF8)


def no_text(ast: Ast, limits: Limits) -> UnsatisfiableError:
    """The error for a pattern that no text matches as a whole: which assertion is to blame, or which class has no character.

    An assertion is to blame if the pattern matches something without it; where only several together are, it is the last of the fewest
    first ones that have to go.
    """
    position = ast.blank if ast.blank >= 0 else _blamed(ast, limits)
    reason = "this class has no character" if ast.blank >= 0 else "this assertion never holds where it stands"
    return UnsatisfiableError(f"this pattern matches no text: {reason}\n{caret(ast.pattern, position)}")


def _blamed(ast: Ast, limits: Limits) -> int:
    """The position of the assertion that is to blame, of the first one where that is too much work to find out."""
    budget = Budget(replace(limits, compile_work=min(limits.compile_work, _BLAME_WORK)))
    places = ast.places if len(ast.places) <= _MOST_BLAMED else ()
    try:
        for together in (False, True):
            nodes = list(ast.nodes)
            for place, position in places:
                if not together:
                    nodes = list(ast.nodes)
                nodes[place] = Seq(())
                count = sum(isinstance(node, Anchor | Boundary | Look) for node in nodes)
                rest = replace(ast, nodes=tuple(nodes), assertions=count)
                if _automaton(rest, outer_branches(rest, search=False), False, budget) != NOTHING:
                    return position
    except LimitError:
        pass
    return ast.places[0][1] if ast.places else 0


def _modest_automaton(ast: Ast, branches: list[Branch], budget: Budget) -> Dfa | None:
    """The automaton of a pattern without inner assertions, None where it is not small or counts far."""
    counted = max((max(node.minimum, node.maximum) for node in ast.nodes if isinstance(node, Repeat)), default=0)
    return None if counted > _MODEST_COUNT else small_dfa(ast, branches, budget)
