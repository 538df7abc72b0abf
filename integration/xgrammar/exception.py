"""XGrammar's errors. All are RuntimeErrors, which is what engines written for it catch; the cause is stackmask's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...pda.exceptions import StackmaskError, StructuralTagError


class InvalidJSONError(RuntimeError):
    """A text is not JSON."""


class InvalidStructuralTagError(RuntimeError):
    """A structural tag is malformed."""


class DeserializeFormatError(RuntimeError):
    """A serialised object is damaged, or another kind of object."""


class DeserializeVersionError(RuntimeError):
    """A serialised object was written by another version, or by XGrammar."""


class UnsupportedOptionError(RuntimeError):
    """An option of XGrammar that stackmask cannot honour has a value that asks for something."""


@contextmanager
def runtime_errors(also: type[Exception] = StackmaskError) -> Iterator[None]:
    """Turn stackmask's errors, and those of one more type, into XGrammar's."""
    try:
        yield
    except StructuralTagError as error:
        raise InvalidStructuralTagError(str(error)) from error
    except (StackmaskError, also) as error:
        raise RuntimeError(str(error)) from error


def refuse(**options: object) -> None:
    """Refuse options that are neither None nor False, by their names."""
    asked = [name for name, value in options.items() if value is not None and value is not False]
    if asked:
        raise UnsupportedOptionError(f"stackmask does not support XGrammar's {', '.join(asked)}; see docs/xgrammar.md")
