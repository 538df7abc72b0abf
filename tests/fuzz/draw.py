"""Random cases: what they run on is drawn first, then their calls one by one, each where the calls before it have led."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any, Final

from fuzz.case import Case, Operation
from fuzz.session import AbandonedError, DisagreementError, Session
from fuzz.specifications import KINDS
from fuzz.vocabularies import engine_options, joined, sample_texts, vocabulary
from stackmask.pda.exceptions import LimitError
from stackmask.pda.grammar import TOKENS

WEIGHTS: Final = {
    "token": 14, "bytes": 3, "rollback": 4, "reset": 1, "fork": 3, "rebuild": 2, "state": 3, "validate": 3, "drafts": 3, "jump": 3,
    "next": 2, "completion": 3, "batch": 2, "take": 2,
}  # fmt: skip


def draw_case(kind: str, seed: int, number: int) -> Case:
    """A case without its program. Where the specification is refused, it has no tokens."""
    random = Random(f"{kind} {seed} {number}")
    front_end, draw = KINDS[kind]
    specification, options = draw(random)
    has_reference = random.random() < 0.6
    case = Case(front_end, specification, (None,) * 310, (), options, **engine_options(random), has_reference=has_reference)
    try:
        grammar = case.grammar()
    except Exception:
        return case  # whatever this is, the session says it
    named = [token for node in grammar.nodes if node[0] == TOKENS for token in node[1]]  # type: ignore[attr-defined]
    least = max(named, default=-1) + 1
    tokens, stops = vocabulary(random, sample_texts(grammar, random), few=has_reference, least=least)
    return replace(case, tokens=tokens, stops=stops)


def play(session: Session, random: Random, count: int) -> Iterator[Operation]:
    """Draw calls and make them; each is given before it is made."""
    for _ in range(count):
        number = random.randrange(len(session.pairs))
        name = random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        operations: list[Operation] = [(name, number, *_arguments(session, random, name, number))]
        if name in ("token", "bytes", "rebuild", "take") or random.random() < 0.2:
            operations.append(("mask", number, random.random() < 0.25))
        for operation in operations:
            yield operation
            session.run(operation)


def _arguments(session: Session, random: Random, name: str, number: int) -> tuple[Any, ...]:
    at = session.pairs[number].fast
    size = len(session.case.tokens)

    def some_token(at: Any) -> int:
        """Mostly one that is allowed, and mostly not the end."""
        allowed = at.allowed_tokens() if random.random() < 0.9 else []
        going_on = [token for token in allowed if token not in session.case.stops] if random.random() < 0.95 else allowed
        return int(random.choice(going_on or allowed or [random.randrange(size)]))

    def some_path(count: int) -> list[int]:
        fork, ids = at.fork(), []
        for _ in range(count):
            ids.append(some_token(fork))
            fork.accept_token(ids[-1])
        return ids

    def some_text() -> bytes:
        roll = random.random()
        if roll < 0.5:
            text = b"".join(session.case.tokens[token] or b"" for token in some_path(2))
            return text[: random.randint(0, len(text))]
        if roll < 0.8:
            live = at.next_bytes()
            return bytes((random.choice(live),)) if live else b"a"
        return joined(random)

    match name:
        case "token":
            return (some_token(at),)
        case "bytes" | "next":
            return (some_text(),)
        case "rollback":
            return (random.choice((0, 1, 1, 2, 5)),)
        case "rebuild":
            return (random.choice(("packed", "serialised", "warm")),)
        case "validate":
            return (some_path(random.randint(0, 4)),)
        case "drafts":
            ids = some_path(random.randint(0, 4))
            return ids, None if random.random() < 0.5 else [random.randint(-1, i - 1) for i in range(len(ids))]
        case "batch":
            return (random.random() < 0.5,)
        case "take":
            return ([some_token(pair.fast) for pair in session.pairs],)
    return ()


def find(case: Case, random: Random, count: int, skipped: frozenset[str]) -> tuple[Case, DisagreementError | None, Session]:
    """Play a case: with the program that was played, and how it went wrong, if it did."""
    session = Session(case, skipped)
    played: list[Operation] = [("mask", 0, True)]
    try:
        session.run(played[0])
        for operation in play(session, random, count):
            played.append(operation)
    except DisagreementError as found:
        return replace(case, operations=tuple(played)), found, session
    except (AbandonedError, LimitError):
        pass
    return replace(case, operations=tuple(played)), None, session
