"""Lark grammar texts as context-free grammars, with llguidance's additions."""

from .compiler import lark_grammar

__all__ = [
    "lark_grammar",
]
