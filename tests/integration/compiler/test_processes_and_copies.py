"""Vocabularies, grammars and compilers in other processes: pickled, copied and forked."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys

import pytest

from stackmask import CompiledGrammar, Compiler, Limits, Vocabulary

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
    twin = copy.deepcopy(compiler)
    assert twin is not compiler
    assert twin.vocabulary is before
    assert twin.cache_info.entries == 0
    matcher = grammar.matcher()
    assert matcher.accept_bytes(b"ab")
    for other in (copy.copy(matcher), copy.deepcopy(matcher)):
        assert other.accept_bytes(b"c")
        assert other.is_completed()
    assert not matcher.is_completed()
    with pytest.raises(TypeError, match="a Matcher cannot be pickled: send its grammar"):
        pickle.dumps(matcher)


def work(grammar: CompiledGrammar) -> list[int]:
    """Runs in another process."""
    return allowed(grammar, b'{"a": 1')


def test_a_pool_of_processes() -> None:
    """A grammar goes to processes that were spawned."""
    grammar = Compiler(vocabulary()).json_schema(SCHEMA)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(work, (grammar,)) == work(grammar)


FORKED = """
import os, stackmask
tokens = [*(bytes([byte]) for byte in range(256)), None]
vocabulary = stackmask.Vocabulary.from_bytes(tokens, stop_token_ids=[256])
compiler = stackmask.Compiler(vocabulary)
grammar = compiler.submit("regex", "a*b").result()
child = os.fork()
if child == 0:
    assert compiler.submit("regex", "a*b").result(20).matcher().accept_bytes(b"aab")
    assert compiler.regex("x").matcher().accept_bytes(b"x")
    assert grammar.matcher().accept_bytes(b"aab")
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert compiler.submit("regex", "c").result(20).matcher().accept_bytes(b"c")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_fork() -> None:
    """In the child `submit` answers; the parent's go on."""
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=120)
