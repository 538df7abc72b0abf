"""The official JSON Schema test suite, whole, through the tokens of Llama 3; every case that is not right has a named reason."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest
from support import suite

if not suite.ARCHIVE.exists() and os.environ.get("CI") != "true":
    pytest.skip(f"{suite.ARCHIVE} is missing; STACKMASK_DATA names another folder", allow_module_level=True)

Predicate = Callable[[suite.Outcome], str | None]


def large_multiple(outcome: suite.Outcome) -> str | None:
    """A multipleOf whose automaton has a state for every remainder."""
    if outcome.verdict == suite.REFUSED and "multiples of 123456789" in outcome.detail:
        return "an automaton of the multiples of 123456789 has 123456789 states"
    return None


def metaschema_of_vocabularies(outcome: suite.Outcome) -> str | None:
    """The metaschemas since 2019-09, in which every keyword of six vocabularies meets a dynamic reference."""
    if outcome.verdict == suite.REFUSED and "LimitError" in outcome.detail and outcome.case.group in (
        "validate definition against metaschema",
        "remote ref, containing refs itself",
    ):  # fmt: skip
        return "the grammar of the whole metaschema is larger than the limits allow"
    return None


def integer_with_fraction(outcome: suite.Outcome) -> str | None:
    """The optional rule of draft 4 that 1.0 is no integer; the runner writes it 1, as stackmask does."""
    return "1.0 is written 1" if outcome.case.file == "optional/zeroTerminatedFloats" else None


def content(outcome: suite.Outcome) -> str | None:
    """The contents of strings, which later drafts call annotations."""
    return "contentMediaType and contentEncoding are annotations" if outcome.case.file == "optional/content" else None


def dependencies_since_2019(outcome: suite.Outcome) -> str | None:
    """`dependencies` in drafts that have split it in two."""
    if outcome.case.file == "optional/dependencies-compatibility" and outcome.verdict == suite.UNDER:
        return "dependencies is no keyword since 2019-09, an annotation; the report says so"
    return None


def encoded_host_name(outcome: suite.Outcome) -> str | None:
    """Labels that begin with xn--."""
    if outcome.verdict == suite.OVER and outcome.case.file.endswith("hostname") and "xn--" in outcome.case.instance:
        return "whether an encoded label is valid no automaton can tell, so all are refused"
    return None


def long_international_label(outcome: suite.Outcome) -> str | None:
    """Labels beyond ASCII that only just fit once they are encoded."""
    if (
        outcome.verdict == suite.OVER
        and outcome.case.file.endswith("idn-hostname")
        and "label too long if separator ignored" in outcome.case.description
    ):
        return "how long a label gets when it is encoded no automaton can tell, so at most 19 characters beyond ASCII are taken"
    return None


REQUIRED_REASONS: tuple[Predicate, ...] = (large_multiple, metaschema_of_vocabularies)
OPTIONAL_REASONS: tuple[Predicate, ...] = (integer_with_fraction, content, dependencies_since_2019)
FORMAT_REASONS: tuple[Predicate, ...] = (encoded_host_name, long_international_label)


@cache
def candidate(formats: str) -> suite.Stackmask:
    """What is tested: the vocabulary of Llama 3, formats asserted or not."""
    return suite.Stackmask(*_vocabulary(), format=formats)


@cache
def _vocabulary() -> tuple[object, Callable[[str], list[int]]]:
    return suite.llama3_vocabulary()


def check(outcomes: list[suite.Outcome], reasons: tuple[Predicate, ...], share: float) -> Counter[str]:
    """Assert that every outcome that is not right has a reason, and that enough are right."""
    for outcome in outcomes:
        if outcome.verdict != suite.RIGHT:
            found = [reason for reason in (predicate(outcome) for predicate in reasons) if reason]
            assert found, f"{outcome.verdict}: {outcome.case.name}: {outcome.case.instance!r} {outcome.detail}"
    counts = suite.table(outcomes)
    assert counts[suite.RIGHT] >= share * len(outcomes), counts
    return counts


@pytest.mark.parametrize("draft", suite.DRAFTS)
def test_required(draft: str) -> None:
    """The required tests of each draft, where `format` is an annotation: nothing invalid is accepted."""
    counts = check(suite.run(candidate("annotate"), suite.cases(draft)), REQUIRED_REASONS, 0.99)
    assert counts[suite.UNDER] == 0


@pytest.mark.parametrize("draft", suite.DRAFTS)
def test_optional(draft: str) -> None:
    """The optional tests: big numbers, ECMA-262 patterns, other documents in other drafts."""
    check(suite.run(candidate("enforce"), suite.cases(draft, "optional")), OPTIONAL_REASONS, 0.9)


@pytest.mark.parametrize("draft", suite.DRAFTS)
def test_formats(draft: str) -> None:
    """The tests of every format, asserted: nothing invalid is accepted."""
    counts = check(suite.run(candidate("enforce"), suite.cases(draft, "optional/format")), FORMAT_REASONS, 0.95)
    assert counts[suite.UNDER] == 0


def test_any_order() -> None:
    """With keys in any order, every case of the current draft's object keywords is as right as before."""
    chosen = [case for case in suite.cases("2020-12") if case.file in ("properties", "required", "dependentRequired", "maxProperties")]
    counts = check(suite.run(suite.Stackmask(*_vocabulary(), property_order="any"), chosen), (), 1)
    assert counts[suite.RIGHT] == len(chosen)


def test_the_suite_is_whole() -> None:
    """The archive holds all five drafts."""
    sizes = {draft: sum(1 for _ in suite.cases(draft)) for draft in suite.DRAFTS}
    assert sizes["2020-12"] == 1299
    assert min(sizes.values()) > 600
