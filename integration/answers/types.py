"""Python types as schemas: the specification for the compiler, and the function that parses the text into an object.

A function stands for its arguments: pydantic validates them as for a call, and nothing is called.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...pda.exceptions import SchemaError

Reader = Callable[[str], Any]

_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def read_type(schema: Any) -> tuple[Any, Reader]:
    """The specification for the compiler, and the function that reads an instance.

    >>> read_type({"type": "integer"})[1]("7")
    7
    """
    if isinstance(schema, Mapping | bool | str):
        return schema, json.loads
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError
    except ImportError:
        return schema, json.loads  # the compiler says that it needs pydantic
    if isinstance(schema, TypeAdapter):
        return schema, schema.validate_json
    if inspect.isfunction(schema) or inspect.ismethod(schema):
        schema = _arguments(schema)
    elif hasattr(schema, "model_validate_json"):
        return schema, schema.model_validate_json
    elif not _is_type(schema):
        return schema, json.loads  # the compiler says what it is
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(schema)
    except PydanticUserError as error:
        raise SchemaError(f"pydantic cannot make a JSON Schema of {schema!r}: {error}") from error
    return schema, adapter.validate_json


def _arguments(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """A function with the same parameters that returns its arguments by name."""
    signature = inspect.signature(function)
    for name, parameter in signature.parameters.items():
        if parameter.kind not in _BY_NAME:
            raise SchemaError(f"the parameter {name!r} of {function.__name__} has no name in a call; there is no JSON for it")

    @functools.wraps(function)
    def arguments(*positional: Any, **named: Any) -> dict[str, Any]:
        return dict(signature.bind(*positional, **named).arguments)

    return arguments


def _is_type(schema: object) -> bool:
    """Whether it can be a type, not a value such as a list or a number."""
    return schema is not None and not isinstance(schema, int | float | bytes | bytearray | list | tuple | set)
