"""Compilation in other processes: the same grammars and errors, and nothing that a worker does harms more than its request."""

import gc
import os
import re
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import stackmask
from stackmask.integration.compiler import Compiler
from stackmask.integration.compiler.cache import Cache
from stackmask.integration.demo import demo_vocabulary
from stackmask.integration.processes import pool, worker
from stackmask.integration.processes.pool import WorkerCompiler
from stackmask.integration.processes.worker import NICE_AFTER
from stackmask.pda.exceptions import EbnfError, LimitError, RegexError, UnsatisfiableError, UnsupportedSchemaError
from stackmask.pda.limits import Limits

SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x+$"}}, "requird": ["a"]}
EMPTY = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}  # an instance would hold another without end


@pytest.fixture(scope="module")
def vocabulary():
    return demo_vocabulary()


@pytest.fixture
def compiler(vocabulary):
    # Workers that take long have idle cores only, and a busy machine has none of them.
    compiler = WorkerCompiler(vocabulary, workers=1, limits=Limits(compile_seconds=600))
    yield compiler
    compiler.close()


TAG = {
    "type": "triggered_tags",
    "triggers": ["<"],
    "tags": [{"begin": "<a", "content": {"type": "json_schema", "json_schema": {"enum": [1], "typo": 2}}, "end": "<|end|>"}],
}


def test_the_size_of_the_vocabulary(vocabulary, compiler):
    """A worker knows which ids of tokens there are."""
    assert compiler.ebnf(f"root ::= <[{vocabulary.size - 1}]>")
    with pytest.raises(EbnfError, match=rf"no token {vocabulary.size}; its ids end at {vocabulary.size - 1}\nline 1, column 10"):
        compiler.ebnf(f"root ::= <[{vocabulary.size}]>")


@pytest.mark.filterwarnings("ignore:/requird")
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
        ("structural_tag", TAG),
    ):
        grammar = compiler.submit(kind, *arguments).result()
        expected = getattr(plain, kind)(*arguments)
        assert grammar.fingerprint == expected.fingerprint, kind
        assert grammar.report == expected.report
        assert compiler.submit(kind, *arguments).done()
    assert compiler.cache_info.misses == 7


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
    worker = compiler._workers._idle.get()
    worker.stop()
    compiler._workers._idle.put(worker)
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


class Tag:
    """A structural tag as an object, such as an engine's own request types are."""

    def __init__(self, **fields):
        self.fields = fields

    def model_dump(self, *, by_alias=False):
        """The tag as plain data."""
        assert by_alias
        return self.fields


def test_specifications_as_objects(vocabulary, compiler):
    """A structural tag with `model_dump` and schemas that only this process knows the types of reach a worker as plain data."""
    pydantic = pytest.importorskip("pydantic")

    class Record(pydantic.BaseModel):
        a: int

    tag = Tag(type="structural_tag", format={"type": "const_string", "value": "yes"})
    assert compiler.submit("structural_tag", tag).result().matcher().accept_bytes(b"yes")
    assert compiler.submit("json_schema", Record).result().matcher().accept_bytes(b'{"a": 1}')
    documents = {"https://example.org/r": Record}
    grammar = compiler.submit("json_schema", {"$ref": "https://example.org/r"}, documents=documents).result()
    assert grammar.fingerprint == Compiler(vocabulary).json_schema({"$ref": "https://example.org/r"}, documents=documents).fingerprint


def test_a_schema_that_is_empty_as_a_whole(vocabulary, compiler):
    """Where the engine finds that nothing is generated, the worker says why."""
    with pytest.raises(UnsatisfiableError) as expected:
        Compiler(vocabulary).json_schema(EMPTY)
    with pytest.raises(UnsatisfiableError) as remote:
        compiler.submit("json_schema", EMPTY).result()
    assert str(remote.value) == str(expected.value)


def test_a_worker_that_grew(vocabulary, monkeypatch):
    """After a specification that took much memory another worker takes over; not after others."""
    monkeypatch.setattr(pool, "GROWTH", 4 << 20)  # so that what takes so much is soon compiled: a busy machine leaves no core for long work
    compiler = WorkerCompiler(vocabulary, workers=1, limits=Limits(compile_seconds=600))
    try:
        assert compiler.submit("regex", "a").result()
        first = compiler._workers._idle.queue[-1]
        assert first is not None
        assert compiler.submit("regex", "b").result()
        assert compiler._workers._idle.queue[-1] is first
        compiler.submit("json_schema", {"type": "boolean", "examples": [f"v{number}" for number in range(200_000)]}).result()
        until = time.monotonic() + 60
        while first._handle != -1 and time.monotonic() < until:
            time.sleep(0.01)
        assert first._handle == -1, "it was closed"
        assert first not in compiler._workers._idle.queue
        assert compiler.submit("regex", "c").result()
    finally:
        compiler.close()


def test_the_size_of_a_grammar(vocabulary):
    """What a cache counts includes the engine's automata, which may be far larger than the grammar that they are made from."""
    pattern = "(?=.*a)(?=.*b)(?=.*c)(?=.*d)(?=.*e)[a-z]{8,64}"
    grammar = Compiler(vocabulary).regex(pattern)
    states = grammar._kernel.statistics.get("nfa_states", 0)
    assert grammar.size >= 64 * states


def test_failures_hold_nothing():
    """What a compilation had made when it failed is gone at once, though its error lives on, and the garbage collector does not come."""
    kept = []
    cache = Cache(1 << 20)

    class Large:
        """Something that knows whether it is there."""

    def make():
        large = Large()
        kept.append(weakref.ref(large))
        raise LimitError("too large", limit="states")

    gc.disable()
    try:
        with pytest.raises(LimitError) as direct:
            cache.get("a", make)
        with ThreadPoolExecutor(1) as executor, pytest.raises(LimitError) as remote:
            cache.submit("b", make, executor).result()
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()
    assert direct.value.limit == remote.value.limit == "states"


def test_what_is_too_large_to_keep_costs_nobody(vocabulary):
    """A grammar larger than the cache is not kept, and those that are stay."""
    compiler = Compiler(vocabulary, cache_bytes=64 << 10)
    small = compiler.choice(["a", "b"])
    assert compiler.regex("(?=.*a)(?=.*b)(?=.*c)(?=.*d)(?=.*e)[a-z]{8,64}").size > 64 << 10
    assert compiler.choice(["a", "b"]) is small
    assert compiler.cache_info.entries == 1 and compiler.cache_info.size == small.size


def test_a_slow_specification_leaves_a_worker_to_others(vocabulary):
    """While one compiles for long, others are served."""
    compiler = WorkerCompiler(vocabulary)
    slow = compiler.submit("json_schema", {"allOf": [{"type": "string", "pattern": f"a.{{{gap}}}b"} for gap in range(1, 12)]})
    assert compiler.submit("regex", "a").result()
    assert not slow.done()
    compiler.close()


def test_workers_started_before_they_are_needed(vocabulary, monkeypatch):
    """The first specification takes one that is there; where none can be started, that is an error, and the next attempt may do better."""
    compiler = WorkerCompiler(vocabulary, workers=2)
    make = compiler._workers._make

    def fail():
        raise LimitError("no process", limit="memory")

    monkeypatch.setattr(compiler._workers, "_make", fail)
    with pytest.raises(LimitError, match="no process"):
        compiler.start_workers()
    monkeypatch.setattr(compiler._workers, "_make", make)
    compiler.start_workers()
    numbers = {worker.number for worker in list(compiler._workers._idle.queue)}
    assert len(numbers) == 3
    monkeypatch.setattr(compiler._workers, "_make", fail)
    compiler.start_workers()
    assert compiler.submit("regex", "a").result(timeout=60)
    assert {worker.number for worker in list(compiler._workers._idle.queue)} == numbers
    compiler.close()


def test_a_turn_that_has_not_come(vocabulary, compiler):
    """What waits for others' specifications has not begun; what is there has."""
    assert compiler.submit("regex", "a").result()
    slow = compiler.submit("json_schema", {"allOf": [{"type": "string", "pattern": f"a.{{{gap}}}b"} for gap in range(1, 12)]})
    slow.begun.result(timeout=30)
    waiting = compiler.submit("regex", "never")
    assert not slow.done() and not waiting.begun.done()
    assert compiler.submit("regex", "a").begun.done()
    compiler.close()


def test_large_grammars(vocabulary, compiler):
    """What a large grammar is made of comes by the file, and is the same; the file is empty then, and small ones do without."""
    wide = {"properties": {f"k{i}": {"type": "string", "pattern": f"^[a-z]{{{i % 7}}}y{{3,{5 + i % 5}}}$"} for i in range(3000)}}
    for schema in (wide, {"enum": [1]}, {"title": "again", **wide}):
        expected = Compiler(vocabulary, threads=1).json_schema(schema)
        assert compiler.submit("json_schema", schema).result().fingerprint == expected.fingerprint
    worker = compiler._workers._idle.get()
    if worker is not None:
        assert os.fstat(worker._file.fileno()).st_size == 0
    compiler._workers._idle.put(worker)


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux")
def test_what_takes_long_is_lowered(compiler):
    """A task begins with the priority of this process, has the lowest one after a while, and at last only what nobody else wants."""
    compiler.submit("regex", "a").result()
    worker = compiler._workers._idle.queue[-1]
    slow = compiler.submit("json_schema", {"allOf": [{"type": "string", "pattern": f"a.{{{gap}}}b"} for gap in range(1, 12)]})
    until = time.monotonic() + 20
    tasks, threads = Path(f"/proc/{worker.number}/task"), []
    while threads.count(19) < 1:  # the task
        assert time.monotonic() < until and not slow.done()
        threads = [os.getpriority(os.PRIO_PROCESS, int(thread.name)) for thread in tasks.iterdir()]
    assert min(threads) == os.getpriority(os.PRIO_PROCESS, 0)
    while [os.sched_getscheduler(int(thread.name)) for thread in tasks.iterdir()].count(os.SCHED_IDLE) != 1:  # the task
        assert time.monotonic() < until and not slow.done()
    worker.stop()


def test_the_kernel_lowers_after_the_same_time():
    """The kernel's own thread and a worker's tasks get the lowest priority after the same time."""
    kernel = Path(stackmask.__file__).parent / "pda" / "kernel"
    lowering = [text for path in kernel.rglob("*.h") if "setpriority(" in (text := path.read_text(encoding="utf-8"))]
    assert len(lowering) == 1
    (milliseconds,) = re.findall(r"milliseconds \w+\{(\d+)\}", lowering[0])
    assert int(milliseconds) == 1000 * NICE_AFTER


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere threads have no priority of their own")
@pytest.mark.parametrize(("task", "priority"), [(b"wait", 0), (b"work", worker.LOWEST)])
def test_only_a_task_that_works_for_long_is_lowered(task, priority):
    """A task that waits for a core, as on a busy machine, keeps its priority; one that takes the time loses it."""

    class Busy:
        def answer(self, task):
            if task == b"wait":
                time.sleep(4 * NICE_AFTER)
            else:
                end = time.thread_time() + 4 * NICE_AFTER
                while time.thread_time() < end:
                    pass
            return str(os.getpriority(os.PRIO_PROCESS, threading.get_native_id())).encode()

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    thread = worker._TaskThread(Busy())
    assert int(thread.answer(task)) == max(priority, before)
    assert thread.is_lowered == (task == b"work")


LOADED = """
import sys
from stackmask.integration.processes import worker
loaded = []
worker._load(loaded, False)
modules = set(sys.modules)
import stackmask
compiler = stackmask.Compiler(stackmask.Vocabulary.from_bytes([b"a"], stop_token_ids=[]))
compiler.json_schema({"type": "object", "properties": {"a": {"format": "date"}}, "patternProperties": {"^b": {"not": {"const": 1}}}})
compiler.regex("(?=a)[a-c]+")
compiler.ebnf('root ::= "a" [b-z]+')
compiler.lark("%import common.NUMBER\\nstart: NUMBER")
compiler.lark('start: %json {"type": "string"}')
compiler.choice(["a", "b"])
compiler.structural_tag({"type": "json_schema", "style": "qwen_xml", "json_schema": {"type": "object"}})
print(*sorted(name for name in set(sys.modules) - modules if name.startswith(("lark", "stackmask"))))
"""


def test_no_worker_loads_a_front_end():
    """The process that workers are forked from has loaded what compiles grammars: the first of a kind takes no longer than others."""
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == ""
