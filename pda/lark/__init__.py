"""Lark texts as grammars, with llguidance's additions.

    lexer          the syntax of the text
    definitions    rules and terminals by name, with those imported from lark's own grammars
    parametric     rules with a number, and conditions on it
    terminals      from the definitions of a terminal to one pattern
    ignore         what %ignore lets stand before each terminal
    initial        the texts that do not begin with ignored text
    options        options of a rule, in brackets behind its name
    lexemes        terminals, and rules that are read as such, as nodes
    lazy           where a lazy rule ends the terminals beside it
    alternatives   those of templates and of rules with numbers, each with its work and its condition
    lazy_rules     the rules of a grammar with lazy rules, as nodes
    compiler       the notation in full, and lark_grammar

>>> print(lark_grammar('start: "a" start | "b"'))
root ::= start
start ::= "a" start | "b"
"""

from .compiler import lark_grammar

__all__ = [
    "lark_grammar",
]
