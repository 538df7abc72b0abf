"""One JSON Schema on its way to grammar nodes.

Most subschemas say one type and keywords local to it; they are written straight to grammar nodes here.
Combinators and keywords that act across others go through the algebra of `stackmask.schema.algebra` first.
A subschema that a reference names, that lies deep, or that needed the algebra becomes a rule of its own, compiled from a worklist, so that
neither recursive schemas nor deep ones recurse in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from ...pda.budget import Budget
from ...pda.exceptions import LimitError, shown
from ...pda.grammar import ALT, CALL, SEQ, GrammarBuilder, NodeId, RuleId
from ..algebra.algebra import Algebra
from ..algebra.bounds import lists_values, surely_all_disjoint, surely_endless, surely_many, type_bit, type_bits, upper_bound
from ..algebra.finite import Finite
from ..algebra.from_keywords import text_part
from ..dialect.keyword_values import (  # fmt: skip
    ATOMS,
    LISTS,
    MOST_COUNTED,
    Schema,
    bounds,
    flag,
    integer_set,
    item_schemas,
    mapping,
    names,
    number_set,
    schemas,
    types,
)
from ..dialect.keywords import (  # fmt: skip
    ALGEBRA,
    ANY_OF,
    ARRAY,
    ASIDE,
    BEYOND_LOCAL,
    DEFINITIONS,
    LOCAL,
    NUMBER,
    OBJECT,
    ONE_OF,
    REFERENCE,
    RESOURCE,
    STRING,
    TYPE,
    UNKNOWN,
    VALUES,
    groups_of,
)
from ..dialect.references import Registry, Scope, referred
from ..dialect.report import NOTHING_NOTED, Noted, ignores_beside_references, notable
from ..dialect.unknown_keywords import HOLDERS, has_note
from ..errors import Inexact, Malformed, excess
from ..formats import is_known
from ..sets import arrays, objects
from ..sets.numbers import INTEGERS, NUMBERS, NumberSet, decimal
from ..sets.objects import Cases
from ..sets.strings import FREE as FREE_TEXT
from ..sets.strings import Strings
from ..sets.types import ANYTHING, CONSTANTS, EVERY, FALSE, Array, Conjunction, Count, Literal, Parts, reduced
from .arrays import ArrayWriter, Few, array_node, permuted_array
from .json_parts import Fragments, any_text, quoted
from .numbers import number_node
from .objects import ObjectWriter, constant_in_any_order, extra_key, has_order, object_node, unordered
from .strings import StringWriter
from .values import any_value, called

DEEPEST_INLINE: Final = 30
"""Subschemas nested deeper than this become rules; every level takes a few Python frames."""
TYPES: Final = ("null", "boolean", "number", "string", "array", "object")
MERGED: Final = frozenset({"type", "properties", "required", "additionalProperties", "allOf", "oneOf", "$ref"})
"""The keywords of objects that say nothing but which members they have."""
MOST_MERGED: Final = 64

MOST_OF_A_SCOPE: Final = 240
"""The most work that a rule counts for those that subschemas have in several scopes."""
_UNKNOWN_TYPE: Final = (-1, NodeId(-1))
_BRANCHES: Final = ANY_OF | ONE_OF | ALGEBRA
_UNSETTLED: Final = ~(TYPE | NUMBER | VALUES)
"""All groups of keywords but those that hold no subschemas and that the report has no notes on."""
_SILENT: Final = ASIDE | DEFINITIONS
"""The groups of keywords that constrain nothing by themselves."""
_ASKED: Final = UNKNOWN | DEFINITIONS
"""The groups of keywords on which there may be a note, wherever they stand."""

Pending = tuple[RuleId, Any, Scope | None]
"""A rule to be defined: by a subschema in a scope, or by a conjunction of literals, which has none."""


@dataclass(slots=True)
class _MemberFacts:
    """The constraints of several subschemas on the members of an object."""

    declared: dict[str, dict[tuple[int, Scope], Any]] = field(default_factory=dict)
    """Per key the subschemas for its value."""
    required: list[str] = field(default_factory=list)
    unions: list[tuple[Schema, Scope]] = field(default_factory=list)
    """Those with a oneOf."""
    are_objects: bool = False
    allowed: Set[str] | None = None
    """The keys that there may be, None for any."""
    declares: bool = False
    """Whether there are `properties`."""
    tells_others: bool = False
    """Whether there is an additionalProperties."""


class Compilation:
    """One schema on its way into a builder."""

    # PERF: an attribute in a slot is read in place; those of an instance are looked up as soon as one of them was added later.
    __slots__ = (
        "_algebra",
        "_arrays",
        "_finite",
        "_objects",
        "_strings",
        "_texts",
        "above",
        "any_order",
        "before",
        "budget",
        "builder",
        "definitions",
        "depth",
        "distinct",
        "formats",
        "fragments",
        "in_scopes",
        "keyword_groups",
        "marks",
        "noted",
        "pending",
        "referenced",
        "registry",
        "rules",
        "scope",
        "scoped",
        "unread",
        "values_of",
    )

    def __init__(
        self,
        builder: GrammarBuilder,
        fragments: Fragments,
        registry: Registry,
        budget: Budget,
        *,
        any_order: bool,
        formats: bool,
        distinct: bool,
    ) -> None:
        self.builder = builder
        self.before = len(builder.rules)
        self.fragments = fragments
        self.registry = registry
        self.budget = budget
        self.any_order = any_order
        self.formats = formats
        self.distinct = distinct
        self.scope = registry.root
        self.keyword_groups = registry.root.resource.dialect.keywords
        self.depth = 0
        self._texts: Strings | None = None
        self._algebra: Algebra | None = None
        self._finite: Finite | None = None
        self._strings: StringWriter | None = None
        self._arrays: ArrayWriter | None = None
        self._objects: ObjectWriter | None = None
        self.pending: list[Pending] = []
        self.rules: dict[object, NodeId] = {}
        self.values_of: dict[Conjunction, NodeId] = {}
        self.in_scopes: set[int] = set()
        """The subschemas that have a rule in a scope of dynamic references."""
        self.scoped = 0
        """How many further rules these have, in other scopes."""
        self.noted: set[int] = set()
        """The ids of the subschemas that may have notes of their own."""
        self.unread: list[tuple[Schema, Scope]] = []
        """The subschemas that the algebra reads, or of which keywords were passed by, with all that stand in them."""
        self.marks = 0
        """How often a subschema was put into one of these, or definitions were met."""
        self.above: set[int] = set()
        """The ids of subschemas in which others are that were marked."""
        self.definitions: list[tuple[object, Scope]] = []
        """Where subschemas stand for others to refer to."""
        self.referenced: dict[tuple[object, Scope], NodeId] = {}
        """PERF: the target of a reference in a scope; most references have the target of earlier ones."""

    def run(self, first: RuleId, schema: object) -> NodeId:
        """Define the rule `first` as the grammar of `schema`, and every rule that it needs; returns its node behind trivial calls."""
        self.pending.append((first, schema, self.registry.root))
        self.finish()
        node = self.builder.rules[first]
        nodes, seen = self.builder.nodes, {first}
        while nodes[node][0] == CALL and nodes[node][1] not in seen:
            following: RuleId = nodes[node][1]
            seen.add(following)
            node = self.builder.rules[following]
        return node

    def finish(self) -> None:
        """Define the rules that are still to be defined."""
        while self.pending:
            rule, subject, scope = self.pending.pop()
            self.depth = 0
            try:
                if scope is None:
                    node = self.parts(self.algebra.writable(subject))
                else:
                    self.enter(scope)
                    node = self.node(subject)
                self.builder.define(rule, node)
                self.check_rules()
            except LimitError as error:
                schemas = [self.algebra.numbering.entries[abs(literal)][0] for literal in sorted(subject)] if scope is None else [subject]
                written = [schema for schema in schemas if schema.__class__ is dict]
                raise excess(error, written[0]) if written else error from None

    def check_rules(self) -> None:
        """Raise where there are too many rules, or the time is over."""
        self.budget.spend(4)
        most = self.budget.limits.rules
        if len(self.builder.rules) - self.before > most:
            raise LimitError(f"the schema needs more than {most} rules", limit="rules", value=most)

    def only_noted(self) -> Noted | None:
        """The only subschemas that the report can have notes on, and where they are; None if there may be others.

        PERF: so most schemas need no search for notes, or a short one. A whole one takes 8 % of the compilation of a small schema.
        """
        noted, ways = self.noted, self.above
        if self.definitions or self.unread:
            known = {key[0] for key in self.rules if key.__class__ is tuple}
            for schema, _ in self.unread:
                known.discard(id(schema))
            for schema, scope in self.unread:
                if not notable([schema], scope, known, noted, ways, formats=self.formats):
                    return None
            for defined, scope in self.definitions:
                if defined.__class__ in ATOMS:
                    continue
                if defined.__class__ is not dict or not notable(defined.values(), scope, known, noted, ways, formats=self.formats):
                    return None
        return Noted(noted, ways | noted) if noted else NOTHING_NOTED

    def asked(self, schema: Schema, groups: int) -> int:
        """The groups of a subschema without those whose notes are known: it has none, or is among those that may."""
        scope = self.scope
        if groups & DEFINITIONS:
            self.definitions += [(schema[keyword], scope) for keyword in ("$defs", "definitions") if keyword in schema]
            self.above.add(id(schema))
            self.marks += 1
        if groups & UNKNOWN:
            known = self.keyword_groups
            for keyword in schema:
                if keyword not in known and has_note(keyword, scope.resource.dialect):
                    if keyword in HOLDERS or keyword.__class__ is not str:
                        return groups & ~DEFINITIONS
                    self.note(schema)
        return groups & ~_ASKED

    def note(self, schema: Schema) -> None:
        """Mark a subschema that may have notes of its own."""
        self.noted.add(id(schema))
        self.marks += 1

    def leave_unread(self, schema: Schema) -> None:
        """Mark a subschema of which not every keyword is looked at here."""
        self.unread.append((schema, self.scope))
        self.marks += 1

    def release(self) -> None:
        """Break the cycle between this compilation and the writers that call it back, so that no garbage collection is needed."""
        if self._algebra is not None:
            self._algebra.release()
            self._algebra = self._finite = self._arrays = self._objects = None

    def source(self, what: str, argument: str) -> tuple[object, str, str] | None:
        """The first place of a pattern or format: subschema, keyword, and the rest of the pointer."""
        return self.texts.sources.get((what, argument))

    def enter(self, scope: Scope) -> None:
        """Go on in another scope."""
        if scope is not self.scope:
            self.scope = scope
            self.keyword_groups = scope.resource.dialect.keywords

    # PERF: the algebra and the writers of its parts, which all use it, are made for the first subschema that needs them; many schemas
    # have none.

    @property
    def texts(self) -> Strings:
        """The patterns and formats of the schema."""
        if self._texts is None:
            self._texts = Strings(self.budget)
        return self._texts

    @property
    def algebra(self) -> Algebra:
        """The algebra of the schema."""
        if self._algebra is None:
            self._algebra = Algebra(self.registry, self.budget, formats=self.formats, strings=self.texts)
        return self._algebra

    @property
    def finite(self) -> Finite:
        """The values of conjunctions that have few."""
        if self._finite is None:
            self._finite = Finite(self.algebra)
        return self._finite

    @property
    def strings(self) -> StringWriter:
        """The writer of string parts."""
        if self._strings is None:
            self._strings = StringWriter(self.builder, self.fragments, self.texts)
        return self._strings

    @property
    def arrays(self) -> ArrayWriter:
        """The writer of array parts."""
        if self._arrays is None:
            algebra, finite = self.algebra, self.finite
            few = Few(finite.values, finite.number, finite.has, algebra.numbering.constant, algebra.numbering.any_of)
            cases = Cases(algebra.oracle)
            self._arrays = ArrayWriter(
                self.builder, self.fragments, algebra.is_empty, algebra.is_small, self.value, self.finite_values, self.budget, cases, few
            )
        return self._arrays

    @property
    def objects(self) -> ObjectWriter:
        """The writer of object parts."""
        if self._objects is None:
            oracle = self.algebra.oracle
            self._objects = ObjectWriter(self.builder, self.fragments, oracle, self.value, any_order=self.any_order, distinct=self.distinct)
        return self._objects

    # Subschemas that say one thing.

    def node(self, schema: Any) -> NodeId:
        """The node of one subschema in the current scope."""
        if schema.__class__ is not dict:
            if schema is True:
                return self.fragments.value
            if schema is False:
                return self.fragments.never
            raise Malformed(schema, "", f"a schema must be an object or a boolean, not {shown(schema)}")
        get = self.keyword_groups.get
        groups = 0
        for keyword in schema:
            groups |= get(keyword, UNKNOWN)
        if groups & _ASKED:
            groups = self.asked(schema, groups)
        if groups & BEYOND_LOCAL:
            return self.combined(schema, groups)
        # PERF: most subschemas are a type and no more
        if groups & TYPE and schema["type"].__class__ is str:
            matters, node = self.fragments.of_type.get(schema["type"], _UNKNOWN_TYPE)
            if not groups & matters:
                if groups & _UNSETTLED:
                    self.leave_unread(schema)
                return node
        return self.local(schema, groups)

    def local(self, schema: Schema, groups: int) -> NodeId:
        """A subschema whose keywords each concern one type only."""
        if not groups & (LOCAL | TYPE):
            if groups & _UNSETTLED:
                self.leave_unread(schema)
            return self.fragments.value
        kind = schema.get("type", TYPES) if groups & TYPE else TYPES
        if kind.__class__ is str:
            handler = HANDLERS.get(kind)
            if handler is None:
                raise Malformed(schema, "type", f"{shown(kind)} is not a type")
            if groups & _UNSETTLED & ~self.fragments.of_type[kind][0]:
                self.leave_unread(schema)
            return handler(self, schema, groups)
        if kind is TYPES:
            passed_by = groups & ~LOCAL
        else:
            kind = types(schema)
            if "number" in kind and "integer" in kind:
                kind = [k for k in kind if k != "integer"]
            passed_by = self.passed_by(groups, kind)
        if passed_by & _UNSETTLED:
            self.leave_unread(schema)
        # "integer" is no whole type: without "number" beside it, a list of all others leaves numbers out.
        if not groups & LOCAL and set(kind).issuperset(TYPES):
            return self.fragments.value
        return self.alternatives([HANDLERS[k](self, schema, groups) for k in kind])

    def passed_by(self, groups: int, kinds: Sequence[str]) -> int:
        """The groups of keywords that concern none of some types."""
        for kind in kinds:
            groups &= ~self.fragments.of_type[kind][0]
        return groups

    def alternatives(self, nodes: list[NodeId]) -> NodeId:
        """Any of the nodes, without those that are never, and without all others beside any value."""
        never, value = self.fragments.never, self.fragments.value
        if value in nodes:
            return value
        kept = [node for node in dict.fromkeys(nodes) if node != never]
        return kept[0] if len(kept) == 1 else self.builder.node((ALT, *kept)) if kept else never

    def null(self, _schema: Schema, _groups: int) -> NodeId:
        """`type: null`."""
        return self.fragments.null

    def boolean(self, _schema: Schema, _groups: int) -> NodeId:
        """`type: boolean`."""
        return self.fragments.boolean

    def integer(self, schema: Schema, groups: int) -> NodeId:
        """`type: integer`."""
        return self.numbers(integer_set(schema), schema) if groups & NUMBER else self.fragments.integer

    def number(self, schema: Schema, groups: int) -> NodeId:
        """`type: number`."""
        return self.numbers(number_set(schema), schema) if groups & NUMBER else self.fragments.number

    def numbers(self, numbers: NumberSet, schema: Schema | None = None) -> NodeId:
        """A set of numbers, of a subschema where one alone describes it."""
        if not numbers:
            return self.fragments.never
        if numbers == NUMBERS:
            return self.fragments.number
        try:
            return self.fragments.integer if numbers == INTEGERS else number_node(self.builder, numbers, budget=self.budget)
        except LimitError as error:
            raise error if schema is None else excess(error, schema, "multipleOf" if "multipleOf" in schema else "") from None

    def string(self, schema: Schema, groups: int) -> NodeId:
        """`type: string`."""
        f = self.fragments
        if not groups & STRING:
            return f.string
        has_format = "format" in schema
        if has_format and schema["format"].__class__ is str and not is_known(schema["format"]):
            self.note(schema)
            has_format = False
        low, high = bounds(schema, "minLength", "maxLength")
        if has_format or "pattern" in schema:
            try:
                part = text_part(schema, self.keyword_groups, low, high, self.texts, formats=self.formats)
                return self.strings.node(part if part.high <= MOST_COUNTED else part._replace(high=-1))
            except LimitError as error:
                raise excess(error, schema, "pattern" if "pattern" in schema else "format") from None
        if 0 <= high < low:
            return f.never
        b = self.builder
        return b.seq(f.quote, any_text(b, f.character, f.encoding, f.closing, low, high), f.quote)

    def array(self, schema: Schema, groups: int) -> NodeId:
        """`type: array`."""
        f = self.fragments
        if not groups & ARRAY:
            return f.array
        if self.depth >= DEEPEST_INLINE:
            return self.deferred(schema)
        low, high = bounds(schema, "minItems", "maxItems")
        distinct = high != 1 and flag(schema, "uniqueItems")
        first, others = item_schemas(schema, self.keyword_groups)
        if distinct and not first:
            values = self.finite_items(others)
            if values is not None:
                self.leave_unread(schema)
                return permuted_array(self.builder, f, values, low, high)
        if distinct and low > 1 and not self.has_enough(first[1:low], others if low > len(first) else True):
            self.leave_unread(schema)
            algebra = self.algebra
            return self.rule_for_conjunction(
                reduced(frozenset((algebra.numbering.literal(schema, self.scope), algebra.numbering.of_type("array"))))
            )
        self.depth += 1
        marks = self.marks
        prefix = [self.node(item) for item in first]
        rest = self.node(others) if others is not True else f.value
        if self.marks != marks:
            self.above.add(id(schema))
        self.depth -= 1
        return array_node(self.builder, f, prefix, rest, low, high, distinct=distinct)

    def object(self, schema: Schema, groups: int) -> NodeId:
        """`type: object`."""
        f = self.fragments
        if not groups & OBJECT:
            return f.object
        if self.depth >= DEEPEST_INLINE:
            return self.deferred(schema)
        properties = mapping(schema, "properties")
        required = names(schema, "required", schema["required"]) if "required" in schema else ()
        node = self.node
        self.depth += 1
        marks = self.marks
        declared: dict[str, NodeId] = {}
        for name, value in properties.items():
            declared[name] = node(value)
        beyond = schema.get("additionalProperties", True)
        others = f.value if beyond is True else node(beyond)
        if self.marks != marks:
            self.above.add(id(schema))
        self.depth -= 1
        closes = bool(self.scope.closing) and "properties" in schema and "additionalProperties" not in schema
        return self.closed(declared, required, others, f.never if closes else others)

    def closed(self, declared: dict[str, NodeId], required: Sequence[str], undeclared: NodeId, others: NodeId) -> NodeId:
        """An object of declared members, of required ones that nothing declares, whose values are `undeclared`, and of `others`."""
        b, f, never, needed = self.builder, self.fragments, self.fragments.never, frozenset(required)
        for name in required:
            declared.setdefault(name, undeclared)
        # PERF: a plain loop, which reads less code than `map` and its like: the first mask of a schema waits for memory most of the time
        members: list[NodeId] = []
        asked: list[bool] = []
        for name, value in declared.items():
            members.append(never if value == never else b.node((SEQ, b.literal(quoted(name, f.closing)), f.colon, value)))
            asked.append(name in needed)
        extra = never
        if others != never:
            key = extra_key(b, f, declared)
            extra = b.node((SEQ, b.distinct(key) if self.distinct else key, f.colon, others))
        made = (unordered if self.any_order else object_node)(b, f, members, asked, extra)
        return b.scope(made) if self.distinct and extra != never and made != never else made

    # Subschemas that say more.

    def combined(self, schema: Schema, groups: int) -> NodeId:
        """A subschema with references, values or combinators."""
        if groups & RESOURCE:
            inner = self.registry.enter(self.scope, schema)
            if inner is not self.scope:
                outer = self.scope
                self.enter(inner)
                written = self.node(schema)
                self.enter(outer)
                return written
            groups &= ~RESOURCE
            if not groups & BEYOND_LOCAL:
                return self.local(schema, groups)
        if self.depth >= DEEPEST_INLINE:
            return self.deferred(schema)
        marks = self.marks
        try:
            node = self._combined(schema, groups)
        except LimitError as error:
            raise excess(error, schema) from None
        if self.marks != marks:
            self.above.add(id(schema))
        return node

    def deferred(self, schema: Schema) -> NodeId:
        """A rule for a subschema that lies deep, which so is compiled after those around it."""
        self.marks += 1  # it may have notes
        return self.rule_for(schema, self.scope)

    def _combined(self, schema: Schema, groups: int) -> NodeId:
        """As `combined`, in the scope of the subschema."""
        asserted = groups & (BEYOND_LOCAL | LOCAL | TYPE)
        node: NodeId | None = None
        if asserted & ~TYPE == VALUES:
            node = self.values(schema, groups)
        elif groups & REFERENCE:
            node = self.reference(schema, asserted)
            if node is not None and not ignores_beside_references(schema, self.scope.resource.dialect):
                groups &= ~REFERENCE
        elif asserted & ~TYPE in (ANY_OF, ONE_OF) or asserted == ALGEBRA:
            node = self.branches(schema, asserted)
        if node is not None:
            if groups & _UNSETTLED & ~_BRANCHES:
                self.leave_unread(schema)
            return node
        self.leave_unread(schema)
        if "allOf" in schema or ("oneOf" in schema and asserted & ~TYPE != ONE_OF):
            node = self.merged(schema)
        return self.via_algebra(schema) if node is None else node

    def values(self, schema: Schema, groups: int) -> NodeId | None:
        """`enum` or `const`, perhaps with `type`; None where the algebra has to filter."""
        b, f = self.builder, self.fragments
        if "enum" in schema:
            values = schema["enum"]
            if not isinstance(values, LISTS):
                raise Malformed(schema, "enum", "must be an array")
            if "const" in schema and "const" in self.keyword_groups:
                return None
        else:
            values = [schema["const"]]
        if groups & TYPE and (schema["type"] != "string" or set(map(type, values)) != {str}):
            allowed = type_bits(types(schema))
            values = [value for value in values if type_bit(value) & allowed]
        objects = [value for value in values if has_order(value)] if self.any_order else []
        if not objects:
            return any_value(b, f, values) if values else f.never
        rest = [value for value in values if not has_order(value)]
        nodes = [any_value(b, f, rest)] if rest else []
        return b.alt(*nodes, *dict.fromkeys([constant_in_any_order(b, f, value) for value in objects]))

    def reference(self, schema: Schema, asserted: int) -> NodeId | None:
        """`$ref` and its kin where nothing stands beside it."""
        if self.scope.resource.dialect.lone_reference:
            asserted = REFERENCE
        if asserted != REFERENCE:
            return None
        reference = schema.get("$ref")
        key = (reference, self.scope)
        if reference.__class__ is str and key in self.referenced and "$dynamicRef" not in schema and "$recursiveRef" not in schema:
            return self.referenced[key]
        found = referred(self.registry, schema, self.scope)
        if len(found) != 1:
            return None
        node = self.rule_for(*found[0])
        if reference.__class__ is str:
            self.referenced[key] = node
        return node

    def branches(self, schema: Schema, asserted: int) -> NodeId | None:
        """anyOf, oneOf of branches that are surely disjoint, or allOf of one branch, with nothing beside it but types that they keep."""
        if asserted == ALGEBRA:
            if not all(keyword == "allOf" or not self.keyword_groups.get(keyword, 0) & ~_SILENT for keyword in schema):
                return None
            branches = schemas(schema, "allOf")
            if len(branches) > 1:
                return None
        else:
            exclusive = bool(asserted & ONE_OF)
            branches = schemas(schema, "oneOf" if exclusive else "anyOf")
            if asserted & TYPE or (exclusive and len(branches) > 1):
                kinds = types(schema) if asserted & TYPE else TYPES
                allowed = type_bits(kinds)
                upper_bounds = [upper_bound(self.registry, branch, self.scope) for branch in branches]
                kept = [bound._replace(types=bound.types & allowed) for bound in upper_bounds]
                if exclusive and not surely_all_disjoint(kept):
                    return None
                self.depth += 1
                nodes = [
                    self.branch(branch, kinds, seen.types & ~allowed != 0) for branch, seen in zip(branches, upper_bounds, strict=True)
                ]
                self.depth -= 1
                return None if None in nodes else self.alternatives([node for node in nodes if node is not None])
        self.depth += 1
        node = self.alternatives([self.node(branch) for branch in branches])
        self.depth -= 1
        return node

    def merged(self, schema: Schema) -> NodeId | None:
        """Objects that declare and require members in several places: in allOf, by reference, and in the branches of one oneOf that differ.

        None for subschemas that say anything else.
        """
        whole = self.member_facts([(schema, self.scope)])
        if whole is None or len(whole.unions) > 1:
            return None
        if not whole.unions:
            return self.one_object(whole)
        ((union, scope),) = whole.unions
        branches = [(branch, scope) for branch in schemas(union, "oneOf")]
        # PERF: only then each branch is put together with all members: with 1,000 of both this took 1 s before the algebra had its turn.
        telling = self.telling(schema)
        self.budget.spend(len(branches) * len(telling.get("properties", ())) // 4)
        if not surely_all_disjoint([upper_bound(self.registry, telling, self.scope, branch) for branch in branches]):
            return None
        self.budget.spend(len(branches) * len(whole.declared) // 2)
        objects_of = [self.member_facts([(schema, self.scope), branch], beside=union) for branch in branches]
        if not all(found is not None and found.are_objects and not found.unions for found in objects_of):
            return None
        return self.alternatives([self.one_object(found) for found in objects_of if found is not None])

    def telling(self, schema: Schema) -> Schema:
        """An object schema without those of its members that tell nothing about which of several branches holds."""
        properties = schema.get("properties")
        if properties.__class__ is not dict or schema.get("additionalProperties") is False:
            return schema
        return {**schema, "properties": {name: value for name, value in properties.items() if lists_values(value)}}

    def member_facts(self, todo: list[tuple[Any, Scope]], *, beside: Schema | None = None) -> _MemberFacts | None:
        """The joint constraints of some subschemas on an object's members, without the oneOf of `beside`; None if they constrain more."""
        result = _MemberFacts()
        first = todo[0][0]
        todo = todo[::-1]
        looks = 0
        while todo:
            piece, scope = todo.pop()
            looks += 1
            if piece.__class__ is not dict or looks > MOST_MERGED:
                return None
            dialect = scope.resource.dialect
            keyword_groups = dialect.keywords
            if not ("$ref" in piece and dialect.lone_reference):
                for keyword in piece:
                    # A resource of its own may be the subschema itself, which has been entered.
                    groups = keyword_groups.get(keyword, 0) & ~_SILENT
                    if groups and keyword not in MERGED and (groups != RESOURCE or piece is not first):
                        return None
                if "type" in piece:
                    if piece["type"] != "object":
                        return None
                    result.are_objects = True
                properties = mapping(piece, "properties")
                for name, value in properties.items():
                    result.declared.setdefault(name, {})[id(value), scope] = value
                result.declares |= "properties" in piece
                result.tells_others |= "additionalProperties" in piece
                beyond = piece.get("additionalProperties", True)
                if beyond is False:
                    result.allowed = properties.keys() & (properties.keys() if result.allowed is None else result.allowed)
                elif beyond is not True:
                    return None
                if "required" in piece:
                    result.required += names(piece, "required", piece["required"])
                if "oneOf" in piece and piece is not beside:
                    result.unions.append((piece, scope))
                if "allOf" in piece:
                    todo += [(branch, scope) for branch in reversed(schemas(piece, "allOf"))]
            if "$ref" in piece:
                todo.append(self.registry.resolve(scope, piece["$ref"], schema=piece))
        return result if result.are_objects or result.unions else None

    def one_object(self, member_facts: _MemberFacts) -> NodeId:
        """The object with these members."""
        f, never = self.fragments, self.fragments.never
        allowed = member_facts.allowed
        if allowed is not None and not frozenset(member_facts.required) <= allowed:
            return never
        declared: dict[str, NodeId] = {}
        outer = self.scope
        self.depth += 1
        for name, subschemas in member_facts.declared.items():
            if allowed is not None and name not in allowed:
                continue
            if len(subschemas) == 1:
                (((_, scope), value),) = subschemas.items()
                self.enter(scope)
                inner = self.node(value)
                self.enter(outer)
            else:
                algebra = self.algebra
                both = reduced(frozenset(algebra.numbering.literal(value, scope) for (_, scope), value in subschemas.items()))
                inner = never if algebra.is_empty(both) else self.value(both)
            declared[name] = inner
        self.depth -= 1
        undeclared = f.value if allowed is None else never
        closes = bool(self.scope.closing) and member_facts.declares and not member_facts.tells_others
        others = never if closes else undeclared
        return self.closed(declared, member_facts.required, undeclared, others)

    def branch(self, schema: Any, kinds: Sequence[str], narrower: bool) -> NodeId | None:
        """A branch beside `type`, which may be narrower than the branch: None where it takes more than handlers to see to that."""
        if not narrower:
            return self.node(schema)
        groups = groups_of(schema, self.keyword_groups) if schema.__class__ is dict else UNKNOWN
        if schema.__class__ is not dict or groups & (BEYOND_LOCAL | TYPE):
            return None
        if self.passed_by(groups, kinds) & _UNSETTLED:
            self.leave_unread(schema)
        return self.alternatives([HANDLERS[kind](self, schema, groups) for kind in kinds if kind != "integer" or "number" not in kinds])

    def has_enough(self, first: Sequence[Any], others: Any) -> bool:
        """Whether a look tells that no items that have to be there run out of values."""
        return all(surely_endless(self.registry, item, self.scope) for item in (*first, others))

    def finite_items(self, schema: Any) -> list[NodeId] | None:
        """The nodes of all values that a subschema of items allows, None where there are many."""
        if not isinstance(schema, dict) or surely_many(self.registry, schema, self.scope):
            return None
        algebra = self.algebra
        return self.finite_values(reduced(frozenset((algebra.numbering.literal(schema, self.scope),))))

    def finite_values(self, conjunction: Conjunction) -> list[NodeId] | None:
        """The nodes of all values that a conjunction allows, each once, None where there are many, or arrays or objects among them.

        An array of these is an automaton; one of others is checked as it is generated.
        """
        b, f = self.builder, self.fragments
        values = self.finite.scalars(conjunction)
        if values is None:
            return None
        return [
            b.literal(quoted(value, f.closing))
            if isinstance(value, str)
            else (f.null if value is None else f.true if value else f.false)
            if value is None or isinstance(value, bool)
            else self.numbers(NumberSet.of((value,)))
            for value in values
        ]

    def repeating(self, array: Array) -> list[Array]:
        """The arrays of a part in which some value occurs twice, by that value: there have to be few."""
        prefix, rest, low, high, counts, _ = array
        algebra = self.algebra
        values: dict[Literal, None] = {}
        for item in {*prefix, *(() if 0 <= high <= len(prefix) else (rest,))}:
            found = self.finite.scalars(item)
            if found is None:
                reason = "its complement, that some two items are equal, is beyond any grammar where they are not drawn from few values"
                raise Inexact(algebra.keywords.unique[0], "uniqueItems", reason)
            values.update(
                dict.fromkeys(algebra.numbering.constant(decimal(value) if isinstance(value, Fraction) else value) for value in found)
            )
        return [Array(prefix, rest, low, high, (*counts, Count(value, 0, 2, -1))) for value in sorted(values)]

    # Rules and the algebra.

    def rule_for(self, schema: Any, scope: Scope) -> NodeId:
        """A rule for a subschema, to be compiled later."""
        key = (id(schema), scope)
        found = self.rules.get(key)
        if found is None:
            if schema.__class__ is bool:
                return self.fragments.value if schema else self.fragments.never
            if scope.dynamic:
                # Scopes of dynamic references may be as many as the sets of resources.
                self.scoped += id(schema) in self.in_scopes
                self.in_scopes.add(id(schema))
                self.budget.spend(min(self.scoped // 16, MOST_OF_A_SCOPE))
            rule = self.builder.rule(f"schema{len(self.rules)}")
            found = self.rules[key] = self.builder.call(rule)
            self.pending.append((rule, schema, scope))
        return found

    def via_algebra(self, schema: Schema) -> NodeId:
        """A subschema that needs the algebra, as a rule."""
        return self.rule_for_conjunction(reduced(frozenset((self.algebra.numbering.literal(schema, self.scope),))))

    def rule_for_conjunction(self, conjunction: Conjunction) -> NodeId:
        """A rule for a conjunction of literals, to be compiled later."""
        found = self.rules.get(conjunction)
        if found is None:
            rule = self.builder.rule(f"parts{len(self.rules)}")
            found = self.rules[conjunction] = self.builder.call(rule)
            self.pending.append((rule, conjunction, None))
        return found

    def value(self, conjunction: Conjunction) -> NodeId:
        """The node of a conjunction of literals."""
        if conjunction == ANYTHING:
            return self.fragments.value
        if FALSE in conjunction:
            return self.fragments.never
        if len(conjunction) == 1:
            found = self.values_of.get(conjunction)
            if found is not None:
                return found
            (literal,) = conjunction
            if literal > 0:
                schema, scope = self.algebra.numbering.entries[literal]
                if schema.__class__ is dict:
                    found = self.values_of[conjunction] = self.shared(schema, scope)
                    return found
        return self.rule_for_conjunction(conjunction)

    def shared(self, schema: Schema, scope: Scope) -> NodeId:
        """The node of a subschema that may be used more than once."""
        outer = self.scope
        self.enter(scope)
        self.depth += 1
        node = self.node(schema)
        self.depth -= 1
        self.enter(outer)
        found = self.rules.get(node)
        if found is None:
            # The parts of a graph are written once for each edge.
            found = self.rules[node] = called(self.builder, node)
        return found

    def parts(self, parts: Parts) -> NodeId:
        """The node of a union of typed parts."""
        f = self.fragments
        if parts is EVERY:
            return f.value
        nodes: list[NodeId] = []
        if parts.constants == CONSTANTS:
            nodes += (f.boolean, f.null)
        else:
            nodes += (f.null if c is None else f.true if c else f.false for c in (None, False, True) if c in parts.constants)
        if parts.numbers:
            nodes.append(self.numbers(parts.numbers))
        for text in parts.texts:
            nodes.append(f.string if text == FREE_TEXT else self.strings.node(text))
        for array in parts.arrays:
            if array.distinct < 0:
                nodes += [self.arrays.node(twice) for twice in self.repeating(array)]
                continue
            nodes.append(f.array if array == arrays.FREE else self.arrays.node(array))
        for part in parts.objects:
            nodes.append(f.object if part == objects.FREE else self.objects.node(part))
        return self.alternatives(nodes)


HANDLERS: Final[Mapping[str, Callable[[Compilation, Schema, int], NodeId]]] = {
    "null": Compilation.null,
    "boolean": Compilation.boolean,
    "integer": Compilation.integer,
    "number": Compilation.number,
    "string": Compilation.string,
    "array": Compilation.array,
    "object": Compilation.object,
}
