"""The demo model that ships inside the package: a Llama of 0.66 million weights and a byte-level BPE of 1,280 tokens."""

from .loading import demo_model_path, demo_vocabulary, load_model, load_tokenizer

__all__ = [
    "demo_model_path",
    "demo_vocabulary",
    "load_model",
    "load_tokenizer",
]
