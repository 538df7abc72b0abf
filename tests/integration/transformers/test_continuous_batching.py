"""Grammars in the continuous batching of transformers: each request keeps to its own, whatever the library does with its cache."""

import copy
import gc
import json
import re
import time
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("transformers.generation.continuous_batching.cb_logits_processors")

from transformers import ContinuousBatchingConfig, GenerationConfig  # noqa: E402
from transformers.generation.continuous_batching.requests import RequestState  # noqa: E402

import stackmask  # noqa: E402
from stackmask.integration.demo import load_model  # noqa: E402
from stackmask.integration.transformers import GrammarLogitsProcessor  # noqa: E402
from stackmask.integration.transformers.continuous_batching import GrammarBatchProcessor, attach  # noqa: E402

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def demo():
    model, tokenizer = load_model()
    return model.float(), tokenizer


@pytest.fixture(scope="module")
def compiler(demo):
    model, tokenizer = demo
    return stackmask.Compiler(stackmask.Vocabulary.from_transformers(tokenizer, size=model.config.vocab_size))


def manager_of(model, *, do_sample=False, **options):
    """A manager on the CPU that has not started."""
    config = GenerationConfig(max_new_tokens=60, do_sample=do_sample, eos_token_id=2, pad_token_id=0)
    options = {"block_size": 32, "num_blocks": 64, "max_batch_tokens": 256, "use_cuda_graph": False, "use_async_batching": False} | options
    return model.init_continuous_batching(config, ContinuousBatchingConfig(**options))


def run(manager, requests):
    """The answers, by the id of the request, to (prompt, grammar) pairs; None is a free request."""
    manager.start()
    try:
        for number, (prompt, grammar) in enumerate(requests):
            manager.add_request(prompt, request_id=str(number), **({} if grammar is None else {"grammar": grammar}))
        answers = {}
        while len(answers) < len(requests):
            answer = manager.get_result(timeout=30)
            assert answer is not None, "no answer came"
            answers[int(answer.request_id)] = answer
    finally:
        manager.stop(block=True)
    return [answers[number] for number in range(len(requests))]


def text_of(tokenizer, answer):
    """What was written, without the token that ended it."""
    assert answer.error is None
    return tokenizer.decode(answer.generated_tokens, skip_special_tokens=True)


def test_a_mixed_batch(demo, compiler):
    """A schema, a regex, a choice and a free request in one batch; matchers go with their requests."""
    model, tokenizer = demo
    manager = manager_of(model, do_sample=True)
    processor = attach(manager, model.config.vocab_size)
    prompt = tokenizer("Write a person as JSON with name, age.")["input_ids"]
    grammars = [compiler.json_schema(PERSON), compiler.regex("[a-c]{3}-[0-9]{2}"), None, compiler.choice(["yes", "no"])] * 2
    answers = run(manager, [(prompt, grammar) for grammar in grammars])
    for number, answer in enumerate(answers):
        text = text_of(tokenizer, answer)
        if number % 4 == 0:
            value = json.loads(text)
            assert set(value) == {"name", "age"}
            assert 0 <= value["age"] <= 120
        elif number % 4 == 1:
            assert re.fullmatch("[a-c]{3}-[0-9]{2}", text)
        elif number % 4 == 3:
            assert text in ("yes", "no")
    del manager, answers
    for _ in range(100):  # the library's thread lets go of the last requests when it ends
        gc.collect()
        if not processor._rows:
            break
        time.sleep(0.1)
    assert processor._rows == {}


def test_it_writes_what_generate_writes(demo, compiler):
    """Greedy answers are those of `model.generate` with the processor for that."""
    model, tokenizer = demo
    prompt = tokenizer("Write a person as JSON with name, age.", return_tensors="pt")
    grammars = [compiler.json_schema(PERSON), compiler.regex("[a-z ]{5,20}[.]")]
    expected = []
    for grammar in grammars:
        ids = model.generate(**prompt, logits_processor=[GrammarLogitsProcessor(grammar)], max_new_tokens=60, do_sample=False)
        expected.append(tokenizer.decode(ids[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True))
    manager = manager_of(model)
    attach(manager, model.config.vocab_size)
    answers = run(manager, [(prompt["input_ids"][0].tolist(), grammar) for grammar in grammars])
    assert [text_of(tokenizer, answer) for answer in answers] == expected


def test_a_cache_that_is_too_small(demo, compiler):
    """Requests that are dropped and begun anew go on where they were."""
    model, tokenizer = demo
    manager = manager_of(model, do_sample=True, block_size=32, num_blocks=8)
    attach(manager, model.config.vocab_size)
    resets = []
    original = RequestState.create_equivalent_initial_request

    def counted(state):
        resets.append(state.request_id)
        return original(state)

    RequestState.create_equivalent_initial_request = counted
    try:
        prompt = tokenizer("Say something long.")["input_ids"]
        grammar = compiler.regex("([a-f]{3} ){10}[.]")
        answers = run(manager, [(prompt, grammar)] * 8)
    finally:
        RequestState.create_equivalent_initial_request = original
    assert resets, "the cache was large enough"
    for answer in answers:
        assert re.fullmatch("([a-f]{3} ){10}[.]", text_of(tokenizer, answer)), text_of(tokenizer, answer)


def test_a_grammar_for_another_model_fails_its_request_only(demo, compiler):
    """The others of the batch are served."""
    model, tokenizer = demo
    other = stackmask.Compiler(stackmask.Vocabulary.from_bytes([b"a", None], stop_token_ids=[1])).regex("a")
    manager = manager_of(model)
    attach(manager, model.config.vocab_size)
    prompt = tokenizer("Hello")["input_ids"]
    wrong, right, foreign = run(manager, [(prompt, other), (prompt, compiler.choice(["yes"])), (prompt, "a*")])
    assert "for 2 tokens" in str(wrong.error)
    assert text_of(tokenizer, right) == "yes"
    assert "CompiledGrammar" in str(foreign.error)


def test_what_cannot_work_is_refused(demo, monkeypatch):
    """Graphs, asynchronous batches, a second processor, a manager that runs, and other versions."""
    model, _ = demo
    size = model.config.vocab_size
    manager = manager_of(model)
    attach(manager, size)
    with pytest.raises(RuntimeError, match="already"):
        attach(manager, size)
    manager = manager_of(model)
    manager.continuous_batching_config.use_async_batching = True
    with pytest.raises(ValueError, match="use_async_batching"):
        attach(manager, size)
    manager = manager_of(model)
    manager.continuous_batching_config.use_cuda_graph = (False, True)
    with pytest.raises(ValueError, match="use_cuda_graph"):
        attach(manager, size)
    manager = manager_of(model)
    monkeypatch.setattr(manager, "is_running", lambda: True)
    with pytest.raises(RuntimeError, match="before start"):
        attach(manager, size)
    manager = manager_of(model)
    manager.logit_processor = object()
    with pytest.raises(RuntimeError, match="check_kwargs"):
        attach(manager, size)
    base = GrammarBatchProcessor.__mro__[1]
    monkeypatch.setattr(base, "prepare_tensor_args", lambda self, requests: None)
    with pytest.raises(RuntimeError, match="other arguments"):
        attach(manager_of(model), size)


def test_the_tokens_that_end_a_request(compiler):
    """They are the request's; where it has none, the vocabulary's."""
    processor = GrammarBatchProcessor(compiler.vocabulary.size)
    grammar = compiler.regex("")

    def allowed(eos):
        state = RequestState("r", [1], eos_token_id=eos, logit_processor_kwargs={"grammar": grammar})
        return processor._matcher(state).allowed_tokens()

    assert allowed(2) == allowed(-1) == allowed(None) == [2]
    assert allowed([2, 5, -1]) == [2, 5]


def test_a_request_that_left_its_grammar_is_free(compiler):
    """As it can be when tokens were put into its past by hand."""
    processor = GrammarBatchProcessor(compiler.vocabulary.size)
    state = RequestState("r", [1], logit_processor_kwargs={"grammar": compiler.regex("a+")})
    assert processor._matcher(state) is not None
    state.generated_tokens = [7]
    assert processor._matcher(state) is None
    state.generated_tokens = [7, 7]
    assert processor._matcher(state) is None


def test_a_step_of_free_requests(compiler):
    """Their scores are left alone."""
    processor = GrammarBatchProcessor(compiler.vocabulary.size)
    numbers = processor.prepare_tensor_args([SimpleNamespace(state=RequestState("r", [1]))] * 3)
    assert numbers.shape == (3,)
    scores = torch.zeros(3, compiler.vocabulary.size)
    assert not processor(scores, numbers).any()


def test_a_grammar_is_its_own_copy(compiler):
    """The library copies what a request brings; grammars are immutable and shared."""
    grammar = compiler.regex("a")
    assert copy.copy(grammar) is grammar
    assert copy.deepcopy({"grammar": grammar})["grammar"] is grammar
