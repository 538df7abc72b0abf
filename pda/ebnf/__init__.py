"""EBNF texts as grammars: llama.cpp's GBNF, XGrammar's EBNF and the W3C's notation in one dialect.

    lexer          the tokens, and which of the three dialects a text is written in
    options        options of a rule, in brackets behind its name
    parser         the syntax, read token by token
    macros         XGrammar's macros, as nodes
    difference     what takes automata: `A - B`, lazy rules, rules with max_chars
    scopes         rules with `distinct` values, copied into the rules with their `scope`
    lookahead      rules that must be followed by a given text
    compiler       the notation in full, and ebnf_grammar

>>> print(ebnf_grammar('root ::= "a" root | "b"'))
root ::= "a" root | "b"
"""

from .compiler import UnusedRuleWarning, ebnf_grammar

__all__ = [
    "UnusedRuleWarning",
    "ebnf_grammar",
]
