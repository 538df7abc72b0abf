"""One rank of tests/integration/test_distributed.py: `python distributed_worker.py RANK WORLD STORE`.

Each rank compiles the same 1,000 specifications and walks the same texts.
Rank 2 is slow to compile, and rank 3 has a limit that some specifications break. Rank 0 prints what they agreed on, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from stackmask import CompiledGrammar, Compiler, Limits, Vocabulary, allocate_token_bitmask, fill_bitmasks
from stackmask.integration.distributed import RankError, broadcast, poll

REQUESTS, ROUND, STEPS = 1000, 100, 16
SLOW, STRICT = 2, 3
TOKENS = [*(bytes([byte]) for byte in range(256)), None, b'{"', b'": ', b'", "', b"true", b"12", b"ab", b"the ", b"}]"]
STOP = 256


def specification(index: int) -> tuple[str, Any]:
    """A request: its kind and its specification."""
    rng = random.Random(index)
    names = rng.sample(["name", "age", "tags", "zip", "on", "id"], rng.randint(1, 4))
    kinds = [
        {"type": "integer", "minimum": index},
        {"type": "string", "maxLength": index % 9},
        {"enum": [index, "ab", None]},
        {"type": "boolean"},
    ]
    match index % 4:
        case 0:
            return "json_schema", {"type": "object", "properties": {name: rng.choice(kinds) for name in names}, "required": names[:1]}
        case 1:
            return "regex", f"(ab|[c-{rng.choice('defg')}]{{1,{index % 5 + 1}}})+{index}"
        case 2:
            return "ebnf", f'root ::= "{index}" list\nlist ::= "(" (list | [0-9a-f]{{1,4}}) ("," list)* ")"'
        case _ if index % 20 == 3:
            return "regex", f"[a-f]{{2}}{index}{'x' * 600}"  # more than the strict rank takes
        case _:
            return "choice", [f"{name} {index}" for name in names]


def walk(grammars: dict[int, CompiledGrammar], size: int) -> dict[int, str]:
    """For each request, a hash of all its masks on the way through a text that the masks themselves decide."""
    matchers = {index: grammar.matcher() for index, grammar in grammars.items()}
    bitmask = allocate_token_bitmask(len(matchers), size)
    hashes = {index: hashlib.sha256() for index in matchers}
    choices = {index: random.Random(index) for index in matchers}
    for _ in range(STEPS):
        fill_bitmasks(list(matchers.values()), bitmask)
        for row, (index, matcher) in enumerate(matchers.items()):
            hashes[index].update(bitmask[row].tobytes())
            allowed = np.flatnonzero(np.unpackbits(bitmask[row].view(np.uint8), bitorder="little"))
            assert matcher.accept_token(int(choices[index].choice(allowed)))
    return {index: found.hexdigest() for index, found in hashes.items()}


def main() -> None:
    """Compile, agree, walk, and compare."""
    rank, world, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    vocabulary = Vocabulary.from_bytes(TOKENS, stop_token_ids=[STOP], size=288)
    compiler = Compiler(vocabulary, limits=Limits(specification_bytes=550) if rank == STRICT else None, threads=1)
    slow = ThreadPoolExecutor(1)
    polled = threading.Event()  # the slow rank begins to compile when the others have asked for it once

    def submit(index: int) -> Future[CompiledGrammar]:
        kind, text = specification(index)
        if rank != SLOW:
            return compiler.submit(kind, text)
        return slow.submit(lambda: (polled.wait(), getattr(compiler, kind)(text))[1])

    masks: dict[int, str] = {}
    refused: dict[int, str] = {}
    waits = 0
    for first in range(0, REQUESTS, ROUND):
        polled.clear()
        pending = {index: submit(index) for index in range(first, first + ROUND)}
        while pending:
            ready, failed = poll(pending)
            polled.set()
            waits += not ready
            masks |= walk(ready, vocabulary.size) if ready else {}
            refused |= {index: str(error) for index, error in failed.items()}
            pending = {index: future for index, future in pending.items() if index not in ready and index not in failed}
    everywhere: list[Any] = [None] * world
    dist.all_gather_object(everywhere, (masks, sorted(refused)))
    whole = broadcast(lambda: compiler.json_schema({"type": "array", "items": {"enum": ["ab", 12]}}), vocabulary, source=1)
    errors = []
    for text in ("(a", "x" * 600):  # the first fails where it is compiled; the second is what the strict rank compiles
        try:
            broadcast(lambda text=text: compiler.regex(text), vocabulary, source=STRICT)
        except RankError as error:
            errors.append(str(error))
    try:
        poll({rank: Future()})
    except RankError as error:
        errors.append(str(error))
    fingerprints: list[Any] = [None] * world
    dist.all_gather_object(fingerprints, whole.fingerprint)
    if rank == 0:
        print(
            json.dumps(
                {
                    "agree": sum(all(other[0].get(index) == mask for other in everywhere) for index, mask in masks.items()),
                    "masks": len(masks),
                    "refused": {index: refused[index] for index in sorted(refused)},
                    "refused everywhere": all(other[1] == sorted(refused) for other in everywhere),
                    "waits": waits,
                    "fingerprints": fingerprints,
                    "errors": errors,
                }
            )
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
