"""The kernel lowers what texts come to: what they do not come to costs nothing, and what cannot be lowered is an error where it is met."""

from __future__ import annotations

import pickle
import time
from contextlib import suppress
from itertools import pairwise, product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import BYTES, STOP, Engine, accepts, mask_of, matcher, one_rule, prepare
from support.generators import Features
from support.strategies import grammars, vocabularies

from stackmask.pda.exceptions import GrammarError, LimitError, UnsatisfiableError
from stackmask.pda.grammar import CALL, JSON, NEVER, TOKENS, Grammar, GrammarBuilder, NodeId, RuleId


def large(b: GrammarBuilder) -> NodeId:
    """`0`, by an automaton of many states, which are made all at once."""
    return b.graph(2000, (0, 2, b.literal(b"0"), *(number for state in range(2, 1999) for number in (state, state + 1, -1)), 1999, 1, -1))


def small_or_large(b: GrammarBuilder) -> Grammar:
    """A list of small things, and of one that takes many states."""
    item = b.rule("item")
    b.define(item, b.alt(b.literal(b"s(...)"), b.seq(b.literal(b"l("), large(b))))
    return one_rule(b, b.repeat(b.seq(b.call(item), b.literal(b";"))))


def test_only_what_is_met_is_lowered(kernel: Engine) -> None:
    """A thousand rules cost no states before a text comes to them, and then those that it comes to."""
    b = GrammarBuilder()
    tools = []
    for number in range(1000):
        rule = b.rule(f"tool {number}")
        b.define(rule, b.seq(b.repeat(b.chars((0x61, 0x7A), JSON), 3, 300), b.except_words(["ab", "b"], JSON), b.literal(b"}")))
        tools.append(b.seq(b.literal(b"%03d{" % number), b.call(rule)))
    grammar = prepare(kernel, one_rule(b, b.seq(b.literal(b"<"), b.alt(*tools), b.literal(b">"))))
    assert grammar.statistics["nfa_states"] < 50
    at = kernel.Matcher(grammar, [STOP])
    assert at.accept_bytes(b"<417{abcdef")
    assert grammar.statistics["nfa_states"] < 10_000
    assert at.shortest_completion() == b"}>"
    assert at.accept_bytes(b"}>")
    assert at.is_completed()


def test_a_limit_that_is_met_on_the_way(kernel: Engine) -> None:
    """A limit on states that a text comes to is an error that leaves everything as it was, however often, and other texts go on."""
    b = GrammarBuilder()
    grammar = prepare(kernel, small_or_large(b), states=1000)
    at = kernel.Matcher(grammar, [STOP])
    assert at.accept_bytes(b"s(...);")
    before = mask_of(at, len(BYTES))
    for _ in range(3):
        with pytest.raises(LimitError) as caught:
            at.accept_bytes(b"l(0")
        assert caught.value.limit == "states"
        assert at.num_accepted == 1
        assert mask_of(at, len(BYTES)) == before
        assert at.accept_token(ord("l"))
        with pytest.raises(LimitError):
            at.accept_token(ord("("))
        assert at.num_accepted == 2
        at.rollback(1)
        assert at.shortest_completion() == b""
        assert at.accept_bytes(b"s(...")
        with pytest.raises(LimitError):
            at.shortest_completion()  # which lowers it all
        assert mask_of(at, len(BYTES)) == [ord(")")]
        at.rollback(1)
    at.rollback(1)
    assert at.fork().accept_bytes(b"s(...);s(...);")
    assert mask_of(at, len(BYTES)) == [ord("l"), ord("s"), STOP]


@pytest.mark.parametrize("order", range(4))
def test_rules_of_what_failed_are_made_anew(kernel: Engine, order: int) -> None:
    """What a part calls that cannot be lowered is no rule yet, nor another's number: other parts that call the same come to it."""
    b = GrammarBuilder()
    words = [b"one", b"two", b"three"]
    rules = [b.rule(word.decode()) for word in words]
    for rule, word in zip(rules, words, strict=True):
        b.define(rule, b.seq(b.literal(word), b.optional(b.seq(b.literal(b"("), b.call(rule), b.literal(b")")))))
    calls = [b.call(rule) for rule in rules]
    failing, working = b.rule("failing"), b.rule("working")
    ways = [calls[0], large(b), b.alt(*calls[1:])]
    b.define(failing, b.alt(b.literal(b"l(...)"), b.seq(b.literal(b"l("), b.alt(*ways[order % 3 :], *ways[: order % 3]))))
    others = calls[::-1] if order % 2 else calls
    b.define(working, b.alt(b.literal(b"w(...)"), b.seq(b.literal(b"w("), b.alt(*others))))
    grammar = one_rule(b, b.repeat(b.seq(b.alt(b.call(failing), b.call(working)), b.literal(b";"))))
    rich, poor = matcher(kernel, grammar), kernel.Matcher(prepare(kernel, grammar, states=1000), [STOP])
    for _ in range(2):
        with pytest.raises(LimitError):
            poor.accept_bytes(b"l(o")
    for at in (rich, poor):
        for text in (b"w(three(three);", b"w(one;", b"w(two(two(two));"):
            assert at.accept_bytes(text)
    text = b"w(two(two(two));"
    for place in range(len(text)):
        assert poor.next_bytes(text[:place]) == rich.next_bytes(text[:place])
        assert poor.rule_names(text[:place]) == rich.rule_names(text[:place])


@pytest.mark.parametrize("names", [(), ("first",), ("first", "second")])
def test_rules_that_are_not_defined(kernel: Engine, names: tuple[str, ...]) -> None:
    """A rule that is no node is named in the error, or numbered where it has no name."""
    for rules in ((3, 0, 0), (0, 3, 0), (0, -1, 0), (0, 0, 3)):
        wrong = next(index for index, node in enumerate(rules) if node)
        name = names[wrong] if wrong < len(names) else str(wrong)
        with pytest.raises(GrammarError, match=f"rule {name} is not defined"):
            prepare(kernel, Grammar(nodes=((2, b"a"),), rules=rules, names=names, root=0))


def test_masks_after_an_error_are_those_before(kernel: Engine) -> None:
    """Masks whose making a limit ended are made again, and nothing of the first attempt stays in others."""
    tokens: list[bytes | None] = [*(bytes((byte,)) for byte in range(256)), b"s(", b"l(0", b"s(...);l(", b"...);s", b";l(00", None]
    b = GrammarBuilder()
    source = small_or_large(b)
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

    for place, before in product((outside, inside_of_another, in_counts_of_counts), (b"", b"begin")):
        b = GrammarBuilder()
        node = place(b, b.distinct(b.bytes((0x30, 0x39))))
        with pytest.raises(GrammarError, match="DISTINCT"):
            prepare(kernel, one_rule(b, b.alt(b.literal(b"x"), b.seq(b.literal(before), node))))


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


def copied(grammar: Grammar) -> Grammar:
    """The same grammar, none of whose nodes is the same object."""
    return pickle.loads(pickle.dumps(grammar))  # type: ignore[no-any-return]


def tools(b: GrammarBuilder, names: list[str]) -> list[NodeId]:
    """Rules that take some hundred nodes, and calls of them."""
    calls = []
    for name in names:
        rule = b.rule(name)
        pairs = b.seq(*(b.literal(f"{name}{number}=".encode()) for number in range(20)), b.except_words([name, "ab"], JSON))
        b.define(rule, b.seq(pairs, b.literal(b"\n"), b.temperature(b.literal(name.encode()), len(name) / 10)))
        calls.append(b.call(rule))
    return calls


def test_grammars_that_go_on_from_each_other(kernel: Engine) -> None:
    """A grammar that begins with the nodes of the last one, whatever has changed behind them, is what it is by itself."""
    tokens: list[bytes | None] = [*BYTES[:256], b"t1", b"=t", None, None]
    trie = kernel.TokenTrie(tokens, len(tokens))
    shorter = kernel.TokenTrie(tokens[:-1], len(tokens) - 1)

    def check(grammar: Grammar) -> None:
        assert trace_of(grammar) == trace_of(copied(grammar))
        assert trace_of(grammar) == trace_of(copied(grammar))

    def trace_of(grammar: Grammar) -> list[Any]:
        random = Random(1)
        made = kernel.KernelGrammar(trie, grammar, states=100_000, stack_depth=1000, memory=1 << 26, seconds=10)
        at = kernel.Matcher(made, [len(tokens) - 1])
        found: list[Any] = []
        for _ in range(60):
            allowed = at.allowed_tokens()
            found.append((allowed, at.temperature, at.rule_names()))
            if at.is_terminated() or not at.accept_token(random.choice(allowed)):
                break
        return found

    b = GrammarBuilder()
    calls = tools(b, [f"t{number}" for number in range(30)])
    later = b.rule("later")
    b.define(later, b.literal(b"x"))
    root = b.rule("root")
    b.define(root, b.alt(*calls, b.call(later)))
    first = b.build(root)
    assert len(first.nodes) > 600
    check(first)
    more = tools(b, ["u", "v"])
    root = b.rule("root")
    b.define(root, b.alt(*calls[1:], *more, b.call(later)))
    check(b.build(root))
    b.define(later, b.never())  # a rule of those before
    check(b.build(root))
    b.define(later, b.empty())
    check(b.build(root))
    b.define(root, b.alt(calls[0], b.tokens((len(tokens) - 2,))))
    longer = b.build(root)
    check(longer)
    trace_of(longer)
    beyond = Grammar((*longer.nodes, (TOKENS, (len(tokens) - 1,), 0)), longer.rules, longer.names, longer.root)
    with pytest.raises(ValueError, match="vocabulary"):
        kernel.KernelGrammar(shorter, beyond, states=10**5, stack_depth=1000, memory=1 << 26, seconds=10)
    bodies = tuple(NodeId(min(body, 599)) for body in first.rules)
    check(Grammar(longer.nodes[:600], bodies, first.names, RuleId(len(bodies) - 1)))
    trace_of(first)
    broken = Grammar((*first.nodes, (CALL, len(first.rules))), first.rules, first.names, first.root)
    with pytest.raises(GrammarError):
        trace_of(broken)
    with pytest.raises(GrammarError):
        trace_of(Grammar(first.nodes, first.rules[:10], first.names[:10], RuleId(0)))  # calls of rules that are gone
    for _ in range(2):
        with pytest.raises(UnsatisfiableError):
            trace_of(
                Grammar(
                    (*first.nodes, (NEVER,)), (*first.rules, NodeId(len(first.nodes))), (*first.names, "never"), RuleId(len(first.rules))
                )
            )
        check(first)


def test_grammars_that_part_behind_their_first_nodes(kernel: Engine) -> None:
    """A grammar that shares hundreds of nodes with the last one reads its own texts behind them, and its rule has its own name."""
    shared = GrammarBuilder()
    for code in range(0x100, 0x100 + 600):
        shared.chars((code, code))
    trie = kernel.TokenTrie(list(BYTES), len(BYTES))
    for name, end in (("first", None), ("second", b"y"), ("third", None)):
        b = GrammarBuilder(list(shared.nodes), dict(shared.index))
        root = b.rule(name)
        b.define(root, b.alt(b.never() if end is None else b.literal(end), b.literal(b"x")))
        made = kernel.KernelGrammar(trie, b.build(root), states=10_000, stack_depth=1000, memory=1 << 26, seconds=10)
        at = kernel.Matcher(made, [STOP])
        assert at.allowed_tokens() == [ord("x")] + ([] if end is None else [ord(end)])
        assert at.rule_names() == [name]


@pytest.mark.parametrize("more", ["chars", "call", "sequence", "others"])
def test_a_state_that_reads_a_byte_and_something_larger(engine: Engine, more: str) -> None:
    """A state of a graph, where one edge reads one byte, reads what its other edge does, too, which is lowered later."""
    b = GrammarBuilder()
    rule = b.rule("more")
    b.define(rule, b.literal(b"yz"))
    ways = {
        "chars": (b.chars((0x79, 0x7A)), b"z"),
        "call": (b.call(rule), b"yz"),
        "sequence": (b.seq(b.literal(b"y"), b.optional(b.literal(b"z"))), b"y"),
        "others": (b.except_words(["x", "1", ""]), b"zyx"),
    }
    node, text = ways[more]
    start = matcher(engine, one_rule(b, b.graph(3, (0, 2, b.literal(b"x"), 2, 1, b.literal(b"1"), 2, 1, node))))
    at = start.fork()
    assert at.accept_token(ord("x"))
    for end in (b"1", text):
        assert accepts(start, b"x" + end)
        assert end[0] in at.allowed_tokens()
        assert accepts(at, end)


def test_large_automata_piece_by_piece(engine: Engine) -> None:
    """The states of a large automaton say what they do when they are lowered alone, whether some lead nowhere or not."""
    count = 60
    lines = [((97, 97, (state + 1) % count), (98, 98, state), (0xE9, 0xFF, (state * 7) % count)) for state in range(count)]
    accepting = [state % 5 == 0 for state in range(count)]
    for dead in (False, True):
        transitions = (*lines[:20], (*lines[20][:2], (99, 99, count), lines[20][2]), *lines[21:], ()) if dead else (*lines, ())
        b = GrammarBuilder()
        node = b.automaton(transitions if dead else transitions[:-1], (*accepting, False) if dead else tuple(accepting), JSON)
        at = matcher(engine, one_rule(b, b.seq(node, b.literal(b"."))))
        state, random = 0, Random(2)
        for _ in range(100):
            wanted = {97, 98, 0xC3} | ({46} if accepting[state] else set())
            assert set(at.allowed_tokens()) == wanted
            letter = random.choice("abéÿ")
            assert at.accept_bytes(letter.encode())
            state = {"a": (state + 1) % count, "b": state}.get(letter, (state * 7) % count)


@pytest.mark.parametrize("counted", [False, True])
def test_words_among_alternatives_share_their_beginnings(engine: Engine, counted: bool) -> None:
    """Words that begin alike, end inside of others, are long or not ASCII, beside an alternative that is no word; alone and counted."""
    words = [b"a", b"ab", b"ab" * 200, b"ab" * 200 + b"c", b"\xc3\xa9", b"\xc3\xa8t", "日本語".encode(), b"b" + b"x" * 300, b"zoo"]
    b = GrammarBuilder()
    node = b.alt(*(b.literal(word) for word in (*words, b"")), b.seq(b.literal(b"ab"), b.chars((0x30, 0x39), JSON)), b.literal(b"zo"))
    texts = {*words, b"", b"zo", *(b"ab%d" % digit for digit in range(10))}
    if counted:
        node = b.repeat(b.seq(node, b.literal(b";")), 20, 40)
    start = matcher(engine, one_rule(b, node))
    if counted:
        assert start.accept_bytes(b"ab;" * 25)
    for text in (*texts, b"ac", b"ab" * 100, b"b" + b"x" * 299, b"\xc3", b"z"):
        at = start.fork()
        following = {other[len(text)] for other in texts if other.startswith(text) and len(other) > len(text)}
        assert at.accept_bytes(text) == (text in texts or bool(following)), text
        if text in texts or following:
            ends = ({ord(";")} if counted else {STOP}) if text in texts else set()
            assert set(at.allowed_tokens()) == following | ends | ({STOP} if counted and not text else set()), text


def test_states_of_long_choices_are_made_where_texts_come(kernel: Engine) -> None:
    """Of words that are long, and of words that are many, a text costs the states on its own way alone."""
    random = Random(0)
    words = [bytes(random.choices(b"abcdefgh", k=20_000)) for _ in range(100)] + [b"%05d" % number for number in range(10_000)]
    b = GrammarBuilder()
    grammar = prepare(kernel, one_rule(b, b.seq(b.alt(*map(b.literal, words)), b.literal(b"." * 5000))))
    at = kernel.Matcher(grammar, [STOP])
    assert at.accept_bytes(b"01234")
    assert at.allowed_tokens() == [ord(".")]
    assert grammar.statistics["nfa_states"] < 6_000
    other = kernel.Matcher(grammar, [STOP])
    assert other.accept_bytes(words[7][:1000])
    assert other.allowed_tokens() == [words[7][1000]]
    assert grammar.statistics["nfa_states"] < 12_000


def optionals(count: int, shape: str) -> Grammar:
    """Numbered rules that may be empty, or that something optional follows: in rows, counted or nested, and in a loop."""
    b = GrammarBuilder()
    calls: list[NodeId] = []
    for number in range(count):
        rule = b.rule(f"r{number}")
        letters = [b.literal(b"abc"[number % 3 : number % 3 + 1]), b.literal(b"d%d" % number)]
        b.define(rule, b.alt(b.literal(b"e" if shape == "loop" else b""), b.seq(b.alt(*letters), b.call(rule))))
        calls.append(b.call(rule))
    dash, close = b.optional(b.literal(b"-")), b.literal(b")")
    if shape == "nested":
        node = b.literal(b"")
        for number, call in enumerate(calls):
            rule = b.rule(f"t{number}")
            b.define(rule, b.alt(b.seq(call, node), b.literal(b"")))
            node = b.call(rule)
        return one_rule(b, b.seq(b.literal(b"("), node, close))
    if shape == "loop":
        ways = [b.seq(call, b.optional(b.literal(b"<%d>" % (number % 7)))) for number, call in enumerate(calls)]
        return one_rule(b, b.seq(b.literal(b"("), b.repeat(b.alt(*ways, b.literal(b"-"))), close))
    parts = [
        [call] if number % 5 else [b.optional(b.seq(b.literal(b"<"), call, b.literal(b">"))), dash] for number, call in enumerate(calls)
    ]
    node = b.seq(b.literal(b"("), *(node for part in parts for node in part), close)
    return one_rule(b, b.repeat(node, 2, 60) if shape == "counted" else node)


@pytest.mark.parametrize("shape", ["row", "counted", "nested", "loop"])
@pytest.mark.parametrize("count", [33, 90])
def test_rows_of_rules_that_may_be_empty(kernel: Engine, reference: Engine, count: int, shape: str) -> None:
    """Rows of calls become rules, and the masks are those of the reference engine."""
    tokens = [*BYTES[:256], b"ab", b"d1", b"2b", b"<a>", b"><", b"a)(", b"(a-", b"--", b"e<", b"e<2>a", None]
    grammar = optionals(count, shape)
    for seed in range(4):
        random = Random(seed)
        made = [matcher(engine, grammar, tokens, [len(tokens) - 1]) for engine in (kernel, reference)]
        for _ in range(12):
            masks = [mask_of(at, len(tokens)) for at in made]
            assert masks[0] == masks[1]
            token = random.choice([token for token in masks[0] if token < len(tokens) - 1] or [len(tokens) - 1])
            assert [at.accept_token(token) for at in made] == [True, True]
            if made[0].is_terminated():
                break


@pytest.mark.parametrize(("shape", "text"), [("row", b"(ab"), ("counted", b"(ab"), ("nested", b"(ab"), ("loop", b"(ae")])
def test_rows_of_rules_take_work_that_grows_with_them(kernel: Engine, shape: str, text: bytes) -> None:
    """What may follow a call in a row is not listed anew behind each."""

    def work(count: int) -> int:
        grammar = prepare(kernel, optionals(count, shape))
        at = kernel.Matcher(grammar, [STOP])
        for byte in text:
            mask_of(at, len(BYTES))
            assert at.accept_token(byte)
        mask_of(at, len(BYTES))
        spent: int = grammar.statistics["work"]
        return spent

    assert work(800) < 6 * work(200)


def test_left_recursive_rules_that_nothing_else_calls(engine: Engine) -> None:
    """Rules that call each other before anything is read take states linear in their number, where only one of them is called elsewhere."""
    count = 1500 if engine.__name__.endswith("_kernel") else 40
    b = GrammarBuilder()
    rules = [b.rule(f"r{number}") for number in range(count)]
    for number, rule in enumerate(rules):
        b.define(
            rule, b.alt(b.call(rules[(number + 1) % count]), b.seq(b.call(rules[number * 7 % count]), b.literal(b"b")), b.literal(b"a"))
        )
    grammar = prepare(engine, b.build(rules[0]))
    at = engine.Matcher(grammar, [STOP])
    assert at.allowed_tokens() == [ord("a")]
    assert at.accept_bytes(b"ab")
    assert at.allowed_tokens() == [ord("b"), STOP]
    assert getattr(grammar, "statistics", {}).get("nfa_states", 0) < 30 * count


def test_left_recursive_rules_that_are_called_elsewhere(engine: Engine) -> None:
    """Of rules that call each other first, those that stand behind a bracket too, and those called from outside, are read alone."""
    b = GrammarBuilder()
    root, x, y, z = (b.rule(name) for name in ("root", "x", "y", "z"))
    b.define(root, b.alt(b.seq(b.literal(b"<"), b.call(x), b.literal(b">")), b.seq(b.literal(b"["), b.call(y), b.literal(b"]"))))
    b.define(x, b.alt(b.seq(b.call(y), b.literal(b"1")), b.literal(b"x")))
    b.define(y, b.alt(b.seq(b.call(z), b.literal(b"2")), b.literal(b"y"), b.seq(b.literal(b"("), b.call(z), b.literal(b")"))))
    b.define(z, b.alt(b.seq(b.call(x), b.literal(b"3")), b.literal(b"z")))
    start = matcher(engine, b.build(root))
    right = ["<x>", "<y1>", "<z21>", "<x321>", "<x321321>", "[y]", "[z2]", "[x32]", "[(z)]", "[(x3)]", "<(x3)1>", "[(y13)]", "<((z)13)1>"]
    for text in right:
        assert accepts(start, text.encode()), text
    for text in ["<z>", "<y>", "[x]", "[z]", "[(x)]", "[(y)]", "<(x3)>", "<z2>", "[(z]", "<x3>", "[(z)3]"]:
        assert not accepts(start, text.encode()), text


def searched(b: GrammarBuilder, shared: str, ends: list[str], separator: bytes) -> Grammar:
    """One string behind the other that each contain a text, which all begin alike."""
    first, characters = b.literal(shared.encode()), b.chars((32, 33, 35, 0x10FFFF))
    loop = b.repeat(characters, 0, -1)
    strings = [b.seq(b.literal(b'"'), loop, first, b.literal(end.encode()), loop, b.literal(b'"')) for end in ends]
    return one_rule(b, b.seq(*(part for string in strings for part in (string, b.literal(separator)))))


@pytest.mark.parametrize(("most", "inlined"), [(256, True), (0, False), (19, False)])
def test_what_patterns_share_behind_a_loop_is_a_part_of_them(kernel: Engine, reference: Engine, most: int, inlined: bool) -> None:
    """Two patterns that are searched for and share 20 characters: the classes before them are taken as a whole, which a call prevents."""
    shared = "/api/v1/users/shared"
    grammar = searched(GrammarBuilder(), shared, ["one", "two"], b",")
    words = [word.encode() for word in ("/api", "/v1", "/users", "/shared", "one", 'two"', "on", '",', '","', " an", "y é", "té")]
    tokens: list[bytes | None] = [*BYTES[:256], *words, b"x" * 30, None]
    prepared = prepare(kernel, grammar, tokens, thresholds={"inlined_behind_loop": most})
    at = kernel.Matcher(prepared, [len(tokens) - 1])
    slow = matcher(reference, grammar, tokens, (len(tokens) - 1,))
    for byte in f'"see {shared}, {shared}one","{shared}two"'.encode():
        assert mask_of(at, len(tokens)) == mask_of(slow, len(tokens))
        assert at.accept_token(byte) and slow.accept_token(byte)
    assert (prepared.statistics["lasting"] > 0) is inlined


def test_what_many_patterns_share_is_a_rule(kernel: Engine) -> None:
    """Copies behind loops are bounded: the shared text of 400 patterns has 250 characters, of which 100,000 states would come."""
    b = GrammarBuilder()
    grammar = searched(b, "s" * 250, [f"{number:03}" for number in range(400)], b"")
    prepared = prepare(kernel, grammar)
    at = kernel.Matcher(prepared, [STOP])
    assert at.accept_bytes(b'"' + b"s" * 250 + b'000""')
    mask_of(at, len(BYTES))
    assert prepared.statistics["nfa_states"] < 10_000
