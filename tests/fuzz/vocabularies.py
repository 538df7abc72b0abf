"""Random vocabularies, and how the kernel is to look at them.

Real tokenizers hold few of the tokens that masks are hard for, so these are made of what such tokens have in common: ASCII joined with
whole characters and with broken ones, the end of a string behind punctuation, several values or members of JSON, one text twice, very long
runs; and of texts of the grammar, cut anywhere and joined with any of these.
"""

from __future__ import annotations

import contextlib
from random import Random
from typing import Any, Final

from support.tokens import BLANKS, BROKEN, GROUPS, LONG, PUNCTUATION, WHOLE, WORDS

from stackmask.pda import _kernel
from stackmask.pda.exceptions import LimitError, StackmaskError
from stackmask.pda.grammar import Grammar


def sample_texts(grammar: Grammar, random: Random, count: int = 6) -> list[bytes]:
    """Beginnings of texts that the grammar generates, found by walking it byte by byte."""
    trie = _kernel.TokenTrie([bytes((byte,)) for byte in range(256)], 256)
    try:
        start = _kernel.Matcher(_kernel.KernelGrammar(trie, grammar, states=100_000, stack_depth=100_000, memory=64 << 20, seconds=10), [])
    except StackmaskError:
        return []
    texts = []
    for _ in range(count):
        at, text = start.fork(), bytearray()
        with contextlib.suppress(LimitError):
            for _ in range(random.choice((5, 20, 60))):
                live = at.next_bytes()
                if not live:
                    break
                seen = [byte for byte in live if 0x20 <= byte < 0x7F]
                text.append(random.choice(seen if seen and random.random() < 0.8 else live))
                at.accept_bytes(bytes(text[-1:]))
        texts.append(bytes(text))
    return [text for text in texts if text]


def joined(random: Random, most: int = 4) -> bytes:
    """Pieces of several groups in a row."""
    return b"".join(random.choice(random.choice(GROUPS)) for _ in range(random.randint(1, most)))


def cut(random: Random, texts: list[bytes]) -> bytes:
    """A stretch of a text, sometimes with something before or behind it that the grammar may not take."""
    text = random.choice(texts)
    start = random.randrange(len(text))
    piece = text[start : start + random.choice((1, 2, 2, 3, 4, 6, 10, 30))]
    before = joined(random, 1) if random.random() < 0.2 else b""
    behind = joined(random, 2) if random.random() < 0.35 else b""
    return before + piece + behind


def vocabulary(random: Random, texts: list[bytes], *, few: bool, least: int) -> tuple[tuple[bytes | None, ...], tuple[int, ...]]:
    """At least `least` tokens and the ids of those that stop; `few` where every token is tried byte by byte."""
    profile = random.choice(("mixed",) * 6 + ("broken", "broken", "blanks", "long", "bytes", "one", "whole"))
    count = random.choice((8, 20, 40) if few else (60, 200, 600, 1500))
    tokens: list[bytes | None] = []
    if profile == "one":
        tokens = [cut(random, texts) if texts else joined(random)] * random.choice((1, 1, 3))
    elif profile != "bytes":
        for _ in range(count):
            roll = random.random()
            if texts and roll < 0.5:
                tokens.append(cut(random, texts))
            elif texts and roll < 0.55:  # longer than any count near it
                tokens.append(cut(random, texts)[:2] * random.choice((3, 5, 8, 13)) + random.choice((b"", cut(random, texts))))
            elif roll < 0.6 and tokens:
                tokens.append((random.choice(tokens) or b"") + (random.choice(tokens) or b""))
            else:
                tokens.append(joined(random))
        if profile == "broken":
            tokens += [
                random.choice(WORDS + WHOLE + (b"",))
                + random.choice(WHOLE + BROKEN)
                + random.choice(BROKEN)
                + random.choice(PUNCTUATION + WHOLE + (b"",))
                for _ in range(count // 2)
            ]
        if profile == "blanks":  # above U+007F: a class may hold some of them, and a token may end inside of one
            for _ in range(count // 2):
                blank = random.choice(BLANKS)
                before = random.choice((joined(random, 2), b"", cut(random, texts) if texts else b"a"))
                behind = random.choice((joined(random, 1), b"", random.choice(BLANKS)))
                tokens.append(before + random.choice((blank[: random.randint(1, len(blank) - 1)], blank + behind)))
        if profile == "long":
            for _ in range(8):
                unit = random.choice((*LONG, *(text[:5] for text in texts)))
                tokens.append(
                    random.choice((b"", b'"', joined(random, 1)))
                    + unit * random.choice((20, 70, 300 // len(unit)))
                    + random.choice((b"", b'"', joined(random, 1)))
                )
        if profile == "whole":
            tokens += texts
        tokens += random.choices(tokens, k=3)
    if profile == "bytes" or (profile != "one" and random.random() < 0.2):
        tokens += [bytes((byte,)) for byte in range(256)]
    elif profile != "one":
        known = b'ab1"{}[],:tz\\ .\n' + b"".join(texts)[:300]
        tokens += [bytes((byte,)) for byte in sorted(set(known)) if random.random() < 0.9]
    tokens = [token and token[:1000] for token in tokens] if any(tokens) else [b"a"]
    if random.random() < 0.3:
        random.shuffle(tokens)
    if random.random() < 0.1:
        tokens.insert(random.randrange(len(tokens) + 1), random.choice((None, b"")))
    tokens += [None] * max(random.choice((1, 3)), least - len(tokens))
    stops = [len(tokens) - 1]
    if random.random() < 0.1:
        stops.append(random.randrange(len(tokens)))
    if random.random() < 0.05:
        stops = []
    return tuple(tokens), tuple(sorted(set(stops)))


LOW: Final[dict[str, tuple[int, ...]]] = {
    "large_subtree": (2, 3, 8, 40),
    "wide_children": (1, 2, 4),
    "set_tokens": (0, 1, 4),
    "covered_nodes": (0, 1, 16),
    "many_places": (0, 2, 8),
    "listed_tokens": (0, 1, 8),
    "many_nodes": (1, 2),
    "few_nodes": (0, 1),
    "loop_exits": (0, 4, 4096),
    "run_nodes": (0, 4, 4096),
    "closed_states": (2, 256),
    "absorbing_differences": (0, 4, 20_000),
    "guarded_texts": (2_000,),
    "tried_nodes": (0, 4),
    "dense_bytes": (2, 5, 12),
    "lookups": (1, 2),
    "partly_closed_items": (0, 2, 4),
    "bundled_tokens": (1, 2),
    "unrolled_states": (0, 2, 8),
    "unrolled_inside": (0, 4, 40),
    "shared_states": (0, 2),
    "inlined_states": (0, 2),
    "inlined_open_states": (0, 8),
    "inlined_behind_loop": (0, 4, 256),
    "few_states": (0, 1, 4),
    "sharing_bytes": (0, 2),
    "spelled_bytes": (1, 2),
    "row_parts": (1, 2, 4),
    "spelled_ranges": (0, 2),
    "searched_states": (0, 4, 30),
    "steps_to_collect": (1, 4),
}
"""What each threshold of the kernel is lowered to. INVARIANT: no program lets a guard see as many values as guarded_texts."""


def engine_options(random: Random) -> dict[str, Any]:
    """The thresholds and the memory that a case gives the kernel: as always, all of them low, or any of them."""
    share = random.choice((0.0, 0.0, 0.5, 0.5, 1.0))
    thresholds = {name: random.choice(values) for name, values in LOW.items() if random.random() < share}
    memory = random.choice((64 << 20,) * 5 + (1,))
    set_bytes = random.choice((64 << 20,) * 6 + (0, 3000))
    return {"thresholds": thresholds, "memory": memory, "set_bytes": set_bytes}
