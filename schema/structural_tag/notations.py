"""The notations of the arguments of tool calls: one table, which the writers of grammars and the parsers of answers share.

A tagged notation is a template for one argument, `$key` for its name and `$value` for its value; `$kind` says what kind of value follows.

    <parameter name="$key">$value</parameter>

The notations in STYLES are written by `parameters` for any schema of objects; structural tags name them in the field `style`.
`stackmask.integration.tools` composes the others from formats of structural tags, and reads all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Literals:
    """Values written as in a programming language, to any depth.

    `assign` stands between an argument and its value, `member` between a key and a value inside an object, `comma` between any two.
    `quote` stands around strings; without one, strings are JSON. Keys inside objects are spelled like strings if `quotes_keys`.
    `words` are the names of null, true and false.
    """

    assign: str
    member: str
    comma: str
    quote: str = ""
    quotes_keys: bool = True
    words: tuple[str, str, str] = ("null", "true", "false")


@dataclass(frozen=True, kw_only=True)
class Notation:
    r"""One way to spell the arguments of a call: tagged if it has a `pair`, literals of a language if it has `literals`, else JSON.

    In a tagged notation a string stands without quotes and escapes, and any other value is JSON.
    Blanks may stand between two tags (`><`) inside a pair.

    `pair` is the template of an argument.
    `item` is that of an item of an array; where there is one, objects and arrays inside values are spelled in the notation too.
    `kinds` has the word for each kind of value; where it is empty, only the tool's schema tells a string from other values.
    `ends_key` is the text right after a key, which no key holds.
    `escapes` are the characters of keys with what stands for each, replaced in this order; `keys` is the pattern of the keys that parsers
    read back, where those are not all.
    `excluded` is the text that no string holds: by default the one that closes it.
    `padded` allows blanks around values other than strings, `separated` blanks between items; blanks around a string are part of it.
    `trim`: one newline at either end of a value is not part of it. `adjoins`: no blank stands before the first argument.
    """

    name: str
    pair: str = ""
    item: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)
    ends_key: str = '"'
    escapes: tuple[tuple[str, str], ...] = ()
    keys: str = ""
    excluded: str = ""
    padded: bool = True
    separated: bool = False
    trim: bool = False
    adjoins: bool = False
    literals: Literals | None = None

    def escaped(self, key: str) -> str:
        """A key as it is written."""
        for character, reference in self.escapes:
            key = key.replace(character, reference)
        return key

    def unescaped(self, key: str) -> str:
        """The key that was written so."""
        for character, reference in reversed(self.escapes):
            key = key.replace(reference, character)
        return key

    @cached_property
    def before(self) -> str:
        """The text before a key."""
        return self.pair.partition("$key")[0]

    @cached_property
    def opening(self) -> tuple[str, ...]:
        """The texts between the end of a key and its value; blanks may stand between two of them.

        >>> NOTATIONS["glm_xml"].ends_key, NOTATIONS["glm_xml"].opening
        ('</arg_key>', ('', '<arg_value>'))
        """
        after_key = self.pair.partition("$value")[0].removeprefix(f"{self.before}$key")
        first, *more = _BETWEEN_TAGS.split(after_key)
        return (first.removeprefix(self.ends_key), *more)

    @cached_property
    def close(self) -> str:
        """The text after a value, up to the key where that is repeated."""
        return self.pair.partition("$value")[2].partition("$key")[0]

    @cached_property
    def after_repeated_key(self) -> str:
        """The text after the key at the end of an argument; empty where the key is not repeated."""
        return self.pair.partition("$value")[2].partition("$key")[2]

    @cached_property
    def around_item(self) -> tuple[str, str]:
        """The texts of an item before the opening and after the close, both of which it shares with an argument."""
        begin, _, end = self.item.partition("$value")
        return begin.removesuffix("".join(self.opening)), end.removeprefix(self.close)


_BETWEEN_TAGS: Final = re.compile("(?<=>)(?=<)")
_M3: Final = "]<]minimax[>["
_IS_STRING: Final = {"string": "true"} | dict.fromkeys(("number", "boolean", "null", "array", "object"), "false")
_KINDS: Final = {kind: kind for kind in _IS_STRING}
_COHERE: Final = {"string": "raw", "number": "json", "boolean": "json", "null": "json", "array": "list", "object": "dict"}

_STYLES: Final = (
    Notation(name="qwen_xml", pair="<parameter=$key>$value</parameter>", ends_key=">", trim=True),
    Notation(name="mimo_xml", pair="<parameter=$key>$value</parameter>", ends_key=">", padded=False),
    Notation(name="minimax_xml", pair='<parameter name="$key">$value</parameter>'),
    Notation(
        name="minimax_m3_xml",
        pair=f"{_M3}<$key>$value{_M3}</$key>",
        item=f"{_M3}<item>$value{_M3}</item>",
        ends_key=">",
        excluded=_M3,
        keys=r"[^/\s>][^\s>]*",
        padded=False,
        separated=True,
    ),
    Notation(
        name="deepseek_xml",
        pair='<｜DSML｜parameter name="$key" string="$kind">$value</｜DSML｜parameter>',
        kinds=_IS_STRING,
    ),
    Notation(
        name="deepseek_v4_1_xml",
        pair='<｜DSML｜ parameter name="$key" string="$kind">$value</｜DSML｜ parameter>',
        kinds=_IS_STRING,
    ),
    Notation(name="glm_xml", pair="<arg_key>$key</arg_key><arg_value>$value</arg_value>", ends_key="</arg_key>", adjoins=True),
    Notation(
        name="kimi_k3_xml",
        pair='<|open|>argument key="$key" type="$kind"<|sep|>$value<|close|>argument<|sep|>',
        kinds=_KINDS,
        escapes=(("&", "&amp;"), ('"', "&quot;")),
    ),
    Notation(
        name="cohere_xml",
        pair='<cofl:value name="$key" type="$kind">$value</cofl:value>',
        item='<cofl:value type="$kind">$value</cofl:value>',
        kinds=_COHERE,
        escapes=(("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")),
    ),
)

_COMPOSED: Final = (
    Notation(name="step_xml", pair='<steptml:parameter name="$key">$value</steptml:parameter>\n'),
    Notation(name="ifm_xml", pair="<ifm|arg_key>$key</ifm|arg_key><ifm|arg_value>$value</ifm|arg_value>", ends_key="</ifm|arg_key>"),
    Notation(name="minicpm_xml", pair='<param name="$key">$value</param>'),
    Notation(name="python", literals=Literals(assign="=", member=": ", comma=", ", words=("None", "True", "False"))),
    Notation(name="python_json", literals=Literals(assign="=", member=": ", comma=", ")),
    Notation(name="gemma", literals=Literals(assign=":", member=":", comma=",", quote='<|"|>', quotes_keys=False)),
    Notation(name="function_gemma", literals=Literals(assign=":", member=":", comma=",", quote="<escape>", quotes_keys=False)),
)

STYLES: Final[Mapping[str, Notation]] = MappingProxyType({row.name: row for row in _STYLES})
"""The notations other than JSON that structural tags name in the field `style`."""

NOTATIONS: Final[Mapping[str, Notation]] = MappingProxyType({row.name: row for row in (Notation(name="json"), *_STYLES, *_COMPOSED)})
"""All notations by name."""
