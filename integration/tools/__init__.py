"""Tool calls, by a table of how model families spell them.

    formats                        the table
    spelling                       its templates, taken apart
    tool                           the tools of a request, and what may be called
    kinds, fits                    what kinds of value a schema lets through, and whether it allows a value
    compose, compose_literals      arguments in notations that structural tags do not have
    templates                      a structural tag of a choice of tools
    arguments, elements, literals  the arguments of a call as JSON, while they come
    parser                         the answer as text and calls

>>> sorted(FORMATS)[:3]
['apertus', 'cohere_command', 'cohere_command4']
"""

from .formats import DEFAULT, FORMATS, Format, detect_format
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
    "Text",
    "Tool",
    "ToolError",
    "choose",
    "detect_format",
    "named_tokens",
    "read_tools",
    "structural_tag",
]
