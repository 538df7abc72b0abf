"""The checks and patches of `register`.

vLLM chooses its backend by if-chains over a closed list of names.
Four places are patched, each to do one thing for our name and what it did before for every other:

1. `StructuredOutputsConfig.backend` takes the name.
2. `SamplingParams._validate_structured_outputs`, in the process that takes requests, compiles the grammar: a wrong one is an HTTP 400.
3. `StructuredOutputManager.grammar_init`, in the engine, makes the backend.
4. `BeamSearchOfflineMixin._init_beam_search_structured_output` makes one for a beam search.

Before the first is touched, the version must be one that this was tested with, and every name and parameter must be where it was then.
That also refuses a vLLM whose requests have options that are new, since nobody would enforce them.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import typing
from collections.abc import Callable
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, Final

from ...pda.exceptions import StackmaskError
from ..forced_drafts import TAIL
from .backend import REQUEST_TYPES, Backend, Fronts, Grammar, Settings
from .beam import BeamBackend

NAME: Final = "stackmask"
TESTED: Final = ((0, 33), (0, 34))
"""The first version that this was tested with, and the first that it was not."""

_PARAMETERS: Final = MappingProxyType(
    {
        ("vllm.sampling_params", "SamplingParams._validate_structured_outputs"): "self model_config structured_outputs_config tokenizer",
        ("vllm.sampling_params", "check_json_nesting"): "spec structural_tag",
        ("vllm.v1.structured_output", "StructuredOutputManager.grammar_init"): "self request",
        ("vllm.v1.structured_output", "StructuredOutputManager._create_grammar"): "self request",
        ("vllm.v1.structured_output", "StructuredOutputManager.validate_tokens"): "self request spec_tokens",
        ("vllm.v1.structured_output", "StructuredOutputManager._get_constraint_bounds"): "self request spec_tokens spec_tokens_committed",
        ("vllm.v1.structured_output.request", "get_structured_output_key"): "params",
        ("vllm.entrypoints.generate.beam_search.offline", "BeamSearchOfflineMixin._init_beam_search_structured_output"): (
            "self structured_outputs tokenizer"
        ),
    }
)
"""The functions that are patched or called, and their parameters."""

_FIELDS: Final = MappingProxyType(
    {
        ("vllm.sampling_params", "StructuredOutputsParams"): (
            "json regex choice grammar json_object disable_any_whitespace disable_additional_properties whitespace_pattern structural_tag "
            "_backend _backend_was_auto"
        ),
        ("vllm.config.structured_outputs", "StructuredOutputsConfig"): (
            "backend disable_any_whitespace disable_additional_properties reasoning_parser reasoning_parser_plugin enable_in_reasoning"
        ),
    }
)
"""The options there are: each is honoured, refused, or none of a backend's business."""

_ATTRIBUTES: Final = MappingProxyType(
    {("vllm.v1.request", "Request"): "output_token_ids sampling_params structured_output_request use_structured_output"}
)
"""Attributes of objects whose classes declare no fields: properties, or names that `__init__` sets."""

_ABSTRACT: Final = MappingProxyType({"StructuredOutputBackend": Backend, "StructuredOutputGrammar": Grammar})


class IncompatibleVersionError(StackmaskError, RuntimeError):
    """The patches were not tested with this vLLM."""


def register() -> None:
    """Make the backend known to vLLM in this process; a second call does nothing."""
    vllm = _module("vllm")
    manager = _module("vllm.v1.structured_output").StructuredOutputManager
    if hasattr(manager.grammar_init, "__stackmask__"):
        return
    _check(vllm.__version__)
    fronts = Fronts(Settings.from_environment())
    types = _module("vllm.v1.structured_output.backend_types")
    for name, ours in _ABSTRACT.items():
        getattr(types, name).register(ours)
    params = _module("vllm.sampling_params").SamplingParams
    beams = _module("vllm.entrypoints.generate.beam_search.offline").BeamSearchOfflineMixin
    _patch_config(_module("vllm.config.structured_outputs"))
    _patch(params, "_validate_structured_outputs", functools.partial(_validate, fronts))
    _patch(beams, "_init_beam_search_structured_output", functools.partial(_init_beam_search, fronts))
    _patch(manager, "validate_tokens", _validate_tokens)
    _patch(manager, "grammar_init", functools.partial(_grammar_init, fronts))


def _patch(owner: type, name: str, function: Callable[..., Any]) -> None:
    """Replace a method by `function`, which gets the original first."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def patched(*arguments: Any, **options: Any) -> Any:
        return function(original, *arguments, **options)

    patched.__stackmask__ = True  # type: ignore[attr-defined]
    setattr(owner, name, patched)


def _patch_config(module: Any) -> None:
    """Let `StructuredOutputsConfig.backend` take our name, on the command line and in Python."""
    from pydantic.dataclasses import rebuild_dataclass

    backends = typing.Literal[(*typing.get_args(module.StructuredOutputsBackend), NAME)]  # type: ignore[valid-type]
    config = module.StructuredOutputsConfig
    module.StructuredOutputsBackend = backends
    config.__annotations__["backend"] = backends
    config.__dataclass_fields__["backend"].type = backends
    config.__pydantic_fields__["backend"].annotation = backends
    rebuild_dataclass(config, force=True)


def _validate(fronts: Fronts, original: Any, self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
    """Compile the grammar of a request, so that a wrong one is refused before the engine sees it."""
    asked = self.structured_outputs
    if structured_outputs_config is None or asked is None or structured_outputs_config.backend != NAME:
        original(self, model_config, structured_outputs_config, tokenizer)
        return
    refuse = _module("vllm.exceptions").VLLMValidationError
    if model_config.is_diffusion:
        raise refuse("structured outputs are not supported for diffusion language models")
    if tokenizer is None:
        raise refuse("structured outputs need a tokenizer: skip_tokenizer_init leaves none")
    if asked._backend not in (None, NAME):
        raise refuse(f"the request asks for the backend {asked._backend!r}, the engine was started with {NAME!r}")
    asked._backend = NAME
    asked.__post_init__()  # one constraint and no more, however the request was made
    if problem := _unsupported(asked):
        raise refuse(problem)
    nesting = _module("vllm.sampling_params").check_json_nesting
    nesting(asked.json)
    nesting(asked.structural_tag, structural_tag=True)
    try:
        kind, specification = _module("vllm.v1.structured_output.request").get_structured_output_key(asked)
        fronts.of(tokenizer, model_config.get_vocab_size()).compile(kind.name, specification)
    except (StackmaskError, TypeError, ValueError, RecursionError) as error:  # what json.dumps raises is none of ours
        raise refuse(f"stackmask refuses the {_constraint(asked)}: {error}") from error


def _unsupported(asked: Any) -> str | None:
    """The option of a request that nothing enforces."""
    for option in ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern"):
        if getattr(asked, option):
            instead = (
                "write additionalProperties into the schema"
                if option == "disable_additional_properties"
                else "set STACKMASK_VLLM_WHITESPACE for the engine"
            )
            return f"the {NAME} backend does not take {option} from a request: {instead}"
    if asked.json_object is False:
        return "json_object is True or left out"
    return None


def _constraint(asked: Any) -> str:
    """The name of the constraint of a request."""
    kinds = ("json", "json_object", "regex", "choice", "grammar", "structural_tag")
    return next(kind for kind in kinds if getattr(asked, kind) is not None)


def _grammar_init(fronts: Fronts, original: Any, self: Any, request: Any) -> None:
    """Make the backend at the first request that is ours; the rest is vLLM's."""
    if request.structured_output_request is not None:
        asked = request.sampling_params.structured_outputs
        if asked._backend == NAME:
            if problem := _unsupported(asked):  # a front end that is not Python's does not validate
                failed: Future[Any] = Future()
                failed.set_exception(ValueError(problem))
                request.structured_output_request.grammar = failed
                return
            if self.backend is None:
                size = self.vllm_config.model_config.get_vocab_size()
                self.backend = Backend(self.vllm_config, self.tokenizer, size, fronts=fronts)
                self.backend_name = NAME
    original(self, request)


def _validate_tokens(original: Any, self: Any, request: Any, spec_tokens: list[int]) -> list[int]:
    """The drafts that fit, and behind them the text that must come."""
    found: list[int] = original(self, request, spec_tokens)
    backend = self.backend
    if not isinstance(backend, Backend) or not backend.most_forced or not request.use_structured_output:
        return found
    grammar = request.structured_output_request.grammar
    begin = self._get_constraint_bounds(request, found)[0]
    if not isinstance(grammar, Grammar) or begin > len(found):  # in reasoning
        return found
    before = [*request.output_token_ids[-TAIL:], *found[:begin]]
    return [*found, *grammar.forced_tokens(before, found[begin:], backend.most_forced - len(found), backend.encode)]


def _init_beam_search(fronts: Fronts, original: Any, self: Any, structured_outputs: Any, tokenizer: Any) -> Any:
    """The backend, the key of the constraint and a row of a bitmask, for one search."""
    config = self.llm_engine.vllm_config
    if config.structured_outputs_config is None or (structured_outputs._backend or config.structured_outputs_config.backend) != NAME:
        return original(self, structured_outputs, tokenizer)
    structured_outputs._backend = NAME
    if problem := _unsupported(structured_outputs):
        raise _module("vllm.exceptions").VLLMValidationError(problem)
    key = _module("vllm.v1.structured_output.request").get_structured_output_key(structured_outputs)
    backend = BeamBackend(config, tokenizer, self.model_config.get_vocab_size(), fronts=fronts)
    return backend, key, backend.allocate_token_bitmask(1)


def _check(version: str) -> None:
    """That the version is a tested one, and that everything the patches touch is as it was."""
    first, end = (".".join(map(str, bound)) for bound in TESTED)
    hint = f"the stackmask backend is tested with vLLM >= {first}, < {end}"
    release = tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])
    if not TESTED[0] <= release < TESTED[1]:
        raise IncompatibleVersionError(f"{hint}, and this is vLLM {version}; nothing was patched")
    problems = [*_changed_parameters(), *_changed_fields(), *_changed_attributes(), *_changed_types()]
    if problems:
        raise IncompatibleVersionError(f"{hint}; this is vLLM {version}, but {'; '.join(problems)}; nothing was patched")


def _changed_parameters() -> list[str]:
    problems = []
    for (module, path), expected in _PARAMETERS.items():
        found = _find(module, path)
        if found is None:
            problems.append(f"{module}.{path} is not there")
        elif (names := " ".join(inspect.signature(found).parameters)) != expected:
            problems.append(f"{module}.{path} takes ({names}) and not ({expected})")
    return problems


def _changed_fields() -> list[str]:
    problems = []
    for (module, path), expected in _FIELDS.items():
        found = _find(module, path)
        names = {field.name for field in dataclasses.fields(found)} if dataclasses.is_dataclass(found) else set()
        if names != set(expected.split()):
            problems.append(f"{module}.{path} has other fields: {', '.join(sorted(names ^ set(expected.split())))}")
    return problems


def _changed_attributes() -> list[str]:
    problems = []
    for (module, path), expected in _ATTRIBUTES.items():
        found = _find(module, path)
        set_by_init = getattr(getattr(getattr(found, "__init__", None), "__code__", None), "co_names", ())
        if missing := [name for name in expected.split() if name not in set_by_init and not hasattr(found, name)]:
            problems.append(f"{module}.{path} has no {', '.join(missing)}")
    return problems


def _changed_types() -> list[str]:
    """The request types and abstract methods that we do not have."""
    types = "vllm.v1.structured_output.backend_types"
    problems = []
    kinds = {kind.name for kind in _find(types, "StructuredOutputOptions") or ()}
    if kinds != REQUEST_TYPES:
        problems.append(f"{types}.StructuredOutputOptions has other members: {', '.join(sorted(kinds ^ REQUEST_TYPES))}")
    for name, ours in _ABSTRACT.items():
        abstract = getattr(_find(types, name), "__abstractmethods__", None)
        if abstract is None:
            problems.append(f"{types}.{name} is not there")
        elif missing := [method for method in sorted(abstract) if not hasattr(ours, method)]:
            problems.append(f"{types}.{name} wants {', '.join(missing)}")
    return problems


def _find(module: str, path: str) -> Any:
    """The object at a path in a module, None if there is none."""
    found: Any = _module(module, required=False)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _module(name: str, *, required: bool = True) -> Any:
    """A module of vLLM's."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not required:
            return None
        raise IncompatibleVersionError(f"vLLM has no {name}: {error}") from error
