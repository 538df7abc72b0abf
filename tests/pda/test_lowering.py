"""The kernel lowers what texts come to: what they do not come to costs nothing, and what cannot be lowered is an error where it is met."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import BYTES, STOP, Engine, accepts, mask_of, matcher, one_rule, prepare
from support.strategies import Features, grammars, vocabularies

from stackmask.pda.exceptions import GrammarError, LimitError, UnsatisfiableError
from stackmask.pda.grammar import JSON, Grammar, GrammarBuilder, NodeId, RuleId


def words(count: int) -> list[str]:
    """Different words, with more states than letters."""
    return [f"{number:05d}" for number in range(count)]


def small_or_large(b: GrammarBuilder, large: NodeId) -> Grammar:
    """A list of small things, and of one that takes many states."""
    item = b.rule("item")
    b.define(item, b.alt(b.literal(b"s(...)"), b.seq(b.literal(b"l("), large)))
    return one_rule(b, b.repeat(b.seq(b.call(item), b.literal(b";"))))


def test_only_what_is_met_is_lowered(kernel: Engine) -> None:
    """A thousand rules cost no states before a text comes to them, and then those that it comes to."""
    b = GrammarBuilder()
    tools = []
    for number in range(1000):
        rule = b.rule(f"tool {number}")
        b.define(rule, b.seq(b.repeat(b.chars((0x61, 0x7A), JSON), 3, 300), b.except_words(words(3), JSON), b.literal(b"}")))
        tools.append(b.seq(b.literal(b"%03d{" % number), b.call(rule)))
    grammar = prepare(kernel, one_rule(b, b.seq(b.literal(b"<"), b.alt(*tools), b.literal(b">"))))
    assert grammar.statistics["states"] < 50
    at = kernel.Matcher(grammar, [STOP])
    assert at.accept_bytes(b"<417{abcdef")
    assert grammar.statistics["states"] < 10_000
    assert at.shortest_completion() == b"}>"
    assert at.accept_bytes(b"}>")
    assert at.is_completed()


def test_a_limit_that_is_met_on_the_way(kernel: Engine) -> None:
    """A limit on states that a text comes to is an error that leaves everything as it was, however often, and other texts go on."""
    b = GrammarBuilder()
    grammar = prepare(kernel, small_or_large(b, b.except_words(words(2000), JSON)), states=1000)
    at = kernel.Matcher(grammar, [STOP])
    assert at.accept_bytes(b"s(...);")
    before = mask_of(at, len(BYTES))
    for _ in range(3):
        with pytest.raises(LimitError) as caught:
            at.accept_bytes(b"l(00")
        assert caught.value.limit == "states"
        assert at.num_accepted == 1
        assert mask_of(at, len(BYTES)) == before
        assert at.accept_token(ord("l"))
        with pytest.raises(LimitError):
            at.accept_token(ord("("))
        assert at.num_accepted == 2
        at.rollback(1)
        with pytest.raises(LimitError):
            at.shortest_completion()  # which lowers it all
        assert at.accept_bytes(b"s(...")
        assert mask_of(at, len(BYTES)) == [ord(")")]
        at.rollback(1)
    at.rollback(1)
    assert at.fork().accept_bytes(b"s(...);s(...);")
    assert mask_of(at, len(BYTES)) == [ord("l"), ord("s"), STOP]


def test_masks_after_an_error_are_those_before(kernel: Engine) -> None:
    """Masks whose making a limit ended are made again, and nothing of the first attempt stays in others."""
    tokens: list[bytes | None] = [*(bytes((byte,)) for byte in range(256)), b"s(", b"l(0", b"s(...);l(", b"...);s", b";l(00", None]
    b = GrammarBuilder()
    source = small_or_large(b, b.except_words(words(2000), JSON))
    rich = kernel.Matcher(prepare(kernel, source, tokens), [len(tokens) - 1])
    poor = kernel.Matcher(prepare(kernel, source, tokens, states=1000), [len(tokens) - 1])
    failed = 0
    for text in (b"", b"s", b"(", b"...", b")", b";", b"s(...)"):
        assert rich.accept_bytes(text)
        assert poor.accept_bytes(text)
        for _ in range(2):
            try:
                assert mask_of(poor, len(tokens)) == mask_of(rich, len(tokens))
            except LimitError:
                failed += 1
    assert failed > 0


@given(st.data(), vocabularies(), st.integers(0, 2**32), st.integers(10, 60))
def test_few_states_never_change_a_mask(kernel: Engine, data: st.DataObject, tokens: list[bytes | None], seed: int, states: int) -> None:
    """With hardly any states allowed a random grammar gives the masks that it gives with many, or an error, and works on after it."""
    grammar = data.draw(grammars(Features(tokens=True, distinct=data.draw(st.booleans())), vocabulary=len(tokens)))
    random = Random(seed)
    try:
        rich = matcher(kernel, grammar, tokens, (len(tokens) - 1,))
        poor = kernel.Matcher(prepare(kernel, grammar, tokens, states=states), [len(tokens) - 1])
    except (UnsatisfiableError, LimitError):
        return
    for _ in range(12):
        allowed = rich.allowed_tokens()
        with suppress(LimitError):
            assert poor.allowed_tokens() == allowed
        if not allowed:
            break
        token = random.choice(allowed)
        try:
            accepted = poor.accept_token(token)
        except LimitError:
            if rich.num_accepted:
                n = random.randint(1, rich.num_accepted)
                rich.rollback(n)
                poor.rollback(n)
            continue
        assert accepted
        assert rich.accept_token(token)


def test_what_generates_nothing_is_left_out_where_it_is_met(engine: Engine) -> None:
    """Parts that generate nothing, anywhere below a rule that is met late, lead nowhere."""
    b = GrammarBuilder()
    never, loop = b.never(), b.rule("loop")
    b.define(loop, b.seq(b.literal(b"x"), b.call(loop)))
    dead = b.seq(b.literal(b"d"), b.call(loop))
    lost = b.automaton((((97, 97, 1), (98, 98, 2)), (), ((99, 99, 2),)), (False, True, False))
    graph = b.graph(4, (0, 1, b.literal(b"g"), 0, 2, b.literal(b"h"), 2, 3, b.literal(b"i"), 0, 3, dead))
    pairs = b.permute((b.literal(b"p"), 0, dead, 0, b.literal(b"q"), 0), b.literal(b","))
    single = b.permute((b.literal(b"u"), 0, b.literal(b"v"), 0), never)
    times = b.seq(b.repeat(dead, 0, 100), b.literal(b"t"))
    counted = b.automaton((((97, 97, 1), (98, 98, 2)), ((97, 97, 1),), ((99, 99, 2),)), (False, True, False), minimum=2, maximum=50)
    inner = b.rule("inner")
    b.define(inner, b.alt(dead, lost, graph, pairs, single, times, counted, b.tokens(()), never))
    at = matcher(engine, one_rule(b, b.seq(b.literal(b"<"), b.call(inner), b.literal(b">"))))
    assert at.accept_bytes(b"<")
    assert bytes(mask_of(at, len(BYTES))) == b">agpqtuv"
    for text, wanted in ((b"a", b">a"), (b"g", b">"), (b"p", b",>"), (b"p,", b"q"), (b"u", b">"), (b"aa", b">a")):
        assert at.accept_bytes(text)
        assert bytes(mask_of(at, len(BYTES))) == wanted
        at.rollback(1)


def test_nothing_at_all(engine: Engine) -> None:
    """That nothing is left is known at once, however far from the root the reason lies."""
    b = GrammarBuilder()
    rules = [b.rule(str(number)) for number in range(2000)]
    for here, there in pairwise(rules):
        b.define(here, b.alt(b.seq(b.literal(b"a"), b.call(there)), b.seq(b.literal(b"b"), b.call(there))))
    b.define(rules[-1], b.permute((b.literal(b"a"), 1), b.never(), minimum=2))
    with pytest.raises(UnsatisfiableError):
        prepare(engine, b.build(rules[0]))


@pytest.mark.parametrize("order", [1, -1])
def test_long_chains_of_rules(kernel: Engine, order: int) -> None:
    """Rules that call each other in a row, defined first to last or last to first, take linear time and no recursion."""
    count = 50_000
    start = time.perf_counter()
    b = GrammarBuilder()
    rules = [b.rule(str(number)) for number in range(count)]
    for number in range(count)[::order]:
        rest = b.call(rules[number + 1]) if number + 1 < count else b.literal(b".")
        b.define(rules[number], b.seq(b.literal(b"%d" % (number % 10)), rest))
    at = matcher(kernel, b.build(rules[0]))
    assert at.accept_bytes(b"0123456789")
    assert mask_of(at, len(BYTES)) == [ord("0")]
    b = GrammarBuilder()
    rules = [b.rule(str(number)) for number in range(count)]
    for number in range(count)[::order]:  # each may read nothing, so that a call of the first is one of them all
        rest = b.call(rules[number + 1]) if number + 1 < count else b.empty()
        b.define(rules[number], b.alt(rest, b.literal(b"%d" % (number % 10))))
    at = matcher(kernel, b.build(rules[0]))
    assert bytes(mask_of(at, len(BYTES))[:10]) == b"0123456789"
    assert at.is_completed()
    assert time.perf_counter() - start < 30


def test_distinct_where_it_cannot_be(kernel: Engine) -> None:
    """A DISTINCT that cannot be lowered is an error before any text, even where no text may come to it."""

    def outside(b: GrammarBuilder, item: NodeId) -> NodeId:
        return b.seq(b.literal(b"y"), item)

    def inside_of_another(b: GrammarBuilder, item: NodeId) -> NodeId:
        return b.scope(b.seq(b.literal(b"y"), b.distinct(item)))

    def in_counts_of_counts(b: GrammarBuilder, item: NodeId) -> NodeId:
        return b.scope(b.repeat(b.seq(b.literal(b";"), b.repeat(b.seq(b.literal(b","), item), 0, 100)), 0, 100))

    for place in (outside, inside_of_another, in_counts_of_counts):
        b = GrammarBuilder()
        node = place(b, b.distinct(b.bytes((0x30, 0x39))))
        with pytest.raises(GrammarError, match="DISTINCT"):
            prepare(kernel, one_rule(b, b.alt(b.literal(b"x"), node)))


def test_inlined_rules_keep_their_names(kernel: Engine) -> None:
    """The rules on the stack are those of the grammar, whether they became parts of others or not."""
    b = GrammarBuilder()
    names = ["outer", "middle", "inner"]
    rules = {name: b.rule(name) for name in names}
    b.define(rules["inner"], b.literal(b"abc"))
    b.define(rules["middle"], b.seq(b.literal(b"("), b.call(rules["inner"]), b.literal(b")")))
    b.define(rules["outer"], b.seq(b.call(rules["middle"]), b.literal(b"."), b.call(rules["inner"])))
    at = matcher(kernel, b.build(RuleId(0)))
    assert at.rule_names(b"(a") == ["inner", "middle", "outer"]
    assert at.rule_names(b"(abc)") == ["outer"]
    assert at.rule_names(b"(abc).ab") == ["inner", "outer"]


def empty_permutations(b: GrammarBuilder) -> list[tuple[Any, ...]]:
    """Permutations whose members may read nothing: their arguments, texts of theirs, and others."""
    a = b.optional(b.literal(b"a"))
    comma = b.literal(b",")
    return [
        ((a, 1), comma, 0, -1, [b"", b"a"], [b",", b"a,"]),
        ((a, 1), comma, 1, -1, [b"", b"a"], [b",", b"aa"]),
        ((a, 1, b.literal(b"b"), 0), comma, 0, -1, [b"", b"a", b",b", b"b,", b"a,b"], [b"b", b","]),
        ((a, 1, b.optional(b.literal(b"b")), 1), comma, 0, -1, [b",", b"a,", b",b", b"b,a"], [b"", b"a", b"ab"]),
        ((a, 2), b.empty(), 2, 3, [b"", b"a", b"aaa"], [b"aaaa"]),
    ]


@pytest.mark.parametrize("case", range(5))
def test_permutations_of_what_may_be_empty(engine: Engine, case: int) -> None:
    """A permutation reads nothing exactly where its members and separators can."""
    b = GrammarBuilder()
    members, separator, minimum, maximum, good, bad = empty_permutations(b)[case]
    node = b.permute(members, separator, minimum=minimum, maximum=maximum)
    rule = b.rule("permutation")
    b.define(rule, node)
    at = matcher(engine, one_rule(b, b.seq(b.literal(b"<"), b.call(rule), b.literal(b">"), b.repeat(b.call(rule), 0, 2), b.literal(b"!"))))
    for text in good:
        assert accepts(at, b"<" + text + b">!"), text
    for text in bad:
        assert not accepts(at, b"<" + text + b">!"), text
