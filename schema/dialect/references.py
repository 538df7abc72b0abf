"""References: which subschema `$ref`, `$dynamicRef` and `$recursiveRef` name.

A resource is a schema with a URI of its own: the root, every document, and every subschema with `$id`.
A reference resolves against the resource it stands in.  Its fragment is a JSON pointer into the resource, or an anchor of it.
A scope is the resource in which the compiler stands, and those entered on the way there, outermost first, to which `$dynamicRef` could
lead: those with dynamic anchors that none before them has.
Scopes compare by value, so that a subschema in a scope is a key to compile it once by.

Nothing is fetched: a reference out of the schema, `documents` and the bundled metaschemas leads nowhere, which is an error.
Nothing is searched before it is needed: a pointer is followed step by step, and a document is gone through for identifiers and anchors
only once a reference asks for one.

References: RFC 3986 (URIs), RFC 6901 (pointers), JSON Schema core 2020-12 sections 8 and 9.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from ...pda.exceptions import shown
from ..errors import Malformed
from .dialects import DEFAULT, DIALECTS, Dialect, custom_dialect, known_dialect

METASCHEMAS: Final[Mapping[str, str]] = {
    "http://json-schema.org/draft-04/schema": "draft4.json",
    "http://json-schema.org/draft-06/schema": "draft6.json",
    "http://json-schema.org/draft-07/schema": "draft7.json",
    "https://json-schema.org/draft/2019-09/schema": "draft2019-09/schema.json",
    "https://json-schema.org/draft/2020-12/schema": "draft2020-12/schema.json",
} | {
    f"https://json-schema.org/draft/{draft}/meta/{name}": f"draft{draft}/{name}.json"
    for draft, names in {
        "2019-09": "core applicator validation meta-data format content",
        "2020-12": "core applicator unevaluated validation meta-data format-annotation format-assertion content",
    }.items()
    for name in names.split()
}

ONE: Final = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords whose value is a schema."""
MANY: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Keywords whose value is an array of schemas."""
NAMED: Final = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
"""Keywords whose value maps names to schemas."""

_METASCHEMA_ANCHOR: Final = "meta"
"""The dynamic anchor of the bundled metaschemas."""


class Resource:
    """A schema with a URI of its own: a document as it was handed over, or a part of one.

    A document is `searched` once its identifiers and anchors are known.
    """

    __slots__ = ("_document", "anchors", "dialect", "dynamic", "recursive", "root", "searched", "uri")

    def __init__(self, uri: str, root: Any, dialect: Dialect, document: Resource | None = None) -> None:
        self.uri = uri
        self.root = root
        self.dialect = dialect
        self._document = document
        self.searched = False
        self.anchors: dict[str, Any] = {}
        self.dynamic: dict[str, Any] = {}
        self.recursive = dialect.name == "2019-09" and isinstance(root, dict) and root.get("$recursiveAnchor") is True

    @property
    def document(self) -> Resource:
        """The document that it is, or is a part of. A document does not hold itself: only a garbage collection would free its schema."""
        return self if self._document is None else self._document

    def __repr__(self) -> str:
        return f"<resource {self.uri or 'without URI'}>"


OPEN: Final = 0
PIECE: Final = 1
PLACE: Final = 2


class Scope(NamedTuple):
    """The context of a subschema: the resource it belongs to, and the resources entered so far to which a dynamic reference could lead.

    `dynamic` has a bit for each anchor and the resource in which it was entered first, by the registry's numbers. The root is always the
    first, so its anchors have none.
    PERF: as a row of resources, which each step looked through, 1,000 resources took 1.3 s before they were refused.
    `closing` says what becomes of undeclared keys where objects are closed. At a PLACE the subschema is the outermost one for its
    value, and closes it; a PIECE is combined with others, and only what lies inside its members and items is closed.
    OPEN is as the specification says: every subschema without the option, and with it those that test, such as `not` and `if`.
    """

    resource: Resource
    dynamic: int
    closing: int = OPEN

    @property
    def place(self) -> Scope:
        """The scope of a member or an item."""
        return self._replace(closing=PLACE) if self.closing == PIECE else self

    @property
    def piece(self) -> Scope:
        """The scope of a subschema that is combined with others."""
        return self._replace(closing=PIECE) if self.closing == PLACE else self

    @property
    def test(self) -> Scope:
        """The scope of a subschema that may be negated."""
        return self._replace(closing=OPEN) if self.closing else self


class _AnchorNumbers:
    """The bits that the dynamic anchors of a schema have in scopes.

    PERF: made where a second resource is entered, which most schemas do not have.
    """

    __slots__ = ("after", "bits", "found_in", "own_bits")

    def __init__(self) -> None:
        self.found_in: list[Resource] = []
        """By its bit in a scope the resource of an anchor."""
        self.bits: dict[str | None, int] = {}
        """The bits of each dynamic anchor, one for each resource that has it; those of `$recursiveAnchor` for None."""
        self.own_bits: dict[Resource, tuple[int, dict[str | None, int]]] = {}
        """For a resource its bits, and which of them is that of each of its anchors."""
        self.after: dict[tuple[int, Resource], int] = {}
        """What a scope becomes by entering a resource."""


class Registry:
    """Everything that a schema's references can name.

    >>> registry = Registry({"$defs": {"a/b": {"type": "null"}}})
    >>> registry.resolve(registry.root, "#/$defs/a~1b")[0]
    {'type': 'null'}
    """

    __slots__ = (
        "_lone_anchors",
        "_numbers",
        "default",
        "documents",
        "embedded",
        "opened",
        "resources",
        "root",
        "targets",
        "unknown_dialects",
    )

    def __init__(
        self, schema: Any, documents: Mapping[str, Any] | None = None, *, default: Dialect = DEFAULT, closed: bool = False
    ) -> None:
        self.documents = {uri.removesuffix("#"): document for uri, document in documents.items()} if documents else {}
        self.resources: dict[str, Resource] = {}
        self.embedded: dict[int, Resource] = {}
        self.targets: dict[tuple[Resource, str], tuple[Any, Resource]] = {}
        self.opened: list[Resource] = []
        self.default = default
        self.unknown_dialects: list[str] = []
        self._lone_anchors: frozenset[str] | None = None
        self._numbers: _AnchorNumbers | None = None
        resource = self._open("", schema)
        self.default = resource.dialect
        self.root = Scope(resource, 0, PLACE if closed else OPEN)

    @property
    def numbers(self) -> _AnchorNumbers:
        """The bits of dynamic anchors."""
        if self._numbers is None:
            self._numbers = _AnchorNumbers()
        return self._numbers

    def enter(self, scope: Scope, schema: dict[str, Any]) -> Scope:
        """The scope inside a subschema: another one where the subschema is a resource of its own."""
        return self._within(scope, self._embedded(scope.resource, schema))

    def resolve(self, scope: Scope, reference: object, *, schema: object = None, keyword: str = "$ref") -> tuple[Any, Scope]:
        """The subschema that a reference names, and its scope.

        `schema` and `keyword` say where the reference stands, for the error.
        """
        target, resource = self._target(scope.resource, reference, schema, keyword)
        return target, self._within(scope, resource)

    def resolve_dynamic(self, scope: Scope, reference: object, *, schema: object = None) -> tuple[Any, Scope]:
        """The target of `$dynamicRef`: if it first leads to a `$dynamicAnchor`, the outermost anchor of that name in scope."""
        target, resource = self._target(scope.resource, reference, schema, "$dynamicRef")
        assert isinstance(reference, str)
        name = unquote(reference.partition("#")[2])
        if isinstance(target, dict) and target.get("$dynamicAnchor") == name:
            outer = self._outermost(scope, name)
            if outer is not None:
                return outer.dynamic[name], self._within(scope, outer)
        return target, self._within(scope, resource)

    def resolve_recursive(self, scope: Scope, reference: object, *, schema: object = None) -> tuple[Any, Scope]:
        """The target of `$recursiveRef`: the resource itself, or the outermost in scope if both have `$recursiveAnchor: true`."""
        if reference != "#":
            raise Malformed(schema, "$recursiveRef", 'must be "#"')
        if scope.resource.recursive:
            outer = self._outermost(scope, None)
            if outer is not None:
                return outer.root, self._within(scope, outer)
        return scope.resource.root, scope

    def _within(self, scope: Scope, resource: Resource) -> Scope:
        """The scope after entering a resource."""
        if resource is scope.resource:
            return scope
        key = (scope.dynamic, resource)
        after = self.numbers.after
        dynamic = after.get(key)
        if dynamic is None:
            dynamic = after[key] = self._entered(*key)
        return Scope(resource, dynamic, scope.closing)

    def _outermost(self, scope: Scope, name: str | None) -> Resource | None:
        """The first of the resources entered that has an anchor of a name, or `$recursiveAnchor` for None."""
        root = self.root.resource
        self._search(root.document)
        if root.recursive if name is None else name in root.dynamic:
            return root
        bit = scope.dynamic & self.numbers.bits.get(name, 0)
        return self.numbers.found_in[bit.bit_length() - 1] if bit else None

    def _entered(self, dynamic: int, resource: Resource) -> int:
        """The anchors found first after entering a resource.

        Those are left out that the root has too, or that no other resource has.
        PERF: n resources with anchors of one name that refer to each other have n scopes, not one for each way through them.
        """
        numbers = self.numbers
        own = numbers.own_bits.get(resource)
        if own is None:
            self._search(resource.document)
            self._search(self.root.resource.document)
            root = self.root.resource
            names: list[str | None] = [name for name in resource.dynamic if name not in root.dynamic and name not in self.lone_anchors()]
            if resource.recursive and not root.recursive:
                names.append(None)
            mine: dict[str | None, int] = {}
            for name in names:
                bit = mine[name] = 1 << len(numbers.found_in)
                numbers.found_in.append(resource)
                numbers.bits[name] = numbers.bits.get(name, 0) | bit
            own = numbers.own_bits[resource] = (sum(mine.values()), mine)
        bits, mine = own
        if dynamic:
            bits = sum(bit for name, bit in mine.items() if not dynamic & numbers.bits[name])
        return dynamic | bits

    def lone_anchors(self) -> frozenset[str]:
        """The dynamic anchors that one resource alone has: a dynamic reference that finds one finds it wherever it starts.

        PERF: n resources with an anchor of a name of its own each have n scopes, not one for every set of them.
        """
        if self._lone_anchors is None:
            self._search(self.root.resource.document)
            counted = Counter(name for resource in self.embedded.values() for name in resource.dynamic)
            bundled_or_given = bool(self.documents) or _METASCHEMA_ANCHOR in counted
            self._lone_anchors = frozenset() if bundled_or_given else frozenset(name for name, count in counted.items() if count == 1)
        return self._lone_anchors

    def _target(self, resource: Resource, reference: object, schema: object, keyword: str) -> tuple[Any, Resource]:
        """The subschema that a reference names, and the resource it belongs to."""
        if not isinstance(reference, str):
            raise Malformed(schema, keyword, "must be a string")
        key = (resource, reference)
        found = self.targets.get(key)
        if found is None:
            try:
                found = self.targets[key] = self._found(resource, reference)
            except LookupError as error:
                raise Malformed(schema, keyword, f"{shown(reference)} leads nowhere: {error.args[0]}") from None
            if not isinstance(found[0], dict | bool):
                raise Malformed(schema, keyword, f"{shown(reference)} names a value that is not a schema")
        return found

    def _found(self, resource: Resource, reference: str) -> tuple[Any, Resource]:
        """Like `_target`; a LookupError names the missing part."""
        uri, _, fragment = reference.partition("#")
        if uri:
            resource = self._resource(resolve_uri(resource.uri, uri))
        if not fragment:
            return resource.root, resource
        if "%" in fragment:
            fragment = unquote(fragment)
        if fragment[0] == "/":
            return self._pointed(resource, fragment)
        self._search(resource.document)
        if fragment in resource.anchors:
            target = resource.anchors[fragment]
            return target, self._embedded(resource, target)
        raise LookupError(f"there is no anchor {fragment!r} in {resource.uri or 'the schema'}")

    def _pointed(self, resource: Resource, pointer: str) -> tuple[Any, Resource]:
        """The value a JSON pointer names, and the innermost resource around it."""
        value = resource.root
        inside = resource
        steps = pointer.split("/")
        for index in range(1, len(steps)):
            step = steps[index]
            if "~" in step:
                step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list | tuple) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:
                raise LookupError(f"there is no {step!r} at {'/'.join(steps[:index]) or '/'} of {resource.uri or 'the schema'}")
            if isinstance(value, dict) and inside.dialect.identifier in value:
                inside = self._embedded(inside, value)
        return value, inside

    def _embedded(self, outer: Resource, schema: Any) -> Resource:
        """The resource of a subschema inside `outer`: its own if it has an identifier that is more than a fragment."""
        if not isinstance(schema, dict) or schema is outer.root:
            return outer
        known = self.embedded.get(id(schema))
        if known is not None:
            return known
        dialect = self._dialect(schema, outer.dialect)
        identifier = schema.get(dialect.identifier)
        if not isinstance(identifier, str) or (dialect.lone_reference and "$ref" in schema):
            return outer
        uri = identifier.partition("#")[0]
        if not uri:
            return outer
        resource = Resource(resolve_uri(outer.uri, uri), schema, dialect, outer.document)
        self.embedded[id(schema)] = resource
        self.resources.setdefault(resource.uri, resource)
        return resource

    def _resource(self, uri: str) -> Resource:
        """The resource of an absolute URI: known, inside the schema, a document, inside one, or a metaschema, in this order."""
        for search in self._sources(uri):
            if search is not None:
                self._search(search)
            if uri in self.resources:
                return self.resources[uri]
        raise LookupError(f"{uri} is neither in the schema nor in documents=, and nothing is fetched")

    def _sources(self, uri: str) -> Iterator[Resource | None]:
        """Documents to search for a URI, None where there is nothing to search; the cheap and likely ones first."""
        yield None
        yield self.root.resource.document
        if uri in self.documents:
            self._open(uri, self.documents[uri])
            yield None
        if uri in METASCHEMAS:
            self._open(uri, metaschema(METASCHEMAS[uri]))
            yield None
        for name, document in self.documents.items():
            if name not in self.resources:
                self._open(name, document)
        yield from self.opened

    def _open(self, uri: str, schema: Any) -> Resource:
        """Add a document under the requested URI, and under that of its own identifier."""
        dialect = self._dialect(schema, self.default)
        identifier = schema.get(dialect.identifier) if isinstance(schema, dict) else None
        own = uri
        if isinstance(identifier, str) and not (dialect.lone_reference and "$ref" in schema):
            own = resolve_uri(uri, identifier.partition("#")[0])
        document = Resource(own, schema, dialect)
        self.opened.append(document)
        self.resources[uri] = document
        self.resources.setdefault(own, document)
        if isinstance(schema, dict):
            self.embedded[id(schema)] = document
        return document

    def _search(self, document: Resource) -> None:
        """Find every identifier and anchor of a document, going through the places where a schema can stand."""
        if document.searched:
            return
        document.searched = True
        stack: list[tuple[Any, Resource]] = [(document.root, document)]
        seen: set[int] = set()
        while stack:
            schema, outer = stack.pop()
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            resource = self._embedded(outer, schema)
            self._note_anchors(resource, schema)
            for keyword, value in schema.items():
                if isinstance(value, dict):
                    if keyword in NAMED:
                        stack.extend((member, resource) for member in value.values())
                    elif keyword in ONE:
                        stack.append((value, resource))
                elif keyword in MANY and isinstance(value, list | tuple):
                    stack.extend((member, resource) for member in value)

    def _note_anchors(self, resource: Resource, schema: dict[str, Any]) -> None:
        """The anchors that a subschema sets, by the rules of its draft."""
        dialect = resource.dialect
        if dialect.lone_reference:
            identifier = schema.get(dialect.identifier)
            if isinstance(identifier, str) and "#" in identifier and "$ref" not in schema:
                anchor = identifier.partition("#")[2]
                if anchor and anchor[0] != "/":
                    resource.anchors.setdefault(anchor, schema)
            return
        plain = schema.get("$anchor")
        if isinstance(plain, str):
            resource.anchors.setdefault(plain, schema)
        dynamic = schema.get("$dynamicAnchor") if dialect.name == "2020-12" else None
        if isinstance(dynamic, str):
            resource.anchors.setdefault(dynamic, schema)
            resource.dynamic.setdefault(dynamic, schema)

    def _dialect(self, schema: Any, default: Dialect) -> Dialect:
        """The dialect of a document or an embedded resource."""
        uri = schema.get("$schema") if isinstance(schema, dict) else None
        if not isinstance(uri, str):
            return default
        known = known_dialect(uri)
        if known is not None:
            return known
        custom = self.documents.get(uri.removesuffix("#"))
        if isinstance(custom, Mapping):
            return custom_dialect(uri, custom)
        self.unknown_dialects.append(uri)
        return default


@cache
def metaschema(name: str) -> Any:
    """A bundled metaschema, read once."""
    return json.loads(files("stackmask.schema.dialect").joinpath("metaschemas", *name.split("/")).read_bytes())


_URI: Final = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?", re.DOTALL)


def resolve_uri(base: str, reference: str) -> str:
    """A URI reference made absolute (RFC 3986 section 5.2); neither side has a fragment.

    >>> resolve_uri("http://example.com/a/b?q", "../c"), resolve_uri("urn:x:y", "z"), resolve_uri("", "z")
    ('http://example.com/c', 'urn:z', 'z')
    """
    scheme, authority, path, query = _parts(reference)
    if scheme is None:
        scheme, outer_authority, outer_path, outer_query = _parts(base)
        if authority is None:
            authority = outer_authority
            if not path:
                path, query = outer_path, outer_query if query is None else query
            elif path[0] != "/":
                path = "/" + path if authority is not None and not outer_path else outer_path[: outer_path.rfind("/") + 1] + path
    if "/." in path or path.startswith("."):
        path = _without_dots(path)
    return f"{scheme + ':' if scheme else ''}{'//' + authority if authority is not None else ''}{path}{query or ''}"


def _parts(uri: str) -> tuple[str | None, str | None, str, str | None]:
    """Scheme, authority, path and query with its question mark."""
    match = _URI.fullmatch(uri)
    assert match is not None, "every text without # matches"
    return match[1], match[2], match[3] or "", match[4]


def _without_dots(path: str) -> str:
    """A path without its `.` and `..` segments (RFC 3986 section 5.2.4)."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            if len(kept) > 1 or (kept and kept[0]):
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)


__all__ = ["DIALECTS", "METASCHEMAS", "Registry", "Resource", "Scope", "metaschema", "resolve_uri"]


def referred(registry: Registry, schema: dict[str, Any], scope: Scope) -> list[tuple[Any, Scope]]:
    """The subschemas that the references of a subschema name, each with its scope."""
    found = []
    keywords = scope.resource.dialect.keywords
    if "$ref" in schema:
        found.append(registry.resolve(scope, schema["$ref"], schema=schema))
    if "$dynamicRef" in schema and "$dynamicRef" in keywords:
        found.append(registry.resolve_dynamic(scope, schema["$dynamicRef"], schema=schema))
    if "$recursiveRef" in schema and "$recursiveRef" in keywords:
        found.append(registry.resolve_recursive(scope, schema["$recursiveRef"], schema=schema))
    return found
