"""A structural tag compiled so that the names of its rules say where in it a text stands.

Every format, and the beginning and the end of every tag, becomes a rule whose name holds its path, so the rules that have begun in a text
(`Matcher.rule_names`) are the formats around its end. The texts are those of the tag as it is compiled otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ...pda.grammar import Grammar, NodeId
from ...pda.limits import Limits
from .compiler import StructuralTags
from .fields import Fields
from .formats import Around, Inner, Steps, TagSteps, Writer
from .tag_cache import Tag

_PREFIX: Final = "the format at "
"""A prefix that no name of a rule of a grammar inside a tag has."""


def placed_grammar(
    tag: Mapping[str, Any] | str, *, special: Mapping[str, int], spelled: Collection[str] | None = None, limits: Limits | None = None
) -> Grammar:
    """The grammar of a structural tag, with a rule for each part that has a path; the arguments are those of `StructuralTags`."""
    return StructuralTags(special, spelled=spelled, limits=limits, writer=PlacedWriter).grammar(tag)


def paths_of(rules: Sequence[str]) -> list[str]:
    """The paths of the formats among these rules of a placed grammar, such as `format.tags[0].content`; in the order of the rules.

    >>> paths_of(["a", "the format at format.elements[1]", "the format at format", "root"])
    ['format.elements[1]', 'format']
    """
    return [rule.removeprefix(_PREFIX) for rule in rules if rule.startswith(_PREFIX)]


class PlacedWriter(Writer):
    """Writes formats, the beginnings of tags and their ends as rules that are named by their paths."""

    def begin(self, inner: Inner) -> NodeId | Steps:
        """The same, as a rule."""
        found = super().begin(inner)
        return self._placed(inner.path, found) if isinstance(found, int) else self._finished(inner.path, found)

    def tag_parts(self, fields: Fields) -> TagSteps:
        """The same, with a rule for the text after the beginning, which knows the path of the tag."""
        tag = yield from super().tag_parts(fields)
        return _PlacedTag(tag.begin, self._placed(fields.path, tag.rest), fields.path_of("begin"))

    def ends(self, fields: Fields) -> tuple[Around, NodeId]:
        """The same, as a rule."""
        around, node = super().ends(fields)
        return around, self._placed(fields.path_of("end"), node)

    def after(self, tag: Tag, length: int = 0) -> NodeId:
        """The same, with a rule for the rest of the beginning."""
        assert isinstance(tag, _PlacedTag)
        rest = self.literal(tag.begin[length:]) if isinstance(tag.begin, str) else self.builder.tokens((tag.begin,))
        return self.builder.seq(self._placed(tag.path, rest), tag.rest)

    def _finished(self, path: str, steps: Steps) -> Steps:
        node = yield from steps
        return self._placed(path, node)

    def _placed(self, path: str, node: NodeId) -> NodeId:
        return self.rule(f"{_PREFIX}{path}", node)


class _PlacedTag(Tag):
    """A tag that knows the path of its beginning."""

    __slots__ = ("path",)

    def __init__(self, begin: str | int, rest: NodeId, path: str) -> None:
        super().__init__(begin, rest)
        self.path = path
