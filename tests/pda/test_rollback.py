"""Going back and going several ways: rollback from everywhere, forks, resets."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import BYTES, STOP, Engine, accepts, mask_of, matcher
from support.generators import Features
from support.strategies import grammars, vocabularies

from stackmask.pda.exceptions import RollbackError, UnsatisfiableError
from stackmask.pda.grammar import Grammar, GrammarBuilder


def brackets() -> Grammar:
    """Nested brackets around letters and a word, ambiguous and left recursive."""
    b = GrammarBuilder()
    root = b.rule("root")
    word = b.repeat(b.alt(b.literal(b"ab"), b.literal(b"a"), b.literal(b"b")), 1, 4)
    b.define(root, b.alt(b.seq(b.call(root), b.literal(b"["), b.call(root), b.literal(b"]")), word))
    return b.build(root)


def snapshot(at: Any) -> tuple[Any, ...]:
    """All that can be seen of a matcher."""
    place = (at.allowed_tokens(), mask_of(at, STOP + 1), at.is_completed(), at.is_terminated(), at.num_accepted)
    return (*place, at.next_bytes(), at.find_jump_forward_bytes())


def test_rollback_from_everywhere(engine: Engine) -> None:
    """rollback(n) leads to what was n tokens ago, for every place and every n, past a stop token too; going on again changes nothing."""
    at = matcher(engine, brackets())
    path = [*b"a[ab[b]]", STOP]
    seen = [snapshot(at)]
    for token in path:
        assert at.accept_token(token)
        seen.append(snapshot(at))
    assert at.is_terminated()
    for end in range(len(path) + 1):
        for n in range(end + 1):
            fork = at.fork()
            fork.rollback(len(path) - end)
            assert snapshot(fork) == seen[end]
            fork.rollback(n)
            assert snapshot(fork) == seen[end - n]
            for i in range(end - n, end):
                assert fork.accept_token(path[i])
                assert snapshot(fork) == seen[i + 1]


def test_rollback_too_far(engine: Engine) -> None:
    """More steps than were accepted are an error that changes nothing; a negative number is one too."""
    at = matcher(engine, brackets())
    assert at.accept_token(ord("a"))
    before = snapshot(at)
    with pytest.raises(RollbackError):
        at.rollback(2)
    with pytest.raises(ValueError, match="-1"):
        at.rollback(-1)
    assert snapshot(at) == before
    at.rollback(0)
    assert snapshot(at) == before
    at.rollback(1)
    with pytest.raises(RollbackError):
        at.rollback(1)


def test_bytes_are_one_step(engine: Engine) -> None:
    """One call of accept_bytes is undone as one step, an empty one too."""
    at = matcher(engine, brackets())
    start = snapshot(at)
    assert at.accept_bytes(b"a[ab")
    assert at.accept_bytes(b"")
    assert at.accept_token(ord("]"))
    assert at.num_accepted == 3
    at.rollback(1)
    middle = snapshot(at)
    at.rollback(1)
    assert snapshot(at)[:4] == middle[:4]
    at.rollback(1)
    assert snapshot(at) == start


def test_stop_tokens(engine: Engine) -> None:
    """After a stop token stop tokens alone are allowed, each of them a step; rollback goes back before it."""
    at = matcher(engine, brackets(), stop=(STOP, 3))
    assert at.allowed_tokens() == [ord("a"), ord("b")]
    assert not at.accept_token(STOP)
    assert at.accept_token(ord("a"))
    assert {3, STOP} <= set(at.allowed_tokens())
    before = snapshot(at)
    assert at.accept_token(3)
    assert at.is_terminated()
    assert at.allowed_tokens() == [3, STOP]
    assert not at.accept_token(ord("a"))
    assert not at.accept_bytes(b"a")
    assert at.matching_prefix(b"a") == 0
    assert at.validate_tokens([STOP, 3, 0]) == 2
    assert at.accept_token(STOP)
    assert at.num_accepted == 3
    at.rollback(2)
    assert not at.is_terminated()
    assert snapshot(at) == before


def test_forks_are_independent(engine: Engine) -> None:
    """A fork has the same history and goes its own way."""
    at = matcher(engine, brackets())
    assert at.accept_bytes(b"a[")
    fork = at.fork()
    before = snapshot(at)
    assert snapshot(fork) == before
    assert fork.accept_bytes(b"b]")
    assert snapshot(at) == before
    third = fork.fork()
    fork.rollback(2)
    assert fork.num_accepted == 0
    assert at.accept_bytes(b"aa")
    assert third.is_completed()
    assert not at.is_completed()
    del at, fork
    assert accepts(third, b"[a]")


def test_reset(engine: Engine) -> None:
    """A reset goes back to the beginning and forgets the history."""
    at = matcher(engine, brackets())
    start = snapshot(at)
    assert at.accept_bytes(b"a")
    assert at.accept_token(STOP)
    at.reset()
    assert snapshot(at) == start
    with pytest.raises(RollbackError):
        at.rollback(1)


def test_refused_tokens_change_nothing(engine: Engine) -> None:
    """A token that is refused is no step, and validate_tokens never is one."""
    at = matcher(engine, brackets())
    assert at.accept_bytes(b"a[")
    before = snapshot(at)
    assert not at.accept_token(ord("]"))
    assert not at.accept_bytes(b"ab]c")
    assert at.validate_tokens(list(b"ab]c")) == 3
    assert at.validate_tokens([]) == 0
    assert snapshot(at) == before


@given(st.data(), vocabularies(), st.integers(0, 2**32))
def test_rollback_of_random_walks(engine: Engine, data: st.DataObject, tokens: list[bytes | None], seed: int) -> None:
    """On random grammars too, any mix of steps, forks and rollbacks leads to the masks that the steps alone lead to."""
    grammar = data.draw(grammars(Features(tokens=data.draw(st.booleans()), distinct=data.draw(st.booleans())), vocabulary=len(tokens)))
    random = Random(seed)
    try:
        at = matcher(engine, grammar, tokens, (len(tokens) - 1,))
    except UnsatisfiableError:
        return
    masks = [at.allowed_tokens()]
    for _ in range(12):
        kind = random.randrange(4)
        if kind == 0:
            n = random.randint(0, at.num_accepted)
            at.rollback(n)
            del masks[len(masks) - n :]
        elif kind == 1:
            at = at.fork()
        elif masks[-1]:
            assert at.accept_token(random.choice(masks[-1]))
            masks.append(at.allowed_tokens())
        assert at.allowed_tokens() == masks[-1]
        assert at.num_accepted == len(masks) - 1


def test_history_outlives_everything_else(engine: Engine) -> None:
    """A matcher works on when the grammar and the vocabulary that made it are gone."""
    trie = engine.TokenTrie(list(BYTES), len(BYTES))
    grammar = engine.KernelGrammar(trie, brackets(), states=10_000, stack_depth=10_000, memory=1 << 24, seconds=10)
    at = engine.Matcher(grammar, [STOP])
    del trie, grammar
    assert at.accept_bytes(b"a[b]")
    assert at.is_completed()
    assert at.fork().allowed_tokens() == at.allowed_tokens()
