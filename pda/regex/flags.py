"""The flags of regular expressions, as bits."""

from __future__ import annotations

from typing import Final

IGNORE_CASE: Final = 1
DOT_ALL: Final = 2
MULTILINE: Final = 4
VERBOSE: Final = 8
ASCII_ONLY: Final = 16
