"""Tool calls, by a table of the notations of model families.

    formats                        the table
    spelling                       its templates, taken apart
    tool                           the tools of a request, and which of them may be called
    kinds, fits                    the kinds of value that a schema allows, and whether it allows a given value
    compose, compose_literals      arguments in notations that structural tags do not write by themselves
    templates                      the structural tag for a choice of tools
    arguments, elements, literals  the arguments of a call as JSON, while they arrive
    parser                         an answer read as text and calls

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
