"""What is refused before a body is read as JSON."""

import asyncio
import json
import random
import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")

from stackmask.integration.server import gate


def count(body):
    """Separators outside of strings, by an expression over the whole."""
    bare = re.sub(rb'"(?:[^"\\]|\\.)*(?:"|\\?$)', b"", body, flags=re.DOTALL)
    return sum(map(bare.count, gate.SEPARATORS))


def test_more_values(monkeypatch):
    """Values are counted outside of strings, whatever these hold and wherever a chunk ends."""
    monkeypatch.setattr(gate, "CHUNK", 7)
    rng = random.Random(1)

    async def check():
        for _ in range(500):
            parts = ["a,b[", '\\",', ",\\", "x" * rng.randint(0, 20), rng.randint(0, 9), [], {}, {"k,": ["\\\\"]}]
            body = json.dumps(rng.choices(parts, k=rng.randint(0, 8))).encode()
            if rng.random() < 0.2:
                body = body[: rng.randint(0, len(body))]
            number = count(body)
            for most in range(max(0, number - 1), number + 2):
                assert await gate.has_more_values(body, most) == (number > most), (body, most)

    asyncio.run(check())
