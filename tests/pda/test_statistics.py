"""What the kernel counts while it works: that nothing is built twice, and that the strategies that are only faster do run."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random
from typing import Any

import pytest
from support.engines import BYTES, STOP, Engine, accepts, one_rule, prepare

from stackmask.pda.grammar import JSON, GrammarBuilder
from stackmask.pda.lark import lark_grammar
from stackmask.pda.regex import regex_grammar
from stackmask.schema.json_schema import json_schema_grammar

WORDS = (*BYTES, *(bytes(word) for size in (2, 3) for word in product(b'abcdefgh ",.1', repeat=size)))


def texts(engine: Engine, prepared: Any, seed: int, tokens: int) -> None:
    """Random tokens from the beginning, with all masks on the way."""
    random, at = Random(seed), engine.Matcher(prepared, [STOP])
    for _ in range(tokens):
        allowed = at.allowed_tokens()
        token = random.choice([token for token in allowed if token < 256] or allowed)
        if token == STOP:
            return
        assert at.accept_token(token)


def built(prepared: Any) -> dict[str, int]:
    """The counts but those of work, which reading what is there takes, too."""
    return {name: count for name, count in prepared.statistics.items() if "work" not in name}


def test_nothing_is_counted_at_first(kernel: Engine) -> None:
    """A grammar that has no matcher yet has sizes and work, and has run no strategy."""
    b = GrammarBuilder()
    prepared = prepare(kernel, one_rule(b, b.repeat(b.bytes((0x61, 0x7A)))))
    sizes = {"configurations", "dfa_states", "nfa_states", "rules", "work"}
    assert {name: count for name, count in prepared.statistics.items() if count and name not in sizes} == {}


@pytest.mark.parametrize("shape", ["nested", "unique"])
def test_nothing_is_built_twice(kernel: Engine, shape: str) -> None:
    """Texts that come a second time find all frames, configurations, parts and masks that they need."""
    if shape == "unique":
        item: Any = {"type": "array", "items": {"enum": [*range(30), "a", "b", "ab", "abc"]}, "uniqueItems": True}
    else:
        item = {"type": "object", "properties": {f"key{i}": {"enum": [f"v{j}{i}" for j in range(40)]} for i in range(20)}}
        item = {"anyOf": [item, {"type": "array", "items": {"$ref": "#/$defs/item"}}]}
    grammar = json_schema_grammar({"$defs": {"item": item}, "type": "array", "items": {"$ref": "#/$defs/item"}}, whitespace="compact")[0]
    prepared = prepare(kernel, grammar)
    for _ in range(2):
        for seed in range(30):
            texts(kernel, prepared, seed, 150)
        counts, memory = built(prepared), prepared.memory
    assert counts["dfa_states"] + counts["configurations"] > 100
    for seed in range(30):
        texts(kernel, prepared, seed, 150)
    assert built(prepared) == counts
    assert prepared.memory == memory


@pytest.mark.parametrize(("length", "rules"), [(2, 1), (20, 2)])
def test_what_is_small_is_no_rule(kernel: Engine, length: int, rules: int) -> None:
    """A graph that stands in two places is a rule where the texts on its edges are long, and a part of both places where they are short."""
    b = GrammarBuilder()
    long = b.alt(*(b.literal(bytes([letter]) * 40) for letter in b"uvwxyz"))  # the first nodes of the grammar
    texts = [b.literal(bytes([letter]) * length) for letter in b"abcd"]
    graph = b.graph(4, (0, 2, texts[0], 2, 3, texts[1], 3, 2, texts[2], 3, 1, texts[3]))
    prepared = prepare(kernel, one_rule(b, b.seq(long, graph, b.literal(b"-"), graph)))
    at = kernel.Matcher(prepared, [STOP])
    once = b"".join(bytes([letter]) * length for letter in b"abcbd")
    assert accepts(at, b"z" * 40 + once + b"-" + once)
    assert prepared.statistics["rules"] == rules


def test_a_string_is_not_walked(kernel: Engine) -> None:
    """Inside a string its characters are told by their classes: a mask looks at few nodes of the trie, each time at none that are new."""
    b = GrammarBuilder()
    string = b.seq(b.literal(b'"'), b.repeat(b.chars((0, 0x10FFFF), JSON)), b.literal(b'"'))
    prepared = prepare(kernel, one_rule(b, string), WORDS)
    at = kernel.Matcher(prepared, [STOP])
    assert at.accept_bytes(b'"')
    assert len(at.allowed_tokens()) > 1500
    counts = built(prepared)
    assert counts["loops"] > 0 and counts["loop_fallbacks"] == 0
    assert counts["walked_nodes"] < 100
    assert at.accept_bytes(b"abc d")
    assert len(at.allowed_tokens()) > 1500
    assert built(prepared) == counts | {"masks": prepared.statistics["masks"]}


def test_a_run_of_blanks_is_not_read_count_by_count(kernel: Engine) -> None:
    """A bounded run of single bytes is taken as one, whatever the count: no frame is made for each."""
    b = GrammarBuilder()
    run = b.repeat(b.bytes((9, 10, 13, 13, 32, 32)), 0, 40)
    prepared = prepare(kernel, one_rule(b, b.seq(b.literal(b"<"), run, b.literal(b">"))), (*WORDS, b" " * 60))
    at = kernel.Matcher(prepared, [STOP])
    assert at.accept_bytes(b"<")
    allowed = at.allowed_tokens()
    counts = prepared.statistics
    assert counts["byte_runs"] + counts["set_runs"] + counts["node_runs"] > 0
    assert counts["dfa_states"] < 10
    assert allowed == [token for token in range(len(WORDS) + 1) if at.fork().accept_token(token)]


@pytest.mark.parametrize("escape", [r"u[0-9a-f]{4}", r"u[0-9a-f][0-9a-f][0-9a-f][0-9a-f]", r"[A-Za-z0-9_]{3}"])
def test_short_classes_inside_of_counted_text_are_no_rule(kernel: Engine, escape: str) -> None:
    """ASCII classes take a state each, so a few of them in a counted body are unrolled: no text is handed to a rule and back."""
    prepared = prepare(kernel, regex_grammar(rf'"(?:[^"\\]|\\{escape}){{67,201}}"'), WORDS)
    at = kernel.Matcher(prepared, [STOP])
    assert at.accept_bytes(b'"')
    assert at.allowed_tokens()
    assert prepared.statistics["leaving_chains"] == 0


@pytest.mark.parametrize("ignored", ['%ignore " "', ""])
def test_words_in_terminals_share_their_states(kernel: Engine, ignored: str) -> None:
    """Terminals that are words are a trie, too, behind what is ignored: a state of the lexer does not hold them all."""
    names = ["".join(word) for word in product("abcdefgh", repeat=3)]
    terminals = "\n".join(f'T{number}: "{name}"' for number, name in enumerate(names))
    choice = " | ".join(f"T{number}" for number in range(len(names)))
    grammar = lark_grammar(f"start: ({choice} | NAME)+\nNAME: /[a-h]+/\n{terminals}\n{ignored}")
    prepared = prepare(kernel, grammar, WORDS)
    at = kernel.Matcher(prepared, [STOP])
    assert at.accept_bytes(b"abcde")
    assert at.allowed_tokens() == [token for token in range(len(WORDS)) if at.fork().accept_token(token)]
    assert prepared.statistics["largest_work"] < 100_000  # 4,139,571 and 414,379 with a state for each word


def test_objects_of_a_union_differ_from_the_others_by_few_bytes(kernel: Engine) -> None:
    """A key may be any but an object's own; where several objects are open, a state inside of a key is stored by its differences, too."""
    own = ["".join(letters) for letters in product("abcdefgh", repeat=2)]
    branches = [{"properties": {name: {"type": "integer"} for name in own[n::8]}, "required": own[n : n + 1]} for n in range(8)]
    schema = {"anyOf": [{"type": "object", **branch} for branch in branches]}
    prepared = prepare(kernel, json_schema_grammar(schema, property_order="any", whitespace="compact")[0], WORDS)
    at = kernel.Matcher(prepared, [STOP])
    assert at.accept_bytes(b'{"ab":1,"')
    assert at.allowed_tokens() == [token for token in range(len(WORDS)) if at.fork().accept_token(token)]
    assert prepared.statistics["delta_states"] > 60  # 17 and 36,715 where one object alone is stored so
    assert prepared.statistics["largest_work"] < 25_000


def test_states_of_many_items(kernel: Engine) -> None:
    """Keys that ask for others, in any order, are so many permutations that a state has a thousand items: masks and texts stay right."""
    keys = ["".join(letters) for letters in product("abcdefg", repeat=2)][:45]
    asks = {key: [other] for key, other in pairwise(keys)}
    schema = {"properties": {key: {"type": "integer"} for key in keys}, "dependentRequired": asks, "additionalProperties": False}
    prepared = prepare(kernel, json_schema_grammar({"type": "object", **schema}, property_order="any", whitespace="compact")[0], WORDS)
    start = kernel.Matcher(prepared, [STOP])
    for text in ('{"', '{"a', f'{{"{keys[-1]}":1,"', f'{{"{keys[-1]}":1,"{keys[-2]}":2,"', f'{{"{keys[-2]}":1,"{keys[-1][0]}'):
        at = start.fork()
        assert at.accept_bytes(text.encode())
        assert at.allowed_tokens() == [token for token in range(len(WORDS)) if at.fork().accept_token(token)]
    for order in (keys[::-1], keys, [*keys[1:], keys[0]], keys[20:]):
        at, text = start.fork(), ",".join(f'"{key}":1' for key in order)
        assert at.accept_bytes(f"{{{text}}}".encode())
        assert start.fork().accept_bytes(f'{{"{order[0]}":1}}'.encode()) is (order[0] == keys[-1])


def test_values_of_an_enum_share_what_they_begin_with(kernel: Engine) -> None:
    """Objects of an enum that begin alike are one until they differ: the first mask does not look at each of them."""
    schema = {"enum": [{"id": number, "name": f"n{number}"} for number in range(500)]}
    prepared = prepare(kernel, json_schema_grammar(schema)[0], WORDS)
    at = kernel.Matcher(prepared, [STOP])
    assert at.allowed_tokens() == [ord("{")]
    assert prepared.statistics["nfa_states"] < 100  # 7,392 with a state for each token of each object
    assert at.accept_bytes(b'{"id": 23, "name": "n2')
    assert at.allowed_tokens() == [ord("3")]
    assert at.accept_bytes(b'3"}')


def test_a_loop_that_few_nodes_leave_is_a_chain(kernel: Engine) -> None:
    """States that read the same letters are taken one after the other where few nodes leave them, else by their classes together."""
    grammar, masks = regex_grammar(r'[^"]*"[^"]*"|[^,"]*,a'), []
    for nodes, strategy in ((4096, "chains"), (1, "closed")):
        trie = kernel.TokenTrie(list(WORDS), len(WORDS), thresholds={"loop_exits": nodes})
        prepared = kernel.KernelGrammar(trie, grammar, states=10_000, stack_depth=100, memory=64 << 20, seconds=30)
        masks.append(kernel.Matcher(prepared, [STOP]).allowed_tokens())
        counts = prepared.statistics
        assert {name for name in ("chains", "closed") if counts[name]} == {strategy}
    assert masks[0] == masks[1]


def test_values_without_end_are_not_sought(kernel: Engine) -> None:
    """Of strings, and of what holds one somewhere, there is always one that is new: no mask looks for it."""
    string = {"type": "string"}
    array = {"type": "array", "items": string, "minItems": 1}
    nested = {"anyOf": [array, {"type": "array", "items": {"$ref": "#/$defs/nested"}, "minItems": 1}], "type": "array"}
    for item in (string, array, {"type": "object", "properties": {"a": string}, "required": ["a"]}, nested):
        schema = {"$defs": {"nested": nested}, "type": "array", "items": item, "uniqueItems": True}
        grammar = json_schema_grammar(schema, whitespace="compact")[0]
        prepared = prepare(kernel, grammar, WORDS)
        at = kernel.Matcher(prepared, [STOP])
        value = {"string": b'"%d"', "array": b'["%d"]', "object": b'{"a":"%d"}'}[str(item["type"])]
        for number in range(30):
            for byte in (b"," if number else b"[") + value % number:
                assert at.accept_token(byte)
                at.allowed_tokens()
        assert prepared.statistics["searches"] == 0


def test_values_with_integers_are_not_sought(kernel: Engine) -> None:
    """Of arrays and trees of integers there is always one that is new: few masks look for one, and few tokens are tried."""
    tokens = [*WORDS, *(b"%d" % number for number in range(10, 1000)), b"],[", *(b" " + token for token in WORDS if token)]
    row = {"type": "array", "uniqueItems": True, "items": {"type": "integer"}}
    tree = {
        "type": "object",
        "properties": {"v": {"type": "integer"}, "c": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        "required": ["v"],
        "additionalProperties": False,
    }
    for item, text in ((row, b"[[1,2,33],[4,50],[1,2"), ({"$ref": "#/$defs/tree"}, b'[{"v":1,"c":[{"v":2}]},{"v":1,"c":[')):
        grammar = json_schema_grammar({"$defs": {"tree": tree}, "type": "array", "uniqueItems": True, "items": item})[0]
        prepared = prepare(kernel, grammar, tokens)
        at = kernel.Matcher(prepared, [STOP])
        for byte in text:
            assert at.accept_token(byte)
            at.allowed_tokens()
        assert prepared.statistics["searches"] < 100  # 8,708 where the texts of called rules are not counted
        assert prepared.statistics["largest_work"] < 100_000


def test_values_of_a_counted_pattern_are_not_sought(kernel: Engine) -> None:
    """Of the strings of a counted pattern very many are left, whatever their lengths: no mask looks for one, or tries a token."""
    items = {"type": "string", "pattern": "^[a-z]{1,8}(-[0-9]{1,3})?$"}
    grammar = json_schema_grammar({"type": "array", "items": items, "uniqueItems": True}, whitespace="compact")[0]
    tokens = [*WORDS, b'["', b'","', b"abcdefg", b"abcdefgh"]
    prepared = prepare(kernel, grammar, tokens)
    at = kernel.Matcher(prepared, [STOP])
    for number in range(26):
        for byte in (b'","' if number else b'["') + b"cat%c" % (ord("a") + number):
            assert at.accept_token(byte)
            at.allowed_tokens()
    assert prepared.statistics["unverified"] == 0
    assert prepared.statistics["searches"] == 0


def test_texts_that_are_left_are_counted(kernel: Engine) -> None:
    """Of some words that must differ those left are counted, not sought, until none is."""
    words = [f'"{first}{second}"'.encode() for first in "abcdefgh" for second in "abcd"]
    b = GrammarBuilder()
    value = b.distinct(b.alt(*map(b.literal, words)))
    grammar = one_rule(b, b.scope(b.seq(b.literal(b"["), value, b.repeat(b.seq(b.literal(b","), value)), b.literal(b"]"))))
    prepared = prepare(kernel, grammar, WORDS)
    at = kernel.Matcher(prepared, [STOP])
    for number, word in enumerate(words):
        assert at.accept_bytes((b"," if number else b"[") + word)
        assert (ord(",") in at.allowed_tokens()) == (word != words[-1])
    assert prepared.statistics["counted_texts"] > 0
    assert prepared.statistics["searches"] == 0


def test_nodes_that_a_quote_leads_to_are_taken_together(kernel: Engine) -> None:
    """Behind a quote many nodes of the trie are left at once: they are known as sets, and none is walked by itself."""
    grammar = json_schema_grammar({"type": "object", "properties": {key: {"type": "string"} for key in "abcdef"}})[0]
    prepared = prepare(kernel, grammar, WORDS)
    at = kernel.Matcher(prepared, [STOP])
    for text in (b'{"a":"', b"b", b'c","', b'd":"x'):
        assert at.accept_bytes(text)
        at.allowed_tokens()
    counts = prepared.statistics
    assert counts["walks"] == 0
    assert counts["walked_nodes"] < 100


def test_what_no_matcher_holds_is_dropped_while_it_is_little(kernel: Engine) -> None:
    """Tables never grow so large that one step which drops them takes long, however far the memory is from its limit."""
    grammar = json_schema_grammar({"type": "array", "uniqueItems": True, "items": {"type": "integer"}}, whitespace="compact")[0]
    prepared = prepare(kernel, grammar)
    for text in range(20):
        at = kernel.Matcher(prepared, [STOP])
        for number in range(300):
            assert at.accept_bytes(b",%d" % (10**12 + 7919 * (300 * text + number)) if number else b"[%d" % text)
            assert prepared.statistics["dfa_states"] < 70_000
            assert prepared.statistics["configurations"] < 540_000
    assert prepared.statistics["reclaims"] > 1
