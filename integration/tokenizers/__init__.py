"""Vocabularies out of tokenizers: Hugging Face, tiktoken, SentencePiece and mistral-common."""

from .vocabulary import Vocabulary

__all__ = [
    "Vocabulary",
]
