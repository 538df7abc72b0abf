"""Stand-ins for the modules of SGLang 0.5.23 that the backend imports, with the names and parameters that it counts on, and no more.

The scheduler's side of the contract is here too, in the order in which SGLang makes its calls: `admit`, `fill`, `walk`, `commit`.
`scripts/sglang_check.py` does the same with the real one.
"""

# ruff: noqa: D101, D102 - the names are SGLang's, and its documentation describes them

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

SERVING = SimpleNamespace()
SPECULATION = SimpleNamespace()
PARALLEL = SimpleNamespace()
BUFFERS: dict[str, torch.Tensor] = {}


@dataclass
class GrammarStats:
    compilation_time: float | None = None
    schema_count: int | None = None
    ebnf_size: int | None = None
    is_cache_hit: bool = False
    is_grammar_aborted: bool = False
    tree_traversal_time: list[float] = field(default_factory=list)
    dispatch_type: str | None = None
    num_timeout: int = 0


class GrammarRow(NamedTuple):
    row: int
    grammar: Any


class BaseGrammarObject:
    def __init__(self) -> None:
        self._finished = False
        self.grammar_stats: Any = None
        self.current_token: int | None = None

    def maybe_init_reasoning(self, reasoning: bool) -> None: ...

    def accept_token(self, token: int) -> None:
        raise NotImplementedError

    rollback = is_terminated = fill_vocab_mask = try_jump_forward = jump_forward_str_state = jump_and_retokenize = accept_token
    apply_vocab_mask = staticmethod(lambda logits, vocab_mask: None)

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        raise NotImplementedError

    @staticmethod
    def fill_vocab_mask_batched(entries: Any, vocab_mask: torch.Tensor) -> None:
        for entry in entries:
            entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    def copy(self) -> Any:
        return self

    @property
    def finished(self) -> bool:
        return self._finished

    @finished.setter
    def finished(self, finished: bool) -> None:
        self._finished = finished


class InvalidGrammarObject(BaseGrammarObject):
    def __init__(self, error_message: str = "") -> None:
        super().__init__()
        self.error_message = error_message


class BaseGrammarBackend:
    _enable_strict_thinking = False

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(2)
        self.cache: Any = {}

    def dispatch_json(self, key_string: str) -> Any:
        raise NotImplementedError

    dispatch_regex = dispatch_ebnf = dispatch_structural_tag = dispatch_json
    initialize_vocab_mask_buffer = reserve_framing_tokens = dispatch_json

    def compile_framed_grammar(self, grammar: Any, frame: Any) -> Any:
        raise NotImplementedError

    def set_token_filter(
        self, vocab_mask: Any, token_ids: Any, batch_idx: int, is_allowed: bool = True, reset_vocab_mask: bool = True
    ) -> None:
        raise NotImplementedError

    def _init_value_dispatch(self, key: tuple[str, str], require_reasoning: bool) -> Any:
        kind = {"full_assistant_ebnf": "ebnf"}.get(key[0], key[0])
        grammar = getattr(self, f"dispatch_{kind}")(key[1])
        if grammar.grammar_stats is not None:
            grammar.grammar_stats.compilation_time = 0.001
        return grammar

    def get_cached_or_future_value(self, key: tuple[str, str], require_reasoning: bool) -> tuple[Any, bool]:
        value = self.cache.get(key)
        if value:
            copied = value.copy()
            copied.maybe_init_reasoning(require_reasoning)
            return copied, True
        return self.executor.submit(self._init_value_dispatch, key, require_reasoning), False

    def set_cache(self, key: tuple[str, str], value: Any) -> None:
        self.cache[key] = value

    def reset(self) -> None:
        self.cache.clear()


class ReasonerGrammarObject(BaseGrammarObject):
    """Everything is allowed up to a token that ends the thinking; then the grammar inside begins."""

    def __init__(self, grammar: Any, end: int) -> None:
        super().__init__()
        self.grammar, self.end = grammar, end
        self.tokens: list[int] = []
        self.is_free = False

    def maybe_init_reasoning(self, reasoning: bool) -> None:
        self.is_free = not reasoning

    @property
    def inside(self) -> int:
        """How many tokens the grammar has; -1 while thinking."""
        if self.is_free:
            return len(self.tokens)
        return len(self.tokens) - self.tokens.index(self.end) - 1 if self.end in self.tokens else -1

    def accept_token(self, token: int) -> None:
        if self.inside >= 0:
            self.grammar.accept_token(token)
        self.tokens.append(token)

    def rollback(self, k: int) -> None:
        if steps := min(k, max(0, self.inside)):
            self.grammar.rollback(steps)
        del self.tokens[len(self.tokens) - k :]

    def is_terminated(self) -> bool:
        return self.inside >= 0 and bool(self.grammar.is_terminated())

    def _grammar_active(self) -> bool:
        return self.inside >= 0

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        return self.grammar.allocate_vocab_mask(vocab_size, batch_size, device)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        if self.inside >= 0:
            self.grammar.fill_vocab_mask(vocab_mask, idx)

    def copy(self) -> Any:
        return ReasonerGrammarObject(self.grammar.copy(), self.end)


class ReasonerGrammarBackend(BaseGrammarBackend):
    def __init__(self, grammar_backend: Any, reasoning_parser: Any, tokenizer: Any, enable_strict_thinking: bool = False) -> None:
        super().__init__()
        # the names that the wrapper takes from the backend itself, and from its class
        for owner in (grammar_backend, type(grammar_backend)):
            assert all(map(callable, (owner.allocate_vocab_mask, owner.move_vocab_mask, owner.apply_vocab_mask, owner.set_token_filter)))
        assert grammar_backend.is_support_token_filter
        self.grammar_backend, self.end = grammar_backend, reasoning_parser.detector.get_think_end_token_ids(tokenizer)[0]
        self._enable_strict_thinking = enable_strict_thinking

    def _make_grammar_object(self, grammar: Any, reasoning: bool) -> Any:
        wrapped = ReasonerGrammarObject(grammar, self.end)
        wrapped.maybe_init_reasoning(reasoning)
        return wrapped

    def _frame_answer(self, grammar: Any, variant: str) -> Any: ...

    def _init_value_dispatch(self, key: tuple[str, str], reasoning: bool) -> Any:
        value = self.grammar_backend._init_value_dispatch(key, reasoning)
        return value if isinstance(value, InvalidGrammarObject) else self._make_grammar_object(value, reasoning)


class ReasoningParser:
    def __init__(self, model_type: str, stream_reasoning: bool, tokenizer: Any) -> None:
        self.detector = SimpleNamespace(get_think_end_token_ids=lambda tokenizer: [] if model_type == "silent" else [tokenizer.think_end])


class ScheduleBatch:
    def __init__(self, reqs: list[Any]) -> None:
        self.reqs = reqs
        self.has_grammar = any(request.grammar for request in reqs)
        self.is_synchronous = True

    def grammar_needs_sync(self) -> bool:
        return self.has_grammar and self.is_synchronous


class NGRAMWorker:
    """The n-gram proposer: `proposals` in place of the corpus, one list of paths for each request of a batch."""

    def __init__(self, size: int, *, breadth: int = 10) -> None:
        self.draft_token_num = size
        self.topk = breadth
        self.proposals: list[list[list[int]]] = []

    def _prepare_draft_tokens(self, batch: ScheduleBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        tokens, masks = [], []
        for row, request in enumerate(batch.reqs):
            paths: list[tuple[int, ...]] = [()]
            for path in self.proposals[row] if row < len(self.proposals) else []:
                paths += [place for end in range(1, len(path) + 1) if (place := tuple(path[:end])) not in paths]
            del paths[self.draft_token_num :]
            parents = [paths.index(path[:-1]) for path in paths] + [0] * (self.draft_token_num - len(paths))
            mask = np.eye(self.draft_token_num, dtype=np.int64)
            for node in range(1, self.draft_token_num):
                mask[node] |= mask[parents[node]]
            tokens.append([request.output_ids[-1], *(path[-1] for path in paths[1:]), *[0] * (self.draft_token_num - len(paths))])
            masks.append(mask)
        return np.array(tokens).ravel(), np.array(masks).ravel()


class HookType(Enum):
    AFTER = "after"
    REPLACE = "replace"


class HookRegistry:
    hooks: ClassVar[dict[str, Any]] = {}

    @classmethod
    def register(cls, target: str, hook: Any, hook_type: HookType = HookType.AFTER, *, source: Any = None) -> None:
        assert hook_type is HookType.AFTER
        cls.hooks[target] = hook

    @classmethod
    def apply_hooks(cls) -> None:
        """Errors are SGLang's to log; the target stays as it is then."""
        while cls.hooks:
            target, hook = cls.hooks.popitem()
            module, owner, name = target.rsplit(".", 2)
            _wrap(getattr(sys.modules[module], owner), name, hook)


def _wrap(owner: type, name: str, hook: Any) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*given: Any) -> Any:
        result = original(*given)
        changed = hook(result, *given)
        return result if changed is None else changed

    setattr(owner, name, wrapped)


def _register_vocab_mask_buffer(name: str, vocab_mask: torch.Tensor, max_rows: int) -> torch.Tensor:
    return BUFFERS.setdefault(name, vocab_mask)


def _option(value: float) -> SimpleNamespace:
    return SimpleNamespace(get=lambda: value)


def _modules() -> dict[str, dict[str, Any]]:
    choices = ["xgrammar", "none"]
    registry: dict[str, Any] = {}

    def register_grammar_backend(name: str, init_func: Any) -> None:
        registry[name] = init_func

    base = {item.__name__: item for item in (BaseGrammarBackend, BaseGrammarObject, GrammarStats, InvalidGrammarObject)}
    return {
        "sglang": {},
        "sglang.version": {"__version__": "0.5.23"},
        "sglang.srt": {},
        "sglang.srt.arg_groups": {},
        "sglang.srt.arg_groups.choices": {"GRAMMAR_BACKEND_CHOICES": choices, "add_grammar_backend_choices": choices.extend},
        "sglang.srt.constrained": {},
        "sglang.srt.constrained.base_grammar_backend": {
            **base,
            "GRAMMAR_BACKEND_REGISTRY": registry,
            "register_grammar_backend": register_grammar_backend,
            "register_vocab_mask_buffer": _register_vocab_mask_buffer,
        },
        "sglang.srt.constrained.reasoner_grammar_backend": {
            "ReasonerGrammarBackend": ReasonerGrammarBackend,
            "ReasonerGrammarObject": ReasonerGrammarObject,
        },
        "sglang.srt.environ": {
            "envs": SimpleNamespace(SGLANG_GRAMMAR_POLL_INTERVAL=_option(0.005), SGLANG_GRAMMAR_MAX_POLL_ITERATIONS=_option(10_000))
        },
        "sglang.srt.managers": {},
        "sglang.srt.managers.schedule_batch": {"ScheduleBatch": ScheduleBatch},
        "sglang.srt.parser": {},
        "sglang.srt.parser.reasoning_parser": {"ReasoningParser": ReasoningParser},
        "sglang.srt.plugins": {},
        "sglang.srt.plugins.hook_registry": {"HookRegistry": type("HookRegistry", (HookRegistry,), {"hooks": {}}), "HookType": HookType},
        "sglang.srt.runtime_context": {"get_parallel": lambda: PARALLEL, "get_serving": lambda: SERVING, "get_spec": lambda: SPECULATION},
        "sglang.srt.speculative": {},
        "sglang.srt.speculative.ngram_worker": {"NGRAMWorker": type("NGRAMWorker", (NGRAMWorker,), {})},
        "sglang.srt.utils": {},
        "sglang.srt.utils.common": {"is_pin_memory_available": lambda: False},
    }


@contextmanager
def installed() -> Iterator[dict[str, ModuleType]]:
    """Have the stand-ins in place of SGLang, with the defaults of its options; what imported them is forgotten afterwards."""
    SERVING.__dict__.update(
        reasoning_parser=None,
        enable_strict_thinking=False,
        constrained_json_whitespace_pattern=None,
        constrained_json_disable_any_whitespace=False,
        constrained_json_max_whitespace_cnt=None,
    )
    PARALLEL.__dict__.update(pp_rank=0)
    SPECULATION.__dict__.update(speculative_algorithm=None)
    before = {name: module for name, module in sys.modules.items() if _is_theirs(name)}
    for name in before:
        del sys.modules[name]
    modules = {}
    for name, contents in _modules().items():
        modules[name] = sys.modules[name] = ModuleType(name)
        modules[name].__dict__.update(contents)
    try:
        yield modules
    finally:
        for name in [name for name in sys.modules if _is_theirs(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def _is_theirs(name: str) -> bool:
    return name.split(".")[0] == "sglang" or name.startswith("stackmask.integration.sglang")


class Request:
    """The fields of a request that have to do with its grammar."""

    def __init__(self, kind: str, text: str, *, reasoning: bool = False, tokenizer: Any = None) -> None:
        self.key, self.reasoning = (kind, text), reasoning
        self.rid, self.tokenizer = f"{kind}-{text}", tokenizer
        self.output_ids = [1]
        self.grammar: Any = None
        self.failure = ""


def admit(backend: Any, *requests: Request, polls: int = 4000) -> int:
    """What GrammarManager does with new requests; the number of those that were served from the cache."""
    waiting, hits = [], 0
    for request in requests:
        request.grammar, is_hit = backend.get_cached_or_future_value(request.key, request.reasoning)
        hits += is_hit
        if not is_hit:
            assert isinstance(request.grammar, Future)
            waiting.append(request)
        elif isinstance(request.grammar, InvalidGrammarObject):
            request.failure = request.grammar.error_message
    for request in waiting:
        for _ in range(polls):
            if request.grammar.done():
                break
            try:
                request.grammar.result(timeout=0.005)
            except TimeoutError:
                continue
            except Exception:
                break
        else:
            request.grammar.cancel()
            request.grammar = InvalidGrammarObject("timed out")
            backend.set_cache(request.key, request.grammar)
            request.failure = "timed out"
            continue
        request.grammar = request.grammar.result()
        backend.set_cache(request.key, request.grammar.copy())
        if isinstance(request.grammar, InvalidGrammarObject):
            request.failure = request.grammar.error_message
    return hits


def fill(grammars: Sequence[Any], vocab_size: int) -> torch.Tensor:
    """The mask of a batch, as SamplingBatchInfo has it filled."""
    first = next(grammar for grammar in grammars if grammar)
    mask: torch.Tensor = first.allocate_vocab_mask(vocab_size=vocab_size, batch_size=len(grammars), device="cpu")
    rows = [GrammarRow(row, item) for row, item in enumerate(grammars) if item and not item.finished and not item.is_terminated()]
    first.fill_vocab_mask_batched(rows, mask)
    return mask


def walk(tokens: Sequence[int], child: Sequence[int], sibling: Sequence[int], grammar: Any, mask: torch.Tensor) -> None:
    """The walk over a tree of drafts: a bit of the parent's row decides, acceptance is not guarded."""
    stack: list[Callable[[], None]] = []

    def visit(node: int, parent: int) -> None:
        accepted = node == 0 or bool(int(mask[parent, tokens[node] // 32]) >> tokens[node] % 32 & 1)
        if sibling[node] >= 0:
            stack.append(lambda: visit(sibling[node], parent))
        if not accepted:
            return
        if node:
            grammar.accept_token(tokens[node])
            stack.append(lambda: grammar.rollback(1))
        if not grammar.is_terminated():
            grammar.fill_vocab_mask(mask, node)
            if child[node] >= 0:
                stack.append(lambda: visit(child[node], node))

    visit(0, -1)
    while stack:
        stack.pop()()


def commit(grammar: Any, tokens: Sequence[int]) -> tuple[list[int], str]:
    """The tokens that are kept of a verified run, and why the request is aborted."""
    kept = []
    try:
        for token in tokens:
            grammar.accept_token(token)
            kept.append(token)
            if grammar.is_terminated():
                break
    except ValueError as error:
        return kept, str(error)
    return kept, ""


def verify(request: Any, tokens: Sequence[int], mask: npt.NDArray[Any], choose: Callable[..., int], vocab_size: int) -> None:
    """One step of verification, whose tokens are accepted: `choose` is a model that takes one of the allowed tokens behind the others."""
    size = len(tokens)
    parents = [int(max(np.flatnonzero(mask[node][:node]), default=-1)) for node in range(size)]
    child = [next((node for node in range(size) if parents[node] == parent), -1) for parent in range(size)]
    sibling = [next((later for later in range(node + 1, size) if parents[later] == parents[node] >= 0), -1) for node in range(size)]
    rows = request.grammar.allocate_vocab_mask(vocab_size=vocab_size, batch_size=size, device="cpu")
    walk(tokens, child, sibling, request.grammar, rows)
    node, taken = 0, []
    while node >= 0:
        allowed = {32 * place + bit for place, word in enumerate(rows[node].tolist()) for bit in range(32) if word >> bit & 1}
        taken.append(choose([*request.output_ids, *taken], allowed))
        node = child[node]
        while node >= 0 and tokens[node] != taken[-1]:
            node = sibling[node]
    request.output_ids += commit(request.grammar, taken)[0]
