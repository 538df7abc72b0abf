"""When two JSON texts are the same value, for the reference engine's DISTINCT.

Numbers are equal by value without any rounding, strings after unescaping, objects without regard to the order of their keys; true is not 1.
A value is named by a digest, so that a value nested 100,000 deep costs neither recursion nor more than 32 bytes once it is read.
A text that is not JSON is a separate value, equal only to itself.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, localcontext
from hashlib import blake2b

_TOKEN = re.compile(
    rb'[ \t\n\r]*([{}\[\],:]|"(?:[^"\\\x00-\x1f]|\\.)*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)[ \t\n\r]*'
)
_ZERO = re.compile(rb"(?<![0-9.eE+-])-?0(?:\.(?P<zeros>0*))?(?:[eE][+-]?(?P<exponent>[0-9]*))?\Z")
_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


def value_digest(text: bytes) -> bytes:
    r"""A name of the JSON value that `text` spells; equal for equal values.

    >>> value_digest(b'{"a":1,"b":[1.50]}') == value_digest(b'{"b": [15e-1], "\\u0061": 1.0}')
    True
    >>> value_digest(b"1") == value_digest(b"true")
    False
    """
    try:
        return _read(text)
    except ValueError:
        return _digest(b"text", text)


def is_inside_string(text: bytes) -> bool:
    """Whether the beginning of a JSON text ends inside a string."""
    return re.sub(rb"\\.", b"", text, flags=re.DOTALL).count(b'"') % 2 == 1


def without_blanks(text: bytes) -> bytes:
    """The beginning of a JSON text, without the blanks between its parts; one stays where it parts what would be read as one."""
    packed = re.sub(rb'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|[ \t\n\r]+', lambda found: found[1] or b" ", text, flags=re.DOTALL)
    return re.sub(rb'("(?:[^"\\]|\\.)*(?:"|\\?\Z))| ?([,:\[\]{}]) ?', lambda found: found[1] or found[2], packed, flags=re.DOTALL)


def ends_in_zero(text: bytes) -> bool:
    """Whether the beginning of a JSON text ends in a number that is zero so far, and stays zero whatever exponent follows.

    >>> [ends_in_zero(text) for text in (b"[0", b"[-0.0e5", b"[10", b'["0')]
    [True, True, False, False]
    """
    return _ZERO.search(text) is not None and not is_inside_string(text)


def with_one_zero(text: bytes, *, fraction: bool) -> bytes:
    """A text that ends in zero with one digit of its exponent, or of its fraction, instead of all."""
    if (found := _ZERO.search(text)) is None or not (found["exponent"] or (fraction and found["zeros"])):
        return text
    begin, end = found.span("exponent" if found["exponent"] else "zeros")
    return text[: begin + 1] + text[end:]


def _digest(*parts: bytes) -> bytes:
    """The digest of a list of byte strings."""
    state = blake2b(digest_size=32)
    for part in parts:
        state.update(b"%d:" % len(part))
        state.update(part)
    return state.digest()


def _tokens(text: bytes) -> list[bytes]:
    """The JSON tokens of a text; ValueError where there are others."""
    tokens: list[bytes] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(position)
        tokens.append(found.group(1))
        position = found.end()
    return tokens


def _scalar(token: bytes) -> bytes:
    """The digest of a string, number or word."""
    if token[:1] == b'"':
        return _digest(b"string", _string(token))
    if token in (b"true", b"false", b"null"):
        return _digest(token)
    if token in (b"{", b"}", b"[", b"]", b",", b":"):
        raise ValueError(token)
    return _digest(b"number", _number(token.decode()).encode())


def _string(token: bytes) -> bytes:
    """The text of a JSON string."""
    value = json.loads(token.decode())
    assert isinstance(value, str)
    return value.encode("utf-8", "surrogatepass")


def _number(text: str) -> str:
    """A number as sign, digits without zeros at either end, and exponent.

    The exponent is added as a Decimal of enough digits: int() refuses texts of more than 4,300 digits.
    """
    found = _NUMBER.fullmatch(text)
    assert found is not None
    sign, whole, fraction, exponent = found.group(1), found.group(2), found.group(3) or "", found.group(4) or "0"
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0"
    with localcontext() as context:
        context.prec = len(exponent) + 20
        scale = Decimal(exponent) - len(fraction) + (len(digits) - len(digits.rstrip("0")))
        return f"{sign}{digits.rstrip('0')}e{scale + 0:f}"


def _read(text: bytes) -> bytes:
    """The digest of one JSON value, read with a stack of the open arrays and objects; ValueError where it is malformed."""
    open_values: list[tuple[bytes | None, list[bytes], dict[bytes, bytes] | None]] = []
    tokens = _tokens(text)
    position = 0

    def token() -> bytes:
        nonlocal position
        if position == len(tokens):
            raise ValueError(position)
        position += 1
        return tokens[position - 1]

    def key() -> bytes:
        name = token()
        if name[:1] != b'"' or token() != b":":
            raise ValueError(position)
        return _string(name)

    while True:
        first = token()
        if first == b"[" and tokens[position : position + 1] != [b"]"]:
            open_values.append((None, [], None))
            continue
        if first == b"{" and tokens[position : position + 1] != [b"}"]:
            open_values.append((key(), [], {}))
            continue
        if first in (b"[", b"{"):
            token()
            value = _digest(b"array") if first == b"[" else _digest(b"object")
        else:
            value = _scalar(first)
        while open_values:
            name, items, members = open_values.pop()
            mark = token()
            if members is None:
                items.append(value)
                if mark == b",":
                    open_values.append((None, items, None))
                    break
                if mark != b"]":
                    raise ValueError(position)
                value = _digest(b"array", *items)
            else:
                assert name is not None
                members[name] = value
                if mark == b",":
                    open_values.append((key(), items, members))
                    break
                if mark != b"}":
                    raise ValueError(position)
                value = _digest(b"object", *(part for pair in sorted(members.items()) for part in pair))
        else:
            if position != len(tokens):
                raise ValueError(position)
            return value
