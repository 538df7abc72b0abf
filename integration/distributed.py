"""Grammars on several ranks of `torch.distributed`: ready on all, failed on any.

Every rank compiles the same specification to the same grammar, so ranks only need to agree on when a grammar is ready.
`poll` is for a scheduler that runs on every rank and must admit a request at the same step everywhere.
`broadcast` is for engines that prefer to compile on one rank only.

    pending = {request_id: compiler.submit("json_schema", schema)}        the same requests on every rank
    ready, failed = poll(pending, group)                                  the same answer on every rank

Ranks exchange fingerprints and error messages, through a group that accepts objects, such as gloo on the CPU.
Objects are unpickled, so the ranks of a group must trust each other. The bytes of a grammar are checked nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import torch.distributed as dist

from ..pda.exceptions import StackmaskError
from ..pda.limits import Limits
from ..pda.vocabulary import Vocabulary
from .compiler import CompiledGrammar

Key = TypeVar("Key")


class RankError(StackmaskError):
    """A grammar cannot be used on every rank; `ranks` has the report of each rank that failed."""

    def __init__(self, ranks: Mapping[int, str]) -> None:
        self.ranks = dict(ranks)
        super().__init__("; ".join(f"rank {rank}: {message}" for rank, message in sorted(self.ranks.items())))


def poll(pending: Mapping[Key, Future[CompiledGrammar]], group: Any = None) -> tuple[dict[Key, CompiledGrammar], dict[Key, RankError]]:
    """The grammars that every rank has by now, and those that some rank has failed to compile; the others are still pending.

    All ranks of the group call it together, with the same keys in the same order, and get the same keys back.
    It waits for the other ranks to call it, but not for a compilation.
    """
    reports = _exchange({key: _report(future) for key, future in pending.items()}, group)
    if any(list(report) != list(pending) for report in reports):
        raise RankError({rank: f"has {list(report)}" for rank, report in enumerate(reports)})
    ready: dict[Key, CompiledGrammar] = {}
    failed: dict[Key, RankError] = {}
    for key, future in pending.items():
        states = [report[key] for report in reports]
        if errors := {rank: message for rank, (fingerprint, message) in enumerate(states) if message is not None}:
            failed[key] = RankError(errors)
        elif all(fingerprint is not None for fingerprint, _ in states):
            if len(set(states)) > 1:
                failed[key] = RankError({rank: f"has the grammar {fingerprint}" for rank, (fingerprint, _) in enumerate(states)})
            else:
                ready[key] = future.result()
    return ready, failed


def broadcast(
    compile: Callable[[], CompiledGrammar], vocabulary: Vocabulary, *, source: int = 0, group: Any = None, limits: Limits | None = None
) -> CompiledGrammar:
    """The grammar that one rank compiles, on every rank; if compiling or reading it fails on one, it fails on all."""
    grammar: CompiledGrammar | None = None
    error: str | None = None
    rank = dist.get_rank(group)
    sent: list[tuple[bytes | None, str | None]] = [(None, None)]
    if rank == source:
        grammar, error = _attempt(compile)
        sent = [(grammar.to_bytes() if grammar is not None else None, error)]
    dist.broadcast_object_list(sent, group_src=source, group=group)
    data, error = sent[0]
    if rank != source and data is not None:
        grammar, error = _attempt(lambda: CompiledGrammar.from_bytes(data, vocabulary, limits=limits))
    errors = {place: message for place, message in enumerate(_exchange(error, group)) if message is not None}
    if errors or grammar is None:
        raise RankError(errors if data is not None else {source: errors[source]})
    return grammar


def _attempt(make: Callable[[], CompiledGrammar]) -> tuple[CompiledGrammar | None, str | None]:
    """A grammar, or the message of the error in its place."""
    try:
        return make(), None
    except StackmaskError as error:
        return None, str(error)


def _report(future: Future[CompiledGrammar]) -> tuple[str | None, str | None]:
    """The fingerprint of a grammar that is ready, the message of an error, or neither."""
    if not future.done():
        return None, None
    if future.cancelled():
        return None, "cancelled"
    error = future.exception()
    return (future.result().fingerprint, None) if error is None else (None, f"{type(error).__name__}: {error}")


def _exchange(value: Any, group: Any) -> list[Any]:
    """The value of every rank, in their order."""
    values: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(values, value, group=group)
    return values
