"""A matcher says why it refuses, and which tokens are forced."""

import random
from dataclasses import replace

import pytest

from stackmask import Compiler, Explanation, Matcher, Vocabulary, allocate_token_bitmask
from stackmask.pda.matcher import show_bytes

STOP, CALL, UNUSED = 256, 257, 258
WORDS = [b'{"', b'"name', b'name"', b'": "', b"name", b"na", b"true", b"tru", b"rue", b'": ', b"ab", b"abc", b"abcd", b"bcd"]
VOCABULARY = Vocabulary.from_bytes(
    [*(bytes([byte]) for byte in range(256)), None, None, None, *WORDS, b"ab"], stop_token_ids=[STOP], special={"<call>": CALL}
)
TOKEN = {word: 259 + place for place, word in enumerate(WORDS)}


@pytest.fixture(scope="module")
def compiler():
    return Compiler(VOCABULARY)


def test_a_refused_byte(compiler):
    """Position, byte, what was expected and the rules around it; the text is one sentence."""
    matcher = compiler.ebnf('root ::= "[" word "]"\nword ::= "true" | "fa" [0-9]+').matcher()
    found = matcher.explain(b"[trux]")
    plain = replace(found, places=(), nearest=None)
    assert plain == Explanation(False, b"[trux]", 4, ord("x"), b"e", False, found.rules, 'the text "[trux]"')
    assert found.nearest == b"[true]"
    assert found.places == ('rule word: line 2, column 1\n  word ::= "true" | "fa" [0-9]+\n  ^',)
    assert found.rules[0] == "word"
    assert str(found).startswith("""the text "[trux]" does not fit: byte 4 is 'x' after "[tru"; expected is 'e'""")
    assert matcher.explain(b"[fa1]").accepted
    assert matcher.explain(b"").accepted
    assert matcher.explain("[trux]") == found and matcher.explain("[fa1]").accepted
    assert compiler.regex("é[ab]").matcher().explain("éc").position == 2
    assert str(matcher.explain(b"[fa1")) == 'the text "[fa1" fits'
    assert matcher.num_accepted == 0


def test_tokens_of_every_kind(compiler):
    """Text tokens, stop tokens, special tokens by name, ids without text."""
    matcher = compiler.ebnf('root ::= "ab" <call>').matcher()
    assert str(matcher.explain(TOKEN[b"abc"])).startswith(f"""token {TOKEN[b"abc"]} "abc" does not fit: byte 2 is 'c' after "ab\"""")
    assert matcher.explain(TOKEN[b"ab"]).accepted
    assert str(matcher.explain(STOP)).startswith("stop token 256 does not fit here; expected is 'a'")
    assert str(matcher.explain(CALL)).startswith("special token 257 <call> does not fit here; expected is 'a'")
    assert str(matcher.explain(UNUSED)).startswith("token without text 258 does not fit here")
    assert matcher.accept_bytes(b"ab")
    assert "nothing but a token with a name can follow" in str(matcher.explain(b"c"))
    assert matcher.explain(CALL).accepted
    assert matcher.accept_token(CALL)
    assert "; expected is the end of the text" in str(matcher.explain(b"c"))
    assert matcher.explain(STOP).accepted
    with pytest.raises(ValueError, match="out"):
        matcher.explain(10_000)


def test_after_the_end(compiler):
    """After a stop token only the end is expected."""
    matcher = compiler.regex("a*").matcher()
    assert matcher.accept_token(STOP)
    assert str(matcher.explain(b"a")).startswith("""the text "a" does not fit: byte 0 is 'a'; expected is the end of the text""")


def test_text_may_end(compiler):
    """Where the text may end and may go on, both are said."""
    matcher = compiler.regex("a+").matcher()
    assert str(matcher.explain(b"aab")).startswith(
        """the text "aab" does not fit: byte 2 is 'b' after "aa"; expected is 'a' or the end of the text"""
    )


def test_bytes_are_shown_readably():
    """Runs as ranges, control characters and halves of characters in hexadecimal."""
    assert show_bytes(b"") == ""
    assert show_bytes(b"cab") == "'a'-'c'"
    assert show_bytes(bytes([0, 9, 10, 32, 0x80, 0xC3])) == "0x00 0x09-0x0A ' ' 0x80 0xC3"


def test_odd_texts_are_quoted(compiler):
    """Control characters, halves of characters and long texts are shown on one line."""
    matcher = compiler.regex("(?s).*").matcher()
    for data in (b"\n\r\t\x00", b"\xff", b"\xe2\x80\xa8", b"x" * 1000, b"\xed\xa0\x80"):
        message = str(matcher.explain(data + b"\xff"))
        assert len(message.splitlines()) <= 2
        assert len(message) < 3000


def test_deep_nesting(compiler):
    """Few of many rules are named."""
    matcher = compiler.json(whitespace="compact").matcher()
    assert matcher.accept_bytes(b"[" * 10_000)
    assert len(str(matcher.explain(b"}"))) < 1000


def test_explain_agrees_with_accept(compiler):
    """On random texts: the position is the longest prefix that fits, and exactly the expected bytes fit there."""
    rng = random.Random(5)
    grammar = compiler.ebnf('root ::= "a" root "b" | "ab"? | [c-e]{2,3} "é"')
    for _ in range(200):
        data = bytes(rng.choice(b"aabbcde\xc3\xa9x") for _ in range(rng.randrange(8)))
        found, matcher = grammar.matcher().explain(data), grammar.matcher()
        assert found.accepted == matcher.accept_bytes(data)
        if found.accepted:
            continue
        assert matcher.accept_bytes(data[: found.position])
        assert found.complete == matcher.is_completed()
        fitting = bytes(byte for byte in range(256) if matcher.fork().accept_bytes(bytes([byte])))
        assert found.expected == fitting
        assert found.byte == data[found.position]
        assert found.byte not in fitting


def test_forced_tokens(compiler):
    """The longest tokens of the forced text, up to where the model has a choice; the lowest of several ids."""
    matcher = compiler.json_schema(
        {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": False},
        whitespace="compact",
    ).matcher()
    tokens = [VOCABULARY.token_bytes(token) for token in matcher.forced_tokens()]
    assert tokens == [b'{"', b'name"', b":"]  # a longer token than the quote after it could begin the name
    matcher = compiler.regex("ab(x|y)").matcher()
    assert matcher.forced_tokens() == [TOKEN[b"ab"]]
    assert compiler.regex("abc?").matcher().forced_tokens() == []
    assert compiler.regex("xabc?").matcher().forced_tokens() == [ord("x")]
    assert compiler.regex("ab").matcher().forced_tokens() == [TOKEN[b"ab"]]
    assert compiler.regex("a|b").matcher().forced_tokens() == []
    assert compiler.regex("é(a|b)").matcher().forced_tokens() == [0xC3, 0xA9]
    assert matcher.accept_bytes(b"abx")
    assert matcher.forced_tokens() == []


def test_forced_tokens_by_id(compiler):
    """Tokens that the grammar asks for by their ids are forced where nothing else can come, and text before and behind them is too."""
    special, ab = CALL, TOKEN[b"ab"]
    assert compiler.lark(f'start: <[{special}]> "ab" <[{ab}]> "ab"').matcher().forced_tokens() == [special, ab, ab, ab]
    assert compiler.lark(f'start: "ab" <[{special}]> ("x" | "y")').matcher().forced_tokens() == [ab, special]
    for choice in (f"<[{special},{ab}]>", f'(<[{special}]> | "b")', f"<[{special}]>?"):
        assert compiler.lark(f'start: "ab" {choice} "x"').matcher().forced_tokens() == [ab]
    matcher = compiler.lark(f"start: <[{special}]>").matcher()
    assert matcher.forced_tokens() == [special]
    assert matcher.accept_token(special)
    assert matcher.forced_tokens() == []


def test_forced_tokens_leave_no_choice(compiler):
    """At every place where a forced token is given, every token that is allowed is a part of the forced text."""
    rng = random.Random(6)
    for _ in range(150):
        options = ["".join(rng.choice("abcdé") for _ in range(rng.randrange(1, 9))) for _ in range(rng.randrange(1, 4))]
        matcher = compiler.choice(options).matcher()
        forced = matcher.find_jump_forward_bytes()
        tokens = matcher.forced_tokens()
        for token in tokens:
            allowed = [VOCABULARY.token_bytes(other) for other in matcher.allowed_tokens()]
            assert all(other is not None and forced.startswith(other) for other in allowed), options
            taken = VOCABULARY.token_bytes(token)
            assert len(taken) == max(map(len, allowed))
            assert matcher.accept_token(token)
            forced = forced[len(taken) :]


def test_a_vocabulary_that_cannot_spell(compiler):
    """Forced text that no token begins is left to the mask."""
    vocabulary = Vocabulary.from_bytes([b"a", b"c", None], stop_token_ids=[2])
    assert Compiler(vocabulary).regex("abc").matcher().forced_tokens() == [0]


def test_forks_keep_the_vocabulary(compiler):
    """A fork is the same kind of matcher and goes its own way."""
    matcher = compiler.regex("abc").matcher()
    fork = matcher.fork()
    assert type(fork) is Matcher
    assert fork.vocabulary is VOCABULARY
    assert fork.accept_bytes(b"ab")
    assert (fork.num_accepted, matcher.num_accepted) == (1, 0)
    assert fork.forced_tokens() == [ord("c")]


def test_a_new_bitmask():
    """A bitmask begins with every token allowed; nonsense sizes are refused."""
    assert (allocate_token_bitmask(2, 33) == -1).all()
    assert allocate_token_bitmask(2, 33).shape == (2, 2)
    for sizes in ((-1, 5), (1, 0)):
        with pytest.raises(ValueError, match="a bitmask for"):
            allocate_token_bitmask(*sizes)
