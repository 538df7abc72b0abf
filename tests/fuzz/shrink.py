"""Smaller cases that disagree in the same way: delta debugging (Zeller & Hildebrandt 2002) on the parts of a case, in turns.

A change is kept if the case still fails the same check, so a shrunk case can have another cause than the one it began with.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from fuzz.case import Case, Operation
from fuzz.session import AbandonedError, DisagreementError, Session
from stackmask.pda.grammar import AUTOMATON, EMPTY, LITERAL, REPEAT, TOKENS, Grammar

MOST_SECONDS: Final = 5
"""Of the processor, for one smaller case, which may take longer than the case that it comes from."""
_PARTS: Final = ("_reference", "_operations", "_options", "_specification", "_tokens", "_token_texts", "_packed")


def failure(case: Case, skipped: frozenset[str]) -> DisagreementError | None:
    """How a case goes wrong, if it does."""
    try:
        session = Session(case, skipped)
        for operation in case.operations:
            session.run(operation)
    except DisagreementError as found:
        return found
    except AbandonedError:
        return None
    return None


def shrink(case: Case, check: str, *, seconds: float, skipped: frozenset[str]) -> Case:
    """The smallest case found in some time that fails the same check."""
    end = time.monotonic() + seconds

    def fails(other: Case) -> bool:
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        found = failure(other, skipped) if time.monotonic() < end else None
        signal.setitimer(signal.ITIMER_PROF, 0)
        return found is not None and found.check == check

    handler = signal.signal(signal.SIGPROF, _abandon)
    before = None
    try:
        while case != before and time.monotonic() < end:
            before = case
            for part in _PARTS:
                case = globals()[part](case, fails)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
    return case


def _abandon(_number: int, _frame: object) -> None:
    """Give up a smaller case."""
    raise AbandonedError


Fails = Callable[[Case], bool]


def _fewer(items: Sequence[Any], fails: Callable[[Sequence[Any]], bool]) -> Sequence[Any]:
    """Leave out stretches of a sequence, long ones first."""
    size = max(len(items) // 2, 1)
    while items:
        place = 0
        while place < len(items):
            rest = items[:place] + items[place + size :]
            if fails(rest):
                items = rest
            else:
                place += size
        if size == 1:
            break
        size //= 2
    return items


def _reference(case: Case, fails: Fails) -> Case:
    """Without the reference engine all is faster."""
    alone = replace(case, has_reference=False)
    return alone if case.has_reference and fails(alone) else case


def _operations(case: Case, fails: Fails) -> Case:
    kept = _fewer(case.operations, lambda operations: fails(replace(case, operations=tuple(operations))))
    case = replace(case, operations=tuple(kept))
    for place, operation in enumerate(case.operations):
        for smaller in _smaller_operations(operation):
            other = replace(case, operations=(*case.operations[:place], smaller, *case.operations[place + 1 :]))
            if fails(other):
                case = other
                break
    return case


def _smaller_operations(operation: Operation) -> Iterator[Operation]:
    name, number, *arguments = operation
    if name == "drafts" and arguments[0]:
        yield (name, number, arguments[0][:-1], arguments[1] and arguments[1][:-1])
        if arguments[1] is not None:
            yield (name, number, arguments[0], None)
    if name in ("bytes", "next") and arguments[0]:
        yield (name, number, arguments[0][:-1])
        yield (name, number, arguments[0][1:])
    if number:
        yield (name, 0, *arguments)


def _options(case: Case, fails: Fails) -> Case:
    """What is as it always is needs no mention."""
    for name in case.thresholds:
        other = replace(case, thresholds={key: value for key, value in case.thresholds.items() if key != name})
        case = other if fails(other) else case
    for name in case.options:
        other = replace(case, options={key: value for key, value in case.options.items() if key != name})
        case = other if fails(other) else case
    for changed in ({"memory": 64 << 20}, {"set_bytes": 64 << 20}, {"stops": case.stops[:1]}, {"stops": ()}):
        other = replace(case, **changed)  # type: ignore[arg-type]
        case = other if other != case and fails(other) else case
    return case


def _specification(case: Case, fails: Fails) -> Case:
    """A smaller grammar, text or JSON value."""
    changed = True
    while changed:
        changed = False
        if isinstance(case.specification, str):
            text = _fewer(case.specification, lambda text, here=case: fails(replace(here, specification=text)))
            changed, case = text != case.specification, replace(case, specification=text)
            continue
        smaller = _smaller_grammars if isinstance(case.specification, Grammar) else _smaller_values
        for specification in smaller(case.specification):
            other = replace(case, specification=specification)
            if fails(other):
                case, changed = other, True
                break
    return case


def _smaller_values(value: Any) -> Iterator[Any]:
    """JSON values with something left out or made simpler anywhere in them."""
    if isinstance(value, dict):
        for key in value:
            yield {other: value[other] for other in value if other != key}
        yield from (part for part in value.values() if isinstance(part, dict))
        for key, part in value.items():
            yield from ({**value, key: smaller} for smaller in _smaller_values(part))
    elif isinstance(value, list):
        for place in range(len(value)):
            yield value[:place] + value[place + 1 :]
        for place, part in enumerate(value):
            yield from ([*value[:place], smaller, *value[place + 1 :]] for smaller in _smaller_values(part))
    elif isinstance(value, str) and value:
        yield from (value[:place] + value[place + 1 :] for place in range(len(value)))
    elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
        yield from (value // 2, value - 1)


def _smaller_grammars(grammar: Grammar) -> Iterator[Grammar]:
    """Grammars of which one node is another that stands below it, is empty, or has less in it."""
    for place, node in enumerate(grammar.nodes):
        if node[0] == EMPTY:
            continue
        for smaller in _smaller_nodes(node, grammar):
            nodes = (*grammar.nodes[:place], smaller, *grammar.nodes[place + 1 :])
            yield replace(grammar, nodes=nodes)


def _smaller_nodes(node: tuple[Any, ...], grammar: Grammar) -> Iterator[tuple[Any, ...]]:
    operator, *arguments = node
    yield (EMPTY,)
    if operator == LITERAL:
        data = arguments[0]
        if len(data) > 1:
            yield from ((LITERAL, data[1:]), (LITERAL, data[:-1]))
        return
    if operator in (5, 6):  # a sequence or alternatives
        if len(arguments) > 1:
            yield from ((operator, *arguments[:i], *arguments[i + 1 :]) for i in range(len(arguments)))
        yield from (grammar.nodes[child] for child in arguments)
    elif operator == REPEAT:
        yield grammar.nodes[arguments[0]]
        if arguments[1:] != [0, -1]:
            yield (REPEAT, arguments[0], 0, -1)
        if arguments[1] > 0:
            yield (REPEAT, arguments[0], arguments[1] // 2, arguments[2])
        if arguments[2] > max(1, arguments[1]):
            yield (REPEAT, arguments[0], arguments[1], max(arguments[1], arguments[2] // 2))
    elif operator in (13, 14, 15, 16, 17):
        yield grammar.nodes[arguments[0]]
    elif operator == 9:
        edges = arguments[1]
        yield from ((9, arguments[0], edges[:i] + edges[i + 3 :]) for i in range(0, len(edges), 3))
        yield from (grammar.nodes[child] for child in edges[2::3] if child >= 0)
    elif operator == 12:
        members = arguments[0]
        yield from ((12, members[:i] + members[i + 2 :], *arguments[1:]) for i in range(0, len(members), 2) if len(members) > 2)
        if arguments[2:] != [0, -1]:
            yield (12, members, arguments[1], 0, -1)
    elif operator == TOKENS and len(arguments[0]) > 1:
        yield from ((TOKENS, arguments[0][:i] + arguments[0][i + 1 :], arguments[1]) for i in range(len(arguments[0])))
    elif operator == AUTOMATON:
        for state, transitions in enumerate(arguments[0]):
            for i in range(len(transitions)):
                fewer = (*transitions[:i], *transitions[i + 1 :])
                yield (AUTOMATON, (*arguments[0][:state], fewer, *arguments[0][state + 1 :]), *arguments[1:])
        if len(arguments) > 3:
            yield (AUTOMATON, *arguments[:3])
    elif operator in (3, 4) and len(arguments[0]) > 2:
        yield from ((operator, arguments[0][:i] + arguments[0][i + 2 :], *arguments[1:]) for i in range(0, len(arguments[0]), 2))


def _tokens(case: Case, fails: Fails) -> Case:
    """Fewer tokens; the others keep their ids."""
    with_text = [token for token, data in enumerate(case.tokens) if data]

    def only(kept: Sequence[int]) -> Case:
        chosen = set(kept)
        return replace(case, tokens=tuple(data if token in chosen else None for token, data in enumerate(case.tokens)))

    return only(_fewer(with_text, lambda kept: fails(only(kept))))


def _token_texts(case: Case, fails: Fails) -> Case:
    """Shorter tokens."""
    for token, data in enumerate(case.tokens):
        if data and len(data) > 1:

            def having(text: Any, token: int = token, here: Case = case) -> Case:
                return replace(here, tokens=(*here.tokens[:token], bytes(text), *here.tokens[token + 1 :]))

            case = having(_fewer(data, lambda text, having=having: bool(text) and fails(having(text))))
    return case


def _packed(case: Case, fails: Fails) -> Case:
    """Without the ids that have no text and nobody names."""
    used = [token for token, data in enumerate(case.tokens) if data or token in case.stops]
    numbers = {token: i for i, token in enumerate(used)}
    operations = []
    for name, matcher, *arguments in case.operations:
        moved = [
            [numbers.get(i, 0) for i in part] if isinstance(part, list) and place == 0 else part for place, part in enumerate(arguments)
        ]
        if name == "token":
            moved = [numbers.get(arguments[0], 0)]
        operations.append((name, matcher, *moved))
    other = replace(
        case,
        tokens=tuple(case.tokens[token] for token in used),
        stops=tuple(numbers[stop] for stop in case.stops),
        operations=tuple(operations),
    )
    return other if len(used) < len(case.tokens) and fails(other) else case
