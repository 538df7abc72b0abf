"""The value of a JSON text that is still being written: its finished parts, as the text arrives.

`PartialJson` reads each character once. Objects and arrays appear at their opening bracket. A member or an item appears when it
ends, and is then final: a string at its closing quote, a number when something follows it.

`PartialObject` does the same with the objects of a type. Pydantic reads the text of each finished part: members of models, dataclasses
and TypedDicts, items of lists, values of dicts, down to `TYPED_DEPTH`. Deeper parts appear with the part around them at that depth, so no
character is read more often than that. An unfinished model has only its finished fields, and `model_fields_set` names them; an unfinished
dataclass is a dict. Parts that a validator or `model_post_init` of a model
can change, and parts whose type is a union, appear when they are complete.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints, is_typeddict

from .types import read_type

TYPED_DEPTH: Final = 8
_STRING_END: Final = re.compile(r'["\\]')
_SCALAR_END: Final = re.compile(r"[\s,\]}]")
Fields = dict[str, tuple[str, Any]]
"""Names and types of fields by their names in JSON."""
_BLANKS: Final = " \t\n\r,:"


class Frame:
    """An open object or array: its value, the start of its text, and the name of its current member; `node` is its typed side."""

    __slots__ = ("key", "node", "start", "value")

    def __init__(self, value: dict[str, Any] | list[Any], start: int) -> None:
        self.value = value
        self.start = start
        self.key: str | None = None
        self.node: _Node | None = None


class PartialJson:
    """Reads JSON that is correct as far as it goes.

    >>> reader = PartialJson()
    >>> reader.feed('{"name": "Anna", "tags": ["a", "b')
    >>> reader.value
    {'name': 'Anna', 'tags': ['a']}
    >>> reader.feed('c"], "age": 3')
    >>> reader.value
    {'name': 'Anna', 'tags': ['a', 'bc']}
    >>> reader.feed("1}")
    >>> reader.value
    {'name': 'Anna', 'tags': ['a', 'bc'], 'age': 31}
    """

    def __init__(self) -> None:
        self.value: Any = None
        self._frames: list[Frame] = []
        self._scalar: list[str] = []  # the pieces of the string or number at hand
        self._escaped = False  # the last character was a backslash that escapes the next one
        self._read = 0  # characters of earlier pieces

    def feed(self, text: str) -> None:
        """Read on."""
        place = 0
        while place < len(text):
            if self._scalar:
                place = self._continue(text, place)
                continue
            character = text[place]
            if character in "{[":
                self._open({} if character == "{" else [], self._read + place)
            elif character in "}]":
                self._close(self._read + place + 1)
            elif character not in _BLANKS:
                self._scalar.append(character)
            place += 1
        self._read += len(text)

    def finish(self) -> None:
        """The text is over: so is a number that stands alone."""
        if self._scalar and not self._frames and self._scalar[0] != '"':
            with contextlib.suppress(ValueError):  # it was cut
                self._end_scalar(self._read)

    def _continue(self, text: str, place: int) -> int:
        """Read on in a string, number or name; return the place after it."""
        if self._escaped:
            self._scalar.append(text[place])
            self._escaped = False
            return place + 1
        is_string = self._scalar[0] == '"'
        found = (_STRING_END if is_string else _SCALAR_END).search(text, place)
        end = len(text) if found is None else found.start() + is_string
        self._scalar.append(text[place:end])
        if found is not None:
            if found[0] == "\\":
                self._escaped = True
            else:
                self._end_scalar(self._read + end)
        return end

    def _end_scalar(self, end: int) -> None:
        text = "".join(self._scalar)
        self._scalar.clear()
        value, frame = json.loads(text), self._frames[-1] if self._frames else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            frame.key = value
        else:
            self._put(frame, value)
            self._ended(frame, end - len(text), end)

    def _open(self, value: dict[str, Any] | list[Any], start: int) -> None:
        frame, around = Frame(value, start), self._frames[-1] if self._frames else None
        self._put(around, value)
        self._opened(around, frame)
        self._frames.append(frame)

    def _close(self, end: int) -> None:
        frame = self._frames.pop()
        self._ended(self._frames[-1] if self._frames else None, frame.start, end)

    def _put(self, around: Frame | None, value: Any) -> None:
        if around is None:
            self.value = value
        elif isinstance(around.value, dict):
            assert around.key is not None
            around.value[around.key] = value
        else:
            around.value.append(value)

    def _opened(self, around: Frame | None, frame: Frame) -> None:
        """An object or array began in the one around it."""

    def _ended(self, around: Frame | None, start: int, end: int) -> None:
        """A part that stands at these characters of the text ended, in the object or array around it."""
        if around is not None:
            around.key = None


class _Node:
    """The typed side of an open object or array: the types of its parts, and the value so far."""

    __slots__ = ("depth", "fields", "item", "value")

    def __init__(self, value: Any, depth: int, item: Any = None, fields: Fields | None = None) -> None:
        self.value = value
        self.depth = depth
        self.item = item
        self.fields = fields

    def part(self, key: str | None) -> tuple[str | None, Any]:
        """Name and type of the part at hand; None as type where it is not known."""
        if self.fields is None:
            return key, self.item
        return self.fields.get(key or "", (None, None))

    def put(self, name: str | None, value: Any, *, ended: bool, replaces: bool) -> None:
        """Put a part in, in place of what stood there while it was open."""
        if isinstance(self.value, list):
            if replaces:
                self.value[-1] = value
            else:
                self.value.append(value)
        elif isinstance(self.value, dict):
            self.value[name] = value
        else:
            self.value.__dict__[name] = value
            if ended:
                self.value.__pydantic_fields_set__.add(name)

    def drop(self, name: str | None) -> None:
        """Take out an open part, which its type refused."""
        if isinstance(self.value, list):
            self.value.pop()
        else:
            (self.value if isinstance(self.value, dict) else self.value.__dict__).pop(name, None)


class PartialObject(PartialJson):
    """The same for a type: `object` is the value so far, None before there is any."""

    def __init__(self, schema: Any) -> None:
        super().__init__()
        self.object: Any = None
        self._type = schema
        self._text = io.StringIO()
        self._adapters: dict[int, tuple[Any, Any]] = {}
        self._fields: dict[int, tuple[Any, Fields]] = {}

    def feed(self, text: str) -> None:
        """Read on."""
        self._text.write(text)
        super().feed(text)

    def _opened(self, around: Frame | None, frame: Frame) -> None:
        node = None if around is None else around.node
        if around is not None and node is None:
            return
        name, schema = (None, self._type) if node is None else node.part(around.key if around is not None else None)
        depth = 0 if node is None else node.depth + 1
        if schema is None or depth >= TYPED_DEPTH:
            return
        frame.node = self._open_node(schema, frame.value, depth)
        if frame.node is not None:
            if node is None:
                self.object = frame.node.value
            else:
                node.put(name, frame.node.value, ended=False, replaces=False)

    def _ended(self, around: Frame | None, start: int, end: int) -> None:
        node = None if around is None else around.node
        if around is None or node is not None:
            name, schema = (None, self._type) if node is None else node.part(around.key if around is not None else None)
            if schema is not None:
                self._replace(node, name, schema, start, end)
        super()._ended(around, start, end)

    def _replace(self, node: _Node | None, name: str | None, schema: Any, start: int, end: int) -> None:
        """Put in what pydantic reads in the text of a part that ended; nothing where the type refuses it."""
        self._text.seek(start)
        text = self._text.read(end - start)
        self._text.seek(0, io.SEEK_END)
        shown = text[0] in "{[" and (node is None or node.depth + 1 < TYPED_DEPTH) and self._open_node(schema, text[0], 0) is not None
        try:
            value = self._adapter(schema).validate_json(text)
        except ValueError:
            if node is not None and shown:
                node.drop(name)
            return
        if node is None:
            self.object = value
        else:
            node.put(name, value, ended=True, replaces=shown)

    def _adapter(self, schema: Any) -> Any:
        """Pydantic's reader of a type, made once."""
        from pydantic import TypeAdapter

        if isinstance(schema, TypeAdapter):
            return schema
        found = self._adapters.get(id(schema))
        if found is None:
            found = self._adapters[id(schema)] = (schema, TypeAdapter(schema))
        return found[1]

    def _open_node(self, schema: Any, value: Any, depth: int) -> _Node | None:
        """The typed side of an object or array that begins, None where it appears only at its end; `value` is it, or its bracket."""
        is_object = isinstance(value, dict) or value == "{"
        while get_origin(schema) is Annotated:
            schema = get_args(schema)[0]
        origin, arguments = get_origin(schema), get_args(schema)
        if origin in (Union, UnionType):
            others = [other for other in arguments if other is not type(None)]
            return self._open_node(others[0], value, depth) if len(others) == 1 else None
        if not is_object:
            return _Node([], depth, arguments[0]) if origin is list else None
        if origin is dict:
            return _Node({}, depth, arguments[1]) if arguments[0] is str else None
        if hasattr(schema, "model_construct"):
            if schema.__pydantic_root_model__ or schema.__pydantic_post_init__:
                return None
            return _Node(_bare(schema), depth, fields=self._fields_of(schema, _model_fields))
        if is_dataclass(schema) or is_typeddict(schema) or (callable(schema) and not isinstance(schema, type) and origin is None):
            return _Node({}, depth, fields=self._fields_of(schema, _hinted_fields))
        return None

    def _fields_of(self, schema: Any, find: Callable[[Any], Fields]) -> Fields:
        """The fields of a type, found once."""
        found = self._fields.get(id(schema))
        if found is None:
            found = self._fields[id(schema)] = (schema, find(schema))
        return found[1]


def _bare(model: Any) -> Any:
    """A model without any field, not even defaults: a missing field must not look present."""
    value = model.model_construct()
    value.__dict__.clear()
    return value


def _model_fields(model: Any) -> Fields:
    """Name and type of the fields of a model by their names in JSON, but for those that its own validators or settings can change."""
    from pydantic import Discriminator

    validated = {name for decorator in model.__pydantic_decorators__.field_validators.values() for name in decorator.info.fields}
    if "*" in validated or {*model.model_config} - {"extra", "title", "frozen", "populate_by_name", "json_schema_extra"}:
        return {}
    fields: Fields = {}
    for name, field in model.model_fields.items():
        key = field.validation_alias or name
        if isinstance(key, str) and name not in validated:
            bounds = [*field.metadata, *([Discriminator(field.discriminator)] if isinstance(field.discriminator, str) else [])]
            fields[key] = (name, Annotated[field.annotation, *bounds] if bounds else field.annotation)
    return fields


def _hinted_fields(schema: Any) -> Fields:
    """The fields of a dataclass or a TypedDict, the parameters of a function."""
    hints = get_type_hints(schema, include_extras=True)
    return {name: (name, hint) for name, hint in hints.items() if name != "return"}


def partial_reader(options: Mapping[str, Any]) -> Callable[[str, bool], Any] | None:
    """A function from each new piece of the text, and whether it is the last, to the value so far; None if the text is not JSON."""
    schema, grammar = options.get("json_schema"), options.get("grammar")
    if schema is not None and not isinstance(schema, Mapping | bool | str):
        reader: PartialJson = PartialObject(read_type(schema)[0])
    elif schema is not None or options.get("json") or (grammar is not None and grammar.stats.kind == "json_schema"):
        reader = PartialJson()
    else:
        return None

    def read(text: str, is_last: bool) -> Any:
        reader.feed(text)
        if is_last:
            reader.finish()
        return reader.object if isinstance(reader, PartialObject) else reader.value

    return read
