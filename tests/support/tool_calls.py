"""Tool calls written as the table of formats spells them: what the parser is tested against."""

import json

from hypothesis import strategies as st

from stackmask.integration.tools.kinds import member
from stackmask.integration.tools.spelling import bind, spellings
from stackmask.schema.structural_tag.notations import NOTATIONS


def write_answer(format, calls, *, before="", after="", special=(), spelling=0, gap="\n"):
    """An answer: text, calls as pairs of a tool and its arguments or input, and text."""
    bound = bind(format, special)
    written = [write_call(bound, tool, value, index, spelling, gap) for index, (tool, value) in enumerate(calls)]
    body = bound.separator.join(written)
    if bound.open and calls:
        body = _blanks(bound.open, gap) + body + _blanks(bound.close, gap)
    begin, end = bound.text
    match bound.layout:
        case "before":
            return f"{before}{end}{body}{bound.tail}"
        case "either":
            return body if calls else begin + before + end
    return before + body + after


def write_call(bound, tool, value, index=0, spelling=0, gap="\n"):
    """One call."""
    found = [one for one in spellings(bound) if one.is_custom == tool.is_custom]
    one = found[spelling % len(found)]
    head = _blanks(one.head.replace("$name", tool.name).replace("$index", str(index)), gap)
    match one.slot:
        case "input":
            body = value
        case "string":
            body = json.dumps(value)
        case _:
            body = write_arguments(NOTATIONS[bound.style], value, tool.parameters)
    return head + body + _blanks(one.tail, gap)


def _blanks(template, gap):
    """A template with its blanks."""
    return template.replace("$gap", gap).replace("$line", "\n").replace("$space", " ")


def write_arguments(notation, arguments, schema):
    """Arguments in a notation."""
    if (note := notation.literals) is not None:
        return note.comma.join(f"{key}{note.assign}{_literal(note, value)}" for key, value in arguments.items())
    if not notation.pair:
        return json.dumps(arguments, ensure_ascii=False)
    return "".join(_element(notation, key, value, member(schema, key, schema), schema) for key, value in arguments.items())


def _element(notation, key, value, schema, root):
    """One argument, or one item of an array where there is no key."""
    kind = {bool: "boolean", str: "string", int: "number", float: "number", type(None): "null", dict: "object", list: "array"}[type(value)]
    text = notation.item if key is None else notation.pair.replace("$key", notation.escaped(key))
    text = text.replace("$kind", notation.kinds.get(kind, ""))
    if notation.item and kind == "object":
        inner = "".join(_element(notation, name, item, member(schema, name, root), root) for name, item in value.items())
    elif notation.item and kind == "array":
        inner = "".join(_element(notation, None, item, member(schema, None, root), root) for item in value)
    elif kind == "string":
        inner = f"\n{value}\n" if notation.trim else value
    else:
        inner = json.dumps(value, ensure_ascii=False)
    return text.replace("$value", inner)


def _literal(note, value):
    """A value as a literal."""
    match value:
        case None | True | False:
            return note.words[0 if value is None else 1 if value else 2]
        case str() if note.quote:
            return f"{note.quote}{value}{note.quote}"
        case list():
            return "[" + note.comma.join(_literal(note, item) for item in value) + "]"
        case dict():
            keys = [json.dumps(key, ensure_ascii=False) if note.quotes_keys else key for key in value]
            return (
                "{"
                + note.comma.join(f"{key}{note.member}{_literal(note, item)}" for key, item in zip(keys, value.values(), strict=True))
                + "}"
            )
        case _:
            return json.dumps(value, ensure_ascii=False)


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cn", "Cc"], exclude_characters="<>]["), max_size=8)
SCALARS = {"string": WORDS, "integer": st.integers(-99, 99), "boolean": st.booleans(), "null": st.none()}


@st.composite
def functions(draw, *, nested):
    """A function's schema, and arguments that fit it."""

    def value(depth):
        kind = draw(st.sampled_from([*SCALARS, *(("object", "array") if depth else ())]))
        if kind in SCALARS:
            return {"type": kind}, draw(SCALARS[kind])
        if kind == "array":
            schema, item = value(0)
            return {"type": "array", "items": schema}, [item] * draw(st.integers(0, 2))
        members = {key: value(depth - 1) for key in draw(st.lists(st.from_regex(r"[a-z_]{1,5}", fullmatch=True), max_size=3, unique=True))}
        return {"type": "object", "properties": {key: one[0] for key, one in members.items()}}, {k: one[1] for k, one in members.items()}

    members = {
        key: value(2 if nested else 1) for key in draw(st.lists(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), max_size=4, unique=True))
    }
    schema = {"type": "object", "properties": {key: one[0] for key, one in members.items()}}
    return schema, {key: one[1] for key, one in members.items()}
