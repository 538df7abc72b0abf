"""What notebooks show of grammars, matchers and answers: tokens in colours, and never a text as HTML."""

import dataclasses
import math
from html.parser import HTMLParser

import pytest

import stackmask
from stackmask.integration.answers.generation import GenerationStats
from stackmask.integration.demo import demo_vocabulary, load_model

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>'\"&"
TAGS = {"div", "span", "table", "tr", "td", "details", "summary", "pre"}


class Reader(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Note a tag."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        """Note a text."""
        self.text += data


def read(thing):
    reader = Reader(thing._repr_html_())
    assert reader.tags <= TAGS
    assert reader.attributes <= {"style", "title"}
    return reader


@pytest.fixture(scope="module")
def compiler():
    return stackmask.Compiler(demo_vocabulary())


def answer(grammar, text):
    vocabulary = demo_vocabulary()
    matcher, ids = grammar.matcher(), []
    left = text.encode()
    while left:
        fitting = [token for token in matcher.allowed_tokens() if left.startswith(vocabulary.token_bytes(token) or b"\0")]
        token = max(fitting, key=lambda token: len(vocabulary.token_bytes(token)))
        matcher.accept_token(token)
        ids.append(token)
        left = left[len(vocabulary.token_bytes(token)) :]
    ids.append(vocabulary.stop_token_ids[0])
    return stackmask.Generation(text, tuple(ids), "stop", True, False, 3, GenerationStats(), grammar=grammar)


def test_a_grammar(compiler):
    """Its size, its report and its rules."""
    reader = read(compiler.json_schema({"type": "object", "properties": {EVIL: {"enum": [EVIL]}}}))
    assert "enforced" in reader.text
    assert "root ::=" in reader.text
    assert "onerror=alert(1)" in reader.text
    read(compiler.choice([EVIL]))


def test_a_matcher(compiler):
    """Where it stands, what may come next and the shortest end."""
    matcher = compiler.choice([EVIL, "<b>"]).matcher()
    matcher.accept_bytes(b"<")
    reader = read(matcher)
    assert "allowed tokens" in reader.text
    assert "shortest endb>" in reader.text
    matcher.accept_bytes(b"b>")
    read(matcher)
    assert matcher.num_accepted == 2


def test_a_generation(compiler):
    """The tokens together are the text; a forced one has another colour than a chosen one."""
    found = answer(compiler.choice([EVIL, "other"]), EVIL)
    reader = read(found)
    assert EVIL in reader.text
    page = found._repr_html_()
    assert "background:#7c5cff33" in page
    assert "background:#16a37a2e" in page
    free = stackmask.Generation(EVIL, (1, 2), "length", False, False, 3, GenerationStats())
    assert EVIL in read(free).text


def test_probabilities(compiler):
    """Chosen tokens have the colour of their probability, forced ones their own; both say it, and a stop token has none."""
    grammar = compiler.choice(["a", "b"])
    found = answer(grammar, "a")
    page = dataclasses.replace(found, logprobs=(math.log(0.25),))._repr_html_()
    assert 'background:hsl(32 80% 45% / .3)" title="token' in page
    assert "2 allowed, probability 0.25" in page
    assert page.count("probability") == 1
    assert "hsl" not in found._repr_html_()
    forced = dataclasses.replace(answer(compiler.choice(["a"]), "a"), logprobs=(0.0,))._repr_html_()
    assert "1 allowed, probability 1" in forced
    assert "hsl" not in forced


def test_probabilities_of_a_model():
    """`logprobs=True` gives each token of the answer its log-probability among the allowed ones."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    model, tokenizer = load_model()
    options = {"json_schema": {"enum": ["yes", "no", 17]}, "whitespace": "compact", "max_tokens": 20}
    found = stackmask.generate(model, tokenizer, "Yes?", **options, logprobs=True)
    ids = [token for token in found.token_ids if token not in demo_vocabulary().stop_token_ids]
    assert len(found.logprobs) == len(ids) > 0
    assert all(value <= 0 for value in found.logprobs)
    matcher, bitmask = found.grammar.matcher(), stackmask.allocate_token_bitmask(1, demo_vocabulary().size)
    for token, value in zip(ids, found.logprobs, strict=True):
        matcher.fill_next_token_bitmask(bitmask)
        assert (value == 0) == (matcher.allowed_tokens() == [token])
        matcher.accept_token(token)
    assert stackmask.generate(model, tokenizer, "Yes?", **options).logprobs == ()
    with pytest.raises(ValueError, match="logprobs cannot be combined with faithful"):
        stackmask.generate(model, tokenizer, "Yes?", choice=["a"], faithful=True, logprobs=True)
