"""A matcher that follows a list of tokens, whichever way the list goes.

Logits processors learn nothing but the tokens so far. Between two calls these grow by one, as a rule; they also get shorter (drafts that
were refused), change at their end, or are those of another row. A follower compares them with what its matcher has accepted, takes back
what differs and accepts the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..pda.matcher import Matcher


@dataclass(slots=True)
class Follower:
    """A matcher, the tokens that it has accepted, and whether the text is still one that the grammar generates."""

    matcher: Matcher
    tokens: list[int] = field(default_factory=list)
    fits: bool = True

    def fork(self) -> Follower:
        """Another one in the same state."""
        return Follower(self.matcher.fork(), self.tokens.copy())

    def follow(self, tokens: list[int]) -> None:
        """Go to the state after these tokens."""
        self.go_to(tokens, common_prefix(self.tokens, tokens))

    def go_to(self, tokens: list[int], common: int) -> None:
        """The same where the first `common` tokens are known to be accepted already; tokens after a stop token are padding."""
        self.matcher.rollback(len(self.tokens) - common)
        del self.tokens[common:]
        size = self.matcher.vocabulary.size
        for token in tokens[common:]:
            if self.matcher.is_terminated() or not 0 <= token < size or not self.matcher.accept_token(token):
                break
            self.tokens.append(token)
        self.fits = len(self.tokens) == len(tokens) or self.matcher.is_terminated()


def common_prefix(left: list[int], right: list[int]) -> int:
    """The length of the common beginning of two lists, by halving: slices compare in C.

    >>> common_prefix([1, 2, 3], [1, 2, 4, 5])
    2
    """
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low
