"""The entry point of SGLang's plug-in loader: `register`, and the check that it is the SGLang that was tested.

A backend is called by names and orders of arguments that SGLang does not promise to keep.
So the version is checked, and so is every name that is used; what does not fit is refused before the server has started.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from ...pda.exceptions import StackmaskError

NAME: Final = "stackmask"
TESTED: Final = ("0.5.23", "0.5.23")
"""The first and the last version of SGLang that `scripts/sglang_check.py` has passed with."""
OVERRIDE: Final = "STACKMASK_SGLANG_UNTESTED"
"""The environment variable that lets other versions pass, when it is 1; names are checked all the same."""

_BASE: Final = "sglang.srt.constrained.base_grammar_backend"
_REASONER: Final = "sglang.srt.constrained.reasoner_grammar_backend"
_USED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "sglang.srt.arg_groups.choices": ("GRAMMAR_BACKEND_CHOICES", "add_grammar_backend_choices"),
        "sglang.srt.environ": ("envs.SGLANG_GRAMMAR_POLL_INTERVAL", "envs.SGLANG_GRAMMAR_MAX_POLL_ITERATIONS"),
        "sglang.srt.parser.reasoning_parser": ("ReasoningParser",),
        "sglang.srt.runtime_context": ("get_parallel", "get_serving", "get_spec"),
        _BASE: (
            "GRAMMAR_BACKEND_REGISTRY",
            "BaseGrammarBackend._init_value_dispatch",
            "BaseGrammarBackend.compile_framed_grammar",
            "BaseGrammarBackend.dispatch_ebnf",
            "BaseGrammarBackend.dispatch_json",
            "BaseGrammarBackend.dispatch_regex",
            "BaseGrammarBackend.dispatch_structural_tag",
            "BaseGrammarBackend.get_cached_or_future_value",
            "BaseGrammarBackend.initialize_vocab_mask_buffer",
            "BaseGrammarBackend.reserve_framing_tokens",
            "BaseGrammarBackend.reset",
            "BaseGrammarBackend.set_token_filter",
            "BaseGrammarObject.copy",
            "BaseGrammarObject.fill_vocab_mask_batched",
            "BaseGrammarObject.finished",
            "BaseGrammarObject.jump_and_retokenize",
            "GrammarStats",
            "InvalidGrammarObject",
            "register_grammar_backend",
            "register_vocab_mask_buffer",
        ),
        _REASONER: ("ReasonerGrammarBackend._make_grammar_object", "ReasonerGrammarBackend._frame_answer"),
        "sglang.srt.utils.common": ("is_pin_memory_available",),
    }
)
_PARAMETERS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = MappingProxyType(
    {
        (_BASE, "register_grammar_backend"): ("name", "init_func"),
        (_BASE, "BaseGrammarBackend._init_value_dispatch"): ("self", "key", "require_reasoning"),
        (_BASE, "BaseGrammarBackend.get_cached_or_future_value"): ("self", "key", "require_reasoning"),
        (_BASE, "BaseGrammarBackend.compile_framed_grammar"): ("self", "grammar", "frame"),
        (_BASE, "BaseGrammarBackend.set_token_filter"): (
            "self",
            "vocab_mask",
            "token_ids",
            "batch_idx",
            "is_allowed",
            "reset_vocab_mask",
        ),
        (_BASE, "BaseGrammarObject.allocate_vocab_mask"): ("self", "vocab_size", "batch_size", "device"),
        (_BASE, "BaseGrammarObject.apply_vocab_mask"): ("logits", "vocab_mask"),
        (_BASE, "BaseGrammarObject.fill_vocab_mask_batched"): ("entries", "vocab_mask"),
        (_REASONER, "ReasonerGrammarBackend"): ("grammar_backend", "reasoning_parser", "tokenizer", "enable_strict_thinking"),
    }
)


class IncompatibleVersionError(StackmaskError, ImportError):
    """SGLang has a version, or names, that the backend was not tested with."""


def register() -> None:
    """Make `--grammar-backend stackmask` known to this process; calling it again changes nothing.

    Raises IncompatibleVersionError where SGLang is not what was tested; it has no such backend then.
    """
    _check_version(import_module("sglang.version").__version__)
    _check_names()
    base, choices = import_module(_BASE), import_module("sglang.srt.arg_groups.choices")
    from .backend import create

    if NAME not in choices.GRAMMAR_BACKEND_CHOICES:
        choices.add_grammar_backend_choices([NAME])
    base.register_grammar_backend(NAME, create)


def _check_version(version: str) -> None:
    first, last = TESTED
    if _release(first) <= _release(version) <= _release(last):
        return
    if os.environ.get(OVERRIDE) == "1":
        logging.getLogger(__name__).warning("stackmask was tested with SGLang %s to %s, this is %s", first, last, version)
        return
    raise IncompatibleVersionError(
        f"stackmask was tested with SGLang {first} to {last}, this is {version}; "
        f"install one of these, or set {OVERRIDE}=1 to try, having run scripts/sglang_check.py"
    )


def _release(version: str) -> tuple[int, ...]:
    """The first three numbers of a version: a post release or a local build of a tested version is that version."""
    numbers = []
    for part in version.split("+")[0].split(".")[:3]:
        if not part.isdigit():
            raise IncompatibleVersionError(f"SGLang calls its version {version!r}, which is not a release")
        numbers.append(int(part))
    return tuple(numbers)


def _check_names() -> None:
    """Raise unless SGLang has every name that is used, with the parameters that are counted on."""
    missing = [f"{module}.{name}" for module, names in _USED.items() for name in names if find(module, name) is None]
    if missing:
        raise IncompatibleVersionError(f"this SGLang has no {', '.join(missing)}; stackmask was tested with {TESTED[0]} to {TESTED[1]}")
    for (module, name), expected in _PARAMETERS.items():
        found = find(module, name)
        actual = tuple(inspect.signature(found).parameters) if found is not None else ()
        if actual != expected:
            raise IncompatibleVersionError(
                f"{module}.{name} takes ({', '.join(actual)}), not ({', '.join(expected)}); "
                f"stackmask was tested with SGLang {TESTED[0]} to {TESTED[1]}"
            )


def find(module: str, name: str) -> Any:
    """The object at a path in a module of SGLang's, None if there is none."""
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("sglang"):
            raise  # a library that SGLang needs is missing, which is another matter
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
