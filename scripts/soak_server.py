"""Many streaming clients with a schema each against a server process: every answer valid, no error, no leak, steady pace.

    python scripts/soak_server.py [--clients 64] [--seconds 120] [--window 8] [--no-hostile]

It starts `stackmask serve --demo` and lets the clients warm it up. Then calm windows take turns with hostile ones, in which schemas that
take seconds to compile come in one after the other, so that whatever else the machine does weighs on both alike. At the end it prints
p50 and p99 of the times between pieces of text in both, the memory after the warm-up and at the end, and what went wrong; the exit
code is 1 where anything did. A calm window ends when the last slow schema of the one before is through.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from jsonschema import Draft202012Validator


@dataclass
class Tally:
    """What the clients saw."""

    gaps: dict[str, list[float]] = field(default_factory=lambda: {"warm-up": [], "calm": [], "hostile": []})
    answers: int = 0
    errors: list[str] = field(default_factory=list)
    pairs: list[dict[str, float]] = field(default_factory=list)
    phase: str = "warm-up"


def schema(number: int) -> dict[str, Any]:
    """A schema that no other client has."""
    rng = random.Random(number)
    kinds: list[dict[str, Any]] = [
        {"type": "string", "maxLength": rng.randint(5, 30)},
        {"type": "integer", "minimum": -number, "maximum": 1000 + number},
        {"enum": [f"v{number}-{i}" for i in range(3)]},
        {"type": "array", "items": {"type": "boolean"}, "maxItems": 4},
        {"type": ["string", "null"], "format": "date"},
        {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": False},
    ]
    properties = {f"p{number}_{i}": rng.choice(kinds) for i in range(rng.randint(2, 5))}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


async def client(url: str, number: int, tally: Tally, until: float) -> None:
    """One client, answer after answer."""
    mine = schema(number)
    validator = Draft202012Validator(mine)
    body = {
        "model": "demo",
        "messages": [{"role": "user", "content": f"Write record {number} as JSON."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": mine}},
        "max_tokens": 200,
        "stream": True,
    }
    async with httpx.AsyncClient(timeout=60) as http:
        while time.monotonic() < until:
            text, last, reason = "", 0.0, None
            try:
                async with http.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
                    if answer.status_code != 200:
                        tally.errors.append(f"status {answer.status_code}: {(await answer.aread())[:200]!r}")
                        return
                    async for line in answer.aiter_lines():
                        if not line.startswith("data: {"):
                            continue
                        (choice,) = json.loads(line[6:])["choices"]
                        reason = choice["finish_reason"] or reason
                        if piece := choice["delta"].get("content"):
                            now = time.monotonic()
                            if last:
                                tally.gaps[tally.phase].append(now - last)
                            last, text = now, text + piece
                if not validator.is_valid(json.loads(text)):
                    tally.errors.append(f"client {number}: invalid, {reason}: {text[:200]}")
                tally.answers += 1
            except (httpx.HTTPError, ValueError, KeyError) as error:
                tally.errors.append(f"client {number}: {error!r}: {text[:200]}")


def hostile(number: int) -> dict[str, Any]:
    """A schema that takes long to compile, of one of several kinds, or is refused after as long; no other number has it."""
    letters = "".join(random.Random(number).sample("abcdefghijklmnopqrstuvwxyz", 26))
    kinds: list[dict[str, Any]] = [
        {"type": "string", "pattern": "^" + "".join(f"(?=.*{letter})" for letter in letters[:9]) + ".{8,64}$"},
        {"type": "string", "not": {"pattern": f"^[{letters[:3]}]*{letters[0]}[{letters[:3]}]{{14}}$"}},
        {"type": "string", "allOf": [{"pattern": f"{letters[0]}.{{{gap}}}{letters[1]}"} for gap in range(1, 12)]},
    ]
    return kinds[number % len(kinds)]


async def attack(url: str, first: int, until: float) -> int:
    """Slow schemas from the number `first` on, one after the other; the number of the next."""
    async with httpx.AsyncClient(timeout=120) as http:
        while time.monotonic() < until:
            await http.post(f"{url}/v1/grammar/check", json={"json_schema": hostile(first)})
            first += 1
    return first


def memory(process: int) -> int:
    """Bytes of a process that lie in memory; none of one that is just ending."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return 1024 * int(found[1]) if found else 0


def workers(process: int) -> int:
    """Bytes of its children that lie in memory."""
    children = Path(f"/proc/{process}/task").glob("*/children")
    return sum(memory(int(child)) for task in children for child in task.read_text().split())


def p99(gaps: list[float]) -> float:
    """The 99th percentile in milliseconds."""
    return 1e3 * statistics.quantiles(gaps, n=100)[98]


async def run(arguments: argparse.Namespace, url: str, process: int) -> int:
    """The phases, and the verdict."""
    tally = Tally()
    until = time.monotonic() + arguments.warm_up + arguments.seconds
    clients = [asyncio.create_task(client(url, number, tally, until)) for number in range(arguments.clients)]
    attacks = 0
    if not arguments.no_hostile:  # one of each kind, so that what they load is there
        for _ in range(3):
            attacks = await attack(url, attacks, time.monotonic() + 0.1)
    await asyncio.sleep(max(0.0, until - arguments.seconds - time.monotonic()))
    warm, warm_workers = memory(process), workers(process)
    while time.monotonic() < until - arguments.window:
        starts = {name: len(gaps) for name, gaps in tally.gaps.items()}
        tally.phase = "calm"
        await asyncio.sleep(arguments.window)
        if arguments.no_hostile:
            continue
        tally.phase = "hostile"
        attacks = await attack(url, attacks, min(until, time.monotonic() + arguments.window))
        pair = {name: tally.gaps[name][starts[name] :] for name in ("calm", "hostile")}
        if min(map(len, pair.values())) > 100:
            tally.pairs.append({name: p99(gaps) for name, gaps in pair.items()})
    await asyncio.gather(*clients)
    end, end_workers = memory(process), workers(process)
    print(f"{arguments.clients} clients, {arguments.seconds:.0f} s: {tally.answers} answers, {len(tally.errors)} errors")
    print(f"{attacks} slow schemas")
    for phase, gaps in tally.gaps.items():
        if len(gaps) > 100:
            print(f"{phase:8} between pieces: p50 {1e3 * statistics.median(gaps):.1f} ms, p99 {p99(gaps):.1f} ms ({len(gaps)})")
    if tally.pairs:
        rises = [100 * (pair["hostile"] / pair["calm"] - 1) for pair in tally.pairs]
        print(f"p99 of a hostile window against the calm one before: {', '.join(f'{rise:+.1f} %' for rise in rises)}")
        print(f"median {statistics.median(rises):+.1f} %")
    print(f"memory: {warm / 1e6:.0f} MB after the warm-up, {end / 1e6:.0f} MB at the end ({100 * (end / warm - 1):+.1f} %)")
    print(f"with its workers {(warm + warm_workers) / 1e6:.0f} MB and {(end + end_workers) / 1e6:.0f} MB")
    for error in tally.errors[:10]:
        print(error)
    return int(bool(tally.errors) or end > 1.05 * warm)


def main() -> int:
    """Start the server, run, stop it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--warm-up", type=float, default=20.0)
    parser.add_argument("--window", type=float, default=8.0, help="seconds of a calm or a hostile window")
    parser.add_argument("--no-hostile", action="store_true")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "stackmask", "serve", "--demo", "--port", "0", "--grammar-cache-bytes", str(16 << 20)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as server:
        assert server.stderr is not None
        found = re.search(r"at (http://\S+)/v1", server.stderr.readline())
        assert found, "the server did not start"
        try:
            return asyncio.run(run(arguments, found[1], server.pid))
        finally:
            server.terminate()


if __name__ == "__main__":
    sys.exit(main())
