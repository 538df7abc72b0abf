"""The formats of JSON Schema, as regular languages over decoded characters.

    tables, idn_tables         automata and classes of characters, written by tables_generate
    hostname                   names of hosts
    idn                        names of hosts in any script
    regex_syntax               the syntax of regular expressions, as a context-free grammar
    rfc                        the formats by name: patterns of the RFCs, automata, nodes, lengths

>>> format_dfa("date")
<Dfa of 29 states, 102 transitions>
>>> format_accepts("date", "2024-02-30")
False
"""

from .rfc import NAMES, PATTERNS, format_accepts, format_dfa, format_lengths, format_longest, format_node, is_known

__all__ = [
    "NAMES",
    "PATTERNS",
    "format_accepts",
    "format_dfa",
    "format_lengths",
    "format_longest",
    "format_node",
    "is_known",
]
