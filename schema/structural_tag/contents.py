"""The contents of tags: JSON Schemas in one of the styles, grammars in EBNF or Lark, regular expressions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...pda.embed import splice
from ...pda.exceptions import EbnfError, LarkError, RegexError, SchemaError, StructuralTagError, UnsatisfiableError, shown
from ...pda.grammar import Grammar, GrammarBuilder, NodeId
from ...pda.regex import no_text, parse, regex_grammar, regex_node
from ..emit.direct import Compilation
from ..emit.escaped import escaped
from ..emit.json_parts import check_whitespace
from ..emit.strings import pattern_of
from ..json_schema import SchemaOptions, json_schema_node, unsatisfiable
from .fields import Fields, kind, refusal
from .notations import STYLES
from .parameters import styled

if TYPE_CHECKING:
    from .formats import Writer


def schema(w: Writer, fields: Fields, ends: tuple[str, ...] = ()) -> NodeId:
    """A json_schema format; `ends` are the texts that end the tag around it."""
    path = fields.path_of("json_schema")
    value = schema_value(path, fields.values.get("json_schema"))
    style = fields.values.get("style", "json")
    if not isinstance(style, str) or (style != "json" and style not in STYLES):
        raise refusal(fields.path_of("style"), f"{style!r:.60} is not a style; the styles are {', '.join(sorted((*STYLES, 'json')))}")
    distinct = fields.flag("distinct_keys")
    if distinct and style != "json":
        raise refusal(fields.path_of("distinct_keys"), "is true in the style json only")
    fragments = w.arena.base(_whitespace(fields, style), distinct, _closing(style, value, ends))
    order = "any" if fields.flag("any_order") else "schema"
    excluded = fields.texts("excludes", optional=True)
    extra = fields.values.get("extra_properties") or "schema"
    if extra not in ("schema", "closed"):
        raise refusal(fields.path_of("extra_properties"), f"is 'schema' or 'closed', not {shown(extra)}")
    if extra == "closed" and (excluded or style != "json"):
        raise refusal(fields.path_of("extra_properties"), "is 'closed' in the style json without excludes only; write additionalProperties")
    documents: dict[str, Any] = {}
    clean: Any = {"$ref": _CLEAN} if excluded else True
    if excluded:
        documents = {_CONTENT: value, _CLEAN: _clean(excluded)}
    if excluded and style == "json":
        value = {"allOf": [{"$ref": _CONTENT}, clean]}
    try:
        node, _ = json_schema_node(
            w.builder, value, fragments=fragments, property_order=order, documents=documents, budget=w.budget,
            extra_properties=extra, distinct_keys=distinct,
            run=Compilation.run if style == "json" else styled(style, w.literal, w.arena.shared, excluded, clean, ends),
        )  # fmt: skip
    except (SchemaError, RegexError) as error:
        raise refusal(path, str(error)) from None
    if node == fragments.never:
        if style != "json":
            raise refusal(path, "no instance can satisfy the schema")
        options = SchemaOptions(property_order=order, extra_properties=extra, distinct_keys=distinct)
        reason = unsatisfiable(value, options, documents)
        raise refusal(path, str(reason))
    return node


def _closing(style: str, value: Any, ends: tuple[str, ...]) -> tuple[str, ...]:
    """The texts that would end a value for its parser, so that no string inside it holds them.

    A value in JSON, in a notation that has no tags for items, ends with the argument; what may be a value alone ends with the tag.
    """
    if style == "json" or STYLES[style].item:
        return ()
    is_object = isinstance(value, Mapping) and value.get("type") == "object"
    return tuple(sorted({STYLES[style].close, *(() if is_object else filter(None, ends))}))


def grammar(w: Writer, fields: Fields) -> NodeId:
    """A grammar in EBNF or in Lark's language."""
    path, text = fields.path_of("grammar"), fields.text("grammar")
    syntax = fields.values.get("syntax") or "ebnf"
    known: Any = {"special": w.special.ids, "vocabulary_size": w.special.vocabulary_size}
    try:
        if syntax == "ebnf":
            from ...pda.ebnf import ebnf_grammar  # PERF: lark takes a third of the time that `import stackmask` would take

            return _spliced(w, fields, ebnf_grammar(text, **known, limits=w.budget.limits))
        if syntax == "lark":
            from ...pda.lark import lark_grammar

            def json_node(builder: GrammarBuilder, schema: Any) -> NodeId:
                return json_schema_node(builder, schema, whitespace=blanks(None), limits=w.budget.limits)[0]

            return _spliced(w, fields, lark_grammar(text, **known, json_node=json_node, limits=w.budget.limits))
    except (EbnfError, LarkError, RegexError) as error:
        raise refusal(path, str(error)) from None
    raise refusal(fields.path_of("syntax"), f"{syntax!r:.60} is not a syntax; the syntaxes are ebnf and lark")


def regex(w: Writer, fields: Fields) -> NodeId:
    """A regular expression that matches as a whole."""
    path, pattern = fields.path_of("pattern"), fields.text("pattern")
    try:
        if fields.values.get("escape") is not None:
            return _spliced(w, fields, regex_grammar(pattern, limits=w.budget.limits))
        node = regex_node(w.builder, pattern, search=False, budget=w.budget)
    except (RegexError, UnsatisfiableError) as error:
        raise refusal(path, str(error)) from None
    if node == w.builder.never():
        raise refusal(path, str(no_text(parse(pattern, limits=w.budget.limits), w.budget.limits)))
    return node


def _spliced(w: Writer, fields: Fields, grammar: Grammar) -> NodeId:
    """The texts of a grammar, escaped as inside a JSON string where the format says so."""
    match fields.values.get("escape"):
        case None:
            return splice(w.builder, grammar)
        case "json":
            try:
                return splice(w.builder, escaped(grammar))
            except StructuralTagError as error:
                raise refusal(fields.path, str(error)) from None
    raise refusal(fields.path_of("escape"), "must be `json`, the only supported escape")


_CONTENT: Final = "stackmask:content"
_CLEAN: Final = "stackmask:excludes"


def blanks(most: int | None) -> str:
    """The option `whitespace` of a schema for a gap of at most `most` blanks; None for the usual bound."""
    return "flexible" if most is None else "compact" if most == 0 else f"[ \\t\\n\\r]{{0,{most}}}"


def _whitespace(fields: Fields, style: str) -> str:
    """The option `whitespace` of the schema of a json_schema format."""
    most, path = fields.count("max_whitespace_cnt"), fields.path_of("whitespace")
    whitespace = fields.values.get("whitespace")
    if whitespace is None:
        return blanks(most)
    if most is not None or style != "json":
        raise refusal(path, "goes with the style json only, and without max_whitespace_cnt")
    if not isinstance(whitespace, str):
        raise refusal(path, f"must be a string, not {kind(whitespace)}")
    try:
        check_whitespace(whitespace)
    except (SchemaError, RegexError) as error:
        raise refusal(path, str(error)) from None
    return whitespace


def schema_value(path: str, value: Any) -> Any:
    """A schema as plain values: an object, a boolean, or a model of another library that has a schema."""
    if value.__class__ is dict:
        return value
    if hasattr(value, "model_json_schema"):
        value = value.model_json_schema()
    if not isinstance(value, bool | Mapping):
        raise refusal(path, "is missing" if value is None else f"must be a JSON Schema, an object or a boolean, not {kind(value)}")
    return value


def parsed_schema(path: str, value: Any) -> Any:
    """A schema of the older form, which may also be JSON text, or null for any value."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise refusal(path, f"is not JSON: {error}") from None
    return True if value is None else schema_value(path, value)


def _clean(excluded: tuple[str, ...]) -> dict[str, Any]:
    """The schema of values without these texts in any string or key, at any depth."""
    pattern = pattern_of(excluded)
    return {
        "not": {"type": "string", "pattern": pattern},
        "propertyNames": {"not": {"pattern": pattern}},
        "additionalProperties": {"$ref": "#"},
        "items": {"$ref": "#"},
    }
