"""A model of mlx-lm as a model of the engine: the weights, and caches of keys and values for its rows.

    model, tokenizer = load_mlx("mlx-community/Qwen3-4B-4bit")
    with Engine(model, tokenizer) as engine: ...

MLX computes the logits. All else is the engine's: masks, sampling, drafts, and forced text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import mlx_lm

from ..engine.kv_cache import ModelConfig
from .cache import MLXRows
from .vocabulary import logits_width, model_vocabulary

UNBOUNDED: Final = 1 << 20  # tokens of a request, where the model's configuration names no longest text


class MLXModel:
    """A module of mlx-lm, and the configuration that the engine needs.

    `config` is the model's `config.json`, which says how long a text may be.
    """

    def __init__(self, module: Any, config: Mapping[str, Any]) -> None:
        self.module = module
        text: Mapping[str, Any] = config.get("text_config") or config
        self.config = ModelConfig(logits_width(module), text.get("max_position_embeddings") or UNBOUNDED)

    def make_cache(self, capacity: int) -> MLXRows:
        """The cache of an engine that runs `capacity` requests at a time."""
        return MLXRows(self, capacity)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {type(self.module).__module__} vocab_size={self.config.vocab_size}>"


def load_mlx(path: str | Path, **options: Any) -> tuple[MLXModel, Any]:
    """The model in a directory or under a name of Hugging Face, and its tokenizer; the options are those of `mlx_lm.load`.

    The tokenizer is that of transformers. Its `vocabulary` has the stop tokens that mlx-lm reads from the model's files.
    """
    loaded: Any = mlx_lm.load(str(path), return_config=True, **options)
    module, wrapper, config = loaded
    tokenizer = wrapper._tokenizer
    tokenizer.vocabulary = model_vocabulary(module, wrapper)
    return MLXModel(module, config), tokenizer
