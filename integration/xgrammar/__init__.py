"""XGrammar's Python interface over stackmask: `import stackmask.integration.xgrammar as xgr`, for engines that call XGrammar directly.

    info = xgr.TokenizerInfo.from_huggingface(tokenizer, vocab_size=model.config.vocab_size)
    compiled = xgr.GrammarCompiler(info).compile_json_schema(schema)
    matcher, bitmask = xgr.GrammarMatcher(compiled), xgr.allocate_token_bitmask(1, info.vocab_size)
    matcher.fill_next_token_bitmask(bitmask)
    xgr.apply_token_bitmask_inplace(logits, bitmask)

The names and signatures are those of XGrammar 0.2.8, the semantics are stackmask's; docs/xgrammar.md lists where they differ.
What stackmask cannot do is refused by the name of the option, and errors are RuntimeErrors, as there.
The modules are XGrammar's: tokenizer_info, grammar, strict, structural_tag, compiler, matcher, draft_tree, bitmask, kernels, testing,
exception.
"""

from . import structural_tag, testing
from .bitmask import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    bitmask_dtype,
    get_bitmask_shape,
    reset_token_bitmask,
)
from .compiler import CompiledGrammar, GrammarCompiler
from .exception import (
    DeserializeFormatError,
    DeserializeVersionError,
    InvalidJSONError,
    InvalidStructuralTagError,
    UnsupportedOptionError,
)
from .grammar import Grammar, get_serialization_version
from .matcher import BatchGrammarMatcher, GrammarMatcher
from .structural_tag import StructuralTag, StructuralTagItem
from .tokenizer_info import TokenizerInfo, VocabType

__all__ = [
    "BatchGrammarMatcher",
    "CompiledGrammar",
    "DeserializeFormatError",
    "DeserializeVersionError",
    "Grammar",
    "GrammarCompiler",
    "GrammarMatcher",
    "InvalidJSONError",
    "InvalidStructuralTagError",
    "StructuralTag",
    "StructuralTagItem",
    "TokenizerInfo",
    "UnsupportedOptionError",
    "VocabType",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "bitmask_dtype",
    "get_bitmask_shape",
    "get_serialization_version",
    "reset_token_bitmask",
    "structural_tag",
    "testing",
]
