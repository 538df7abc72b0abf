"""Temperatures and limits of grammars: in `generate`, in the engine, and in model.generate."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from stackmask.integration.compiler import Compiler  # noqa: E402
from stackmask.integration.demo import load_model  # noqa: E402
from stackmask.integration.engine import Constraint, Engine, Request, Sampling  # noqa: E402
from stackmask.integration.generate import Generator  # noqa: E402
from stackmask.integration.transformers import GrammarLogitsProcessor  # noqa: E402
from stackmask.pda.vocabulary import Vocabulary  # noqa: E402

COLD = 'root[temperature=0] ::= [a-z ]{12,20} "."'
HOT = 'root[temperature=50] ::= [a-z ]{12,20} "."'


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return load_model()


def test_generate(model):
    """A rule's temperature takes the place of the call's: none of chance where it is 0, much where it is high."""
    generator = Generator(*model)
    cold = {generator.generate("Say something.", ebnf=COLD, temperature=2.0, seed=seed).text for seed in range(4)}
    hot = {generator.generate("Say something.", ebnf=HOT, temperature=0.0, seed=seed).text for seed in range(4)}
    assert len(cold) == 1
    assert len(hot) == 4


def test_engine(model):
    """The engine samples at a rule's temperature, with requests that are greedy beside it."""
    engine = Engine(*model, max_running=8)
    prompt = engine.encode("Say something.")

    def answers(grammar: str, temperature: float) -> list[str]:
        sampling = [Sampling(temperature=temperature, seed=seed) for seed in range(4)]
        requests = [Request(prompt=prompt, constraint=Constraint("ebnf", grammar), sampling=each, max_tokens=40) for each in sampling]
        return [answer.text for answer in engine.generate_batch(requests)]

    assert len(set(answers(COLD, 2.0))) == 1
    assert len(set(answers(HOT, 0.0))) == 4


def test_scores_are_scaled():
    """A row whose grammar asks for a temperature is scaled to it, given the one that generate will divide by; others are left alone."""
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", None], stop_token_ids=[3])
    compiler = Compiler(vocabulary)
    grammars = [compiler.ebnf(f"root{option} ::= [a-c] [a-c]") for option in ("[temperature=0.5]", "", "[temperature=0]")]
    processor = GrammarLogitsProcessor(grammars, temperature=2.0)
    scores = torch.tensor([[1.0, 3.0, 2.0, 0.0]] * 3)
    after = processor(torch.zeros((3, 1), dtype=torch.long), scores) / 2.0
    assert torch.allclose(after[0, :3].softmax(-1), (scores[0, :3] / 0.5).softmax(-1))
    assert torch.equal(after[1, :3], scores[1, :3] / 2.0)
    assert after[2].argmax() == 1
    assert int(torch.isfinite(after[2]).sum()) == 1
    with pytest.raises(ValueError, match="not above zero"):
        GrammarLogitsProcessor(grammars, temperature=0)


def test_jump_across_a_limit(model):
    """Where cutting text into other tokens would span other limits, the jump is left out, and the text is as good as any."""
    engine = Engine(*model, max_running=8)
    engine._jumper.encode = lambda text: [token for char in text for token in engine.tokenizer(char, add_special_tokens=False)["input_ids"]]
    grammar = 'root ::= word "123456"\nword[max_tokens=1] ::= [a-z]+'
    prompt = engine.encode("Say something.")
    requests = [
        Request(
            prompt=prompt,
            constraint=Constraint("ebnf", grammar),
            sampling=Sampling(temperature=1.0, seed=seed),
            max_tokens=40,
            jump_forward=True,
            finish_within_budget=bounded,
        )
        for seed in range(6)
        for bounded in (False, True)
    ]
    texts = [answer.text for answer in engine.generate_batch(requests)]
    assert all(text.endswith("123456") and text[:-6].isalpha() for text in texts)
    assert max(map(len, texts)) > 7
