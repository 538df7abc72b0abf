"""Vocabularies out of other libraries' tokenizers, and prompts as token ids.

    decoders       from the strings that a tokenizer lists to the bytes that they stand for
    vocabulary     Vocabulary, with a constructor for each library; model_vocabulary, the one that goes with a model
    prompts        prompts as token ids

>>> Vocabulary.from_bytes([b"a", b"b", None], stop_token_ids=[2])
<Vocabulary size=3 stop_token_ids=[2] named=0>
"""

from .vocabulary import Vocabulary, model_vocabulary

__all__ = [
    "Vocabulary",
    "model_vocabulary",
]
