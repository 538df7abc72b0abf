"""The errors that a compilation raises inside itself; the place of the subschema is found once the error is on its way out."""

from __future__ import annotations

from ..pda.exceptions import LimitError, SchemaError


class Excess(LimitError):  # noqa: N818 - internal; the caller sees a LimitError
    """A limit that one subschema exceeds; its place is found once the error is on its way out."""

    def __init__(self, error: LimitError, schema: object, keyword: str = "") -> None:
        self.schema = schema
        self.keyword = keyword
        super().__init__(str(error), limit=error.limit, value=error.value)


def excess(error: LimitError, schema: object, keyword: str = "") -> LimitError:
    """The error with the subschema that is to blame; the innermost one stays."""
    return error if isinstance(error, Excess) or error.located else Excess(error, schema, keyword)


def too_many_states(what: str, most: int) -> LimitError:
    """The error for an array or an object whose graph is too large."""
    return LimitError(f"one {what} needs a graph of more than {most} states", limit="states", value=most)


class Malformed(SchemaError):  # noqa: N818 - the word for the schema; the caller sees a SchemaError
    """A keyword whose value the specification forbids; the place of `schema` is found once the error is on its way out."""

    def __init__(self, schema: object, keyword: str, message: str) -> None:
        self.schema = schema
        self.keyword = keyword
        self.message = message
        super().__init__(f"{keyword}: {message}")


class Inexact(SchemaError):  # noqa: N818 - the word for the keyword; the caller sees an UnsupportedSchemaError
    """A keyword that is well formed, but that no automaton can enforce exactly."""

    def __init__(self, schema: object, keyword: str, reason: str) -> None:
        self.schema = schema
        self.keyword = keyword
        self.reason = reason
        super().__init__(f"{keyword}: {reason}")
