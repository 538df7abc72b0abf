"""Attacks on a server of the demo model, one by one, and what other clients' requests see of them.

    python scripts/attack_server.py [--attack NAME ...] [--clients 4] [--window 4] [--distinct 500] [--ratio 1.1] [--check]

It starts `stackmask serve --demo` on the loopback, where a few clients stream answers under schemas all the time. Each attack comes from
another address of the loopback, for one window at most, between calm windows. A line of the table has the p99 of the times between pieces
in the calm window before and during the attack, their ratio, the longest time between two pieces, the longest answer of /health, what the
attacker got, and the memory of the server and its workers. At the end the server is told to stop in the middle of the worst attacks.

The attacker is a separate process of the lowest priority, and the server has all processors but one, which the clients and the attacker
share: what the times show is the server's doing. Memory is the proportional set size, shared pages once.
With `--check` the exit code is 1 where the server answered with a status 500, logged a traceback, gave a client an error or a wrong answer,
took longer than 5 s to end, where p99 rose by more than `--ratio` (the clients compete with whatever else the machine does), or where
memory grew by more than 128 MB from the first attack to the last.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from jsonschema import Draft202012Validator

ATTACKER = "127.0.0.2"
PROCESSORS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
ASK = [{"role": "user", "content": "Write a person as JSON with name, age."}]
CHAT, CHECK = "/v1/chat/completions", "/v1/grammar/check"
NESTED = "(?:(?:[ab]{1,90}){1,100}){1,91}c"
Bodies = list[tuple[str, Any]]


@dataclass
class Attack:
    """An attacker's client for one window, and what it got."""

    http: httpx.AsyncClient
    until: float
    distinct: int
    statuses: Counter[str] = field(default_factory=Counter)
    slow: float = 0.0

    async def post(self, path: str, body: Any) -> None:
        """One request; a body that is bytes is sent as it is."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        start = time.monotonic()
        try:
            answer = await self.http.post(path, content=content, headers={"Content-Type": "application/json"})
            self.statuses[str(answer.status_code)] += 1
        except httpx.TimeoutException:
            self.statuses["timeout"] += 1
        except httpx.HTTPError as error:
            self.statuses[type(error).__name__] += 1
        self.slow = max(self.slow, time.monotonic() - start)

    async def all(self, bodies: Bodies) -> None:
        """Requests at the same time."""
        await asyncio.gather(*(self.post(path, body) for path, body in bodies))

    async def flood(self, make: Callable[[int], tuple[str, Any]], count: int, width: int) -> None:
        """Up to `count` requests, `width` at a time, as long as the window is open."""
        numbers = iter(range(count))

        async def worker() -> None:
            for number in numbers:
                if time.monotonic() > self.until:
                    return
                await self.post(*make(number))

        await asyncio.gather(*(worker() for _ in range(width)))


def chat(**fields: Any) -> tuple[str, Any]:
    """A chat with these fields."""
    return CHAT, {"messages": ASK, "max_tokens": 20, **fields}


def said(text: str) -> tuple[str, Any]:
    """A chat with this text."""
    return chat(messages=[{"role": "user", "content": text}])


def slow_schema(number: int) -> dict[str, Any]:
    """A schema that takes long; no other number has it."""
    return {"type": "string", "allOf": [{"pattern": f"{number}.{{{gap}}}b"} for gap in range(1, 16)]}


def small_schema(number: int) -> dict[str, Any]:
    """A schema that takes little; no other number has it."""
    names = [f"p{number}_{index}" for index in range(8)]
    return {"type": "object", "properties": {name: {"type": "string", "maxLength": 20} for name in names}, "required": names[:4]}


async def slow_clients(attack: Attack) -> None:
    """Connections that send a byte now and then."""

    async def one() -> None:
        with contextlib.suppress(OSError):
            port = attack.http.base_url.port
            _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(ATTACKER, 0))
            head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
            for byte in head.encode() + b"{" * 1000:
                if time.monotonic() > attack.until:
                    break
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.05)
            writer.close()
            attack.statuses["closed"] += 1

    await asyncio.gather(*(one() for _ in range(200)))


async def hang_ups(attack: Attack) -> None:
    """Streams that are left after their first piece."""
    body = {**chat()[1], "stream": True, "regex": "[a-z]{500}", "max_tokens": 500}
    while time.monotonic() < attack.until and attack.statuses["left"] < 100:
        with contextlib.suppress(httpx.HTTPError):
            async with attack.http.stream("POST", CHAT, json=body) as answer:
                async for _ in answer.aiter_bytes():
                    break
        attack.statuses["left"] += 1


MALFORMED = [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"messages":' * 50, b"[" * 100_000, b'{"a":' * 5000, b"1e999", b'"\\ud800"']

ATTACKS: dict[str, Callable[[Attack], Awaitable[None]]] = {
    "nested count, text of 1 MB": lambda a: a.all([(CHECK, {"regex": NESTED, "text": "ab" * 500_000})]),
    "nested count, five texts": lambda a: a.all([(CHECK, {"regex": NESTED, "text": "a" * 200_000 + str(n)}) for n in range(5)]),
    "long repetitions, checked": lambda a: a.all([(CHECK, {"regex": f"(?:a+b?){{{60_000 + n}}}", "text": "a" * 50_000}) for n in range(3)]),
    "long repetitions, generated": lambda a: a.all([chat(regex=f"(?:a+b?){{{60_000 + n}}}", max_tokens=200) for n in range(3)]),
    "large classes, counted": lambda a: a.all([chat(json_schema={"pattern": f"\\P{{Lu}}(?:\\P{{Lu}}){{{9990 + n}}}"}) for n in range(12)]),
    "lookaheads": lambda a: a.all([chat(regex="".join(f"(?=.*{c})" for c in "abcdefghijklmnop"[: 9 + n]) + ".{8,64}") for n in range(6)]),
    "prompt of 15 MB": lambda a: a.all([said("[" * 15_000_000)]),
    "prompts of 3.9 MB": lambda a: a.all([said("[ab " * 970_000) for _ in range(4)]),
    "prompts of 60 kB": lambda a: a.all([said("[ab " * 15_000) for _ in range(8)]),
    "prompts that just fit": lambda a: a.flood(lambda n: said("Write a person. " * 350 + str(n)), 400, 4),
    "text of 3.9 MB": lambda a: a.all([(CHECK, {"json_schema": {}, "text": "[" * 3_900_000})]),
    "400,000 messages": lambda a: a.all([chat(messages=[{"role": "user", "content": "a"}] * n) for n in (60_000, 9_999)]),
    "a body of brackets": lambda a: a.all([(CHAT, b'{"messages":[' + b"[]," * n + b"[]]}") for n in (1_300_000, 40_000)]),
    "many prompts": lambda a: a.all([("/v1/completions", {"prompt": ["a" * 500] * n}) for n in (16, 4000)]),
    "token ids": lambda a: a.all([("/v1/completions", {"prompt": [5] * n, "max_tokens": 5}) for n in (2000, 90_000)]),
    "numbers": lambda a: a.all([(CHECK, {"json_schema": {"multipleOf": n}, "text": "1"}) for n in (1e300, 1e-300, 5e-324, 123456789)]),
    "a schema of 900 kB": lambda a: a.all([chat(json_schema={"enum": [f"{n}{i:06}" for i in range(90_000)]}) for n in range(3)]),
    "distinct schemas": lambda a: a.flood(lambda n: chat(json_schema=small_schema(n), max_tokens=2), a.distinct, 8),
    "slow schemas": lambda a: a.flood(lambda n: (CHECK, {"json_schema": slow_schema(n)}), 200, 20),
    "tools": lambda a: a.all(
        [chat(tools=[{"type": "function", "function": {"name": f"f{i}", "parameters": small_schema(i)}} for i in range(300)])] * 2
    ),
    "slow clients": slow_clients,
    "hang-ups": hang_ups,
    "malformed bodies": lambda a: a.flood(lambda n: ((CHAT, CHECK)[n % 2], MALFORMED[n % len(MALFORMED)]), 200, 8),
    "wrong paths and methods": lambda a: a.flood(lambda n: (f"/v1/{'x' * (n * 37 % 5000)}?{n}", {}), 200, 8),
}


class Watch:
    """What the other clients see."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.gaps: list[float] = []
        self.health: list[float] = []
        self.errors: list[str] = []
        self.is_over = False

    async def client(self, number: int) -> None:
        """Answers under a schema, one after the other."""
        schema = {**small_schema(-number - 1), "additionalProperties": False}
        validator = Draft202012Validator(schema)
        body = {**chat(json_schema=schema, max_tokens=300)[1], "stream": True}
        async with httpx.AsyncClient(base_url=self.url, timeout=60) as http:
            while not self.is_over:
                text, last = "", 0.0
                try:
                    async with http.stream("POST", CHAT, json=body) as answer:
                        async for line in answer.aiter_lines():
                            if line.startswith("data: {"):
                                event = json.loads(line[6:])
                                if "error" in event:
                                    self.errors.append(line[:200])
                                elif piece := event["choices"][0]["delta"].get("content"):
                                    now = time.monotonic()
                                    if last:
                                        self.gaps.append(now - last)
                                    last, text = now, text + piece
                    if not self.is_over and (answer.status_code != 200 or not validator.is_valid(json.loads(text))):
                        self.errors.append(f"client {number}: {answer.status_code} {text[:200]}")
                except (httpx.HTTPError, ValueError, KeyError) as error:
                    if not self.is_over:
                        self.errors.append(f"client {number}: {error!r}")

    async def ask_health(self) -> None:
        """How long /health takes, again and again."""
        async with httpx.AsyncClient(base_url=self.url, timeout=60) as http:
            while not self.is_over:
                start = time.monotonic()
                with contextlib.suppress(httpx.HTTPError):
                    await http.get("/health")
                self.health.append(time.monotonic() - start)
                await asyncio.sleep(0.1)

    @contextlib.asynccontextmanager
    async def running(self, clients: int) -> AsyncIterator[None]:
        """While it is entered, the clients ask."""
        tasks = [asyncio.create_task(self.client(number)) for number in range(clients)] + [asyncio.create_task(self.ask_health())]
        yield
        self.is_over = True
        await asyncio.gather(*tasks)

    def take(self) -> tuple[float, float, float]:
        """p99 and the longest time between pieces, and the longest answer of /health, in milliseconds, since this was asked last."""
        gaps, health, self.gaps, self.health = self.gaps, self.health, [], []
        p99 = statistics.quantiles(gaps, n=100)[98] if len(gaps) > 100 else max(gaps, default=0.0)
        return 1e3 * p99, 1e3 * max(gaps, default=0.0), 1e3 * max(health, default=0.0)


def memory(process: int) -> float:
    """Megabytes of a process and of what it has started."""
    total = 0.0
    with contextlib.suppress(OSError):
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)
        total = int(found[1]) / 1e3 if found else 0.0
        for task in Path(f"/proc/{process}/task").glob("*/children"):
            total += sum(memory(int(child)) for child in task.read_text().split())
    return total


async def run(arguments: argparse.Namespace, url: str, process: int) -> list[str]:
    """The attacks; what did not hold."""
    failed: list[str] = []
    watch = Watch(url)
    async with watch.running(arguments.clients):
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:  # so that the model's caches have their size
            await asyncio.gather(*(http.post(CHAT, json=said("Write a person. " * 350)[1]) for _ in range(64)))
        await asyncio.sleep(arguments.window)
        before = memory(process)
        print(f"{'':30} {'calm':>7} {'p99':>7} {'ratio':>6} {'longest':>8} {'health':>7} {'MB':>5}  what the attacker got", flush=True)
        for name in arguments.attack or list(ATTACKS):
            attacker = await asyncio.create_subprocess_exec(
                sys.executable, __file__, "--as-attacker", url, "--attack", name, "--window", str(arguments.window),
                "--distinct", str(arguments.distinct), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            assert attacker.stdout is not None
            await attacker.stdout.readline()  # it is ready
            watch.take()
            await asyncio.sleep(arguments.window)
            calm, *_ = watch.take()
            (answer, _), _ = await asyncio.gather(attacker.communicate(b"go\n"), asyncio.sleep(arguments.window))
            statuses, slow = json.loads(answer)
            p99, longest, health = watch.take()
            ratio = p99 / calm if calm else 0.0
            got = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))
            times = f"{calm:7.1f} {p99:7.1f} {ratio:6.2f} {longest:8.0f} {health:7.0f}"
            print(f"{name:30} {times} {memory(process):5.0f}  {got} in {slow:.1f} s", flush=True)
            if any(status.startswith("5") for status in statuses):
                failed.append(f"{name}: {got}")
            if ratio > arguments.ratio:
                failed.append(f"{name}: p99 of the others rose by {100 * (ratio - 1):.0f} %")
        after = memory(process)
        watch.is_over = True
    if after > before + 128:
        failed.append(f"memory grew from {before:.0f} to {after:.0f} MB")
    return failed + watch.errors


async def attack_once(arguments: argparse.Namespace) -> None:
    """Be the attacker: one attack when a line comes, then what it got."""
    print("ready", flush=True)
    sys.stdin.readline()
    transport = httpx.AsyncHTTPTransport(local_address=ATTACKER, limits=httpx.Limits(max_connections=300))
    async with httpx.AsyncClient(base_url=arguments.as_attacker, transport=transport, timeout=60) as http:
        attack = Attack(http, time.monotonic() + arguments.window, arguments.distinct)
        await ATTACKS[arguments.attack[0]](attack)
    print(json.dumps([attack.statuses, attack.slow]))


async def worst(url: str) -> None:
    """The attacks in the middle of which the server is told to stop."""
    async with httpx.AsyncClient(base_url=url, timeout=10) as http:
        attack = Attack(http, 0.0, 0)
        bodies: Bodies = [(CHECK, {"regex": NESTED, "text": "ab" * 500_000}), chat(regex="(?:a+b?){50000}", max_tokens=2000)]
        await attack.all([*bodies, *((CHECK, {"json_schema": slow_schema(number)}) for number in range(4))])


def main() -> int:
    """Start the server, attack it, stop it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attack", action="append", choices=list(ATTACKS), help="one attack by its name; repeatable")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--window", type=float, default=4.0, help="seconds of a calm window and of an attack")
    parser.add_argument("--distinct", type=int, default=500, help="schemas in the flood of distinct ones")
    parser.add_argument("--ratio", type=float, default=1.1, help="how far p99 of the others may rise")
    parser.add_argument("--check", action="store_true", help="exit code 1 where something did not hold")
    parser.add_argument("--as-attacker", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_attacker:
        os.nice(19)
        asyncio.run(attack_once(arguments))
        return 0
    command = [sys.executable, "-m", "stackmask", "serve", "--demo", "--port", "0", "--grammar-cache-bytes", str(16 << 20)]
    lines: list[str] = []
    if len(PROCESSORS) > 1:
        os.sched_setaffinity(0, PROCESSORS[:-1])  # what the server inherits
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as server:
        assert server.stderr is not None
        if len(PROCESSORS) > 1:
            os.sched_setaffinity(0, PROCESSORS[-1:])
        while not (found := re.search(r"at (http://\S+)/v1", "".join(lines))):
            line = server.stderr.readline()
            assert line, f"the server did not start: {lines}"
            lines.append(line)
        reader = threading.Thread(target=lambda: lines.extend(server.stderr or ()), daemon=True)
        reader.start()
        try:
            failed = asyncio.run(run(arguments, found[1], server.pid))
            threading.Thread(target=lambda: asyncio.run(worst(found[1])), daemon=True).start()
            time.sleep(2)
            start = time.monotonic()
            server.send_signal(signal.SIGTERM)
            code = server.wait(60)
            seconds = time.monotonic() - start
            print(f"told to stop in the middle of attacks, it ended after {seconds:.1f} s with exit code {code}")
            if seconds > 5:
                failed.append(f"it took {seconds:.1f} s to end")
        finally:
            server.kill()
        reader.join(5)
    if any("Traceback" in line for line in lines):
        failed.append("a traceback: " + "".join(lines)[-2000:])
    for line in failed:
        print(f"FAILED {line}")
    print("all held" if not failed else f"{len(failed)} did not hold")
    return int(arguments.check and bool(failed))


if __name__ == "__main__":
    sys.exit(main())
