"""The formats of JSON Schema as regular languages over decoded characters."""

from .rfc import NAMES, PATTERNS, format_accepts, format_dfa, format_lengths, format_longest, format_node, is_known

__all__ = [
    "NAMES",
    "PATTERNS",
    "format_accepts",
    "format_dfa",
    "format_lengths",
    "format_longest",
    "format_node",
    "is_known",
]
