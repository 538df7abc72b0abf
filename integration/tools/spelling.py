r"""The templates of a format taken apart, for the grammar and for the parser alike.

Special tokens have no text. Where one is part of a spelling, its name is written after a mark, a noncharacter, so that no text
can be mistaken for it: the engine writes mark and name into the text of an answer, and the parser looks for them there.

>>> mark_special("[TOOL_CALLS] [", ["[TOOL_CALLS]"]) == MARK + "[TOOL_CALLS] ["
True
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ...schema.structural_tag.notations import NOTATIONS, Notation
from .formats import Format

MARK: Final = "\ufdd0"
"""A noncharacter of Unicode, which interchanged text does not contain."""

NAME: Final = r"[A-Za-z0-9_.-]+"

Slot = Literal["arguments", "string", "input"]
_SLOT: Final = re.compile(r"\$(arguments|string|input)")
_FIELD: Final = re.compile(r"\$(name|index|gap|line|space)")
GAPS: Final = ("gap", "line", "space")
"""The fields that are blanks: parsers read any blanks there, or none."""
_GAP: Final = re.compile(r"\$(?:gap|line|space)")
BLANKS: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Spelling:
    """A call of a tool, or of a custom tool: the text before its arguments or input, which of these they are, and the text after them."""

    head: str
    slot: Slot
    tail: str
    is_custom: bool

    @property
    def pieces(self) -> tuple[str, ...]:
        """The head cut at its fields: texts and, at the odd indices, the names of the fields."""
        return cut(self.head)


def cut(template: str) -> tuple[str, ...]:
    """A template cut at its fields."""
    return tuple(_FIELD.split(template))


def between_gaps(template: str) -> list[str]:
    """The texts of a template without names and numbers, cut at its blanks."""
    return [part for part in _GAP.split(template) if part]


def spellings(format: Format) -> tuple[Spelling, ...]:
    """All spellings of a format's calls."""
    functions = [_spelling(call, is_custom=False) for call in format.calls]
    return (*functions, *(_spelling(call, is_custom=True) for call in custom_calls(format)))


def custom_calls(format: Format) -> tuple[str, ...]:
    """The notation of calls of custom tools."""
    return format.custom or tuple(call.replace("$arguments", _input(NOTATIONS[format.style])) for call in format.calls)


def mark_special(text: str, special: Collection[str]) -> str:
    """A text in which the names of special tokens are marked, the longest name first."""
    if not special:
        return text
    names = "|".join(map(re.escape, sorted(special, key=len, reverse=True)))
    return re.sub(names, lambda found: MARK + found[0], text)


def bind(format: Format, special: Iterable[str]) -> Format:
    """The format for a tokenizer that has these special tokens: their names are marked in all its templates.

    Where one stands inside a trigger and not at its beginning, no name is marked: a structural tag then reads the token as well as its
    name in letters.
    """
    names = {name for name in special if name}

    def marked(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(marked, value))
        return mark_special(value, names)

    if format.layout == "free" and any(MARK in trigger[1:] for trigger in map(marked, triggers(format))):
        return format
    fields = ("calls", "open", "close", "separator", "triggers", "text", "preambles", "lead", "tail", "reasoning")
    return replace(format, custom=marked(custom_calls(format)), **{name: marked(getattr(format, name)) for name in fields})


def named_tokens(format: Format, special: Iterable[str]) -> dict[str, str]:
    """Of these special tokens those that the format spells, and how the answer's text shows each."""
    notation = NOTATIONS[format.style]
    texts = [value for name in ("calls", "custom", "reasoning", "text") for value in getattr(format, name)]
    texts += [format.open, format.close, format.separator, format.lead, format.tail, notation.pair, notation.item]
    texts += [text for frame in format.preambles for text in frame]
    texts += [] if notation.literals is None else [notation.literals.quote]
    joined = "\0".join(texts)
    names = {name for name in special if name and name in joined}
    mark = "" if bind(format, names) is format and names else MARK
    return {name: mark + name for name in names}


def common_prefix(texts: Iterable[str]) -> str:
    """The longest common beginning of these texts."""
    low, high = min(texts := list(texts)), max(texts)
    return low[: next((index for index, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))]


def openers(format: Format) -> tuple[str, ...]:
    """The texts that calls begin with: those around all calls, or those before a name."""
    heads = [format.open] if format.open else [spelling.head for spelling in spellings(format)]
    return tuple(dict.fromkeys(cut(head)[0] for head in heads))


def triggers(format: Format) -> tuple[str, ...]:
    """The texts that turn free text into a call."""
    return format.triggers or (common_prefix(openers(format)),)


def _spelling(template: str, *, is_custom: bool) -> Spelling:
    head, slot, tail = _SLOT.split(template)
    return Spelling(head, slot, tail, is_custom)  # type: ignore[arg-type]


def _input(notation: Notation) -> str:
    """The arguments of a custom tool: its input is one argument, named input."""
    if notation.literals is not None:
        quote = notation.literals.quote
        return f"input{notation.literals.assign}" + (f"{quote}$input{quote}" if quote else "$string")
    if not notation.pair:
        return '{"input": $string}'
    pair = notation.pair.replace("$key", "input").replace("$kind", notation.kinds.get("string", ""))
    return pair.replace("$value", "\n$input\n" if notation.trim else "$input")
