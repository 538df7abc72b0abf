"""The one constraint of a request, in whichever spelling it comes; two are an error that names both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..engine import Constraint
from .errors import ApiError
from .protocol import Constrained, Extension, StructuredOutputs

Found = list[tuple[str, Constraint]]
"""Constraints by the field that asks for them."""

OBJECT: Final = {"type": "object"}


def find_constraint(request: Constrained, whitespace: str, others: Found | None = None) -> tuple[Constraint | None, str | None]:
    """The constraint of a request and the field that it comes from; `others` are those that tools make."""
    options = _options(request.stackmask, whitespace)
    found: Found = list(others or ())
    if request.response_format is not None:
        found += _response_format(request.response_format, options, "response_format")
    if request.structured_outputs is not None:
        found += _structured_outputs(request.structured_outputs, options)
    if request.regex is not None:
        found.append(("regex", Constraint("regex", request.regex)))
    if request.ebnf is not None:
        found.append(("ebnf", Constraint("ebnf", request.ebnf)))
    if request.json_schema is not None:
        found.append(("json_schema", Constraint("json_schema", request.json_schema, options)))
    return only(found)


def only(found: Found) -> tuple[Constraint | None, str | None]:
    """The one that was found, or none; two conflict."""
    if len(found) > 1:
        names = " and ".join(name for name, _ in found)
        raise ApiError(
            f"a request takes one constraint, this one has {len(found)}: {names}", param=found[1][0], code="conflicting_constraints"
        )
    return (found[0][1], found[0][0]) if found else (None, None)


def flat_format(format: Mapping[str, Any], extension: Extension, whitespace: str) -> Found:
    """The constraint of `text.format` in /v1/responses, which is response_format without its inner object."""
    if format.get("type") == "json_schema" and "json_schema" not in format:
        inner = {key: value for key, value in format.items() if key != "type"}
        format = {"type": "json_schema", "json_schema": inner}
    return _response_format(format, _options(extension, whitespace), "text.format")


def _response_format(format: Mapping[str, Any], options: Mapping[str, Any], field: str) -> Found:
    match format.get("type"):
        case "text":
            _known(format, {"type"}, field)
            return []
        case "json_object":
            _known(format, {"type"}, field)
            return [(field, Constraint("json_schema", OBJECT, options))]
        case "json_schema":
            _known(format, {"type", "json_schema", "schema"}, field)
            schema, strict = _schema(format, field)
            closing = {"extra_properties": "closed"} if strict else {}
            return [(field, Constraint("json_schema", schema, {**closing, **options}))]
        case "regex":
            _known(format, {"type", "regex", "pattern"}, field)
            return [(field, Constraint("regex", _text(format, ("pattern", "regex"), field)))]
        case "ebnf" | "grammar":
            _known(format, {"type", "ebnf", "grammar"}, field)
            return [(field, _grammar(_text(format, ("ebnf", "grammar"), field)))]
        case "lark":
            _known(format, {"type", "lark", "grammar"}, field)
            return [(field, Constraint("lark", _text(format, ("lark", "grammar"), field)))]
        case "choice":
            _known(format, {"type", "choice"}, field)
            choice = format.get("choice")
            if not isinstance(choice, list) or not all(isinstance(text, str) for text in choice):
                raise ApiError(f"{field}.choice must be a list of texts", param=field)
            return [(field, Constraint("choice", choice))]
        case "structural_tag":
            return [(field, Constraint("structural_tag", dict(format)))]
        case None:
            raise ApiError(f"{field} has no type", param=field)
        case other:
            kinds = "text, json_object, json_schema, regex, ebnf, lark, choice and structural_tag"
            raise ApiError(f"{field}.type is {str(other)[:60]!r}; available: {kinds}", param=field)


def _schema(format: Mapping[str, Any], field: str) -> tuple[Any, bool]:
    """The schema of a json_schema format, and whether it is strict; SGLang's clients leave out the object around it."""
    inner = format.get("json_schema")
    if inner is None:
        if "schema" not in format:
            raise ApiError(f"{field}.json_schema is missing", param=field)
        return _checked_schema(format["schema"], field), False
    if not isinstance(inner, Mapping):
        raise ApiError(f"{field}.json_schema must be an object with a name and a schema", param=field)
    _known(inner, {"name", "description", "schema", "strict"}, f"{field}.json_schema")
    if inner.get("strict") not in (True, False, None):
        raise ApiError(f"{field}.json_schema.strict must be true, false or null", param=field)
    if inner.get("schema") is None:
        raise ApiError(f"{field}.json_schema.schema is missing", param=field)
    return _checked_schema(inner["schema"], field), inner.get("strict") is True


def _checked_schema(schema: Any, field: str) -> Any:
    if not isinstance(schema, Mapping | bool):
        raise ApiError(f"the schema of {field} must be an object or a boolean, not {type(schema).__name__}", param=field)
    return schema


def _structured_outputs(given: StructuredOutputs, options: Mapping[str, Any]) -> Found:
    if given.whitespace_pattern is not None and given.disable_any_whitespace:
        raise ApiError("structured_outputs has a whitespace_pattern and disable_any_whitespace", param="structured_outputs")
    spaced = {**options}
    if given.disable_any_whitespace:
        spaced["whitespace"] = "compact"
    elif given.whitespace_pattern is not None:
        spaced["whitespace"] = given.whitespace_pattern
    found: Found = []
    if given.json_ is not None:
        found.append(("structured_outputs.json", Constraint("json_schema", given.json_, spaced)))
    if given.json_object:
        found.append(("structured_outputs.json_object", Constraint("json_schema", OBJECT, spaced)))
    if given.regex is not None:
        found.append(("structured_outputs.regex", Constraint("regex", given.regex)))
    if given.choice is not None:
        found.append(("structured_outputs.choice", Constraint("choice", given.choice)))
    if given.grammar is not None:
        found.append(("structured_outputs.grammar", _grammar(given.grammar)))
    if given.structural_tag is not None:
        found.append(("structured_outputs.structural_tag", Constraint("structural_tag", given.structural_tag)))
    if not found:
        raise ApiError("structured_outputs has no constraint", param="structured_outputs")
    return found


def _grammar(text: str) -> Constraint:
    """A grammar in whichever of two languages: EBNF defines rules by `::=`, Lark by a colon."""
    return Constraint("ebnf" if "::=" in text else "lark", text)


def _text(format: Mapping[str, Any], names: tuple[str, str], field: str) -> str:
    given = [format[name] for name in names if format.get(name) is not None]
    if len(given) != 1 or not isinstance(given[0], str):
        raise ApiError(f"{field}.{names[0]} must be a text", param=field)
    return given[0]


def _known(format: Mapping[str, Any], names: set[str], field: str) -> None:
    if unknown := sorted(format.keys() - names):
        raise ApiError(f"unknown field {field}.{unknown[0]}: no field is ignored here", param=field)


def _options(extension: Extension, whitespace: str) -> dict[str, Any]:
    """The compiler's options for JSON."""
    options: dict[str, Any] = {"whitespace": extension.whitespace if extension.whitespace is not None else whitespace}
    if extension.property_order is not None:
        options["property_order"] = extension.property_order
    if extension.lenient is not None:
        options["lenient"] = extension.lenient
    if extension.extra_properties is not None:
        options["extra_properties"] = extension.extra_properties
    if extension.strict_keywords is not None:
        options["strict_keywords"] = extension.strict_keywords
    if extension.distinct_keys is not None:
        options["distinct_keys"] = extension.distinct_keys
    return options
