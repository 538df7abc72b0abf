"""Metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..engine import Answer, Engine

_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
_MASKS = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 1e-2)


class Metrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_EngineCollector(engine))
        self.requests = Counter("stackmask_requests", "Requests by route and HTTP status", ["route", "status"], registry=self.registry)
        self.finished = Counter("stackmask_answers", "Answers by how they ended", ["finish_reason"], registry=self.registry)
        self.closed = Counter("stackmask_answers_closed", "Answers closed before their budget ended", registry=self.registry)
        self.compile = Histogram(
            "stackmask_compile_seconds", "Compilation of a grammar", ["kind"], buckets=_SECONDS, registry=self.registry
        )
        self.hits = Counter("stackmask_grammar_cache", "Grammars by whether they were compiled already", ["result"], registry=self.registry)
        self.refused = Counter("stackmask_grammars_refused", "Grammars refused, by kind", ["kind"], registry=self.registry)
        self.mask = Histogram("stackmask_mask_seconds", "Mask time a token of constrained answers", buckets=_MASKS, registry=self.registry)
        self.seconds = Histogram("stackmask_answer_seconds", "From admission to the end", buckets=(*_SECONDS, 100), registry=self.registry)
        self.tokens = Counter("stackmask_tokens", "Tokens by how they came", ["source"], registry=self.registry)
        self.rollbacks = Counter("stackmask_rollbacks", "Drafts cut and texts taken back", registry=self.registry)

    def answer(self, answer: Answer) -> None:
        """Count an answer; called in the engine's thread."""
        stats = answer.stats
        self.finished.labels(answer.finish_reason).inc()
        self.closed.inc(answer.closed)
        self.seconds.observe(stats.prefill_seconds + stats.model_seconds + stats.mask_seconds)
        if stats.kind is not None and stats.tokens:
            self.mask.observe(stats.mask_seconds / stats.tokens)
        self.tokens.labels("prompt").inc(answer.prompt_tokens)
        self.tokens.labels("jump_forward").inc(stats.jump_tokens)
        self.tokens.labels("draft").inc(stats.draft_accepted)
        self.tokens.labels("sampled").inc(max(0, stats.tokens - stats.jump_tokens - stats.draft_accepted))
        self.rollbacks.inc(stats.rollbacks)

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)


class _EngineCollector(Collector):
    """The engine's own counts, read on demand."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """The engine's state."""
        info, cache = self._engine.info, self._engine.compiler.cache_info
        for name, help, value in (
            ("stackmask_running", "Requests in the batch", info.running),
            ("stackmask_waiting", "Requests that wait for a place", info.waiting),
            ("stackmask_compiling", "Requests that wait for their grammar", info.compiling),
            ("stackmask_grammar_cache_bytes", "Bytes of compiled grammars", cache.size),
            ("stackmask_grammar_cache_entries", "Compiled grammars", cache.entries),
        ):
            yield GaugeMetricFamily(name, help, value)
        for name, help, total in (
            ("stackmask_steps", "Steps of the engine", float(info.steps)),
            ("stackmask_forward_passes", "Forward passes of the model", float(info.forwards)),
            ("stackmask_model_seconds", "Time in the model", info.model_seconds),
            ("stackmask_masking_seconds", "Time in masks", info.mask_seconds),
            ("stackmask_sampling_seconds", "Time in sampling", info.sample_seconds),
        ):
            yield CounterMetricFamily(name, help, total)
