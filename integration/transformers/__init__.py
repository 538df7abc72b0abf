"""Grammars in Hugging Face transformers.

    processor = GrammarLogitsProcessor(compiler.json_schema(schema))
    model.generate(**inputs, logits_processor=[processor])

Read in this order:

    logits_processor         for model.generate, in all its modes
    continuous_batching      for continuous batching, where each request has a grammar of its own;
                             imported as stackmask.integration.transformers_batching
"""

from .logits_processor import GrammarLogitsProcessor

__all__ = [
    "GrammarLogitsProcessor",
]
