"""Structural tags: free text with parts whose form is fixed, such as tool calls, as one grammar."""

from .compiler import StructuralTags, structural_tag_grammar

__all__ = [
    "StructuralTags",
    "structural_tag_grammar",
]
