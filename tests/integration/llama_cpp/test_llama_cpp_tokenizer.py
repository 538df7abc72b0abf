"""The vocabulary and the tokenizer of a GGUF file."""

import pytest

from stackmask.integration.tokenizers import Vocabulary
from stackmask.integration.tokenizers.decoders import SENTENCEPIECE, decode_pieces
from stackmask.pda.exceptions import VocabularyError

TEXTS = ["", "a", "Anna is 31.", '{"name": "Anna"}\n', "  two  blanks", "naïve 日本 \x00\x7f", "<|user|>\nHi<|end|>", "no <tool> here"]


def stored(path):
    """The tokens and their types as the package `gguf` reads them."""
    import gguf

    fields = gguf.GGUFReader(path).fields
    return fields["tokenizer.ggml.tokens"].contents(), fields["tokenizer.ggml.token_type"].contents()


def test_demo_vocabulary_is_that_of_transformers(loaded, model):
    """The demo model has the same tokens, names and stop tokens in either format."""
    ours, theirs = loaded["demo"][1].vocabulary, Vocabulary.from_transformers(model[1], size=1280)
    assert (ours.tokens, dict(ours.special), ours.stop_token_ids) == (theirs.tokens, dict(theirs.special), theirs.stop_token_ids)


@pytest.mark.parametrize("kind", ["spm", "bpe"])
def test_escapes_are_undone(loaded, files, kind):
    """Bytes, blanks and words stand for their bytes; control tokens for none; what a user defined for its text, under its name."""
    vocabulary = loaded[kind][1].vocabulary
    names, types = stored(files[kind])
    decoded = decode_pieces(names, SENTENCEPIECE if kind == "spm" else {"type": "ByteLevel"})
    for token, (name, type_, data) in enumerate(zip(names, types, decoded, strict=True)):
        expected = {1: data, 6: data, 4: name.encode()}.get(type_)
        assert vocabulary.token_bytes(token) == expected, name
    assert vocabulary.special == {name: token for token, (name, type_) in enumerate(zip(names, types, strict=True)) if type_ in (2, 3, 4)}
    assert vocabulary.stop_token_ids == (2,)
    assert {bytes([byte]) for byte in range(256)} <= set(vocabulary.tokens)


def test_demo_texts_are_cut_as_transformers_does(loaded, model):
    """The same tokens for the same text, special tokens by their names."""
    for text in TEXTS:
        assert loaded["demo"][1](text) == {"input_ids": model[1](text)["input_ids"]}, text


@pytest.mark.parametrize("kind", ["spm", "bpe", "demo"])
def test_a_continuation_is_the_text_itself(loaded, kind):
    """Text that goes on after another gets no blank in front."""
    tokenizer = loaded[kind][1]
    for text in ["a", " a", "name", '": "Anna",\n  "age": ', "日本", "\n\n", "the er"]:
        ids = tokenizer.continuation(text)
        assert b"".join(tokenizer.vocabulary.token_bytes(token) for token in ids) == text.encode()
    assert tokenizer.decode(tokenizer.continuation("name er")) == "name er"


def test_chat_template(loaded, model):
    """A chat is rendered by the template in the file, as transformers renders the same."""
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    ours, theirs = loaded["demo"][1], model[1]
    for options in ({}, {"add_generation_prompt": True}):
        assert ours.apply_chat_template(chat, **options) == theirs.apply_chat_template(chat, tokenize=False, **options)
    spm = loaded["spm"][1]
    text = spm.apply_chat_template([{"role": "user", "content": "name"}], add_generation_prompt=True)
    assert spm(text, add_special_tokens=False)["input_ids"][0] == spm.vocabulary.special["<|user|>"]
    with pytest.raises(ValueError, match="gives text"):
        spm.apply_chat_template(chat, tokenize=True)


def test_vocabularies_without_exact_bytes_are_refused(loaded, monkeypatch):
    """WordPiece joins tokens by what is beside them; a model without a vocabulary has none."""
    tokenizer = loaded["spm"][1]
    from stackmask.integration.llama_cpp.tokenizer import read_vocabulary

    for kind, message in ((0, "no vocabulary"), (3, "WordPiece")):
        with monkeypatch.context() as context:
            context.setattr(tokenizer._library.native, "llama_vocab_type", lambda vocab, kind=kind: kind)
            with pytest.raises(VocabularyError, match=message):
                read_vocabulary(tokenizer._library, tokenizer._model)
