"""Settings that are variables of the environment."""

from __future__ import annotations

from collections.abc import Mapping


def read_flag(environment: Mapping[str, str], name: str, default: bool) -> bool:
    """A setting that is 1 or 0; the default where it is absent or empty.

    >>> read_flag({"QUICK": "0"}, "QUICK", True), read_flag({}, "QUICK", True)
    (False, True)
    """
    text = environment.get(name) or str(int(default))
    if text not in ("0", "1"):
        raise ValueError(f"{name} must be 0 or 1, not {text!r:.60}")
    return text == "1"
