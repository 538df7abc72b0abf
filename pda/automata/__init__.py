"""Finite automata over characters, as sets of texts: made, combined, asked, and written as tables.

    charset                        a set of code points as sorted ranges
    char_classes                   the sets on edges, interned; automata as rows over classes of characters
    minimize                       the canonical form of rows: trimmed, minimal, numbered
    dfa                            deterministic automata and the Boolean algebra of their languages
    nfa                            position automata: concatenation and repetition, and the way back to a Dfa
    language                       questions about a language: membership, size, lengths, members
    suffix_automaton               every run of a list of chunks
    unicode, unicode_tables        the properties of Unicode, written by unicode_generate
    varints                        lists of numbers as text for such tables

>>> from stackmask.pda.automata import dfa, language
>>> words = dfa.difference(dfa.from_strings(["yes", "no", "maybe"]), dfa.from_string("no"))
>>> words
<Dfa of 8 states, 8 transitions>
>>> list(language.enumerate_texts(words))
['yes', 'maybe']
"""
