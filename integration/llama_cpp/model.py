"""A GGUF file as a model of the engine: the weights, and caches of keys and values for its rows.

    model, tokenizer = load_gguf("model.gguf")
    with Engine(model, tokenizer) as engine: ...

llama.cpp computes the logits. All else is the engine's: masks, sampling, drafts, and forced text.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any, Final

from ...pda.exceptions import StackmaskError
from ..engine.kv_cache import ModelConfig
from .cache import LlamaRows
from .library import Library
from .tokenizer import LlamaTokenizer

CONTEXT: Final = 4096  # tokens of a request, where nobody says and the model was trained for as many: the cache is allocated whole


class GGUFError(StackmaskError, ValueError):
    """A file is no model that llama.cpp can run here."""


class Weights:
    """A `llama_model`, freed when nobody has it any more: caches have it too, and theirs must be freed before it."""

    __slots__ = ("__weakref__", "pointer")

    def __init__(self, library: Library, pointer: int) -> None:
        self.pointer = pointer
        weakref.finalize(self, library.llama_model_free, pointer)


class LlamaModel:
    """The weights of a GGUF file, loaded by llama.cpp.

    `context` is the number of tokens that a request may have, prompt included; by default the model's training context, at most 4,096.
    `threads` compute a step, by default as many as the process has cores. `gpu_layers` are offloaded where the library has a GPU, by
    default all of them.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        context: int | None = None,
        threads: int | None = None,
        gpu_layers: int | None = None,
        library: Library | None = None,
    ) -> None:
        self.path = Path(path)
        for name, value in (("context", context), ("threads", threads)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}, below 1")
        _check_file(self.path)
        self.library = library or Library.open()
        params = self.library.model_params()
        if gpu_layers is not None:
            params.n_gpu_layers = gpu_layers
        self.library.errors.clear()
        pointer = self.library.llama_model_load_from_file(os.fsencode(self.path), params)
        if not pointer:
            raise GGUFError(f"llama.cpp cannot load {self.path}: {'; '.join(self.library.errors) or 'it does not say why'}")
        self.weights = Weights(self.library, pointer)
        self.pointer: int = pointer
        self._check_kind()
        self.vocab: int = self.library.llama_model_get_vocab(self.pointer)
        trained: int = self.library.llama_model_n_ctx_train(self.pointer)
        self.config = ModelConfig(self.library.llama_vocab_n_tokens(self.vocab), context or min(trained, CONTEXT))
        self.threads = threads or _cores()
        self.can_take_back = not (self.library.llama_model_is_recurrent(self.pointer) or self.library.llama_model_is_hybrid(self.pointer))

    def make_cache(self, capacity: int) -> LlamaRows:
        """The cache of an engine that runs `capacity` requests at a time."""
        return LlamaRows(self, capacity)

    def _check_kind(self) -> None:
        for kind, has in (
            ("has an encoder", self.library.llama_model_has_encoder),
            ("is a diffusion model", self.library.llama_model_is_diffusion),
        ):
            if has(self.pointer):
                raise GGUFError(f"{self.path} {kind}; models that write token by token are supported")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path.name} vocab_size={self.config.vocab_size}>"


def load_gguf(path: str | Path, **options: Any) -> tuple[LlamaModel, LlamaTokenizer]:
    """The model in a GGUF file and its tokenizer; the options are those of `LlamaModel`."""
    model = LlamaModel(path, **options)
    return model, LlamaTokenizer(model.library, model.pointer, owner=model.weights)


def _check_file(path: Path) -> None:
    """GGUFError where a path is no GGUF file."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise GGUFError(f"cannot read {path}: {error.strerror}") from None
    if magic != b"GGUF":
        raise GGUFError(f"{path} is not a GGUF file: it begins with {magic!r}")


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
