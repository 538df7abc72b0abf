"""What ambiguous and left-recursive grammars cost.

The promise is about texts taken letter by letter, mask and accept, in a grammar compiled anew.
With `S ::= "a" S "b" | "a" S | "a"`, which derives them in exponentially many ways, 800 letters cost at most 5 ms in all.
With `S ::= S S | "a"`, 2,000 letters cost at most 1 s.
The cost grows by a polynomial: twice the letters take at most 8 times as long.
"""

from __future__ import annotations

import gc
import sys
from statistics import median
from typing import Any

from benchmarks.report import machine, markdown, number
from benchmarks.timing import command_line, load_vocabulary, once, verdict

MOST_GROWTH = 8.0
GRAMMARS = (
    ("a S b / a S / a, all a", 'root ::= "a" root "b" | "a" root | "a"', "a", "", 800, 5e3),
    ("a S b / a S / a, half b", 'root ::= "a" root "b" | "a" root | "a"', "a", "b", 800, 5e3),
    ("S S / a", 'root ::= root root | "a"', "a", "", 2000, 1e6),
    ("S S S / S S / a", 'root ::= root root root | root root | "a"', "a", "", 2000, 1e6),
    ("S + S / S * S / a", 'root ::= root "+" root | root "*" root | "a"', "a+", "a", 2000, 1e6),
)


def main(arguments: list[str] | None = None) -> int:
    """Measure each grammar and print the table."""
    options = command_line("ambiguity", __doc__, rounds=5).parse_args(arguments)
    import stackmask

    vocabulary, _ = load_vocabulary(options.tokenizer)
    mask = stackmask.allocate_token_bitmask(1, vocabulary.size)
    lines, broken = [["us in all", "letters", "accept", "mask + accept", "of half the letters", "promised"]], []
    for name, text, unit, ending, letters, limit in GRAMMARS:
        costs: dict[tuple[int, bool], float] = {}
        for length in (letters // 2, letters):
            data = text_of(unit, ending, length)
            for masked in (False, True):
                costs[length, masked] = median(run(stackmask, vocabulary, text, data.encode(), mask if masked else None, options.rounds))
        whole, half_cost = costs[letters, True], costs[letters // 2, True]
        lines.append([name, f"{letters:,}", number(costs[letters, False]), number(whole), number(half_cost), f"{limit:,.0f}"])
        broken += [f"{name}: {number(whole)} us, promised {limit:,.0f}"] * (whole > limit)
        broken += [f"{name}: twice the letters take {whole / half_cost:.1f} times as long"] * (whole > MOST_GROWTH * half_cost)
    print(f"{vocabulary.size:,} tokens; {machine()}\n\n{markdown(lines)}")
    return verdict(broken, check=options.check)


def text_of(unit: str, ending: str, letters: int) -> str:
    """The unit again and again; an ending of the unit's length fills nearly half of the text, a shorter one stands at its end."""
    if not ending or len(ending) < len(unit):
        return unit * (letters // len(unit)) + ending
    return unit * (letters // 2 + 1) + ending * (letters // 2 - 1)


def run(stackmask: Any, vocabulary: Any, grammar: str, data: bytes, mask: Any, rounds: int) -> list[float]:
    """Microseconds for all letters, in a grammar compiled anew each round; with masks where there is one to fill."""
    single = {byte: vocabulary.tokens.index(bytes((byte,))) for byte in set(data)}
    tokens = [single[byte] for byte in data]
    costs = []
    gc.disable()
    for _ in range(rounds):
        matcher = stackmask.Compiler(vocabulary).ebnf(grammar).matcher()

        def letters(matcher: Any = matcher) -> None:
            for token in tokens:
                if mask is not None:
                    matcher.fill_next_token_bitmask(mask)
                matcher.accept_token(token)

        costs.append(once(letters))
        assert matcher.num_accepted == len(data)
        assert matcher.is_completed()
    gc.enable()
    return costs


if __name__ == "__main__":
    sys.exit(main())
