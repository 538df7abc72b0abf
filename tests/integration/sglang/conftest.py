"""The demo model's tokenizer as SGLang sees it, and stand-ins for SGLang's modules."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """The tokenizer of a model that thinks."""
    from transformers import AutoTokenizer

    from stackmask.integration.demo import demo_model_path

    made = AutoTokenizer.from_pretrained(demo_model_path())
    made.think_end = made.convert_tokens_to_ids("</think>")
    return made


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """SGLang's modules by their names; grammars compile in this process."""
    from support import sglang

    monkeypatch.setenv("STACKMASK_SGLANG_WORKERS", "0")
    with sglang.installed() as found:
        yield found
