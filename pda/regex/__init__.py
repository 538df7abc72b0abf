"""Regular expressions: from a pattern to an automaton or to nodes of a grammar."""

from stackmask.pda.regex.ast import Ast
from stackmask.pda.regex.compiler import regex_dfa, regex_grammar, regex_node
from stackmask.pda.regex.parser import parse

__all__ = [
    "Ast",
    "parse",
    "regex_dfa",
    "regex_grammar",
    "regex_node",
]
