"""The engine: every answer fits its constraint, whoever shares the batch, and ends for the reason that it says."""

import gzip
import itertools
import json
import re
import threading

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from jsonschema import Draft202012Validator  # noqa: E402
from jsonschema.validators import validator_for  # noqa: E402
from jsonschema_specifications import REGISTRY  # noqa: E402
from support.small_model import small_model  # noqa: E402

from stackmask.integration.compiler import Compiler  # noqa: E402
from stackmask.integration.engine import (  # noqa: E402
    Constraint,
    Engine,
    EngineBusyError,
    EngineClosedError,
    Request,
    RequestError,
    Sampling,
)
from stackmask.integration.engine.guide import Guide  # noqa: E402
from stackmask.integration.engine.text import TextStream  # noqa: E402
from stackmask.integration.tokenizers import Vocabulary  # noqa: E402
from stackmask.integration.tools import Call, CallParser, Format, choose, named_tokens, read_tools, structural_tag  # noqa: E402
from stackmask.integration.transformers import GrammarLogitsProcessor  # noqa: E402
from stackmask.pda.exceptions import RegexError  # noqa: E402

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["new", "sale", "home"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
ASK = "Write a person as JSON with name, age, tags."
GREEDY = Sampling(temperature=0)


def request(engine, text=ASK, **options):
    return Request(prompt=engine.encode(text), **options)


def greedy_by_transformers(model, engine, prompt, grammar, limit):
    """The greedy answer of the library's own loop, masked by a logits processor."""
    processors = [] if grammar is None else [GrammarLogitsProcessor(grammar, prompt_length=len(prompt))]
    ids = torch.tensor([list(prompt)])
    stops = list(engine.vocabulary.stop_token_ids)
    options = {"do_sample": False, "max_new_tokens": limit, "eos_token_id": stops, "pad_token_id": stops[0]}
    out = model.generate(ids, attention_mask=torch.ones_like(ids), logits_processor=processors, **options)
    tokens = out[0, len(prompt) :].tolist()
    return tuple(tokens[:-1] if tokens[-1] in stops else tokens)


def test_greedy_is_what_transformers_says(model, engine):
    """Masks, cache and batch change nothing: greedy answers are those of the library's own loop."""
    grammar = engine.compiler.json_schema(PERSON)
    ask = request(engine, constraint=Constraint("json_schema", PERSON), sampling=GREEDY)
    answer = engine.generate(ask)
    assert answer.token_ids == greedy_by_transformers(model[0], engine, ask.prompt, grammar, 100)
    assert (answer.finish_reason, answer.complete) == ("stop", True)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Mistral", {"sliding_window": 8}),
        ("Qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
        ("Llama", {"attn_implementation": "eager"}),
    ],
)
def test_models_of_other_kinds(model, kind, settings):
    """Sliding windows run a pass for each request, eager attention shares one: answers are those of the library's own loop."""
    other = small_model(kind, **settings)
    engine = Engine(other, model[1], max_running=3)
    constraints = [None, Constraint("regex", "[a-z]{5,30}"), Constraint("json_schema", PERSON)]
    requests = [
        request(engine, f"{ASK} {ASK if i else ''}", constraint=constraint, sampling=GREEDY, max_tokens=40 - i, finish_within_budget=False)
        for i, constraint in enumerate(constraints)
    ]
    for ask, answer in zip(requests, engine.generate_batch(requests), strict=True):
        grammar = None if ask.constraint is None else engine.compile(ask.constraint).result()
        assert answer.token_ids == greedy_by_transformers(other, engine, ask.prompt, grammar, ask.max_tokens)
    assert engine.slots.rows == 0
    for name, value in (("speculation", 2), ("jump_forward", True)):
        if kind == "Llama":
            engine.generate(request(engine, max_tokens=2, **{name: value}))
        else:
            with pytest.raises(RequestError, match="takes tokens back") as error:
                engine.generate(request(engine, **{name: value}))
            assert error.value.field == name


def test_a_vocabulary_narrower_than_the_logits(model):
    """Ids beyond the vocabulary are never chosen, by free requests neither; a prompt may hold them, a bias may not."""
    narrow = Vocabulary.from_bytes([bytes([byte]) for byte in range(256)] + [None], stop_token_ids=[256])
    engine = Engine(*model, compiler=Compiler(narrow), max_running=4)
    for options in ({}, {"constraint": Constraint("regex", "[a-z]{9}")}):
        for sampling in (GREEDY, Sampling(seed=1)):
            answer = engine.generate(Request(prompt=[1000, 1279], sampling=sampling, max_tokens=9, **options))
            assert len(answer.token_ids) <= 9 and all(token < 256 for token in answer.token_ids)
    with pytest.raises(RequestError, match="token 1280 is outside 0 to 1279"):
        engine.generate(Request(prompt=[1280]))
    with pytest.raises(RequestError, match="token 257 is outside 0 to 256"):
        engine.generate(Request(prompt=[1], sampling=Sampling(logit_bias={257: 1.0})))


def test_a_mixed_batch(engine):
    """Each request has its own grammar, sampling and seed; free requests share the batch; nobody changes another's answer."""
    constraints = [
        Constraint("json_schema", PERSON),
        None,
        Constraint("regex", r"[A-Z]{3}-\d{4}"),
        Constraint("choice", ["yes", "no"]),
        Constraint("ebnf", 'root ::= "(" root ")" | [0-9]'),
        Constraint("json"),
    ]
    requests = [request(engine, f"{ASK} {i}", constraint=constraints[i % 6], sampling=Sampling(seed=i), max_tokens=60) for i in range(36)]
    together = engine.generate_batch(requests)
    for i, answer in enumerate(together):
        assert answer.error is None
        match i % 6:
            case 0 | 5:
                value = json.loads(answer.text)
                assert i % 6 or Draft202012Validator(PERSON).is_valid(value)
            case 1:
                assert answer.stats.mask_seconds == 0
            case 2:
                assert re.fullmatch(r"[A-Z]{3}-[0-9]{4}", answer.text)
            case 3:
                assert answer.text in ("yes", "no")
            case 4:
                assert re.fullmatch(r"\(*[0-9]\)*", answer.text)
    assert engine.slots.rows == 0
    for i in (0, 1, 2):
        assert engine.generate(requests[i]).text == together[i].text


def test_a_finished_grammar_ends_the_answer(engine):
    """Where nothing but the end may follow, the answer ends without a pass for the stop token."""
    answer = engine.generate(request(engine, constraint=Constraint("choice", ["yes"]), sampling=GREEDY))
    assert (answer.text, answer.finish_reason) == ("yes", "stop")
    assert answer.stats.forwards == len(answer.token_ids) - 1


def test_an_answer_is_closed_before_its_budget_ends(engine):
    """With any budget the text parses and validates, or the request is refused at once."""
    refused = closed = 0
    for limit in range(8, 34):
        try:
            answer = engine.generate(
                request(engine, constraint=Constraint("json_schema", PERSON), sampling=Sampling(seed=limit), max_tokens=limit)
            )
        except RequestError as error:
            assert error.field == "max_tokens"
            refused += 1
            continue
        assert Draft202012Validator(PERSON).is_valid(json.loads(answer.text))
        assert len(answer.token_ids) <= limit and answer.complete
        assert answer.finish_reason == ("length" if answer.closed else "stop")
        closed += answer.closed
    assert refused and closed


def test_any_budget_with_real_schemas(engine, data):
    """Schemas from practice and limits from 20 to 400: every answer parses and validates, or was refused for its limit."""
    with gzip.open(data / "maskbench-dev.jsonl.gz", "rt", encoding="utf-8") as file:
        schemas = [json.loads(line)["schema"] for line in itertools.islice(file, 40)]
    requests = [
        request(
            engine,
            f"Write JSON. {i}",
            constraint=Constraint("json_schema", schema),
            sampling=Sampling(seed=i),
            max_tokens=20 + 97 * i % 380,
        )
        for i, schema in enumerate(schemas)
    ]
    for schema, answer in zip(schemas, engine.generate_batch(requests), strict=True):
        if answer.error is not None:
            assert isinstance(answer.error, RequestError) and answer.error.field == "max_tokens"
        else:
            validator_for(schema, default=Draft202012Validator)(schema, registry=REGISTRY).validate(json.loads(answer.text))


def test_without_closing_an_answer_is_cut(engine):
    """`finish_within_budget=False`: the answer ends inside the structure and says so."""
    answer = engine.generate(
        request(engine, constraint=Constraint("json_schema", PERSON), sampling=GREEDY, max_tokens=8, finish_within_budget=False)
    )
    assert (answer.finish_reason, answer.complete, len(answer.token_ids)) == ("length", False, 8)


def test_stop_texts(engine):
    """A stop text ends the answer and is not part of it, wherever tokens begin and end."""
    whole = engine.generate(request(engine, sampling=GREEDY, max_tokens=40)).text
    stop = whole[9:12]
    answer = engine.generate(request(engine, sampling=GREEDY, max_tokens=40, stop=[stop]))
    assert (answer.text, answer.finish_reason) == (whole[: whole.index(stop)], "stop")


def test_logprobs_and_bias(engine):
    """Log-probabilities are those among allowed tokens; a bias moves the choice, but never past the grammar."""
    ids = engine.tokenizer("n", add_special_tokens=False)["input_ids"]
    constraint = Constraint("regex", "[yn]")
    answer = engine.generate(request(engine, constraint=constraint, sampling=Sampling(temperature=0, logit_bias={ids[0]: 100}), logprobs=5))
    assert answer.text == "n"
    (logprob,) = answer.logprobs
    assert logprob.token == ids[0] and logprob.logprob > -0.01
    assert len(logprob.top) == 2
    banned = engine.tokenizer("q", add_special_tokens=False)["input_ids"][0]
    biased = Sampling(temperature=0, logit_bias={banned: 100})
    assert engine.generate(request(engine, constraint=constraint, sampling=biased)).text in ("y", "n")


def test_errors_are_of_one_request(engine):
    """A grammar that is wrong fails its request and no other."""
    bad, good = engine.generate_batch(
        [request(engine, constraint=Constraint("regex", "(")), request(engine, constraint=Constraint("choice", ["a"]))]
    )
    assert bad.finish_reason == "error" and isinstance(bad.error, RegexError)
    assert good.text == "a"
    with pytest.raises(RequestError, match="outside"):
        engine.generate(Request(prompt=[10**6]))
    for temperature in (-1, float("inf"), float("nan")):
        with pytest.raises(RequestError, match="temperature"):
            Sampling(temperature=temperature)
    with pytest.raises(RequestError, match="token -1 is outside"):
        engine.generate(Request(prompt=[-1, 0]))


@pytest.mark.parametrize("name", ["max_tokens", "logprobs", "speculation", "draft_tree"])
@pytest.mark.parametrize("value", [-1, 1.0, "1", True, float("nan")])
def test_wrong_numbers(engine, name, value):
    """A number that is out of bounds, or is none, is refused before anything is done, and the error names its field."""
    with pytest.raises(RequestError, match=name) as error:
        request(engine, **{name: value})
    assert error.value.field == name
    with pytest.raises(RequestError, match=r"max_tokens is 0, below 1"):
        request(engine, max_tokens=0)


def test_the_thread_serves_cancels_and_closes(model):
    """Answers come from the engine's thread; a cancelled request frees its row; a closed engine takes nothing more."""
    engine = Engine(*model, max_running=2, max_waiting=2)
    with engine:
        events, done = [], threading.Event()
        ticket = None

        def listen(event):
            events.append(event)
            if len(events) == 3:
                ticket.cancel()
            if event.answer is not None:
                done.set()

        ticket = engine.submit(request(engine, constraint=Constraint("regex", "[a-z]{2000}"), sampling=Sampling(seed=1)), listen)
        assert done.wait(30)
        assert events[-1].answer.finish_reason == "cancelled"
        assert "".join(event.text for event in events) == events[-1].answer.text
        long = request(engine, constraint=Constraint("regex", "[a-z]{2000}"))
        tickets = []
        with pytest.raises(EngineBusyError):
            for _ in range(9):
                tickets.append(engine.submit(long, lambda event: None))
        assert len(tickets) >= 2
        for ticket in tickets:
            ticket.cancel()
        assert engine.generate(request(engine, constraint=Constraint("choice", ["a"]))).text == "a"
    assert engine.slots.rows == 0
    with pytest.raises(EngineClosedError):
        engine.submit(long, lambda event: None)


def test_a_request_is_prepared_once(model, engine, monkeypatch):
    """A prepared request keeps its state and its matcher until its answer, and is submitted once; its budget is checked before."""
    built = []
    monkeypatch.setattr(Guide, "__init__", lambda self, *given, make=Guide.__init__: (built.append(self), make(self, *given))[1])
    ask = request(engine, constraint=engine.compiler.choice(["yes"]), sampling=GREEDY)
    sequence = engine.prepare(ask)
    answers = []
    engine.submit(sequence, lambda event: answers.append(event.answer))
    while engine.step():
        pass
    assert built == [sequence.guide] and answers[-1].text == "yes" and answers[-1] is sequence.answer
    assert engine.generate(ask).text == "yes" and len(built) == 2
    with pytest.raises(ValueError, match="submitted before"):
        engine.submit(sequence, answers.append)
    with pytest.raises(RequestError, match="cannot hold"):
        engine.prepare(request(engine, constraint=engine.compiler.regex("a{500}"), max_tokens=2))
    other = Compiler(Vocabulary.from_bytes([b"a", None], stop_token_ids=[1])).regex("a")
    with pytest.raises(RequestError, match="another vocabulary"):
        engine.prepare(request(engine, constraint=other))


def test_reasoning_comes_first(engine):
    """With `reasoning_end`, the constraint holds after these tokens only, with and without drafts, and the budget counts both."""
    end = engine.tokenizer("</think>", add_special_tokens=False)["input_ids"]
    for speculation in (0, 4):
        answer = engine.generate(
            request(
                engine,
                "Think, then write a person as JSON.",
                constraint=Constraint("json_schema", PERSON),
                sampling=Sampling(seed=5, temperature=0.8),
                reasoning_end=end,
                max_tokens=60,
                speculation=speculation,
            )
        )
        assert Draft202012Validator(PERSON).is_valid(json.loads(answer.text))
        assert answer.reasoning and "</think>" not in answer.reasoning + answer.text


def test_tokens_without_text(engine):
    """A grammar may ask for special tokens: an answer is closed by them, and shows those that it is asked to show."""
    element = {"type": "token", "token": "<|user|>"}, {"type": "regex", "pattern": "[a-z ]{2,200}"}, {"type": "token", "token": "<|tool|>"}
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": [*element, {"type": "optional", "content": element[1]}]}}
    user, tool = (engine.vocabulary.special[name] for name in ("<|user|>", "<|tool|>"))
    for room in (4, 5, 9, 40):
        for seed in range(3):
            sampling, constraint = Sampling(seed=seed), Constraint("structural_tag", tag)
            shown = {user: "USER", tool: "TOOL"}
            asked = request(engine, constraint=constraint, sampling=sampling, max_tokens=room, shown=shown, speculation=2 * (seed % 2))
            answer = engine.generate(asked)
            assert re.fullmatch("USER[a-z ]+TOOL[a-z ]*", answer.text), answer.text
            assert answer.complete and answer.token_ids[0] == user and tool in answer.token_ids
            assert len(answer.token_ids) <= room
    with pytest.raises(RequestError, match="cannot hold even the shortest answer"):
        engine.generate(request(engine, constraint=Constraint("structural_tag", tag), max_tokens=2))
    hidden = engine.generate(request(engine, constraint=Constraint("structural_tag", tag), max_tokens=9))
    assert re.fullmatch("[a-z ]+", hidden.text)


def test_tool_calls_between_special_tokens(engine):
    """Calls that special tokens delimit: free text up to the first, arguments by the schema, closed within the budget, and read back."""
    call = '<|tool|>{"name": "$name", "arguments": $arguments}<|system|>'
    format = Format(name="made_up", families="none", parsers="none", calls=(call,), separator="")
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
    tools = read_tools([{"type": "function", "name": "weather", "parameters": parameters}, {"type": "custom", "name": "say"}])
    names = named_tokens(format, engine.vocabulary.special)
    shown = {engine.vocabulary.special[name]: text for name, text in names.items()}
    for choice, parallel, room in itertools.product(("auto", "required"), (True, False), (30, 60)):
        tag = structural_tag(format, choose(tools, choice, parallel=parallel), special=names)
        for seed in range(3):
            sampling = Sampling(seed=seed, temperature=1.5, logit_bias=dict.fromkeys(shown, 4.0))
            asked = request(engine, constraint=Constraint("structural_tag", tag), sampling=sampling, max_tokens=room, shown=shown)
            answer = engine.generate(asked)
            assert answer.complete, answer.text
            pieces = CallParser(format, tools, special=names).feed(answer.text, final=True)
            calls = [piece for piece in pieces if isinstance(piece, Call)]
            assert answer.text.count("<|tool|>") == len(calls) <= (room if parallel else 1)
            assert calls or choice == "auto"
            for piece in calls:
                assert piece.name == "say" or list(json.loads(piece.arguments)) == ["city"]
    with pytest.raises(RequestError, match="cannot hold"):
        engine.generate(request(engine, constraint=Constraint("structural_tag", tag), max_tokens=6))


def test_what_is_shown_cannot_be_spelled(engine):
    """Text that spells the mark of a shown token is no such token, and stop texts and pieces of characters stand beside it."""
    stream = TextStream(["END"])
    said = stream.feed("a\ufdd0".encode() + "é".encode()[:1]) + stream.name("\ufdd0<x>") + stream.feed(b"EN") + stream.name("\ufdd0<y>")
    assert said + stream.feed(b"bEND", final=True) == "a\ufffd\ufffd\ufdd0<x>EN\ufdd0<y>b" and stream.stopped
    assert TextStream(marks=False).feed("a\ufdd0".encode()) == "a\ufdd0"


def test_text_without_marks_is_exact(engine):
    """A request that shows no tokens gets every character as it is."""
    constraint = Constraint("regex", "[\ufdd0]{2}")
    assert engine.generate(request(engine, constraint=constraint)).text == "\ufdd0\ufdd0"
    assert engine.generate(request(engine, constraint=constraint, shown={})).text == "\ufffd\ufffd"
