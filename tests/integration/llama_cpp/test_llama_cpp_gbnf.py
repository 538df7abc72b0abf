"""GBNF as llama.cpp reads it: its own sampler takes the text, and allows what the grammar allows."""

import ctypes
import json
import random
from pathlib import Path

import pytest
from support.compiled import compiled, corpus

from stackmask.integration.compiler import Compiler
from stackmask.integration.llama_cpp.library import TokenData, TokenDataArray
from stackmask.pda.exceptions import GrammarError, UnsatisfiableError

LINES = (Path(__file__).parents[2] / "corpus" / "agent_tools.jsonl").read_text("utf-8").splitlines()
SMALL = [(file, case) for file, case in corpus() if file in ("ebnf", "grammar", "json_schema", "lark", "regex") and "special" not in case]


@pytest.fixture(scope="module")
def judge(library, loaded):
    """A walk of llama.cpp's sampler of a GBNF: the tokens that it allows, and a token taken."""
    native = library.native
    for name, result, arguments in (
        ("llama_sampler_init_grammar", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]),
        ("llama_sampler_apply", None, [ctypes.c_void_p, ctypes.POINTER(TokenDataArray)]),
        ("llama_sampler_accept", None, [ctypes.c_void_p, ctypes.c_int32]),
    ):
        getattr(native, name).restype, getattr(native, name).argtypes = result, arguments
    model, tokenizer = loaded["spm"]
    size = tokenizer.vocabulary.size

    class Judge:
        def __init__(self, text):
            self.sampler = native.llama_sampler_init_grammar(model.vocab, text.encode(), b"root")
            assert self.sampler, text

        def allowed(self):
            table = (TokenData * size)(*(TokenData(token, 1.0, 0.0) for token in range(size)))
            array = TokenDataArray(ctypes.addressof(table), size, -1, False)
            native.llama_sampler_apply(self.sampler, ctypes.byref(array))
            return {entry.id for entry in table if entry.logit == 1.0}

        def accept(self, token):
            native.llama_sampler_accept(self.sampler, token)

        def close(self):
            native.llama_sampler_free(self.sampler)

    return Judge


def is_plain(data):
    """Whether the bytes of a token are whole characters, none of them NUL, with which llama.cpp ends a text."""
    try:
        return data is not None and data[:1] != b"\0" and bool(data.decode())
    except UnicodeDecodeError:
        return False


def compare(judge, grammar, vocabulary, seed, steps):
    """Both allow the same whole characters along a random walk of these, and the end at the same places."""
    gbnf = grammar.to_gbnf()
    plain = {token for token in range(vocabulary.size) if is_plain(vocabulary.token_bytes(token))}
    plain.update(vocabulary.stop_token_ids)
    randomness, matcher, other = random.Random(seed), grammar.matcher(), judge(gbnf.text)
    try:
        for _ in range(steps):
            ours, theirs = plain & set(matcher.allowed_tokens()), plain & other.allowed()
            assert ours == theirs if not gbnf.lost else ours <= theirs, (gbnf.text, gbnf.lost)
            going = sorted(ours - set(vocabulary.stop_token_ids))
            if not going:
                return
            token = randomness.choice(going)
            assert matcher.accept_token(token)
            other.accept(token)
    finally:
        other.close()


@pytest.mark.parametrize("place", range(0, len(SMALL), 9), ids=lambda place: f"{SMALL[place][0]}-{SMALL[place][1]['name']}")
def test_the_corpus(judge, loaded, place):
    """Cases of the corpus of grammars."""
    vocabulary = loaded["spm"][1].vocabulary
    file, case = SMALL[place]
    try:
        grammar = Compiler(vocabulary).ebnf(compiled(file, case).to_ebnf())
        grammar.to_gbnf()
    except (GrammarError, UnsatisfiableError) as error:
        pytest.skip(str(error).splitlines()[0])
    compare(judge, grammar, vocabulary, case["name"], 12)


@pytest.mark.parametrize("place", range(0, 100, 5), ids=lambda place: json.loads(LINES[place])["name"])
def test_tools_of_agents(judge, loaded, place):
    """Tool schemas that llama.cpp's own conversion refuses or loosens: lookaheads, long texts, recursive definitions."""
    vocabulary = loaded["spm"][1].vocabulary
    grammar = Compiler(vocabulary).json_schema(json.loads(LINES[place])["parameters"], whitespace="compact")
    compare(judge, grammar, vocabulary, place, 25)


def test_all_tools_are_taken(judge, loaded):
    """Of each of the hundred schemas llama.cpp takes the text."""
    compiler = Compiler(loaded["spm"][1].vocabulary)
    losses = {}
    for line in LINES:
        tool = json.loads(line)
        gbnf = compiler.json_schema(tool["parameters"], whitespace="compact").to_gbnf()
        judge(gbnf.text).close()
        if gbnf.lost:
            losses[tool["name"]] = gbnf.lost
    assert all("differ" in text or "characters" in text for lost in losses.values() for text in lost), losses
    assert len(losses) < 15, losses
