"""Specifications compiled to grammars for one vocabulary, each once, and cached.

    type_schema            JSON Schemas of Python types (imports pydantic)
    cache_key              schemas as plain JSON values, with a key that equal schemas share
    structural_tag_key     the same for structural tags and the tags in them
    cache                  grammars by key, made once, kept within a number of bytes
    serialization          grammars as bytes
    rule_range             where the text of a grammar defines a rule
    checking               facts about a grammar and a text in it
    jobs                   specifications read: their keys and their front ends
    compiled_grammar       CompiledGrammar: immutable; makes a matcher for each request
    compiler               Compiler

>>> from stackmask.integration.demo import demo_vocabulary
>>> compiler = Compiler(demo_vocabulary())
>>> compiler.json_schema({"type": "integer"}) is compiler.json_schema('{"type": "integer"}')
True
"""

from .compiled_grammar import CompiledGrammar, CompileStats
from .compiler import Compiler

__all__ = [
    "CompileStats",
    "CompiledGrammar",
    "Compiler",
]
