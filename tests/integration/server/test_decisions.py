"""The decisions of OpenAI's client, and System One by Ollama's, against the server."""

import json
import math

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
openai = pytest.importorskip("openai", minversion="3.54")
ollama = pytest.importorskip("ollama")

import stackmask  # noqa: E402

INPUT = "The app crashed twice today, and I was charged for it!"
PREDICATE = {"type": "predicate", "name": "angry", "instructions": "The customer is angry."}
CHOICE = {
    "type": "choice",
    "name": "topic",
    "instructions": [{"type": "input_text", "text": "What is it about?"}, {"type": "input_json", "data": {"product": "app"}}],
    "choices": [{"value": "billing", "description": "Money."}, {"value": "crash"}, {"value": True}, {"value": "true"}],
}
LEVELS = [{"label": "low"}, {"label": "mid", "description": "Soon."}, {"label": "high"}]
SCORE = {"type": "score", "instructions": "How urgent is it?", "levels": LEVELS}


@pytest.fixture(scope="module")
def client(demo):
    with demo.client() as client:
        yield client


def decide(client, questions, input=INPUT, **fields):
    """The decisions by the client."""
    return client.decisions.create(model="demo", input=input, questions=questions, **fields)


def test_all_kinds_of_questions(client):
    """Answers come in the order of the questions; probabilities sum to 1, and agree with the choice, the mean and the confidence."""
    decision = decide(client, [PREDICATE, CHOICE, SCORE], prompt_cache_key="k", safety_identifier="u")
    predicate, choice, score = decision.answers
    assert (predicate.type, predicate.name) == ("predicate", "angry") and 0 < predicate.probability < 1
    assert [entry.value for entry in choice.probabilities] == ["billing", "crash", True, "true"]
    best = max(choice.probabilities, key=lambda entry: entry.probability)
    assert (choice.choice, type(choice.choice)) == (best.value, type(best.value))
    assert choice.confidence == pytest.approx((best.probability - 1 / 4) / (3 / 4))
    assert [(entry.label, entry.value) for entry in score.probabilities] == [("low", 0), ("mid", 1), ("high", 2)]
    assert score.score == pytest.approx(sum(entry.value * entry.probability for entry in score.probabilities)) and score.name is None
    for answer in (choice, score):
        assert math.fsum(entry.probability for entry in answer.probabilities) == pytest.approx(1, abs=1e-9)
    assert decision.model == "demo" and decision.usage.input_tokens == decision.usage.total_tokens > 100
    assert decide(client, [SCORE]).answers[0].probabilities[0].probability == pytest.approx(score.probabilities[0].probability, rel=1e-4)
    assert 0 < predicate.model_extra["stackmask"]["mass"] < 1


def test_equal_to_the_library(client, model):
    """The server gives what `stackmask.decide` gives for the prompt that it makes."""
    (answer,) = decide(client, [PREDICATE], extra_body={"stackmask": {"tolerance": 0}}).answers
    prompt = f"{INPUT}\n\nIs this true of it? The customer is angry.\nAnswer yes or no."
    assert stackmask.decide(*model, prompt, ["yes", "no"]).probabilities["yes"] == pytest.approx(answer.probability, rel=1e-4)
    cold, hot = (
        decide(client, [PREDICATE], extra_body={"stackmask": {"temperature": value, "tokenizations": "canonical"}}).answers[0].probability
        for value in (0.5, 20)
    )
    assert abs(hot - 0.5) < abs(cold - 0.5)


def test_a_conversation(client):
    """Messages, calls and their outputs are an input."""
    conversation = [
        {"role": "developer", "content": "You sort tickets."},
        {"role": "user", "content": [{"type": "input_text", "text": INPUT}, {"type": "input_json", "data": [{"id": 1}]}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"id": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a refund is due"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "I see."}]},
    ]
    first, second = (answer.probability for answer in decide(client, [PREDICATE, PREDICATE], conversation).answers)
    assert first == pytest.approx(second, rel=1e-4) and first != pytest.approx(decide(client, [PREDICATE]).answers[0].probability, rel=1e-4)


def test_many_questions(client):
    """Many questions about one input, each with its own answer."""
    questions = [{**PREDICATE, "name": str(n), "instructions": f"It happened {n} times."} for n in range(20)]
    answers = decide(client, questions).answers
    assert [answer.name for answer in answers] == [str(n) for n in range(20)] and len({answer.probability for answer in answers}) > 10


def test_refusals(client):
    """What cannot be decided is refused by name."""
    image = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    output = {"type": "function_call_output", "call_id": "c9", "output": "x"}
    for questions, fields, error in (
        ([], {}, "questions"),
        ([{**CHOICE, "choices": CHOICE["choices"][:1]}], {}, "choices"),
        ([{**CHOICE, "choices": [{"value": "a"}, {"value": "a"}]}], {}, r"questions\[0\]: the answers are different"),
        ([{**CHOICE, "choices": [{"value": "a"}, {"value": ""}]}], {}, "empty"),
        ([{"type": "number", "instructions": "How many?"}], {}, "predicate"),
        ([{**PREDICATE, "instructions": [image]}], {}, r"questions\[0\].instructions has a part of type 'input_image'"),
        ([PREDICATE], {"input": [{"role": "user", "content": [image]}]}, "'input_image'; this model reads text alone"),
        ([PREDICATE], {"input": [output]}, r"input\[0\].call_id is 'c9'"),
        ([PREDICATE], {"input": []}, "empty"),
        ([PREDICATE], {"extra_body": {"grammar": "a"}}, "unknown field 'grammar'"),
        ([PREDICATE], {"extra_body": {"stackmask": {"temperature": 0}}}, "temperature"),
    ):
        with pytest.raises(openai.BadRequestError, match=error):
            decide(client, questions, **fields)
    with pytest.raises(openai.NotFoundError, match="gpt"):
        client.decisions.create(model="gpt", input="x", questions=[PREDICATE])


def test_system_one(demo):
    """System One's questions, by names, with noul for a predicate and levels that are counted."""
    questions = {
        "angry": {"type": "noul", "instructions": "Is the customer angry?", "criteria": {"true": "Shouts.", "false": "Is calm."}},
        "topic": {"type": "choice", "instructions": {"ask": "topic"}, "criteria": {"billing": "Money.", "crash": None}},
        "urgency": {"type": "score", "instructions": "How urgent?", "criteria": ["can wait", "this week", "now"]},
    }
    with ollama.Client(host=demo.url) as client:
        answer = client.systemone("demo:latest", {"text": INPUT}, questions)
        noul, choice, score = answer.answers["angry"], answer.answers["topic"], answer.answers["urgency"]
        assert 0 < noul.noul < 1 and choice.choice == max(choice.probabilities, key=choice.probabilities.get)
        assert score.legend == {"0": "can wait", "1": "this week", "2": "now"} and set(score.probabilities) == set(score.legend)
        assert score.score == pytest.approx(sum(int(level) * probability for level, probability in score.probabilities.items()))
        assert answer.usage.input_tokens > 0 and json.loads(answer.model_dump_json())
