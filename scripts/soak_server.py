"""Many streaming clients with a schema each against a server process: every answer valid, no error, no leak, steady pace.

    python scripts/soak_server.py [--clients 64] [--seconds 120] [--no-hostile]

It starts `stackmask serve --demo`, lets the clients warm it up, measures the times between pieces of text for the first half, and again
for the second half, in which schemas that take long to compile come in all the time. At the end it prints p50 and p99 of both, the
memory after the warm-up and at the end, and what went wrong; the exit code is 1 where anything did.
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

WARM_UP = 10.0


@dataclass
class Tally:
    """What the clients saw."""

    gaps: dict[str, list[float]] = field(default_factory=lambda: {"warm-up": [], "calm": [], "hostile": []})
    answers: int = 0
    errors: list[str] = field(default_factory=list)
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


async def attacker(url: str, until: float) -> int:
    """Schemas that take long to compile, one after the other; how many."""
    count = 0
    async with httpx.AsyncClient(timeout=120) as http:
        while time.monotonic() < until:
            count += 1
            wide = {
                f"k{count}_{i}": {"type": "string", "pattern": f"^(?:[a-z]{{{i % 40}}}|x{i})*y{{3,{50 + i % 50}}}$"} for i in range(400)
            }
            await http.post(f"{url}/v1/grammar/check", json={"json_schema": {"type": "object", "properties": wide}})
    return count


def memory(process: int) -> int:
    """Bytes of a process that lie in memory."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[1]) * 1024  # type: ignore[index]


async def run(arguments: argparse.Namespace, url: str, process: int) -> int:
    """The phases, and the verdict."""
    tally = Tally()
    until = time.monotonic() + WARM_UP + arguments.seconds
    clients = [asyncio.create_task(client(url, number, tally, until)) for number in range(arguments.clients)]
    await asyncio.sleep(WARM_UP)
    warm, tally.phase = memory(process), "calm"
    await asyncio.sleep(arguments.seconds / 2)
    attacks = 0
    if not arguments.no_hostile:
        tally.phase = "hostile"
        attacks = await attacker(url, until)
    await asyncio.gather(*clients)
    end = memory(process)
    print(f"{arguments.clients} clients, {arguments.seconds:.0f} s: {tally.answers} answers, {len(tally.errors)} errors")
    print(f"{attacks} slow schemas in the hostile half")
    for phase, gaps in tally.gaps.items():
        if len(gaps) > 100:
            p99 = statistics.quantiles(gaps, n=100)[98]
            print(f"{phase:8} between pieces: p50 {1e3 * statistics.median(gaps):.1f} ms, p99 {1e3 * p99:.1f} ms ({len(gaps)})")
    print(f"memory: {warm / 1e6:.0f} MB after the warm-up, {end / 1e6:.0f} MB at the end ({100 * (end / warm - 1):+.1f} %)")
    for error in tally.errors[:10]:
        print(error)
    return int(bool(tally.errors) or end > 1.05 * warm)


def main() -> int:
    """Start the server, run, stop it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--no-hostile", action="store_true")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "stackmask.integration.cli", "serve", "--demo", "--port", "0", "--grammar-cache-bytes", str(16 << 20)]
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
