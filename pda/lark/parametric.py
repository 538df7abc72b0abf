r"""Parametric rules: rules with a number of 64 bits, as llguidance has them (its docs/parametric.md).

    start: perm::0
    perm::_: ""                     %if is_ones([0:2])
           | "a" perm::set_bit(0)   %if bit_clear(0)
           | "b" perm::set_bit(1)   %if bit_clear(1)

A rule with a number is a rule for each number that reaches it, in which the alternatives with a false condition are left out. So these
grammars are context-free, and only as large as what the start rule leads to; `Limits.rules` bounds it.

Numbers, with p for the one of the rule they stand in:

    5   0x1f   _                    these, and p itself
    set_bit(k)   clear_bit(k)       p with bit k set, or clear
    bit_or(5)    bit_and(5)         p | 5, p & 5
    incr([x:y])  decr([x:y])        p with its bits x to y - 1 one higher, or lower, as long as that fits into them

Conditions, in which `_` stands for [0:64]:

    true   and(c, c)   or(c, c)   not(c)
    bit_set(k)   bit_clear(k)   is_ones([x:y])   is_zeros([x:y])
    eq([x:y], 5)   and likewise ne lt le gt ge; bit_count_eq([x:y], 5) and so on compare the number of bits set
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NoReturn, TypeAlias

Number: TypeAlias = Callable[[int], int]
"""The number of a called rule, from that of the rule that calls it."""

Condition: TypeAlias = Callable[[int], bool]
"""Whether an alternative is there, from the number of its rule."""

Field: TypeAlias = tuple[int, int]
"""Some bits of a number: how far they are shifted, and a mask for what is left."""

_BITS: Final = 64
_ALL: Final = (1 << _BITS) - 1
# Conditions in each other: reading them costs Python's stack.
_MOST_NESTED: Final = 50
_TOKEN: Final = re.compile(r"\s*(?:([A-Za-z_]+)|(0[xX][0-9A-Fa-f]+|[0-9]+)|([\[\]:(),]))")
_COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_NUMBERS: Final = ("set_bit", "clear_bit", "bit_and", "bit_or", "incr", "decr")
_CONDITIONS: Final = (
    *("true", "bit_set", "bit_clear", "is_ones", "is_zeros", *_COMPARISONS),
    *(f"bit_count_{name}" for name in _COMPARISONS),
    *("and", "or", "not"),
)


class ParameterError(Exception):
    """A number or a condition is malformed; `offset` is the place in its text."""

    def __init__(self, message: str, offset: int) -> None:
        self.offset = offset
        super().__init__(message)


@lru_cache(maxsize=1024)
def read_number(text: str) -> tuple[Number, bool]:
    """The expression behind `::`, and whether it needs the number of the rule that it stands in.

    >>> number, needed = read_number("set_bit(3)")
    >>> number(1), needed, read_number("0x1f")[1]
    (9, True, False)
    """
    reader = _Reader(text)
    number = reader.expression()
    reader.finish()
    return number


@lru_cache(maxsize=1024)
def read_condition(text: str) -> Condition:
    """The condition behind %if.

    >>> condition = read_condition("and(bit_clear(0), lt([1:3], 2))")
    >>> condition(0b010), condition(0b100), condition(0b001)
    (True, False, False)
    """
    reader = _Reader(text)
    condition = reader.condition(0)
    reader.finish()
    return condition


class _Reader:
    """Reads a number or a condition from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def next(self) -> str:
        """The next name, number or mark; empty at the end."""
        match = _TOKEN.match(self.text, self.at)
        return "" if match is None else match.group().strip()

    def take(self) -> str:
        """The same, and go past it."""
        match = _TOKEN.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return "" if match is None else match.group().strip()

    def refuse(self, message: str) -> NoReturn:
        """Raise an error at the next token."""
        blanks = len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
        raise ParameterError(message, self.at + blanks)

    def expect(self, mark: str) -> None:
        """Go past a mark that must stand here."""
        if self.next() != mark:
            self.refuse(f"expected `{mark}` here")
        self.take()

    def finish(self) -> None:
        """Check that nothing is left."""
        if self.text[self.at :].strip():
            self.refuse("expected nothing more here")

    def integer(self, most: int, what: str) -> int:
        """A number that is no larger than `most`."""
        written = self.next()
        if not written[:1].isdigit():
            self.refuse(f"expected {what} here")
        value = int(written, 16 if written[:2] in ("0x", "0X") else 10) if len(written) <= 40 else most + 1
        if value > most:
            self.refuse(f"{what} is at most {most}")
        self.take()
        return value

    def bit(self) -> int:
        """The place of a bit, in parentheses."""
        self.expect("(")
        place = self.integer(_BITS - 1, "the place of a bit")
        self.expect(")")
        return place

    def field(self) -> Field:
        """`[x:y]`, or `_` for all bits."""
        if self.next() == "_":
            self.take()
            return 0, _ALL
        self.expect("[")
        first = self.integer(_BITS, "the place of a bit")
        self.expect(":")
        if self.next().isdigit() and int(self.next()[:40]) <= first:
            self.refuse(f"the bits end before they begin: the end is above {first}")
        end = self.integer(_BITS, "the end of the bits")
        self.expect("]")
        return first, (1 << (end - first)) - 1

    def expression(self) -> tuple[Number, bool]:
        """A number, and whether it needs the one of the rule around."""
        if self.next()[:1].isdigit():
            value = self.integer(_ALL, "a number of 64 bits")
            return lambda _: value, False
        name = self.next()
        if name == "_":
            self.take()
            return lambda p: p, True
        if name not in _NUMBERS:
            self.refuse(f"expected a number, `_` or one of {', '.join(_NUMBERS)}")
        self.take()
        if name in ("set_bit", "clear_bit"):
            bit = 1 << self.bit()
            return (lambda p: p | bit) if name == "set_bit" else (lambda p: p & ~bit), True
        self.expect("(")
        if name in ("bit_and", "bit_or"):
            other = self.integer(_ALL, "a number of 64 bits")
            self.expect(")")
            return (lambda p: p & other) if name == "bit_and" else (lambda p: p | other), True
        shift, mask = self.field()
        self.expect(")")
        step = 1 << shift
        if name == "incr":
            return lambda p: p if p >> shift & mask == mask else p + step, True
        return lambda p: p - step if p >> shift & mask else p, True

    def condition(self, depth: int) -> Condition:
        """A condition."""
        if depth > _MOST_NESTED:
            self.refuse(f"conditions are nested more than {_MOST_NESTED} deep")
        name = self.next()
        if name not in _CONDITIONS:
            self.refuse(f"expected a condition, one of {', '.join(_CONDITIONS)}")
        self.take()
        if name == "true":
            if self.next() == "(":
                self.take()
                self.expect(")")
            return lambda _: True
        if name in ("bit_set", "bit_clear"):
            bit, wanted = 1 << self.bit(), name == "bit_set"
            return lambda p: bool(p & bit) == wanted
        self.expect("(")
        if name in ("and", "or", "not"):
            return self.combination(name, depth)
        shift, mask = self.field()
        if name in ("is_ones", "is_zeros"):
            self.expect(")")
            value = mask if name == "is_ones" else 0
            return lambda p: p >> shift & mask == value
        self.expect(",")
        other = self.integer(_ALL, "a number of 64 bits")
        self.expect(")")
        compare = _COMPARISONS[name.removeprefix("bit_count_")]
        if name.startswith("bit_count_"):
            return lambda p: compare((p >> shift & mask).bit_count(), other)
        return lambda p: compare(p >> shift & mask, other)

    def combination(self, name: str, depth: int) -> Condition:
        """The conditions between the parentheses of `and`, `or` and `not`."""
        left = self.condition(depth + 1)
        if name == "not":
            self.expect(")")
            return lambda p: not left(p)
        self.expect(",")
        right = self.condition(depth + 1)
        self.expect(")")
        return (lambda p: left(p) and right(p)) if name == "and" else (lambda p: left(p) or right(p))
