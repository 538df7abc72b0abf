"""Compilation in other processes: the same grammars and errors, and nothing that a worker does harms more than its request."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from stackmask.integration.compiler import Compiler
from stackmask.integration.demo import demo_vocabulary
from stackmask.integration.engine.compile import WorkerCompiler
from stackmask.pda.exceptions import LimitError, RegexError, UnsupportedSchemaError
from stackmask.pda.limits import Limits

SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x+$"}}, "requird": ["a"]}


@pytest.fixture(scope="module")
def vocabulary():
    return demo_vocabulary()


@pytest.fixture
def compiler(vocabulary):
    compiler = WorkerCompiler(vocabulary, workers=1)
    yield compiler
    compiler.close()


def test_the_same_grammars(vocabulary, compiler):
    """Each kind gives what a compiler in this process gives, report included; the second time it is there at once."""
    plain = Compiler(vocabulary, threads=1)
    for kind, *arguments in (
        ("json_schema", SCHEMA),
        ("json",),
        ("regex", "a+"),
        ("ebnf", 'root ::= "a" <|end|>'),
        ("lark", 'start: "a" "b"'),
        ("choice", ["a", "b"]),
    ):
        grammar = compiler.submit(kind, *arguments).result()
        expected = getattr(plain, kind)(*arguments)
        assert grammar.fingerprint == expected.fingerprint, kind
        assert (grammar.report is None) == (expected.report is None)
        assert compiler.submit(kind, *arguments).done()
    assert compiler.cache_info.misses == 6


def test_the_same_errors(compiler):
    """Errors come whole: their class, their message and their fields."""
    with pytest.raises(RegexError) as regex:
        compiler.submit("regex", "a(").result()
    assert (regex.value.position, regex.value.line) == (1, 1)
    unsupported = {"type": "string", "contentEncoding": "base64", "$vocabulary": {}, "format": "no-such-format", "pattern": "(a)\\1"}
    with pytest.raises(UnsupportedSchemaError) as schema:
        compiler.submit("json_schema", unsupported).result()
    assert schema.value.problems
    with pytest.raises(ValueError, match="no specification"):
        compiler.submit("yaml", "a")


def test_a_worker_that_ends(compiler):
    """The request of a worker that is gone gets an error, the next one a new worker."""
    assert compiler.submit("regex", "a").result()
    worker = compiler._idle.get()
    worker._process.kill()
    worker._process.wait()
    compiler._idle.put(worker)
    with pytest.raises(LimitError, match="memory"):
        compiler.submit("regex", "b").result()
    assert compiler.submit("regex", "b").result()


def test_limits_of_workers(vocabulary):
    """Time and memory are bounded, and exceeding either is an ordinary error."""
    short = WorkerCompiler(vocabulary, workers=1, limits=Limits(compile_seconds=0.02))
    wide = {f"k{i}": {"type": "string", "pattern": f"^(?:[a-z]{{{i % 40}}}|x)*y{{3,{50 + i % 50}}}$"} for i in range(2000)}
    with pytest.raises(LimitError) as error:
        short.submit("json_schema", {"properties": wide}).result()
    assert error.value.limit == "compile_seconds"
    assert short.submit("regex", "a").result()
    short.close()
    small = WorkerCompiler(vocabulary, workers=1, memory=64 << 20)
    with pytest.raises(LimitError, match=r"memory|started"):
        small.submit("json_schema", {"properties": wide}).result()
    small.close()
