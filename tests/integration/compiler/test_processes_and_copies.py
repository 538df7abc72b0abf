"""Vocabularies, grammars and compilers in other processes: pickled, copied and forked; and objects that were never made."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

import stackmask
from stackmask import CompiledGrammar, Compiler, Limits, Vocabulary
from stackmask.pda import _kernel

TOKENS: list[bytes | None] = [*(bytes([byte]) for byte in range(256)), None, b"ab", None, b"<tool>"]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


def vocabulary() -> Vocabulary:
    """Bytes, a stop token, a longer token, and one with a name."""
    return Vocabulary.from_bytes(TOKENS, stop_token_ids=[256], special={"<|call|>": 258}, size=300)


def allowed(grammar: CompiledGrammar, text: bytes) -> list[int]:
    """What may follow a text."""
    matcher = grammar.matcher()
    assert matcher.accept_bytes(text)
    return matcher.allowed_tokens()


def test_pickles() -> None:
    """A vocabulary, a grammar and a compiler come out of a pickle as they went in, and share the vocabulary there."""
    before = vocabulary()
    compiler = Compiler(before, limits=Limits(states=70_000), cache_bytes=1 << 20, threads=3)
    grammar = compiler.json_schema(SCHEMA)
    tokens, again, made = pickle.loads(pickle.dumps((before, grammar, compiler)))
    assert (tokens.tokens, tokens.size, dict(tokens.special)) == (before.tokens, before.size, dict(before.special))
    assert tokens.stop_token_ids == before.stop_token_ids
    assert tokens.fingerprint == before.fingerprint
    assert again.vocabulary is tokens
    assert made.vocabulary is tokens
    assert again.fingerprint == grammar.fingerprint
    for text in (b"", b'{"a"', b'{"a": 1'):
        assert allowed(again, text) == allowed(grammar, text)
    assert made.limits == compiler.limits
    assert made.cache_info.capacity == 1 << 20
    assert made.cache_info.entries == 0
    assert made.submit("regex", "a+").result(10).matcher().accept_bytes(b"aa")


def test_a_name_with_text_keeps_it() -> None:
    """A text token that was added under a name has its text in the copy, too."""
    before = Vocabulary._make(list(TOKENS), stop_token_ids=[256], special={"<|call|>": 258}, named={"<tool>": 259}, size=300)
    after = pickle.loads(pickle.dumps(before))
    assert after.token_bytes(259) == b"<tool>"
    assert after.fingerprint == before.fingerprint


def test_copies() -> None:
    """What is immutable is its own copy; a compiler's shares nothing but the vocabulary; a matcher's is a fork."""
    before = vocabulary()
    compiler = Compiler(before)
    grammar = compiler.regex("ab*c")
    assert copy.copy(before) is copy.deepcopy(before) is before
    assert copy.deepcopy({"grammar": grammar})["grammar"] is grammar
    fork = copy.deepcopy(compiler)
    assert fork is not compiler
    assert fork.vocabulary is before
    assert fork.cache_info.entries == 0
    matcher = grammar.matcher()
    assert matcher.accept_bytes(b"ab")
    for other in (copy.copy(matcher), copy.deepcopy(matcher)):
        assert other.accept_bytes(b"c")
        assert other.is_completed()
    assert not matcher.is_completed()
    with pytest.raises(TypeError, match="a Matcher cannot be pickled: send its grammar"):
        pickle.dumps(matcher)


def test_a_pool_of_processes() -> None:
    """A grammar goes to processes that were spawned, which may not know this module."""
    grammar = Compiler(vocabulary()).json_schema(SCHEMA)
    mask = "[matcher.allowed_tokens() for matcher in [grammar.matcher()] if matcher.accept_bytes(text)]"
    text = b'{"a": 1'
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(eval, mask, {"grammar": grammar, "text": text}).result(60) == [allowed(grammar, text)]


FORKED = """
import os, sys, threading
import numpy as np
import stackmask
from stackmask.pda import _kernel

tokens = [*(bytes([byte]) for byte in range(256)), None]
vocabulary = stackmask.Vocabulary.from_bytes(tokens, stop_token_ids=[256])
compiler = stackmask.Compiler(vocabulary)
grammar = compiler.submit("regex", "a*b").result()
matcher = grammar.matcher()
mask = np.zeros((1, 9), np.int32)
rows, filler = _kernel.MatcherRows([matcher], mask), _kernel.BitmaskFiller()
filler.begin(rows)
filler.end()
before = mask.copy()
mask[:] = 0
if {busy}:
    filler.begin(rows)
child = os.fork()
if child == 0:
    if {busy}:
        try:
            filler.end()
        except RuntimeError as error:
            assert "forked" in str(error)
    mask[:] = 0
    filler.begin(rows)
    try:
        filler.end()
        assert (mask == before).all()
        assert matcher.accept_bytes(b"aab")
    except RuntimeError as error:  # the thread that was left behind had the grammar
        assert {busy} and "compile it again" in str(error)
    assert compiler.submit("regex", "a*b").result(20).matcher().accept_bytes(b"aab")
    assert compiler.regex("x").matcher().accept_bytes(b"x")
    os._exit(7)
if {busy}:
    filler.end()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert compiler.submit("regex", "c").result(20).matcher().accept_bytes(b"c")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.parametrize("busy", [False, True])
def test_a_fork(busy: bool) -> None:
    """In the child `submit` answers and masks are filled in the background; the parent's go on."""
    subprocess.run([sys.executable, "-c", FORKED.format(busy=busy)], check=True, timeout=120)


DAEMON = """
import threading, time
import stackmask
tokens = [*(bytes([byte]) for byte in range(256)), None]
vocabulary = stackmask.Vocabulary.from_bytes(tokens, stop_token_ids=[256])
compiler = stackmask.Compiler(vocabulary, limits=stackmask.Limits(step_work=10**15))
grammar = compiler.regex("(?:(?:[ab]{1,90}){1,100}){1,91}c")
kept = [grammar.matcher() for _ in range(3)]
{threads}
class Cycle:
    pass
cycle = Cycle()
cycle.self, cycle.kept = cycle, kept
"""
LONG_CALL = """
threading.Thread(target=lambda: grammar.matcher().accept_bytes(b"a" * 10**6), daemon=True).start()
time.sleep(0.3)
"""
SHORT_CALLS = """
def fill_masks():
    while True:
        grammar.matcher().allowed_tokens()
for _ in range(3):
    threading.Thread(target=fill_masks, daemon=True).start()
time.sleep(0.1)
"""


@pytest.mark.parametrize("threads", ["", LONG_CALL, SHORT_CALLS], ids=["idle", "long_call", "short_calls"])
def test_the_interpreter_ends_with_live_objects(threads: str) -> None:
    """Neither objects in cycles nor threads in the kernel make the end of the process a crash."""
    ended = subprocess.run([sys.executable, "-c", DAEMON.replace("{threads}", threads)], capture_output=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def unmade() -> list[Any]:
    """An object of each class of the kernel that no constructor has made."""
    kinds = [kind for kind in vars(_kernel).values() if isinstance(kind, type)]
    assert len(kinds) >= 5
    return [kind.__new__(kind) for kind in kinds if kind is not _kernel.TokenTrie]


@pytest.mark.filterwarnings("ignore:nanobind")
def test_objects_that_were_never_made() -> None:
    """Every method of one raises an exception."""
    for target in unmade():
        for name in dir(type(target)):
            if name.startswith("__") and name not in ("__repr__",):
                continue
            for arguments in ((), (0,), (b"",), ([],), (target,), (target, None)):
                with pytest.raises((TypeError, RuntimeError)):
                    attribute = getattr(target, name)
                    attribute(*arguments)
                    raise RuntimeError("nothing was raised")
    matcher = _kernel.Matcher.__new__(_kernel.Matcher)
    for call in (
        lambda: _kernel.Matcher.fork(matcher),
        lambda: _kernel.Matcher.fork(5),
        lambda: stackmask.Matcher.__new__(stackmask.Matcher).fork(),
    ):  # type: ignore[arg-type]
        with pytest.raises((TypeError, RuntimeError)):
            call()
    for function in (
        _kernel.completion_lengths,
        lambda given: _kernel.MatcherRows(given, None),
        lambda given: _kernel.fill_bitmasks(given, None),
    ):
        with pytest.raises((TypeError, RuntimeError)):
            function([matcher])
    with pytest.raises((TypeError, RuntimeError)):
        _kernel.BitmaskFiller().begin(_kernel.MatcherRows.__new__(_kernel.MatcherRows))
