"""The server's settings for its operator, one line each."""

from __future__ import annotations

from typing import Any

from .serving import Serving


def summary(serving: Serving, chat_template: str) -> list[str]:
    """The lines; `chat_template` says where the chat template comes from."""
    engine, options, planner = serving.engine, serving.options, serving.planner
    key = "asked for" if options.api_key else "none: whoever reaches this address can use it"
    kinds = "all kinds" if options.constraints is None else ", ".join(sorted(options.constraints)) or "none"
    rows = {
        "model": f"{options.model_name} ({_model(engine.model)})",
        "device": str(getattr(engine.model, "device", "cpu")),
        "context": f"{engine.slots.context} tokens; prompts of at most {_size(planner.encoder.longest_text)}",
        "chat": chat_template,
        "tools": f"{planner.dialect.format.name} ({planner.dialect.source})",
        "batch": f"{engine.max_running} requests; {options.max_queue} wait",
        "requests": f"{_size(options.max_body_bytes)}; {options.max_messages} messages; {options.max_choices} choices",
        "grammars": f"{kinds}; {_size(options.max_grammar_bytes)} and {options.grammar_timeout:g} s each",
        "API key": key,
    }
    return [f"  {name:9} {value}" for name, value in rows.items()]


def _model(model: Any) -> str:
    """A model's class, size and type of numbers, as far as it says."""
    parts = [type(model).__name__]
    if hasattr(model, "num_parameters"):
        parts.append(f"{model.num_parameters() / 1e6:.1f} million weights")
    if hasattr(model, "dtype"):
        parts.append(str(model.dtype).removeprefix("torch."))
    return ", ".join(parts)


def _size(size: int) -> str:
    """A number of bytes for people."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"
