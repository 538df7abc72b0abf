"""The errors that a compilation raises inside itself; the place of the subschema is found once the error is on its way out."""

from __future__ import annotations

from ..pda.exceptions import SchemaError


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
