"""SGLang's handling of grammars without its model: what `sglang_check.py` and `sglang_compare.py` drive, on a CPU.

Everything is SGLang's own but the forward pass: the command line, the published configuration, GrammarManager, Req, SamplingBatchInfo, the
tree of drafts, and the acceptance of tokens. `Stage` stands where the scheduler stands, with its attributes that GrammarManager reads.
"""

from __future__ import annotations

import importlib.util
import re
import time
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def _declare_vision_operators() -> Any:
    """SGLang imports torchvision, whose operators need a build for the same torch; nothing here calls them, so their names will do."""
    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None or spec.loader is None:
        return None
    try:
        importlib.import_module("torchvision")
        return None
    except (RuntimeError, ImportError):
        text = (Path(spec.origin).parent / "_meta_registrations.py").read_text(encoding="utf-8")
    library = torch.library.Library("torchvision", "DEF")
    for name in sorted(set(re.findall(r'(?:torchvision::|register_meta\(")(\w+)', text))):
        library.define(f"{name}(Tensor unused) -> Tensor")
    return library


_OPERATORS = _declare_vision_operators()  # they go when the library does

import torch  # noqa: E402
from sglang.srt.constrained.grammar_manager import GrammarManager  # noqa: E402
from sglang.srt.managers.schedule_batch import Req  # noqa: E402
from sglang.srt.runtime_context import SpawnRanks, publish  # noqa: E402
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo  # noqa: E402
from sglang.srt.sampling.sampling_params import SamplingParams  # noqa: E402
from sglang.srt.server_args import prepare_server_args  # noqa: E402


class Stage:
    """One rank's grammar stage, configured by a command line."""

    def __init__(self, model: Path, *options: str) -> None:
        from transformers import AutoConfig, AutoTokenizer

        self.args = prepare_server_args(["--model-path", str(model), "--device", "cpu", "--load-format", "dummy", *options])
        publish(self.args, role="scheduler", ranks=SpawnRanks(world_rank=0))
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.vocab_size = AutoConfig.from_pretrained(model).vocab_size if (model / "config.json").is_file() else len(self.tokenizer)
        self.stop = self.tokenizer.eos_token_id
        think_end = self.tokenizer.encode("</think>", add_special_tokens=False)
        group = SimpleNamespace(world_size=1, first_rank=0, is_first_rank=True)
        scheduler = SimpleNamespace(
            server_args=self.args,
            tokenizer=self.tokenizer,
            model_config=SimpleNamespace(vocab_size=self.vocab_size, hf_eos_token_id={self.stop}, think_end_ids=think_end),
            dp_tp_cpu_group=None,
            dp_tp_group=group,
            pp_group=None,
        )
        self.manager = GrammarManager(scheduler)
        self._count = 0

    def request(self, *, reasoning: bool = False, **constraint: str) -> Any:
        """A request with a constraint, not yet given to the manager."""
        parameters = SamplingParams(max_new_tokens=64, **constraint)
        parameters.normalize(self.tokenizer)
        self._count += 1
        return Req(
            f"request-{self._count}",
            "",
            array("q", [1]),
            parameters,
            require_reasoning=reasoning,
            eos_token_ids={self.stop},
            vocab_size=self.vocab_size,
        )

    def admit(self, *requests: Any, seconds: float = 60.0) -> None:
        """Give requests to the manager, and poll it until their grammars are there or refused."""
        for request in requests:
            self.manager.process_req_with_grammar(request)
        end = time.monotonic() + seconds
        while self.manager.has_waiting_grammars():
            self.manager.get_ready_grammar_requests()
            assert time.monotonic() < end, "the grammars were never ready"

    def new(self, *, reasoning: bool = False, **constraint: str) -> Any:
        """A request whose grammar is there, or that was refused."""
        request = self.request(reasoning=reasoning, **constraint)
        self.admit(request)
        return request

    def mask(self, requests: list[Any]) -> Any:
        """The sampling information of a batch, with its mask filled."""
        count = len(requests)
        info = SamplingBatchInfo(
            temperatures=torch.ones(count, 1),
            top_ps=torch.ones(count),
            top_ks=torch.full((count,), -1),
            min_ps=torch.zeros(count),
            is_all_greedy=False,
            is_any_greedy=False,
            need_top_p_sampling=False,
            need_top_k_sampling=False,
            need_min_p_sampling=False,
            vocab_size=self.vocab_size,
            grammars=[request.grammar for request in requests],
        )
        info.device = "cpu"
        info.update_regex_vocab_mask()
        return info

    def allowed(self, request: Any) -> set[int]:
        """The tokens that a request may go on with, as the logits say after SGLang applied the mask."""
        logits = torch.zeros(1, self.vocab_size)
        self.mask([request]).grammar_mask.apply(logits)
        return set(torch.isfinite(logits[0]).nonzero().flatten().tolist())


def failure(request: Any) -> str:
    """Why a request was refused; "" if it was not."""
    return getattr(request.to_finish or request.finished_reason, "message", "")
