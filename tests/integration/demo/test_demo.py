"""The demo model that ships with the package: small, complete, and able to say something."""

import json
from pathlib import Path

import pytest

from stackmask.integration.demo import demo_model_path, demo_vocabulary

ROOT = Path(__file__).parents[3]


def test_it_fits_into_the_package():
    """At most 1.5 MB in all, and every file that a Hugging Face model needs."""
    sizes = {file.name: file.stat().st_size for file in demo_model_path().iterdir()}
    assert sum(sizes.values()) <= 1_500_000
    assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= sizes.keys()


def test_the_vocabulary_needs_no_transformers():
    """Every byte is a token, frames are special, and the marks of thoughts and tool calls are text with a name."""
    vocabulary = demo_vocabulary()
    assert {bytes([byte]) for byte in range(256)} <= set(vocabulary.tokens)
    assert vocabulary.token_bytes(vocabulary.special["<|end|>"]) is None
    assert vocabulary.stop_token_ids == (vocabulary.special["<|end|>"],)
    assert {b"<think>", b"</think>", b"<tool_call>", b"</tool_call>"} <= set(vocabulary.tokens)


def test_the_vocabulary_is_the_tokenizers():
    """What is read from the file is what `Vocabulary.from_transformers` reads from the tokenizer."""
    pytest.importorskip("transformers")
    from stackmask.integration.demo import load_tokenizer
    from stackmask.integration.tokenizers import Vocabulary

    expected = Vocabulary.from_transformers(load_tokenizer())
    assert demo_vocabulary().tokens == expected.tokens
    assert demo_vocabulary().stop_token_ids == expected.stop_token_ids
    assert demo_vocabulary().size == expected.size


@pytest.fixture(scope="module")
def generator():
    """The demo model ready to generate."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from stackmask.integration.demo import load_model
    from stackmask.integration.generate import Generator

    return Generator(*load_model())


def test_it_writes_json_without_a_constraint(generator):
    """Its own text is mostly JSON with the keys of the question."""
    parsed = []
    for seed in range(5):
        answer = generator.generate("Write a person as JSON with name, age, city.", temperature=0.5, seed=seed, max_tokens=120)
        try:
            parsed.append(json.loads(answer.text))
        except ValueError:
            continue
    assert sum("name" in value and "age" in value for value in parsed) >= 3


def test_it_repeats_json_from_its_prompt(generator):
    """Most tokens of a document in the prompt come again: what lookup of drafts in the prompt lives on."""
    documents = [
        {"name": "Zoe Novak", "age": 41, "city": "Mutako", "hobbies": ["chess", "yoga"]},
        {"id": 4711, "customer": "Priya Stone", "items": [{"product": "mug", "quantity": 2, "price": 3.5}], "paid": True},
        {"title": "Book club", "date": "2024-05-17", "location": "Oslo", "start": "18:30"},
    ]
    same = total = 0
    for document in documents:
        text = json.dumps(document)
        answer = generator.generate(f"Repeat this JSON:\n{text}", max_tokens=150)
        said, wanted = answer.token_ids, generator.tokenizer(text)["input_ids"]
        total += len(wanted)
        same += sum(a == b for a, b in zip(said, wanted, strict=False))
    assert same >= 0.7 * total


def test_chat_template(generator):
    """Tools, tool calls and thinking have their place in the prompt."""
    tools = [{"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}]
    call = {"function": {"name": "now", "arguments": {"zone": "UTC"}}}
    messages = [{"role": "user", "content": "Time?"}, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "12:00"}]
    text = generator.tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True, enable_thinking=True)
    assert text.startswith('<|begin|><|system|>Tools: [{"type": "function"')
    assert '<|assistant|><tool_call>{"name": "now", "arguments": {"zone": "UTC"}}</tool_call><|end|><|tool|>12:00<|end|>' in text
    assert text.endswith("<|assistant|><think>")


def test_the_corpus_is_seeded(monkeypatch):
    """The script that trains the model makes the same chats from the same seed, and every document of them is JSON."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from demo_corpus import Corpus

    first, second = Corpus(1), Corpus(1)
    chats = [first.chat() for _ in range(500)]
    assert chats == [second.chat() for _ in range(500)]
    assert {message["role"] for chat in chats for message in chat} == {"system", "user", "assistant"}
    for chat in chats:
        if str(chat[0].get("content")).startswith(("Repeat", "Change", "Write a list")):
            json.loads(str(chat[-1]["content"]).rpartition("</think>")[2])


def test_where_a_model_is_found(monkeypatch, tmp_path):
    """A directory, a name in the cache or on the hub, asked once; anything else is an error that says what was tried."""
    hub = pytest.importorskip("huggingface_hub")
    from stackmask.integration.demo import find_model

    asked = []

    def model_info(self, name, timeout):
        asked.append((name, timeout))
        if name != "known":
            raise OSError("no route")

    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda name, file: str(tmp_path) if name == "kept" else None)
    monkeypatch.setattr(hub.HfApi, "model_info", model_info)
    assert find_model(None) == str(demo_model_path())
    assert find_model(tmp_path) == str(tmp_path)
    assert (find_model("kept"), asked) == ("kept", [])
    assert (find_model("known"), asked) == ("known", [("known", 5.0)])
    with pytest.raises(OSError, match=r"^other is neither a directory nor in Hugging Face's cache, and the hub does not answer: no route$"):
        find_model("other")
    monkeypatch.undo()
    with pytest.raises(OSError, match=r"^/no/dir is neither a directory nor the name of a model on Hugging Face's hub$"):
        find_model("/no/dir")
    with pytest.raises(OSError, match="is a file, where the directory of a model is expected"):
        find_model(demo_model_path() / "config.json")
