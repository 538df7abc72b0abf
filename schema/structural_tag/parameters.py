"""Grammars of objects in the tagged notations of `notations.STYLES`, in which models write the arguments of a tool.

A string stands as it is, without quotes and escapes; so it cannot hold the text that closes it, and strings with that text are left out.
Other values are JSON, except that notations with an `item` write the members and items of values as tagged parameters again.
Where an attribute says what kind of value follows, kind and value agree.

The algebra of `stackmask.schema` says which objects a schema allows, as it does for JSON, and `ObjectWriter` writes their members, here
with other punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Final

from ...pda.automata import dfa
from ...pda.automata.charset import complement, from_chars, union
from ...pda.automata.dfa import ANYTHING as ANY_TEXT
from ...pda.automata.dfa import Dfa
from ...pda.automata.language import accepts
from ...pda.budget import Budget
from ...pda.exceptions import SchemaError
from ...pda.free_text import automaton_without
from ...pda.grammar import ALT, AUTOMATON, UTF8, Node, NodeId, RuleId
from ..algebra.algebra import Algebra
from ..dialect.keyword_values import bounds, mapping, names
from ..dialect.keywords import BEYOND_LOCAL, LOCAL, STRING, TYPE, VALUES, groups_of
from ..dialect.references import Scope
from ..emit.arrays import ArrayWriter
from ..emit.direct import Compilation
from ..emit.json_parts import ANY_CHARACTER, Fragments, closed_text
from ..emit.object_graph import Member
from ..emit.objects import ObjectWriter, object_node, unordered
from ..emit.strings import StringWriter, is_plain, pattern_of
from ..emit.unordered import Unordered
from ..emit.values import called
from ..sets.keys import without
from ..sets.numbers import NUMBERS
from ..sets.strings import FREE as FREE_TEXT
from ..sets.types import ANYTHING, CONSTANTS, FALSE, Array, Conjunction, Object, Parts, Text, reduced
from .notations import STYLES

_KEY_CHARACTERS: Final = complement(union((0, 0x20), (0x7F, 0xA0), from_chars("<>\"&'=\u2028\u2029\u3000")))
WRITABLE: Final = Dfa(((*((lo, hi, 1) for lo, hi in zip(_KEY_CHARACTERS[::2], _KEY_CHARACTERS[1::2], strict=True)),),) * 2, (False, True))
"""The undeclared keys that are written: those without blanks and without the delimiters of any style."""
_UNLINED: Final = Dfa(
    (
        ((0, 0x9, 1), (0xB, 0x10FFFF, 1)),
        ((0, 0x9, 1), (0xA, 0xA, 2), (0xB, 0x10FFFF, 1)),
        ((0, 0x9, 1), (0xA, 0xA, 2), (0xB, 0x10FFFF, 1)),
    ),
    (True, True, False),
)
"""The texts that neither begin nor end with a line break."""
_KINDS: Final = {
    "integer": "number", "number": "number", "boolean": "boolean", "null": "null", "array": "array", "object": "object",
}  # fmt: skip


def styled(
    style: str,
    literal: Callable[[str], NodeId],
    shared: dict[object, NodeId],
    excludes: tuple[str, ...] = (),
    clean: Any = True,
    ends: tuple[str, ...] = (),
) -> Callable[[Compilation, RuleId, Any], NodeId]:
    """A function that writes a schema's objects in a style; `literal` makes the nodes of its texts, `shared` are nodes that tags share.

    No string and no key contains one of `excludes`; the schema `clean` enforces this for values in JSON.
    A schema without objects is written as a value is between its texts, without these; the strings contain none of `ends`, which follow.
    """

    def run(compilation: Compilation, rule: RuleId, schema: Any) -> NodeId:
        return _Styled(compilation, style, literal, shared, excludes, clean, ends).run(rule, schema)

    return run


class _Styled:
    """Writes one schema into a builder in one style."""

    def __init__(
        self,
        compilation: Compilation,
        name: str,
        literal: Callable[[str], NodeId],
        shared: dict[object, NodeId],
        excludes: tuple[str, ...],
        clean: Any,
        ends: tuple[str, ...],
    ) -> None:
        self.c = compilation
        self.name = name
        self.style = STYLES[name]
        self.literal = literal
        self.shared = shared
        self.b = compilation.builder
        self.blank = compilation.fragments.blank
        self.tails: dict[Conjunction, NodeId] = {}
        self.framed: dict[tuple[str, NodeId], NodeId] = {}
        self.pending: list[tuple[RuleId, Conjunction]] = []
        self.excludes = excludes
        self.excluded = (self.style.excluded or self.style.close, *excludes)
        self.free = automaton_without(self.excluded, budget=compilation.budget) if excludes else closed_text(self.excluded)
        self.clean_schema = clean
        self.ends = ends

    # PERF: the algebra and its writers are made on first use, since most tools never need them

    @cached_property
    def algebra(self) -> Algebra:
        """The algebra of the schema."""
        return self.c.algebra

    @cached_property
    def bare(self) -> Fragments:
        """The punctuation of JSON, spelled as the empty text or as blanks."""
        f = self.c.fragments
        empty = f.empty
        bare = replace(f, open_object=empty, close_object=empty, comma=f.blank, colon=empty, open_array=empty, close_array=empty)
        return replace(bare, blank=empty, comma=empty) if self.style.adjoins else bare

    @cached_property
    def texts(self) -> Fragments:
        """The parts of strings without quotes and escapes."""
        f = self.c.fragments
        return replace(f, encoding=UTF8, character=self.b.chars(ANY_CHARACTER), quote=f.empty, closing=())

    @cached_property
    def objects(self) -> _Objects:
        """The writer of object parts."""
        return _Objects(self, self.bare, self.c.objects)

    @cached_property
    def arrays(self) -> _Arrays:
        """The writer of array parts."""
        return _Arrays(self, self.bare if self.style.separated else replace(self.bare, comma=self.c.fragments.empty), self.c.arrays)

    @cached_property
    def clean(self) -> Conjunction:
        """The constraint on values in JSON beside their schema."""
        return self.conjunction(self.clean_schema, self.c.registry.root)

    def run(self, first: RuleId, schema: Any) -> NodeId:
        """Define a rule as the objects of a schema, and every rule that this needs."""
        scope = self.c.registry.root
        node = self.declared(schema, scope)
        if node is None:
            parts = self.algebra.writable(self.conjunction(schema, scope))
            node = self.alternatives([self.objects.node(part) for part in parts.objects])
            if not parts.objects and not parts.is_empty():
                node = self.value_alone(self.conjunction(schema, scope))
        self.b.define(first, node)
        while self.pending or self.c.pending:
            if self.c.pending:
                self.c.finish()
                continue
            rule, value = self.pending.pop()
            self.b.define(rule, self.written(value))
            self.c.check_rules()
        return node

    def value_alone(self, value: Conjunction) -> NodeId:
        """A value without a key, between texts of the caller's."""
        self.style = replace(self.style, padded=False, trim=False)
        self.excluded = (*(self.excluded if self.style.item else self.excludes), *self.ends)
        self.free = automaton_without(self.excluded, budget=self.c.budget)
        return self.alternatives([node for _, node in self.typed(value)])

    def conjunction(self, schema: Any, scope: Scope) -> Conjunction:
        """A subschema as a conjunction."""
        return reduced(frozenset((self.algebra.numbering.literal(schema, scope),)))

    def declared(self, schema: Any, scope: Scope) -> NodeId | None:
        """A schema that only lists its properties, None for others.

        PERF: such schemas, which tools mostly have, cost a third without the algebra.
        """
        groups = keyword_groups(schema, scope)
        if not groups & TYPE or groups & BEYOND_LOCAL or schema["type"] != "object":
            return None
        properties = mapping(schema, "properties")
        needed = dict.fromkeys(names(schema, "required", schema["required"]) if "required" in schema else ())
        beyond = schema.get("additionalProperties", True)
        members = [self.member(name, value, scope) for name, value in properties.items()]
        never = self.c.fragments.never
        missing = [name for name in needed if name not in properties]
        if beyond is False:
            members += [never] * len(missing)
            extra = never
        elif beyond is True and not self.excludes:
            tail = self.tail(ANYTHING)
            members += [self.pair(self.key(name), tail) for name in missing]
            extra = never if self.style.after_repeated_key else self.pair(self.b.node(undeclared_keys([*properties, *needed])), tail)
        else:
            others = self.conjunction(beyond, scope)
            writer = self.objects
            members += [writer.pair(self.key(name), others) for name in missing]
            extra = writer.pair(writer.undeclared(others, [*properties, *needed]), others)
        asked = [name in needed for name in (*properties, *missing)]
        return (unordered if self.c.any_order else object_node)(self.b, self.bare, members, asked, extra)

    def member(self, name: str, schema: Any, scope: Scope) -> NodeId:
        """A declared member."""
        key = self.key(name)
        if schema is False or key == self.c.fragments.never:
            return self.c.fragments.never
        found = self.simple(schema, scope)
        return self.pair(key, self.tail(self.conjunction(schema, scope)) if found is None else self.frame(*found))

    def key(self, name: str) -> NodeId:
        """A declared key."""
        style = self.style
        written = style.escaped(name)
        if style.keys and not re.fullmatch(style.keys, name):
            raise SchemaError(f"{self.name} cannot write the property {name!r}, which no parser would read back")
        if (
            not name
            or style.ends_key in written
            or (style.escapes and "\0" in name)
            or (not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name))
        ):
            raise SchemaError(f"{self.name} cannot write the property {name!r}")
        if self.excludes and any(excluded in name for excluded in self.excludes):
            return self.c.fragments.never
        return self.b.literal(written.encode())

    def pair(self, key: NodeId, tail: NodeId) -> NodeId:
        """A key and the text after it."""
        if tail == self.c.fragments.never:
            return tail
        b, style, literal = self.b, self.style, self.literal
        node = b.seq(literal(style.before), key, literal(style.ends_key), tail)
        if style.adjoins:
            return b.seq(node, self.blank)
        return b.seq(node, key, literal(style.after_repeated_key)) if style.after_repeated_key else node

    def alternatives(self, nodes: Sequence[NodeId]) -> NodeId:
        """Any of the nodes, except those that generate no text."""
        never = self.c.fragments.never
        kept = [node for node in dict.fromkeys(nodes) if node != never]
        return kept[0] if len(kept) == 1 else self.b.node((ALT, *kept)) if kept else never

    def tail(self, value: Conjunction) -> NodeId:
        """The text after a key: the opening, a value and the close."""
        found = self.tails.get(value)
        if found is None:
            if not self.style.item:
                found = self.tails[value] = (
                    self.anything() if value == ANYTHING and not self.excludes else called(self.b, self.written(value))
                )
            else:  # members in members: values may be recursive
                rule = self.b.rule("value")
                found = self.tails[value] = self.b.call(rule)
                self.pending.append((rule, value))
        return found

    def anything(self) -> NodeId:
        """The text after a key for any value; written once in a builder, since many tools allow undeclared properties."""
        f = self.c.fragments
        key = (self.name, self.c.any_order, f.value, f.blank)
        found = self.shared.get(key)
        if found is None:
            found = self.shared[key] = called(self.b, self.written(ANYTHING))
        return found

    def item(self, value: Conjunction) -> NodeId:
        """An item of an array."""
        before, after = self.style.around_item
        return self.b.seq(self.literal(before), self.tail(value), self.literal(after))

    def written(self, value: Conjunction) -> NodeId:
        """The alternatives for the text after a key, one for each word that the opening has for a kind of value."""
        kinds: dict[str, list[NodeId]] = {}
        for kind, node in self.typed(value):
            kinds.setdefault(self.style.kinds.get(kind, ""), []).append(node)
        return self.alternatives([self.tagged(kind, self.alternatives(nodes)) for kind, nodes in kinds.items()])

    def frame(self, kind: str, node: NodeId) -> NodeId:
        """The text after a key: the opening, a value of one kind and the close."""
        name = self.style.kinds.get(kind, "")
        found = self.framed.get((name, node))
        if found is None:
            found = self.framed[name, node] = called(self.b, self.tagged(name, node))
        return found

    def tagged(self, kind: str, inside: NodeId) -> NodeId:
        """A value in the opening for its kind and the close."""
        b, style, literal = self.b, self.style, self.literal
        if inside == self.c.fragments.never:
            return inside
        opening: list[NodeId] = []
        for text in style.opening:
            if opening:
                opening.append(self.blank)
            opening.append(literal(text.replace("$kind", kind)))
        return b.seq(*opening, inside, literal(style.close))

    def typed(self, value: Conjunction) -> list[tuple[str, NodeId]]:
        """The values of a conjunction by their kinds."""
        plain = self.plain(value)
        if plain is not None:
            return [plain]
        parts = self.algebra.writable(value)
        found = [("string", self.string(text)) for text in parts.texts]
        if parts.numbers:
            found.append(("number", self.padded(self.c.fragments.number if parts.numbers == NUMBERS else self.c.numbers(parts.numbers))))
        for kind, constants in (("boolean", CONSTANTS - {None}), ("null", frozenset((None,)))):
            some = parts.constants & constants
            if some:
                found.append((kind, self.padded(self.c.parts(Parts(frozenset(some))))))
        if self.style.item:
            found += (("array", self.arrays.node(array)) for array in parts.arrays)
            found += (("object", self.objects.node(part)) for part in parts.objects)
        else:
            if self.clean and (parts.arrays or parts.objects):
                parts = self.algebra.writable(reduced(value | self.clean))
            if parts.arrays:
                found.append(("array", self.padded(self.c.parts(Parts(arrays=parts.arrays)))))
            if parts.objects:
                found.append(("object", self.padded(self.c.parts(Parts(objects=parts.objects)))))
        return found

    def plain(self, value: Conjunction) -> tuple[str, NodeId] | None:
        """The values of a conjunction that is a simple subschema, None for others."""
        if len(value) != 1:
            return None
        (literal,) = value
        if literal < 0:
            return None
        schema, scope = self.algebra.numbering.entries[literal]
        found = self.simple(schema, scope)
        if found is None and self.style.item:
            node = self.declared(schema, scope)
            return None if node is None else ("object", node)
        return found

    def simple(self, schema: Any, scope: Scope) -> tuple[str, NodeId] | None:
        """The values of a subschema with a type and keywords for this type only, or a list of strings; None for others.

        PERF: most parameters are of this form, and cost a third of the time without their normal form.
        """
        groups = keyword_groups(schema, scope)
        kind = schema["type"] if groups & TYPE else None
        if kind.__class__ is not str:
            return None
        if groups & BEYOND_LOCAL:
            if kind != "string" or groups & (BEYOND_LOCAL | LOCAL) != VALUES or "const" in schema or schema["enum"].__class__ is not list:
                return None
            return kind, self.string(Text(words=frozenset(value for value in schema["enum"] if isinstance(value, str))))
        if kind == "string":
            if not groups & STRING:
                return kind, self.string(FREE_TEXT)
            if "pattern" in schema or "format" in schema:
                return None
            low, high = bounds(schema, "minLength", "maxLength")
            return kind, self.c.fragments.never if 0 <= high < low else self.string(Text(low, high))
        name = _KINDS.get(kind)
        if name is None or (name in ("array", "object") and (self.style.item or self.excludes)):
            return None
        return name, self.padded(self.c.shared(schema, scope))

    def padded(self, node: NodeId) -> NodeId:
        """A value that is no string, with the blanks around it that its parser drops."""
        if not self.style.padded or node == self.c.fragments.never:
            return node
        around = self.b.optional(self.b.literal(b"\n")) if self.style.trim else self.blank
        return self.b.seq(around, node, around)

    def holds_excluded(self, text: str) -> bool:
        """Whether a text contains a text that no string may contain."""
        return any(excluded in text for excluded in self.excluded)

    def word(self, word: str) -> NodeId:
        """One string."""
        try:
            return self.b.literal(word.encode())
        except UnicodeEncodeError:
            raise SchemaError(f"{word!a} contains a lone surrogate, which UTF-8 cannot encode") from None

    def string(self, text: Text) -> NodeId:
        """The strings of a part, unescaped.

        A parser that takes a newline off either end reads a string between two as it is, and one without, if it has none at its ends.
        """
        if text == FREE_TEXT:
            return self.b.automaton(self.free.transitions, self.free.accepting)
        b = self.b
        if text.words is None and text.tests:
            text = self.without_excluded(text)
        node = self.inside(text)
        if not self.style.trim or node == self.c.fragments.never:
            return node
        line = b.literal(b"\n")
        lined = b.seq(line, node, line)
        if text.words is not None:
            node = self.inside(text._replace(words=frozenset(word for word in text.words if word == word.strip("\n"))))
        elif not text.tests:
            node = b.automaton(*unlined_text(self.excluded, self.c.budget), minimum=text.low, maximum=text.high)
        elif self.has_lines_at_ends(text):  # PERF: their texts without line breaks at the ends are one more automaton
            return lined
        return self.alternatives([lined, node])

    def inside(self, text: Text) -> NodeId:
        """The strings of a part without the line breaks around them."""
        if text.words is not None:
            return self.alternatives([self.word(word) for word in sorted(text.words) if not self.holds_excluded(word)])
        if not text.tests:
            assert text.high < 0 or text.low <= text.high, "the algebra has no empty parts"
            return self.b.automaton(self.free.transitions, self.free.accepting, minimum=text.low, maximum=text.high)
        return StringWriter(self.b, self.texts, self.algebra.strings).inside(text)

    def without_excluded(self, text: Text) -> Text:
        """A part with tests, with one more for the texts that no string may contain."""
        if not self.excluded or is_plain(text, self.excluded):
            return text
        return text._replace(tests=text.tests | {("pattern", pattern_of(self.excluded), False)})

    def has_lines_at_ends(self, text: Text) -> bool:
        """Whether the tests allow a text that begins or ends with a line break."""
        if is_plain(text):
            return False
        automaton = self.algebra.strings.all_of(text.tests)
        breaks = [[target for low, high, target in row if low <= 10 <= high] for row in automaton.transitions]
        return bool(breaks[0]) or any(automaton.accepting[target] for targets in breaks for target in targets)


def keyword_groups(schema: Any, scope: Scope) -> int:
    """The groups of a subschema's keywords, 0 for one that is not an object."""
    return groups_of(schema, scope.resource.dialect.keywords) if schema.__class__ is dict else 0


def unlined_text(excluded: tuple[str, ...], budget: Budget) -> tuple[Any, Any]:
    """The transitions and the accepting states of texts without these that neither begin nor end with a line break."""
    if len(excluded) == 1:
        return _unlined_text(excluded[0])
    found = dfa.intersection(automaton_without(excluded, budget=budget), _UNLINED, budget=budget)
    return found.transitions, found.accepting


@lru_cache(maxsize=len(STYLES))
def _unlined_text(excluded: str) -> tuple[Any, Any]:
    """The same for the strings of a style."""
    return unlined_text((excluded, excluded), Budget())


def undeclared_keys(declared: Sequence[str]) -> Node:
    """The undeclared keys that are written, without these: the trie of these, and state 1 for all others.

    PERF: most tools allow undeclared keys, and `keys.without` takes three times as long.
    """
    children: list[dict[int, int]] = [{}, {}]
    accepting = [False, True]
    for name in declared:
        if not (name.isascii() and name.isidentifier()) and not accepts(WRITABLE, name):
            continue
        state = 0
        for code in map(ord, name):
            following = children[state].get(code)
            if following is None:
                following = children[state][code] = len(children)
                children.append({})
                accepting.append(True)
            state = following
        accepting[state] = False
    rows = []
    for own in children:
        if len(own) == 1:
            ((code, child),) = own.items()
            rows.append((*_others(0, code - 1), (code, code, child), *_others(code + 1, 0x10FFFF)))
            continue
        row: list[tuple[int, int, int]] = []
        least = 0
        for code in sorted(own):
            if least < code:
                row += _others(least, code - 1)
            row.append((code, code, own[code]))
            least = code + 1
        rows.append((*row, *_others(least, 0x10FFFF)))
    return AUTOMATON, tuple(rows), tuple(accepting), UTF8


@lru_cache(maxsize=2048)
def _others(least: int, most: int) -> tuple[tuple[int, int, int], ...]:
    """The moves to state 1 by the characters between two."""
    return tuple((max(lo, least), min(hi, most), 1) for lo, hi, _ in WRITABLE.transitions[1] if lo <= most and hi >= least)


class _Objects(ObjectWriter):
    """Object parts written in a style."""

    def __init__(self, styled: _Styled, bare: Any, json: ObjectWriter) -> None:
        super().__init__(styled.b, bare, json.oracle, styled.tail, any_order=json.any_order, distinct=False)
        self.styled = styled

    def members(self, part: Object) -> tuple[list[Member], list[Member]]:
        """The declared keys that can occur, and the classes of the others, with keys as the style writes them."""
        declared, undeclared = super().members(part)
        declared = [member._replace(key=self.styled.key(member.name or "")) for member in declared]
        for member in undeclared:
            self.undeclared(member.value)
        return declared, [member for member in undeclared if member.key != self.f.never]

    def tells_repeated(self, part: Object) -> bool:
        """Whether an undeclared key may not occur again; clauses about declared keys, of which each occurs once, do not ask for that."""
        return part.low > 0 or any(atom.leaves_key_open for atoms in (part.atoms, *part.clauses) for atom in atoms)

    def unordered(self, part: Object) -> Unordered:
        """A graph, which counts keys of JSON."""
        raise SchemaError(f"{self.styled.name} cannot have so many combinations of keys in any order; any_order may be false")

    def undeclared(self, value: Conjunction, declared: Sequence[str] = ()) -> NodeId:
        """Any key but the declared ones, for such a value."""
        if self.styled.style.after_repeated_key and value != ANYTHING and FALSE not in value:
            raise SchemaError(f"{self.styled.name} writes declared properties only, since a tag repeats its name when it is closed")
        return self.f.never if FALSE in value else self.extra_key(ANY_TEXT, declared)

    def extra_key(self, keys: Dfa, declared: Sequence[str]) -> NodeId:
        """The keys of an automaton without the declared ones, restricted to those that can be written."""
        if self.styled.style.after_repeated_key:
            return self.f.never
        if self.distinct:
            raise SchemaError(f"{self.styled.name} cannot count properties that are not declared; additionalProperties may be false")
        if keys is ANY_TEXT and not self.styled.excludes:
            return self.b.node(undeclared_keys(declared))
        writable = WRITABLE
        if self.styled.excludes:
            free = dfa.minimize(self.styled.free, budget=self.oracle.budget)
            writable = dfa.intersection(writable, free, budget=self.oracle.budget)
        writable = writable if keys is ANY_TEXT else dfa.intersection(keys, writable, budget=self.oracle.budget)
        writable = without(writable, [name for name in declared if accepts(writable, name)])
        return self.f.never if writable == dfa.NOTHING else self.b.automaton(writable.transitions, writable.accepting)

    def pair(self, key: NodeId, value: Conjunction) -> NodeId:
        """A member."""
        if FALSE in value or key == self.f.never:
            return self.f.never
        return self.styled.pair(key, self.value(value))


class _Arrays(ArrayWriter):
    """Array parts written in a style."""

    def __init__(self, styled: _Styled, bare: Any, json: ArrayWriter) -> None:
        super().__init__(styled.b, bare, json.is_empty, json.is_small, styled.item, lambda _: None, json.budget, json.cases, json.few)
        self.styled = styled

    def node(self, part: Array) -> NodeId:
        """The arrays of a part."""
        if part.distinct and part.high not in (0, 1):
            raise SchemaError(f"{self.styled.name} cannot tell that the items of an array are unique")
        return super().node(part)
