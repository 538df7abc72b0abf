r"""The texts of a grammar as they stand inside a JSON string.

Escaping replaces one character by a text that depends on nothing else, so that every terminal is rewritten by itself and the rules stay.

>>> from stackmask.pda.lark import lark_grammar
>>> print(escaped(lark_grammar('start: "say" "\\"" start? "\\n"')))
root ::= start
start ::= 'say\\"' start? "\\n"
"""

from __future__ import annotations

import json
from typing import Final

from ...pda.exceptions import StructuralTagError
from ...pda.grammar import AUTOMATON, BYTES, CHARS, DISTINCT, EXCEPT, JSON, LITERAL, UTF8, Grammar, Node

_REFUSED: Final = (
    "a grammar that stands inside a JSON string is one of characters; this one holds bytes, or JSON, which would be escaped twice"
)


def escaped(grammar: Grammar) -> Grammar:
    """The grammar of the texts of `grammar`, escaped; grammars over bytes or over JSON are refused."""
    return Grammar(tuple(map(_escaped, grammar.nodes)), grammar.rules, grammar.names, grammar.root)


def _escaped(node: Node) -> Node:
    """One node; those that refer to others stay as they are."""
    operator = node[0]
    if operator == LITERAL:
        return (LITERAL, json.dumps(node[1].decode("latin-1"), ensure_ascii=False)[1:-1].encode("latin-1"))
    if operator in (CHARS, AUTOMATON, EXCEPT):
        place = 3 if operator == AUTOMATON else 2
        if node[place] == UTF8:
            return (*node[:place], JSON, *node[place + 1 :])
        raise StructuralTagError(_REFUSED)
    if operator in (BYTES, DISTINCT):
        raise StructuralTagError(_REFUSED)
    return node
