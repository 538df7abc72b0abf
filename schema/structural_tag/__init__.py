"""Structural tags: free text with parts whose form is fixed, such as tool calls, as one grammar.

    structures     the older form, with `structures`, in the newer one
    fields         the fields of an object of a tag, each read once, by type
    special        the special tokens that a tag can name
    tag_cache      tags inside a tag that were compiled before
    notations      how the arguments of tool calls are spelled, as a table
    parameters     objects in the tagged notations of that table
    contents       the contents of a tag: schemas, grammars, patterns
    formats        a function for each type of format, in a table
    places         a grammar whose rules say which format of a tag a text is in
    report         the fate of the keywords of the schemas inside
    compiler       structural_tag_grammar, and StructuralTags, which reuses tags compiled before

>>> content = {"type": "const_string", "value": "42"}
>>> print(structural_tag_grammar({"type": "structural_tag", "format": content}))
root ::= "42"
"""

from .compiler import StructuralTags, structural_tag_grammar

__all__ = [
    "StructuralTags",
    "structural_tag_grammar",
]
