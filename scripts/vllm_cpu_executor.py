"""An executor for vLLM 0.33 that needs no GPU and no compiled worker: everything above the worker is vLLM's own.

The wheel of vLLM on PyPI has no operators for CPUs, so its CPU worker cannot start.
All the rest can: command line, HTTP server, input processing, scheduler, structured outputs, detokenizer.
This executor stands in for the worker, by a model of `transformers`.

    LLM(model, distributed_executor_backend=CpuExecutor, async_scheduling=False)
    vllm serve MODEL --distributed-executor-backend vllm_cpu_executor.CpuExecutor --no-async-scheduling

With STACKMASK_REPLAY=1 there is no model: a request's output is its own prompt, after the first token, and then the stop token.
That is for measuring: every backend is asked for the masks of the same tokens. A token that its mask forbids is generated all the same.
"""

# ruff: noqa: D102 (what the methods do is described in vLLM's abstract class)

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import DraftTokenIds, LogprobsLists, ModelRunnerOutput


class CpuExecutor(Executor):
    """One model, on the CPU, in the process of the engine."""

    uses_ray = False
    supports_pp = False

    def _init_executor(self) -> None:
        self.size = self.model_config.get_vocab_size()
        self.drafts = self.vllm_config.num_speculative_tokens
        self.tokens: dict[str, list[int]] = {}
        self.prompts: dict[str, int] = {}
        self.params: dict[str, Any] = {}
        self.generators: dict[str, torch.Generator] = {}
        self.scheduled: Any = None
        self.forbidden: list[str] = []
        self.proposed: DraftTokenIds | None = None
        self.accepted_drafts = 0
        self.steps = 0
        self.replays = os.environ.get("STACKMASK_REPLAY") == "1"
        if not self.replays:
            self.model = AutoModelForCausalLM.from_pretrained(self.model_config.model, dtype=torch.float32).eval()

    def get_kv_cache_specs(self) -> list[dict[str, Any]]:
        return [{"layer": FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=16, dtype=torch.float32)}]

    def determine_available_memory(self) -> list[int]:
        return [1 << 28]

    def get_supported_kv_cache_layouts(self) -> list[list[str]]:
        return [["NHD"]]

    def set_kv_cache_layout(self, *_: Any, **__: Any) -> None:
        pass

    def initialize_from_config(self, _: Any) -> None:
        pass

    def compile_or_warm_up_model(self) -> None:
        pass

    def collective_rpc(self, *_: Any, **__: Any) -> list[Any]:
        return [None]

    def check_health(self) -> None:
        pass

    def shutdown(self) -> None:
        pass

    @property
    def supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        for request in scheduler_output.finished_req_ids:
            for table in (self.tokens, self.prompts, self.params, self.generators):
                table.pop(request, None)
        for new in scheduler_output.scheduled_new_reqs:
            self.tokens[new.req_id] = list(new.prompt_token_ids)
            self.prompts[new.req_id] = len(new.prompt_token_ids)
            self.params[new.req_id] = new.sampling_params
            self.generators[new.req_id] = torch.Generator().manual_seed(new.sampling_params.seed or 0)
        self.scheduled = scheduler_output
        result = None if scheduler_output.total_num_scheduled_tokens else ModelRunnerOutput([], {})
        return _done(result) if non_block else result

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:
        scheduled = self.scheduled
        self.steps += 1
        drafts = {request: list(scheduled.scheduled_spec_decode_tokens.get(request, [])) for request in scheduled.num_scheduled_tokens}
        masks = self._masks(grammar_output)
        texts = {request: self.tokens[request] + [max(draft, 0) for draft in drafts[request]] for request in drafts}
        logits = None if self.replays else self._forward(list(texts.values()))
        sampled, logprobs = [], []
        for index, request in enumerate(drafts):
            first = len(self.tokens[request]) - 1
            new: list[int] = []
            for place, draft in enumerate([*drafts[request], None]):
                row = masks[request][place] if request in masks else None
                scores = None if logits is None else logits[index, first + place]
                token = self._replay(request, new, row) if scores is None else self._sample(request, scores, row)
                new.append(token)
                logprobs.append(None if scores is None else (token, scores.log_softmax(-1)))
                if token != draft:
                    break
                self.accepted_drafts += 1
            sampled.append(new)
            self.tokens[request] += new
        self.proposed = DraftTokenIds(list(drafts), [self._propose(request) for request in drafts]) if self.drafts else None
        output = ModelRunnerOutput(
            req_ids=list(drafts),
            req_id_to_index={request: index for index, request in enumerate(drafts)},
            sampled_token_ids=sampled,
            logprobs=self._logprobs(drafts, logprobs),
        )
        return _done(output) if non_block else output

    def take_draft_token_ids(self) -> DraftTokenIds | None:
        return self.proposed

    def _masks(self, grammar_output: Any) -> dict[str, Any]:
        """The rows of each constrained request, as booleans."""
        if grammar_output is None:
            return {}
        stride = self.drafts + 1
        rows = np.ascontiguousarray(grammar_output.grammar_bitmask).view(np.uint8)
        bits = np.unpackbits(rows, axis=1, bitorder="little")[:, : self.size].astype(bool)
        ids = grammar_output.structured_output_request_ids
        return {request: bits[index * stride : (index + 1) * stride] for index, request in enumerate(ids)}

    @torch.inference_mode()
    def _forward(self, texts: list[list[int]]) -> torch.Tensor:
        """The logits after every token; padding on the right is never looked at."""
        width = max(map(len, texts))
        return self.model(torch.tensor([text + [0] * (width - len(text)) for text in texts])).logits.float()

    def _sample(self, request: str, scores: torch.Tensor, row: Any) -> int:
        params = self.params[request]
        scores = scores.clone()
        if row is not None:
            assert row.any(), f"no token is allowed for {request}"
            scores[torch.from_numpy(~row)] = -torch.inf
        if params.allowed_token_ids:
            scores[[token for token in range(len(scores)) if token not in set(params.allowed_token_ids)]] = -torch.inf
        if params.temperature == 0:
            return int(scores.argmax())
        return int(torch.multinomial((scores / params.temperature).softmax(-1), 1, generator=self.generators[request]))

    def _replay(self, request: str, new: list[int], row: Any) -> int:
        """The next token of the text that the prompt holds."""
        place = len(self.tokens[request]) - self.prompts[request] + len(new) + 1
        prompt = self.tokens[request][1 : self.prompts[request]]
        token = prompt[place - 1] if place <= len(prompt) else min(self.params[request].all_stop_token_ids)
        if row is not None and not row[token]:
            self.forbidden.append(request)
        return token

    def _propose(self, request: str) -> list[int]:
        """What followed the last two tokens the last time they occurred."""
        tokens = self.tokens[request]
        for place in range(len(tokens) - 3, 0, -1):
            if tokens[place - 1 : place + 1] == tokens[-2:]:
                return tokens[place + 1 : place + 1 + self.drafts]
        return []

    def _logprobs(self, requests: Any, scores: list[Any]) -> LogprobsLists | None:
        """The best tokens of each place, after the sampled one."""
        count = max((self.params[request].logprobs or 0 for request in requests), default=0)
        if not count or not scores or scores[0] is None:
            return None
        best = [distribution.topk(count) for _, distribution in scores]
        return LogprobsLists(
            np.array([[token, *top.indices.tolist()] for (token, _), top in zip(scores, best, strict=True)]),
            np.array([[float(row[token]), *top.values.tolist()] for (token, row), top in zip(scores, best, strict=True)], np.float32),
            np.array([int((row > row[token]).sum()) for token, row in scores]),
        )


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future
