"""The demo model that ships inside the package: a Llama of 0.66 million weights and a byte-level BPE of 1,280 tokens.

It is a directory like any Hugging Face model, trained by `scripts/train_demo.py` on made-up records, so that the command line,
the server, the tests and the examples run on a machine without a network.
It knows a few kinds of record, repeats JSON from its prompt, and nothing about the world.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from ..tokenizers import Vocabulary
from ..tokenizers.decoders import decode_pieces

HUB_SECONDS: Final = 5.0
"""The time that the hub has to say whether it knows a model, in seconds."""


def demo_model_path() -> Path:
    """The directory of the demo model, for any library that loads Hugging Face models."""
    return Path(__file__).parent / "model"


def load_model(directory: str | Path | None = None, *, dtype: str = "auto", device: str | None = None) -> tuple[Any, Any]:
    """The model and the tokenizer in a directory or under a name, ready to generate; by default the demo model.

    `dtype` is a torch dtype name, such as "bfloat16", or "auto" for the dtype of the file, except half precision on a CPU. `device` is a
    torch device; None means the GPU if there is one.
    Raises OSError where there is no such model (`find_model`).
    """
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(find_model(directory), dtype=dtype)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = model.to(device)
    if dtype == "auto" and device == "cpu" and model.dtype is torch.float16:
        model = model.float()  # processors multiply halves one by one
    return model.eval(), load_tokenizer(directory)


def load_tokenizer(directory: str | Path | None = None) -> Any:
    """The tokenizer in a directory or under a name; by default the demo model's."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(find_model(directory))


def find_model(model: str | Path | None) -> str:
    """The directory of a model, or a name that Hugging Face's cache or hub knows; by default the demo model's directory.

    Raises OSError at once for anything else, where transformers would ask the hub for one file after the other, each several times.
    """
    place = Path(model or demo_model_path())
    if place.is_dir():
        return str(place)
    if place.exists():
        raise OSError(f"{model} is a file, where the directory of a model is expected")
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    name = str(model)
    try:
        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            HfApi().model_info(name, timeout=HUB_SECONDS)
    except (HFValidationError, RepositoryNotFoundError):
        raise OSError(f"{name} is neither a directory nor the name of a model on Hugging Face's hub") from None
    except Exception as error:  # of the client below, of which there are several
        raise OSError(f"{name} is neither a directory nor in Hugging Face's cache, and the hub does not answer: {error}") from None
    return name


def demo_vocabulary() -> Vocabulary:
    """The demo model's vocabulary, read without transformers."""
    description = json.loads((demo_model_path() / "tokenizer.json").read_text("utf-8"))
    pieces: dict[str, int] = description["model"]["vocab"]
    special = {token["content"]: token["id"] for token in description["added_tokens"] if token["special"]}
    tokens: list[bytes | None] = [None] * (max([*pieces.values(), *(token["id"] for token in description["added_tokens"])]) + 1)
    for token, piece in zip(pieces.values(), decode_pieces(pieces, description["decoder"]), strict=True):
        tokens[token] = piece
    for token in description["added_tokens"]:
        tokens[token["id"]] = token["content"].encode()
    return Vocabulary.from_bytes(tokens, stop_token_ids=[special["<|end|>"]], special=special)
