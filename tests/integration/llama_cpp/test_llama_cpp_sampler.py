"""Grammars as samplers of llama.cpp, and as logits processors of llama-cpp-python."""

import ctypes
import importlib
import random
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from stackmask.integration.compiler import Compiler
from stackmask.integration.llama_cpp.library import ChainParams, TokenData, TokenDataArray
from stackmask.integration.llama_cpp.logits_processor import GrammarLogitsProcessor, llama_vocabulary
from stackmask.integration.llama_cpp.sampler import GrammarSamplers
from stackmask.pda.exceptions import GrammarError

PATTERN = r'\{"(name|age)":("[a-zäé]{0,6}"|-?[0-9]{1,3})(,"[a-z]+":(true|null))*\}'


@pytest.fixture(scope="module")
def chain_of(library):
    """A maker of sampler chains out of the addresses of samplers; they are freed in the end."""
    native, chains = library.native, []
    for name, result, arguments in (
        ("llama_sampler_chain_init", ctypes.c_void_p, [ChainParams]),
        ("llama_sampler_chain_add", None, [ctypes.c_void_p, ctypes.c_void_p]),
        ("llama_sampler_init_dist", ctypes.c_void_p, [ctypes.c_uint32]),
        ("llama_sampler_init_top_k", ctypes.c_void_p, [ctypes.c_int32]),
        ("llama_sampler_sample", ctypes.c_int32, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32]),
        ("llama_sampler_apply", None, [ctypes.c_void_p, ctypes.POINTER(TokenDataArray)]),
        ("llama_sampler_accept", None, [ctypes.c_void_p, ctypes.c_int32]),
        ("llama_sampler_reset", None, [ctypes.c_void_p]),
        ("llama_sampler_clone", ctypes.c_void_p, [ctypes.c_void_p]),
        ("llama_sampler_copy", None, [ctypes.c_void_p, ctypes.c_void_p]),
        ("llama_sampler_name", ctypes.c_char_p, [ctypes.c_void_p]),
    ):
        getattr(native, name).restype, getattr(native, name).argtypes = result, arguments

    def make(*samplers):
        chain = native.llama_sampler_chain_init(ChainParams(no_perf=True))
        for sampler in samplers:
            native.llama_sampler_chain_add(chain, sampler)
        chains.append(chain)
        return chain

    yield make
    for chain in chains:
        native.llama_sampler_free(chain)


@pytest.fixture(scope="module")
def samplers(library):
    return GrammarSamplers(library)


@pytest.fixture(scope="module")
def compilers(loaded):
    return {name: Compiler(tokenizer.vocabulary) for name, (_, tokenizer) in loaded.items()}


def allowed(library, sampler, ids):
    """The tokens that a sampler lets pass of these candidates, given in this order."""
    table = (TokenData * len(ids))(*(TokenData(token, 1.0, 0.0) for token in ids))
    array = TokenDataArray(ctypes.addressof(table), len(ids), -1, True)
    library.native.llama_sampler_apply(sampler, ctypes.byref(array))
    assert array.size == len(ids)
    return {entry.id for entry in table if entry.logit == 1.0}


@pytest.mark.parametrize("name", ["demo", "spm", "bpe"])
def test_exactly_what_the_grammar_allows_passes(library, loaded, samplers, compilers, chain_of, name):
    """On random walks each token passes if and only if its bytes can follow; stop tokens pass where the text is complete."""
    vocabulary = loaded[name][1].vocabulary
    grammar = compilers[name].regex(PATTERN)
    randomness = random.Random(name)
    sampler = samplers.make(grammar)
    chain_of(sampler)
    ids = list(range(vocabulary.size))
    for _ in range(5):
        library.native.llama_sampler_reset(sampler)
        text = b""
        for _ in range(60):
            randomness.shuffle(ids)
            found = allowed(library, sampler, ids)
            at = grammar.matcher()
            assert at.accept_bytes(text)
            expected = set()
            for token in ids:
                data = vocabulary.token_bytes(token)
                fork = at.fork()
                if (data and fork.accept_bytes(data)) or (token in vocabulary.stop_token_ids and at.is_completed()):
                    expected.add(token)
            assert found == expected
            token = randomness.choice(sorted(found))
            library.native.llama_sampler_accept(sampler, token)
            if token in vocabulary.stop_token_ids:
                break
            text += vocabulary.token_bytes(token)
        assert re.fullmatch(PATTERN, text.decode("utf-8", "replace")) or token not in vocabulary.stop_token_ids
    assert samplers.refused(sampler) is None


@pytest.mark.parametrize("name", ["demo", "spm", "bpe"])
def test_llama_cpp_samples_valid_texts(library, loaded, samplers, compilers, chain_of, name):
    """A chain of a grammar, top-k and a random choice, driven by llama.cpp alone, writes texts of the grammar."""
    model, tokenizer = loaded[name]
    cache = model.make_cache(1)
    chain = chain_of(
        samplers.make(compilers[name].regex(PATTERN)),
        library.native.llama_sampler_init_top_k(20),
        library.native.llama_sampler_init_dist(7),
    )
    ended = 0
    for number in range(6):
        library.native.llama_sampler_reset(chain)
        row = cache.add()
        cache.prefill(row, tokenizer(f"Write {number}")["input_ids"])
        text = b""
        for _ in range(200):
            token = library.native.llama_sampler_sample(chain, cache._context, -1)
            if token in tokenizer.vocabulary.stop_token_ids:
                assert re.fullmatch(PATTERN, text.decode())
                ended += 1
                break
            text += tokenizer.vocabulary.token_bytes(token)
            cache.forward([[token]], first=row)
        cache.remove(row)
    assert ended >= 2


def test_clone_reset_copy_and_free(library, samplers, compilers, chain_of):
    """A clone goes its own way, reset begins again, a copy takes over a state, and what is freed is gone."""
    native, before = library.native, samplers.count
    grammar = compilers["demo"].regex("ab|cd")
    vocabulary = compilers["demo"].vocabulary
    a, b, c = (vocabulary.tokens.index(letter) for letter in (b"a", b"b", b"c"))
    first = samplers.make(grammar)
    assert native.llama_sampler_name(first) == b"stackmask"
    native.llama_sampler_accept(first, a)
    second = native.llama_sampler_clone(first)
    assert allowed(library, second, [a, b, c, 2]) == {b}
    native.llama_sampler_accept(second, b)
    assert (allowed(library, first, [a, b, c, 2]), allowed(library, second, [a, b, c, 2])) == ({b}, {2})
    assert samplers.matcher(second).is_completed()
    native.llama_sampler_reset(second)
    assert allowed(library, second, [a, b, c, 2]) == {a, c}
    native.llama_sampler_copy(first, second)
    assert allowed(library, second, [a, b, c, 2]) == {b}
    assert samplers.count == before + 2
    native.llama_sampler_free(first)
    native.llama_sampler_free(second)
    assert samplers.count == before


def test_a_refused_token_ends_the_text(library, samplers, compilers, chain_of):
    """After a token that the grammar refuses only stop tokens pass, until the sampler is reset."""
    vocabulary = compilers["demo"].vocabulary
    sampler = samplers.make(compilers["demo"].regex("ab"))
    chain_of(sampler)
    for refused in (vocabulary.tokens.index(b"b"), 1_000_000, -1):
        library.native.llama_sampler_accept(sampler, refused)
        library.native.llama_sampler_accept(sampler, vocabulary.tokens.index(b"a"))
        assert samplers.refused(sampler) == refused
        assert allowed(library, sampler, range(vocabulary.size)) == set(vocabulary.stop_token_ids)
        library.native.llama_sampler_reset(sampler)
        assert samplers.refused(sampler) is None


def test_the_sampler_takes_a_small_part_of_a_step(library, data, tmp_path, monkeypatch):
    """Beside a model of two layers the grammar takes less than a quarter of a step; `benchmarks.llama_cpp` has all of them, and 5 %."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    monkeypatch.setenv("STACKMASK_LIBLLAMA", str(library.path))
    benchmark = importlib.import_module("benchmarks.llama_cpp")
    path = benchmark.random_model(tmp_path / "model.gguf", data / "tokenizers" / "llama3", layers=2)
    times = benchmark.measure(path, 24)
    assert len(times.forward) == len(times.grammar) == 24
    assert min(times.grammar) > 0
    assert 0 < times.ratio < 0.25


def test_logits_processor(compilers):
    """Called as llama-cpp-python calls it: ids with the prompt, a column of scores in place; ids that get shorter are followed."""
    compiler = compilers["demo"]
    tokens = compiler.vocabulary.tokens
    a, b, c = (tokens.index(letter) for letter in (b"a", b"b", b"c"))
    processor = GrammarLogitsProcessor(compiler.regex("ab|ac|b"))
    size = compiler.vocabulary.size

    def passing(*ids):
        scores = np.zeros((size, 3), np.single)[:, 1] if len(ids) % 2 else np.zeros(size, np.single)
        scores[:] = np.linspace(-3, 3, size)
        kept = scores.copy()
        result = processor(np.array([9, 9, *ids], np.intc), scores)
        assert result is scores
        found = np.flatnonzero(scores > -np.inf)
        assert (scores[found] == kept[found]).all()
        return set(found.tolist())

    assert {a, b} <= passing()
    assert passing(a) == {b, c}
    assert passing(a, b) == {2}
    assert passing(a, c) == {2}
    assert {a, b} <= passing()
    assert passing(b) == {2}
    assert processor.error is None
    scores = np.zeros(size, np.single)
    with pytest.raises(GrammarError, match="token 2 is refused"):
        processor(np.array([9, 9, c], np.intc), scores)
    assert np.flatnonzero(scores > -np.inf).tolist() == [2], "llama-cpp-python does not see the error"
    assert "token 2 is refused" in str(processor.error)
    processor.reset()
    assert processor.error is None
    assert {a, b} <= passing()
    assert passing(a, c, c) == {b, c}, "the guesses are c and c; the first is asked for"
    assert passing(a, c, c) == {2}, "it was right; the second is asked for"
    processor.reset()
    assert {a, b} <= passing()
    assert passing(a) == {b, c}, "the prompt is as long as before"
    with pytest.raises(ValueError, match="the shape"):
        processor(np.zeros(3, np.intc), np.zeros(5, np.single))
    fixed = GrammarLogitsProcessor(compiler.regex("ab"), prompt_length=1)
    assert (fixed(np.array([9, a], np.intc), np.zeros(size, np.single)) > -np.inf).sum() == 1


def test_vocabulary_of_llama_cpp_python(library, loaded, monkeypatch):
    """The vocabulary of a `llama_cpp.Llama` is that of the model whose address it has."""
    from types import SimpleNamespace

    model, tokenizer = loaded["spm"]
    monkeypatch.setenv("STACKMASK_LIBLLAMA", str(library.path))
    assert llama_vocabulary(SimpleNamespace(model=model.pointer)).fingerprint == tokenizer.vocabulary.fingerprint
