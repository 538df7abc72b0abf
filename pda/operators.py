"""The operators of the intermediate representation: a number, a name, and their operands in a node.

One table serves everything that reads nodes: the printer, the serialiser and its checks, embedding, the analyses and the reference engine.
The kernel has the same numbers in the same order (`Operator` in kernel/rules/nfa.h).
grammar.py describes each operator.

>>> SIGNATURES[Op.REPEAT].operands
(<Operand.NODE: 'node'>, <Operand.MINIMUM: 'minimum'>, <Operand.MAXIMUM: 'maximum'>)
>>> list(operands((Op.GRAPH.value, 3, (0, 2, 5, 2, 1, -1))))
[5]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

Node: TypeAlias = tuple[Any, ...]
"""An operator's number and its operands, of the kinds that SIGNATURES lists for it."""


class Op(IntEnum):
    """An operator. Nodes hold its plain number, which is faster to hash, to pickle and to read in the kernel."""

    EMPTY = 0
    NEVER = 1
    LITERAL = 2
    BYTES = 3
    CHARS = 4
    SEQ = 5
    ALT = 6
    REPEAT = 7
    CALL = 8
    GRAPH = 9
    AUTOMATON = 10
    TOKENS = 11
    PERMUTE = 12
    SCOPE = 13
    DISTINCT = 14
    LIMIT = 15
    CAPTURE = 16
    TEMPERATURE = 17
    EXCEPT = 18


class Operand(Enum):
    """A kind of operand."""

    NODE = "node"
    NODES = "nodes"  # all that follow
    RULE = "rule"
    DATA = "data"
    BYTE_RANGES = "ranges of bytes"
    CHAR_RANGES = "ranges of code points"
    ENCODING = "encoding"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"  # -1 is no bound
    STATES = "number of states"
    EDGES = "edges"  # source, target, node, ...
    TRANSITIONS = "transitions"
    ACCEPTING = "accepting states"
    WORDS = "words"
    TOKEN_IDS = "token ids"
    NEGATION = "negation"  # 0, 1, or 2: tokens without text too
    MEMBERS = "members"  # node, flags, ...
    TOKENS = "number of tokens"
    NAME = "name"
    TEMPERATURE = "temperature"


class Signature(NamedTuple):
    """The kinds of an operator's operands, in their order; the last `optional` of them stand together or not at all."""

    operands: tuple[Operand, ...] = ()
    optional: int = 0


SIGNATURES: Final[dict[int, Signature]] = {
    Op.EMPTY: Signature(),
    Op.NEVER: Signature(),
    Op.LITERAL: Signature((Operand.DATA,)),
    Op.BYTES: Signature((Operand.BYTE_RANGES,)),
    Op.CHARS: Signature((Operand.CHAR_RANGES, Operand.ENCODING)),
    Op.SEQ: Signature((Operand.NODES,)),
    Op.ALT: Signature((Operand.NODES,)),
    Op.REPEAT: Signature((Operand.NODE, Operand.MINIMUM, Operand.MAXIMUM)),
    Op.CALL: Signature((Operand.RULE,)),
    Op.GRAPH: Signature((Operand.STATES, Operand.EDGES)),
    Op.AUTOMATON: Signature((Operand.TRANSITIONS, Operand.ACCEPTING, Operand.ENCODING, Operand.MINIMUM, Operand.MAXIMUM), optional=2),
    Op.TOKENS: Signature((Operand.TOKEN_IDS, Operand.NEGATION)),
    Op.PERMUTE: Signature((Operand.MEMBERS, Operand.NODE, Operand.MINIMUM, Operand.MAXIMUM)),
    Op.SCOPE: Signature((Operand.NODE,)),
    Op.DISTINCT: Signature((Operand.NODE,)),
    Op.LIMIT: Signature((Operand.NODE, Operand.TOKENS)),
    Op.CAPTURE: Signature((Operand.NODE, Operand.NAME)),
    Op.TEMPERATURE: Signature((Operand.NODE, Operand.TEMPERATURE)),
    Op.EXCEPT: Signature((Operand.WORDS, Operand.ENCODING)),
}

# The numbers as nodes hold them.
EMPTY: Final = Op.EMPTY.value
NEVER: Final = Op.NEVER.value
LITERAL: Final = Op.LITERAL.value
BYTES: Final = Op.BYTES.value
CHARS: Final = Op.CHARS.value
SEQ: Final = Op.SEQ.value
ALT: Final = Op.ALT.value
REPEAT: Final = Op.REPEAT.value
CALL: Final = Op.CALL.value
GRAPH: Final = Op.GRAPH.value
AUTOMATON: Final = Op.AUTOMATON.value
TOKENS: Final = Op.TOKENS.value
PERMUTE: Final = Op.PERMUTE.value
SCOPE: Final = Op.SCOPE.value
DISTINCT: Final = Op.DISTINCT.value
LIMIT: Final = Op.LIMIT.value
CAPTURE: Final = Op.CAPTURE.value
TEMPERATURE: Final = Op.TEMPERATURE.value
EXCEPT: Final = Op.EXCEPT.value

# Encodings: how a code point is written as bytes.
RAW: Final = 0
UTF8: Final = 1
JSON: Final = 2
JSON_ANY: Final = 3
ENCODINGS: Final = ("bytes", "utf8", "json", "json_any")
"""Their names, by number."""

# Flags of the members of PERMUTE.
REQUIRED: Final = 1
REPEATABLE: Final = 2


def operands(node: Node) -> Sequence[int]:
    """The nodes that a node refers to, in their order, without a rule that it calls."""
    return _REFERENCES[node[0]](node)


def _references(kinds: tuple[Operand, ...]) -> Callable[[Node], Sequence[int]]:
    """A function that finds the references among operands of these kinds."""
    match [kind for kind in kinds if kind in (Operand.NODE, Operand.NODES, Operand.EDGES, Operand.MEMBERS)]:
        case [Operand.NODES]:
            return lambda node: node[1:]
        case [Operand.EDGES]:
            return lambda node: [inner for inner in node[2][2::3] if inner >= 0]
        case [Operand.MEMBERS, Operand.NODE]:
            return lambda node: (*node[1][::2], node[2])
        case [Operand.NODE]:
            return lambda node: node[1:2]
        case _:
            return lambda node: ()


_REFERENCES: Final = {int(operator): _references(signature.operands) for operator, signature in SIGNATURES.items()}
