"""
The compiled engine: grammars run as pushdown automata over a trie of tokens.
"""

from collections.abc import Sequence
from typing import Self

class TokenTrie:
    """
    The bytes of every token, as a trie; an id without bytes, or with none, is a token without text.

    What grammars remember of it together, so that each need not find it anew, takes no more than set_bytes (sets of nodes, kept for good)
    and class_bytes (what loops over classes of characters take; forgotten if it is not used).
    Masks do not depend on thresholds, which say from which sizes on which way to them is taken; tests change them.
    """

    def __init__(
        self, tokens: object, size: int, *, set_bytes: int = 67108864, class_bytes: int = 67108864, thresholds: object | None = None
    ) -> None: ...
    @property
    def thresholds(self) -> dict[str, int]:
        """The sizes from which on which way to a mask is taken."""

    @property
    def size(self) -> int:
        """The number of tokens, padding included."""

    @property
    def nodes(self) -> int:
        """The number of trie nodes."""

    @property
    def memory(self) -> int:
        """The bytes that the trie takes."""

class KernelGrammar:
    """
    A grammar, or one that was packed, made ready for one vocabulary. Shared by any number of matchers and threads.
    """

    def __init__(
        self, trie: TokenTrie, grammar: object, *, states: int, stack_depth: int, memory: int, seconds: float, step_work: int = 100000000
    ) -> None: ...
    def warm_up(self) -> None:
        """
        Make what the first request would wait for: its first mask, and the length of a completion.

        After a while this takes turns from nobody else, where threads have priorities of their own.
        """

    @property
    def memory(self) -> int:
        """The bytes that the lazily built tables take."""

    @property
    def has_temperature(self) -> bool:
        """Whether some part of the text asks for a temperature."""

    @property
    def statistics(self) -> dict[str, int]:
        """Counts of what was built, for tests and benchmarks."""

def pack_grammar(grammar: object) -> bytes:
    """
    A grammar as bytes that a KernelGrammar takes in its place, in a process of the same version on the same machine.
    """

class Matcher:
    """
    The text of one request so far, and what may follow it. Not for use by two threads at once.
    """

    def __init__(self, grammar: KernelGrammar, stop_token_ids: object) -> None: ...
    def __repr__(self) -> str: ...
    @property
    def num_accepted(self) -> int:
        """How many steps rollback can undo."""

    @property
    def temperature(self) -> float | None:
        """
        The temperature that the next token is to be sampled at, None where the grammar does not say; the highest of several.
        """

    @property
    def taken(self) -> list[int | bytes]:
        """
        What was accepted, tokens by their ids and texts, without stop tokens nobody asked for; nothing where there is no CAPTURE.
        """

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""

    def is_completed(self) -> bool:
        """Whether the text may end here: then every stop token is allowed."""

    def accept_token(self, token_id: int) -> bool:
        """Go on by a token; False, and nothing changes, where it is not allowed."""

    def accept_bytes(self, data: bytes) -> bool:
        """
        Go on by a text, as one step; False, and nothing changes, where it is not allowed.
        """

    def validate_tokens(self, token_ids: object) -> int:
        """How many of these tokens could be accepted one after the other."""

    def rollback(self, n: int) -> None:
        """Undo the last n steps."""

    def fork(self) -> Self:
        """An independent matcher in the same state, with the same history."""

    def reset(self) -> None:
        """Back to the beginning, with no history."""

    def fill_next_token_bitmask(self, bitmask: object, index: int = 0) -> bool:
        """
        Write the row of a bitmask: bit i of word w is 1 if token 32 w + i is allowed. False if all of them are.
        """

    def fill_by_trial(self, bitmask: object, index: int = 0) -> None:
        """
        The row that fill_next_token_bitmask is to write, by trying to accept every token: slow, for tests.
        """

    def allowed_tokens(self) -> list[int]:
        """The tokens that are allowed now."""

    def find_jump_forward_bytes(self) -> bytes:
        """
        The bytes that must follow, up to where there is a choice or the text is complete; no more than 65,536 at once.
        """

    def find_jump_forward_string(self) -> str:
        """The longest start of the bytes that must follow that is text."""

    def shortest_completion(self) -> bytes:
        """
        A shortest text that completes the text so far, read byte by byte.

        A token that the grammar asks for by its id is no text: a completion passes through none. GrammarError where none completes without
        one, LimitError where the text is too long to be written, or values that must differ leave too many ways to look at.
        """

    def matching_prefix(self, data: bytes) -> int:
        """How many of these bytes can be accepted from here."""

    def next_bytes(self, data: bytes = ...) -> bytes:
        """
        Which bytes may follow after `data`, sorted; none where `data` is not allowed.
        """

    def rule_names(self, data: bytes = ...) -> list[str]:
        """
        The rules begun and not ended after `data`, innermost first; none where `data` is not allowed.
        """

def fill_draft_bitmasks(matcher: Matcher, draft_token_ids: object, bitmask: object, row: int, parents: object | None = None) -> None:
    """
    Fill `row` with the mask now, and row + i + 1 with the mask after draft token i and those before it.

    `parents[i]` is the draft token before token i, -1 for none; by default the drafts are a chain.
    Rows at and below a refused draft token are all zeros. The matcher stays where it is.
    """

def fill_bitmasks(matchers: object, bitmask: object, rows: object | None = None) -> None:
    """Fill the row of every matcher: `rows[i]`, or i."""

class MatcherRows:
    """
    The matchers of a batch and their rows of a bitmask, `rows[i]` or i, checked once for any number of steps.
    """

    def __init__(self, matchers: object, bitmask: object, rows: object | None = None) -> None: ...
    def take(self, token_ids: object) -> list[int] | None:
        """
        Every matcher accepts its token; the lengths in bytes of their shortest completions then, -1 where there is none.

        None where a matcher refuses its token or runs into a limit: then none has gone on.
        """

class BitmaskFiller:
    """
    Fills bitmasks in a thread of its own while its caller does something else.
    """

    def __init__(self) -> None: ...
    def begin(self, rows: MatcherRows) -> None:
        """
        Begin to fill these rows. Until `end`, leave the matchers as they are and the rows unread.
        """

    def end(self) -> None:
        """Wait until the rows are filled; what went wrong is raised here."""

def completion_lengths(matchers: object) -> list[int]:
    """
    The length in bytes of what `shortest_completion` gives for every matcher, -1 where it raises an error.
    """

def mask_logits(logits: object, bitmask: object, forbidden: int, rows: Sequence[int] | None = None) -> None:
    """
    Replace the logits that a bitmask forbids by `forbidden`, given as the bits of a logit; rows of both by the same index.
    """

def best_tokens(logits: object, bitmask: object | None, rows: Sequence[int] | None = None) -> list[int]:
    """
    The token with the largest logit in each row, float32, of those that the bitmask allows if there is one; -1 where it allows none.
    """
