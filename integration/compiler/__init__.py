"""Specifications compiled to grammars, for one vocabulary."""

from .compiler import CompiledGrammar, Compiler, CompileStats

__all__ = [
    "CompileStats",
    "CompiledGrammar",
    "Compiler",
]
