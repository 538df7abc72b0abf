"""The fuzzer itself: it draws the same everywhere, makes what it finds small, and its scripts run. `.ci/run` runs it at length."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
from fuzz.campaign import Plan, numbers, one, run
from fuzz.case import Case
from fuzz.draw import draw_case
from fuzz.session import OPERATIONS, AbandonedError, DisagreementError, Session
from fuzz.shrink import failure, shrink
from fuzz.specifications import KINDS
from fuzz.vocabularies import LOW

from stackmask.pda import _kernel
from stackmask.pda.matcher import Matcher

NONE: frozenset[str] = frozenset()


def drops_long_tokens(self: Any, bitmask: Any, index: int = 0) -> bool:
    """A kernel that leaves tokens of more than two bytes out of masks."""
    is_needed = _kernel.Matcher.fill_next_token_bitmask(self, bitmask, index)
    row = bitmask[index]
    for token in range(self.vocabulary.size):
        if len(self.vocabulary.token_bytes(token) or b"") > 2:
            row[token // 32] &= ~(1 << token % 32) if token % 32 < 31 else 0x7FFFFFFF
    return bool(is_needed)


def test_a_few_cases() -> None:
    """Some of every kind, in a process of their own: nothing disagrees."""
    result = run(Plan(kinds=tuple(KINDS), seed=11, count=4), 1, print)
    assert not result.findings, "\n".join(result.findings)
    assert set(KINDS) <= {name.split()[0] for name in result.tried}
    assert result.strategies["masks"] > 30


def test_cases_are_the_same_everywhere() -> None:
    """A case is drawn from its kind, its seed and its number, and the processes share the cases out."""
    assert draw_case("json_schema", 3, 5) == draw_case("json_schema", 3, 5)
    plan = Plan(kinds=("regex", "ebnf", "lark"), count=5)
    shares = [set(numbers(plan, process, 2)) for process in range(2)]
    assert not shares[0] & shares[1]
    assert shares[0] | shares[1] == set(numbers(plan, 0, 1)) == {(kind, number) for kind in plan.kinds for number in range(5)}
    assert [*numbers(plan, 0, 1, "ebnf:1:3")] == [*numbers(plan, 0, 1)][11:]


def test_findings_are_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong is found, shrunk to a token and a call or two, and its script runs."""
    monkeypatch.setattr(Matcher, "fill_next_token_bitmask", drops_long_tokens, raising=False)
    specification = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}, "b": True}, "required": ["a"]}
    tokens = (b'{"', b'{"a', b'{"a":"x', b"a", b'"', None)
    operations = (("token", 0, 0), ("state", 0), ("fork", 0), ("rollback", 0, 1), ("mask", 0, True))
    case = Case("json_schema", specification, tokens, (5,), {"property_order": "any"}, {"large_subtree": 2}, operations=operations)
    found = failure(case, NONE)
    assert found is not None
    assert found.check == "mask"
    small = shrink(case, found.check, seconds=60, skipped=NONE)
    assert len(small.operations) == 1
    assert [len(token) for token in small.tokens if token] == [3]
    assert not small.thresholds
    assert not small.options
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(small.script(), "script", "exec"), {})
    assert out.getvalue()


@pytest.mark.parametrize("skipped", [NONE, frozenset({"mask"})])
def test_checks_can_be_skipped(monkeypatch: pytest.MonkeyPatch, skipped: frozenset[str]) -> None:
    """A check that is skipped finds nothing."""
    monkeypatch.setattr(Matcher, "fill_next_token_bitmask", drops_long_tokens, raising=False)
    case = Case("regex", "abc", (b"abc", None), (1,), has_reference=False)
    session = Session(case, skipped | {"mask-needed", "allowed"})
    with contextlib.nullcontext() if skipped else pytest.raises(DisagreementError, match="too few are 0 b'abc'"):
        session.run(("mask", 0, False))


def test_every_front_end_has_a_script() -> None:
    """The script of a case of every kind compiles, whatever its calls are."""
    for kind in KINDS:
        case = one_that_compiles(kind)
        calls = {"token": (0,), "bytes": (b"a",), "next": (b"",), "validate": ([0],), "rollback": (1,), "mask": (True,), "take": ([0],)}
        calls |= {"drafts": ([0], [-1]), "rebuild": ("packed",), "batch": (True,)}
        operations = tuple((name, 0, *calls.get(name, ())) for name in OPERATIONS)
        script = Case(case.kind, case.specification, (b"a", None), (1,), case.options, operations=operations).script()
        compile(script, kind, "exec")


def one_that_compiles(kind: str) -> Case:
    """The first case of a kind that is not refused."""
    for number in range(50):
        case = draw_case(kind, 1, number)
        try:
            Session(case)
        except AbandonedError:
            continue
        return case
    raise AssertionError(kind)


def test_refused_cases_are_counted() -> None:
    """A specification that no front end takes is no finding."""
    plan = Plan(kinds=("regex",), count=60)
    results = [one("regex", 1, number, plan) for number in range(40)]
    assert any(result.tried["regex refused"] for result in results)
    assert not any(result.findings for result in results)


def test_thresholds() -> None:
    """The kernel says its thresholds, takes others, knows no others, and the fuzzer lowers each."""
    usual = _kernel.TokenTrie([b"a"], 1).thresholds
    assert usual.keys() == LOW.keys()
    assert _kernel.TokenTrie([b"a"], 1, thresholds={"lookups": 7}).thresholds == usual | {"lookups": 7}
    with pytest.raises(ValueError, match="there is no threshold look"):
        _kernel.TokenTrie([b"a"], 1, thresholds={"look": 7})
