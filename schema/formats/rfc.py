"""The formats of JSON Schema as regular languages over decoded characters.

Most are regular expressions put together from the rules of the standard they come from; the grammar of `regex` is in
`stackmask.schema.formats.regex_syntax`, names of hosts are in `stackmask.schema.formats.hostname` and `stackmask.schema.formats.idn`.

    date-time, date, time    RFC 3339, with the lengths of months, leap years, and leap seconds only where it is 23:59 in UTC
    duration                 RFC 3339, appendix A
    email, idn-email         the Mailbox of RFC 5321, with quoted local parts and address literals; RFC 6531
    hostname, idn-hostname   RFC 1123; RFC 5890 to 5893
    ipv4, ipv6               RFC 2673, RFC 4291
    uri, uri-reference       RFC 3986
    iri, iri-reference       RFC 3987
    uri-template             RFC 6570
    uuid                     RFC 4122
    json-pointer             RFC 6901
    relative-json-pointer    draft-handrews-relative-json-pointer-01
    regex                    ECMA-262, the syntax of the u flag

Decided here: a leap second is taken at offsets of whole quarters of an hour, which are all there are.
A format that is not in the list is an annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from ...pda.automata import language
from ...pda.automata.dfa import Dfa
from ...pda.automata.varints import unpack
from ...pda.grammar import UTF8, GrammarBuilder, NodeId
from ...pda.limits import Limits
from .hostname import LONGEST_NAME, hostname_dfa, hostname_node
from .idn import idn_hostname_node
from .regex_syntax import FLAT, Nested, ascii_text, nested, regex_syntax_node
from .tables import TABLES

if TYPE_CHECKING:
    from ...pda.reference import Matcher


def _alternatives(*parts: str) -> str:
    """A group of alternatives."""
    return "(?:" + "|".join(parts) + ")"


_DAYS: Final = _alternatives(
    "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])",
    "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)",
    "02-(?:0[1-9]|1[0-9]|2[0-8])",
)
_FOURS: Final = "(?:[02468][048]|[13579][26])"
_LEAP_YEAR: Final = f"(?:{_FOURS}00|[0-9][0-9](?:0[48]|[2468][048]|[13579][26]))"
DATE: Final = _alternatives(f"[0-9]{{4}}-{_DAYS}", f"{_LEAP_YEAR}-02-29")

_HOUR: Final = "(?:[01][0-9]|2[0-3])"
_FRACTION: Final = r"(?:\.[0-9]+)?"
_OFFSET: Final = f"(?:[Zz]|[+-]{_HOUR}:[0-5][0-9])"


_QUARTERS: Final = (0, 15, 30, 45)
_LAST_MINUTE: Final = 23 * 60 + 59


def _leap_seconds() -> str:
    """The local times of 23:59:60 in UTC, each with its offset."""
    parts = [f"23:59:60{_FRACTION}[Zz]"]
    for hour in range(24):
        for minute in _QUARTERS:
            shift = hour * 60 + minute
            for sign, local in (("[+]", (_LAST_MINUTE + shift) % 1440), ("-", _LAST_MINUTE - shift)):
                parts.append(f"{local // 60:02}:{local % 60:02}:60{_FRACTION}{sign}{hour:02}:{minute:02}")
    return _alternatives(*parts)


COMMON_TIME: Final = f"{_HOUR}:[0-5][0-9]:[0-5][0-9]{_FRACTION}{_OFFSET}"
TIME: Final = _alternatives(COMMON_TIME, _leap_seconds())

_SECONDS: Final = "[0-9]+S"
_MINUTES: Final = f"[0-9]+M(?:{_SECONDS})?"
_HOURS: Final = f"[0-9]+H(?:{_MINUTES})?"
_CLOCK: Final = f"T(?:{_HOURS}|{_MINUTES}|{_SECONDS})"
_MONTHS: Final = "[0-9]+M(?:[0-9]+D)?"
_CALENDAR: Final = f"(?:[0-9]+D|{_MONTHS}|[0-9]+Y(?:{_MONTHS})?)"
DURATION: Final = f"P(?:{_CALENDAR}(?:{_CLOCK})?|{_CLOCK}|[0-9]+W)"

_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4: Final = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_GROUP: Final = "[0-9A-Fa-f]{1,4}"
_LAST: Final = f"(?:{_GROUP}:{_GROUP}|{IPV4})"
IPV6: Final = _alternatives(
    f"(?:{_GROUP}:){{6}}{_LAST}",
    f"::(?:{_GROUP}:){{5}}{_LAST}",
    *(
        f"(?:{_GROUP}(?::{_GROUP}){{0,{before}}})?::"
        + (f"(?:{_GROUP}:){{{after}}}{_LAST}" if after >= 0 else _GROUP if after == -1 else "")
        for before, after in ((0, 4), (1, 3), (2, 2), (3, 1), (4, 0), (5, -1), (6, -2))
    ),
)

_UNRESERVED: Final = r"A-Za-z0-9._~\-"
_DELIMITERS: Final = "!$&'()*+,;="
_UCS: Final = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(plane * 0x10000 + (0x1000 if plane == 14 else 0))}-{chr(plane * 0x10000 + 0xFFFD)}" for plane in range(1, 15)
)
_PRIVATE: Final = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


def _uris(characters: str, private: str) -> tuple[str, str]:
    """The rules URI and URI-reference, or those of IRIs, by the characters that are not reserved and those only a query takes."""
    escaped = "%[0-9A-Fa-f]{2}"
    word = f"{characters}{_DELIMITERS}"
    name = f"(?:[{word}]|{escaped})*"
    user = f"(?:[{word}:]|{escaped})*"
    segment = f"(?:[{word}:@]|{escaped})"
    literal = rf"\[(?:{IPV6}|[Vv][0-9A-Fa-f]+\.[{_UNRESERVED}{_DELIMITERS}:]+)\]"
    authority = f"(?:{user}@)?(?:{literal}|{name})(?::[0-9]*)?"
    after_authority = f"(?:/{segment}*)*"
    absolute = f"/(?:{segment}+(?:/{segment}*)*)?"
    rootless = f"{segment}+(?:/{segment}*)*"
    no_scheme = f"(?:[{word}@]|{escaped})+(?:/{segment}*)*"
    tail = rf"(?:\?(?:[{word}:@/?{private}]|{escaped})*)?(?:#(?:[{word}:@/?]|{escaped})*)?"
    scheme = r"[A-Za-z][A-Za-z0-9+.\-]*:"
    uri = f"{scheme}(?://{authority}{after_authority}|{absolute}|{rootless})?{tail}"
    relative = f"(?://{authority}{after_authority}|{absolute}|{no_scheme})?{tail}"
    return uri, f"(?:{uri}|{relative})"


URI, URI_REFERENCE = _uris(_UNRESERVED, "")
IRI, IRI_REFERENCE = _uris(_UNRESERVED + _UCS, _PRIVATE)

_VARIABLE: Final = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9][0-9]{0,3}|\*)?"
URI_TEMPLATE: Final = rf"(?:[!#$&-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}|\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"

_HEX: Final = "[0-9A-Fa-f]"
UUID: Final = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
JSON_POINTER: Final = "(?:/(?:[^~/]|~[01])*)*"
RELATIVE_JSON_POINTER: Final = f"(?:0|[1-9][0-9]*)(?:#|{JSON_POINTER})"


def _mailbox(beyond: str) -> str:
    """The rule Mailbox; `beyond` are the characters outside ASCII that RFC 6531 adds."""
    atom = rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~\-{beyond}]+"
    quoted = rf'"(?:[ !#-\[\]-~{beyond}]|\\[ -~])*"'
    letter = f"[A-Za-z0-9{beyond}]"
    label = rf"{letter}(?:[A-Za-z0-9\-{beyond}]*{letter})?"
    # Of the General-address-literals, which need a registered tag, there are none but IPv6.
    literal = rf"\[(?:{IPV4}|[Ii][Pp][Vv]6:{IPV6})\]"
    return rf"(?:{atom}(?:\.{atom})*|{quoted})@(?:{label}(?:\.{label})*|{literal})"


EMAIL: Final = _mailbox("")
IDN_EMAIL: Final = _mailbox("\u0080-\ud7ff\ue000-\U0010ffff")

PATTERNS: Final[Mapping[str, str]] = {
    "date-time": f"{DATE}[Tt]{TIME}",
    "date": DATE,
    "time": TIME,
    "common-time": COMMON_TIME,
    "duration": DURATION,
    "email": EMAIL,
    "idn-email": IDN_EMAIL,
    "ipv4": IPV4,
    "ipv6": IPV6,
    "uri": URI,
    "uri-reference": URI_REFERENCE,
    "iri": IRI,
    "iri-reference": IRI_REFERENCE,
    "uri-template": URI_TEMPLATE,
    "uuid": UUID,
    "json-pointer": JSON_POINTER,
    "relative-json-pointer": RELATIVE_JSON_POINTER,
}
"""The formats that one regular expression describes; `common-time` is a part of `time`, without leap seconds."""

NAMES: Final = frozenset(PATTERNS) - {"common-time"} | {"hostname", "idn-hostname", "regex"}
"""Every format that is enforced."""


def format_dfa(name: str) -> Dfa | None:
    """The automaton of a format over decoded characters, None where it is unknown or has a grammar alone, as `regex` and `idn-hostname`.

    It leaves out the bound on the length of a whole host name, which `format_longest` gives.

    >>> format_dfa("uuid")
    <Dfa of 37 states, 100 transitions>
    """
    if name in TABLES and name in NAMES:
        return _table(name)
    return hostname_dfa() if name == "hostname" else None


@cache
def approximations(name: str) -> Nested | None:
    """For a format that has a grammar alone: automata of most of its texts, of all other texts that may have it, and of both; or None.

    No text that is in neither has the format.
    """
    return nested(_table(FLAT)) if name == "regex" else None


def format_node(builder: GrammarBuilder, name: str, encoding: int = UTF8) -> NodeId | None:
    """The node of a format, None where it is unknown."""
    special = _NODES.get(name)
    if special is not None:
        return special(builder, encoding)
    automaton = format_dfa(name)
    return None if automaton is None else builder.automaton(automaton.transitions, automaton.accepting, encoding)


def is_known(name: object) -> bool:
    """Whether a format is enforced."""
    return isinstance(name, str) and name in NAMES


def format_longest(name: str) -> int:
    """The largest length of a text of a format if its automaton does not bound it, else -1."""
    return LONGEST_NAME if name == "hostname" else -1


def format_accepts(name: str, text: str) -> bool:
    """Whether a text has a format; those that have a grammar alone are asked of the reference engine."""
    automaton = format_dfa(name)
    if automaton is not None:
        longest = format_longest(name)
        return (longest < 0 or len(text) <= longest) and language.accepts(automaton, text)
    matcher = _recogniser(name).fork()
    return matcher.accept_bytes(text.encode("utf-8", "replace")) and matcher.is_completed()


@cache
def _recogniser(name: str) -> Matcher:
    """A matcher at the beginning of a format's grammar, over single bytes."""
    from ...pda.reference import KernelGrammar, Matcher, TokenTrie  # few schemas need it

    builder = GrammarBuilder()
    root = builder.rule(name)
    node = format_node(builder, name)
    assert node is not None
    builder.define(root, node)
    limits = Limits()
    trie = TokenTrie([bytes((byte,)) for byte in range(256)], 256)
    kernel = KernelGrammar(
        trie,
        builder.build(root),
        states=limits.states,
        stack_depth=limits.stack_depth,
        memory=limits.grammar_bytes,
        seconds=limits.compile_seconds,
    )
    return Matcher(kernel, [])


@cache
def format_lengths(name: str) -> tuple[int, int | None]:
    """The lengths of the shortest and the longest text of a format; None where there is no longest."""
    if name in ("hostname", "idn-hostname"):
        return 1, LONGEST_NAME
    automaton = format_dfa(name)
    bounds = None if automaton is None else language.length_bounds(automaton)
    return bounds or (0, None)


@cache
def _table(name: str) -> Dfa:
    """The automaton of a format as tables_generate.py wrote it.

    Numbers are varints: per state twice the number of ranges, plus 1 if it accepts, and per range the gap before it, its length less one,
    and its target.
    """
    numbers = unpack(TABLES[name])
    rows = []
    accepting = []
    index = 1
    for _ in range(numbers[0]):
        head = numbers[index]
        end = index + 1 + 3 * (head >> 1)
        place = 0
        row = []
        for at in range(index + 1, end, 3):
            low = place + numbers[at]
            place = low + numbers[at + 1]
            row.append((low, place, numbers[at + 2]))
        accepting.append(head & 1 == 1)
        rows.append(tuple(row))
        index = end
    return Dfa(tuple(rows), tuple(accepting))


def _time_node(builder: GrammarBuilder, encoding: int) -> NodeId:
    """Times; leap seconds apart, because an automaton has to remember the local time, in 860 states."""
    b = builder
    common = _table("common-time")
    sources, targets, texts, names = _leap_second_edges()
    fraction = b.optional(b.seq(ascii_text(b, ".", encoding), b.repeat(b.chars((48, 57), encoding), 1)))
    nodes = [
        b.seq(ascii_text(b, text, encoding), fraction)
        if text.endswith(":60")
        else ascii_text(b, text, encoding)
        if text
        else b.chars((90, 90, 122, 122), encoding)
        for text in texts
    ]
    graph = b.graph(126, tuple(chain.from_iterable(zip(sources, targets, map(nodes.__getitem__, names), strict=True))))
    return b.alt(b.automaton(common.transitions, common.accepting, encoding), graph)


@cache
def _leap_second_edges() -> tuple[list[int], list[int], list[str], list[int]]:
    """The graph of leap seconds: sources and targets of its edges, the texts they read, and which of them each edge reads.

    States: 0 the start, 1 the end, then one behind each hour, each hour and minute, and each hour of an offset by its quarter.
    A text that ends in ":60" may have a fraction; the empty one stands for Z.
    """
    edges: list[tuple[int, int, str]] = []
    minutes = (59, 14, 29, 44)
    for hour in range(24):
        edges.append((0, 2 + hour, f"{hour:02}"))
        edges += [(2 + hour, 26 + 4 * hour + index, f":{minute:02}:60") for index, minute in enumerate(minutes)]
        for index, quarter in enumerate(_QUARTERS):
            shift = hour * 60 + quarter
            for sign, local in (("+", (_LAST_MINUTE + shift) % 1440), ("-", _LAST_MINUTE - shift)):
                edges.append((26 + 4 * (local // 60) + minutes.index(local % 60), 122 + index, f"{sign}{hour:02}"))
    edges += [(122 + index, 1, f":{quarter:02}") for index, quarter in enumerate(_QUARTERS)]
    edges.append((26 + 4 * 23, 1, ""))
    texts = list(dict.fromkeys(text for _, _, text in edges))
    names = {text: name for name, text in enumerate(texts)}
    return [edge[0] for edge in edges], [edge[1] for edge in edges], texts, [names[edge[2]] for edge in edges]


def _date_time_node(builder: GrammarBuilder, encoding: int) -> NodeId:
    """A date, T and a time."""
    date = _table("date")
    t = builder.chars((84, 84, 116, 116), encoding)
    return builder.seq(builder.automaton(date.transitions, date.accepting, encoding), t, _time_node(builder, encoding))


_NODES: Final[Mapping[str, Callable[[GrammarBuilder, int], NodeId]]] = {
    "date-time": _date_time_node,
    "time": _time_node,
    "hostname": hostname_node,
    "idn-hostname": idn_hostname_node,
    "regex": regex_syntax_node,
}
