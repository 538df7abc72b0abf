"""What it costs to draw a token from masked logits on a CPU.

The promise: at 128,256 tokens a draw takes at most 0.3 ms where 50 tokens are allowed and 1.5 ms where all are, with top-p too, from the
row of the bitmask and the logits to the token. All run in one thread.
Beside it: the same in torch as samplers of inference engines write it (mask, softmax, sort, running sum, one random number), and vLLM's own
function for top-k and top-p with a random draw, where vLLM is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from benchmarks.report import machine, markdown, number
from benchmarks.timing import command_line, typical, verdict

WIDTH = 128_256
FEW = 50
LIMITS = {FEW: 300.0, WIDTH: 1_500.0}
OPTIONS: tuple[dict[str, float], ...] = ({}, {"top_p": 0.95}, {"top_k": 50}, {"top_k": 50, "top_p": 0.95, "min_p": 0.05})
SHAPES = {"as a model's": 3.0, "flat": 0.0}
"""The standard deviation of the logits: models have some 3, and flat ones are the worst case for top-p."""


def main(arguments: list[str] | None = None) -> int:
    """Measure each way to draw, the engines in turn, and print the table."""
    options = command_line("sampling", __doc__, rounds=25, tokenizer=False).parse_args(arguments)
    import torch

    torch.set_num_threads(1)
    lines, broken = [["us", "stackmask", "torch", "ratio", "vLLM"]], []
    for shape, deviation in SHAPES.items():
        logits = torch.from_numpy(np.random.default_rng(0).normal(0, 1, WIDTH).astype(np.float32) * deviation)
        for count, limit in LIMITS.items():
            for chosen in OPTIONS:
                draws = [function(logits, count, chosen) for function in (ours, plain, vllm)]
                samples = [[typical(draw, repeat=1) if draw else 0.0 for draw in draws] for _ in range(options.rounds)]
                mine, theirs, other = (float(value) for value in np.median(samples, axis=0))
                what = f"{shape}, {count:,} allowed, {', '.join(f'{name} {value:g}' for name, value in chosen.items()) or 'temperature'}"
                lines.append([what, number(mine), number(theirs), f"{mine / theirs:.3f}", number(other) if other else ""])
                broken += [f"{what}: {mine:.0f} us, promised {limit:.0f}"] * (mine > limit)
    print(f"{WIDTH:,} tokens, one thread, torch {torch.__version__}; {machine()}\n\n{markdown(lines)}")
    return verdict(broken, check=options.check)


def bitmask(count: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A row of a bitmask that allows as many tokens, spread over the vocabulary."""
    allowed = np.zeros(WIDTH, bool)
    allowed[np.random.default_rng(1).choice(WIDTH, count, replace=False)] = True
    return np.packbits(allowed, bitorder="little").view(np.int32)


def ours(logits: Any, count: int, options: dict[str, float]) -> Callable[[], int]:
    """A draw by the engine's sampler."""
    from stackmask.integration.engine.request import Sampling
    from stackmask.integration.engine.sampler import Sampler, allowed_tokens

    sampler, bits = Sampler(Sampling(temperature=0.8, seed=0, **options)), bitmask(count)  # type: ignore[arg-type]
    return lambda: sampler.draw(logits, None, allowed_tokens(bits))


def plain(logits: Any, count: int, options: dict[str, float]) -> Callable[[], int]:
    """A draw by whole-vocabulary operations of torch."""
    import torch

    forbidden = torch.from_numpy(~np.unpackbits(bitmask(count).view(np.uint8), bitorder="little").astype(bool))
    generator = torch.Generator().manual_seed(0)

    def draw() -> int:
        probabilities = (logits.masked_fill(forbidden, float("-inf")) / 0.8).softmax(-1)
        if top_k := int(options.get("top_k", 0)):
            probabilities = torch.where(probabilities < probabilities.topk(top_k).values[-1], 0.0, probabilities)
        if "top_p" in options:
            ordered, ids = probabilities.sort(descending=True)
            outside = ordered.cumsum(-1) - ordered > options["top_p"] * ordered.sum()
            probabilities = probabilities.index_fill(0, ids[outside], 0.0)
        if "min_p" in options:
            probabilities = torch.where(probabilities < options["min_p"] * probabilities.max(), 0.0, probabilities)
        sums = probabilities.double().cumsum(-1)
        return int(torch.searchsorted(sums, torch.rand(1, generator=generator, dtype=torch.float64) * sums[-1]))

    return draw


def vllm(logits: Any, count: int, options: dict[str, float]) -> Callable[[], int] | None:
    """A draw by vLLM's sampler for CPUs; None where it is not installed, and for min-p, which it has elsewhere."""
    with suppress(ImportError):
        import torch
        from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p, random_sample

        forbidden = torch.from_numpy(~np.unpackbits(bitmask(count).view(np.uint8), bitorder="little").astype(bool))
        k = torch.tensor([int(options["top_k"])]) if "top_k" in options else None
        p = torch.tensor([options["top_p"]]) if "top_p" in options else None

        def draw() -> int:
            row = apply_top_k_top_p((logits.masked_fill(forbidden, float("-inf")) / 0.8)[None], k, p)
            return int(random_sample(row.softmax(-1, dtype=torch.float32), {}))

        return None if "min_p" in options else draw
    return None


if __name__ == "__main__":
    sys.exit(main())
