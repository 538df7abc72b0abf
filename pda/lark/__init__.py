"""Lark grammar texts as context-free grammars, with llguidance's additions."""

from stackmask.pda.lark.compiler import lark_grammar

__all__ = [
    "lark_grammar",
]
