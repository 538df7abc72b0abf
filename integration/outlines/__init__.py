"""Outlines on stackmask's engine.

    use_stackmask()
    generator = outlines.Generator(model, Person)

Read in this order:

    backend     the back end: an output type as a logits processor for transformers, llama.cpp and MLX, and how Outlines finds it
"""

from .backend import StackmaskBackend, use_stackmask

__all__ = [
    "StackmaskBackend",
    "use_stackmask",
]
