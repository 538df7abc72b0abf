"""Offline beam search in vLLM, where a beam that continues is a fork.

vLLM compiles a grammar anew for every beam of every step and replays the beam's tokens into it.
Here the compilation is remembered, and the grammar that is handed a beam's tokens forks that of the beam without its last token.
Grammars are remembered for two lengths of beams, which is as far back as a step looks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...pda.matcher import Matcher
from ..compiler import CompiledGrammar
from .backend import Backend, Fronts, Grammar


class BeamBackend(Backend):
    """The backend of one search."""

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int, *, fronts: Fronts | None = None) -> None:
        super().__init__(vllm_config, tokenizer, vocab_size, fronts=fronts)
        self._compiled: dict[tuple[str, str], CompiledGrammar] = {}
        self._beams: dict[int, dict[tuple[int, ...], Matcher]] = {}
        self.forks = 0
        """The number of beams that continued a remembered beam."""

    def compile_grammar(self, request_type: Any, grammar_spec: str, stop_token_ids: Collection[int] | None = None) -> Grammar:
        """A grammar for one beam; the search calls its `accept_tokens` once, with the beam's tokens."""
        key = (request_type.name, grammar_spec)
        if key not in self._compiled:
            self._compiled[key] = self.front.compile(*key)
        return _Beam(self, self._compiled[key], stop_token_ids)

    def destroy(self) -> None:
        """Forget the beams; compiled grammars stay for the next search."""
        self._compiled.clear()
        self._beams.clear()

    def matcher_at(self, tokens: Sequence[int], beginning: Matcher) -> Matcher:
        """The matcher after these tokens: one token on from that of the beam before, or replayed from the beginning."""
        parent = self._beams.get(len(tokens) - 1, {}).get(tuple(tokens[:-1]))
        self.forks += parent is not None
        matcher = (parent or beginning).fork()
        for token in tokens[-1:] if parent else tokens:
            if not matcher.accept_token(token):
                raise RuntimeError(f"a beam took token {token}, which its grammar forbids: {matcher.explain(token)}")
        self._beams = {length: beams for length, beams in self._beams.items() if length >= len(tokens) - 1}
        self._beams.setdefault(len(tokens), {})[tuple(tokens)] = matcher
        return matcher


class _Beam(Grammar):
    """The state of one beam."""

    __slots__ = ("_backend",)

    def __init__(self, backend: BeamBackend, grammar: CompiledGrammar, stop_token_ids: Collection[int] | None) -> None:
        super().__init__(grammar, stop_token_ids)
        self._backend = backend

    def accept_tokens(self, request_id: str, tokens: Sequence[int]) -> bool:
        """Go to where the beam is."""
        self._matcher = self._backend.matcher_at(tokens, self._matcher)
        return True
