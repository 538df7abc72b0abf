"""
The compiled engine: grammars run as pushdown automata over a trie of tokens.
"""

from collections.abc import Sequence
from typing import Self

class TokenTrie:
    """
    The bytes of every token, as a trie. An id with None or with no bytes is a token without text.

    All grammars share its tables: sets of nodes, which are kept and take at most set_bytes, and tables of classes of characters,
    which are dropped if they are not used and take at most class_bytes.
    The thresholds are sizes from which the kernel changes its strategy. Masks do not depend on them; tests change them.
    """

    def __init__(
        self, tokens: object, size: int, *, set_bytes: int = 67108864, class_bytes: int = 67108864, thresholds: object | None = None
    ) -> None: ...
    @property
    def thresholds(self) -> dict[str, int]:
        """The sizes from which the kernel changes its strategy."""

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
    A grammar, packed or not, prepared for one vocabulary. Any number of matchers and threads share it.
    """

    def __init__(
        self, trie: TokenTrie, grammar: object, *, states: int, stack_depth: int, memory: int, seconds: float, step_work: int = 2000000
    ) -> None: ...
    def warm_up(self) -> None:
        """
        Build in advance what the first request needs: the first mask and the length of a completion.

        On Linux the thread that does this drops its priority after 20 ms.
        """

    @property
    def memory(self) -> int:
        """The bytes that the lazily built tables take."""

    @property
    def has_temperature(self) -> bool:
        """Whether some part of the text has a temperature."""

    @property
    def statistics(self) -> dict[str, int]:
        """
        Counts of built objects and of the strategies used, for tests and benchmarks.
        """

def pack_grammar(grammar: object) -> bytes:
    """
    The grammar as bytes, which a KernelGrammar takes instead of it in a process of the same version on the same machine.
    """

class Matcher:
    """
    The text of one request so far, and the tokens that may follow it. Two threads must not use it at once.
    """

    def __init__(self, grammar: KernelGrammar, stop_token_ids: object) -> None: ...
    def __repr__(self) -> str: ...
    @property
    def num_accepted(self) -> int:
        """The number of steps that rollback can undo."""

    @property
    def temperature(self) -> float | None:
        """
        The temperature at which to sample the next token, the highest if there are several; None if the grammar sets none.
        """

    @property
    def taken(self) -> list[int | bytes]:
        """
        The accepted ids and texts, without stop tokens that the grammar does not require; empty for a grammar without CAPTURE.
        """

    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""

    def is_completed(self) -> bool:
        """Whether the text may end here, so that every stop token is allowed."""

    def accept_token(self, token_id: int) -> bool:
        """
        Accept a token and return True; return False and change nothing if it is not allowed.
        """

    def accept_bytes(self, data: bytes) -> bool:
        """
        Accept a text as one step and return True; return False and change nothing if it is not allowed.
        """

    def validate_tokens(self, token_ids: object) -> int:
        """
        The number of these tokens that can be accepted one after the other. Accepts none of them.
        """

    def rollback(self, n: int) -> None:
        """Undo the last n steps."""

    def fork(self) -> Self:
        """An independent matcher in the same state, with the same history."""

    def reset(self) -> None:
        """Return to the beginning of the text and forget the history."""

    def fill_next_token_bitmask(self, bitmask: object, index: int = 0) -> bool:
        """
        Write one row of a bitmask: bit i of word w is 1 if token 32 w + i is allowed. Return False if every token is allowed.
        """

    def fill_by_trial(self, bitmask: object, index: int = 0) -> None:
        """
        Write the same row as fill_next_token_bitmask, by trying to accept every token. Slow; the oracle of the tests.
        """

    def allowed_tokens(self) -> list[int]:
        """The ids of the tokens that are allowed now, ascending."""

    def find_jump_forward_bytes(self) -> bytes:
        """
        The bytes that must follow, up to a choice or the end of the text; at most 65,536 at once.
        """

    def find_jump_forward_string(self) -> str:
        """
        The bytes that must follow, as text, up to the first that are not UTF-8.
        """

    def shortest_completion(self) -> bytes:
        """
        A shortest text that completes the text so far.

        A completion has no token that the grammar requires by its id. Raises GrammarError if every completion needs such a token,
        and LimitError if the completion is too long or values that must differ leave too many candidates.
        """

    def matching_prefix(self, data: bytes) -> int:
        """
        The number of these bytes, from the first on, that can be accepted. Accepts none of them.
        """

    def next_bytes(self, data: bytes = ...) -> bytes:
        """
        The bytes that may follow `data`, sorted; empty if `data` is not allowed.
        """

    def rule_names(self, data: bytes = ...) -> list[str]:
        """
        The names of the rules that are open after `data`, innermost first; empty if `data` is not allowed.
        """

def fill_draft_bitmasks(matcher: Matcher, draft_token_ids: object, bitmask: object, row: int, parents: object | None = None) -> None:
    """
    Fill `row` with the mask now, and row + i + 1 with the mask after draft token i and those before it.

    `parents[i]` is the draft token before token i, -1 for none; by default the drafts are a chain.
    Rows at and below a refused draft token are all zeros. The matcher does not change.
    """

def fill_bitmasks(matchers: object, bitmask: object, rows: object | None = None) -> None:
    """Fill a row for each matcher: row `rows[i]` for matcher i, or row i."""

class MatcherRows:
    """
    A batch of matchers and their rows of a bitmask, `rows[i]` or i, checked once for any number of steps.
    """

    def __init__(self, matchers: object, bitmask: object, rows: object | None = None) -> None: ...
    def take(self, token_ids: object) -> list[int] | None:
        """
        Accept one token for each matcher, all or nothing. Return the byte lengths of their shortest completions, -1 for none.

        Return None, with every matcher unchanged, if one refuses its token or exceeds a limit.
        """

class BitmaskFiller:
    """Fills bitmasks in a separate thread while its caller does other work."""

    def __init__(self) -> None: ...
    def begin(self, rows: MatcherRows) -> None:
        """
        Begin to fill these rows. Do not change the matchers or read the rows until `end` returns.
        """

    def end(self) -> None:
        """
        Wait until the rows are filled, and raise the error of the first row that has one.
        """

def completion_lengths(matchers: object) -> list[int]:
    """
    For each matcher the length in bytes of its `shortest_completion`, -1 if that raises an error.
    """

def mask_logits(logits: object, bitmask: object, forbidden: int, rows: Sequence[int] | None = None) -> None:
    """
    Replace the logits that a bitmask forbids by `forbidden`, given as the bits of a logit; rows of both by the same index.
    """

def best_tokens(logits: object, bitmask: object | None, rows: Sequence[int] | None = None) -> list[int]:
    """
    The token with the largest logit in each row, float32, of those that the bitmask allows if there is one; -1 where it allows none.
    """
