"""Lark texts as grammars, with llguidance's additions.

    lexer          the syntax of the text
    definitions    rules and terminals by name, with those imported from lark's own grammars
    terminals      from the definitions of a terminal to one pattern
    ignore         what %ignore lets stand before each terminal
    options        options of a rule, in brackets behind its name
    compiler       the notation in full, and lark_grammar

>>> print(lark_grammar('start: "a" start | "b"'))
root ::= start
start ::= "a" start | "b"
"""

from .compiler import lark_grammar

__all__ = [
    "lark_grammar",
]
