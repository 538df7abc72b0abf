"""Structural tags: free text with parts whose form is fixed, such as tool calls, as one grammar.

    {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": [...], "tags": [...]}}
    {"type": "structural_tag", "structures": [{"begin": ..., "schema": ..., "end": ...}], "triggers": [...]}
    {"type": "triggered_tags", ...}                                                                a format by itself

The second form is the older one; it means triggered_tags over the structures.
Every type of format is a function in `structural_tag_formats`; `docs/structural_tags.md` describes them.
A field that nobody knows is an error, since a constraint is never ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from threading import Lock
from typing import Any, Final

from stackmask.pda.budget import Budget
from stackmask.pda.exceptions import LimitError
from stackmask.pda.grammar import Grammar, GrammarBuilder, NodeId
from stackmask.pda.limits import Limits
from stackmask.schema.structural_tag_contents import Contents, parsed_schema
from stackmask.schema.structural_tag_fields import Fields, refusal
from stackmask.schema.structural_tag_formats import Arena, Kept, Writer
from stackmask.schema.structural_tag_pieces import Pieces
from stackmask.schema.structural_tag_special import SpecialTokens

_NO_SPECIAL: Mapping[str, int] = {}
_SPARE: Final = 2
_MOST_UNUSED: Final = 5_000
"""An arena is left when it has more nodes than twice those of its last tag and this."""


def structural_tag_grammar(
    tag: Mapping[str, Any] | str, *, special: Mapping[str, int] = _NO_SPECIAL, limits: Limits | None = None
) -> Grammar:
    """The grammar of a structural tag, given as a mapping, as JSON text or as a model of another library.

    `special` are the tokens that the tag can name.

    >>> from stackmask.pda.grammar import print_grammar
    >>> print_grammar(structural_tag_grammar({"type": "const_string", "value": "yes"}))
    'root ::= "yes"'
    """
    return StructuralTags(special, limits=limits).grammar(tag)


class StructuralTags:
    """Compiles structural tags that may name the same special tokens; tags inside them that were seen before are not compiled again.

    `spelled` are the names of those that have no text, so that a text in a tag that spells one means the token too; None for all.
    `key` gives the key by which a tag inside is found again, None for one that cannot be; without `key` nothing is kept.
    """

    def __init__(
        self,
        special: Mapping[str, int],
        *,
        spelled: Collection[str] | None = None,
        limits: Limits | None = None,
        key: Callable[[object], bytes | None] | None = None,
    ) -> None:
        self._special = SpecialTokens(special, spelled)
        self._limits = limits
        self._kept = None if key is None else Kept(Pieces(), key)
        self._arena: Arena | None = None
        self._lock = Lock()

    def grammar(self, tag: Mapping[str, Any] | str) -> Grammar:
        """The grammar of a structural tag.

        With a `key` it may hold parts of others that its root does not reach; `stackmask.pda.splice.compact` leaves them out.
        """
        if self._kept is None or not self._lock.acquire(blocking=False):
            return self._made(tag, _arena())[0]
        try:
            arena, self._arena = self._arena or _arena(), None  # which is dropped where an error leaves it half done
            grammar, used = self._made(tag, arena)
            # PERF: an engine reads 15 nodes in a microsecond, reachable or not
            if len(arena.builder.nodes) <= _SPARE * used + _MOST_UNUSED:
                self._arena = arena
            return grammar
        finally:
            self._lock.release()

    def _made(self, tag: Mapping[str, Any] | str, arena: Arena) -> tuple[Grammar, int]:
        """The grammar of a tag that is added to an arena, and about how many nodes of it this one uses."""
        budget = Budget(self._limits)
        fields = Fields.of("", _parsed(tag, budget.limits))
        builder = arena.builder
        nodes, rules = len(builder.nodes), len(builder.rules)
        root = builder.rule("root")
        writer = Writer(builder, arena.contents, self._special, budget, self._kept, arena)
        builder.define(root, _written(writer, fields))
        most = budget.limits.rules
        if len(builder.rules) - rules > most:
            raise LimitError(f"the structural tag needs more than {most} rules", limit="rules", value=most)
        return builder.build(root), len(builder.nodes) - nodes + writer.held


def _arena() -> Arena:
    """An empty arena."""
    builder = GrammarBuilder()
    return Arena(builder, Contents(builder), {})


def _parsed(tag: object, limits: Limits) -> object:
    """The value of JSON text; anything else is a value already."""
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
    if fields.values.get("type") != "structural_tag":
        return writer.write("", fields.values)
    if "structures" in fields.values:
        fields.only(("type", "structures", "triggers"), "a structural tag with structures")
        return writer.write("", _triggered(fields))
    fields.only(("type", "format"), "a structural tag")
    return writer.write("format", fields.required("format"))


def _triggered(fields: Fields) -> dict[str, Any]:
    """The newer form of the older one."""
    tags = []
    for index, item in enumerate(fields.items("structures")):
        structure = Fields.of(fields.place("structures", index), item)
        structure.only(("begin", "schema", "end"), "a structure")
        schema = parsed_schema(structure.place("schema"), structure.values.get("schema"))
        content = {"type": "json_schema", "json_schema": schema}
        tags.append({"begin": structure.text("begin"), "content": content, "end": structure.text("end")})
    return {"type": "triggered_tags", "triggers": fields.required("triggers"), "tags": tags}
