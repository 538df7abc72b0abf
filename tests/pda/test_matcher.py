"""The matcher's interface: bitmasks, batches, drafts, forced text, tokens by id, and errors for bad inputs."""

from __future__ import annotations

import ctypes
import importlib.util
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.engines import BYTES, STOP, Engine, mask_of, matcher, one_rule, prepare

from stackmask.pda.exceptions import LimitError
from stackmask.pda.grammar import JSON_ANY, Grammar, GrammarBuilder
from stackmask.pda.matcher import allocate_token_bitmask

Bitmask = npt.NDArray[np.int32]
WORDS = (len(BYTES) + 31) // 32


def greeting() -> Grammar:
    """Either `ab` and any digits, or `ac`."""
    b = GrammarBuilder()
    digits = b.repeat(b.bytes((0x30, 0x39)))
    return one_rule(b, b.alt(b.seq(b.literal(b"ab"), digits), b.literal(b"ac")))


def bits(row: Bitmask) -> list[int]:
    """The tokens of a row."""
    return [int(i) for i in np.flatnonzero(np.unpackbits(row.astype("<i4").view(np.uint8), bitorder="little"))]


# bitmasks


def test_allocated_bitmasks() -> None:
    """A row of whole words for each sequence, with every token allowed; no sequences are possible, no tokens are not."""
    for rows in range(3):
        for tokens in (1, 31, 32, 33, 64, 65):
            bitmask = allocate_token_bitmask(rows, tokens)
            assert bitmask.shape == (rows, math.ceil(tokens / 32))
            assert bitmask.dtype == np.int32
            assert (bitmask == -1).all()
    for rows, tokens in ((-1, 32), (1, 0), (1, -1)):
        with pytest.raises(ValueError, match=f"a bitmask for {rows} sequences and {tokens} tokens"):
            allocate_token_bitmask(rows, tokens)


def test_bit_order_and_whole_rows(engine: Engine) -> None:
    """Bit i of word w is token 32 w + i; the whole row is written, the other rows are not, and bits past the vocabulary are zero."""
    at = matcher(engine, greeting())
    bitmask = np.full((3, WORDS), -1, dtype=np.int32)
    assert at.fill_next_token_bitmask(bitmask, 1) is True
    expected = np.zeros(WORDS, dtype=np.int32)
    expected[ord("a") // 32] = 1 << ord("a") % 32
    assert np.array_equal(bitmask[1], expected)
    assert (bitmask[[0, 2]] == -1).all()


@pytest.mark.parametrize("size", [1, 31, 32, 33, 64, 65])
def test_widths(engine: Engine, size: int) -> None:
    """Sizes at and around multiples of 32; ids past the tokens are padding and never allowed."""
    b = GrammarBuilder()
    grammar = one_rule(b, b.repeat(b.literal(b"a")))
    tokens: list[bytes | None] = [b"a"] * size
    at = matcher(engine, grammar, tokens, (), size=size)
    bitmask = np.zeros((1, (size + 31) // 32), dtype=np.int32)
    assert at.fill_next_token_bitmask(bitmask) is False
    assert bits(bitmask[0]) == list(range(size))
    padded = matcher(engine, grammar, tokens, (), size=size + 40)
    bitmask = np.full((1, (size + 71) // 32), -1, dtype=np.int32)
    assert padded.fill_next_token_bitmask(bitmask) is True
    assert bits(bitmask[0]) == list(range(size))
    assert not padded.accept_token(size + 39)
    with pytest.raises(ValueError, match=str(size + 40)):
        padded.accept_token(size + 40)


def test_largest_vocabulary(kernel: Engine) -> None:
    """One token more than 2**24 is refused."""
    with pytest.raises(ValueError, match="a vocabulary has at most 16,777,216 tokens"):
        kernel.TokenTrie([b"a"], (1 << 24) + 1)


def test_one_row(engine: Engine) -> None:
    """A bitmask of one dimension is one row."""
    bitmask = np.zeros(WORDS, dtype=np.int32)
    matcher(engine, greeting()).fill_next_token_bitmask(bitmask)
    assert bits(bitmask) == [ord("a")]


def test_other_buffers(kernel: Engine) -> None:
    """Whatever has the buffer of a bitmask is one, such as an array of C; and one row of a strided array lies as a row does."""
    words = (ctypes.c_int32 * WORDS)()
    assert memoryview(words).format == "<i"
    strided = np.zeros((2, WORDS), dtype=np.int32)[::2]
    assert strided.strides[0] == 8 * WORDS
    for bitmask in (words, strided):
        matcher(kernel, greeting()).fill_next_token_bitmask(bitmask)
        assert bits(np.asarray(bitmask, np.int32).reshape(-1)) == [ord("a")]
    with pytest.raises(TypeError, match="not int32"):
        matcher(kernel, greeting()).fill_next_token_bitmask((ctypes.c_float * WORDS)())


def test_torch_tensors(engine: Engine) -> None:
    """CPU tensors are written in place, wherever arrays are."""
    torch = pytest.importorskip("torch")
    at = matcher(engine, greeting())
    bitmask = torch.full((2, WORDS), -1, dtype=torch.int32)
    at.fill_next_token_bitmask(bitmask, 1)
    assert bits(bitmask[1].numpy()) == [ord("a")]
    assert bool((bitmask[0] == -1).all())
    engine.fill_bitmasks([at, at.fork()], bitmask)
    assert bits(bitmask[0].numpy()) == [ord("a")]
    engine.fill_draft_bitmasks(at, [ord("a")], bitmask, 0)
    assert bits(bitmask[1].numpy()) == [ord("b"), ord("c")]
    row = torch.zeros(WORDS, dtype=torch.int32)
    at.fill_next_token_bitmask(row)
    assert bits(row.numpy()) == [ord("a")]
    with pytest.raises((TypeError, ValueError)):
        at.fill_next_token_bitmask(bitmask.to(torch.int64))
    with pytest.raises((TypeError, ValueError)):
        at.fill_next_token_bitmask(torch.zeros((WORDS, 2), dtype=torch.int32).t())
    with pytest.raises((TypeError, ValueError)):
        at.fill_next_token_bitmask(torch.zeros((1, WORDS), dtype=torch.int32, device="meta"))


def read_only() -> Bitmask:
    """A bitmask that cannot be written."""
    bitmask = np.zeros((1, WORDS), dtype=np.int32)
    bitmask.flags.writeable = False
    return bitmask


BAD_BITMASKS: dict[str, Callable[[], Any]] = {
    "int64": lambda: np.zeros((1, WORDS), dtype=np.int64),
    "uint32": lambda: np.zeros((1, WORDS), dtype=np.uint32),
    "float": lambda: np.zeros((1, WORDS), dtype=np.float32),
    "big endian": lambda: np.zeros((1, WORDS), dtype=">i4"),
    "too narrow": lambda: np.zeros((1, WORDS - 1), dtype=np.int32),
    "too wide": lambda: np.zeros((1, WORDS + 1), dtype=np.int32),
    "no rows": lambda: np.zeros((0, WORDS), dtype=np.int32),
    "no words": lambda: np.zeros((1, 0), dtype=np.int32),
    "three dimensions": lambda: np.zeros((1, 1, WORDS), dtype=np.int32),
    "no dimensions": lambda: np.zeros((), dtype=np.int32),
    "every other word": lambda: np.zeros((1, 2 * WORDS), dtype=np.int32)[:, ::2],
    "every other row": lambda: np.zeros((4, WORDS), dtype=np.int32)[::2],
    "backwards": lambda: np.zeros((2, WORDS), dtype=np.int32)[:, ::-1],
    "Fortran order": lambda: np.asfortranarray(np.zeros((2, WORDS), dtype=np.int32)),
    "read-only": read_only,
    "list": lambda: [[0] * WORDS],
    "None": lambda: None,
    "bytes": lambda: bytearray(4 * WORDS),
}


@pytest.mark.parametrize("bad", BAD_BITMASKS)
def test_bad_bitmasks(engine: Engine, bad: str) -> None:
    """A bitmask of another type, shape or layout is an error, for every function that takes one, and nothing is written."""
    at = matcher(engine, greeting())
    bitmask = BAD_BITMASKS[bad]()
    with pytest.raises((TypeError, ValueError)):
        at.fill_next_token_bitmask(bitmask)
    with pytest.raises((TypeError, ValueError)):
        engine.fill_bitmasks([at], bitmask)
    with pytest.raises((TypeError, ValueError)):
        engine.fill_draft_bitmasks(at, [], bitmask, 0)
    if isinstance(bitmask, np.ndarray):
        assert not bitmask.any()


@pytest.mark.parametrize("row", [-1, 2, 1 << 40])
def test_rows_out_of_range(engine: Engine, row: int) -> None:
    """A row that the bitmask does not have is an error, and nothing is written."""
    at = matcher(engine, greeting())
    bitmask = np.zeros((2, WORDS), dtype=np.int32)
    with pytest.raises((ValueError, TypeError)):
        at.fill_next_token_bitmask(bitmask, row)
    with pytest.raises((ValueError, TypeError)):
        engine.fill_bitmasks([at], bitmask, [row])
    with pytest.raises((ValueError, TypeError)):
        engine.fill_draft_bitmasks(at, [ord("a")], bitmask, row)
    assert not bitmask.any()


@pytest.mark.parametrize("token", [-1, len(BYTES), 1 << 31, 1 << 40])
def test_tokens_out_of_range(engine: Engine, token: int) -> None:
    """A token id that the vocabulary does not have is an error, not a refusal; the matcher stays where it is."""
    at = matcher(engine, greeting())
    bitmask = np.zeros((4, WORDS), dtype=np.int32)
    with pytest.raises((ValueError, TypeError)):
        at.accept_token(token)
    with pytest.raises((ValueError, TypeError)):
        at.validate_tokens([ord("a"), token])
    with pytest.raises((ValueError, TypeError)):
        engine.fill_draft_bitmasks(at, [ord("a"), token], bitmask, 0)
    with pytest.raises((ValueError, TypeError)):
        matcher(engine, greeting(), stop=(token,))
    assert at.num_accepted == 0
    assert not bitmask.any()


@pytest.mark.parametrize("token", [None, "a", 1.0, b"a"])
def test_tokens_of_other_types(engine: Engine, token: Any) -> None:
    """A token id that is no integer is a TypeError."""
    at = matcher(engine, greeting())
    with pytest.raises(TypeError):
        at.accept_token(token)
    with pytest.raises(TypeError):
        at.validate_tokens([token])
    with pytest.raises(TypeError):
        at.accept_bytes("ab")
    assert at.num_accepted == 0


def test_bad_vocabularies(engine: Engine) -> None:
    """More tokens than the size, or tokens that are not bytes, are errors."""
    with pytest.raises(ValueError, match="size"):
        engine.TokenTrie([b"a", b"b"], 1)
    with pytest.raises(TypeError):
        engine.TokenTrie(["a"], 1)
    with pytest.raises(TypeError):
        engine.TokenTrie([1], 1)
    assert matcher(engine, greeting(), [], (), size=0).allowed_tokens() == []


# tokens


def test_tokens_with_the_same_text(engine: Engine) -> None:
    """All ids of a text are allowed; ids without text and with empty text never are."""
    tokens = [b"a", None, b"ab", b"a", b"", b"ab", b"b", None]
    at = matcher(engine, greeting(), tokens, (7,), size=12)
    assert at.allowed_tokens() == [0, 2, 3, 5]
    assert not at.accept_token(4)
    assert not at.accept_token(1)
    assert not at.accept_token(11)
    assert at.accept_token(3)
    assert at.allowed_tokens() == [6]


def test_partial_characters(engine: Engine) -> None:
    """Tokens may end inside a character, and start inside one."""
    b = GrammarBuilder()
    text = one_rule(b, b.seq(b.repeat(b.chars((0xE9, 0xE9, 0x1F600, 0x1F600))), b.literal(b".")))
    tokens = [b"\xc3", b"\xa9", b"\xa9\xc3", b"\xa8", b"\xf0\x9f", b"\x98", b"\x98\x80", b"\x80\xc3", b"\x80.", b"\xa9."]
    tokens += [b"\xff", b".", None]
    at = matcher(engine, text, tokens, (12,))
    assert at.allowed_tokens() == [0, 4, 11]
    assert at.accept_token(0)
    assert at.allowed_tokens() == [1, 2, 9]
    assert at.accept_token(2)
    assert at.accept_token(1)
    assert at.accept_token(4)
    assert at.allowed_tokens() == [5, 6]
    assert at.accept_token(5)
    assert at.allowed_tokens() == [7, 8]
    assert at.accept_token(8)
    assert at.allowed_tokens() == [12]


def test_tokens_across_rules(engine: Engine) -> None:
    """A token may end several rules at once and begin others, as `"},` does."""
    b = GrammarBuilder()
    value, member = b.rule("value"), b.rule("member")
    string = b.seq(b.literal(b'"'), b.repeat(b.chars((0, 0x10FFFF), JSON_ANY)), b.literal(b'"'))
    b.define(member, b.seq(string, b.literal(b":"), b.call(value)))
    members = b.seq(b.call(member), b.repeat(b.seq(b.literal(b","), b.call(member))))
    array = b.seq(b.literal(b"["), b.call(value), b.repeat(b.seq(b.literal(b","), b.call(value))), b.literal(b"]"))
    b.define(value, b.alt(b.seq(b.literal(b"{"), members, b.literal(b"}")), array, string))
    tokens = [b'[{"', b'":"', b'"},', b'"}', b'"}]', b'"},{"', b'":{"', b'"]', b'"}}', b'"}}]', b'\\"},', b"a", b"}", b"]", None]
    root = b.rule("root")
    b.define(root, array)
    at = matcher(engine, b.build(root), tokens, (14,))
    assert at.allowed_tokens() == [0]
    for token in (0, 11, 1):
        assert at.accept_token(token)
    assert at.allowed_tokens() == [0, 2, 3, 4, 5, 10, 11, 12, 13]
    assert at.accept_token(5)
    assert at.allowed_tokens() == [0, 1, 6, 10, 11, 12, 13]
    assert at.accept_token(6)
    assert at.accept_token(1)
    assert at.allowed_tokens() == [0, 2, 3, 8, 9, 10, 11, 12, 13]
    assert at.accept_token(9)
    assert at.allowed_tokens() == [14]


def with_tokens() -> Grammar:
    """Token 3, then text, then token 4 or any text token but 0; or nothing."""
    b = GrammarBuilder()
    text = b.repeat(b.literal(b"a"))
    return one_rule(b, b.optional(b.seq(b.tokens((3,)), text, b.alt(b.tokens((4,)), b.tokens((0,), negated=True)))))


def test_tokens_by_id(engine: Engine) -> None:
    """TOKENS are read by id, whatever the text; a token with text is read as its text too; bytes never read them."""
    tokens = [b"a", b"b", b"aa", None, b"<x>", None, None]
    at = matcher(engine, with_tokens(), tokens, (6,))
    assert at.allowed_tokens() == [3, 6]
    assert at.next_bytes() == b""
    assert not at.accept_bytes(b"<x>")
    assert at.accept_token(3)
    # `negated` stands for tokens with text: 5 has none, and is named nowhere
    assert at.allowed_tokens() == [0, 1, 2, 4]
    assert at.accept_token(0)
    assert at.accept_token(2)
    assert at.allowed_tokens() == [0, 1, 2, 4, 6]
    fork = at.fork()
    assert fork.accept_token(4)
    assert fork.allowed_tokens() == [6]
    assert not at.accept_bytes(b"<x>")
    assert at.next_bytes() == b"a"
    assert at.accept_token(1)
    assert at.allowed_tokens() == [6]


def test_tokens_by_id_and_forced_text(engine: Engine) -> None:
    """Where a token may be read by its id, no text is forced; and no text completes what needs a token."""
    tokens: list[bytes | None] = [b"a", b"b", None, None]
    b = GrammarBuilder()
    at = matcher(engine, one_rule(b, b.seq(b.literal(b"a"), b.alt(b.literal(b"b"), b.tokens((2,))))), tokens, (3,))
    assert at.find_jump_forward_bytes() == b"a"
    assert at.shortest_completion() == b"ab"
    b = GrammarBuilder()
    at = matcher(engine, one_rule(b, b.seq(b.literal(b"a"), b.tokens((2,)), b.literal(b"b"))), tokens, (3,))
    assert at.find_jump_forward_bytes() == b"a"
    with pytest.raises(ValueError, match="token"):
        at.shortest_completion()
    assert at.accept_bytes(b"a")
    assert at.accept_token(2)
    assert at.shortest_completion() == b"b"


def test_tokens_that_the_vocabulary_lacks(engine: Engine) -> None:
    """A grammar that names a token out of range is an error."""
    b = GrammarBuilder()
    with pytest.raises(ValueError, match="300"):
        prepare(engine, one_rule(b, b.tokens((300,))))


def test_a_token_out_of_range_is_named(engine: Engine) -> None:
    """A token that the vocabulary lacks is an error; the kernel says what there is."""
    b = GrammarBuilder()
    at = matcher(engine, one_rule(b, b.literal(b"a")), (b"a", b"b", None), (2,))
    for token in (-1, 3):
        with pytest.raises((ValueError, IndexError, OverflowError)) as caught:
            at.accept_token(token)
        if engine.__name__.endswith("_kernel"):
            assert str(caught.value) == f"token id {token} is out of range 0..2"
    assert at.accept_token(0)


def test_stop_tokens_win(engine: Engine) -> None:
    """A stop token is never text and never a grammar's token: it is allowed exactly where the text is complete."""
    b = GrammarBuilder()
    grammar = one_rule(b, b.seq(b.repeat(b.literal(b"a"), 1, 2), b.alt(b.tokens((0, 1)), b.empty())))
    at = matcher(engine, grammar, [b"a", b"z"], (0,))
    assert at.allowed_tokens() == []
    assert at.accept_bytes(b"a")
    assert at.allowed_tokens() == [0, 1]
    assert at.accept_token(0)
    assert at.is_terminated()


# looking ahead


def test_jump_forward(engine: Engine) -> None:
    """Forced bytes end at a choice, and where the text may end; the string ends at a whole character."""
    b = GrammarBuilder()
    e_acute, e_grave = b.literal("é".encode()), b.literal("è".encode())
    at = matcher(engine, one_rule(b, b.seq(b.literal("zü".encode()), b.alt(e_acute, e_grave), b.optional(b.literal(b"x")))))
    assert at.find_jump_forward_bytes() == "zü".encode() + b"\xc3"
    assert at.find_jump_forward_string() == "zü"
    assert at.num_accepted == 0
    assert at.accept_bytes("zü".encode())
    assert at.find_jump_forward_bytes() == b"\xc3"
    assert at.find_jump_forward_string() == ""
    assert at.accept_bytes("é".encode())
    assert at.find_jump_forward_bytes() == b""
    assert at.accept_bytes(b"x")
    assert at.find_jump_forward_bytes() == b""
    assert at.accept_token(STOP)
    assert at.find_jump_forward_bytes() == b""


def test_jump_forward_inside_a_character(engine: Engine) -> None:
    """After half a character the string is empty, the bytes are not."""
    at = matcher(engine, one_rule(b := GrammarBuilder(), b.literal("€a".encode())))
    assert at.accept_bytes("€".encode()[:1])
    assert at.find_jump_forward_bytes() == "€a".encode()[1:]
    assert at.find_jump_forward_string() == ""


def test_jump_forward_is_bounded(engine: Engine) -> None:
    """Of a very long forced text a part is given."""
    b = GrammarBuilder()
    at = matcher(engine, one_rule(b, b.repeat(b.literal(b"ab"), 2_000_000, 2_000_000)))
    forced = at.find_jump_forward_bytes()
    assert 1000 <= len(forced) <= 1 << 17
    assert (b"ab" * len(forced)).startswith(forced)


def test_matching_prefix_and_next_bytes(engine: Engine) -> None:
    """How much of a text fits, and what may follow it; nothing is accepted by asking."""
    at = matcher(engine, greeting())
    assert at.matching_prefix(b"ab12x3") == 4
    assert at.matching_prefix(b"x") == 0
    assert at.matching_prefix(b"") == 0
    assert at.next_bytes(b"ab1") == b"0123456789"
    assert at.next_bytes(b"a") == b"bc"
    assert at.next_bytes(b"ac") == b""
    assert at.next_bytes(b"x") == b""
    assert at.num_accepted == 0


def test_rule_names(engine: Engine) -> None:
    """The rules that a text is in, innermost first."""
    b = GrammarBuilder()
    outer, inner, other = b.rule("outer"), b.rule("inner"), b.rule("other")
    b.define(outer, b.alt(b.seq(b.literal(b"<"), b.call(inner), b.literal(b">")), b.call(other)))
    b.define(inner, b.seq(b.literal(b"("), b.repeat(b.call(outer), 0, 5), b.literal(b")")))
    b.define(other, b.seq(b.literal(b"o"), b.repeat(b.call(outer)), b.literal(b"!")))
    at = matcher(engine, b.build(outer))
    assert "outer" in at.rule_names()
    names = at.rule_names(b"<(o")
    assert set(names) == {"outer", "inner", "other"}
    assert names[-1] == "outer"
    assert at.rule_names(b"?") == []
    assert set(at.rule_names(b"<(")) >= {"outer", "inner"}


def test_shortest_completion(engine: Engine) -> None:
    """The shortest way out, of several alternatives and repetitions."""
    b = GrammarBuilder()
    tail = b.alt(b.literal(b"long way"), b.seq(b.repeat(b.literal(b"x"), 2, 5), b.literal(b"!")), b.seq(b.literal(b"yy"), b.never()))
    at = matcher(engine, one_rule(b, b.seq(b.literal(b"<"), tail)))
    assert at.shortest_completion() == b"<xx!"
    assert at.accept_bytes(b"<l")
    assert at.shortest_completion() == b"ong way"
    assert at.accept_bytes(b"ong way")
    assert at.shortest_completion() == b""
    assert at.accept_token(STOP)
    assert at.shortest_completion() == b""


def test_completion_lengths(engine: Engine) -> None:
    """The lengths of the shortest completions of a batch; -1 where there is none in bytes, or it is too long to be written."""
    b = GrammarBuilder()
    long = prepare(engine, one_rule(b, b.repeat(b.repeat(b.literal(b"a"), 1 << 20, 1 << 20), 1 << 20, 1 << 20)))
    b = GrammarBuilder()
    token = prepare(engine, one_rule(b, b.tokens((3,))))
    b = GrammarBuilder()
    counted = prepare(engine, one_rule(b, b.seq(b.literal(b"<"), b.repeat(b.literal(b"ab"), 2, 9), b.literal(b">"))))
    matchers = [engine.Matcher(grammar, [STOP]) for grammar in (long, token, counted, counted, counted, counted)]
    for at, text in zip(matchers[2:], (b"<", b"<ab", b"<abababa", b"<abab>"), strict=True):
        assert at.accept_bytes(text)
    assert engine.completion_lengths(matchers) == [-1, -1, 5, 3, 2, 0]
    assert matchers[-1].accept_token(STOP)
    assert engine.completion_lengths(matchers[-1:]) == [0]
    assert engine.completion_lengths([]) == []
    with pytest.raises(TypeError):
        engine.completion_lengths([None])


def test_warming_up(engine: Engine) -> None:
    """What was made in advance is what is made when it is asked for, and what cannot be made is said when it is asked for."""
    b = GrammarBuilder()
    slow = one_rule(b, b.seq(*(b.repeat(b.bytes((0x30 + i, 0x39)), 1, 50) for i in range(9)), b.literal(b">")))
    b = GrammarBuilder()
    token = one_rule(b, b.tokens((3,)))
    for grammar in (greeting(), slow, token):
        warm, cold = prepare(engine, grammar), prepare(engine, grammar)
        warm.warm_up()
        first, second = (engine.Matcher(one, [STOP]) for one in (warm, cold))
        assert first.allowed_tokens() == second.allowed_tokens()
        assert engine.completion_lengths([first]) == engine.completion_lengths([second])


# batches and drafts


def test_filling_beside(engine: Engine) -> None:
    """A filler gives what `fill_bitmasks` gives, one step after the other, and an error when the step is waited for."""
    b = GrammarBuilder()
    deep = b.rule("deep")
    b.define(deep, b.seq(b.literal(b"("), b.alt(b.call(deep), b.literal(b"x")), b.literal(b")")))
    grammar = prepare(engine, b.build(deep))
    filler = engine.BitmaskFiller()
    matchers = [engine.Matcher(grammar, [STOP]) for _ in range(4)]
    bitmask = np.zeros((6, WORDS), np.int32)
    rows = engine.MatcherRows(matchers, bitmask, [4, 0, 2, 1])
    for number in range(20):
        expected = np.zeros((6, WORDS), np.int32)
        assert matchers[number % 4].accept_bytes(b"(")
        engine.fill_bitmasks(matchers, expected, [4, 0, 2, 1])
        filler.begin(rows)
        filler.end()
        assert np.array_equal(bitmask, expected)
    filler.begin(engine.MatcherRows([], bitmask))
    filler.end()
    with pytest.raises(ValueError, match="nothing has begun"):
        filler.end()
    filler.begin(rows)
    with pytest.raises(ValueError, match="already"):
        filler.begin(rows)
    del filler, rows, matchers, bitmask  # waits, and holds what it needs until then


def test_filling_beside_meets_a_limit(engine: Engine) -> None:
    """What filling raises is raised where the filler is waited for, and the next step is filled."""
    b = GrammarBuilder()
    deep = b.rule("deep")
    b.define(deep, b.seq(b.literal(b"("), b.alt(b.call(deep), b.literal(b"x")), b.literal(b")")))
    grammar = prepare(engine, b.build(deep), [b"(" * 30, b"x", b")", b"(", None], stack_depth=20)
    filler = engine.BitmaskFiller()
    at, bitmask = engine.Matcher(grammar, [4]), np.zeros((1, 1), np.int32)
    rows = engine.MatcherRows([at], bitmask)
    for _ in range(2):
        with pytest.raises(LimitError):
            at.fill_next_token_bitmask(bitmask)
        filler.begin(rows)
        with pytest.raises(LimitError):
            filler.end()


def test_matcher_rows(engine: Engine) -> None:
    """What is wrong with the rows of a batch is said when they are made."""
    first, second = matcher(engine, greeting()), matcher(engine, greeting())
    bitmask = np.zeros((4, WORDS), np.int32)
    for rows, message in (([0, 1, 2], "rows"), ([1, 1], "same row"), ([0, 4], "out of range")):
        with pytest.raises(ValueError, match=message):
            engine.MatcherRows([first, second], bitmask, rows)
    with pytest.raises(TypeError):
        engine.MatcherRows([first, None], bitmask)
    with pytest.raises(ValueError, match="words"):
        engine.MatcherRows([first], bitmask[:, :-1])


def test_taking_tokens(engine: Engine) -> None:
    """All matchers take their tokens and say what is left to a completion; where one cannot, or a token is out of range, nobody has."""
    b = GrammarBuilder()
    grammar = prepare(engine, one_rule(b, b.seq(b.literal(b"a"), b.alt(b.literal(b"b"), b.literal(b"cde")))))
    b = GrammarBuilder()
    token = prepare(engine, one_rule(b, b.seq(b.literal(b"a"), b.literal(b"a"), b.tokens((3,)))))
    matchers = [engine.Matcher(one, [STOP]) for one in (grammar, grammar, token)]
    rows = engine.MatcherRows(matchers, np.zeros((3, WORDS), np.int32))
    assert rows.take([ord("a")] * 3) == [1, 1, -1]
    assert rows.take([ord("b"), ord("b"), ord("b")]) is None
    assert rows.take([ord("b"), ord("c"), ord("a")]) == [0, 2, -1]
    assert [at.num_accepted for at in matchers] == [2, 2, 2]
    assert rows.take([STOP, ord("d"), 3]) == [0, 1, 0]
    with pytest.raises(ValueError, match="out of range"):
        rows.take([STOP, ord("e"), 1 << 20])
    for tokens in ([STOP], [STOP] * 4):
        with pytest.raises(ValueError, match="tokens than matchers"):
            rows.take(tokens)
    assert [at.num_accepted for at in matchers] == [3, 3, 3]
    assert engine.MatcherRows([], np.zeros((3, WORDS), np.int32)).take([]) == []


def test_taking_tokens_meets_a_limit(engine: Engine) -> None:
    """Where one matcher meets a limit, the others have not gone on."""
    b = GrammarBuilder()
    deep = b.rule("deep")
    b.define(deep, b.seq(b.literal(b"("), b.alt(b.call(deep), b.literal(b"x")), b.literal(b")")))
    grammar = prepare(engine, b.build(deep), stack_depth=20)
    shallow, last = (engine.Matcher(grammar, [STOP]) for _ in range(2))
    rows = engine.MatcherRows([shallow, last], np.zeros((2, WORDS), np.int32))
    while rows.take([ord("(")] * 2) is not None:
        assert last.num_accepted < 100
        shallow.reset()
    assert shallow.num_accepted == 0
    assert last.num_accepted == pytest.approx(20, abs=3)


def test_batches(engine: Engine) -> None:
    """A batch fills the rows of its matchers, by default in order, and no others."""
    first, second = matcher(engine, greeting()), matcher(engine, greeting())
    assert second.accept_bytes(b"a")
    bitmask = np.full((4, WORDS), -1, dtype=np.int32)
    engine.fill_bitmasks([first, second], bitmask, [3, 1])
    assert bits(bitmask[3]) == [ord("a")]
    assert bits(bitmask[1]) == [ord("b"), ord("c")]
    assert (bitmask[[0, 2]] == -1).all()
    engine.fill_bitmasks([first, second], bitmask)
    assert bits(bitmask[0]) == [ord("a")]
    assert bits(bitmask[1]) == [ord("b"), ord("c")]
    engine.fill_bitmasks([], bitmask)
    with pytest.raises(ValueError, match="rows"):
        engine.fill_bitmasks([first, second], bitmask, [0])
    with pytest.raises((ValueError, TypeError)):
        engine.fill_bitmasks([first, None], bitmask)
    with pytest.raises(ValueError, match="row"):
        engine.fill_bitmasks([first] * 5, bitmask)
    with pytest.raises(ValueError, match="row"):
        engine.fill_bitmasks([first, second], bitmask, [1, 1])
    other = matcher(engine, greeting(), [*BYTES, *BYTES])
    with pytest.raises(ValueError, match=r"size|words"):
        engine.fill_bitmasks([first, other], bitmask)


def test_draft_chain(engine: Engine) -> None:
    """Row by row the masks after each draft token, zeros from a refused one on; the matcher stays where it is."""
    at = matcher(engine, greeting())
    bitmask = np.full((7, WORDS), -1, dtype=np.int32)
    engine.fill_draft_bitmasks(at, list(b"ab1x1"), bitmask, 1)
    digits = list(range(0x30, 0x3A))
    rows = [[ord("a")], [ord("b"), ord("c")], [*digits, STOP], [*digits, STOP], [], []]
    assert [bits(row) for row in bitmask[1:]] == rows
    assert (bitmask[0] == -1).all()
    assert at.num_accepted == 0
    assert mask_of(at, len(BYTES)) == [ord("a")]
    engine.fill_draft_bitmasks(at, [], bitmask, 6)
    assert bits(bitmask[6]) == [ord("a")]


def test_draft_with_a_stop_token(engine: Engine) -> None:
    """After a stop token in a draft, stop tokens alone are allowed."""
    at = matcher(engine, greeting())
    bitmask = np.zeros((5, WORDS), dtype=np.int32)
    engine.fill_draft_bitmasks(at, [*b"ac", STOP, ord("a")], bitmask, 0)
    assert [bits(row) for row in bitmask[2:]] == [[STOP], [STOP], []]
    assert not at.is_terminated()


def test_draft_tree(engine: Engine) -> None:
    """With parents the drafts are a tree: each row is the mask after the path to its token."""
    at = matcher(engine, greeting())
    drafts, parents = list(b"abc1xa"), [-1, 0, 0, 1, 1, 4]
    bitmask = np.full((7, WORDS), -1, dtype=np.int32)
    engine.fill_draft_bitmasks(at, drafts, bitmask, 0, parents)
    digits = list(range(0x30, 0x3A))
    rows = [[ord("a")], [ord("b"), ord("c")], [*digits, STOP], [STOP], [*digits, STOP], [], []]
    assert [bits(row) for row in bitmask] == rows
    for wrong in ([-1, 0, 0, 1, 1], [-1, 0, 0, 1, 1, 5], [-1, 0, 0, 1, 1, -2], [0, 0, 0, 1, 1, 4]):
        with pytest.raises((ValueError, TypeError)):
            engine.fill_draft_bitmasks(at, drafts, bitmask, 0, wrong)
    with pytest.raises(ValueError, match="row"):
        engine.fill_draft_bitmasks(at, drafts, bitmask, 1, parents)


def test_subclasses_keep_their_type(engine: Engine) -> None:
    """A fork of a subclass is one too."""

    class Mine(engine.Matcher):  # type: ignore[misc]
        pass

    at = Mine(prepare(engine, greeting()), [STOP])
    fork = at.fork()
    assert type(fork) is Mine
    assert fork.accept_bytes(b"a")
    assert at.num_accepted == 0


def test_no_torch_is_needed(engine: Engine) -> None:
    """The engines import no torch."""
    spec = importlib.util.find_spec(engine.__name__)
    assert spec is not None
    assert spec.origin is not None
    if spec.origin.endswith(".py"):
        from pathlib import Path

        assert "import torch" not in Path(spec.origin).read_text(encoding="utf-8")
