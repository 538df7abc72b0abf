"""The parts of vLLM 0.33 that a structured-output backend meets, as modules that can be put into `sys.modules`.

Written after what vLLM's manager, scheduler, validation and beam search do with a backend, in the same order and with the same arguments.
So the contract is tested where vLLM is not installed; `scripts/vllm_check.py` runs the real one.
"""

from __future__ import annotations

import enum
import json
import sys
from abc import ABCMeta, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import pydantic.dataclasses
import torch


class ValidationError(ValueError):
    """What becomes an HTTP 400."""


def modules(version: str = "0.33.0") -> dict[str, ModuleType]:
    """Fresh modules, by name."""
    names = [
        "vllm",
        "vllm.config",
        "vllm.config.structured_outputs",
        "vllm.exceptions",
        "vllm.sampling_params",
        "vllm.v1",
        "vllm.v1.request",
        "vllm.v1.structured_output",
        "vllm.v1.structured_output.backend_types",
        "vllm.v1.structured_output.request",
        "vllm.entrypoints",
        "vllm.entrypoints.generate",
        "vllm.entrypoints.generate.beam_search",
        "vllm.entrypoints.generate.beam_search.offline",
    ]
    made = {name: ModuleType(name) for name in names}
    for name, module in made.items():
        module.__path__ = []
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(made[parent], last, module)
    made["vllm"].__version__ = version
    made["vllm.exceptions"].VLLMValidationError = ValidationError
    made["vllm.v1.request"].Request = Request
    _types(made["vllm.v1.structured_output.backend_types"])
    _config(made["vllm.config.structured_outputs"])
    _sampling(made["vllm.sampling_params"])
    _request(made["vllm.v1.structured_output.request"], made["vllm.v1.structured_output.backend_types"].StructuredOutputOptions)
    _manager(made["vllm.v1.structured_output"])
    _beam_search(made["vllm.entrypoints.generate.beam_search.offline"], made["vllm.v1.structured_output.request"])
    return made


def install(monkeypatch: Any, **options: Any) -> dict[str, ModuleType]:
    """Put the modules where imports find them."""
    made = modules(**options)
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


def _types(module: Any) -> None:
    kinds = ("JSON", "JSON_OBJECT", "REGEX", "GRAMMAR", "CHOICE", "STRUCTURAL_TAG")
    module.StructuredOutputOptions = enum.Enum("StructuredOutputOptions", kinds)

    for name, methods in (
        ("StructuredOutputGrammar", "accept_tokens validate_tokens rollback fill_bitmask is_terminated reset"),
        ("StructuredOutputBackend", "compile_grammar allocate_token_bitmask destroy"),
    ):
        setattr(module, name, ABCMeta(name, (), {method: abstractmethod(lambda self: None) for method in methods.split()}))


def _config(module: Any) -> None:
    module.StructuredOutputsBackend = Literal["auto", "xgrammar", "guidance"]

    @pydantic.dataclasses.dataclass(config={"extra": "forbid"})
    class StructuredOutputsConfig:
        backend: Literal["auto", "xgrammar", "guidance"] = "auto"
        disable_any_whitespace: bool = False
        disable_additional_properties: bool = False
        reasoning_parser: str = ""
        reasoning_parser_plugin: str = ""
        enable_in_reasoning: bool = False

    module.StructuredOutputsConfig = StructuredOutputsConfig


def _sampling(module: Any) -> None:
    @dataclass
    class StructuredOutputsParams:
        json: Any = None
        regex: str | None = None
        choice: Any = None
        grammar: str | None = None
        json_object: bool | None = None
        disable_any_whitespace: bool = False
        disable_additional_properties: bool = False
        whitespace_pattern: str | None = None
        structural_tag: str | None = None
        _backend: str | None = field(default=None, init=False)
        _backend_was_auto: bool = field(default=False, init=False)

        def __post_init__(self) -> None:
            kinds = (self.json, self.regex, self.choice, self.grammar, self.json_object, self.structural_tag)
            if sum(kind is not None for kind in kinds) != 1:
                raise ValidationError("one constraint")

    class SamplingParams:
        def __init__(self, structured_outputs: Any = None, stop_token_ids: Any = ()) -> None:
            self.structured_outputs = structured_outputs
            self.all_stop_token_ids = set(stop_token_ids)
            self.validated_by_vllm = False

        def _validate_structured_outputs(self, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
            self.validated_by_vllm = True

    def check_json_nesting(spec: Any, *, structural_tag: bool = False) -> None:
        if isinstance(spec, str) and spec.count("[") > (80 if structural_tag else 64):
            raise ValidationError("nested")

    module.StructuredOutputsParams, module.SamplingParams = StructuredOutputsParams, SamplingParams
    module.check_json_nesting = check_json_nesting


def _request(module: Any, options: Any) -> None:
    def get_structured_output_key(params: Any) -> tuple[Any, str]:
        if params.json is not None:
            return options.JSON, params.json if isinstance(params.json, str) else json.dumps(params.json)
        if params.json_object:
            return options.JSON_OBJECT, ""
        if params.choice is not None:
            return options.CHOICE, params.choice if isinstance(params.choice, str) else json.dumps(params.choice)
        for name in ("regex", "grammar", "structural_tag"):
            if getattr(params, name) is not None:
                return options[name.upper()], getattr(params, name)
        raise ValueError("No valid structured output parameter found")

    module.get_structured_output_key = get_structured_output_key


def _manager(module: Any) -> None:
    class StructuredOutputManager:
        """Compiles in one pool, fills in another, and walks drafts as vLLM's does."""

        def __init__(self, vllm_config: Any, tokenizer: Any) -> None:
            self.vllm_config, self.tokenizer = vllm_config, tokenizer
            self.backend: Any = None
            self.backend_name: str | None = None
            self.executor = ThreadPoolExecutor(2)
            self.fillers = ThreadPoolExecutor(2)
            self._grammar_bitmask: Any = None

        def grammar_init(self, request: Any) -> None:
            if request.structured_output_request is None:
                return
            if self.backend is None:
                raise ValueError(f"Unsupported structured output backend: {request.sampling_params.structured_outputs._backend}")
            request.structured_output_request.grammar = self.executor.submit(self._create_grammar, request)

        def _create_grammar(self, request: Any) -> Any:
            kind, specification = request.structured_output_request.structured_output_key
            return self.backend.compile_grammar(kind, specification, stop_token_ids=request.sampling_params.all_stop_token_ids)

        def _get_constraint_bounds(self, request: Any, spec_tokens: Any, spec_tokens_committed: bool = False) -> tuple[int, int]:
            first = len(spec_tokens) + 1 if request.thinking is None else request.thinking
            return first, first

        def validate_tokens(self, request: Any, spec_tokens: list[int]) -> list[int]:
            if not request.use_structured_output:
                return spec_tokens
            start, _ = self._get_constraint_bounds(request, spec_tokens)
            if start >= len(spec_tokens):
                return spec_tokens
            return spec_tokens[:start] + request.structured_output_request.grammar.validate_tokens(spec_tokens[start:])

        def _fill_bitmasks(self, batch: Any) -> None:
            for grammar, index, apply in batch:
                if apply and not grammar.is_terminated():
                    grammar.fill_bitmask(self._grammar_bitmask, index)
                else:
                    self._grammar_bitmask[index].fill_(-1)

        def grammar_bitmask(self, grammars: dict[str, Any], drafts: dict[str, list[int]], num_speculative_tokens: int = 0) -> Any:
            stride = num_speculative_tokens + 1
            if self._grammar_bitmask is None:
                rows = self.vllm_config.scheduler_config.max_num_seqs * stride
                self._grammar_bitmask = self.backend.allocate_token_bitmask(rows)
            if len(grammars) > 128 and not num_speculative_tokens:
                entries = [(grammar, index, True) for index, grammar in enumerate(grammars.values())]
                chunks = [entries[start : start + 16] for start in range(0, len(entries), 16)]
                for done in [self.fillers.submit(self._fill_bitmasks, chunk) for chunk in chunks]:
                    done.result()
            else:
                for place, (request_id, grammar) in enumerate(grammars.items()):
                    self._walk(request_id, grammar, drafts.get(request_id, []), place * stride)
            return self._grammar_bitmask[: len(grammars) * stride].numpy()

        def _walk(self, request_id: str, grammar: Any, tokens: list[int], row: int) -> None:
            """A row for now and one after each draft: fill, accept, fill, ..., roll back; padding and rejected drafts as vLLM has them."""
            advanced, padded, failed = 0, False, None
            for token in tokens:
                if failed is not None:
                    self._grammar_bitmask[row].copy_(self._grammar_bitmask[failed])
                    row += 1
                    continue
                self._fill_bitmasks([(grammar, row, not padded)])
                if token == -1:
                    padded = True
                elif not padded:
                    if not grammar.is_terminated() and grammar.accept_tokens(request_id, [token]):
                        advanced += 1
                    else:
                        failed = row
                row += 1
            if failed is not None:
                self._grammar_bitmask[row].copy_(self._grammar_bitmask[failed])
            else:
                self._fill_bitmasks([(grammar, row, not padded)])
            if advanced:
                grammar.rollback(advanced)

        def clear_backend(self) -> None:
            self.executor.shutdown(wait=True)
            self.fillers.shutdown(wait=True)
            if self.backend is not None:
                self.backend.destroy()
                self.backend = None

    module.StructuredOutputManager = StructuredOutputManager


def _beam_search(module: Any, request: Any) -> None:
    class BeamSearchOfflineMixin:
        """One grammar for each beam and step, handed the whole beam."""

        def __init__(self, vllm_config: Any) -> None:
            self.llm_engine = SimpleNamespace(vllm_config=vllm_config)
            self.model_config = vllm_config.model_config

        def _init_beam_search_structured_output(self, structured_outputs: Any, tokenizer: Any) -> Any:
            raise ValueError(f"Unsupported structured output backend: {structured_outputs._backend}")

        def allowed(self, backend: Any, key: Any, bitmask: torch.Tensor, beams: list[list[int]]) -> list[set[int] | None]:
            """The tokens that may follow each beam, None where it has ended."""
            result: list[set[int] | None] = []
            for beam in beams:
                grammar = backend.compile_grammar(*key)
                if beam:
                    grammar.accept_tokens("beam", beam)
                if grammar.is_terminated():
                    result.append(None)
                    continue
                grammar.fill_bitmask(bitmask, 0)
                words = bitmask[0].tolist()
                result.append({token for token in range(self.model_config.get_vocab_size()) if words[token >> 5] >> (token & 31) & 1})
            return result

    module.BeamSearchOfflineMixin = BeamSearchOfflineMixin
    module.get_structured_output_key = request.get_structured_output_key


class Request:
    """A request in the engine; `thinking` is how many of its drafts come before the grammar, None if all."""

    def __init__(self, sampling_params: Any, key: Any) -> None:
        self.sampling_params = sampling_params
        self.structured_output_request = SimpleNamespace(structured_output_key=key, grammar=None)
        self.output_token_ids: list[int] = []
        self.use_structured_output = True
        self.thinking: int | None = 0

    def grammar(self, timeout: float = 30) -> Any:
        """The compiled grammar; a failed compilation is raised."""
        grammar: Future[Any] = self.structured_output_request.grammar
        return grammar.result(timeout)
