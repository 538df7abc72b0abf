"""The dialects of JSON Schema: which draft a schema is written in, and what that decides.

A schema names its dialect by `$schema`; without one it is read as draft 2020-12.  A `$schema` that names a document at hand is a custom
metaschema: its own `$schema` gives the draft, and its `$vocabulary` the keywords in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ...pda.exceptions import SchemaError
from .keywords import KEYWORDS


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One draft, or one draft cut down to some of its vocabularies.

    `identifier` is the keyword that names a resource.  With `lone_reference`, `$ref` silences its siblings.
    `keywords` are those in force, each with its groups (`stackmask.schema.dialect.keywords`).
    """

    name: str
    uri: str
    identifier: str
    lone_reference: bool
    keywords: Mapping[str, int]


_APPLICATOR: Final = (
    "prefixItems items additionalItems contains additionalProperties properties patternProperties dependentSchemas propertyNames "
    "if then else allOf anyOf oneOf not"
)
_UNEVALUATED: Final = "unevaluatedItems unevaluatedProperties"
_VALIDATION: Final = (
    "type const enum multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems minItems "
    "uniqueItems maxContains minContains maxProperties minProperties required dependentRequired"
)
_BASE: Final = "https://json-schema.org/draft/"
VOCABULARIES: Final[Mapping[str, frozenset[str]]] = {
    f"{_BASE}2019-09/vocab/applicator": frozenset(f"{_APPLICATOR} {_UNEVALUATED}".split()),
    f"{_BASE}2019-09/vocab/validation": frozenset(_VALIDATION.split()),
    f"{_BASE}2019-09/vocab/format": frozenset({"format"}),
    f"{_BASE}2020-12/vocab/applicator": frozenset(_APPLICATOR.split()),
    f"{_BASE}2020-12/vocab/unevaluated": frozenset(_UNEVALUATED.split()),
    f"{_BASE}2020-12/vocab/validation": frozenset(_VALIDATION.split()),
    f"{_BASE}2020-12/vocab/format-annotation": frozenset({"format"}),
    f"{_BASE}2020-12/vocab/format-assertion": frozenset({"format"}),
} | {f"{_BASE}{draft}/vocab/{name}": frozenset() for draft in ("2019-09", "2020-12") for name in ("core", "meta-data", "content")}
"""The keywords a vocabulary adds, where a schema can do without it; the core vocabulary is always in force."""
_OPTIONAL: Final = frozenset().union(*VOCABULARIES.values())

DIALECTS: Final[Mapping[str, Dialect]] = {
    "draft4": Dialect("draft4", "http://json-schema.org/draft-04/schema", "id", True, KEYWORDS["draft4"]),
    "draft6": Dialect("draft6", "http://json-schema.org/draft-06/schema", "$id", True, KEYWORDS["draft6"]),
    "draft7": Dialect("draft7", "http://json-schema.org/draft-07/schema", "$id", True, KEYWORDS["draft7"]),
    "2019-09": Dialect("2019-09", f"{_BASE}2019-09/schema", "$id", False, KEYWORDS["2019-09"]),
    "2020-12": Dialect("2020-12", f"{_BASE}2020-12/schema", "$id", False, KEYWORDS["2020-12"]),
}
DEFAULT: Final = DIALECTS["2020-12"]
_BY_URI: Final[Mapping[str, Dialect]] = {d.uri.partition("://")[2]: d for d in DIALECTS.values()}


def known_dialect(uri: str) -> Dialect | None:
    """The dialect of a `$schema` that names a published draft, however it is spelled: http or https, with or without a last `#`."""
    return _BY_URI.get(uri.rstrip("#").removeprefix("http://").removeprefix("https://"))


def custom_dialect(uri: str, metaschema: Mapping[str, Any]) -> Dialect:
    """The dialect that a metaschema outside the published ones declares."""
    named = metaschema.get("$schema")
    base = (known_dialect(named) if isinstance(named, str) else None) or DEFAULT
    vocabulary = metaschema.get("$vocabulary")
    if not isinstance(vocabulary, Mapping) or base.lone_reference:
        return base
    for name, needed in vocabulary.items():
        if needed and name not in VOCABULARIES:
            raise SchemaError(f"/$schema: {uri} needs the vocabulary {name}, which is unknown")
    present = frozenset().union(*(VOCABULARIES.get(name, frozenset()) for name in vocabulary))
    return replace(base, uri=uri, keywords={k: v for k, v in base.keywords.items() if k not in _OPTIONAL or k in present})
