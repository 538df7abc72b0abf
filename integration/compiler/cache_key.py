"""Schemas as callers pass them, turned into plain JSON values, with a key that equal schemas share.

The key of a schema is its serialisation (`stackmask.schema.dialect.serialiser`), or its text where that cannot have another (`TextKeys`).
Equal schemas with their members in the same order have equal keys (the order of properties is the order of the output, so it counts).
"""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import PurePath
from threading import local
from types import SimpleNamespace
from typing import Any, Final, NoReturn, TypeAlias

from ...pda.exceptions import LimitError, SchemaError, caret, kind_of, shown
from ...pda.limits import Limits
from ...schema.dialect.serialiser import PROTOCOL, Serialiser, too_large

SchemaKey: TypeAlias = bytes | str
ANY_JSON: Final = "$$ANY$$"
"""The text that SGLang sends instead of a schema for any JSON."""
_COPIED: Final = b"\x00"  # what the key of a schema begins with that had to be copied, and no pickle


_SAYING: Final = frozenset({"type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf"})
"""Keywords of which a schema has at least one that does not allow values of any kind."""


_CONTAINER_BYTES: Final = 150
_STRING_BYTES: Final = 50
_COUNTED_FROM: Final = 4096
"""PERF: in shorter keys nothing is counted, since the tables of a grammar take more than such a schema."""
_SMALL_FACTOR: Final = 6
"""Bytes of objects for one of a short key; 4 to 9 in most schemas."""


_FILE_NAME: Final = re.compile(r"[^\s{}\[\]\"]{1,200}\.json")
_MOST_OF_A_TEXT: Final = 4096
_MOST_SHAPES: Final = 256
"""The most schemas of which names are remembered, with texts and their serialisations up to 8 MB."""


class TextKeys:
    """The JSON texts that are the keys of their schemas: of all schemas with the same names, the first one, if it is a short text.

    Schemas whose members or properties have other names are not equal. So a text with new names needs no comparison; when another schema
    with these names comes, both are serialised.
    PERF: a grammar is found by a text of 2 KB in 3 us, 13 where it is parsed and serialised; a new schema has its first mask 2 % sooner.
    """

    __slots__ = ("_first", "known")

    def __init__(self) -> None:
        self._first: dict[int, str | None] = {}
        """By the hash of its names, which may be many, the first schema, if it is a text. Schemas with equal hashes are compared."""
        self.known: dict[str, bytes | None] = {}
        """These texts, each with its serialisation once that was needed."""

    def add(self, text: str, schema: dict[str, Any]) -> bool:
        """Whether a text is the key of the schema that it holds, from now on if no other schema has its names."""
        if len(text) > _MOST_OF_A_TEXT or self._holder(schema, text) != text:
            return False
        self.known.setdefault(text)
        return True

    def equal(self, schema: dict[str, Any], key: bytes) -> SchemaKey:
        """The text that is the key of a schema, if there is one, else `key`, its serialisation."""
        text = self._holder(schema, None)
        if text is None:
            return key
        serialised = self.known.get(text)
        if serialised is None:
            serialised = self.known[text] = _plain_key(schema_of_key(text))
        return text if serialised == key else key

    def _holder(self, schema: dict[str, Any], text: str | None) -> str | None:
        """The first schema with the names of this one, if it is a text; `text` if there was none."""
        first = self._first
        if len(first) >= _MOST_SHAPES:  # what comes again in another form is compiled again
            first.clear()
            self.known.clear()
        properties = schema.get("properties")
        return first.setdefault(hash((*schema, *properties) if properties.__class__ is dict else (*schema,)), text)


def schema_key(schema: object, limits: Limits) -> bytes:
    """The serialisation of a schema: a mapping, a boolean, JSON text, `$$ANY$$` for any JSON, or a Python type."""
    return _serialised(*_read(schema, limits), limits)


def read_schema(schema: Any, limits: Limits, texts: TextKeys) -> tuple[SchemaKey, Any]:
    """The key of a schema in any of these forms, and the plain value if it was made here, so that nobody else has it; else None."""
    is_text = schema.__class__ is str  # a subclass may compare as it likes
    if is_text and schema in texts.known:
        return schema, None
    value, held = _read(schema, limits)
    if value.__class__ is not dict:
        return _serialised(value, held, limits), held
    if is_text and texts.add(schema, value):
        return schema, value
    key = _serialised(value, held, limits)
    return texts.equal(value, key) if is_plain(key) else key, held


def _read(schema: Any, limits: Limits) -> tuple[Any, Any]:
    """A schema as a value, and the same once more if it was made here out of text."""
    if isinstance(schema, str):
        value = schema == ANY_JSON or parse_json(schema, limits)
        if value.__class__ is dict or value.__class__ is bool:
            return value, value
        schema = value
    if schema.__class__ is not dict and not isinstance(schema, Mapping | bool):
        schema = schema_of_type(schema)
    return schema, None


def _serialised(schema: Any, held: Any, limits: Limits) -> bytes:
    """The serialisation of a value that `_read` returned."""
    try:
        # PERF: what was read from text is plain, so it takes no serialiser that looks for what is not
        key = Serialiser(limits).key(schema) if held is None else _plain_key(held)
    except (TypeError, ValueError, RecursionError):  # a value that is not plain, one that holds itself, or one that is deep
        key = _COPIED + Serialiser(limits).key(_events(schema, limits))
    check_bytes(len(key), limits)
    return key


class _Pickler(local):
    """A pickler for each thread, and what it writes. PERF: to make one takes as long as to write an everyday schema."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin with a new one in this thread."""
        self.written: list[bytes] = []
        pickler = pickle.Pickler(SimpleNamespace(write=self.written.append), PROTOCOL)
        pickler.fast = True
        self.dump = pickler.dump


_PICKLER: Final = _Pickler()


def _plain_key(value: object) -> bytes:
    """The key that a Serialiser makes of a plain value."""
    written = _PICKLER.written
    try:
        _PICKLER.dump(value)
    except BaseException:  # it stopped inside of a value
        _PICKLER.renew()
        raise
    key = written[0] if len(written) == 1 else b"".join(written)
    written.clear()
    return key


def is_plain(key: SchemaKey) -> bool:
    """Whether the schema that has this key is made of plain values only."""
    return isinstance(key, str) or not key.startswith(_COPIED)


def memory_of_schema(key: SchemaKey) -> int:
    """About how many bytes the schema that has this key takes as objects of Python; within a factor of two of the truth if it is large.

    A byte that opens an object, an array or a string may stand in a text, too.
    """
    if isinstance(key, str) or len(key) < _COUNTED_FROM:
        return _SMALL_FACTOR * len(key)
    containers = len(key) - len(key.translate(None, b"}]"))  # PERF: one pass, faster than to count each
    return len(key) + _CONTAINER_BYTES * containers + _STRING_BYTES * key.count(b"\x8c")


def memory_of_texts(key: object) -> int:
    """The bytes of the texts in any key of the cache."""
    if isinstance(key, tuple):
        return sum(map(memory_of_texts, key))
    return sys.getsizeof(key) if isinstance(key, bytes | str) else 0


def schema_of_key(key: SchemaKey) -> Any:
    """The schema that has this key, as a plain JSON value which nobody else has."""
    if isinstance(key, str):
        return _DECODER.decode(key)  # which was read before
    # the key was made here, out of plain values: loading it runs nothing
    return pickle.loads(key) if is_plain(key) else _rebuild(pickle.loads(key[len(_COPIED) :]))


def has_free_keys(schema: Any) -> bool:
    """Whether the schema of a Python type lets a value have keys that it does not name: maps, and values of any kind.

    >>> has_free_keys({"type": "object", "properties": {"a": {"type": "integer"}}}), has_free_keys({"type": "array", "items": {}})
    (False, True)
    """
    pending = [schema]
    for part in pending:
        if not isinstance(part, dict) or not part.keys() & _SAYING:
            return True
        kinds = part["type"] if isinstance(part.get("type"), list) else [part.get("type")]
        if part.get("additionalProperties", False) is not False or "patternProperties" in part:
            return True
        if ("object" in kinds and "properties" not in part) or ("array" in kinds and not part.keys() & {"items", "prefixItems"}):
            return True
        for keyword in ("properties", "$defs", "anyOf", "oneOf", "allOf", "prefixItems"):
            inner = part.get(keyword)
            pending += inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ()
        if part.get("items", False) is not False:
            pending.append(part["items"])
    return False


def parse_json(text: str, limits: Limits) -> Any:
    """The value of a JSON text."""
    check_bytes(len(text), limits)
    try:
        if text[:1] == "{":  # PERF: a text without blanks around it needs no search for them
            value, end = _DECODER.raw_decode(text)
            if end == len(text) or not text[end:].strip(" \t\n\r"):
                return value
        if text.startswith("\ufeff"):
            raise json.JSONDecodeError("it begins with a byte order mark", text, 0)
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if not text.strip():
            raise SchemaError("the text is empty, where JSON is expected, such as {}") from None
        hint = f"; {text!r} reads like the name of a file: pass the text that it holds" if _FILE_NAME.fullmatch(text) else ""
        raise SchemaError(f"not JSON: {error.msg}{hint}\n{caret(text, error.pos)}") from None
    except ValueError as error:  # NaN, or a number of more digits than Python reads
        raise SchemaError(f"not JSON: {error}") from None
    except RecursionError:
        raise LimitError("the JSON text is nested deeper than Python's JSON parser reads", limit="nesting", value=limits.nesting) from None


def schema_of_type(annotation: Any) -> Any:
    """The JSON Schema of a pydantic model, a dataclass, a TypedDict, a TypeAdapter or any other type that pydantic knows."""
    if annotation is None or isinstance(annotation, int | float | bytes | bytearray | list | tuple | set | PurePath):
        raise SchemaError(f"a schema must be a mapping, a boolean, JSON text or a type, not {kind_of(annotation)}")
    kind = type(annotation)
    if hasattr(kind, "model_json_schema") or is_dataclass(kind):
        raise SchemaError(f"a schema may be a type, but {shown(annotation)} is an instance: pass {kind.__name__}")
    try:
        from pydantic import BaseModel, TypeAdapter
        from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError

        from .type_schema import TypeSchema
    except ImportError:
        if isinstance(annotation, type) and hasattr(annotation, "model_json_schema"):
            return annotation.model_json_schema()  # a class of some other library
        raise SchemaError(f"the JSON Schema of the type {shown(annotation)} needs pydantic, which is not installed") from None
    try:
        if isinstance(annotation, type) and hasattr(annotation, "model_json_schema"):
            is_own = getattr(annotation.model_json_schema, "__func__", None) is not BaseModel.model_json_schema.__func__  # type: ignore[attr-defined]
            return annotation.model_json_schema() if is_own else annotation.model_json_schema(schema_generator=TypeSchema)
        return (annotation if isinstance(annotation, TypeAdapter) else TypeAdapter(annotation)).json_schema(schema_generator=TypeSchema)
    except (PydanticUserError, PydanticInvalidForJsonSchema) as error:
        raise SchemaError(f"pydantic cannot make a JSON Schema of {shown(annotation)}: {error}") from error


def _events(schema: object, limits: Limits) -> list[object]:
    """A value as a flat list, in the order of a walk without recursion: each member by its name, each object and array by its length."""
    events: list[object] = []
    todo: list[tuple[str | None, object, int]] = [(None, schema, 0)]
    size = 0
    while todo:
        name, value, depth = todo.pop()
        if depth > limits.nesting:
            raise LimitError(f"the schema is nested more than {limits.nesting} deep", limit="nesting", value=limits.nesting)
        plain, members = _plain_value(value)
        # no more than its JSON text takes, with the comma behind it
        size += 2 + (0 if name is None else len(name) + 3) + (len(plain) if isinstance(plain, str) else members is not None)
        check_bytes(size, limits)
        events += (name, plain, None if members is None else len(members))
        if members is not None:
            todo.extend((key, member, depth + 1) for key, member in reversed(members))
    return events


def _rebuild(events: list[Any]) -> Any:
    """The value that `_events` listed."""
    result: list[Any] = []
    todo: list[tuple[Any, int]] = [(result, 1)]  # the containers around the next value, and how many members each still gets
    for name, plain, length in zip(*[iter(events)] * 3, strict=True):
        value = plain if length is None else type(plain)()
        holder, left = todo[-1]
        todo[-1] = holder, left - 1
        if isinstance(holder, list):
            holder.append(value)
        else:
            holder[name] = value
        if length is not None:
            todo.append((value, length))
        while todo and not todo[-1][1]:
            todo.pop()
    return result[0]


def _plain_value(value: object) -> tuple[Any, list[tuple[str | None, object]] | None]:
    """A value in a plain type, and the members still to be copied into it where it holds any."""
    if value is None or isinstance(value, bool):
        return value, None
    if isinstance(value, str):
        return str.__str__(value), None  # what a subclass overrides does not count
    if isinstance(value, int):
        return int.__int__(value), None
    if isinstance(value, float):
        return float.__float__(value), None
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise SchemaError(f"a key of a schema must be a string, not {shown(odd[0])}")
        return {}, [(str.__str__(key), member) for key, member in value.items()]
    if isinstance(value, list | tuple):
        return [], [(None, member) for member in value]
    raise SchemaError(f"a schema must contain JSON values, not {type(value).__name__}")


def check_bytes(size: int, limits: Limits) -> None:
    """Raise where a specification takes too many bytes."""
    if size > limits.specification_bytes:
        raise too_large(limits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
