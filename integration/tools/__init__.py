"""Tool calls, by a table of how model families spell them.

`formats` is the table, and `spelling` takes its templates apart. `tool` reads the tools of a request and what may be called.
`templates` makes a structural tag of a choice of tools. `parser` reads the answer as text and calls; `arguments` and `elements` read
the arguments of a call as JSON, with the help of `kinds`.
"""

from .formats import DEFAULT, FORMATS, Format, Style, detect_format
from .parser import Call, CallParser, Piece, Text
from .spelling import MARK, named_tokens
from .templates import structural_tag
from .tool import Choice, Tool, ToolError, choose, read_tools

__all__ = [
    "DEFAULT",
    "FORMATS",
    "MARK",
    "Call",
    "CallParser",
    "Choice",
    "Format",
    "Piece",
    "Style",
    "Text",
    "Tool",
    "ToolError",
    "choose",
    "detect_format",
    "named_tokens",
    "read_tools",
    "structural_tag",
]
