"""Forced text cut into tokens. The oracle is the tokenizer itself: what it makes of the text before and the forced text together."""

from pathlib import Path

import pytest

from stackmask.integration.compiler import Compiler
from stackmask.integration.demo import load_tokenizer
from stackmask.integration.engine.budget import ShortestTokenization
from stackmask.integration.engine.guide import Guide
from stackmask.integration.engine.jump import Jump, find_jump
from stackmask.integration.forced_drafts import LONGEST_TOKEN, Cut, cut_behind, forced_tokens
from stackmask.integration.tokenizers import Vocabulary

pytest.importorskip("transformers")

from support import word_tokens

TEXTS = (
    '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo", "days": 12345}}</tool_call>',
    '{"name": [.name is known\n\n  "\u00e9t\u00e9": "\u4e2d\u6587"\n}',
    "call it: the name's value",
)


def loaded(kind):
    """A tokenizer's vocabulary and its function from texts to tokens."""
    if kind == "sentencepiece":
        mistral_common = pytest.importorskip("mistral_common")
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

        made = MistralTokenizer.from_file(str(next((Path(mistral_common.__file__).parent / "data").glob("*.model.v3"))))
        inner = made.instruct_tokenizer.tokenizer
        return Vocabulary.from_mistral(made, inner.n_words), lambda text: inner.encode(text, bos=False, eos=False)
    made = load_tokenizer() if kind == "demo" else word_tokens.load()
    return Vocabulary.from_transformers(made), lambda text: made.encode(text, add_special_tokens=False)


@pytest.fixture(scope="module", params=["demo", "words", "sentencepiece"])
def tokenizer(request):
    return loaded(request.param)


@pytest.fixture(scope="module")
def words():
    return loaded("words")


def behind_a_line(encode, text):
    """The tokens of a text in the middle of another, where SentencePiece adds no blank."""
    head = encode("\n")
    tokens = encode("\n" + text)
    assert tokens[: len(head)] == head
    return tokens[len(head) :]


@pytest.mark.parametrize("text", TEXTS)
def test_as_the_tokenizer_cuts_the_whole(tokenizer, text):
    """Wherever its own tokens are divided, those behind follow those before; at the beginning no blank is added."""
    vocabulary, encode = tokenizer
    tokens = behind_a_line(encode, text)
    checked = 0
    for place in range(len(tokens)):
        rest = b"".join(vocabulary.token_bytes(token) for token in tokens[place:])
        if rest[0] & 0xC0 != 0x80:  # inside a character nothing can be cut
            checked += 1
            assert cut_behind(tokens[:place], rest, vocabulary, encode).tokens == tokens[place:]
    assert checked > 5


def test_the_token_before_matters(words):
    """By itself the text would be cut otherwise."""
    vocabulary, encode = words
    (bracket,) = encode("[")
    assert encode("[.name") == [bracket, *encode("."), *encode("name")]
    assert cut_behind([bracket], b".name", vocabulary, encode).tokens == [*encode("."), *encode("name")]
    assert cut_behind([], b".name", vocabulary, encode).tokens == encode(".name") != [*encode("."), *encode("name")]


def test_tokens_that_the_tokenizer_does_not_make(words):
    """It sees only those behind which its own cut has a border, and the cut is marked as unusual."""
    vocabulary, encode = words
    letters = [token for letter in "name" for token in encode(letter)]
    bracket, end = encode("["), vocabulary.stop_token_ids[0]
    assert cut_behind([*letters, *bracket], b".name", vocabulary, encode) == Cut([*encode("."), *encode("name")], is_usual=False)
    assert cut_behind(letters[:2], b"me", vocabulary, encode) == Cut(encode("me"), is_usual=False)
    assert cut_behind([*letters, end], b".name", vocabulary, encode) == Cut(encode(".name"), is_usual=True), "no text before"
    assert cut_behind([*encode("\u00e9"), *encode("\u00e9[.")][1:], b"name", vocabulary, encode) == Cut(encode("name"), is_usual=True)


def test_half_a_character(words):
    """Texts that have the first bytes of a character in common: its whole characters are cut."""
    vocabulary, encode = words
    matcher = Compiler(vocabulary).choice(["name is \u4e2d", "name is \u4e22"]).matcher()
    assert matcher.find_jump_forward_bytes() == b"name is \xe4\xb8"
    assert forced_tokens(matcher, [], 20, encode) == encode("name is ")[:-1]
    assert cut_behind([], b"\xb8name", vocabulary, encode) == Cut([], is_usual=True), "no text"
    assert cut_behind([], b"", vocabulary, encode) == Cut([], is_usual=True)


def test_a_tokenizer_that_changes_text(words):
    """Nothing is cut."""
    vocabulary, encode = words
    assert cut_behind([], b"NAME", vocabulary, lambda text: encode(text.lower())).tokens == []


def test_at_most_so_many(words):
    """No more text is cut than the tokens need."""
    vocabulary, encode = words
    matcher = Compiler(vocabulary).json_schema({"const": "x" * 5000}).matcher()
    seen = []
    found = forced_tokens(matcher, [], 3, lambda text: seen.append(text) or encode(text))
    assert found == encode('"xxxx')[:3]
    assert max(map(len, seen)) <= 4 * LONGEST_TOKEN
    assert forced_tokens(matcher, [], 0, encode) == []


def test_jumps_of_the_engine(tokenizer):
    """They take back a token that the tokenizer joins with the forced text, and put no blank before the first word."""
    vocabulary, encode = tokenizer
    text = 'call: {"name": "get_weather"}'
    guide = Guide(Compiler(vocabulary).choice([text]), vocabulary.stop_token_ids, (), ShortestTokenization(vocabulary))
    whole = behind_a_line(encode, text)
    assert find_jump(guide, [], vocabulary, encode) == Jump(0, tuple(whole[:-1]))
    letter = next(token for token in guide.matcher.allowed_tokens() if vocabulary.token_bytes(token) == b"c")
    assert guide.accept(letter)
    assert find_jump(guide, [letter], vocabulary, encode) == Jump(int(whole[0] != letter), tuple(whole[int(whole[0] == letter) : -1]))
