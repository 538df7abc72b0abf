"""Schemas and values as nodes of a grammar.

    json_parts     blanks, punctuation, any string, any number, any value
    number_text    automata over the digits of number texts, for intervals and multiples
    numbers        sets of numbers
    strings        sets of strings
    values         constants
    arrays         Array parts, and arrays as sequences
    objects        Object parts, and objects as chains of members
    object_graph   objects with clauses or counts whose keys come in order
    alternatives   objects with clauses as unions of objects without, for keys in any order
    unordered      objects with clauses whose keys come in any order, as one graph
    escaped        a grammar as it stands inside a JSON string
    direct         one schema on its way to nodes: straight where it says one thing, else by the algebra

>>> from fractions import Fraction
>>> from stackmask.schema.emit.number_text import spellings
>>> spellings(Fraction(10))
(b'10',)
"""
