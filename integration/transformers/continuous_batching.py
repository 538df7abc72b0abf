"""Grammars in the continuous batching of `transformers`, one for each request.

    manager = model.init_continuous_batching(continuous_batching_config=ContinuousBatchingConfig(use_cuda_graph=False))
    attach(manager, model.config.vocab_size)
    manager.start()
    manager.add_request(ids, grammar=compiler.json_schema(schema))

A processor for `generate` would see only the last token of each row here.
The library's per-request processors see the requests themselves, with all their tokens.
There is no public way to add one, so `attach` checks the manager's list against the tested version and adds the processor to it.

Under pressure the library drops a request's keys and values and restarts it, with the generated tokens as part of the prompt.
The new request has no matcher yet, so one is made that accepts all of these tokens.

This is not `GrammarLogitsProcessor`, which serves `model.generate`.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from transformers.generation.continuous_batching.cb_logits_processors import (
    ContinuousBatchingLogitsProcessor,
    ContinuousBatchingLogitsProcessorList,
)

from ...pda.engine import fill_bitmasks
from ...pda.matcher import Matcher, allocate_token_bitmask
from ..compiler import CompiledGrammar
from ..torch import apply_token_bitmask_inplace

_USED: Final = ("check_kwargs", "fill_defaults", "prepare_tensor_args", "_retrieve_processors_kwargs")
"""The methods of the manager's list that the processor counts on."""


@dataclass(slots=True)
class _Row:
    """A request's matcher, and how many of its tokens it has accepted; None where they left the grammar."""

    matcher: Matcher | None
    consumed: int = 0

    def follow(self, tokens: Sequence[int]) -> Matcher | None:
        """The matcher after all of the tokens so far."""
        for token in tokens[self.consumed :]:
            if self.matcher is None or not self.matcher.accept_token(token):
                self.matcher = None
                break
        self.consumed = len(tokens)
        return self.matcher


class GrammarBatchProcessor(ContinuousBatchingLogitsProcessor):
    """Keeps each request that came with `grammar=` inside it; others are free. One instance serves one manager."""

    supported_kwargs: dict[str, type] = {"grammar": CompiledGrammar}  # noqa: RUF012 - so the library declares and reads it
    ignored_kwargs: tuple[str, ...] = ()

    def __init__(self, vocab_size: int) -> None:
        self._size = vocab_size
        self._rows: dict[int, _Row] = {}
        self._bitmask = allocate_token_bitmask(1, vocab_size)
        self._masked: list[int] = []

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        """Nothing: the data that the processor needs for a step does not fit into the library's one number for each request."""

    def prepare_tensor_args(self, requests_with_new_token: Sequence[Any]) -> torch.Tensor:
        """Fill the masks of the next step, before the forward pass; the numbers that are asked for are not used."""
        matchers: list[Matcher] = []
        self._masked = []
        for place, request in enumerate(requests_with_new_token):
            matcher = self._matcher(request.state)
            if matcher is not None:
                matchers.append(matcher)
                self._masked.append(place)
        if len(requests_with_new_token) > len(self._bitmask):
            self._bitmask = allocate_token_bitmask(len(requests_with_new_token), self._size)
        fill_bitmasks(matchers, self._bitmask, self._masked)
        return torch.zeros(len(requests_with_new_token), dtype=torch.int32)

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        """The scores with those of forbidden tokens at minus infinity."""
        if self._masked:
            apply_token_bitmask_inplace(scores, self._bitmask, indices=self._masked)
        return scores

    def check(self, grammar: CompiledGrammar) -> None:
        """Raise where a grammar is not for the model's tokens: that is an error of one request."""
        if grammar.vocabulary.size != self._size:
            raise ValueError(f"the grammar is for {grammar.vocabulary.size} tokens, the model has {self._size}")

    def _matcher(self, state: Any) -> Matcher | None:
        """The matcher of a request after all of its tokens; None for a free one."""
        grammar: CompiledGrammar | None = state.logit_processor_kwargs.get("grammar")
        if grammar is None:
            return None
        place = id(state)
        if place not in self._rows:
            self._rows[place] = _Row(grammar.matcher(_stops(state.eos_token_id)))
            weakref.finalize(state, self._rows.pop, place, None)
        before = state.initial_tokens[state._true_initial_tokens :] if state._true_initial_tokens else []
        return self._rows[place].follow([*before, *state.generated_tokens])


def attach(manager: Any, vocab_size: int) -> GrammarBatchProcessor:
    """Let the requests of a manager bring a `grammar`; `vocab_size` is the width of the model's logits. Before the manager starts."""
    _check(manager)
    processors: ContinuousBatchingLogitsProcessorList = manager.logit_processor
    ours = GrammarBatchProcessor(vocab_size)
    # INVARIANT: it comes first. After top-k or top-p, everything that they left may be forbidden.
    processors.logits_processor.insert(0, ours)
    processors.tensors_required += 1
    processors._retrieve_processors_kwargs()
    processors.do_processing = True
    theirs: Callable[[dict[str, Any]], None] = processors.check_kwargs

    def check_kwargs(kwargs: dict[str, Any]) -> None:
        theirs(kwargs)
        if "grammar" in kwargs:
            ours.check(kwargs["grammar"])

    processors.check_kwargs = check_kwargs  # type: ignore[method-assign]
    return ours


def _check(manager: Any) -> None:
    """Raise if the manager differs from the tested one, or would give the processor tokens too late."""
    processors: Any = getattr(manager, "logit_processor", None)
    config = getattr(manager, "continuous_batching_config", None)
    missing = [name for name in _USED if not hasattr(processors, name)]
    if missing or config is None:
        raise RuntimeError(f"continuous batching of this transformers has no {', '.join(missing) or 'configuration'}; 5.23 was tested")
    if tuple(inspect.signature(ContinuousBatchingLogitsProcessor.prepare_tensor_args).parameters) != ("self", "requests_with_new_token"):
        raise RuntimeError("per-request processors of this transformers take other arguments; 5.23 was tested")
    if any(isinstance(item, GrammarBatchProcessor) for item in processors.logits_processor):
        raise RuntimeError("the manager has a grammar processor already")
    if manager.is_running():
        raise RuntimeError("the manager runs already: attach before start")
    if config.use_async_batching:
        raise ValueError("with use_async_batching the last token is not known when the mask is made: set it to False")
    if any(config.cuda_graph_booleans):
        raise ValueError("CUDA graphs would replay the mask of the step that was captured: set use_cuda_graph to False")


def _stops(eos_token_id: int | Iterable[int] | None) -> list[int] | None:
    """The tokens that end a request, None for those of the vocabulary; negative ids stand for none."""
    ids = [eos_token_id] if isinstance(eos_token_id, int) else list(eos_token_id or ())
    return [token for token in ids if token >= 0] or None
