"""What any JSON costs, nested very deep.

The promise: the last of 100,000 levels cost at most twice as much per token as the first, on the way down and on the way up
(tables grow out of the caches of the processor; what cost in proportion to the depth would be ten times as much).
A level takes bytes, not kilobytes: less than 1,000.

Each token is a mask and an accept, called from Python, in windows of a tenth of the way.
Memory is that of the grammar's tables, which hold the stacks of all matchers, and that of the process.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import machine, markdown, number
from benchmarks.timing import command_line, load_vocabulary, verdict

WINDOWS = 10
MOST_GROWTH, MOST_BYTES = 2.0, 1000


def main(arguments: list[str] | None = None) -> int:
    """Measure arrays and objects and print the line of each."""
    parser = command_line("nesting", __doc__)
    parser.add_argument("--depth", type=int, default=100_000, metavar="N", help="levels (default: 100,000)")
    options = parser.parse_args(arguments)
    import stackmask

    vocabulary, tokenizer = load_vocabulary(options.tokenizer)
    mask = stackmask.allocate_token_bitmask(1, vocabulary.size)
    head = [
        "us a token",
        *(f"{100 * (window + 1) // WINDOWS} %" for window in range(WINDOWS)),
        "last : first",
        "B a level",
        "of the process",
    ]
    lines, broken = [head], []
    for name, opening, closing in (("arrays", "[", "]"), ("objects", '{"a":', "}"), ("both", '[{"b":', "}]")):
        grammar = stackmask.Compiler(vocabulary).json()
        matcher = grammar.matcher()
        levels = options.depth // (2 if name == "both" else 1)
        before, resident = grammar.size, resident_bytes()
        descent = walk(matcher, mask, tokenizer.encode(opening), levels)
        per_level, process = (grammar.size - before) / options.depth, (resident_bytes() - resident) / options.depth
        assert matcher.accept_bytes(b"1")
        ascent = walk(matcher, mask, tokenizer.encode(closing), levels)
        assert matcher.is_completed()
        for way, costs in ((f"{name} opened", descent), (f"{name} closed", ascent)):
            growth = median(costs[-3:]) / median(costs[:3])
            shown = [f"{per_level:.0f}", f"{process:.0f}"] if way.endswith("opened") else ["", ""]
            lines.append([way, *map(number, costs), f"{growth:.2f}", *shown])
            broken += [f"{way}: the last levels cost {growth:.2f} times the first, promised {MOST_GROWTH}"] * (growth > MOST_GROWTH)
        broken += [f"{name}: {per_level:.0f} bytes a level, promised {MOST_BYTES}"] * (per_level > MOST_BYTES)
    print(f"{options.depth:,} levels, in tenths of the way; {vocabulary.size:,} tokens; {machine()}\n\n{markdown(lines)}")
    return verdict(broken, check=options.check)


def walk(matcher: Any, mask: Any, tokens: list[int], levels: int) -> list[float]:
    """Take the tokens as many times as there are levels: microseconds a token, in each of a few windows of the way."""
    fill, accept, wall = matcher.fill_next_token_bitmask, matcher.accept_token, time.perf_counter_ns
    costs = []
    gc.disable()
    for window in range(WINDOWS):
        count = levels * (window + 1) // WINDOWS - levels * window // WINDOWS
        cpu, start = time.process_time_ns(), wall()
        for _ in range(count):
            for token in tokens:
                fill(mask)
                if not accept(token):
                    raise AssertionError(f"token {token} is refused in window {window}")
        spent = min(wall() - start, time.process_time_ns() - cpu)
        costs.append(spent / 1e3 / max(1, count * len(tokens)))
    gc.enable()
    return costs


def resident_bytes() -> int:
    """The memory of this process, 0 where the system does not say."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * 4096 if file.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
