"""Grammars in Hugging Face `model.generate`."""

from .logits_processor import GrammarLogitsProcessor

__all__ = [
    "GrammarLogitsProcessor",
]
