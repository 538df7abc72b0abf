"""SGLang's whole engine on a CPU, with its n-gram speculation, where SGLang's compiled kernels are not: what `sglang_check.py` starts.

    python scripts/sglang_engine.py plain      token by token
    python scripts/sglang_engine.py ngram      with SGLang's n-gram proposer
    python scripts/sglang_engine.py forced     and forced text as drafts

It writes the answers as JSON in the last line of its output. Tokenizer, scheduler, radix cache, model, n-gram corpus, verification, and
detokenizer are SGLang's own, in SGLang's processes. There are no kernels for CPUs on PyPI, so this module stands in for `sgl_kernel` where
the n-gram worker calls it, and for the attention over a tree of drafts, which SGLang's attention by torch lacks.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ["SGLANG_USE_CPU_ENGINE"] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the model is too small for more to help
import torch

DEMO = Path(__file__).parent.parent / "integration" / "demo" / "model"
DRAFTS = 12  # nodes of a tree, which is SGLang's default
ALONE = int(os.environ.get("STACKMASK_ALONE_ANSWERS", "40"))  # answers with an empty corpus, each by itself
ANSWERS = int(os.environ.get("STACKMASK_FORCED_ANSWERS", "200"))


class Kernels(ModuleType):
    """The functions of `sgl_kernel` that are called; SGLang imports more of them, which say so when they are."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*_: Any, **__: Any) -> None:
            raise NotImplementedError(f"sgl_kernel.{name} has no stand-in")

        return missing

    @staticmethod
    def reconstruct_indices_from_tree_mask(
        tree_mask: Any, seq_lens: Any, positions: Any, index: Any, next_token: Any, next_sibling: Any, batch: int, size: int
    ) -> None:
        """Positions and links of trees, by SGLang's description of its kernel in `kernels/ops/speculative/reconstruct_tree.py`."""
        lengths = seq_lens.tolist()
        for row, mask in enumerate(tree_mask.reshape(batch, size, size).tolist()):
            parents = [max((j for j in range(i) if mask[i][j]), default=-1) for i in range(size)]
            span = slice(row * size, (row + 1) * size)
            later = [[k for k in range(node + 1, size) if parents[k] == parents[node] >= 0] for node in range(size)]
            positions[span] = torch.tensor([lengths[row] + sum(mask[node][:node]) for node in range(size)])
            index[row] = torch.arange(row * size, (row + 1) * size)
            next_token[row] = torch.tensor([parents.index(node) if node in parents else -1 for node in range(size)])
            next_sibling[row] = torch.tensor([siblings[0] if siblings else -1 for siblings in later])

    @staticmethod
    def assign_extend_cache_locs_cpu(rows: Any, table: Any, start: Any, end: Any, out: Any, _: int) -> None:
        """The slots of the tokens from start to end of each request, one request behind the other."""
        spans = [table[row, first:last] for row, first, last in zip(rows, start, end, strict=True)]
        slots = torch.cat(spans).to(out.dtype)
        out[: len(slots)] = slots

    @staticmethod
    def assign_req_to_token_pool_cpu(rows: Any, table: Any, start: Any, end: Any, slots: Any, _: int) -> None:
        """The same the other way: slots written into the table."""
        used = 0
        for row, first, last in zip(rows.tolist(), start.tolist(), end.tolist(), strict=True):
            table[row, first:last] = slots[used : used + last - first]
            used += last - first

    @staticmethod
    def verify_tree_greedy_cpu(
        predicts: Any,
        accept_index: Any,
        accept_token_num: Any,
        candidates: Any,
        retrive_index: Any,
        retrive_next_token: Any,
        retrive_next_sibling: Any,
        target_predict: Any,
    ) -> None:
        """The path of the tree that the likeliest tokens take, and the token behind it."""
        for row in range(len(candidates)):
            node, count = 0, 0
            accept_index[row, 0] = retrive_index[row, 0]
            while True:
                wanted = target_predict[row, node]
                predicts[retrive_index[row, node]] = wanted
                child = int(retrive_next_token[row, node])
                while child >= 0 and candidates[row, child] != wanted:
                    child = int(retrive_next_sibling[row, child])
                if child < 0 or count + 1 >= accept_index.shape[1]:
                    break
                node, count = child, count + 1
                accept_index[row, count] = retrive_index[row, node]
            accept_token_num[row] = count

    @staticmethod
    def fill_accept_out_cache_loc_cpu(accept_index: Any, out_cache_loc: Any, accepted: Any, *_: Any) -> None:
        """The slots of accepted tokens, closed up."""
        taken = accept_index.flatten()
        slots = out_cache_loc[taken[taken >= 0].long()]
        accepted[: len(slots)] = slots

    @staticmethod
    def copy_all_layer_kv_cache_cpu(pointers: Any, strides: Any, targets: Any, sources: Any) -> None:
        """Move keys and values from slots to slots, in every layer's buffer."""
        for pointer, stride in zip(pointers.tolist(), strides.tolist(), strict=True):
            data = [ctypes.string_at(pointer + slot * stride, stride) for slot in sources.tolist()]
            for slot, piece in zip(targets.tolist(), data, strict=True):
                ctypes.memmove(pointer + slot * stride, piece, stride)


sys.modules["sgl_kernel"] = Kernels("sgl_kernel")
sys.modules["sgl_kernel.speculative"] = sys.modules["sgl_kernel"]
sys.path.insert(0, str(Path(__file__).parent))
import sglang_stage  # noqa: E402, F401 (declares what torchvision lacks)
from forced_workloads import CALLS, PERSON  # noqa: E402


def register_attention() -> None:
    """Have SGLang's attention by torch see trees of drafts too, in this process, which SGLang may have started."""
    from sglang.srt.layers.attention.attention_registry import register_attention_backend
    from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend

    class TreeAttention(TorchNativeAttnBackend):  # type: ignore[misc]
        def forward_extend(self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, save_kv_cache: bool = True) -> Any:
            if not forward_batch.forward_mode.is_target_verify():
                return super().forward_extend(q, k, v, layer, forward_batch, save_kv_cache)
            from sglang.srt.mem_cache.memory_pool import KVWriteLoc

            self.token_to_kv_pool.set_kv_buffer(layer, KVWriteLoc(forward_batch.out_cache_loc, None), k, v)
            keys, values = (
                buffer(layer.layer_id) for buffer in (self.token_to_kv_pool.get_key_buffer, self.token_to_kv_pool.get_value_buffer)
            )
            size, batch = forward_batch.spec_info.draft_token_num, len(forward_batch.seq_lens)
            trees = forward_batch.spec_info.custom_mask.reshape(batch, size, size).bool()
            heads = q.reshape(batch, size, layer.tp_q_head_num, layer.qk_head_dim).transpose(1, 2)
            found = []
            for row, length in enumerate(forward_batch.seq_lens.tolist()):
                slots = self.req_to_token_pool.req_to_token[forward_batch.req_pool_indices[row], : length + size].long()
                seen = torch.cat([torch.ones(size, length, dtype=torch.bool), trees[row]], dim=1)
                pieces = (heads[row : row + 1], keys[slots].transpose(0, 1)[None], values[slots].transpose(0, 1)[None])
                out = torch.nn.functional.scaled_dot_product_attention(*pieces, attn_mask=seen, scale=layer.scaling, enable_gqa=True)
                found.append(out[0].transpose(0, 1).reshape(size, -1))
            return torch.cat(found)

    register_attention_backend("torch_native")(TreeAttention)


register_attention()

WORKLOADS = {"tool calls": {"structural_tag": json.dumps(CALLS)}, "schemas": {"json_schema": json.dumps(PERSON)}}


def prompts() -> list[str]:
    """As many prompts, all different; the likeliest answers to them differ too."""
    generator = random.Random(17)
    words = (
        "weather",
        "rain",
        "sun",
        "calendar",
        "meeting",
        "document",
        "report",
        "person",
        "Ada",
        "Bo",
        "Oslo",
        "Bonn",
        "city",
        "age",
        "cold",
    )
    return [" ".join(generator.choices(words, k=6)) + f" {number}:" for number in range(ANSWERS)]


def steps_of(info: dict[str, Any]) -> int:
    """The passes through the model that a request took part in: one for the prompt, and those that decode or verify."""
    return 1 + int(info.get("spec_verify_ct", info["completion_tokens"] - 1))


def flush(engine: Any) -> None:
    """Empty the radix cache and the corpus of the proposer, as soon as the scheduler has finished with the last request."""
    while not engine.flush_cache().success:
        time.sleep(0.01)


def answers(engine: Any, asked: list[str], constraint: dict[str, str], **options: Any) -> list[Any]:
    """What SGLang returns for prompts under greedy decoding."""
    given = options.pop("return_logprob", False)
    found: list[Any] = engine.generate(asked, {"temperature": 0, "max_new_tokens": 200, **constraint, **options}, return_logprob=given)
    return found


def streamed(engine: Any, prompt: str, constraint: dict[str, str]) -> str:
    """The text of a stream, as its last piece has it, each piece beginning with the one before."""
    text = ""
    for piece in engine.generate(prompt, {"temperature": 0, "max_new_tokens": 200, **constraint}, stream=True):
        assert piece["text"].startswith(text), "a piece takes back text"
        text = piece["text"]
    return text


def main(mode: str) -> None:
    """Run the workloads in one mode."""
    os.environ["STACKMASK_SGLANG_FORCED_DRAFTS"] = "1" if mode == "forced" else "0"
    from sglang.srt.entrypoints.engine import Engine

    speculation: dict[str, Any] = {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": DRAFTS}
    engine = Engine(
        model_path=str(DEMO),
        device="cpu",
        dtype="float32",
        attention_backend="torch_native",
        sampling_backend="pytorch",
        grammar_backend="stackmask",
        max_total_tokens=8192,
        max_running_requests=8,
        disable_cuda_graph=True,
        skip_server_warmup=True,
        sleep_on_idle=True,
        log_level="error",
        **(speculation if mode != "plain" else {}),
    )
    result: dict[str, Any] = {}
    try:
        for name, constraint in WORKLOADS.items():
            flush(engine)
            found = answers(engine, prompts(), constraint)
            result[name] = {
                "texts": [item["text"] for item in found],
                "steps": sum(steps_of(item["meta_info"]) for item in found),
                "finish": [item["meta_info"]["finish_reason"] for item in found],
                "tokens": [item["meta_info"]["completion_tokens"] for item in found],
            }
            flush(engine)
            first = answers(engine, prompts()[:8], constraint, return_logprob=True)
            result[name]["logprobs"] = [[entry[:2] for entry in item["meta_info"]["output_token_logprobs"]] for item in first]
            result[name]["short"] = [
                [item["text"], item["meta_info"]["finish_reason"]] for item in answers(engine, prompts()[:8], constraint, max_new_tokens=9)
            ]
            stopped = answers(engine, prompts()[:8], constraint, stop=['": '])
            result[name]["stopped"] = [[item["text"], item["meta_info"]["finish_reason"]] for item in stopped]
            result[name]["streamed"] = streamed(engine, prompts()[0], constraint)
            alone = []
            for prompt in prompts()[:ALONE]:
                flush(engine)
                alone += answers(engine, [prompt], constraint)
            result[name]["alone"] = {
                "texts": [item["text"] for item in alone],
                "steps": sum(steps_of(item["meta_info"]) for item in alone),
            }
        mixed = [{"temperature": 0, "max_new_tokens": 40, **constraint} for constraint in (*WORKLOADS.values(), {})]
        result["mixed"] = [item["text"] for item in engine.generate(prompts()[:3], mixed)]
    finally:
        engine.shutdown()
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
