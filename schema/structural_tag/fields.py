"""The fields of one object of a structural tag: each is read once, by type, and an error names its path.

A field that is null counts as absent, which is how models of other libraries write out their defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from ...pda.exceptions import StructuralTagError

MOST: Final = 2**31 - 1
"""The largest count that a field takes."""


class Fields:
    """The fields of an object at a path such as `format.tags[3]`."""

    __slots__ = ("path", "values")

    def __init__(self, path: str, values: Mapping[str, Any]) -> None:
        self.path = path
        self.values = values

    @classmethod
    def of(cls, path: str, value: object) -> Self:
        """The fields of a mapping, or of a model that can be written out as one."""
        if value.__class__ is dict:
            return cls(path, value)
        if hasattr(value, "model_dump"):
            value = value.model_dump(by_alias=True)
        if not isinstance(value, Mapping):
            raise refusal(path, f"must be an object, not {kind(value)}")
        return cls(path, value)

    def path_of(self, name: str, index: int | None = None) -> str:
        """The path of a field, or of one of its items."""
        path = f"{self.path}.{name}" if self.path else name
        return path if index is None else f"{path}[{index}]"

    def only(self, allowed: Iterable[str], owner: str) -> None:
        """Refuse any field but the allowed ones: a constraint is never ignored."""
        if self.values.keys() - allowed:
            for name in self.values:
                if name in allowed:
                    continue
                listed = ", ".join(sorted(allowed))
                raise refusal(self.path_of(str(name)), f"is not a field of {owner}; its fields are {listed}")

    def required(self, name: str) -> Any:
        """A field that must be present."""
        value = self.values.get(name)
        if value is None:
            raise refusal(self.path_of(name), "is missing")
        return value

    def text(self, name: str, *, empty: bool = True) -> str:
        """A required text."""
        return checked_text(self.path_of(name), self.required(name), empty=empty)

    def flag(self, name: str, default: bool = False) -> bool:
        """An optional boolean."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise refusal(self.path_of(name), f"must be true or false, not {kind(value)}")
        return value

    def count(self, name: str) -> int | None:
        """An optional count."""
        value = self.values.get(name)
        if value is None:
            return None
        return checked_count(self.path_of(name), value, 0)

    def items(self, name: str, *, optional: bool = False) -> list[Any] | tuple[Any, ...]:
        """A list, not empty unless it is optional."""
        value = self.values.get(name) if optional else self.required(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            raise refusal(self.path_of(name), f"must be a list, not {kind(value)}")
        if not value and not optional:
            raise refusal(self.path_of(name), "needs at least one item")
        return value

    def texts(self, name: str, *, optional: bool = False) -> tuple[str, ...]:
        """A list of texts that are not empty."""
        if optional and self.values.get(name) is None:
            return ()
        found = (checked_text(self.path_of(name, i), item, empty=False) for i, item in enumerate(self.items(name, optional=optional)))
        return tuple(dict.fromkeys(found))


def checked_text(path: str, value: object, *, empty: bool = True) -> str:
    """A text that has a UTF-8 form."""
    if value.__class__ is str and value and value.isascii():
        return value
    if not isinstance(value, str):
        raise refusal(path, f"must be a text, not {kind(value)}")
    if not value and not empty:
        raise refusal(path, "must not be empty")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise refusal(path, "contains a lone surrogate, which UTF-8 cannot encode")
    return value


def checked_count(path: str, value: object, least: int) -> int:
    """An integer within 32 bits."""
    shown = str(value) if isinstance(value, int) and not isinstance(value, bool) else kind(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise refusal(path, f"must be an integer from {least} to {MOST}, not {shown:.40}")
    return value


def refusal(path: str, message: str) -> StructuralTagError:
    """The error about the field at a path."""
    return StructuralTagError(f"{path or 'the structural tag'}: {message}")


def kind(value: object) -> str:
    """The name of a value's type in JSON."""
    if value is None:
        return "null"
    names = ((bool, "a boolean"), (int | float, "a number"), (str, "a text"), (Mapping, "an object"), (list | tuple, "a list"))
    return next((name for types, name in names if isinstance(value, types)), type(value).__name__)
