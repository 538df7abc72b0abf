"""Specifications compiled to grammars, for one vocabulary."""

from stackmask.integration.compiler.compiler import CompiledGrammar, Compiler, CompileStats

__all__ = [
    "CompileStats",
    "CompiledGrammar",
    "Compiler",
]
