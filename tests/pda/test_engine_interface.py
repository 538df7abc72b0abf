"""What the two engines have in common: their names, their signatures, masking of logits, limits, and how one of them is chosen."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from support.engines import BYTES, STOP, Engine, accepts, matcher, one_rule, prepare

from stackmask import pda
from stackmask.pda.exceptions import GrammarError, LimitError, UnsatisfiableError
from stackmask.pda.grammar import JSON_ANY, Grammar, GrammarBuilder, NodeId, RuleId

METHODS = [name for name in vars(pda.reference.Matcher) if not name.startswith("_")]


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in another interpreter."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **environment})


# the choice


def test_the_reference_engine_is_chosen_by_the_environment(reference: Engine) -> None:
    """STACKMASK_KERNEL=python selects the reference engine, and the kernel is not even loaded."""
    code = "import sys, stackmask.pda.engine as e; print(e.Matcher.__module__, 'stackmask.pda._kernel' in sys.modules)"
    assert run(code, STACKMASK_KERNEL="python").stdout.split() == [reference.Matcher.__module__, "False"]


def test_the_kernel_is_the_default(kernel: Engine) -> None:
    """An empty value means the kernel."""
    code = "import stackmask.pda.engine as e; from stackmask.pda import _kernel; print(e.Matcher is _kernel.Matcher)"
    assert run(code, STACKMASK_KERNEL="").stdout.split() == ["True"]


@pytest.mark.parametrize("value", ["native", "Python", "foo", "1"])
def test_another_engine_is_an_error(value: str) -> None:
    """A value that names no engine is never taken for the kernel."""
    done = run("import stackmask", STACKMASK_KERNEL=value)
    assert done.returncode == 1
    assert f"STACKMASK_KERNEL is {value!r}; it can be 'python'" in done.stderr


def test_a_package_without_a_kernel_warns_once() -> None:
    """Where the package was installed without a kernel, the reference engine is taken, with one warning."""
    code = """
import importlib.metadata, sys, warnings
sys.modules["stackmask.pda._kernel"] = None
importlib.metadata.distribution = lambda name: type("Pure", (), {"read_text": lambda self, file: "Root-Is-Purelib: true\\n"})()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import stackmask, stackmask.pda.engine as e
print(e.Matcher.__module__, [warning.category.__name__ for warning in caught])
"""
    done = run(code, STACKMASK_KERNEL="")
    assert done.stdout.split() == ["stackmask.pda.reference.matcher", "['StackmaskWarning']"], done.stderr


def test_a_missing_kernel_is_an_error() -> None:
    """Without a kernel there is no silent fallback: the error says how to build one, and how to do without."""
    code = "import sys; sys.modules['stackmask.pda._kernel'] = None; import stackmask.pda.engine"
    done = run(code, STACKMASK_KERNEL="")
    assert done.returncode == 1
    assert "ImportError: the compiled kernel" in done.stderr
    assert "pip install" in done.stderr
    assert "STACKMASK_KERNEL=python" in done.stderr


# the interface


def test_names(kernel: Engine, reference: Engine) -> None:
    """The kernel has the names of the reference engine and no others, and whichever is chosen has them all."""
    assert reference.__all__ == sorted(reference.__all__)
    assert [name for name in sorted(vars(kernel)) if not name.startswith("_")] == reference.__all__
    assert set(reference.__all__) <= vars(pda.engine).keys()


@pytest.mark.parametrize("name", METHODS)
def test_methods(kernel: Engine, reference: Engine, name: str) -> None:
    """Matchers have the same methods, taking the same arguments by the same names."""
    theirs, ours = getattr(kernel.Matcher, name), getattr(reference.Matcher, name)
    if isinstance(ours, property):
        assert not callable(theirs)
        return
    signature = str(theirs.__nb_signature__[0][0])
    for parameter in list(inspect.signature(ours).parameters)[1:]:
        assert f"{parameter}:" in signature, signature


# logits


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("width", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("rows", [None, [2, 0], []])
def test_mask_logits(engine: Engine, bits: int, width: int, rows: list[int] | None) -> None:
    """Where the bit is 0, or where there is none, the logit becomes `forbidden`; no other is touched, whatever it is."""
    random = np.random.default_rng(0)
    kind = np.dtype(f"i{bits // 8}")
    logits = random.integers(np.iinfo(kind).min, np.iinfo(kind).max, (3, width), dtype=kind, endpoint=True)
    for words in (max(width // 32, 1), (width + 31) // 32, (width + 31) // 32 + 2):
        bitmask = random.integers(-(1 << 31), (1 << 31) - 1, (3, words), dtype=np.int32, endpoint=True)
        forbidden = {16: 0xFF80, 32: 0xFF800000, 64: 0xFFF0000000000000}[bits]
        expected = logits.copy()
        for row in range(3) if rows is None else rows:
            for column in range(width):
                if column >= words * 32 or not int(bitmask[row, column // 32]) >> column % 32 & 1:
                    expected[row, column] = np.array(forbidden, f"u{bits // 8}").view(kind)
        masked = logits.copy()
        engine.mask_logits(masked, bitmask, forbidden, rows)
        assert np.array_equal(masked, expected)


def test_mask_logits_of_one_column(engine: Engine) -> None:
    """One column lies beside no other, so that its stride does not matter."""
    logits, bitmask = np.zeros((2, 2), np.int32)[:, ::2], np.array([[1, 0], [0, 1]], np.int32)[:, ::2]
    engine.mask_logits(logits, bitmask, 7, None)
    assert logits.tolist() == [[0], [7]]


def test_mask_logits_checks_rows(engine: Engine) -> None:
    """Different numbers of rows, or a row that is not there, are errors."""
    logits, bitmask = np.zeros((3, 40), np.int32), np.zeros((2, 2), np.int32)
    with pytest.raises(ValueError, match="rows"):
        engine.mask_logits(logits, bitmask, 0)
    with pytest.raises(IndexError):
        engine.mask_logits(logits, bitmask, 0, [2])


@pytest.mark.parametrize("width", [1, 31, 32, 33, 100, 300, 5000])
@pytest.mark.parametrize("rows", [None, [2, 0], []])
def test_best_tokens(engine: Engine, width: int, rows: list[int] | None) -> None:
    """The first of the largest logits that are allowed, in rows with many equal ones, infinities and what is no number."""
    random = np.random.default_rng(0)
    values = np.array([-np.inf, np.nan, np.inf, 0.0, -0.0, *random.normal(size=20)], np.float32)
    for _ in range(20):
        logits = random.choice(values, (3, width))
        for words in (max(width // 32, 1), (width + 31) // 32, (width + 31) // 32 + 2):
            bitmask = random.integers(-(1 << 31), (1 << 31) - 1, (3, words), dtype=np.int32, endpoint=True)
            bitmask[random.random((3, words)) < 0.3] = random.choice([0, -1, 1])
            for mask in (bitmask, None):
                expected = []
                for row in range(3) if rows is None else rows:
                    columns = range(width) if mask is None else range(min(width, 32 * words))
                    allowed = [column for column in columns if mask is None or int(mask[row, column // 32]) >> column % 32 & 1]
                    numbers = [column for column in allowed if not np.isnan(logits[row, column])] or allowed
                    expected.append(max(numbers, key=lambda column: logits[row, column]) if allowed else -1)
                assert engine.best_tokens(logits, mask, rows) == expected


def test_best_tokens_checks_what_it_is_given(engine: Engine) -> None:
    """Logits of another type, different numbers of rows, or a row that is not there, are errors."""
    logits, bitmask = np.zeros((3, 40), np.float32), np.zeros((2, 2), np.int32)
    with pytest.raises(TypeError):
        engine.best_tokens(logits.astype(np.float16), None)
    with pytest.raises(ValueError, match="rows"):
        engine.best_tokens(logits, bitmask)
    with pytest.raises(IndexError):
        engine.best_tokens(logits, bitmask, [2])


# packed grammars


def some_grammar() -> Grammar:
    """A grammar with something of everything that has a table."""
    b = GrammarBuilder()
    root, word = b.rule("root"), b.rule("word")
    b.define(word, b.repeat(b.chars((0x61, 0x7A, 0xE9, 0xE9)), 1, 3))
    b.define(
        root, b.seq(b.literal(b"<"), b.alt(b.call(word), b.literal(b"\x00\xff"), b.tokens((3, 5))), b.bytes((0x30, 0x39)), b.literal(b">"))
    )
    return b.build(root)


def test_packed_grammars(engine: Engine) -> None:
    """A packed grammar is the grammar."""
    grammar = some_grammar()
    packed = engine.pack_grammar(grammar)
    assert isinstance(packed, bytes)
    plain, other = (engine.Matcher(prepare(engine, either), [STOP]) for either in (grammar, packed))
    for byte in b"<ab7>":
        assert plain.allowed_tokens() == other.allowed_tokens()
        assert plain.rule_names() == other.rule_names()
        assert plain.accept_token(byte) and other.accept_token(byte)
    assert other.is_completed()


def test_packed_grammars_that_are_damaged(kernel: Engine) -> None:
    """Bytes that are cut off, go on or are changed are an error, wherever it is."""
    packed = kernel.pack_grammar(some_grammar())
    damaged = [packed[:length] for length in range(len(packed))] + [packed + b"\0"]
    damaged += [packed[:i] + bytes([packed[i] ^ bit]) + packed[i + 1 :] for i in range(len(packed)) for bit in (1, 0x80)]
    for data in damaged:
        with pytest.raises(GrammarError, match="packed"):
            prepare(kernel, data)


# limits and bad grammars


def nested(b: GrammarBuilder, node: NodeId, levels: int, times: int) -> NodeId:
    """`((node{times}){times})...`."""
    for _ in range(levels):
        node = b.repeat(node, times, times)
    return node


def test_huge_counts(engine: Engine) -> None:
    """Counts of counts are neither copied nor counted in advance."""
    b = GrammarBuilder()
    start = time.perf_counter()
    at = matcher(engine, one_rule(b, b.seq(nested(b, b.literal(b"a"), 3, 1000), b.literal(b"."))))
    assert at.allowed_tokens() == [ord("a")]
    assert at.accept_bytes(b"a" * 1000)
    assert not at.is_completed()
    assert time.perf_counter() - start < 30
    with pytest.raises(LimitError):
        at.shortest_completion()


def test_very_deep_counts(engine: Engine) -> None:
    """Counts nested hundreds deep, longer than any text could be, are an error or a grammar, soon."""
    b = GrammarBuilder()
    start = time.perf_counter()
    try:
        at = matcher(engine, one_rule(b, nested(b, b.literal(b"a"), 300, 1_000_000)))
        assert at.allowed_tokens() == [ord("a")]
    except LimitError:
        pass
    assert time.perf_counter() - start < 30


def test_states_are_a_limit(engine: Engine) -> None:
    """A grammar with more states than allowed is an error that names the limit."""
    b = GrammarBuilder()
    node = b.literal(b"a" * 5000)
    with pytest.raises(LimitError) as caught:
        prepare(engine, one_rule(b, node), states=1000)
    assert caught.value.limit == "states"
    assert caught.value.value == 1000
    assert "1000" in str(caught.value)


def test_a_doubling_expression_is_a_limit_or_quick(engine: Engine) -> None:
    """An expression that shares its parts, so that spelled out it would be 2 ** 60 long, ends soon."""
    b = GrammarBuilder()
    node = b.chars((0x61, 0x7A, 0xE0, 0xFF), JSON_ANY)
    for _ in range(60):
        node = b.seq(node, node)
    start = time.perf_counter()
    try:
        at = engine.Matcher(prepare(engine, one_rule(b, node), seconds=3), [STOP])
        assert at.accept_bytes(b"abc")
        assert not at.is_completed()
    except LimitError as error:
        assert error.limit in {"states", "compile_seconds", "grammar_bytes", "stack_depth"}
    assert time.perf_counter() - start < 30


def test_time_is_a_limit(engine: Engine) -> None:
    """A compilation that takes longer than allowed is an error that names the limit, unless it is done by then."""
    b = GrammarBuilder()
    node = b.seq(*(b.alt(*(b.literal(b"%d,%d" % (i, j)) for j in range(100))) for i in range(1000)))
    start = time.perf_counter()
    with pytest.raises(LimitError) as caught:
        prepare(engine, one_rule(b, node), seconds=0.001)
    assert caught.value.limit == "compile_seconds"
    assert time.perf_counter() - start < 10


def bad_grammars() -> dict[str, Grammar]:
    """Grammars that no builder makes."""
    rule, name = (RuleId(0),), ("root",)

    def of(*nodes: tuple[Any, ...], rules: tuple[Any, ...] | None = None, root: int = 0) -> Grammar:
        last = (NodeId(len(nodes) - 1),)
        return Grammar(nodes, rules or last, name * len(rules or last), RuleId(root))

    return {
        "a rule that is not defined": Grammar(((0,),), (NodeId(-1),), name, rule[0]),
        "a rule beyond the nodes": Grammar(((0,),), (NodeId(7),), name, rule[0]),
        "a root that does not exist": Grammar(((0,),), (NodeId(0),), name, RuleId(3)),
        "no rules": Grammar((), (), (), RuleId(0)),
        "a call of no rule": of((8, 5)),
        "a node that contains itself": of((5, 0, 0)),
        "a node that contains a later one": of((5, 1), (5, 0)),
        "a node beyond the nodes": of((6, 99)),
        "a negative node": of((7, -5, 0, 1)),
        "an edge to no state": of((2, b"a"), (9, 2, (0, 5, 0))),
        "a transition to no state": of((10, (((97, 97, 9),),), (True,), 1)),
        "a token out of range": of((11, (9999,), 0)),
        "an unknown operator": of((77, 1)),
        "no operator": of(()),
    }


@pytest.mark.parametrize("kind", bad_grammars())
def test_bad_grammars(engine: Engine, kind: str) -> None:
    """A grammar that refers to what does not exist is an error, not a crash."""
    with pytest.raises((ValueError, IndexError, TypeError)):
        prepare(engine, bad_grammars()[kind])


WHOLE: tuple[tuple[Any, ...], ...] = (
    *((3, (0, 255)), (3, (97, 97, 99, 99)), (4, (0, 0x10FFFF), 1), (4, (97, 98, 100, 100), 3), (5, 0), (6, 0), (7, 0, 0, -1), (7, 0, 0, 0)),
    *((9, 2, ()), (9, 2, (0, 1, 0)), (9, 3, (2, 1, -1, 0, 2, 0)), (10, ((),), (True,), 0), (10, (((0, 255, 0),),), (True,), 0)),
    *((10, (((97, 97, 1), (99, 0x10FFFF, 0)), ()), (False, True), 3), (14, 0), (18, (), 1), (18, ("a", "b"), 3)),
    *((11, (0,), 0), (11, (0, 256), 0), (12, (0, 0), 0, 0, -1), (12, (0, 0, 0, 2), 0, 0, 0)),
)
"""Nodes at the bounds of what they may be; node 0 is a letter."""
BROKEN: tuple[tuple[Any, ...], ...] = (
    *((2, b""), (3, ()), (3, (97,)), (3, (-1, 97)), (3, (97, 256)), (3, (98, 97)), (3, (97, 99, 99, 100)), (3, (99, 99, 97, 97))),
    *((4, (), 1), (4, (97,), 1), (4, (97, 97), 0), (4, (97, 97), 4), (4, (97, 0x110000), 1), (4, (-1, 97), 1), (4, (98, 98, 98, 99), 2)),
    *((5,), (6,), (5, 1), (5, 0, 1), (6, 0, 0, 1), (6, -1), (7, 0, -1, 2), (7, 0, 0, -2), (7, 1, 0, 1), (8, -1), (8, 1)),
    *((9, 1, ()), (9, 2, (-1, 1, 0)), (9, 2, (0, 2, 0)), (9, 2, (2, 1, 0)), (9, 2, (0, -1, 0)), (9, 2, (0, 1, 1)), (9, 2, (0, 1, -2))),
    *((9, 2, (0, 1, 0, 0, 1, 1)), (10, (), (), 1), (10, ((),), (True,), -1), (10, ((),), (True,), 4)),
    *((10, (((97, 97, -1),),), (True,), 1), (10, (((97, 97, 0),), ((97, 97, 2),)), (True, True), 1)),
    *((10, (((0, 256, 0),),), (True,), 0), (10, (((0, 0x110000, 0),),), (True,), 1), (10, (((98, 98, 0), (97, 97, 0)),), (True,), 1)),
    *((10, (((97, 98, 0), (98, 99, 0)),), (True,), 1), (11, (257,), 0), (11, (0, -1), 0)),
    *((12, (1, 0), 0, 0, -1), (12, (0, 0), 1, 0, -1), (12, (0, 0), 0, -1, -1), (12, (0, 0), 0, 0, -2), (12, (0, 0, 1, 0), 0, 0, -1)),
    *((13, 1), (14, 1), (15, 0, -1), (15, 1, 2), (16, 1, "a"), (17, 1, 0.5)),
    *((18, (), 0), (18, (), 4), (18, ("b", "a"), 1), (18, ("a", "a"), 1)),
)


@pytest.mark.parametrize("node", BROKEN, ids=str)
def test_broken_nodes(kernel: Engine, node: tuple[Any, ...]) -> None:
    """Each argument of a node has bounds, and one beyond them is an error that names the node."""
    grammar = Grammar(((2, b"a"), node), (NodeId(1),), ("root",), RuleId(0))
    with pytest.raises(GrammarError, match=r"malformed grammar: (node 1 |token )"):
        prepare(kernel, grammar)


@pytest.mark.parametrize("node", WHOLE, ids=str)
def test_nodes_at_their_bounds(kernel: Engine, node: tuple[Any, ...]) -> None:
    """What is just within the bounds is none."""
    grammar = Grammar(((2, b"a"), node, (13, 1), (6, 0, 2)), (NodeId(3),), ("root",), RuleId(0))
    assert accepts(matcher(kernel, grammar), b"a")


def test_many_ways_at_once_are_a_limit_or_quick(engine: Engine) -> None:
    """A text that can be read in exponentially many ways ends in a limit, or soon."""
    b = GrammarBuilder()
    members = tuple(number for _ in range(16) for number in (b.seq(b.empty(), b.literal(b"a")), 0))
    at = engine.Matcher(prepare(engine, one_rule(b, b.permute(members, b.empty())), states=200), [STOP])
    start = time.perf_counter()
    try:
        assert at.accept_bytes(b"a" * 12)
        assert at.allowed_tokens() == [ord("a"), STOP]
    except LimitError as error:
        assert error.limit in {"states", "grammar_bytes", "step_work"}
    assert time.perf_counter() - start < 30


def test_other_objects(engine: Engine) -> None:
    """What is no vocabulary, no grammar and no bytes is a TypeError; a matcher shows where it is."""
    b = GrammarBuilder()
    with pytest.raises(TypeError):
        engine.KernelGrammar(None, one_rule(b, b.empty()), states=1, stack_depth=1, memory=1, seconds=1)
    with pytest.raises(TypeError):
        engine.Matcher(None, [])
    at = matcher(engine, one_rule(b, b.literal(b"a")))
    assert at.accept_bytes(b"a")
    assert repr(at) == "<Matcher after 1 tokens>"
    assert at.accept_token(STOP)
    assert repr(at) == "<Matcher after 2 tokens, terminated>"


def test_unsatisfiable(engine: Engine) -> None:
    """A grammar that generates nothing, or whose only way on are tokens that the vocabulary lacks, is an error."""
    b = GrammarBuilder()
    with pytest.raises(UnsatisfiableError):
        prepare(engine, one_rule(b, b.seq(b.literal(b"a"), b.never())))
    b = GrammarBuilder()
    with pytest.raises(UnsatisfiableError):
        prepare(engine, one_rule(b, b.tokens(tuple(range(STOP)), negated=True)), BYTES)


def test_memory_is_bounded(engine: Engine) -> None:
    """With next to no memory for tables the masks are the same, only slower."""
    b = GrammarBuilder()
    value = b.rule("value")
    string = b.seq(b.literal(b'"'), b.repeat(b.chars((0, 0x10FFFF), JSON_ANY), 0, 50), b.literal(b'"'))
    b.define(value, b.alt(string, b.seq(b.literal(b"["), b.call(value), b.repeat(b.seq(b.literal(b","), b.call(value))), b.literal(b"]"))))
    grammar = b.build(value)
    plenty, little = (engine.Matcher(prepare(engine, grammar, memory=memory), [STOP]) for memory in (1 << 26, 1 << 12))
    for byte in b'["ab\\u00e9\xc3\xa9",[["x"],"\\n"]]':
        assert little.allowed_tokens() == plenty.allowed_tokens()
        assert plenty.accept_token(byte)
        assert little.accept_token(byte)
    assert little.is_completed()
