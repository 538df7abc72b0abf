"""llama.cpp's shared library and its C interface, by ctypes.

    Library.open()      the library at $STACKMASK_LIBLLAMA, else that of the package `llama-cpp-python`, else the fetched build (`fetch`)

The interface is `llama.h` of v0.5.0. Its parameters are structures passed and returned by value, whose fields change from version to
version, so a wrong layout is no error but a crash. A library is taken only where its layout is known: that of `llama-cpp-python` from the
package itself, any other where `llama_version` says 0.5 and the defaults that it returns are those of the layout, in every field that
has one. The structures here end in spare bytes, so that a longer structure is read as far as it is known before it is refused.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
import weakref
from collections import deque
from ctypes import POINTER, Structure, c_bool, c_char_p, c_float, c_int8, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

from ...pda.exceptions import StackmaskError
from .fetch import fetched_library

SPARE: Final = 256  # bytes
VERSIONS: Final = ("0.5.",)


class LibraryError(StackmaskError):
    """There is no libllama, or not one whose interface is known."""


class ModelParams(Structure):
    """`llama_model_params`."""

    _fields_: ClassVar = [
        ("devices", c_void_p),
        ("tensor_buft_overrides", c_void_p),
        ("n_gpu_layers", c_int32),
        ("split_mode", c_int32),
        ("load_mode", c_int32),
        ("lazy_mode", c_int32),
        ("main_gpu", c_int32),
        ("tensor_split", c_void_p),
        ("progress_callback", c_void_p),
        ("progress_callback_user_data", c_void_p),
        ("kv_overrides", c_void_p),
        ("vocab_only", c_bool),
        ("check_tensors", c_bool),
        ("use_extra_bufts", c_bool),
        ("no_host", c_bool),
        ("no_alloc", c_bool),
        ("load_mtp", c_bool),
        ("spare", c_int8 * SPARE),
    ]


class ContextParams(Structure):
    """`llama_context_params`."""

    _fields_: ClassVar = [
        *((name, c_uint32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq", "n_outputs_max", "n_outputs_max_per_seq")),
        *((name, c_int32) for name in ("n_threads", "n_threads_batch", "ctx_type", "rope_scaling_type", "pooling_type")),
        *((name, c_int32) for name in ("attention_type", "flash_attn_type")),
        *((name, c_float) for name in ("rope_freq_base", "rope_freq_scale", "yarn_ext_factor", "yarn_attn_factor")),
        *((name, c_float) for name in ("yarn_beta_fast", "yarn_beta_slow")),
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        ("cb_eval", c_void_p),
        ("cb_eval_user_data", c_void_p),
        ("type_k", c_int32),
        ("type_v", c_int32),
        ("abort_callback", c_void_p),
        ("abort_callback_data", c_void_p),
        *((name, c_bool) for name in ("embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full", "kv_unified")),
        ("samplers", c_void_p),
        ("n_samplers", c_size_t),
        ("ctx_other", c_void_p),
        ("spare", c_int8 * SPARE),
    ]


class Batch(Structure):
    """`llama_batch`: the same in all versions."""

    _fields_: ClassVar = [
        ("n_tokens", c_int32),
        ("token", c_void_p),
        ("embd", c_void_p),
        ("pos", c_void_p),
        ("n_seq_id", c_void_p),
        ("seq_id", c_void_p),
        ("logits", c_void_p),
    ]


class TokenData(Structure):
    """`llama_token_data`: a token, its logit and its probability."""

    _fields_: ClassVar = [("id", c_int32), ("logit", c_float), ("p", c_float)]


class TokenDataArray(Structure):
    """`llama_token_data_array`: the candidates of a step, in any order."""

    _fields_: ClassVar = [("data", c_void_p), ("size", c_size_t), ("selected", c_int64), ("sorted", c_bool)]


class ChainParams(Structure):
    """`llama_sampler_chain_params`."""

    _fields_: ClassVar = [("no_perf", c_bool)]


MODEL_DEFAULTS: Final = {"n_gpu_layers": -1, "split_mode": 1, "load_mode": -1, "lazy_mode": 1, "main_gpu": 0, "use_extra_bufts": True}
CONTEXT_DEFAULTS: Final = {
    "n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "n_outputs_max_per_seq": 1,
    "rope_scaling_type": -1, "pooling_type": -1, "attention_type": -1, "flash_attn_type": -1,
    "yarn_ext_factor": -1.0, "yarn_attn_factor": -1.0, "yarn_beta_fast": -1.0, "yarn_beta_slow": -1.0, "defrag_thold": -1.0,
    "type_k": 1, "type_v": 1,
    "embeddings": False, "offload_kqv": True, "no_perf": True, "op_offload": True, "swa_full": True, "kv_unified": False,
}  # fmt: skip
"""The values that the library returns for these fields, all others being zero; `n_threads` depends on how it was built."""

LOG_CALLBACK: Final = ctypes.CFUNCTYPE(None, ctypes.c_int, c_char_p, c_void_p)
LOG_ERROR: Final = 4

FUNCTIONS: Final[dict[str, tuple[Any, list[Any]]]] = {
    "llama_backend_init": (None, []),
    "llama_log_set": (None, [LOG_CALLBACK, c_void_p]),
    "llama_max_parallel_sequences": (c_size_t, []),
    "llama_model_load_from_file": (c_void_p, [c_char_p, "model_params"]),
    "llama_model_free": (None, [c_void_p]),
    "llama_model_get_vocab": (c_void_p, [c_void_p]),
    "llama_model_n_ctx_train": (c_int32, [c_void_p]),
    "llama_model_has_encoder": (c_bool, [c_void_p]),
    "llama_model_is_recurrent": (c_bool, [c_void_p]),
    "llama_model_is_hybrid": (c_bool, [c_void_p]),
    "llama_model_is_diffusion": (c_bool, [c_void_p]),
    "llama_model_chat_template": (c_char_p, [c_void_p, c_char_p]),
    "llama_init_from_model": (c_void_p, [c_void_p, "context_params"]),
    "llama_free": (None, [c_void_p]),
    "llama_n_ctx_seq": (c_uint32, [c_void_p]),
    "llama_n_batch": (c_uint32, [c_void_p]),
    "llama_get_memory": (c_void_p, [c_void_p]),
    "llama_memory_clear": (None, [c_void_p, c_bool]),
    "llama_memory_seq_rm": (c_bool, [c_void_p, c_int32, c_int32, c_int32]),
    "llama_decode": (c_int32, [c_void_p, Batch]),
    "llama_get_logits": (POINTER(c_float), [c_void_p]),
    "llama_vocab_type": (c_int32, [c_void_p]),
    "llama_vocab_n_tokens": (c_int32, [c_void_p]),
    "llama_vocab_get_text": (c_char_p, [c_void_p, c_int32]),
    "llama_vocab_get_attr": (c_int32, [c_void_p, c_int32]),
    "llama_vocab_is_eog": (c_bool, [c_void_p, c_int32]),
    "llama_vocab_bos": (c_int32, [c_void_p]),
    "llama_vocab_eos": (c_int32, [c_void_p]),
    "llama_vocab_get_add_bos": (c_bool, [c_void_p]),
    "llama_token_to_piece": (c_int32, [c_void_p, c_int32, c_void_p, c_int32, c_int32, c_bool]),
    "llama_tokenize": (c_int32, [c_void_p, c_char_p, c_int32, c_void_p, c_int32, c_bool, c_bool]),
    "llama_sampler_init": (c_void_p, [c_void_p, c_void_p]),
    "llama_sampler_free": (None, [c_void_p]),
}


class Library:
    """A loaded libllama: its functions are attributes, and its parameters come from `model_params` and `context_params`."""

    def __init__(self, path: Path, *, model_params: type[Structure] = ModelParams, context_params: type[Structure] = ContextParams) -> None:
        self.path = path
        self.errors: deque[str] = deque(maxlen=8)
        """The last messages that the library logged as errors."""
        try:
            self.native: Any = ctypes.CDLL(str(path))
        except OSError as error:
            raise LibraryError(f"cannot load {path}: {error}") from None
        self._params = {"model_params": model_params, "context_params": context_params}
        self._declare()
        if model_params is ModelParams:
            self._check_version()
            _check_defaults(self.model_params(), MODEL_DEFAULTS, path)
            _check_defaults(self.context_params(), CONTEXT_DEFAULTS, path)
        self._log = LOG_CALLBACK(self._hear)  # kept alive as long as the library may call it
        self.llama_log_set(self._log, None)
        weakref.finalize(self, self.native.llama_log_set, LOG_CALLBACK(), None)  # at the end, after all models
        self._load_backends()
        self.llama_backend_init()

    @staticmethod
    @cache
    def open(path: Path | None = None) -> Library:
        """The library at `path`, or where one is found; it is loaded once."""
        named = os.environ.get("STACKMASK_LIBLLAMA") if path is None else path
        if named:
            return Library(Path(named))
        if importlib.util.find_spec("llama_cpp") is not None:
            return _from_package()
        fetched = fetched_library()
        if fetched is None:
            raise LibraryError(
                "there is no llama.cpp: install llama-cpp-python, or run `python -m stackmask.integration.llama_cpp.fetch`, "
                "or set STACKMASK_LIBLLAMA to the path of a libllama v0.5.0"
            )
        return Library(fetched)

    def __getattr__(self, name: str) -> Any:
        """A function of the library."""
        if not name.startswith("llama_"):
            raise AttributeError(name)
        return getattr(self.native, name)

    def model_params(self) -> Any:
        """`llama_model_params` with the library's defaults."""
        return self.native.llama_model_default_params()

    def context_params(self) -> Any:
        """`llama_context_params` with the library's defaults."""
        return self.native.llama_context_default_params()

    def _declare(self) -> None:
        """Give each function its types; LibraryError names the first that is missing."""
        table: dict[str, tuple[Any, list[Any]]] = {
            **FUNCTIONS,
            "llama_model_default_params": (self._params["model_params"], []),
            "llama_context_default_params": (self._params["context_params"], []),
        }
        for name, (result, arguments) in table.items():
            try:
                function = getattr(self.native, name)
            except AttributeError:
                raise LibraryError(f"{self.path} has no {name}: it is not a libllama, or older than v0.5.0") from None
            function.restype = result
            function.argtypes = [self._params.get(argument, argument) if isinstance(argument, str) else argument for argument in arguments]

    def _check_version(self) -> None:
        try:
            version = self.native.llama_version
        except AttributeError:
            raise LibraryError(f"{self.path} does not say its version, as v0.5.0 does: it is older") from None
        version.restype, version.argtypes = c_char_p, []
        found = version().decode().removeprefix("v")
        if not found.startswith(VERSIONS):
            raise LibraryError(f"{self.path} is llama.cpp {found}; the layout of 0.5 is known, and that of llama-cpp-python's own library")

    def _load_backends(self) -> None:
        """Load the back ends that lie beside the library; a library that contains them has nothing to load."""
        if list(self.path.parent.glob("libggml-cpu-*")):
            ggml = next(iter(sorted(path for path in self.path.parent.glob("libggml.*"))))
            load = ctypes.CDLL(str(ggml)).ggml_backend_load_all_from_path
            load.restype, load.argtypes = None, [c_char_p]
            load(str(self.path.parent).encode())

    def _hear(self, level: int, text: bytes | None, _: Any) -> None:
        if level == LOG_ERROR and text:
            self.errors.append(text.decode("utf-8", "replace").strip())


_BACKEND_LOCK: Final = threading.Lock()


def _from_package() -> Library:
    """The library inside of llama-cpp-python, with the structures that the package declares for it."""
    bindings: Any = importlib.import_module("llama_cpp.llama_cpp")
    with _BACKEND_LOCK:
        return Library(Path(bindings._lib._name), model_params=bindings.llama_model_params, context_params=bindings.llama_context_params)


def _check_defaults(params: Structure, expected: dict[str, Any], path: Path) -> None:
    """LibraryError where a field has not the default that its version has."""
    for name, _ in params._fields_:  # type: ignore[misc]  # of these structures a field has two parts
        if name in ("n_threads", "n_threads_batch", "spare"):
            continue
        found, wanted = getattr(params, name) or 0, expected.get(name, 0)
        if found != wanted:
            raise LibraryError(f"{path} returns {found!r} as the default of {type(params).__name__}.{name}, not {wanted!r}: another layout")
