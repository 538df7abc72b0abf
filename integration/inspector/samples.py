"""Texts of a grammar: a random one, and one that only the first of two grammars takes."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...pda.automata import dfa, language
from ...pda.exceptions import StackmaskError, UnsatisfiableError
from ...pda.limits import Limits
from ...pda.matcher import Matcher
from ...pda.regex import regex_dfa
from ..compiler import CompiledGrammar, Compiler
from .request import Specification
from .specification import compile_value, value_of
from .tokens import decoded

WORDS: Final = (
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbor", "island", "juniper", "kestrel", "lantern", "meadow", "north",
    "orchid", "pebble", "quartz", "river", "saffron", "timber", "umbra", "valley", "willow", "yarrow", "zephyr",
)  # fmt: skip
_LETTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz")
_DIGITS: Final = frozenset(b"0123456789")
_BLANKS: Final = frozenset(b" \t\n\r")
_CLOSING: Final = frozenset(b'"]},')


def random_instance(matcher: Matcher, seed: int, deadline: float, most: int = 300) -> str | None:
    """A random text from the matcher's position, which does not change; after `most` bytes the shortest way to an end, or None.

    Words stand where letters may, so that it can be read: it is one of the texts, not a fair draw from them.
    """
    rng = random.Random(seed)
    fork = matcher.fork()
    text = b""
    budget = rng.randint(most // 6, most)
    while len(text) < budget and time.monotonic() < deadline:
        following = fork.next_bytes()
        if not following or (fork.is_completed() and (text or rng.random() < 0.1) and rng.random() < 0.4):
            break
        piece = _piece(fork, following, text, rng)
        fork.accept_bytes(piece)
        text += piece
    try:
        text += fork.shortest_completion()
    except (ValueError, StackmaskError):
        return None
    return decoded(text)


def _piece(matcher: Matcher, following: bytes, text: bytes, rng: random.Random) -> bytes:
    """The next piece: a word if letters are allowed, else a byte; blanks and escapes rarely."""
    if len(_LETTERS.intersection(following)) > 20 and text[-1:].isalpha() is False:
        word = rng.choice(WORDS).encode()
        if matcher.matching_prefix(word) == len(word):
            return word
    is_text = len(_LETTERS.intersection(following)) > 20
    after_word = text[-1:].isalpha() and is_text
    weights = []
    for byte in following:
        if is_text and byte == 0x20:
            weight = 12.0 if after_word else 0.01
        elif byte in _CLOSING and (not is_text or byte == 0x22):
            weight = 40.0 if after_word or text[-1:].isdigit() else 6.0
        elif byte in _DIGITS:
            weight = 2.0
        elif byte in _BLANKS:
            weight = 0.05 if byte == 0x20 else 0.0001
        elif byte in _LETTERS:
            weight = 1.0
        elif 0x20 <= byte < 0x7F:
            weight = 0.02 if is_text else 1.0
        else:
            weight = 0.0001
        weights.append(weight)
    return bytes(rng.choices(following, weights))


@dataclass(frozen=True, slots=True)
class Difference:
    """A text that the first takes and the second refuses; `text` None: there is none if `exact`, else none was found."""

    text: str | None
    exact: bool
    note: str


def difference(
    compiler: Compiler, first: Specification, one: CompiledGrammar, second: Specification, other: CompiledGrammar, deadline: float
) -> Difference:
    """A text that `one` takes and `other` refuses: exactly where there is an algebra of the two, else among random texts."""
    for way in (_schemas, _patterns):
        found = way(compiler, first, second)
        if found is not None and (found.text is None or _separates(found.text, one, other)):
            return found
    tries = 0
    best: bytes | None = None
    while time.monotonic() < deadline and tries < 400:
        text = random_instance(one.matcher(), tries, deadline, most=20 + 10 * tries)
        tries += 1
        if text is None:
            continue
        data = text.encode("utf-8", "surrogatepass")
        if not _takes(other, data):
            data = _shorter(data, one, other)
            best = data if best is None or len(data) < len(best) else best
            if tries > 40:
                break
    note = f"the shortest of those found in {tries} random texts" if best is not None else f"none among {tries} random texts"
    return Difference(None if best is None else decoded(best), False, note)


def _schemas(compiler: Compiler, first: Specification, second: Specification) -> Difference | None:
    """By the algebra of schemas: the instances of one that are not instances of the other."""
    if {first.kind, second.kind} != {"json_schema"}:
        return None
    documents = {"urn:inspect:one": value_of(first), "urn:inspect:other": value_of(second)}
    schema = {"allOf": [{"$ref": "urn:inspect:one"}, {"not": {"$ref": "urn:inspect:other"}}]}
    options: Mapping[str, Any] = {**first.options, "documents": documents}
    try:
        shortest = compile_value(compiler, first, schema, options).matcher().shortest_completion()
    except UnsatisfiableError:
        return Difference(None, True, "every value of it is a value of the other")
    except (StackmaskError, ValueError, RecursionError):
        return None
    return Difference(decoded(shortest), True, "the shortest there is, by the algebra of schemas")


def _patterns(compiler: Compiler, first: Specification, second: Specification) -> Difference | None:
    """By automata: the texts of one pattern, or list of choices, that the other does not match."""
    if not {first.kind, second.kind} <= {"regex", "choice"}:
        return None
    limits = Limits(compile_seconds=0.5, states=20_000)
    try:
        left, right = (
            dfa.from_strings(value_of(each)) if each.kind == "choice" else regex_dfa(each.text, search=False, limits=limits)
            for each in (first, second)
        )
        shortest = language.shortest(dfa.difference(left, right))
    except StackmaskError:
        return None
    note = "every text of it is a text of the other" if shortest is None else "the shortest there is, by the automata of both"
    return Difference(shortest, True, note)


def _separates(text: str, one: CompiledGrammar, other: CompiledGrammar) -> bool:
    data = text.encode("utf-8", "surrogatepass")
    return _takes(one, data) and not _takes(other, data)


def _takes(grammar: CompiledGrammar, data: bytes) -> bool:
    matcher = grammar.matcher()
    return (not data or matcher.accept_bytes(data)) and matcher.is_completed()


def _shorter(data: bytes, one: CompiledGrammar, other: CompiledGrammar) -> bytes:
    """A text that begins like this one up to where the other refuses it, and ends as soon as it can, if that separates them too."""
    fits = min(other.matcher().matching_prefix(data) + 1, len(data))
    matcher = one.matcher()
    if not matcher.accept_bytes(data[:fits]):
        return data
    try:
        short = data[:fits] + matcher.shortest_completion()
    except (ValueError, StackmaskError):
        return data
    return short if len(short) < len(data) and not _takes(other, short) else data
