"""Tokens of a text, how free each of them was, and the tokens that may follow.

A token is *context-independent* if the rule that the text stands in decides about it alone, whatever called that rule, and
*context-dependent* if reading it ends that rule, so that what follows comes from the rules around it.
(XGrammar's terms: Dong et al., arXiv 2411.15100, section 3.1.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...pda.matcher import Matcher, allocate_token_bitmask
from ...pda.vocabulary import Vocabulary

MOST_TOKENS: Final = 20_000
"""Tokens of a strip."""
LONGEST_TOKEN: Final = 64
"""Bytes of the longest token that is tried where there is no tokenizer but its vocabulary."""

_ONES: Final = np.array([value.bit_count() for value in range(1 << 16)], np.uint32)
"""The number of set bits of each number of 16 bits."""


@dataclass(slots=True)
class Tokenizer:
    """A vocabulary and how it spells texts: `encode` gives ids, or is None where only the vocabulary is known.

    Without `encode` the longest token is taken at every place, which is not always what the model's tokenizer does.
    """

    name: str
    vocabulary: Vocabulary
    encode: Callable[[str], Sequence[int]] | None = None
    _ids: dict[bytes, int] = field(default_factory=dict)
    _texts: list[str] = field(default_factory=list)
    _first: npt.NDArray[np.int16] | None = None
    _blanks: npt.NDArray[np.bool_] | None = None

    def tokens_of(self, text: str) -> list[int]:
        """The ids of a text; bytes at its end that no token spells are left out."""
        data = text.encode("utf-8", "surrogatepass")
        if self.encode is not None:
            try:
                ids = list(self.encode(text))
            except Exception:  # a lone surrogate, or what else the library refuses
                ids = []
            pieces = [self.vocabulary.token_bytes(token) for token in ids if 0 <= token < self.vocabulary.size]
            if None not in pieces and b"".join(piece or b"" for piece in pieces) == data:
                return ids[:MOST_TOKENS]
        return self._longest(data)

    def _longest(self, data: bytes) -> list[int]:
        if not self._ids:
            for token, piece in reversed(list(enumerate(self.vocabulary.tokens))):
                if piece:
                    self._ids[piece] = token
        ids: list[int] = []
        at = 0
        while at < len(data) and len(ids) < MOST_TOKENS:
            for length in range(min(LONGEST_TOKEN, len(data) - at), 0, -1):
                found = self._ids.get(data[at : at + length])
                if found is not None:
                    ids.append(found)
                    at += length
                    break
            else:
                break
        return ids

    @property
    def texts(self) -> list[str]:
        """Each token as text, for people; names of special tokens."""
        if not self._texts:
            names = {token: name for name, token in self.vocabulary.special.items()}
            texts = ["" if piece is None else piece.decode("utf-8", "backslashreplace") for piece in self.vocabulary.tokens]
            texts += [""] * (self.vocabulary.size - len(texts))
            for token, name in names.items():
                texts[token] = texts[token] or name
            for token in self.vocabulary.stop_token_ids:
                texts[token] = texts[token] or "(end of text)"
            self._texts = texts
        return self._texts

    @property
    def first_bytes(self) -> npt.NDArray[np.int16]:
        """The first byte of each token, 256 where it has none."""
        if self._first is None:
            first = [piece[0] if piece else 256 for piece in self.vocabulary.tokens]
            self._first = np.array(first + [256] * (self.vocabulary.size - len(first)), np.int16)
        return self._first

    @property
    def blanks(self) -> npt.NDArray[np.bool_]:
        """Whether each token is nothing but blanks."""
        if self._blanks is None:
            self._blanks = np.array([text.isspace() for text in self.texts], np.bool_)
        return self._blanks

    def prepare(self) -> None:
        """Build the tables that the first answer needs."""
        _ = self.first_bytes, self.blanks


def allowed_ids(matcher: Matcher) -> npt.NDArray[np.int64]:
    """The ids that are allowed now, ascending."""
    bitmask = allocate_token_bitmask(1, matcher.vocabulary.size)
    matcher.fill_next_token_bitmask(bitmask)
    bits = np.unpackbits(bitmask.view(np.uint8), bitorder="little")[: matcher.vocabulary.size]
    return np.flatnonzero(bits)


class Strip:
    """The tokens of a text one by one; made once, it reads the next text from where that differs from the last.

    A row is [id, start, end, status, allowed, mask microseconds, accept microseconds], with offsets in bytes.
    The status is "forced" where the text had to continue like this, "chosen", "refused", "after" behind a refused token, or "unknown" where
    there was no time.
    """

    def __init__(self, matcher: Matcher, tokenizer: Tokenizer) -> None:
        self._matcher = matcher
        self._tokenizer = tokenizer
        self._bitmask = allocate_token_bitmask(1, matcher.vocabulary.size)
        self._rows: list[list[Any]] = []  # of accepted tokens
        self._forced: list[int] = []  # where the forced text ends that each of them stands in or behind

    def read(self, text: str, deadline: float) -> dict[str, Any]:
        """The rows of a text, as far as there is time."""
        ids = self._tokenizer.tokens_of(text)
        same = 0
        while same < min(len(ids), len(self._rows)) and ids[same] == self._rows[same][0]:
            same += 1
        self._matcher.rollback(len(self._rows) - same)
        del self._rows[same:], self._forced[same:]
        rows = list(self._rows)
        at = rows[-1][2] if rows else 0
        rest = "unknown"
        for token in ids[same:]:
            piece = self._matcher.vocabulary.token_bytes(token) or b""
            if rest == "after" or time.monotonic() > deadline:
                rows.append([token, at, at + len(piece), rest, None, None, None])
            else:
                rows.append(self._step(token, at, at + len(piece)))
                rest = "after" if rows[-1][3] == "refused" else rest
            at += len(piece)
        return {"tokens": rows, "cut": len(ids) >= MOST_TOKENS, "exact": self._tokenizer.encode is not None}

    def _step(self, token: int, at: int, end: int) -> list[Any]:
        """The row of one token, which is accepted if it may be."""
        forced = self._forced[-1] if self._forced else 0
        if at >= forced:
            forced = at + len(self._matcher.find_jump_forward_bytes())
        start = time.perf_counter_ns()
        limited = self._matcher.fill_next_token_bitmask(self._bitmask)
        middle = time.perf_counter_ns()
        accepted = self._matcher.accept_token(token)
        stop = time.perf_counter_ns()
        allowed = int(_ONES[self._bitmask[0].view(np.uint16)].sum()) if limited else self._matcher.vocabulary.size
        status = "refused" if not accepted else "forced" if end <= forced or allowed == 1 else "chosen"
        row = [token, at, end, status, allowed, (middle - start) / 1e3, (stop - middle) / 1e3]
        if accepted:
            self._rows.append(row)
            self._forced.append(forced)
        return row


def allowed_page(matcher: Matcher, tokenizer: Tokenizer, query: str, offset: int, limit: int) -> dict[str, Any]:
    """A page of the allowed tokens: those whose text holds `query`, by their ids, and those that are only blanks last."""
    ids = allowed_ids(matcher)
    texts = tokenizer.texts
    blank = tokenizer.blanks[ids]
    matching: Sequence[int] | npt.NDArray[np.int64] = np.concatenate([ids[~blank], ids[blank]])
    if query:
        matching = [int(token) for token in matching if query in texts[token]]
    counts = np.bincount(tokenizer.first_bytes[ids], minlength=257)
    order = np.argsort(-counts, kind="stable")[:24]
    page = [int(token) for token in matching[offset : offset + limit]]
    frame = matcher.rule_names()
    rows = [[token, texts[token], "dependent" if leaves(matcher, frame, token) else "independent"] for token in page]
    return {
        "total": len(ids),
        "matching": len(matching),
        "size": matcher.vocabulary.size,
        "offset": offset,
        "rows": rows,
        "groups": [[_byte(int(value)), int(counts[value])] for value in order if counts[value]],
    }


def leaves(matcher: Matcher, frame: Sequence[str], token: int) -> bool:
    """Whether reading an allowed token ends the innermost rule of `frame`, so that the rules around it have a say in the token."""
    data = matcher.vocabulary.token_bytes(token)
    if data is None:
        return len(frame) > 1
    for length in range(1, len(data) + 1):
        names = matcher.rule_names(data[:length])
        if len(names) < len(frame) or names[len(names) - len(frame) :] != list(frame):
            return True
    return False


def _byte(value: int) -> str:
    return "(no text)" if value == 256 else chr(value) if 0x20 <= value < 0x7F else f"0x{value:02X}"


def try_next(matcher: Matcher, token_or_text: int | str) -> dict[str, Any]:
    """Whether a token or a text is allowed and, if not, the sentence that says why and the nearest text that is."""
    if isinstance(token_or_text, int) and token_or_text >= matcher.vocabulary.size:
        sentence = f"there is no token {token_or_text}: the ids end at {matcher.vocabulary.size - 1}"
        return {"accepted": False, "sentence": sentence, "position": 0, "nearest": None}
    tried = token_or_text.encode("utf-8", "surrogatepass") if isinstance(token_or_text, str) else token_or_text
    explanation = matcher.explain(tried, nearest=False)
    result: dict[str, Any] = {
        "accepted": explanation.accepted,
        "sentence": str(explanation),
        "position": explanation.position,
        "nearest": None if explanation.accepted else nearest(matcher, explanation.data, explanation.position),
    }
    return result


def nearest(matcher: Matcher, data: bytes, fits: int) -> dict[str, Any]:
    """The accepted text that is nearest to a refused one: what fits of it, and then the shortest completion."""
    fork = matcher.fork()
    if fits:
        fork.accept_bytes(data[:fits])
    return {"kept": decoded(data[:fits]), **completion(fork)}


def completion(matcher: Matcher, most: int = 2_000) -> dict[str, Any]:
    """The shortest completion, at most a given number of characters of it, and its length in bytes; `error` if there is none to show."""
    try:
        data = matcher.shortest_completion()
    except Exception as error:  # no text completes it, or the search is too long: both have a sentence
        return {"completion": None, "bytes": None, "error": str(error)[:300]}
    text = decoded(data)
    return {"completion": text[:most], "bytes": len(data), "error": None}


def decoded(data: bytes) -> str:
    """Bytes as text, for people."""
    return data.decode("utf-8", "backslashreplace")


def spans_of(flags: Iterable[tuple[int, str]]) -> list[list[Any]]:
    """Runs of equal flags: [(end, flag), ...] in order as [start, end, flag]."""
    spans: list[list[Any]] = []
    start = 0
    for end, flag in flags:
        if end > start:
            if spans and spans[-1][2] == flag:
                spans[-1][1] = end
            else:
                spans.append([start, end, flag])
            start = end
    return spans
