"""stackmask makes a language model's output correct by construction: JSON Schema, regexes and grammars as exact token masks.

    vocabulary = stackmask.Vocabulary.from_transformers(tokenizer, size=model.config.vocab_size)
    grammar = stackmask.Compiler(vocabulary).json_schema({"type": "object", "properties": {"age": {"type": "integer"}}})
    matcher, bitmask = grammar.matcher(), stackmask.allocate_token_bitmask(1, vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask)  # bit i is set if token i may come next: apply it to the logits and sample
    matcher.accept_token(token_id)

Grammars come from JSON Schema, regexes, EBNF, Lark, choices and structural tags; `stackmask.integration` connects them to engines.
"""

from .integration.answers.generation import Generation
from .integration.answers.stream import Piece, Stream
from .integration.compiler import CompiledGrammar, Compiler
from .integration.decisions import Decider, Decision, decide
from .integration.generate import Generator, generate, generate_async, generate_batch, stream
from .integration.tokenizers import Vocabulary
from .pda.engine import fill_bitmasks, fill_draft_bitmasks
from .pda.exceptions import (
    EbnfError,
    GrammarError,
    LarkError,
    LimitError,
    RegexError,
    RollbackError,
    SchemaError,
    StackmaskError,
    StackmaskWarning,
    StructuralTagError,
    UnsatisfiableError,
    UnsupportedSchemaError,
    VocabularyError,
)
from .pda.limits import Limits
from .pda.matcher import Explanation, Matcher, allocate_token_bitmask

__all__ = [
    "CompiledGrammar",
    "Compiler",
    "Decider",
    "Decision",
    "EbnfError",
    "Explanation",
    "Generation",
    "Generator",
    "GrammarError",
    "LarkError",
    "LimitError",
    "Limits",
    "Matcher",
    "Piece",
    "RegexError",
    "RollbackError",
    "SchemaError",
    "StackmaskError",
    "StackmaskWarning",
    "Stream",
    "StructuralTagError",
    "UnsatisfiableError",
    "UnsupportedSchemaError",
    "Vocabulary",
    "VocabularyError",
    "allocate_token_bitmask",
    "decide",
    "fill_bitmasks",
    "fill_draft_bitmasks",
    "generate",
    "generate_async",
    "generate_batch",
    "stream",
]


def __getattr__(name: str) -> str:
    """Read `__version__` on first use, because importing package metadata takes a while."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("stackmask")
