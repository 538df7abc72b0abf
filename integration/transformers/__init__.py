"""Grammars in Hugging Face `model.generate`."""

from stackmask.integration.transformers.logits_processor import GrammarLogitsProcessor

__all__ = [
    "GrammarLogitsProcessor",
]
