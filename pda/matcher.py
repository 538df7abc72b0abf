"""One request's position in a grammar: the engine's matcher, with methods for people on top.

The calls made for every token are the engine's own, unwrapped.
This class adds `explain`, which turns a refusal into a sentence, `forced_tokens`, which needs the vocabulary besides the engine's state,
and `get_captures`, which needs the grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, Self

import numpy as np
import numpy.typing as npt

from . import engine, html
from .captures import CaptureReader
from .exceptions import LimitError, StackmaskError
from .vocabulary import Vocabulary

LONGEST_NEAREST = 4096
SHOWN_NEAREST = 400
SHOWN_RULES = 8
SHOWN_BYTES = 40
MOST_FORCED = 1 << 16  # forced_tokens gives no more than these at once


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> npt.NDArray[np.int32]:
    """A bitmask with a row for each sequence of a batch, with every token allowed.

    >>> allocate_token_bitmask(2, 40)
    array([[-1, -1],
           [-1, -1]], dtype=int32)
    """
    if batch_size < 0 or vocab_size < 1:
        raise ValueError(f"a bitmask for {batch_size} sequences and {vocab_size} tokens")
    return np.full((batch_size, (vocab_size + 31) // 32), -1, np.int32)


Tell = Callable[[bytes, int, Sequence[str]], tuple[tuple[str, ...], tuple[str, ...]]]
"""Explains a refusal in terms of a specification: from the whole text, the position of the refused byte (its length where the text ends
too early) and the rules there, sentences in the words of the specification, and places in it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether a token or a text is accepted here, and if not, why; `str` gives all of it, a line for each sentence.

    `reasons` explain it in terms of the specification: for a JSON Schema the path in the instance, the value, and the keyword with its
    pointer. `places` are the definitions of the rules of a grammar, with line and caret. `nearest` is the text up to the refused byte with
    a shortest completion. All three are known only if the matcher is at the start of a text, because they need the whole text.

    `position` counts the bytes of `data` that fit, `byte` is the first that does not, `expected` are the bytes that would fit instead,
    `rules` the rules that the text is in there, innermost first, and `complete` whether the text may end there.
    A refused token without text has no `byte`.
    """

    accepted: bool
    data: bytes
    position: int
    byte: int | None
    expected: bytes
    complete: bool
    rules: tuple[str, ...]
    subject: str
    reasons: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    nearest: bytes | None = None

    def __str__(self) -> str:
        if self.accepted:
            return f"{self.subject} fits"
        what = f"{self.subject} does not fit here"
        if self.byte is not None:
            before = f" after {_quote(self.data[: self.position][-SHOWN_BYTES:])}" if self.position else ""
            what = f"{self.subject} does not fit: byte {self.position} is {show_bytes(bytes([self.byte]))}{before}"
        instead = (
            [f"one of {show_bytes(self.expected)}"] if len(self.expected) > 1 else [show_bytes(self.expected)] if self.expected else []
        )
        instead += ["the end of the text"] if self.complete else []
        expected = f"; expected is {' or '.join(instead)}" if instead else "; nothing but a token with a name can follow"
        names = ", in ".join(self.rules[:SHOWN_RULES]) + (", ..." if len(self.rules) > SHOWN_RULES else "")
        nearest = [] if self.nearest is None else [f"nearest text that fits: {_quote(self.nearest[:SHOWN_NEAREST])[1:-1]}"]
        return "\n".join([*self.reasons, what + expected + (f" (in {names})" if names else ""), *self.places, *nearest])


class Matcher(engine.Matcher):
    """The state of one text being generated: which tokens may come next, and what happens when one does."""

    __slots__ = ("_captures", "_tell", "_vocabulary")

    def __init__(
        self,
        grammar: engine.KernelGrammar,
        vocabulary: Vocabulary,
        stop_token_ids: Iterable[int] | None = None,
        *,
        captures: Callable[[], CaptureReader] | None = None,
        tell: Tell | None = None,
    ) -> None:
        super().__init__(grammar, vocabulary.stop_token_ids if stop_token_ids is None else list(stop_token_ids))
        self._vocabulary = vocabulary
        self._captures = captures
        self._tell = tell

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of this matcher's token ids."""
        return self._vocabulary

    def fork(self) -> Self:
        """An independent matcher in the same state."""
        fork = super().fork()  # the engine's fork makes an instance of type(self)
        fork._vocabulary = self._vocabulary
        fork._captures = self._captures
        fork._tell = self._tell
        return fork

    def __copy__(self) -> Self:
        return self.fork()

    def __deepcopy__(self, memo: object) -> Self:
        return self.fork()

    def __reduce__(self) -> NoReturn:
        """A matcher cannot be pickled, because it refers to the tables of its process."""
        raise TypeError("a Matcher cannot be pickled: send its grammar and the tokens that it accepted, and accept them there")

    def forced_tokens(self) -> list[int]:
        """The tokens of the text that must come next, with the longest token at every place; [] if more than one text can come.

        A token that the grammar asks for by its id is included if no text and no other token can come.
        The list ends where the model could choose a longer token, one that continues past the forced text.
        """
        tokens: list[int] = []
        forced = self.find_jump_forward_bytes()
        fork = self.fork() if forced or not self.next_bytes() else self
        while len(tokens) < MOST_FORCED:
            if not forced:
                if fork.is_completed() or fork.next_bytes():
                    break
                allowed = fork.allowed_tokens()
                if len(allowed) != 1 or not fork.accept_token(allowed[0]):
                    break
                tokens.append(allowed[0])
                forced = fork.find_jump_forward_bytes()
                continue
            lengths = {token: len(self._vocabulary.token_bytes(token) or b"") for token in fork.allowed_tokens()}
            longest = max(lengths, key=lengths.__getitem__, default=-1)  # the first of several, so the lowest id
            if longest < 0 or not 0 < lengths[longest] <= len(forced):
                break
            fork.accept_token(longest)
            tokens.append(longest)
            forced = forced[lengths[longest] :] or fork.find_jump_forward_bytes()
        return tokens

    def get_captures(self, *, deduplicate: bool = True) -> list[tuple[str, bytes]]:
        """The names and texts of the captured parts so far, in the order of their ends, without those that have not ended.

        If the text can be read in several ways, `stackmask.pda.captures` describes which one counts. With `deduplicate`, captures of the
        same name at the same position count once.
        """
        steps = self.taken
        return self._captures().read(steps, deduplicate=deduplicate) if steps and self._captures is not None else []

    def explain(self, token_or_bytes: int | bytes | str, *, nearest: bool = True) -> Explanation:
        """Whether a token or a text fits here and, if not, which byte is refused and which bytes were expected.

        Positions count bytes, also where the text is a str.

        `nearest` asks for the nearest text that fits, which can take a while for long texts.
        """
        if isinstance(token_or_bytes, str):
            token_or_bytes = token_or_bytes.encode("utf-8", "surrogatepass")
        if isinstance(token_or_bytes, bytes):
            data, accepted, subject = token_or_bytes, False, f"the text {_quote(token_or_bytes[:SHOWN_BYTES])}"
        else:
            data = self._vocabulary.token_bytes(token_or_bytes) or b""
            accepted, subject = self.validate_tokens([token_or_bytes]) == 1, self._subject(token_or_bytes)
        fits = self.matching_prefix(data)
        accepted = accepted or (fits == len(data) and isinstance(token_or_bytes, bytes))
        refused = None if accepted or fits == len(data) else data[fits]
        rules = tuple(self.rule_names(data[:fits]))
        reasons: tuple[str, ...] = ()
        places: tuple[str, ...] = ()
        end = None
        if refused is not None and not self.num_accepted:
            if self._tell is not None:
                reasons, places = self._tell(data, fits, rules)
            end = self._nearest(data[:fits]) if nearest else None
        return Explanation(
            accepted=accepted,
            data=data,
            position=fits,
            byte=refused,
            expected=self.next_bytes(data[:fits]),
            complete=not accepted and self._complete_after(data[:fits]),
            rules=rules,
            subject=subject,
            reasons=reasons,
            places=places,
            nearest=end,
        )

    def missing(self, data: bytes) -> tuple[str, ...]:
        """The parts missing from a text that fits but ends too early, in terms of the specification; the matcher must be at the start."""
        if self._tell is None or self.num_accepted:
            return ()
        reasons, places = self._tell(data, len(data), self.rule_names(data))
        return (*reasons, *places)

    def _nearest(self, data: bytes) -> bytes | None:
        """A text that fits, with a shortest completion; None if that needs tokens without text, is too long, or is not found."""
        fork = self.fork()
        if data and not fork.accept_bytes(data):
            return None
        if engine.completion_lengths((fork,))[0] > LONGEST_NEAREST:
            return None
        try:
            return data + fork.shortest_completion()
        except (ValueError, LimitError):
            return None

    def _repr_html_(self) -> str:
        """For notebooks: the open rules, the text that must or may follow, and the shortest completion; see `stackmask.pda.html`."""
        fork = self.fork()
        allowed = fork.allowed_tokens()
        try:
            end = fork.shortest_completion().decode("utf-8", "backslashreplace")[:SHOWN_NEAREST]
        except (ValueError, StackmaskError) as error:
            end = str(error)
        rows: list[tuple[object, object]] = [
            ("rules", " > ".join(self.rule_names()[SHOWN_RULES::-1])),
            ("accepted steps", self.num_accepted),
            ("complete", "yes" if self.is_completed() else "no"),
            ("shortest end", end),
            ("allowed tokens", f"{len(allowed)} of {self._vocabulary.size}"),
        ]
        shown = [(self._vocabulary.token_bytes(token), token) for token in allowed[:SHOWN_BYTES]]
        kind = "forced" if len(allowed) == 1 else "chosen"
        tokens = " ".join(
            html.span(self._subject(token) if data is None else data.decode("utf-8", "backslashreplace"), kind, f"token {token}")
            for data, token in shown
        )
        return html.table(rows) + html.block(tokens)

    def _subject(self, token: int) -> str:
        """A token in words."""
        data = self._vocabulary.token_bytes(token)
        if data is not None:
            return f"token {token} {_quote(data[:SHOWN_BYTES])}"
        name = next((name for name, index in self._vocabulary.special.items() if index == token), None)
        kind = "stop token" if token in self._vocabulary.stop_token_ids else "special token" if name else "token without text"
        return f"{kind} {token}" + (f" {name}" if name else "")

    def _complete_after(self, data: bytes) -> bool:
        """Whether the text may end after `data`."""
        fork = self.fork()
        return (not data or fork.accept_bytes(data)) and fork.is_completed()


def show_bytes(data: bytes) -> str:
    """Distinct bytes for people: runs as ranges, printable ASCII as characters, the rest in hexadecimal.

    >>> print(show_bytes(b'",0123456789' + bytes([128])))
    '"' ',' '0'-'9' 0x80
    """
    values = sorted(set(data))
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][1] == value - 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return " ".join(_byte(low) if low == high else f"{_byte(low)}-{_byte(high)}" for low, high in runs)


def _byte(value: int) -> str:
    return f"'{chr(value)}'" if 0x20 <= value < 0x7F else f"0x{value:02X}"


def _quote(data: bytes) -> str:
    """Bytes as a quoted string, with escapes for bytes that are not UTF-8 or not printable."""
    text = data.decode("utf-8", "backslashreplace")
    return '"' + "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text) + '"'
