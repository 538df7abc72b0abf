"""The fixed parts of a JSON grammar: blanks, punctuation, any string, any number, any value.

They are the same in every schema, so a fresh grammar starts as a copy of a builder that already holds them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, NamedTuple, TypeAlias

from ...pda.automata.dfa import Dfa
from ...pda.budget import Budget
from ...pda.exceptions import SchemaError, shown
from ...pda.free_text import automaton_without
from ...pda.grammar import JSON, JSON_ANY, GrammarBuilder, NodeId, RuleId, memory_of
from ...pda.operators import AUTOMATON, BYTES, CHARS, LITERAL, NEVER
from ...pda.regex import regex_grammar, regex_node
from ..dialect.keywords import ARRAY, NUMBER, OBJECT, STRING
from ..sets.numbers import INTEGERS, NUMBERS
from .numbers import number_node

ANY_CHARACTER: Final = (0, 0x10FFFF)
BLANKS_IN_A_GAP: Final = 40
"""Longest run of blanks that flexible whitespace allows, so that a weak model cannot run off in blanks."""

STYLES: Final = frozenset({"single", "printed"})
"""Whitespace as printers write it: one blank behind `,` and `:`, and for "printed" line breaks with indentation too."""
_WHITESPACE: Final = frozenset({"flexible", "compact", *STYLES})
"""The words for whitespace."""
_BLANK_TEXT: Final = "\t\n\r "  # RFC 8259, section 2
_BLANKS: Final = frozenset(_BLANK_TEXT.encode())


class Separators(NamedTuple):
    """Whitespace that is fixed: the texts between members and behind keys, as `json.dumps` takes them, and no other blanks."""

    item: str = ", "
    key: str = ": "


Whitespace: TypeAlias = str | Separators

DEFAULT_WHITESPACE: Final = "printed"
"""The blanks that JSON printers write, so that no model pads. To check texts from elsewhere, use "flexible"."""


@dataclass(frozen=True, slots=True)
class Fragments:
    """Nodes of one builder, the encoding of its strings, and the texts that no string holds as it is written."""

    blank: NodeId
    comma: NodeId
    colon: NodeId
    never: NodeId
    empty: NodeId
    null: NodeId
    true: NodeId
    false: NodeId
    boolean: NodeId
    integer: NodeId
    number: NodeId
    quote: NodeId
    character: NodeId
    string: NodeId
    open_array: NodeId
    close_array: NodeId
    open_object: NodeId
    close_object: NodeId
    array: NodeId
    object: NodeId
    value: NodeId
    encoding: int
    closing: tuple[str, ...] = ()
    of_type: dict[str, tuple[int, NodeId]] = field(init=False, repr=False, compare=False)
    """For each type the keywords that constrain it, and its node if there are none. PERF: made once for all schemas with these parts."""

    def __post_init__(self) -> None:
        of_type = {
            "null": (0, self.null),
            "boolean": (0, self.boolean),
            "integer": (NUMBER, self.integer),
            "number": (NUMBER, self.number),
            "string": (STRING, self.string),
            "array": (ARRAY, self.array),
            "object": (OBJECT, self.object),
        }
        object.__setattr__(self, "of_type", of_type)

    def moved(self, places: Sequence[NodeId]) -> Fragments:
        """The same parts in another builder, where node n is `places[n]`."""
        return replace(self, **{part.name: places[getattr(self, part.name)] for part in fields(self)[:-3]})


class Template(NamedTuple):
    """A builder with the fixed parts that nobody changes, to copy from."""

    builder: GrammarBuilder
    fragments: Fragments


def install(
    builder: GrammarBuilder,
    whitespace: Whitespace = DEFAULT_WHITESPACE,
    escapes: str = "needed",
    *,
    distinct: bool = False,
    closing: tuple[str, ...] = (),
) -> Fragments:
    """Add the fixed parts to `builder`; `distinct`: no key of an object comes twice; `closing`: texts that no string holds.

    Blanks stand before and after every `{ } [ ] , :` inside the outermost value, but with STYLES only where printers write them.
    """
    check_whitespace(whitespace)
    b = builder
    encoding = JSON if escapes == "needed" else JSON_ANY
    if whitespace == "flexible":
        blank = b.repeat(b.bytes((9, 10, 13, 13, 32, 32)), 0, BLANKS_IN_A_GAP)
    elif isinstance(whitespace, Separators) or whitespace == "compact" or whitespace in STYLES:
        blank = b.empty()
    else:
        blank = regex_node(b, whitespace, search=False)
    around = (lambda text: b.seq(blank, b.literal(text), blank)) if blank != b.empty() else b.literal
    comma, colon, quote = around(b","), around(b":"), b.literal(b'"')
    if isinstance(whitespace, Separators):
        comma, colon = b.literal(whitespace.item.encode()), b.literal(whitespace.key.encode())
    elif whitespace in STYLES:
        space = b.optional(b.literal(b" "))
        if whitespace == "printed":
            line = b.seq(b.optional(b.literal(b"\r")), b.literal(b"\n"), b.repeat(b.bytes((9, 9, 32, 32)), 0, BLANKS_IN_A_GAP))
            blank = b.optional(b.alt(b.literal(b" "), line))
        comma = b.seq(b.literal(b","), blank if whitespace == "printed" else space)
        colon = b.seq(space if whitespace == "printed" else b.empty(), b.literal(b":"), space)
    null, true, false = b.literal(b"null"), b.literal(b"true"), b.literal(b"false")
    integer, number = number_node(b, INTEGERS), number_node(b, NUMBERS)
    character = b.chars(ANY_CHARACTER, encoding)
    string = b.seq(quote, any_text(b, character, encoding, closing), quote)
    open_array, close_array, open_object, close_object = b.literal(b"["), b.literal(b"]"), b.literal(b"{"), b.literal(b"}")
    rule = b.rule("json")
    value = b.call(rule)

    def bracketed(opening: NodeId, member: NodeId, closing: NodeId) -> NodeId:
        return b.seq(opening, blank, b.optional(b.seq(member, b.repeat(b.seq(comma, member)), blank)), closing)

    array = bracketed(open_array, value, close_array)
    object_ = bracketed(open_object, b.seq(b.distinct(string) if distinct else string, colon, value), close_object)
    object_ = b.scope(object_) if distinct else object_
    boolean = b.alt(false, true)
    b.define(rule, b.alt(object_, array, string, number, true, false, null))
    return Fragments(
        blank, comma, colon, b.never(), b.empty(), null, true, false, boolean, integer, number, quote, character, string,
        open_array, close_array, open_object, close_object, array, object_, value, encoding, closing,
    )  # fmt: skip


def check_whitespace(whitespace: Whitespace) -> None:
    """Raise where the option is neither a word that it knows nor a regex of blanks, so that no misspelt word is read as a regex."""
    if whitespace in _WHITESPACE:
        return
    if isinstance(whitespace, Separators):
        if [isinstance(text, str) and text.strip(_BLANK_TEXT) for text in whitespace] != [",", ":"]:
            raise SchemaError(f"separators must be , and : with blanks of JSON around them, not {shown(tuple(whitespace))}")
        return
    for node in regex_grammar(whitespace).nodes:
        match node:
            case (op, states, *_) if op == AUTOMATON:
                ranges = [(low, high) for edges in states for low, high, _ in edges]
            case (op, flat, *_) if op in (BYTES, CHARS):
                ranges = list(zip(flat[::2], flat[1::2], strict=True))
            case (op, data) if op == LITERAL:
                ranges = [(byte, byte) for byte in data]
            case (op, *_):
                ranges = [(0, 0)] if op == NEVER else []
        if not all(_BLANKS.issuperset(range(low, min(high, low + 4) + 1)) for low, high in ranges):
            blanks = "blanks of JSON (space, tab, line feed, carriage return)"
            raise SchemaError(
                "whitespace must be 'flexible', 'compact', 'single', 'printed' or a regex that matches nothing but "
                f"{blanks}, not {shown(whitespace)}"
            )


_TEMPLATES: Final[dict[object, Template]] = {}
_MOST_TEMPLATES: Final = 32
_MOST_OF_A_TEMPLATE: Final = 256 << 10
"""Bytes; the words for whitespace need 15 KB."""


def template(whitespace: Whitespace, escapes: str, *, distinct: bool = False, closing: tuple[str, ...] = ()) -> Template:
    """The fixed parts for these options; rule 0 is the root, yet undefined. Those that are not large are remembered."""
    key = (whitespace, escapes, distinct, closing)
    found = _TEMPLATES.get(key)
    if found is None:
        builder = GrammarBuilder()
        builder.rule("root")
        fragments = install(builder, whitespace, escapes, distinct=distinct, closing=closing)
        found = Template(builder, fragments)
        if memory_of(builder.nodes, len(builder.rules)) + sum(map(len, (*closing, whitespace))) <= _MOST_OF_A_TEMPLATE:
            if len(_TEMPLATES) >= _MOST_TEMPLATES:
                _TEMPLATES.clear()
            _TEMPLATES[key] = found
    return found


ROOT: Final = RuleId(0)


def any_text(b: GrammarBuilder, character: NodeId, encoding: int, closing: tuple[str, ...], low: int = 0, high: int = -1) -> NodeId:
    """Strings of a number of characters without the `closing` texts, not in quotes."""
    if not closing:
        return b.repeat(character, low, high)
    automaton = closed_text(closing)
    return b.automaton(automaton.transitions, automaton.accepting, encoding, minimum=low, maximum=high)


_MOST_CLOSING: Final = 500
"""The most characters of texts whose automaton is remembered."""


def closed_text(closing: tuple[str, ...]) -> Dfa:
    """The texts that hold none of these."""
    return (_closed_text if sum(map(len, closing)) <= _MOST_CLOSING else _closed_text.__wrapped__)(closing)


@lru_cache(maxsize=64)
def _closed_text(closing: tuple[str, ...]) -> Dfa:
    return automaton_without(closing, budget=Budget())


def may_hold(automaton: Dfa, closing: tuple[str, ...]) -> bool:
    """Whether some text of an automaton may hold one of these texts: whether it has the first character of one."""
    first = {ord(end[0]) for end in closing}
    return any(low <= character <= high for row in automaton.transitions for low, high, _ in row for character in first)


def all_quoted(texts: Collection[str], closing: tuple[str, ...]) -> list[bytes]:
    """Each of some texts as `quoted` has it."""
    if not closing:
        try:
            return [*map(str.encode, map(encode_basestring, texts))]
        except (UnicodeEncodeError, TypeError):
            pass  # which `quoted` explains
    return [quoted(text, closing) for text in texts]


def quoted(text: str, closing: tuple[str, ...] = ()) -> bytes:
    r"""`text` as a JSON string, escaped only where it must be, or where it holds one of the `closing` texts.

    >>> quoted('a"é')
    b'"a\\"\xc3\xa9"'
    >>> quoted("<b></p>", ("</p>",))
    b'"<b>\\u003c/p>"'
    """
    try:
        if not closing:
            return encode_basestring(text).encode()
        written = encode_basestring(text)
        for end in closing:
            written = written.replace(end, f"\\u{ord(end[0]):04x}{end[1:]}")
        return written.encode()
    except UnicodeEncodeError:
        raise SchemaError(f"{text!a} contains a lone surrogate, which UTF-8 cannot encode") from None
    except TypeError:
        raise SchemaError(f"{text!r} is not a property name: JSON requires a string") from None
