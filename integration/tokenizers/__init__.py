"""Vocabularies out of tokenizers: Hugging Face, tiktoken, SentencePiece and mistral-common."""

from stackmask.integration.tokenizers.vocabulary import Vocabulary

__all__ = [
    "Vocabulary",
]
