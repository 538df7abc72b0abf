"""The continuous batching of transformers by its public name; it is in `transformers/continuous_batching.py`."""

from .transformers.continuous_batching import GrammarBatchProcessor, attach

__all__ = ["GrammarBatchProcessor", "attach"]
