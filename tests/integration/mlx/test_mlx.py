"""Grammars in mlx-lm, on its CPU back end: masks where the logits are, and a state for each text, whichever row it is in."""

import json
import re

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")
mlx_lm = pytest.importorskip("mlx_lm")

from mlx_lm.generate import BatchGenerator, speculative_generate_step  # noqa: E402
from mlx_lm.models.cache import make_prompt_cache  # noqa: E402
from mlx_lm.sample_utils import make_sampler  # noqa: E402

from stackmask.integration.compiler import Compiler  # noqa: E402
from stackmask.integration.demo import demo_model_path  # noqa: E402
from stackmask.integration.mlx.bitmask import apply_token_bitmask  # noqa: E402
from stackmask.integration.mlx.logits_processor import KEPT, GrammarLogitsProcessor, model_vocabulary  # noqa: E402
from stackmask.pda.exceptions import GrammarError  # noqa: E402

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def loaded():
    """The demo model as mlx-lm loads it, with the precision that it has elsewhere, its tokenizer, and a compiler."""
    model, tokenizer = mlx_lm.load(str(demo_model_path()), model_config={"rope_theta": 300.0})  # where this mlx-lm looks for it
    model.set_dtype(mx.float32)
    return model, tokenizer, Compiler(model_vocabulary(model, tokenizer))


def prompt_of(tokenizer, text):
    return tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_masks(dtype):
    """Forbidden logits are minus infinity and others as they were, for any width, with or without bits for all columns."""
    random = np.random.default_rng(0)
    for width, words in ((1, 1), (31, 1), (32, 1), (33, 2), (100, 4), (130, 4), (64, 3)):
        logits = mx.array(random.standard_normal((2, width)).astype(np.float32)).astype(dtype)
        bitmask = random.integers(-(2**31), 2**31, (2, words)).astype(np.int32)
        bits = np.unpackbits(bitmask.view(np.uint8), axis=1, bitorder="little")
        allowed = np.zeros((2, width), bool)
        allowed[:, : min(width, 32 * words)] = bits[:, :width]
        expected = np.where(allowed, np.array(logits.astype(mx.float32)), -np.inf)
        masked = apply_token_bitmask(logits, bitmask)
        assert masked.dtype == dtype
        assert (np.array(masked.astype(mx.float32)) == expected).all()
        assert (np.array(apply_token_bitmask(logits[0], bitmask[0]).astype(mx.float32)) == expected[0]).all()
    with pytest.raises(ValueError, match="does not fit"):
        apply_token_bitmask(mx.zeros((2, 5)), np.zeros((1, 1), np.int32))
    with pytest.raises(TypeError, match="int32"):
        apply_token_bitmask(mx.zeros(5), np.zeros(1, np.int64))


def test_the_vocabulary(loaded, model):
    """It is that of the same tokenizer under transformers."""
    from stackmask.integration.tokenizers import Vocabulary

    assert loaded[2].vocabulary.fingerprint == Vocabulary.from_transformers(model[1], size=1280).fingerprint


def test_greedy_answers_are_the_best_allowed_tokens(loaded):
    """In each step the token of the largest logit among those that a matcher allows, by a loop of its own."""
    mlx, tokenizer, compiler = loaded
    grammar = compiler.json_schema(PERSON)
    processor = GrammarLogitsProcessor(grammar)
    for text in ("Write a person as JSON.", "Write a person as indented JSON."):
        prompt = prompt_of(tokenizer, text)
        matcher, cache, ids = grammar.matcher(), make_prompt_cache(mlx), []
        mlx(mx.array(prompt[:-1])[None], cache=cache)
        token = prompt[-1]
        while not matcher.is_terminated():
            logits = np.array(mlx(mx.array([[token]]), cache=cache)[0, -1])
            token = max(matcher.allowed_tokens(), key=lambda token: logits[token])
            assert matcher.accept_token(token)
            ids.append(token)
        found = mlx_lm.generate(mlx, tokenizer, prompt, max_tokens=80, logits_processors=[processor])
        assert found == tokenizer.decode(ids[:-1])


@pytest.mark.parametrize("shared", [True, False])
def test_rows_of_a_batch(loaded, shared):
    """Rows come, end and move; each answer is whole and valid, whether the rows share a processor or have one each."""
    mlx, tokenizer, compiler = loaded
    grammar = compiler.json_schema(PERSON)
    one = GrammarLogitsProcessor(grammar)
    stops = [[token] for token in compiler.vocabulary.stop_token_ids]
    generator = BatchGenerator(mlx, max_tokens=200, stop_tokens=stops, sampler=make_sampler(0.8), completion_batch_size=4)
    mx.random.seed(7)
    prompts = [prompt_of(tokenizer, f"Write a person as JSON. {number // 2}") for number in range(10)]  # each twice: rows begin alike
    processors = [[one if shared else GrammarLogitsProcessor(grammar)] for _ in prompts]
    answers = {uid: [] for uid in generator.insert(prompts, logits_processors=processors)}
    reasons = {}
    while len(reasons) < len(prompts):
        for response in generator.next_generated():
            if response.finish_reason is None or response.finish_reason == "length":
                answers[response.uid].append(response.token)
            if response.finish_reason is not None:
                reasons[response.uid] = response.finish_reason
    for uid, ids in answers.items():
        assert reasons[uid] == "stop"
        value = json.loads(tokenizer.decode(ids))
        assert set(value) == {"name", "age"}
        assert 0 <= value["age"] <= 120


def test_speculative_decoding(loaded):
    """Guesses of a draft model go back and forth, and the text is what it is without them."""
    mlx, tokenizer, compiler = loaded
    grammar = compiler.json_schema(PERSON)
    prompt = prompt_of(tokenizer, "Write a person as JSON.")
    plain = mlx_lm.generate(mlx, tokenizer, prompt, max_tokens=80, logits_processors=[GrammarLogitsProcessor(grammar)])
    steps = speculative_generate_step(
        mx.array(prompt), mlx, mlx, num_draft_tokens=3, max_tokens=80, logits_processors=[GrammarLogitsProcessor(grammar)]
    )
    ids, drafted = [], 0
    for token, _, from_draft in steps:
        if token in compiler.vocabulary.stop_token_ids:
            break
        ids.append(token)
        drafted += from_draft
    assert tokenizer.decode(ids) == plain
    assert drafted > 0


def test_state_belongs_to_the_tokens(loaded):
    """A call goes on from its own text, whatever was asked between; a text whose tokens the grammar refuses is an error."""
    compiler = loaded[2]
    tokens = compiler.vocabulary.tokens
    a, b, c = (tokens.index(letter) for letter in (b"a", b"b", b"c"))
    (stop,) = compiler.vocabulary.stop_token_ids
    processor = GrammarLogitsProcessor(compiler.regex("abc|ba|ca"))

    def passing(*ids):
        masked = np.array(processor(mx.array(ids), mx.zeros((1, compiler.vocabulary.size))))[0]
        return set(np.flatnonzero(masked == 0).tolist())

    first = passing(9, 9)
    assert {a, b, c} <= first
    assert passing(8) == first
    assert passing(9, 9, a) == {b, *(tokens.index(word) for word in (b"bc",) if word in tokens)}
    assert passing(8, c) == {a}
    assert c in passing(9, 9, a, b)
    assert passing(9, 9, b) == {a}, "back before what was guessed"
    assert passing(9, 9) == first, "the same prompt again"
    assert passing(9, 9, c) == {a}
    assert passing(9, 9, c) == {a}, "asked twice"
    assert passing(8, c, a) == {stop}
    with pytest.raises(GrammarError, match="refuses a token"):
        passing(8, c, b)
    processor.reset()
    for number in range(3 * KEPT):
        passing(number, 7)
    assert processor._count == KEPT == len(processor._texts)
    assert passing(3 * KEPT - 1, 7, c) == {a}


def test_a_regex_at_high_temperature(loaded):
    """Whatever is drawn fits the pattern."""
    mlx, tokenizer, compiler = loaded
    mx.random.seed(1)
    for _ in range(5):
        processor = GrammarLogitsProcessor(compiler.regex("[a-z]{2,5}( [0-9]{1,3})?"))
        text = mlx_lm.generate(mlx, tokenizer, [5, 6], max_tokens=40, logits_processors=[processor], sampler=make_sampler(1.5))
        assert re.fullmatch("[a-z]{2,5}( [0-9]{1,3})?", text)
