"""What a constraint costs a step of the engine: the same batch with and without one, side by side.

    python scripts/engine_overhead.py --tokenizer tokenizer.json [--batch 32] [--steps 60] [--pause 0.02]
    python scripts/engine_overhead.py --demo --batch 1 --temperature 1 --top-p 0.95

A model of the demo model's size with random weights and as many logits as the tokenizer has ids, or the demo model itself; greedy, or
with the engine's sampler on both sides; `batch` requests of which all or none have a JSON Schema. Two engines make their steps in turns,
so that each step without a constraint has one beside it with one, and the median of their differences counts. Times are those of the CPU
that the engine's thread had, so that other load on the machine counts little. Masks are filled by a thread beside it, which counts where
the step has to wait for it, by the clock.

With `--pause` there is no model: a forward pass is a pause of that many seconds, and its logits are made in advance. So steps are the same
but for the constraint, and can be held against each other by the clock, which is what a request sees. The thread asks for the time until
the pause is over, as one that waits for a GPU does; with `--sleep` it sleeps, and finds its caches as whoever came in between left them.

A random model likes no token that the grammar allows, so that in every row another has to be looked for: with a trained model less is.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, TypeAlias

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from stackmask.integration.demo import load_model
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


class Pause:
    """What an engine needs of a model, in which a pass is a pause."""

    device = torch.device("cpu")

    def __init__(self, config: LlamaConfig, batch: int, seconds: float, *, sleeps: bool) -> None:
        self.config = config
        self.seconds = seconds
        self.sleeps = sleeps
        self._logits = torch.randn(8, batch, 1, config.vocab_size)
        self._passes = 0

    def __call__(self, input_ids: torch.Tensor, **options: Any) -> Any:
        """A pass."""
        end = time.perf_counter() + self.seconds
        if self.sleeps:
            time.sleep(self.seconds)
        while time.perf_counter() < end:
            pass
        self._passes += 1
        return SimpleNamespace(logits=self._logits[self._passes % 8, : len(input_ids)])


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


@dataclass
class Step:
    """Seconds of a step: by the clock, of the engine's thread, of that outside of the model, of filling and applying masks."""

    clock: float
    cpu: float
    rest: float
    masks: float


Pair: TypeAlias = tuple[Step, Step]
"""A step without a constraint, and the one beside it with one."""


def start(engine: Engine, batch: int, steps: int, constraint: Constraint | None, sampling: Sampling) -> list[Any]:
    """Fill the batch."""
    request = Request(
        prompt=engine.encode("Write a person as JSON."),
        constraint=constraint,
        sampling=sampling,
        max_tokens=steps + 200,  # so that the end of the budget is not near
        finish_within_budget=constraint is not None,
    )
    tickets = [engine.submit(request, lambda event: None, patient=True) for _ in range(batch)]
    while engine.info.running < batch:
        engine.step()
    return tickets


def step(engine: Engine, clock: Clock | None) -> Step:
    """One step, timed."""
    masks = engine.info.mask_seconds
    if clock is not None:
        clock.seconds = 0.0
    began, start = time.perf_counter(), time.thread_time()
    engine.step()
    taken, cpu = time.perf_counter() - began, time.thread_time() - start
    return Step(taken, cpu, cpu - (clock.seconds if clock is not None else 0.0), engine.info.mask_seconds - masks)


def run(engines: Sequence[Engine], clock: Clock | None, batch: int, steps: int, constraint: Constraint, sampling: Sampling) -> list[Pair]:
    """The steps of a full batch without the constraint and of one with it, in turns."""
    tickets = [start(engine, batch, steps, wanted, sampling) for engine, wanted in zip(engines, (None, constraint), strict=True)]
    pairs = []
    for number in range(steps):
        order = (0, 1) if number % 2 else (1, 0)
        times = {place: step(engines[place], clock) for place in order}
        if any(engine.info.running < batch for engine in engines):
            break
        pairs.append((times[0], times[1]))
    for engine, those in zip(engines, tickets, strict=True):
        for ticket in those:
            ticket.cancel()
        engine.step()
    return pairs


def make_model(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """A model with random weights, or a pause in its place, for a tokenizer."""
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_file=arguments.tokenizer, eos_token=arguments.eos)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=0 if arguments.pause else 3,
        num_attention_heads=4,
        tie_word_embeddings=True,
    )
    if arguments.pause:
        return Pause(config, arguments.batch, arguments.pause, sleeps=arguments.sleep), tokenizer
    return LlamaForCausalLM(config).eval(), tokenizer


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    model_choice = parser.add_mutually_exclusive_group(required=True)
    model_choice.add_argument("--tokenizer", help="a tokenizer.json")
    model_choice.add_argument("--demo", action="store_true", help="the demo model and its tokenizer")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--eos", default="<|eot_id|>", help="the token that ends a text")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of a pause in the place of a forward pass")
    parser.add_argument("--sleep", action="store_true", help="sleep in a pause")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, tokenizer = load_model() if arguments.demo else make_model(arguments)
    sampling = Sampling(temperature=arguments.temperature, top_p=arguments.top_p, seed=0)
    engines = [Engine(model, tokenizer, max_running=arguments.batch) for _ in range(2)]
    clock = None if arguments.pause else Clock(model)
    constraint = Constraint("json_schema", SCHEMA)
    pairs: list[Pair] = []
    for number in range(arguments.rounds + 1):
        found = run(engines, clock, arguments.batch, arguments.steps, constraint, replace(sampling, seed=number))
        pairs += found if number else []  # the first round warms up

    def both(name: str) -> tuple[float, float, float]:
        times = [(1e3 * getattr(free, name), 1e3 * getattr(guided, name)) for free, guided in pairs]
        differences = statistics.median(guided - free for free, guided in times)
        return statistics.median(free for free, _ in times), statistics.median(guided for _, guided in times), differences

    print(f"batch {arguments.batch}, {len(tokenizer)} ids, medians of {len(pairs)} pairs of steps and of their differences; milliseconds")
    print("a step by the clock: {:.3f} without a constraint, {:.3f} with one, {:+.3f}".format(*both("clock")))
    print("processor time of its thread: {:.3f} and {:.3f}, {:+.3f}; outside of the model".format(*both("cpu")), end=" ")
    print("{:.3f} and {:.3f}, {:+.3f}".format(*both("rest")))
    whole = both("clock" if arguments.pause else "cpu")[0]
    added = both("clock" if arguments.pause else "rest")[2]
    print(f"a constraint adds {added:.3f}: {100 * added / whole:.2f} % of the step")
    print(f"of which waiting for masks and applying them: {both('masks')[1]:.3f}")


if __name__ == "__main__":
    main()
