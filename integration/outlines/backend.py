"""A back end of Outlines 1.3, whose own are chosen by an if-chain without a registry.

`use_stackmask` puts a function in the place of that chain: it knows one name more, and hands all others on. With `default`, the names that
are taken where nobody names a back end are ours too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

import outlines.backends
from outlines.backends.base import BaseBackend
from outlines.models import MLXLM, LlamaCpp, SteerableModel, Transformers

from ...pda.exceptions import StackmaskError
from ...schema.emit.json_parts import DEFAULT_WHITESPACE
from ..compiler import CompiledGrammar, Compiler
from ..tokenizers import Vocabulary

NAME: Final = "stackmask"
DEFAULTS: Final = ("CFG_DEFAULT_BACKEND", "JSON_SCHEMA_DEFAULT_BACKEND", "REGEX_DEFAULT_BACKEND")


class OutlinesError(StackmaskError):
    """A version of Outlines, or a kind of model, that stackmask cannot serve."""


class StackmaskBackend(BaseBackend):
    """An Outlines model's compiler, and the function that turns a grammar into a logits processor of its kind."""

    def __init__(self, model: SteerableModel) -> None:
        self.processor, vocabulary = _adapter(model)
        self.compiler = Compiler(vocabulary)

    def get_json_schema_logits_processor(self, json_schema: str, whitespace_pattern: str | None = None) -> Any:
        """A processor for the instances of a JSON Schema; `whitespace_pattern` is a regex for the blanks between their parts.

        Objects have no keys but those that the schema declares, where it declares some, as with Outlines' own back end.
        """
        whitespace = DEFAULT_WHITESPACE if whitespace_pattern is None else whitespace_pattern
        return self.processor(self.compiler.json_schema(json_schema, whitespace=whitespace, extra_properties="closed"))

    def get_regex_logits_processor(self, regex: str) -> Any:
        """A processor for the texts that a regex matches as a whole."""
        return self.processor(self.compiler.regex(regex))

    def get_cfg_logits_processor(self, grammar: str) -> Any:
        """A processor for the texts of a grammar: EBNF where a rule is defined by `::=`, else Lark."""
        compile = self.compiler.ebnf if "::=" in grammar else self.compiler.lark
        return self.processor(compile(grammar))


def use_stackmask(*, default: bool = True) -> None:
    """Make Outlines know the back end "stackmask", and take it where none is named, unless `default` is False.

    Calling it again changes only what is the default.
    """
    module: Any = outlines.backends
    missing = [name for name in ("_get_backend", *DEFAULTS) if not hasattr(module, name)]
    if missing:
        raise OutlinesError(f"outlines.backends has no {', '.join(missing)}: Outlines 1.3 has, this is another version")
    if not hasattr(module._get_backend, "backends"):
        module._get_backend = _finder(module._get_backend)
    for name in DEFAULTS:
        if default:
            setattr(module, name, NAME)
        elif getattr(module, name) == NAME:
            setattr(module, name, module._get_backend.defaults[name])


def _finder(original: Callable[[str, SteerableModel], BaseBackend]) -> Any:
    """Outlines' function that finds a back end, with ours; a model's is made once, since its vocabulary takes time to read."""
    backends: WeakKeyDictionary[SteerableModel, StackmaskBackend] = WeakKeyDictionary()

    def find(backend_name: str, model: SteerableModel) -> BaseBackend:
        if backend_name != NAME:
            return original(backend_name, model)
        if model not in backends:
            backends[model] = StackmaskBackend(model)
        return backends[model]

    attributes: Any = find
    attributes.backends = backends
    attributes.defaults = {name: getattr(outlines.backends, name) for name in DEFAULTS}
    return find


def _adapter(model: SteerableModel) -> tuple[Callable[[CompiledGrammar], Any], Vocabulary]:
    """The factory of logits processors for a kind of model, and the model's vocabulary."""
    if isinstance(model, Transformers):
        from ..transformers import GrammarLogitsProcessor

        config = model.model.config.get_text_config()
        return GrammarLogitsProcessor, Vocabulary.from_transformers(model.hf_tokenizer, size=config.vocab_size)
    if isinstance(model, LlamaCpp):
        from ..llama_cpp import logits_processor as llama_cpp

        return llama_cpp.GrammarLogitsProcessor, llama_cpp.llama_vocabulary(model.model)
    if isinstance(model, MLXLM):
        from ..mlx import logits_processor as mlx

        return mlx.GrammarLogitsProcessor, mlx.model_vocabulary(model.model, model.mlx_tokenizer)
    raise OutlinesError(f"{type(model).__name__} is not a model of transformers, llama.cpp or MLX")
