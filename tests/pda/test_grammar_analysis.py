"""The questions that are answered on the expressions of a grammar, held against engines, which answer them on automata of their own."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest
from support.engines import BYTES, STOP, Engine, matcher
from support.generators import Features, random_grammar

from stackmask.pda.analysis import leading_to, nullable, productive, reachable
from stackmask.pda.automata.dfa import from_strings
from stackmask.pda.exceptions import GrammarError, UnsatisfiableError
from stackmask.pda.grammar import JSON, GrammarBuilder
from stackmask.pda.operators import CALL, operands
from stackmask.pda.regex import regex_dfa

LONGEST = 6
EVERYTHING_BUT_DISTINCT = Features(counted=True, tokens=True, distinct=False, options=True, left=True)


@pytest.mark.parametrize(("shortest", "longest"), [(s, n) for s in range(4) for n in (*range(s, 4), LONGEST)])
def test_automata_with_bounds(shortest: int, longest: int) -> None:
    """An automaton of all lengths between two, or of all from one on, generates a text if one of those is within the bounds."""
    lengths = range(shortest, longest + 1)
    automaton = from_strings(["a" * n for n in lengths]) if longest < LONGEST else regex_dfa(f"^a{{{shortest},}}$", search=True)
    for low, high in product(range(6), range(-1, 6)):
        if 0 <= high < low:
            continue
        builder = GrammarBuilder()
        node = builder.automaton(automaton.transitions, automaton.accepting, JSON, minimum=low, maximum=high)
        within = [n for n in lengths if low <= n and (high < 0 or n <= high)]
        assert productive(builder.nodes, builder.rules)[0][node] == bool(within), (low, high)
        assert nullable(builder.nodes, builder.rules)[0][node] == (0 in within), (low, high)


def test_productive_and_nullable_are_the_engines(engine: Engine) -> None:
    """A rule is productive if an engine makes a matcher for it, and nullable if that matcher's text is complete at the beginning."""
    verdicts = set()
    for seed in range(300):
        grammar = random_grammar(Random(seed), EVERYTHING_BUT_DISTINCT)
        generates, empty = productive(grammar.nodes, grammar.rules)[1], nullable(grammar.nodes, grammar.rules)[1]
        for rule in range(len(grammar.rules)):
            try:
                start = matcher(engine, replace(grammar, root=rule), BYTES, (STOP,))
            except UnsatisfiableError:
                verdict = (False, False)
            except GrammarError:  # left recursion through a limit, which engines refuse
                continue
            else:
                verdict = (True, start.is_completed())
            assert verdict == (generates[rule], empty[rule]), (seed, rule)
            verdicts.add(verdict)
    assert verdicts == {(False, False), (True, False), (True, True)}


def test_reachable_and_leading_to_are_each_others_converse() -> None:
    """The nodes from which a search comes to a rule are those that lead to it."""
    for seed in range(100):
        grammar = random_grammar(Random(seed), EVERYTHING_BUT_DISTINCT)
        nodes, rules = grammar.nodes, grammar.rules

        def leads(node: int, target: int, nodes: tuple[tuple[object, ...], ...] = nodes, rules: tuple[int, ...] = rules) -> bool:
            """Whether a node comes to a rule, by the definition."""
            seen, pending = {node}, [node]
            for index in pending:
                called = nodes[index][1] if nodes[index][0] == CALL else None
                if called == target:
                    return True
                new = [rules[called]] if isinstance(called, int) else [*operands(nodes[index])]
                pending += set(new) - seen
                seen |= set(new)
            return False

        for target in range(len(rules)):
            leading = leading_to(nodes, rules, [target])
            assert leading == [leads(node, target) for node in range(len(nodes))], seed
            for root in range(len(rules)):
                assert reachable(nodes, rules, root)[1][target] == (root == target or leading[rules[root]]), seed
