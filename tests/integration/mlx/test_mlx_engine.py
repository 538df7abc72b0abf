"""The engine and the server over mlx-lm: the same answers as over transformers, all of them valid."""

import json
import re
import sys

import pytest

mx = pytest.importorskip("mlx.core")
torch = pytest.importorskip("torch")
pytest.importorskip("mlx_lm")
pytest.importorskip("transformers")

import jsonschema  # noqa: E402
from mlx_lm.models import llama  # noqa: E402
from support.rows import check_passes, same_greedy_answers  # noqa: E402

import stackmask  # noqa: E402
from stackmask.integration.cli import main  # noqa: E402
from stackmask.integration.engine import Constraint, Engine, Request, RequestError, Sampling  # noqa: E402
from stackmask.integration.engine.kv_cache import Slots  # noqa: E402
from stackmask.integration.mlx.cache import PREFILL_CHUNK  # noqa: E402
from stackmask.integration.mlx.model import UNBOUNDED, MLXModel, load_mlx  # noqa: E402

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^(?!x)[A-Za-z ]{1,9}$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["new", "sale", "home"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
REGEX = r"(\+[0-9]{1,3} )?[0-9]{3}-[0-9]{4}( ext\. [0-9]{2})?"
GREEDY = Sampling(temperature=0)
ASK = "Write a person as JSON with name, age, tags."


@pytest.fixture(scope="module")
def loaded(directory):
    """The demo model in MLX, with the precision that the other engine's has, and its tokenizer."""
    model, tokenizer = load_mlx(directory)
    model.module.set_dtype(mx.float32)
    return model, tokenizer


@pytest.fixture(scope="module")
def engine(loaded):
    return Engine(*loaded, max_running=8)


def request(engine, text=ASK, **options):
    return Request(prompt=engine.encode(text), **options)


def test_the_same_logits_as_transformers(loaded, model):
    """The weights are the same, so are the logits, in one pass over rows of different lengths, and again after tokens are taken back."""
    ours, theirs = loaded[0].make_cache(4), Slots(model[0], 4)
    prompts = [[1, 4, 384, 279], [5, 6], [4 + place % 900 for place in range(PREFILL_CHUNK + 100)]]
    with torch.inference_mode():
        for prompt in prompts:
            left, right = (cache.prefill(cache.add(), prompt) for cache in (ours, theirs))
            assert left.shape == (1, 1, 1280)
            assert torch.allclose(left[0], right[0], atol=0.01)
        check_passes(ours, theirs, prompts, 0.01)
        assert ours.lengths == theirs.lengths == [7, PREFILL_CHUNK + 105, 4]
        ours.clear()
        assert (ours.rows, ours.add()) == (0, 0)


def test_greedy_answers_are_those_of_transformers(engine, model):
    """Masks, batches and MLX change nothing: a greedy answer is that of the engine over transformers, but for close ties."""
    assert same_greedy_answers(engine, Engine(*model, max_running=8), PERSON) >= 7


def check(constraint, text):
    """Whether a text is what its constraint asks for, by other code than stackmask's."""
    if constraint.kind == "json_schema":
        jsonschema.validate(json.loads(text), constraint.value)
    else:
        assert re.fullmatch(constraint.value, text)


@pytest.mark.parametrize("drafts", [False, True], ids=["plain", "drafts"])
def test_every_answer_is_valid(engine, drafts):
    """Schemas and patterns at any temperature, in one batch of changing rows, with drafts and forced text or without."""
    constraints = [
        Constraint("json_schema", PERSON, {"whitespace": "compact"}),
        Constraint("regex", REGEX),
        Constraint("json_schema", {"type": "array", "items": {"type": "integer"}, "maxItems": 5, "uniqueItems": True}),
    ]
    options = {"speculation": 4, "jump_forward": True} if drafts else {}
    asks = [
        request(engine, f'{{"name": "Anna", "age": 31, "tags": ["new"]}} {number}', constraint=constraints[number % 3], max_tokens=80,
                sampling=Sampling(temperature=number % 4 / 2, seed=number), **options)
        for number in range(24)
    ]  # fmt: skip
    answers = engine.generate_batch(asks)
    for ask, answer in zip(asks, answers, strict=True):
        assert (answer.error, answer.complete) == (None, True), answer.text
        check(ask.constraint, answer.text)
    assert engine.slots.rows == 0
    if drafts:
        assert sum(answer.stats.draft_tokens for answer in answers) > sum(answer.stats.draft_accepted for answer in answers) > 0
        assert sum(answer.stats.jump_tokens for answer in answers) > 0


def test_drafts_change_nothing(loaded, engine):
    """A greedy answer is the same with drafts, looked up or by a draft model, in fewer passes."""
    drafting = Engine(*loaded, draft_model=loaded[0], max_running=2)
    plain, looked_up, drafted = (
        one.generate(request(one, constraint=Constraint("json_schema", PERSON), sampling=GREEDY, **options))
        for one, options in ((engine, {}), (engine, {"speculation": 6}), (drafting, {"speculation": 4}))
    )
    assert plain.token_ids == looked_up.token_ids == drafted.token_ids
    assert drafted.stats.draft_accepted >= 0.8 * drafted.stats.draft_tokens > 0
    assert drafted.stats.forwards < plain.stats.forwards


def test_sliding_windows(loaded):
    """Layers that forget run by the caches that the model makes: answers are valid past the window, and drafts are refused."""
    mx.random.seed(0)
    module = llama.Model(
        llama.ModelArgs(
            model_type="llama", hidden_size=32, num_hidden_layers=2, intermediate_size=64, num_attention_heads=2, rms_norm_eps=1e-5,
            vocab_size=1280, layer_types=["sliding_attention", "full_attention"], sliding_window=16,
        )
    )  # fmt: skip
    model = MLXModel(module, {"text_config": {"max_position_embeddings": None}})
    assert (model.config.vocab_size, model.config.max_position_embeddings) == (1280, UNBOUNDED)
    assert "llama" in repr(model)
    engine = Engine(model, loaded[1], max_running=4)
    constraint = Constraint("json_schema", PERSON, {"whitespace": "compact"})
    asks = [request(engine, constraint=constraint, sampling=Sampling(seed=seed), max_tokens=120) for seed in range(6)]
    answers = engine.generate_batch(asks)
    for answer in answers:
        assert answer.complete
        check(constraint, answer.text)
    with pytest.raises(RequestError, match="takes tokens back"):
        engine.prepare(request(engine, speculation=2))
    with pytest.raises(RequestError, match="draft_tree"):
        Engine(*loaded, max_running=1).prepare(request(engine, speculation=2, draft_tree=2))


def test_generate(loaded):
    """`generate` takes the model and tokenizer as it takes those of transformers."""
    assert stackmask.generate(*loaded, "Yes or no?", choice=["yes", "no"]).text in ("yes", "no")


def test_the_server(directory):
    """`stackmask serve --mlx`: more clients than rows get valid answers, a call of a tool too, with drafts and forced text."""
    pytest.importorskip("openai")
    pytest.importorskip("fastapi")
    from concurrent.futures import ThreadPoolExecutor

    from support.server import Server

    server = Server(
        "--mlx", str(directory), "--draft-model", str(directory), "--max-concurrent", "3", "--speculation", "3", "--jump-forward"
    )
    try:
        client = server.client()
        (model,) = client.models.list()
        assert (model.id, model.max_model_len) == ("demo-mlx", 2048)

        def ask(number):
            format = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
            messages = [{"role": "user", "content": f"Write a person as JSON. {number}"}]
            answer = client.chat.completions.create(model=model.id, messages=messages, response_format=format, seed=number, max_tokens=120)
            jsonschema.validate(json.loads(answer.choices[0].message.content), PERSON)

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(ask, range(8)))
        tools = [{"type": "function", "function": {"name": "save", "parameters": PERSON}}]
        messages = [{"role": "user", "content": "Save Anna."}]
        answer = client.chat.completions.create(
            model=model.id, messages=messages, tools=tools, tool_choice="required", parallel_tool_calls=False, max_tokens=200
        )
        (call,) = answer.choices[0].message.tool_calls
        jsonschema.validate(json.loads(call.function.arguments), PERSON)
        pieces = client.completions.create(
            model=model.id, prompt="1", max_tokens=20, stream=True, extra_body={"regex": "[0-9]{3},[0-9]{3}"}
        )
        assert re.fullmatch("[0-9]{3},[0-9]{3}", "".join(piece.choices[0].text for piece in pieces if piece.choices))
    finally:
        code = server.stop()
    assert code == 0


def test_what_cannot_be_served(tmp_path, capsys, monkeypatch):
    """A directory without a model, and options of other models, are messages; nothing listens."""
    (tmp_path / "config.json").write_text('{"model_type": "none_such"}')
    for options, message in (
        (["--mlx", str(tmp_path)], "cannot load a model"),
        (["--mlx", str(tmp_path), "--device", "cpu"], "--dtype and --device are for models of transformers"),
        (["--mlx", str(tmp_path), "--context", "100"], "--context has no effect without --gguf"),
    ):
        assert main(["serve", *options]) == 2
        assert message in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "stackmask.integration.mlx.model", None)
    assert main(["serve", "--mlx", str(tmp_path)]) == 2
    assert "--mlx needs mlx-lm" in capsys.readouterr().err
