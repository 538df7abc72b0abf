"""The demo model that ships inside the package: a Llama of 0.66 million weights and a byte-level BPE of 1,280 tokens.

    loading     the model, its tokenizer and its vocabulary
    model/      the model, a directory like any of Hugging Face

>>> demo_vocabulary()
<Vocabulary size=1280 stop_token_ids=[2] named=7>
"""

from .loading import demo_model_path, demo_vocabulary, find_model, load_model, load_tokenizer

__all__ = [
    "demo_model_path",
    "demo_vocabulary",
    "find_model",
    "load_model",
    "load_tokenizer",
]
