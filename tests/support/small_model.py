"""Models of other kinds than the demo model's, small and of random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch


def small_model(kind: str, **settings: Any) -> Any:
    """A model of random weights with the demo model's vocabulary."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2}
    config = getattr(transformers, f"{kind}Config")(vocab_size=1280, max_position_embeddings=512, **sizes, **settings)
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()
