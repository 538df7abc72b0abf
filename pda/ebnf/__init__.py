"""EBNF grammar texts as context-free grammars: llama.cpp's GBNF, XGrammar's EBNF and the W3C's notation in one dialect."""

from .compiler import UnusedRuleWarning, ebnf_grammar

__all__ = [
    "UnusedRuleWarning",
    "ebnf_grammar",
]
