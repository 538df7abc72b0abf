"""Regular expressions: from a pattern to an automaton or to a grammar.

    pattern --parser--> Ast --to_grammar--> nodes of a grammar     where the only assertions are anchors at the ends
                         '---to_nfa-------> Dfa                    lookaround, assertions: patterns with others

    ast                       the syntax tree
    parser, flavour, flags    one parser for ECMA-262 and for Python's `re`, and the table of what differs
    char_class, python_class  classes and escapes of either
    analysis                  lengths and first characters of a pattern's texts
    branches                  the outermost branches, and the anchors at their ends
    to_grammar, to_nfa        the two ways above
    earliest                  rows of many loops, each part matched where it first can be
    lookaround                lookarounds at the ends of a pattern, as products of automata
    assertions                assertions anywhere, by an alternating automaton
    length_ahead              lookaheads for the length of the text, as bounds; nodes with such bounds
    words                     lists of words, whose automaton needs no determinisation
    compiler                  which way a pattern goes: regex_dfa, regex_node, regex_grammar; no_text: why none matches
    first_match               the texts that `re.match` prefers, for the terminals of Lark

>>> regex_dfa("(?=.*b)[ab]{2}", search=False)
<Dfa of 4 states, 4 transitions>
>>> regex_grammar("[ab]{2}").nodes
((10, (((97, 98, 1),), ((97, 98, 2),), ()), (False, False, True), 1),)
"""

from .ast import Ast
from .compiler import no_text, regex_dfa, regex_grammar, regex_node
from .length_ahead import counted_node, split_length
from .parser import parse

__all__ = [
    "Ast",
    "counted_node",
    "no_text",
    "parse",
    "regex_dfa",
    "regex_grammar",
    "regex_node",
    "split_length",
]
