"""Captures: against all the ways in which a text can be read, written down by a parser that knows nothing but the definition."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from support.engines import Engine, prepare

from stackmask.pda.captures import CaptureReader
from stackmask.pda.exceptions import LimitError, UnsatisfiableError
from stackmask.pda.grammar import ALT, CALL, CAPTURE, EMPTY, LITERAL, REPEAT, SEQ, Grammar, GrammarBuilder, NodeId, RuleId
from stackmask.pda.limits import Limits

TOKENS = [b"a", b"b", b"ab", b"ba", b"aa", None]
Spans = tuple[tuple[str, bytes], ...]


def text_of(token: int) -> bytes | None:
    """The text of a token of TOKENS."""
    return TOKENS[token] if token < len(TOKENS) else None


def reader(grammar: Grammar, limits: Limits | None = None) -> CaptureReader:
    """What finds captures."""
    return CaptureReader(grammar, len(TOKENS), text_of, limits or Limits())


def readings(grammar: Grammar, node: int, text: bytes, at: int, depth: int) -> Iterator[tuple[int, Spans]]:
    """All ways to read something of the text from a place by an expression: where they end, and their captures."""
    operator, *arguments = grammar.nodes[node]
    if depth < 0:
        return
    if operator == EMPTY:
        yield at, ()
    elif operator == LITERAL:
        data = arguments[0]
        assert isinstance(data, bytes)
        if text.startswith(data, at):
            yield at + len(data), ()
    elif operator == ALT:
        for part in arguments:
            yield from readings(grammar, part, text, at, depth)  # type: ignore[arg-type]
    elif operator == SEQ:
        ways: set[tuple[int, Spans]] = {(at, ())}
        for part in arguments:
            ways = {(end, (*spans, *more)) for start, spans in ways for end, more in readings(grammar, part, text, start, depth)}  # type: ignore[arg-type]
        yield from ways
    elif operator == REPEAT:
        ways = {(at, ())}
        yield at, ()
        while ways:
            ways = {
                (end, (*spans, *more))
                for start, spans in ways
                for end, more in readings(grammar, arguments[0], text, start, depth)  # type: ignore[arg-type]
                if end > start
            }
            yield from ways
    elif operator == CALL:
        yield from readings(grammar, grammar.rules[arguments[0]], text, at, depth - 1)  # type: ignore[index]
    elif operator == CAPTURE:
        for end, spans in readings(grammar, arguments[0], text, at, depth):  # type: ignore[arg-type]
            yield end, (*spans, (arguments[1], text[at:end]))  # type: ignore[arg-type]


def random_grammar(random: Random) -> Grammar:
    """A small grammar with captures, whose repetitions are `*`."""
    b = GrammarBuilder()
    rules = [b.rule(f"r{i}") for i in range(random.randint(1, 2))]

    def expression(depth: int) -> NodeId:
        kind = random.random()
        if depth == 0 or kind < 0.15:
            leaf = random.choice((b"a", b"b", b"ab", b"ba", b""))
            return b.call(random.choice(rules)) if random.random() < 0.2 else b.literal(leaf)
        if kind < 0.45:
            return b.seq(*(expression(depth - 1) for _ in range(2)))
        if kind < 0.6:
            return b.alt(*(expression(depth - 1) for _ in range(2)))
        if kind < 0.7:
            return b.repeat(expression(depth - 1))
        return b.capture(expression(depth - 1), random.choice("xyz"))

    for rule in rules:
        b.define(rule, expression(3))
    return b.build(rules[0])


def test_one_of_all_readings(engine: Engine) -> None:
    """The captures of a complete text are those of one way to read it; where all ways agree, there is no choice."""
    random = Random(0)
    decided = several = 0
    for _ in range(250):
        grammar = random_grammar(random)
        try:
            compiled = prepare(engine, grammar, TOKENS)
        except UnsatisfiableError:
            continue
        captures = reader(grammar)
        for _ in range(3):
            at = engine.Matcher(compiled, [5])
            while at.num_accepted < 4:
                choices = [token for token in at.allowed_tokens() if token != 5]
                if not choices or (at.is_completed() and random.random() < 0.3):
                    break
                at.accept_token(random.choice(choices))
            text = b"".join(TOKENS[step] or b"" if isinstance(step, int) else step for step in at.taken)
            if not at.is_completed() or not at.taken:
                continue
            found = tuple(captures.read(at.taken, deduplicate=False))
            ways = {spans for end, spans in readings(grammar, grammar.rules[grammar.root], text, 0, 8) if end == len(text)}
            # an iteration that reads nothing counts for nothing, and a capture in it may be there or not
            assert found in ways or strip(found) in set(map(strip, ways)), (text, found, ways)
            decided += len(ways) == 1
            several += len(ways) > 1
    assert decided > 50
    assert several > 10


def strip(spans: Spans) -> Spans:
    """Without captures of nothing."""
    return tuple(span for span in spans if span[1])


def build(body: str) -> Grammar:
    """A few grammars by name."""
    b = GrammarBuilder()
    root = b.rule("root")
    letters = b.repeat(b.bytes((0x61, 0x7A)), 1, -1)
    bodies = {
        "last letter": lambda: b.seq(b.capture(letters, "x"), b.bytes((0x61, 0x7A)), b.literal(b"!")),
        "two": lambda: b.seq(b.capture(letters, "x"), b.capture(letters, "y"), b.repeat(b.literal(b"!"))),
        "list": lambda: b.repeat(b.seq(b.capture(letters, "x"), b.bytes((0x2C, 0x2C)))),
        "nested": lambda: b.capture(b.seq(b.literal(b"("), b.optional(b.call(root)), b.literal(b")")), "x"),
        "left": lambda: b.capture(b.alt(b.seq(b.call(root), b.literal(b"+1")), b.literal(b"1")), "x"),
        "limited": lambda: b.seq(
            b.capture(b.limit(letters, tokens=2), "x"), b.capture(b.repeat(b.bytes((0x61, 0x7A))), "y"), b.literal(b"!")
        ),
        "token": lambda: b.seq(b.capture(b.seq(b.tokens((5,)), letters), "x"), b.literal(b"!")),
        "same": lambda: b.capture(b.capture(b.literal(b"a"), "x"), "x"),
    }
    b.define(root, bodies[body]())
    return b.build(RuleId(root))


@pytest.mark.parametrize(
    ("body", "steps", "captures"),
    [
        ("last letter", [b"ab", b"c"], [("x", b"ab")]),
        ("last letter", [b"abc!"], [("x", b"ab")]),
        ("two", [b"abc"], [("x", b"ab"), ("y", b"c")]),
        ("two", [b"abc!!"], [("x", b"ab"), ("y", b"c")]),
        ("list", [b"a,b", b"c,d"], [("x", b"a"), ("x", b"bc"), ("x", b"d")]),
        ("nested", [b"(()"], [("x", b"()")]),
        ("nested", [b"(())"], [("x", b"()"), ("x", b"(())")]),
        ("left", [b"1+1+", b"1"], [("x", b"1"), ("x", b"1+1"), ("x", b"1+1+1")]),
        ("limited", [b"a", b"b", b"c", b"!"], [("x", b"ab"), ("y", b"c")]),
        ("limited", [b"a", b"bc!"], [("x", b"ab"), ("y", b"c")]),
        ("token", [5, b"ab", b"!"], [("x", b"ab")]),
        ("same", [b"a"], [("x", b"a")]),
    ],
)
def test_readings(body: str, steps: list[int | bytes], captures: list[tuple[str, bytes]]) -> None:
    """Earlier parts are long, what may end has ended, and a limit decides as it did when the text was written."""
    assert reader(build(body)).read(steps) == captures


def test_same_place_twice() -> None:
    """Captures of one name at one place count once unless asked for."""
    assert reader(build("same")).read([b"a"], deduplicate=False) == [("x", b"a")] * 2


def test_steps_are_taken(engine: Engine) -> None:
    """A matcher keeps its steps through rollback and forks, without stop tokens; without captures it keeps none."""
    at = engine.Matcher(prepare(engine, build("two"), TOKENS), [5])
    assert at.accept_token(2)
    assert at.accept_bytes(b"z")
    assert at.accept_bytes(b"")
    fork = at.fork()
    assert at.accept_token(5)
    assert at.taken == [2, b"z", b""]
    at.rollback(3)
    assert at.accept_token(0)
    assert at.taken == [2, 0]
    assert fork.taken == [2, b"z", b""]
    fork.reset()
    assert fork.taken == []
    b = GrammarBuilder()
    root = b.rule("root")
    b.define(root, b.repeat(b.literal(b"a")))
    plain = engine.Matcher(prepare(engine, b.build(root), TOKENS), [5])
    assert plain.accept_token(0)
    assert plain.taken == []


def test_steps_are_taken_for_captures_out_of_reach(engine: Engine) -> None:
    """A capture that no text leads to is one all the same, so that no engine has to know whether some text does."""
    b = GrammarBuilder()
    root, unused = b.rule("root"), b.rule("unused")
    b.define(root, b.repeat(b.literal(b"a")))
    b.define(unused, b.capture(b.literal(b"b"), "x"))
    at = engine.Matcher(prepare(engine, b.build(root), TOKENS), [5])
    assert at.accept_token(0)
    assert at.taken == [0]


def test_reading_is_bounded() -> None:
    """Reading again ends at the limits."""
    with pytest.raises(LimitError, match="items"):
        reader(build("list"), Limits(states=1000)).read([b"abcdefgh," * 200])
