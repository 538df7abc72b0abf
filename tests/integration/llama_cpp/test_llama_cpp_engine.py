"""The engine over llama.cpp: the same answers as over transformers, all of them valid."""

import gc
import json
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import jsonschema  # noqa: E402
from support.rows import check_passes, same_greedy_answers  # noqa: E402

import stackmask  # noqa: E402
from stackmask.integration.engine import Constraint, Engine, Request, RequestError, Sampling  # noqa: E402
from stackmask.integration.engine.kv_cache import ModelError, Slots  # noqa: E402
from stackmask.integration.llama_cpp.model import GGUFError, LlamaModel, load_gguf  # noqa: E402
from stackmask.integration.tools import FORMATS, Call, CallParser, Format, choose, named_tokens, read_tools, structural_tag  # noqa: E402

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
ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]{2}-(?!00)[0-9]{2}$"},
        "mail": {"type": "string", "format": "email", "maxLength": 24},
        "note": {"anyOf": [{"type": "string", "maxLength": 10}, {"type": "null"}]},
    },
    "required": ["id", "mail", "note"],
    "additionalProperties": False,
}
REGEX = r"(\+[0-9]{1,3} )?[0-9]{3}-[0-9]{4}( ext\. [0-9]{2})?"
GREEDY = Sampling(temperature=0)
ASK = "Write a person as JSON with name, age, tags."


@pytest.fixture(scope="module")
def engine(loaded):
    return Engine(*loaded["demo"], max_running=8)


def request(engine, text=ASK, **options):
    return Request(prompt=engine.encode(text), **options)


def test_the_same_logits_as_transformers(loaded, model):
    """The weights are the same, so are the logits, in one pass over rows of different lengths, and again after tokens are taken back."""
    ours, theirs = loaded["demo"][0].make_cache(4), Slots(model[0], 4)
    prompts = [[1, 4, 384, 279], [5, 6], [7, 8, 9, 10, 11, 12]]
    with torch.inference_mode():
        for cache in (ours, theirs):
            for prompt in prompts:
                cache.prefill(cache.add(), prompt)
        check_passes(ours, theirs, prompts, 0.05)
        assert ours.lengths == theirs.lengths == [7, 11, 4]
        ours.clear()
        assert (ours.rows, ours.add()) == (0, 0)


def test_long_batches_are_cut(loaded):
    """More tokens than llama.cpp takes at once are the same as one by one."""
    cache = loaded["demo"][0].make_cache(2)
    tokens = [4 + place % 900 for place in range(700)]
    whole = cache.prefill(cache.add(), tokens)
    other = cache.add()
    cache.prefill(other, tokens[:300])
    parts = cache.forward([tokens[300:]], first=other)
    assert parts.shape == (1, 400, 1280)
    assert torch.allclose(parts[0, -1], whole[0, -1], atol=0.05)
    both = cache.forward([tokens[:300], tokens[:290]])
    assert both.shape == (2, 300, 1280)
    assert torch.allclose(both[0, 289], both[1, 289], atol=0.05)
    assert not both[1, 290:].any()


def test_greedy_answers_are_those_of_transformers(engine, model):
    """Masks, batches and llama.cpp change nothing: a greedy answer is what the engine says over transformers, but for close ties."""
    assert same_greedy_answers(engine, Engine(*model, max_running=8), PERSON) >= 7


def check(kind, value, text):
    """Whether a text is what its constraint asks for, by other code than stackmask's."""
    if kind == "json_schema":
        jsonschema.validate(json.loads(text), value, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    elif kind == "regex":
        assert re.fullmatch(value, text)
    else:
        assert text in value


@pytest.mark.parametrize("name", ["demo", "spm"])
@pytest.mark.parametrize("drafts", [False, True], ids=["plain", "drafts"])
def test_every_answer_is_valid(loaded, name, drafts):
    """Schemas, patterns, choices, at any temperature, in one batch of changing rows: 75 answers, valid and complete, four times over."""
    engine = Engine(*loaded[name], max_running=8)
    constraints = [
        Constraint("json_schema", PERSON, {"whitespace": "compact"}),
        Constraint("json_schema", ORDER, {"whitespace": "compact"}),
        Constraint("regex", REGEX),
        Constraint("choice", ["yes", "no", "maybe later"]),
        Constraint("json_schema", {"type": "array", "items": {"type": "integer"}, "maxItems": 5, "uniqueItems": True}),
    ]
    options = {"speculation": 4, "jump_forward": True} if drafts else {}
    asks = [
        request(engine, f'{{"name": "Anna", "age": 31, "tags": ["new"]}} {number}', constraint=constraints[number % 5], max_tokens=80,
                sampling=Sampling(temperature=number % 3 / 2, seed=number), **options)
        for number in range(75)
    ]  # fmt: skip
    answers = engine.generate_batch(asks)
    for ask, answer in zip(asks, answers, strict=True):
        assert (answer.error, answer.complete) == (None, True), answer.text
        check(ask.constraint.kind, ask.constraint.value, answer.text)
    assert engine.slots.rows == 0
    if drafts:
        assert sum(answer.stats.draft_tokens for answer in answers) > sum(answer.stats.draft_accepted for answer in answers) > 0
        assert sum(answer.stats.jump_tokens for answer in answers) > 0


def test_drafts_change_nothing(engine):
    """A greedy answer is the same with drafts and forced text, in fewer passes."""
    asks = ['Repeat: {"name": "Anna", "age": 31, "tags": ["new", "sale"]}', ASK]
    plain, drafted = (
        engine.generate_batch(
            [request(engine, ask, constraint=Constraint("json_schema", PERSON), sampling=GREEDY, **options) for ask in asks]
        )
        for options in ({}, {"speculation": 6})
    )
    assert [answer.token_ids for answer in drafted] == [answer.token_ids for answer in plain]
    assert sum(answer.stats.forwards for answer in drafted) < sum(answer.stats.forwards for answer in plain)


def test_a_draft_model(loaded):
    """A second GGUF drafts for the first; being the same model, nearly all it drafts is accepted."""
    engine = Engine(*loaded["demo"], draft_model=loaded["demo"][0], max_running=2)
    ask = request(engine, constraint=Constraint("json_schema", PERSON), sampling=GREEDY, speculation=4)
    answer = engine.generate(ask)
    assert answer.complete
    assert answer.stats.draft_accepted >= 0.8 * answer.stats.draft_tokens > 0


@pytest.mark.parametrize("drafts", [False, True], ids=["plain", "drafts"])
def test_tool_calls(engine, drafts):
    """Tool calls between special tokens are calls of tools that exist, with arguments of their schemas, drafted or not."""
    call = '<|tool|>{"name": "$name", "arguments": $arguments}<|system|>'
    format = Format(name="made_up", families="none", parsers="none", calls=(call,), separator="")
    tools = read_tools(
        [{"type": "function", "name": "find", "parameters": PERSON}, {"type": "function", "name": "order", "parameters": ORDER}]
    )
    names = named_tokens(format, engine.vocabulary.special)
    shown = {engine.vocabulary.special[name]: text for name, text in names.items()}
    tag = structural_tag(format, choose(tools, "required", parallel=True), special=names)
    options = {"speculation": 4, "jump_forward": True} if drafts else {}
    asks = [
        request(engine, constraint=Constraint("structural_tag", tag), sampling=Sampling(seed=seed), max_tokens=120, shown=shown, **options)
        for seed in range(12)
    ]
    for answer in engine.generate_batch(asks):
        assert answer.complete, answer.text
        pieces = CallParser(format, tools, special=names).feed(answer.text, final=True)
        calls = [piece for piece in pieces if isinstance(piece, Call)]
        assert calls
        for piece in calls:
            check("json_schema", {"find": PERSON, "order": ORDER}[piece.name], piece.arguments)


def test_a_hundred_tools_of_agents(loaded):
    """All tools of the corpus in one request, which llama.cpp's own grammars refuse: every answer is a call with valid JSON."""
    lines = (Path(__file__).parents[2] / "corpus" / "agent_tools.jsonl").read_text("utf-8").splitlines()
    parts = [{key: value for key, value in json.loads(line).items() if key != "source"} for line in lines]
    tools = read_tools([{"type": "function", "function": part} for part in parts])
    engine = Engine(*loaded["spm"], max_running=8)
    tag = structural_tag(FORMATS["hermes"], choose(tools, "required", parallel=False), special={})
    asks = [
        request(engine, "name", constraint=Constraint("structural_tag", tag), sampling=Sampling(seed=seed), max_tokens=250, speculation=2)
        for seed in range(8)
    ]
    names = set()
    for answer in engine.generate_batch(asks):
        assert (answer.error, answer.complete) == (None, True), answer.text
        (call,) = [piece for piece in CallParser(FORMATS["hermes"], tools).feed(answer.text, final=True) if isinstance(piece, Call)]
        json.loads(call.arguments)
        names.add(call.name)
    assert len(names) > 1


def test_what_cannot_be_served(loaded, files, tmp_path):
    """Trees of drafts, too many rows, and files that are no models are errors with a reason."""
    model, tokenizer = loaded["spm"]
    engine = Engine(model, tokenizer, max_running=2)
    with pytest.raises(RequestError, match="draft_tree"):
        engine.prepare(request(engine, speculation=2, draft_tree=2))
    with pytest.raises(ModelError, match="at most 256 requests"):
        model.make_cache(257)
    with pytest.raises(GGUFError, match="not a GGUF file"):
        load_gguf(__file__)
    with pytest.raises(GGUFError, match="cannot read"):
        load_gguf(tmp_path / "none.gguf")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(files["spm"].read_bytes()[:2000])
    with pytest.raises(GGUFError, match="cannot load"):
        load_gguf(broken, library=model.library)
    for options in ({"context": 0}, {"threads": 0}):
        with pytest.raises(ValueError, match="below 1"):
            load_gguf(files["spm"], **options)
    cache = model.make_cache(1)
    cache.add()
    with pytest.raises(ModelError, match="llama_decode returned -1"):
        cache.prefill(0, [100_000])


def test_models_are_freed(library, files, monkeypatch):
    """A model lives as long as one of its caches, and no longer."""
    freed = []
    monkeypatch.setattr(library.native, "llama_model_free", lambda pointer: freed.append(("model", pointer)))
    monkeypatch.setattr(library.native, "llama_free", lambda pointer: freed.append(("context", pointer)))
    model = LlamaModel(files["spm"], threads=1, context=64, library=library)
    pointer = model.pointer
    cache = model.make_cache(1)
    cache.prefill(cache.add(), [1, 2])
    del model
    gc.collect()
    assert freed == []
    del cache
    gc.collect()
    assert [kind for kind, _ in freed] == ["context", "model"]
    assert freed[1] == ("model", pointer)


def test_generate(files, monkeypatch):
    """`generate` takes the file itself."""
    monkeypatch.setattr(stackmask.integration.llama_cpp.model, "_cores", lambda: 1)
    answer = stackmask.generate(gguf=files["demo"], prompt="Yes or no?", choice=["yes", "no"])
    assert answer.text in ("yes", "no")
    with pytest.raises(TypeError, match="not both"):
        stackmask.generate(1, 2, "?", gguf=files["demo"])
    with pytest.raises(TypeError, match="needs a model"):
        stackmask.generate(prompt="?")
