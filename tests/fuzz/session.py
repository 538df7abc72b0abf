"""A program of calls on matchers of one grammar, made on both engines at once; the first answer that is not as it must be is raised.

Each call is an operation, (name, number of the matcher, arguments); `OPERATIONS` has their functions.
Every operation can be made anywhere: a number of a matcher counts around, so a program from which some were taken out still runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from support.engines import Engine

from fuzz.case import LIMITS, Case, Operation
from stackmask.integration.compiler.serialization import from_bytes, to_bytes
from stackmask.pda import _kernel, reference
from stackmask.pda.captures import CaptureReader
from stackmask.pda.exceptions import GrammarError, LimitError, StackmaskError, UnsatisfiableError
from stackmask.pda.grammar import CAPTURE, DISTINCT, Grammar
from stackmask.pda.matcher import Matcher
from stackmask.pda.vocabulary import Vocabulary

Bitmask = npt.NDArray[np.int32]
MOST_MATCHERS: Final = 5
MOST_ITEMS: Final = 400
"""Of the reference engine, after a byte: a grammar with more readings takes it minutes."""
ENGINE_LIMITS: Final = {"states": 20_000, "stack_depth": 10_000, "seconds": 20}


class DisagreementError(Exception):
    """An answer that is not as it must be; `check` names the question."""

    def __init__(self, check: str, detail: object) -> None:
        super().__init__(f"{check}: {detail}")
        self.check = check


class AbandonedError(Exception):
    """The case is none: its grammar is refused, generates nothing or takes too much."""


@dataclass(slots=True)
class Pair:
    """A matcher of the kernel, that of the reference engine at the same place if there is one, and the steps that led there."""

    fast: Any
    slow: Any
    steps: list[int | bytes] = field(default_factory=list)

    def fork(self) -> Pair:
        """The same, to go its own way."""
        return Pair(self.fast.fork(), self.slow and self.slow.fork(), list(self.steps))


class Session:
    """The engines' grammars of a case, and its matchers; `skipped` are checks that are left out."""

    def __init__(self, case: Case, skipped: frozenset[str] = frozenset()) -> None:
        self.case = case
        self.skipped = skipped
        try:
            self.grammar = case.grammar()
        except StackmaskError as error:
            raise AbandonedError(str(error)) from error
        except Exception as error:
            raise DisagreementError("compile", repr(error)) from error
        self.words = (len(case.tokens) + 31) // 32
        if not any(data for token, data in enumerate(case.tokens) if token not in case.stops):
            raise AbandonedError("no token has any text")
        self.vocabulary = Vocabulary.from_bytes(case.tokens, stop_token_ids=case.stops)
        self.has_guards = any(node[0] == DISTINCT for node in self.grammar.nodes)
        self.captures = self._capture_reader if any(node[0] == CAPTURE for node in self.grammar.nodes) else None
        self.trie = _kernel.TokenTrie(list(case.tokens), len(case.tokens), set_bytes=case.set_bytes, thresholds=dict(case.thresholds))
        self.kernel = self._prepare(_kernel, self.grammar)
        slow = self._prepare(reference, self.grammar) if case.has_reference else None
        is_refused = isinstance(self.kernel, GrammarError) and not isinstance(self.kernel, UnsatisfiableError)
        if is_refused or isinstance(self.kernel, LimitError) or isinstance(slow, LimitError):
            raise AbandonedError(f"{self.kernel}")
        if case.has_reference and isinstance(self.kernel, StackmaskError) != isinstance(slow, StackmaskError):
            raise DisagreementError("verdict", f"{self.kernel!r} and {slow!r}")
        if isinstance(self.kernel, Exception):
            raise AbandonedError(str(self.kernel))
        if slow is not None:
            slow.chart.states = MOST_ITEMS
        self.prepared = [self.kernel]  # for their statistics
        self.pairs = [Pair(self.matcher(self.kernel), slow and reference.Matcher(slow, list(case.stops)))]

    def _prepare(self, engine: Engine, grammar: Grammar | bytes) -> Any:
        """An engine's grammar, or what it raised."""
        trie = self.trie if engine is _kernel else reference.TokenTrie(list(self.case.tokens), len(self.case.tokens))
        try:
            return engine.KernelGrammar(trie, grammar, memory=self.case.memory, **ENGINE_LIMITS)
        except StackmaskError as error:
            return error

    def _capture_reader(self) -> CaptureReader:
        return CaptureReader(self.grammar, len(self.case.tokens), self.vocabulary.token_bytes, LIMITS)

    def matcher(self, prepared: Any) -> Any:
        """A matcher of the kernel as people have it."""
        return Matcher(prepared, self.vocabulary, self.case.stops, captures=self.captures)

    def run(self, operation: Operation) -> None:
        """Make one call on both engines and compare the answers."""
        name, number, *arguments = operation
        try:
            OPERATIONS[name](self, self.pairs[number % len(self.pairs)], *arguments)
        except LimitError as error:
            raise AbandonedError(str(error)) from error
        except (DisagreementError, AbandonedError):
            raise
        except Exception as error:
            raise DisagreementError(type(error).__name__, f"{name} ends in {error!r}") from error

    def compare(self, check: str, fast: object, slow: object) -> None:
        """Equal answers."""
        if fast != slow and check not in self.skipped:
            raise DisagreementError(check, f"{_short(fast)} is not {_short(slow)}")

    def rows(self, count: int = 1) -> Bitmask:
        """An array for bitmasks, with rubbish in it."""
        return np.full((count, self.words), 0x5A5A5A5A, np.int32)

    def show(self, tokens: Sequence[int]) -> str:
        """Tokens for people."""
        return ", ".join(f"{token} {(self.case.tokens[token] or b'')[:60]!r}" for token in tokens[:8])

    def compare_masks(self, check: str, fast: Bitmask, slow: Bitmask) -> None:
        """Equal rows of bitmasks; else tokens that differ are shown."""
        if np.array_equal(fast, slow) or check in self.skipped:
            return
        for row in range(len(fast)):
            more, less = (self.show(_bits(one & ~other)) for one, other in ((fast[row], slow[row]), (slow[row], fast[row])))
            if more or less:
                raise DisagreementError(check, f"row {row}: too many are {more or 'none'}; too few are {less or 'none'}")


def _short(answer: object) -> str:
    text = repr(answer)
    return text if len(text) < 300 else text[:300] + "..."


def _bits(row: Bitmask) -> list[int]:
    return [int(i) for i in np.flatnonzero(np.unpackbits(row.astype("<i4").view(np.uint8), bitorder="little"))]


def _row(at: Any, bitmask: Bitmask, index: int = 0) -> Bitmask:
    at.fill_next_token_bitmask(bitmask, index)
    return bitmask


# ---- what changes a matcher


def token(session: Session, pair: Pair, token_id: int) -> None:
    """Go on by a token."""
    accepted = pair.fast.accept_token(token_id)
    if pair.slow:
        session.compare("token", accepted, pair.slow.accept_token(token_id))
    if accepted:
        pair.steps.append(token_id)


def text(session: Session, pair: Pair, data: bytes) -> None:
    """Go on by a text."""
    accepted = pair.fast.accept_bytes(data)
    if pair.slow:
        session.compare("bytes", accepted, pair.slow.accept_bytes(data))
    if accepted:
        pair.steps.append(data)


def rollback(session: Session, pair: Pair, count: int) -> None:
    """Undo some steps."""
    count = min(count, len(pair.steps))
    for at in (pair.fast, pair.slow):
        if at:
            at.rollback(count)
    del pair.steps[len(pair.steps) - count :]


def reset(session: Session, pair: Pair) -> None:
    """Back to the beginning."""
    for at in (pair.fast, pair.slow):
        if at:
            at.reset()
    pair.steps.clear()


def fork(session: Session, pair: Pair) -> None:
    """One more matcher, in the place of the oldest copy where there are many."""
    if len(session.pairs) == MOST_MATCHERS:
        del session.pairs[1]
    session.pairs.append(pair.fork())


def rebuild(session: Session, pair: Pair, how: str) -> None:
    """A new kernel grammar, packed or serialised on its way, and a matcher that takes the same steps there."""
    grammar: Grammar | bytes = session.grammar
    if how == "packed":
        grammar = _kernel.pack_grammar(session.grammar)
    elif how == "serialised":
        data = to_bytes(session.grammar, None, vocabulary="", kind="grammar")
        grammar = from_bytes(data, vocabulary="", size=len(session.case.tokens), limits=LIMITS)[0]
        session.compare("serialise", grammar, session.grammar)
    prepared = session._prepare(_kernel, grammar)
    if isinstance(prepared, StackmaskError):
        raise DisagreementError("rebuild", repr(prepared))
    if how == "warm":
        prepared.warm_up()
    session.prepared.append(prepared)
    at = session.matcher(prepared)
    for step in pair.steps:
        if not (at.accept_bytes(step) if isinstance(step, bytes) else at.accept_token(step)):
            raise DisagreementError("rebuild", f"{how}: {step!r} of {pair.steps!r} is refused")
    pair.fast = at


# ---- what only asks


def mask(session: Session, pair: Pair, by_reference: bool) -> None:
    """The mask is what trials of every token say, and what the reference engine says."""
    bitmask, tried = session.rows(), session.rows()
    is_needed = pair.fast.fill_next_token_bitmask(bitmask)
    pair.fast.fill_by_trial(tried)
    session.compare_masks("mask", bitmask, tried)
    allowed = _bits(bitmask[0])
    session.compare("mask-needed", is_needed, len(allowed) < len(session.case.tokens))
    session.compare("allowed", pair.fast.allowed_tokens(), allowed)
    if pair.slow and by_reference:
        session.compare_masks("mask-reference", bitmask, _row(pair.slow, session.rows()))


def state(session: Session, pair: Pair) -> None:
    """Where the matcher is."""
    for name in ("num_accepted", "temperature", "taken"):
        if pair.slow:
            session.compare(name, getattr(pair.fast, name), getattr(pair.slow, name))
    if pair.slow:
        session.compare("terminated", pair.fast.is_terminated(), pair.slow.is_terminated())
        session.compare("completed", pair.fast.is_completed(), pair.slow.is_completed())
    if pair.fast.is_completed() or pair.fast.is_terminated():
        session.compare("stop", [pair.fast.validate_tokens([stop]) for stop in session.case.stops], [1] * len(session.case.stops))
    pair.fast.get_captures()


def validate(session: Session, pair: Pair, ids: Sequence[int]) -> None:
    """How many tokens could be accepted: as many as a copy accepts."""
    count = pair.fast.validate_tokens(ids)
    fork = pair.fast.fork()
    session.compare("validate", count, next((i for i, token_id in enumerate(ids) if not fork.accept_token(token_id)), len(ids)))
    if pair.slow:
        session.compare("validate-reference", count, pair.slow.validate_tokens(ids))


def drafts(session: Session, pair: Pair, ids: Sequence[int], parents: Sequence[int] | None) -> None:
    """The masks along a chain or a tree are those of copies that take its tokens."""
    bitmask, expected = session.rows(len(ids) + 1), session.rows(len(ids) + 1)
    _kernel.fill_draft_bitmasks(pair.fast, ids, bitmask, 0, parents)
    places: list[Any] = [pair.fast]
    for i, token_id in enumerate(ids):
        before = places[(parents[i] if parents is not None else i - 1) + 1]
        fork = before and before.fork()
        places.append(fork if fork and fork.accept_token(token_id) else None)
    for i, at in enumerate(places):
        if at:
            at.fill_by_trial(expected, i)
        else:
            expected[i] = 0
    session.compare_masks("drafts", bitmask, expected)
    if pair.slow:
        reference.fill_draft_bitmasks(pair.slow, ids, expected, 0, parents)
        session.compare_masks("drafts-reference", bitmask, expected)


def jump(session: Session, pair: Pair) -> None:
    """The forced text is accepted, no other is, and the forced tokens spell it, or are the only ones that are allowed."""
    forced = pair.fast.find_jump_forward_bytes()
    if pair.slow:
        session.compare("jump", forced, pair.slow.find_jump_forward_bytes())
        session.compare("jump-string", pair.fast.find_jump_forward_string(), pair.slow.find_jump_forward_string())
    session.compare("jump-prefix", pair.fast.matching_prefix(forced), len(forced))
    tokens = pair.fast.forced_tokens()
    session.compare("forced", pair.fast.validate_tokens(tokens), len(tokens))
    walk = pair.fast.fork()
    for token_id in tokens:
        text = session.case.tokens[token_id] or b""
        if not text or not walk.find_jump_forward_bytes().startswith(text):  # asked for by its id, which spells no text
            session.compare("forced-token", walk.allowed_tokens(), [token_id])
        walk.accept_token(token_id)


def following(session: Session, pair: Pair, data: bytes) -> None:
    """How much of a text fits, and what may follow it."""
    live = pair.fast.next_bytes(data)
    if pair.slow:
        session.compare("prefix", pair.fast.matching_prefix(data), pair.slow.matching_prefix(data))
        session.compare("next", live, pair.slow.next_bytes(data))
    pair.fast.rule_names(data)
    if data:
        session.compare("explain", pair.fast.explain(data).accepted, pair.fast.fork().accept_bytes(data))


def completion(session: Session, pair: Pair) -> None:
    """The shortest completion completes, and is no longer than the reference engine's, but where guards make the search short."""
    if "completion" in session.skipped:
        return
    try:
        found = _completion(pair.fast)
    except LimitError:
        return  # another search begins with the tables of this one, and may succeed
    session.compare("completion-length", _kernel.completion_lengths([pair.fast]), [-1 if found is None else len(found)])
    if found is not None and not pair.fast.is_terminated():
        fork = pair.fast.fork()
        session.compare("completion", (fork.accept_bytes(found), fork.is_completed()), (True, True))
    if pair.slow:
        expected = None
        with suppress(LimitError):
            expected = _completion(pair.slow)
        if expected is not None and (found is None or not session.has_guards):
            session.compare("completion-reference", found and len(found), expected and len(expected))


def _completion(at: Any) -> bytes | None:
    """The shortest completion, None where there is none in bytes; LimitError where the search ends in a limit."""
    try:
        data: bytes = at.shortest_completion()
    except ValueError:
        return None
    return data


# ---- batches


def batch(session: Session, pair: Pair, beside: bool) -> None:
    """The masks of all matchers at once, in rows that are turned around."""
    pairs = session.pairs
    places = [(i * 2 + 1) % (2 * len(pairs) + 1) for i in range(len(pairs))]
    bitmask, expected = session.rows(2 * len(pairs) + 1), session.rows(2 * len(pairs) + 1)
    for each, place in zip(pairs, places, strict=True):
        each.fast.fill_by_trial(expected, place)
    matchers = [each.fast for each in pairs]
    if beside:
        filler = _kernel.BitmaskFiller()
        filler.begin(_kernel.MatcherRows(matchers, bitmask, places))
        filler.end()
    else:
        _kernel.fill_bitmasks(matchers, bitmask, places)
    session.compare_masks("batch", bitmask, expected)


def take(session: Session, pair: Pair, ids: Sequence[int]) -> None:
    """All matchers go on by a token at once, or none does."""
    pairs = session.pairs
    ids = [ids[i % len(ids)] for i in range(len(pairs))]
    fits = all(each.fast.validate_tokens([token_id]) for each, token_id in zip(pairs, ids, strict=True))
    taken = _kernel.MatcherRows([each.fast for each in pairs], session.rows(len(pairs))).take(ids)
    if taken is None and fits:
        raise AbandonedError("a limit")
    session.compare("take", taken is not None, fits)
    if not fits:
        return
    for each, token_id in zip(pairs, ids, strict=True):
        each.steps.append(token_id)
        if each.slow:
            session.compare("take-reference", each.slow.accept_token(token_id), True)


OPERATIONS: Final[dict[str, Callable[..., None]]] = {
    "token": token,
    "bytes": text,
    "rollback": rollback,
    "reset": reset,
    "fork": fork,
    "rebuild": rebuild,
    "mask": mask,
    "state": state,
    "validate": validate,
    "drafts": drafts,
    "jump": jump,
    "next": following,
    "completion": completion,
    "batch": batch,
    "take": take,
}
