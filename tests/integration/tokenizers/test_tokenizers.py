"""Vocabularies say what their tokenizers say: the bytes of the tokens of a text join to the text."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from stackmask.integration.tokenizers import Vocabulary
from stackmask.integration.tokenizers.decoders import SENTENCEPIECE, decode_pieces
from stackmask.pda.exceptions import VocabularyError

tokenizers = pytest.importorskip("tokenizers")

DATA = Path(os.environ.get("STACKMASK_DATA", Path(__file__).parents[4] / "shared" / "data"))
ALPHABETS = [
    range(0x20, 0x7F),
    range(0x20),
    [*map(ord, " \t\r\n\u3000\u00a0\u2028\u200b")],
    range(0x80, 0x800),
    range(0x800, 0xD800),
    range(0x1F300, 0x1F700),
    range(0xE000, 0x110000),
]


def random_texts(count, seed=0):
    """Text of every kind: ASCII, control characters, white space, all planes, emoji with joiners."""
    rng = random.Random(seed)
    yield from ["", " ", "  a", "▁", "👩‍👩‍👧‍👦", "<0x0A>", "a\r\n\tb", "\u0000", "é", "</s", "<|eot_id"]
    for _ in range(count):
        yield "".join(chr(rng.choice(rng.choice(ALPHABETS))) for _ in range(rng.randrange(1, 40)))


def assert_bytes_join_to_text(vocabulary, encode, count=300):
    """The round trip over random text."""
    for text in random_texts(count):
        ids = encode(text)
        assert b"".join(vocabulary.token_bytes(token) or b"?" for token in ids) == text.encode(), (text, ids)


def assert_bytes_join_to_sentence(vocabulary, encode, count=300):
    """The round trip for SentencePiece, which puts a blank before a text and cannot tell a blank from its stand-in."""
    for text in random_texts(count):
        ids = encode(text)
        joined = b"".join(vocabulary.token_bytes(token) or b"?" for token in ids)
        assert joined in (text.replace("▁", " ").encode(), b" " + text.replace("▁", " ").encode()), (text, ids)


def byte_level_tokenizer(*added):
    """A byte-level BPE tokenizer with one merge and an end-of-text token."""
    pieces = [*sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()), "ab"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({piece: i for i, piece in enumerate(pieces)}, [("a", "b")]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens(list(added))
    return tokenizer


@pytest.fixture(scope="module")
def llama3():
    transformers = pytest.importorskip("transformers")
    folder = DATA / "tokenizers" / "llama3"
    if not folder.is_dir():
        pytest.skip("no Llama 3 tokenizer: STACKMASK_DATA names the folder that has tokenizers/llama3")
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def mistral_data():
    package = pytest.importorskip("mistral_common")
    return Path(package.__file__).parent / "data"


@pytest.fixture(scope="module")
def sentencepiece_model(mistral_data):
    sentencepiece = pytest.importorskip("sentencepiece")
    return sentencepiece.SentencePieceProcessor(model_file=str(mistral_data / "tokenizer.model.v1"))


def test_llama3_bytes_join_to_text(llama3):
    """Byte-level BPE: every text, whatever its characters, is the bytes of its tokens."""
    vocabulary = Vocabulary.from_transformers(llama3)
    assert_bytes_join_to_text(vocabulary, lambda text: llama3.encode(text, add_special_tokens=False))
    assert vocabulary.size == 128_256
    assert vocabulary.stop_token_ids == (128_009,)
    assert vocabulary.special["<|begin_of_text|>"] == 128_000
    assert vocabulary.token_bytes(128_000) is None


def test_llama3_decodes_to_the_bytes(llama3):
    """The bytes of any ids, decoded as UTF-8, are what the tokenizer decodes."""
    vocabulary = Vocabulary.from_transformers(llama3)
    rng = random.Random(1)
    for _ in range(200):
        ids = [rng.randrange(128_000) for _ in range(rng.randrange(1, 12))]
        joined = b"".join(vocabulary.token_bytes(token) or b"?" for token in ids)
        assert joined.decode("utf-8", "replace") == llama3.decode(ids, clean_up_tokenization_spaces=False)


@pytest.mark.skipif(os.environ.get("STACKMASK_KERNEL") == "python", reason="the trie of the reference engine is built in Python")
def test_llama3_is_built_in_time(llama3):
    """128,000 tokens take 0.2 s on an idle machine; the bound leaves room for a busy one."""
    start = time.thread_time()
    Vocabulary.from_transformers(llama3)
    assert time.thread_time() - start < 2


def test_padded_logits(llama3):
    """`size` widens the vocabulary by ids that stand for nothing."""
    vocabulary = Vocabulary.from_transformers(llama3, size=128_512)
    assert vocabulary.size == 128_512
    assert vocabulary.token_bytes(128_511) is None
    with pytest.raises(ValueError, match="outside"):
        vocabulary.token_bytes(128_512)


def test_narrow_logits(llama3):
    """Ids that the logits have no column for are left out, and so are stop tokens found among them, but not those asked for."""
    vocabulary = Vocabulary.from_transformers(llama3, size=128_002, stop_token_ids=128_001)
    assert vocabulary.size == 128_002
    assert "<|eot_id|>" not in vocabulary.special
    with pytest.raises(VocabularyError, match="pass stop_token_ids"):
        Vocabulary.from_transformers(llama3, size=128_002)
    with pytest.raises(VocabularyError, match="stop token id 128009 is outside"):
        Vocabulary.from_transformers(llama3, size=128_002, stop_token_ids=[128_009])


def test_tekken_in_both_libraries(mistral_data):
    """Tekken through transformers and through mistral-common gives one vocabulary."""
    mistral = pytest.importorskip("transformers.integrations.mistral")
    common = pytest.importorskip("mistral_common.tokens.tokenizers.mistral")
    path = str(mistral_data / "tekken_240911.json")
    converted, native = mistral.convert_tekken_tokenizer(path), common.MistralTokenizer.from_file(path)
    vocabulary = Vocabulary.from_transformers(converted)
    assert vocabulary.size == 131_072
    assert vocabulary.fingerprint == Vocabulary.from_mistral(native).fingerprint
    assert_bytes_join_to_text(vocabulary, lambda text: converted.encode(text, add_special_tokens=False), count=100)


def test_mistral_common_backend_of_transformers(mistral_data):
    """A tokenizer of transformers that wraps mistral-common is unwrapped, with either kind of file."""
    transformers = pytest.importorskip("transformers")
    backend = transformers.MistralCommonBackend(str(mistral_data / "mistral_instruct_tokenizer_240323.model.v3"))
    vocabulary = Vocabulary.from_transformers(backend)
    assert vocabulary.stop_token_ids == (2,)
    assert_bytes_join_to_sentence(vocabulary, lambda text: backend.encode(text, add_special_tokens=False), count=50)


def test_sentencepiece_bytes_join_to_text(sentencepiece_model):
    """SentencePiece with byte fallback: the text with the blank that the tokenizer puts before it."""
    vocabulary = Vocabulary.from_sentencepiece(sentencepiece_model)
    assert_bytes_join_to_sentence(vocabulary, sentencepiece_model.encode)
    assert vocabulary.stop_token_ids == (2,)
    assert set(vocabulary.special) == {"<unk>", "<s>", "</s>"}
    assert vocabulary.token_bytes(sentencepiece_model.piece_to_id("<0x0A>")) == b"\n"


def test_sentencepiece_as_hugging_face_tokenizer(sentencepiece_model):
    """The same model as a fast tokenizer, its decoder given as steps, has the same bytes."""
    transformers = pytest.importorskip("transformers")
    convert = pytest.importorskip("transformers.convert_slow_tokenizer")
    ids = list(range(sentencepiece_model.get_piece_size()))
    vocab = dict(zip(sentencepiece_model.id_to_piece(ids), ids, strict=True))
    scores = dict(zip(vocab, sentencepiece_model.get_score(ids), strict=True))
    fast = transformers.LlamaTokenizer(vocab=vocab, merges=convert.generate_merges(vocab, scores))
    vocabulary = Vocabulary.from_transformers(fast)
    assert vocabulary.tokens == Vocabulary.from_sentencepiece(sentencepiece_model).tokens
    assert_bytes_join_to_sentence(vocabulary, lambda text: fast.encode(text, add_special_tokens=False), count=100)


def test_sentencepiece_as_slow_tokenizer(mistral_data, tmp_path):
    """A tokenizer of transformers that runs SentencePiece itself has the same bytes."""
    pytest.importorskip("sentencepiece")
    slow = pytest.importorskip("transformers.tokenization_utils_sentencepiece")
    tokenizer = slow.SentencePieceBackend(
        vocab_file=str(mistral_data / "tokenizer.model.v1"), unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )
    vocabulary = Vocabulary.from_transformers(tokenizer)
    assert vocabulary.stop_token_ids == (2,)
    assert_bytes_join_to_sentence(vocabulary, lambda text: tokenizer.encode(text, add_special_tokens=False), count=50)


def test_tiktoken():
    """tiktoken: ranks are bytes already; special tokens have names and no text."""
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, "é".encode(): 257, b" a": 300}
    special = {"<|endoftext|>": 301, "<|x|>": 303}
    encoding = tiktoken.Encoding("test", pat_str=r"\s?\w+|\s+|[^\s\w]+", mergeable_ranks=ranks, special_tokens=special)
    vocabulary = Vocabulary.from_tiktoken(encoding)
    assert (vocabulary.size, vocabulary.stop_token_ids) == (304, (301,))
    assert vocabulary.token_bytes(300) == b" a"
    assert [vocabulary.token_bytes(token) for token in (258, 301, 302, 303)] == [None] * 4
    assert_bytes_join_to_text(vocabulary, encoding.encode_ordinary)
    assert Vocabulary.from_tiktoken(encoding, stop_token_ids=[303, 301]).stop_token_ids == (301, 303)


def test_python_tokenizer_around_tiktoken():
    """A tokenizer written in Python around tiktoken is read through the encoding it holds."""
    tiktoken = pytest.importorskip("tiktoken")

    class Wrapper:
        def __init__(self):
            ranks = {bytes([byte]): byte for byte in range(256)}
            self.model = tiktoken.Encoding("test", pat_str=r"(?s).", mergeable_ranks=ranks, special_tokens={})
            names = [(257, "<|end|>", True), (258, "<tool>", False)]
            self.added_tokens_decoder = {token: SimpleNamespace(content=content, special=special) for token, content, special in names}
            self.eos_token_id = 257

    vocabulary = Vocabulary.from_transformers(Wrapper())
    assert vocabulary.token_bytes(65) == b"A"
    assert vocabulary.token_bytes(258) == b"<tool>"
    assert dict(vocabulary.special) == {"<|end|>": 257, "<tool>": 258}


def test_unknown_python_tokenizer():
    """A tokenizer that shows no table of tokens is refused, with the way out."""
    with pytest.raises(VocabularyError, match="from_bytes"):
        Vocabulary.from_transformers(SimpleNamespace())


def test_added_tokens_that_are_text():
    """An added token that is not special is text, by the decoder's rule, and a grammar can name it as well."""
    tokenizer = byte_level_tokenizer("<tool>", "日本 語", "Ġhi")
    vocabulary = Vocabulary.from_transformers(tokenizer, stop_token_ids=tokenizer.token_to_id("<|end|>"))
    for text in ("<tool>", "日本 語"):
        token = tokenizer.token_to_id(text)
        assert vocabulary.token_bytes(token) == text.encode()
        assert vocabulary.special[text] == token
    blank = tokenizer.token_to_id("Ġhi")
    assert vocabulary.token_bytes(blank) == tokenizer.decode([blank]).encode() == b" hi"
    assert vocabulary.token_bytes(tokenizer.token_to_id("<|end|>")) is None


def test_stop_tokens_of_the_generation_config(tmp_path):
    """Stop tokens are the tokenizer's end of text and those of the generation config beside it; given ones replace them."""
    transformers = pytest.importorskip("transformers")
    backend = byte_level_tokenizer()
    backend.add_special_tokens(["<|turn|>", "<|call|>"])
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>").save_pretrained(tmp_path)
    end, turn, call = (backend.token_to_id(name) for name in ("<|end|>", "<|turn|>", "<|call|>"))
    assert Vocabulary.from_transformers(transformers.AutoTokenizer.from_pretrained(tmp_path)).stop_token_ids == (end,)
    for stops, expected in [([turn, 99_999], (end, turn)), (call, (end, call)), (None, (end,))]:
        (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": stops}))
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
        assert Vocabulary.from_transformers(tokenizer).stop_token_ids == expected
        assert Vocabulary.from_transformers(tokenizer, stop_token_ids=call).stop_token_ids == (call,)
    (tmp_path / "generation_config.json").write_text("{")
    assert Vocabulary.from_transformers(tokenizer).stop_token_ids == (end,)
    tokenizer.name_or_path = "nobody/has-this-model"
    assert Vocabulary.from_transformers(tokenizer).stop_token_ids == (end,)


def test_no_stop_token():
    """A tokenizer that names no end of text needs the caller to say."""
    with pytest.raises(VocabularyError, match="pass stop_token_ids"):
        Vocabulary.from_transformers(byte_level_tokenizer())


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "BPEDecoder", "suffix": "</w>"},
        {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 0, "stop": 1}]},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}]},
        {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"},
        {"type": "Replace", "pattern": {"String": "a"}, "content": "\ue000"},
    ],
)
def test_inexact_decoders_are_refused(decoder):
    """A decoder that looks at the neighbours of a token, or is not understood, has no exact bytes."""
    with pytest.raises(VocabularyError, match="no exact mask exists"):
        decode_pieces(["a", "b"], decoder)


def test_decoder_steps():
    """The steps of decoders in use: Metaspace, byte fallback, replacement before the byte alphabet."""
    assert decode_pieces([], SENTENCEPIECE) == []
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    assert decode_pieces(["▁a▁", "<0x41>"], metaspace) == [b" a ", b"<0x41>"]
    assert decode_pieces(["<0x41>", "<0xff>", "<0xzz>", "<0x4>x", "\n", "\ue000"], SENTENCEPIECE) == [
        b"A", b"\xff", b"<0xzz>", b"<0x4>x", b"\n", "\ue000".encode(),
    ]  # fmt: skip
    sequence = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": "Ġ"}, {"type": "ByteLevel"}]}
    assert decode_pieces(["_a", "😀", "", "日", "é"], sequence) == [b" a", "😀".encode(), b"", "日".encode(), b"\xe9"]


def test_every_private_use_character():
    """Tokens that leave no character to join them by are refused."""
    with pytest.raises(VocabularyError, match="private-use"):
        decode_pieces(["".join(map(chr, range(0xE000, 0xF900)))] * 2, SENTENCEPIECE)


def test_from_bytes():
    """Equal bytes under several ids, ids without bytes, stop and special tokens, padding."""
    vocabulary = Vocabulary.from_bytes([b"a", b"a", None, b"", b"<s>", b"</s>"], stop_token_ids=[5], special={"<s>": 4, "<x>": 7}, size=10)
    assert vocabulary.tokens == (b"a", b"a", None, None, None, None, None, None)
    assert (vocabulary.size, vocabulary.stop_token_ids, dict(vocabulary.special)) == (10, (5,), {"<s>": 4, "<x>": 7})
    assert vocabulary.token_bytes(9) is None
    assert repr(vocabulary) == "<Vocabulary size=10 stop_token_ids=[5] named=2>"


def test_a_vocabulary_is_immutable():
    """Nothing about a vocabulary can be assigned, and it is made by its class methods only."""
    vocabulary = Vocabulary.from_bytes([b"a"], stop_token_ids=())
    with pytest.raises(AttributeError):
        vocabulary.size = 3
    with pytest.raises(TypeError):
        vocabulary.special["x"] = 1
    with pytest.raises(TypeError, match="from_transformers"):
        Vocabulary()


@pytest.mark.parametrize(
    ("tokens", "options", "message"),
    [
        ([], {}, "size is 0"),
        ([None, b""], {}, "no token has any text"),
        ([b"a"], {"stop_token_ids": [0]}, "no token has any text"),
        ([b"a"], {"stop_token_ids": [1]}, "stop token id 1 is outside 0..0"),
        ([b"a"], {"stop_token_ids": [-1]}, "stop token id -1"),
        ([b"a"], {"stop_token_ids": [True]}, "integer, not bool"),
        ([b"a"], {"stop_token_ids": ["0"]}, "integer, not str"),
        ([b"a", "b"], {}, "bytes or None, not str"),
        ([b"a", bytearray(b"b")], {}, "not bytearray"),
        ([b"a"], {"size": 0}, "size is 0"),
        ([b"a", b"b"], {"size": 1}, "do not fit"),
        ([b"a"], {"size": 1 << 40}, "size is"),
        ([b"a"], {"special": {"x": 1}}, "special token 'x' has the id 1"),
        ([b"a"], {"special": {1: 0}}, "name of a special token"),
    ],
)
def test_nonsense_is_refused(tokens, options, message):
    """What cannot be a vocabulary raises VocabularyError, which is a ValueError."""
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_bytes(tokens, **{"stop_token_ids": [], **options})


def test_fingerprint():
    """The fingerprint is the same in every process and differs where masks could: bytes, their bounds, names, stop tokens, size."""
    base = [b"a", b"bc", None]
    same = Vocabulary.from_bytes(base, stop_token_ids=[2]).fingerprint
    assert Vocabulary.from_bytes([*base[:2], b""], stop_token_ids=[2]).fingerprint == same
    others = [
        Vocabulary.from_bytes([b"ab", b"c", None], stop_token_ids=[2]),
        Vocabulary.from_bytes(base, stop_token_ids=[]),
        Vocabulary.from_bytes(base, stop_token_ids=[2], size=4),
        Vocabulary.from_bytes(base, stop_token_ids=[2], special={"x": 2}),
    ]
    assert len({same, *(vocabulary.fingerprint for vocabulary in others)}) == 5
    code = (
        "from stackmask.pda.vocabulary import Vocabulary; print(Vocabulary.from_bytes([b'a', b'bc', None], stop_token_ids=[2]).fingerprint)"
    )
    environment = os.environ | {"PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout.strip() == same
