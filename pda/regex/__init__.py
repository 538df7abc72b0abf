"""Regular expressions: from a pattern to an automaton or to nodes of a grammar."""

from .ast import Ast
from .compiler import regex_dfa, regex_grammar, regex_node
from .parser import parse

__all__ = [
    "Ast",
    "parse",
    "regex_dfa",
    "regex_grammar",
    "regex_node",
]
