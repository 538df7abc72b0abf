"""Outlines' generators on stackmask, for its three kinds of local models."""

import re
from types import SimpleNamespace
from typing import Literal

import pytest

outlines = pytest.importorskip("outlines")
pytest.importorskip("torch")

import outlines.backends  # noqa: E402, F811
from outlines.models import LlamaCpp  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402

from stackmask.integration.outlines import StackmaskBackend, use_stackmask  # noqa: E402
from stackmask.integration.outlines.backend import OutlinesError  # noqa: E402


class Person(BaseModel):
    """A type to ask for."""

    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=120)


@pytest.fixture
def switched(monkeypatch):
    """Outlines with the back end, as it was before afterwards."""
    for name in ("_get_backend", "CFG_DEFAULT_BACKEND", "JSON_SCHEMA_DEFAULT_BACKEND", "REGEX_DEFAULT_BACKEND"):
        monkeypatch.setattr(outlines.backends, name, getattr(outlines.backends, name))
    use_stackmask()


def test_transformers(switched, model):
    """Types, patterns, choices and grammars; the same generator twice, and a batch."""
    wrapped = outlines.from_transformers(*model)
    generator = outlines.Generator(wrapped, Person)
    for _ in range(2):
        assert 0 <= Person.model_validate_json(generator("Write a person as JSON.", max_new_tokens=120)).age <= 120
    answers = generator.batch(["Write a person as JSON.", "Write a person."], max_new_tokens=120)
    assert all(Person.model_validate_json(answer) for answer in answers)
    assert outlines.Generator(wrapped, Literal["yes", "no"])("Yes or no?", max_new_tokens=10) in ("yes", "no")
    pattern = "(?=.*7)[0-9]{3}"  # a lookahead, which the default back end refuses
    assert re.fullmatch(pattern, outlines.Generator(wrapped, outlines.regex(pattern))("A number", max_new_tokens=10))
    lark = 'start: "a" [start] "b"'
    assert re.fullmatch("a+b+", outlines.Generator(wrapped, outlines.types.CFG(lark))("ab", max_new_tokens=40)[:1] + "b")
    ebnf = 'root ::= "x" | "yz"'
    assert outlines.Generator(wrapped, outlines.types.CFG(ebnf))("?", max_new_tokens=10) in ("x", "yz")
    backend = outlines.backends._get_backend("stackmask", wrapped)
    assert backend is outlines.backends._get_backend("stackmask", wrapped), "a model's vocabulary is read once"
    processor = backend.get_json_schema_logits_processor('{"type": "array", "items": {"const": 1}, "maxItems": 3}', r"\n")
    assert re.fullmatch(r"\[\n(1(\n,\n1)*\n)?\]", outlines.Generator(wrapped, processor=processor)("Ones", max_new_tokens=20))


def test_other_back_ends_are_still_there(switched, model):
    """A back end that is named is that one; the default can be given back."""
    wrapped = outlines.from_transformers(*model)
    assert not isinstance(outlines.backends._get_backend("outlines_core", wrapped), StackmaskBackend)
    with pytest.raises(ValueError, match="not supported"):
        outlines.backends._get_backend("nothing", wrapped)
    finder = outlines.backends._get_backend
    use_stackmask(default=False)
    assert outlines.backends._get_backend is finder
    assert outlines.backends.JSON_SCHEMA_DEFAULT_BACKEND == "outlines_core"
    use_stackmask()
    assert outlines.backends.JSON_SCHEMA_DEFAULT_BACKEND == "stackmask"
    generator = outlines.Generator(wrapped, Person, backend="stackmask")
    assert type(generator.logits_processor).__module__.startswith("stackmask")


def test_another_version_is_refused(monkeypatch):
    """A version without the names that are replaced is an error."""
    monkeypatch.delattr(outlines.backends, "_get_backend")
    with pytest.raises(OutlinesError, match="_get_backend"):
        use_stackmask()


def test_mlx(switched):
    """A model of mlx-lm."""
    mlx_lm = pytest.importorskip("mlx_lm")
    from stackmask.integration.demo import demo_model_path

    wrapped = outlines.from_mlxlm(*mlx_lm.load(str(demo_model_path())))
    generator = outlines.Generator(wrapped, Person)
    for _ in range(2):
        assert Person.model_validate_json(generator("Write a person as JSON.", max_tokens=120))


def test_llama_cpp_and_others(switched, monkeypatch, tmp_path):
    """A model of llama-cpp-python gets the processor that it calls with arrays; one that is none of these is refused."""
    pytest.importorskip("gguf")
    from support.gguf_models import random_gguf

    from stackmask.integration.llama_cpp.fetch import fetched_library
    from stackmask.integration.llama_cpp.library import Library
    from stackmask.integration.llama_cpp.logits_processor import GrammarLogitsProcessor
    from stackmask.integration.llama_cpp.model import LlamaModel

    with pytest.raises(OutlinesError, match="SimpleNamespace is not a model"):
        StackmaskBackend(SimpleNamespace())
    if (path := fetched_library()) is None:
        pytest.skip("there is no llama.cpp: python -m stackmask.integration.llama_cpp.fetch")
    monkeypatch.setenv("STACKMASK_LIBLLAMA", str(path))
    model = LlamaModel(random_gguf(tmp_path / "spm.gguf"), threads=1, library=Library.open(path))
    wrapped = LlamaCpp.__new__(LlamaCpp)
    wrapped.model = SimpleNamespace(model=model.pointer)
    processor = outlines.Generator(wrapped, Person).logits_processor
    assert isinstance(processor, GrammarLogitsProcessor)
