"""Structural tags: free text with parts whose form is fixed, such as tool calls, as one grammar.

    {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": [...], "tags": [...]}}
    {"type": "structural_tag", "structures": [{"begin": ..., "schema": ..., "end": ...}], "triggers": [...]}
    {"type": "triggered_tags", ...}                                                                a format by itself

The second form is the older one; it means triggered_tags over the structures. `"type": "structural_tag"` may be left out.
Every type of format is a function in `formats.py`; `docs/structural_tags.md` describes them.
An unknown field is an error, since a constraint is never ignored.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from ...pda.budget import Budget
from ...pda.exceptions import LimitError
from ...pda.grammar import Grammar, NodeId
from ...pda.limits import Limits
from .contents import parsed_schema
from .fields import Fields, refusal
from .formats import Writer
from .special import SpecialTokens
from .structures import tag_of, triggered_tags
from .tag_cache import Arena, Arenas, Part

_NO_SPECIAL: Mapping[str, int] = {}


def structural_tag_grammar(
    tag: Mapping[str, Any] | str, *, special: Mapping[str, int] = _NO_SPECIAL, limits: Limits | None = None
) -> Grammar:
    """The grammar of a structural tag, given as a mapping, as JSON text or as a model of another library.

    `special` are the tokens that the tag can name.

    >>> print(structural_tag_grammar({"type": "const_string", "value": "yes"}))
    root ::= "yes"
    """
    return StructuralTags(special, limits=limits).grammar(tag)


class StructuralTags:
    """Compiles structural tags that may name the same special tokens; Parts inside them that were seen before are not compiled again.

    `spelled` are the names of those that have no text, so that a text in a tag that spells one means the token too; None for all.
    Ids of tokens in a tag are below `vocabulary_size`, where that is given.
    `writer` turns formats into nodes.
    """

    def __init__(
        self,
        special: Mapping[str, int],
        *,
        spelled: Collection[str] | None = None,
        vocabulary_size: int | None = None,
        limits: Limits | None = None,
        writer: type[Writer] = Writer,
    ) -> None:
        self._writer = writer
        self._special = SpecialTokens(special, spelled, vocabulary_size)
        self._limits = limits
        self._arenas = Arenas()

    def grammar(self, tag: Mapping[str, Any] | str, keys: Sequence[bytes] = ()) -> Grammar:
        """The grammar of a structural tag; `keys` are those of its Parts.

        Where there are any it may hold parts of others that its root does not reach; `stackmask.pda.embed.compact` leaves them out.
        """
        budget = Budget(self._limits)
        fields = Fields.of("", _parsed(tag, budget.limits))
        arena = self._arenas.take(keys) if keys else Arena()
        mark = arena.mark()
        used = 0
        try:
            writer = self._writer(arena, self._special, budget)
            builder = arena.builder
            root = builder.rule("root")
            builder.define(root, _written(writer, fields))
            most = budget.limits.rules
            if len(builder.rules) - mark.rules + writer.reused_rules > most:
                raise LimitError(f"the structural tag needs more than {most} rules", limit="rules", value=most)
            used = len(builder.nodes) - mark.nodes + writer.reused
            return arena.build(root)
        except BaseException:
            arena.restore(mark)
            used = mark.nodes  # its earlier tags serve later requests
            raise
        finally:
            if keys:
                self._arenas.give(arena, used)


def _parsed(tag: object, limits: Limits) -> object:
    """The value of JSON text; any other object is returned unchanged."""
    if not isinstance(tag, str):
        return tag
    if len(tag) > limits.specification_bytes:
        raise LimitError(
            f"the structural tag takes {len(tag)} characters, more than {limits.specification_bytes}",
            limit="specification_bytes",
            value=limits.specification_bytes,
        )
    try:
        return json.loads(tag)
    except ValueError as error:
        raise refusal("", f"is not JSON: {error}") from None
    except RecursionError:
        raise LimitError("the JSON text is nested deeper than Python's JSON parser reads", limit="nesting", value=limits.nesting) from None


def _written(writer: Writer, fields: Fields) -> NodeId:
    """The node of a tag in any of the three forms."""
    name = fields.values.get("type")
    if name is None and fields.values.keys() & {"format", "structures"}:
        name = "structural_tag"
    if name != "structural_tag":
        return writer.write("", fields.values)
    if "structures" in fields.values:
        fields.only(("type", "structures", "triggers"), "a structural tag with structures")
        return writer.write("", _triggered(fields))
    fields.only(("type", "format"), "a structural tag")
    return writer.write("format", fields.required("format"))


def _triggered(fields: Fields) -> dict[str, Any]:
    """The newer form of the older one."""
    tags: list[object] = []
    for index, item in enumerate(fields.items("structures")):
        path = fields.path_of("structures", index)
        tags.append(Part(item.key, item, partial(_structure, path)) if isinstance(item, Part) else _structure(path, item))
    return triggered_tags(fields.required("triggers"), tags)


def _structure(path: str, value: object) -> dict[str, Any]:
    """The tag that a structure stands for."""
    fields = Fields.of(path, value.open() if isinstance(value, Part) else value)
    fields.only(("begin", "schema", "end"), "a structure")
    schema = parsed_schema(fields.path_of("schema"), fields.values.get("schema"))
    return tag_of({"begin": fields.text("begin"), "schema": schema, "end": fields.text("end")})
