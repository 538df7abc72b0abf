"""What a constraint costs a step of the engine: the same batch with and without one, side by side.

    python scripts/engine_overhead.py --tokenizer tokenizer.json [--batch 32] [--steps 60] [--pause 0.02]

A model of the demo model's size with random weights and as many logits as the tokenizer has ids; greedy, `batch` requests of which all
or none have a JSON Schema. Both run in turns. Times are those of the CPU that the engine's thread had, so that whatever else the
machine does counts little. The forward pass does the same in both, and takes 30 times as long as all that a constraint adds: what is
compared is the rest of the step, in relation to the whole. `--pause` adds a simulated forward pass to that whole.

A random model likes no token that the grammar allows, so that in every row another has to be looked for: with a trained model less is.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
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


@dataclass
class Clock:
    """A model whose forward passes are timed."""

    model: Any
    seconds: float = 0.0

    def __post_init__(self) -> None:
        forward = self.model.forward

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.thread_time()
            output = forward(*args, **kwargs)
            self.seconds += time.thread_time() - start
            return output

        self.model.forward = timed


def run(engine: Engine, clock: Clock, batch: int, steps: int, constraint: Constraint | None) -> list[tuple[float, float, float]]:
    """Of each step of a full batch: seconds in all, those outside of the model, and those of filling and applying masks."""
    request = Request(
        prompt=[5, 6, 7],
        constraint=constraint,
        sampling=Sampling(temperature=0),
        max_tokens=steps + 20,
        finish_within_budget=constraint is not None,
    )
    tickets = [engine.submit(request, lambda event: None, patient=True) for _ in range(batch)]
    while engine.info.running < batch:
        engine.step()
    times = []
    for _ in range(steps):
        masks, clock.seconds = engine.info.mask_seconds, 0.0
        start = time.thread_time()
        engine.step()
        taken = time.thread_time() - start
        times.append((taken, taken - clock.seconds, engine.info.mask_seconds - masks))
        if engine.info.running < batch:
            break
    for ticket in tickets:
        ticket.cancel()
    engine.step()
    return times


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
    clock = Clock(model)
    constraint = Constraint("json_schema", SCHEMA)
    free, guided = [], []
    for number in range(arguments.rounds + 1):
        plain = run(engine, clock, arguments.batch, arguments.steps, None)
        masked = run(engine, clock, arguments.batch, arguments.steps, constraint)
        if number:  # the first round warms up
            free += plain
            guided += masked
    step, rest, _ = (1e3 * statistics.median(column) for column in zip(*free, strict=True))
    whole, guided_rest, masks = (1e3 * statistics.median(column) for column in zip(*guided, strict=True))
    step, whole = step + 1e3 * arguments.pause, whole + 1e3 * arguments.pause
    print(f"batch {arguments.batch}, {len(tokenizer)} ids, medians of {len(free)} and {len(guided)} steps; milliseconds")
    print(f"a step without a constraint {step:.3f}, of which outside of the model {rest:.3f}; with a constraint {guided_rest:.3f}")
    print(f"a constraint adds {guided_rest - rest:.3f}: {100 * (guided_rest - rest) / step:.2f} % of the step")
    print(f"filling and applying masks {masks:.3f}: {100 * masks / step:.2f} %; steps as a whole {whole:.3f} against {step:.3f}")


if __name__ == "__main__":
    main()
