"""Drafts, jumps and what is taken back: fewer passes, the same text."""

import json
from collections import Counter

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from stackmask.integration.engine import Constraint, Engine, Request, Sampling  # noqa: E402
from stackmask.integration.engine.budget import ShortestTokenization  # noqa: E402
from stackmask.integration.engine.drafts import Draft, lookup, merge  # noqa: E402
from stackmask.integration.engine.guide import Guide  # noqa: E402
from stackmask.integration.engine.text import TextStream  # noqa: E402

GREEDY = Sampling(temperature=0)
RECORDS = [
    [{"name": "Anna Keller", "city": "Lisbon", "email": "anna.keller@example.com"}],
    [{"name": "Hugo Silva", "city": "Oslo", "job": "pilot"}, {"name": "Ida Silva", "city": "Rome", "job": "pilot"}],
    [{"title": "Art fair", "city": "Vienna", "priority": "low"}, {"title": "City tour", "city": "Prague", "priority": "high"}],
    [{"sku": "AB-123", "product": "umbrella", "quantity": 3}, {"sku": "CD-456", "product": "backpack", "quantity": 12}],
]


@pytest.fixture(scope="module")
def drafting(model):
    """An engine whose draft model is the model itself, so that drafts are right as long as the grammar lets them be."""
    return Engine(*model, draft_model=model[0], max_running=16)


def repeat(engine, records, **options):
    """A request to repeat JSON that stands in the prompt."""
    text = json.dumps(records[0] if len(records) == 1 else records)
    return Request(prompt=engine.encode(f"Repeat this JSON: {text}"), constraint=Constraint("json"), sampling=GREEDY, **options)


@pytest.mark.parametrize("tree", [1, 3])
def test_prompt_lookup_saves_passes_and_changes_nothing(engine, tree):
    """Greedy text is the same with drafts, alone and in a batch, and takes at least a quarter fewer passes."""
    plain = [engine.generate(repeat(engine, records, max_tokens=120)) for records in RECORDS]
    drafted = engine.generate_batch([repeat(engine, records, max_tokens=120, speculation=6, draft_tree=tree) for records in RECORDS])
    assert [answer.token_ids for answer in drafted] == [answer.token_ids for answer in plain]
    assert sum(answer.stats.forwards for answer in drafted) < 0.75 * sum(answer.stats.forwards for answer in plain)
    for answer in drafted:
        assert 0 < answer.stats.draft_accepted <= answer.stats.draft_tokens
        assert answer.stats.forwards + 1 + answer.stats.draft_accepted >= len(answer.token_ids)


def test_a_draft_model(engine, drafting):
    """Drafts of a model that is always right are all accepted; the text is that without drafts, sampled or not."""
    for sampling in (GREEDY, Sampling(seed=3, temperature=0.7)):
        request = {"prompt": engine.encode("Write a person as JSON."), "constraint": Constraint("json"), "sampling": sampling}
        plain = engine.generate(Request(**request, max_tokens=80))
        drafted = drafting.generate(Request(**request, max_tokens=80, speculation=4))
        assert drafted.text == plain.text
        assert drafted.stats.forwards < plain.stats.forwards
        if sampling is GREEDY:
            assert drafted.stats.draft_accepted >= 0.9 * drafted.stats.draft_tokens
    assert drafting.drafts.slots.rows == 0


def test_drafts_keep_the_distribution(engine, drafting):
    """A chi-squared test: under the grammar, with drafts and seeds of their own, tokens come as often as without."""
    prompt = engine.encode("ab ab ab ab ba ba aa Write: ")
    options = {"prompt": prompt, "constraint": Constraint("regex", "[ab]{3}"), "max_tokens": 4, "finish_within_budget": False}
    counts = []
    for maker, speculation, base in ((engine, 0, 0), (drafting, 3, 10_000)):
        requests = [Request(**options, sampling=Sampling(seed=base + i, temperature=4), speculation=speculation) for i in range(400)]
        answers = maker.generate_batch(requests)
        counts.append(Counter(answer.text for answer in answers))
        assert (sum(answer.stats.draft_tokens for answer in answers) > 200) == (speculation > 0)
    plain, drafted = counts
    statistic = sum((plain[text] - drafted[text]) ** 2 / (plain[text] + drafted[text]) for text in plain | drafted)
    assert len(plain | drafted) == 8
    assert statistic < 24.3  # one in a thousand at seven degrees of freedom


def test_jump_forward_saves_passes(engine):
    """Forced text comes as tokens of the tokenizer, and the JSON is as valid as without."""
    schema = {
        "type": "object",
        "properties": {"temperature_in_degrees": {"enum": [1, 2]}, "pressure_in_pascal": {"enum": [3, 4]}},
        "required": ["temperature_in_degrees", "pressure_in_pascal"],
        "additionalProperties": False,
    }
    constraint = Constraint("json_schema", schema, {"whitespace": "compact"})
    request = {"prompt": engine.encode("Write a report as JSON."), "constraint": constraint, "sampling": GREEDY}
    pieces = []
    jumped = engine.generate(Request(**request, jump_forward=True))
    engine.submit(Request(**request, jump_forward=True), lambda event: pieces.append(event.text))
    while engine.step():
        pass
    assert "".join(pieces) == jumped.text
    plain = engine.generate(Request(**request))
    assert json.loads(jumped.text).keys() == json.loads(plain.text).keys() == schema["properties"].keys()
    assert jumped.stats.jump_tokens > 5
    assert jumped.stats.forwards < 0.6 * plain.stats.forwards
    whole = engine.tokenizer(jumped.text, add_special_tokens=False)["input_ids"]
    assert list(jumped.token_ids) == whole


def test_everything_at_once(engine):
    """Drafts, jumps, budgets and seeds in one batch: each answer parses, whatever its limit."""
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["new", "sale"]}, "minItems": 1}},
        "required": ["name", "tags"],
        "additionalProperties": False,
    }
    requests = [
        Request(
            prompt=engine.encode("Write a person as JSON with name, tags."),
            constraint=Constraint("json_schema", schema),
            sampling=Sampling(seed=i, temperature=1.2),
            max_tokens=14 + i,
            speculation=i % 5,
            draft_tree=1 + i % 3,
            jump_forward=i % 2 == 0,
        )
        for i in range(32)
    ]
    for request, answer in zip(requests, engine.generate_batch(requests), strict=True):
        assert answer.error is None and len(answer.token_ids) <= request.max_tokens
        assert json.loads(answer.text).keys() == {"name", "tags"}
    assert engine.slots.rows == 0


def test_rolling_back_across_the_end_of_reasoning(engine):
    """A guide gives back tokens of the answer and of the reasoning before it, and takes them again."""
    grammar = engine.compiler.regex("ab")
    a, b = (engine.tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in "ab")
    end = engine.tokenizer("#", add_special_tokens=False)["input_ids"]
    guide = Guide(grammar, engine.vocabulary.stop_token_ids, end, ShortestTokenization(engine.vocabulary))
    for token in (b, b, *end, a):
        assert guide.accept(token)
    assert guide.is_active and not guide.is_completed
    guide.rollback(3)
    assert not guide.is_active
    for token in (a, *end, a, b):
        assert guide.accept(token)
    assert guide.is_completed


def test_lookup_and_merge():
    """The longest match comes first; branches that begin alike share a path; the budget holds."""
    assert lookup([1, 2, 3, 4, 9, 1, 2, 3], 2, 1) == [[4, 9]]
    assert lookup([1, 2, 5, 7, 1, 2, 6, 1, 2], 3, 2) == [[6, 1, 2], [5, 7, 1]]
    assert lookup([1, 2, 3], 2, 1) == []
    assert merge([[4, 5], [4, 6]], 8) == Draft((4, 5, 6), (-1, 0, 0))
    assert merge([[4, 5, 6]], 2) == Draft((4, 5), None)


def test_lookup_in_a_text_that_repeats_itself():
    """However often the last token occurs, each token is looked at once, and a few occurrences are compared."""

    class Counted(list):
        looks = 0

        def __getitem__(self, place):
            Counted.looks += 1
            return super().__getitem__(place)

    assert lookup(Counted([5] * 4000), 3, 8) == [[5]]
    assert Counted.looks < 4000 + 2000


def test_spelling_within_a_number_of_tokens(engine):
    """The fewest tokens that spell a text, or nothing where even these are too many."""
    tokenization = ShortestTokenization(engine.vocabulary)
    data = b'{"name": "Anna"}'
    tokens = tokenization.spell(data, 100)
    assert b"".join(engine.vocabulary.token_bytes(token) for token in tokens) == data
    assert len(tokens) <= len(engine.tokenizer(data.decode(), add_special_tokens=False)["input_ids"])
    assert tokenization.spell(data, len(tokens)) == tokens
    assert tokenization.spell(data, len(tokens) - 1) is None


def test_text_comes_whole():
    """Characters are never cut; what may begin a stop text waits until it does not."""
    stream = TextStream(["<end>"])
    euro = "€".encode()
    assert [stream.feed(euro[:1]), stream.feed(euro[1:] + b"<e"), stream.feed(b"x<en"), stream.feed(b"d>y")] == ["", "€", "<ex", ""]
    assert stream.stopped
    assert TextStream().feed(euro[:2], final=True) == "�"
