"""Deep nesting and long texts: linear time, no recursion on the depth, and limits that are errors."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest
from support.engines import Engine, load_engine, mask_of, matcher, prepare

from stackmask.pda.exceptions import LimitError
from stackmask.pda.grammar import JSON, Grammar, GrammarBuilder, NodeId

TOKENS = (*(bytes((byte,)) for byte in range(256)), b"[[[[", b"]]]]", b'{"a":', b'[{"', b'"},', b"}]", b"]}", None)
STOP = len(TOKENS) - 1
DEPTH = {"kernel": 100_000, "reference": 3_000}


def depth_of(engine: Engine) -> int:
    """How deep an engine is tested."""
    return DEPTH["reference" if engine.__name__.endswith("reference") else "kernel"]


def json_values() -> Grammar:
    """JSON without whitespace."""
    b = GrammarBuilder()
    value = b.rule("value")

    def comma_separated(item: NodeId) -> NodeId:
        return b.optional(b.seq(item, b.repeat(b.seq(b.literal(b","), item))))

    characters = b.repeat(b.chars((0, 0x10FFFF), JSON))
    string = b.seq(b.literal(b'"'), characters, b.literal(b'"'))
    number = b.repeat(b.bytes((0x30, 0x39)), 1, -1)
    array = b.seq(b.literal(b"["), comma_separated(b.call(value)), b.literal(b"]"))
    members = b.seq(b.literal(b"{"), comma_separated(b.seq(string, b.literal(b":"), b.call(value))), b.literal(b"}"))
    b.define(value, b.alt(array, members, string, number, b.literal(b"true")))
    return b.build(value)


@pytest.mark.parametrize(("opening", "inside", "closing"), [(b"[", b"1", b"]"), (b'{"a":', b"true", b"}"), (b'[{"b":[', b"", b"]}]")])
def test_deep_nesting(engine: Engine, opening: bytes, inside: bytes, closing: bytes) -> None:
    """A value nested very deep is accepted, with masks along the way, and only that many closing brackets end it."""
    depth = depth_of(engine)
    at = matcher(engine, json_values(), TOKENS, (STOP,))
    assert at.accept_bytes(opening * depth + inside)
    assert not at.is_completed()
    assert STOP not in mask_of(at, len(TOKENS))
    assert at.accept_bytes(closing * (depth - 1))
    fork = at.fork()
    assert fork.shortest_completion() == closing
    assert not fork.accept_bytes(closing + closing)
    assert at.accept_bytes(closing)
    assert mask_of(at, len(TOKENS)) == [STOP]
    at.rollback(2)
    assert mask_of(at, len(TOKENS))
    assert at.accept_bytes(closing * depth)
    assert at.is_completed()


def test_deep_nesting_token_by_token(engine: Engine) -> None:
    """Masks and steps cost the same at any depth."""
    depth = depth_of(engine) // 20
    at = matcher(engine, json_values(), TOKENS, (STOP,))
    masks = []
    for _ in range(depth):
        assert at.accept_token(256)
        masks.append(mask_of(at, len(TOKENS)))
    assert all(mask == masks[1] for mask in masks[1:])
    for _ in range(depth):
        assert 257 in mask_of(at, len(TOKENS))
        assert at.accept_token(257)
    assert mask_of(at, len(TOKENS)) == [STOP]


def test_time_is_linear(kernel: Engine) -> None:
    """Twice the text takes no more than about twice the time."""

    def seconds(n: int) -> float:
        at = matcher(kernel, json_values(), TOKENS, (STOP,))
        data = b"[" * n + b"]" * n
        start = time.thread_time()
        assert at.accept_bytes(data)
        return time.thread_time() - start

    small, large = min(seconds(50_000) for _ in range(3)), min(seconds(400_000) for _ in range(3))
    assert large < 8 * small * 4 + 0.05


def test_a_model_that_closes_nothing(engine: Engine) -> None:
    """A model that opens wherever it may gets masks without the stop token forever, and can still end."""
    at = matcher(engine, json_values(), TOKENS, (STOP,))
    count = 0
    for _ in range(depth_of(engine) // 10):
        allowed = at.allowed_tokens()
        assert STOP not in allowed
        wanted = next((token for token in (256, ord("["), ord("{"), ord('"'), ord(":")) if token in allowed), allowed[0])
        assert at.accept_token(wanted)
        count += len(TOKENS[wanted] or b"")
    rest = at.shortest_completion()
    assert rest == b"]" * count
    assert at.accept_bytes(rest)
    assert at.is_completed()


def test_stack_depth_is_a_limit(engine: Engine) -> None:
    """A text nested deeper than the limit is an error that names it, not a crash, and the matcher works on."""
    b = GrammarBuilder()
    pair = b.rule("pair")
    b.define(pair, b.optional(b.seq(b.literal(b"("), b.call(pair), b.literal(b")"))))
    grammar = prepare(engine, b.build(pair), TOKENS, stack_depth=1000)
    at = engine.Matcher(grammar, [STOP])
    assert at.accept_bytes(b"(" * 900)
    for _ in range(3):  # a stack that was refused once is refused again
        with pytest.raises(LimitError) as caught:
            at.accept_bytes(b"(" * 200)
        assert caught.value.limit == "stack_depth"
        assert caught.value.value == 1000
    assert at.accept_bytes(b")" * 900)
    assert at.is_completed()


def test_depths_outlive_reclaims() -> None:
    """Tables that are dropped and made again keep the depths of the stacks that are held: the limit is met at the same text."""
    b = GrammarBuilder()
    pair = b.rule("pair")
    b.define(pair, b.optional(b.seq(b.literal(b"("), b.call(pair), b.literal(b")"))))
    kernel = load_engine("kernel")
    depths = []
    for memory in (64 << 20, 1):
        grammar = prepare(kernel, b.build(pair), TOKENS, stack_depth=200, memory=memory)
        at = kernel.Matcher(grammar, [STOP])
        assert at.accept_bytes(b"(" * 100)
        for _ in range(400):  # tables are looked at once in many calls
            assert at.accept_bytes(b"(") and at.accept_bytes(b")")
            at.rollback(2)
        with pytest.raises(LimitError):
            while at.accept_bytes(b"("):
                pass
        depths.append(at.num_accepted)
    assert depths[0] == depths[1] > 50
    assert grammar.statistics["reclaims"] > 0


def left_recursive(b: GrammarBuilder, item: NodeId) -> NodeId:
    """Left recursion: s = s item | item."""
    rule = b.rule("s")
    b.define(rule, b.alt(b.seq(b.call(rule), item), item))
    return b.call(rule)


def right_recursive(b: GrammarBuilder, item: NodeId) -> NodeId:
    """Right recursion: s = item s | item."""
    rule = b.rule("s")
    b.define(rule, b.alt(b.seq(item, b.call(rule)), item))
    return b.call(rule)


def ambiguous(b: GrammarBuilder, item: NodeId) -> NodeId:
    """Both, ambiguous: s = item s item | item s | item."""
    rule = b.rule("s")
    b.define(rule, b.alt(b.seq(item, b.call(rule), item), b.seq(item, b.call(rule)), item))
    return b.call(rule)


@pytest.mark.parametrize(
    ("make", "slow", "fast"),
    [(left_recursive, 5_000, 100_000), (right_recursive, 200, 100_000), (ambiguous, 60, 800)],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_long_texts(engine: Engine, make: Callable[[GrammarBuilder, NodeId], NodeId], slow: int, fast: int) -> None:
    """Recursion on either side, and in both at once, reads long texts."""
    length = slow if depth_of(engine) == DEPTH["reference"] else fast
    b = GrammarBuilder()
    root = b.rule("root")
    b.define(root, b.seq(make(b, b.literal(b"a")), b.literal(b".")))
    at = matcher(engine, b.build(root), TOKENS, (STOP,))
    assert at.accept_bytes(b"a" * length)
    assert mask_of(at, len(TOKENS)) == [ord("."), ord("a")]
    assert at.accept_bytes(b".")
    assert at.is_completed()


def test_deep_expressions(engine: Engine) -> None:
    """An expression nested very deep is lowered without recursion."""
    b = GrammarBuilder()
    node = b.literal(b"x")
    for i in range(20_000):
        node = b.seq(b.literal(b"("), node) if i % 2 else b.optional(node)
    root = b.rule("root")
    b.define(root, node)
    at = matcher(engine, b.build(root), TOKENS, (STOP,))
    assert at.accept_bytes(b"(" * 5_000)
    assert mask_of(at, len(TOKENS))
    assert at.accept_bytes(b"(" * 5_000)
    assert not at.accept_bytes(b"(")


def test_deep_chains_of_rules(engine: Engine) -> None:
    """A chain of very many rules is neither a problem to compile nor to run."""
    b = GrammarBuilder()
    rules = [b.rule(f"r{i}") for i in range(20_000)]
    for rule, following in itertools.pairwise(rules):
        b.define(rule, b.call(following))
    b.define(rules[-1], b.literal(b"x"))
    at = matcher(engine, b.build(rules[0]), TOKENS, (STOP,))
    assert mask_of(at, len(TOKENS)) == [ord("x")]
    assert at.accept_bytes(b"x")
    assert at.is_completed()
