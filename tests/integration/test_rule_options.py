"""Options of rules, from the text of a grammar to what generates: captures, limits, temperatures."""

from __future__ import annotations

import pytest

from stackmask import CompiledGrammar, Compiler, Vocabulary

TOKENS = [b"a", b"b", b"ab", b";", b"!", b"1", b"2", None]


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    """A compiler for a few tokens; the last one is the stop token."""
    return Compiler(Vocabulary.from_bytes(TOKENS, stop_token_ids=[7]))


def accept(grammar: CompiledGrammar, *texts: str):
    """A matcher after these tokens."""
    matcher = grammar.matcher()
    for text in texts:
        assert matcher.accept_token(TOKENS.index(text.encode())), text
    return matcher


def texts(matcher) -> set[str]:
    """The tokens that may follow."""
    return {(TOKENS[token] or b"").decode() for token in matcher.allowed_tokens()}


def test_ebnf(compiler):
    """Captures are named by their rule or their name, limits end texts, temperatures go with them; so it is after a journey as bytes."""
    grammar = compiler.ebnf(
        'root ::= word "!" number*\nword[max_tokens=2, capture, temperature=0.5] ::= [a-b]+\nnumber[capture="n"] ::= [12] ";"'
    )
    for same in (grammar, CompiledGrammar.from_bytes(grammar.to_bytes(), grammar.vocabulary)):
        matcher = accept(same, "ab", "a")
        assert texts(matcher) == {"!"}
        assert matcher.temperature is None
        matcher.rollback(1)
        assert texts(matcher) == {"a", "b", "ab", "!"}
        assert matcher.temperature == 0.5
        matcher = accept(same, "ab", "a", "!", "1", ";", "2", ";")
        fork = matcher.fork()
        matcher.rollback(2)
        assert matcher.get_captures() == [("word", b"aba"), ("n", b"1;")]
        assert fork.get_captures() == [("word", b"aba"), ("n", b"1;"), ("n", b"2;")]
        fork.accept_token(7)
        assert fork.temperature is None
        assert len(fork.get_captures()) == 3


def test_lark(compiler):
    """An ending is no part of the capture of its rule, but of those around it; a limit is followed by the ending."""
    grammar = compiler.lark(
        'start: outer "!"\nouter[capture]: part+\npart[suffix=";", capture, stop_capture="end", max_tokens=2]: /[ab;]*/'
    )
    matcher = accept(grammar, "ab", "a")
    assert texts(matcher) == {";"}
    matcher = accept(grammar, "ab", ";", ";", "!")
    assert matcher.get_captures() == [("part", b"ab"), ("end", b";"), ("part", b""), ("end", b";"), ("outer", b"ab;;")]


def test_no_options_no_captures(compiler):
    """A grammar without captures has none, and keeps no record."""
    matcher = accept(compiler.ebnf('root ::= "a"*'), "a")
    assert matcher.get_captures() == []
    assert matcher.taken == []


def test_has_temperature(compiler):
    """A grammar knows whether it asks for temperatures at all."""
    assert not compiler.ebnf('root ::= "a"').has_temperature
    assert compiler.ebnf('root[temperature=1] ::= "a"').has_temperature
