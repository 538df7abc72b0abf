"""Random grammars and vocabularies: every bit of every mask, and the kernel against the reference engine."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.engines import BYTES, STOP, Engine, accepts, mask_of, matcher, one_rule
from support.generators import REGULAR, Features
from support.oracles import is_quick_for_re, regex_of
from support.strategies import grammars, vocabularies

from stackmask.pda.exceptions import GrammarError, UnsatisfiableError
from stackmask.pda.grammar import Grammar, GrammarBuilder


def begin(engine: Engine, grammar: Grammar, tokens: list[bytes | None]) -> Any:
    """A matcher of a random grammar; a grammar that generates nothing is not a case."""
    try:
        return matcher(engine, grammar, tokens, (len(tokens) - 1,))
    except UnsatisfiableError:
        assume(False)


def shortest(at: Any) -> bytes | None:
    """The completion, None where there is none without a token by its id."""
    try:
        completion: bytes = at.shortest_completion()
    except GrammarError:
        return None
    return completion


def walk(at: Any, random: Random, steps: int) -> list[int]:
    """Accept random allowed tokens, rarely the stop token; the ids of the tokens."""
    path = []
    for _ in range(steps):
        allowed = at.allowed_tokens()
        if not allowed or at.is_terminated():
            break
        token = random.choice(allowed)
        assert at.accept_token(token)
        path.append(token)
    return path


def check_place(at: Any, tokens: list[bytes | None], *, by_id: bool) -> None:
    """All that holds wherever a matcher is: the mask is what accept_token says, and no place is a dead end."""
    size, stop = len(tokens), len(tokens) - 1
    allowed = at.allowed_tokens()
    assert mask_of(at, size) == allowed
    for token in range(size):
        assert at.validate_tokens([token]) == (token in allowed), (token, tokens[token])
        accepted = at.accept_token(token)
        assert accepted == (token in allowed), (token, tokens[token])
        if accepted:
            at.rollback(1)
    assert at.is_completed() <= (stop in allowed)
    assert by_id or (stop in allowed) <= at.is_completed()  # a grammar may read the stop token as any other
    if not at.is_terminated():
        following = at.next_bytes()
        assert by_id or {(tokens[i] or b"")[:1] for i in allowed if i != stop} <= {bytes((byte,)) for byte in following}
        for byte in b'ab1"{}[],:\xc3\x80\xff\\':
            assert (at.matching_prefix(bytes((byte,))) == 1) == (byte in following)
        forced = at.find_jump_forward_bytes()
        assert at.matching_prefix(forced) == len(forced)
        assert forced.startswith(at.find_jump_forward_string().encode())
        assert bool(forced) <= (len(following) == 1 and not at.is_completed())


@given(st.data(), vocabularies(), st.integers(0, 2**32))
def test_mask_bits_are_what_accept_says(engine: Engine, data: st.DataObject, tokens: list[bytes | None], seed: int) -> None:
    """Along a random walk each mask bit agrees with accept_token, for every token of the vocabulary."""
    by_id = data.draw(st.booleans())
    grammar = data.draw(grammars(Features(tokens=by_id), vocabulary=len(tokens)))
    at, random = begin(engine, grammar, tokens), Random(seed)
    check_place(at, tokens, by_id=by_id)
    for _ in range(6):
        if not walk(at, random, 1):
            break
        check_place(at, tokens, by_id=by_id)


@given(st.data(), vocabularies(), st.integers(0, 2**32))
def test_kernel_is_the_reference(kernel: Engine, reference: Engine, data: st.DataObject, tokens: list[bytes | None], seed: int) -> None:
    """Both engines have the same masks, the same ends, the same forced text and equally short completions along a random walk."""
    grammar = data.draw(grammars(Features(tokens=data.draw(st.booleans())), vocabulary=len(tokens)))
    slow, random = begin(reference, grammar, tokens), Random(seed)
    fast = begin(kernel, grammar, tokens)
    for _ in range(12):
        assert fast.allowed_tokens() == slow.allowed_tokens(), str(grammar)
        assert mask_of(fast, len(tokens)) == slow.allowed_tokens()
        assert fast.is_completed() == slow.is_completed()
        assert fast.next_bytes() == slow.next_bytes()
        assert fast.find_jump_forward_bytes() == slow.find_jump_forward_bytes()
        assert fast.find_jump_forward_string() == slow.find_jump_forward_string()
        path = walk(slow, random, 1)
        if not path or slow.is_terminated():
            break
        assert fast.accept_token(path[0])


@given(grammars(Features(distinct=False, counted=True, left=True)), st.integers(0, 2**32))
def test_shortest_completion(engine: Engine, grammar: Grammar, seed: int) -> None:
    """The shortest completion completes, and no byte of a random walk brings the end nearer by more than one."""
    at, random = begin(engine, grammar, list(BYTES)), Random(seed)
    rest = shortest(at)
    for _ in range(8):
        assert rest is not None
        assert accepts(at, rest)
        assert (not rest) == at.is_completed()
        assert engine.completion_lengths([at, at]) == [len(rest)] * 2
        if not walk(at, random, 1) or at.is_terminated():
            break
        before, rest = rest, shortest(at)
        assert rest is not None
        assert len(rest) >= len(before) - 1


@given(st.data(), vocabularies(), st.integers(0, 2**32))
def test_completions_are_as_short_as_the_reference_has_them(
    kernel: Engine, reference: Engine, data: st.DataObject, tokens: list[bytes | None], seed: int
) -> None:
    """At every place of a random walk, behind tokens by their ids and inside of limits too, or neither engine has one."""
    features = [
        Features(distinct=False, counted=True, left=True, tokens=by_id, options=options)
        for by_id in (False, True)
        for options in (False, True)
    ]
    try:
        grammar = data.draw(grammars(data.draw(st.sampled_from(features)), vocabulary=len(tokens)))
        fast = begin(kernel, grammar, tokens)
    except GrammarError:  # left recursion through a limit
        assume(False)
    slow, random = begin(reference, grammar, tokens), Random(seed)
    for _ in range(8):
        here, there = shortest(fast), shortest(slow)
        assert (here is None) == (there is None), str(grammar)
        assert kernel.completion_lengths([fast, fast]) == [-1 if here is None else len(here)] * 2
        if here is not None and there is not None:
            assert len(here) == len(there), str(grammar)
            assert accepts(fast, here)
            assert accepts(slow, here)
        path = walk(fast, random, 1)
        if not path or fast.is_terminated():
            break
        assert slow.accept_token(path[0])


@pytest.mark.parametrize("body", ["ab", "a", "a letter", "one of two"])
@pytest.mark.parametrize(("minimum", "maximum"), [(0, 40), (2, 3), (17, 33), (25, 25), (30, -1), (0, -1)])
def test_completions_behind_every_count(engine: Engine, body: str, minimum: int, maximum: int) -> None:
    """However often a body has been read, and inside of it, what is missing is counted: nothing once it has been read often enough."""
    b = GrammarBuilder()
    bodies = {
        "ab": b.literal(b"ab"),
        "a": b.literal(b"a"),
        "a letter": b.chars((0x61, 0x7A)),
        "one of two": b.alt(b.literal(b"ab"), b.literal(b"cdef")),
    }
    at = matcher(engine, one_rule(b, b.seq(b.literal(b"<"), b.repeat(bodies[body], minimum, maximum), b.literal(b">"))))
    once = b"ab"[: 1 if body in ("a", "a letter") else 2]
    assert at.accept_bytes(b"<")
    for count in range(41 if maximum < 0 else maximum):
        assert engine.completion_lengths([at]) == [max(0, minimum - count) * len(once) + 1]
        assert accepts(at, at.shortest_completion())
        assert at.accept_bytes(once[:1])
        assert engine.completion_lengths([at]) == [len(once) - 1 + max(0, minimum - count - 1) * len(once) + 1]
        assert at.accept_bytes(once[1:])


@given(st.data(), st.integers(0, 2**32))
def test_completions_take_the_cheapest_values(engine: Engine, data: st.DataObject, seed: int) -> None:
    """Where values must differ the shortest completion takes the cheapest that were not seen, by trying them all."""
    words = data.draw(st.lists(st.text("abcd", min_size=1, max_size=4), min_size=3, max_size=6, unique=True))
    kinds = [sorted(data.draw(st.sets(st.sampled_from(words), min_size=3)))] * 3
    if data.draw(st.booleans()):
        kinds = [sorted(data.draw(st.sets(st.sampled_from(words), min_size=3))) for _ in range(3)]
    b = GrammarBuilder()
    made = {words_of: b.alt(*(b.literal(b'"%s"' % word.encode()) for word in words_of)) for words_of in map(tuple, kinds)}
    places = [b.distinct(made[tuple(kind)]) for kind in kinds]
    parts = [part for place in places for part in (b.literal(b","), place)]
    root = b.rule("root")
    b.define(root, b.alt(b.scope(b.seq(b.literal(b"["), *parts[1:], b.literal(b"]"))), b.literal(b"[never at all]")))
    at, random = matcher(engine, b.build(root)), Random(seed)
    texts = ["[" + ",".join(f'"{word}"' for word in values) + "]" for values in itertools.product(*kinds) if len(set(values)) == 3]
    texts.append("[never at all]")
    chosen = random.choice(texts[:-1]) if texts[1:] else texts[0]
    for cut in range(len(chosen)):
        begun = chosen[:cut]
        here = at.fork()
        assert here.accept_bytes(begun.encode())
        least = min(len(text) for text in texts if text.startswith(begun)) - cut
        assert engine.completion_lengths([here]) == [least], begun
        assert accepts(here, here.shortest_completion())


@given(grammars(Features(distinct=True)), st.integers(0, 2**32))
def test_completions_keep_values_distinct(engine: Engine, grammar: Grammar, seed: int) -> None:
    """With DISTINCT too the shortest completion completes."""
    at, random = begin(engine, grammar, list(BYTES)), Random(seed)
    for _ in range(4):
        rest = shortest(at)
        assert rest is not None
        assert accepts(at, rest)
        assert engine.completion_lengths([at]) == [len(rest)]
        if not walk(at, random, 2) or at.is_terminated():
            break


@given(st.data())
def test_regular_grammars_are_what_re_says(engine: Engine, data: st.DataObject) -> None:
    """Sets, sequences, alternatives and repetitions with bounds accept what the same pattern of Python's `re` matches."""
    grammar = data.draw(grammars(REGULAR).filter(is_quick_for_re))
    pattern = regex_of(grammar)
    start = begin(engine, grammar, list(BYTES))
    random = Random(data.draw(st.integers(0, 2**32)))
    for _ in range(5):
        at = start.fork()
        text = bytes(token for token in walk(at, random, random.randrange(8)) if token != STOP)
        text += start.fork().shortest_completion() if random.random() < 0.3 else b""
        for candidate in (text, text[:-1], text + text[-1:], text[: len(text) // 2] + text[len(text) // 2 + 1 :]):
            assert accepts(start, candidate) == bool(pattern.fullmatch(candidate)), candidate


@given(st.data(), st.integers(0, 2**32))
def test_cuts_do_not_matter(engine: Engine, data: st.DataObject, seed: int) -> None:
    """A text is accepted as tokens, as bytes, in one piece, however it is cut, with the same places after it."""
    grammar = data.draw(grammars(Features(distinct=False)))
    random = Random(seed)
    at = begin(engine, grammar, list(BYTES))
    path = [token for token in walk(at, random, 12) if token != STOP]
    text = bytes(path)
    tokens: list[bytes | None] = sorted({text[i:j] for i in range(len(text)) for j in range(i + 1, len(text) + 1)}) or [b"a"]
    start = begin(engine, grammar, [*tokens, None])
    whole = start.fork()
    assert whole.accept_bytes(text)
    for _ in range(4):
        cut, place = start.fork(), 0
        while place < len(text):
            end = random.randint(place + 1, len(text))
            assert cut.accept_token(tokens.index(text[place:end]))
            place = end
        assert cut.allowed_tokens() == whole.allowed_tokens()
        assert cut.next_bytes() == whole.next_bytes()


@given(st.data(), vocabularies(), st.integers(0, 2**32))
def test_a_token_is_its_text(engine: Engine, data: st.DataObject, tokens: list[bytes | None], seed: int) -> None:
    """Without TOKENS in the grammar a token is allowed exactly if its bytes are, and leads to the same place."""
    grammar = data.draw(grammars(Features(distinct=False)))
    at, random = begin(engine, grammar, tokens), Random(seed)
    walk(at, random, random.randrange(4))
    assume(not at.is_terminated())
    allowed = set(at.allowed_tokens())
    for i, token in enumerate(tokens[:-1]):
        if token is None:
            assert i not in allowed
            continue
        by_bytes, by_token = at.fork(), at.fork()
        assert by_bytes.accept_bytes(token) == (i in allowed)
        if by_token.accept_token(i):
            assert by_token.next_bytes() == by_bytes.next_bytes()
            assert by_token.is_completed() == by_bytes.is_completed()
