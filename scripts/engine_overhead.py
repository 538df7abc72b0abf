"""What a constraint costs a step of the engine: the same batch with and without one, side by side.

    python scripts/engine_overhead.py --tokenizer tokenizer.json [--batch 32] [--steps 60] [--pause 0.02]

A model of the demo model's size with random weights and as many logits as the tokenizer has ids; greedy, `batch` requests of which all
or none have a JSON Schema. Both run in turns, and the medians of their steps are compared. `--pause` adds a simulated forward pass.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from stackmask.integration.engine import Constraint, Engine, Request, Sampling

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string", "format": "email"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}}},
    },
    "required": ["name", "age", "email", "tags", "address"],
}


def run(engine: Engine, batch: int, steps: int, constraint: Constraint | None) -> tuple[list[float], float]:
    """Seconds of each step of a full batch, and the share of the engine's time that masks took."""
    request = Request(
        prompt=[5, 6, 7],
        constraint=constraint,
        sampling=Sampling(temperature=0),
        max_tokens=steps + 20,
        finish_within_budget=constraint is not None,
    )
    before = engine.info
    tickets = [engine.submit(request, lambda event: None, patient=True) for _ in range(batch)]
    while engine.info.running < batch:
        engine.step()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        if not engine.step() or engine.info.running < batch:
            break
        times.append(time.perf_counter() - start)
    for ticket in tickets:
        ticket.cancel()
    engine.step()
    after = engine.info
    mask = after.mask_seconds - before.mask_seconds
    return times, mask / (mask + after.model_seconds - before.model_seconds + after.sample_seconds - before.sample_seconds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, help="a tokenizer.json")
    parser.add_argument("--eos", default="<|eot_id|>", help="the token that ends a text")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that each forward pass is made to take longer")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_file=arguments.tokenizer, eos_token=arguments.eos)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).eval()
    engine = Engine(model, tokenizer, max_running=arguments.batch)
    if arguments.pause:
        forward = model.forward

        def slow(*args: Any, **kwargs: Any) -> Any:
            time.sleep(arguments.pause)
            return forward(*args, **kwargs)

        model.forward = slow
    constraint = Constraint("json_schema", SCHEMA)
    free, guided, shares = [], [], []
    for number in range(arguments.rounds + 1):
        plain, _ = run(engine, arguments.batch, arguments.steps, None)
        masked, share = run(engine, arguments.batch, arguments.steps, constraint)
        if number:  # the first round warms up
            free += plain
            guided += masked
            shares.append(share)
    without, with_ = statistics.median(free), statistics.median(guided)
    print(f"batch {arguments.batch}, {len(tokenizer)} ids, medians of {len(free)} and {len(guided)} steps")
    print(f"without a constraint {1e3 * without:.3f} ms, with {1e3 * with_:.3f} ms: {100 * (with_ / without - 1):+.2f} %")
    print(f"share of masks in the constrained runs: {100 * statistics.mean(shares):.2f} %")


if __name__ == "__main__":
    main()
