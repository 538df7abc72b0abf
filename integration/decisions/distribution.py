"""A model's distribution over the texts of a grammar, by a walk of their token tree.

    waiting: places by the largest mass that can lie behind them, at first that of the prompt, 1
    while the mass behind the waiting places is above what may be left out:
        take the places with the most, and as many places behind them as fit in a pass
        one pass of the model gives the probabilities after all of them
        tokens that end the text there add their mass to the text, others make new places with theirs

Masses are probabilities of whole answers including their end: exp of a sum of log-probabilities in float64. Each place is evaluated
once, but its ancestors again in each pass, so the number of passes is about the number of places over `PASS_TOKENS`.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any, Final

from ...pda.exceptions import LimitError
from ...pda.vocabulary import Vocabulary
from .tree import Tree

if TYPE_CHECKING:
    from .scorer import BatchScorer, TreeScorer

PASS_TOKENS: Final = 128  # places looked at in one pass, ancestors aside
HEAP: Final = 50  # places that may wait for each that may be looked at, where those with little mass may be left out


@dataclass(frozen=True, slots=True)
class Spelling:
    """One tokenization of a text, without the stop token, and the log of its probability."""

    tokens: tuple[int, ...]
    logprob: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """The probabilities of the texts of a grammar.

    `masses`: the probability that the unconstrained model writes each text as its whole answer. `mass` is their sum, the share of the
    model's answers that the grammar allows. `unexplored` is an upper bound on the missing mass, 0 if the walk evaluated everything.
    `spellings` are the tokenizations of each text; `places` and `forwards` count the evaluated places and the passes of the model.
    """

    masses: dict[bytes, float]
    unexplored: float
    spellings: dict[bytes, list[Spelling]] = field(repr=False)
    places: int = 0
    forwards: int = 0

    @property
    def mass(self) -> float:
        """The probability of all texts together."""
        return math.fsum(self.masses.values())

    @property
    def probabilities(self) -> dict[bytes, float]:
        """The distribution among the texts, which sums to 1, also where the masses themselves are too small for a float."""
        top = max((spelling.logprob for spellings in self.spellings.values() for spelling in spellings), default=-math.inf)
        if top == -math.inf:
            return dict.fromkeys(self.masses, 0.0)
        weights = {text: math.fsum(math.exp(one.logprob - top) for one in spellings) for text, spellings in self.spellings.items()}
        total = math.fsum(weights.values())
        return {text: weight / total for text, weight in weights.items()}

    @property
    def best(self) -> bytes:
        """The most probable text; the first of equals."""
        probabilities = self.probabilities
        return max(probabilities, key=probabilities.__getitem__)

    def best_spelling(self, text: bytes) -> Spelling:
        """The most probable tokenization of a text."""
        return max(self.spellings[text], key=lambda spelling: spelling.logprob)

    def sample(self, generator: random.Random) -> Spelling:
        """A draw from the model's distribution among all tokenizations of the texts."""
        spellings = [spelling for found in self.spellings.values() for spelling in found]
        top = max(spelling.logprob for spelling in spellings)
        sums = list(accumulate(math.exp(spelling.logprob - top) for spelling in spellings))
        return generator.choices(spellings, cum_weights=sums)[0]


class _Place:
    """A place of the tree: its tokens lead here from the prompt; `logprob` is theirs, once it is known."""

    __slots__ = ("children", "logprob", "options", "parent", "place", "token", "tokens")

    def __init__(self, parent: _Place | None, token: int = -1) -> None:
        self.parent = parent
        self.token = token
        self.tokens: tuple[int, ...] = () if parent is None else (*parent.tokens, token)
        self.logprob: float | None = None
        self.place: Any = None
        self.options: tuple[list[int], list[int]] = ([], [])
        self.children: dict[int, _Place] = {}

    def enter(self, tree: Tree) -> None:
        """Find the tokens that follow."""
        self.place = tree.root if self.parent is None else tree.step(self.parent.place, self.token)
        self.options = tree.options(self.place)


def walk(
    scorer: TreeScorer | BatchScorer,
    tree: Tree,
    vocabulary: Vocabulary,
    prompt: Sequence[int],
    *,
    temperature: float = 1.0,
    tolerance: float = 0.0,
    max_places: int = 20_000,
    max_tokens: int | None = None,
) -> Distribution:
    """The distribution of the answers to a prompt.

    `temperature` divides the logits. The walk ends when what it has not looked at is at most `tolerance` times the mass that it found; at 0
    it looks at everything. LimitError where that takes more than `max_places` places, or a text more than `max_tokens` tokens.
    """
    before = scorer.forwards
    spellings: dict[bytes, list[Spelling]] = {}
    order = count()
    root = _Place(None)
    root.logprob = 0.0
    root.enter(tree)
    waiting: list[tuple[float, int, _Place]] = []
    found, places = 0.0, 1

    def look(place: _Place, rows: Any, row: int) -> None:
        """Add up the texts that end at a place, and pass its mass on to the places after it."""
        nonlocal found
        assert place.logprob is not None
        leading, ending = place.options
        logprobs = rows.logprobs(row, [*leading, *ending]) + place.logprob
        for token, logprob in zip(leading, logprobs, strict=False):
            child = place.children.get(token) or _Place(place, token)
            child.logprob = float(logprob)
            if child.logprob > -math.inf and token not in place.children:
                heapq.heappush(waiting, (-child.logprob, next(order), child))
        ends = [float(logprob) for logprob in logprobs[len(leading) :]]
        if ends:
            text = b"".join(vocabulary.token_bytes(token) or b"" for token in place.tokens)
            logprob = _log_sum(ends)
            spellings.setdefault(text, []).append(Spelling(place.tokens, logprob))
            found += math.exp(logprob)

    look(root, scorer.begin(prompt, temperature), 0)
    while waiting:
        left = math.fsum(math.exp(-entry[0]) for entry in waiting)
        if left <= tolerance * found:
            break
        if places + len(waiting) > max_places * (1 if tolerance == 0 else HEAP) or places > max_places:
            raise LimitError(
                f"the texts have more than {max_places} beginnings in tokens; the mass found so far is {found:.3g}, "
                f"and {left:.3g} is left: ask for canonical tokenizations, a tolerance, or fewer and shorter texts"
            )
        taken = _take(waiting, tree, order)
        places += len(taken)
        if max_tokens is not None and any(len(place.tokens) > max_tokens for place in taken):
            raise LimitError(f"a text has more than {max_tokens} tokens, all that the prompt leaves of the model's context")
        tokens, parents, at = _as_tree(taken)
        rows = scorer.after(tokens, parents, temperature)
        for place in taken:  # parents before children
            if place.logprob is not None and place.logprob > -math.inf:
                look(place, rows, at[id(place)])
    left = math.fsum(math.exp(-entry[0]) for entry in waiting)
    masses = {text: math.fsum(math.exp(one.logprob) for one in ways) for text, ways in spellings.items()}
    return Distribution(masses, left, spellings, places, scorer.forwards - before)


def _take(waiting: list[tuple[float, int, _Place]], tree: Tree, order: count[int]) -> list[_Place]:
    """The places for a pass, parents first: those with the most mass, and as many of their descendants as there is room for.

    The masses of descendants are unknown before the pass; they are assumed to be even, which only affects the order.
    """
    taken: list[_Place] = []
    guesses: list[tuple[float, int, _Place]] = []
    while len(taken) < PASS_TOKENS and (waiting or guesses):
        pool = waiting if not guesses or (waiting and waiting[0][0] <= guesses[0][0]) else guesses
        bound, _, place = heapq.heappop(pool)
        place.enter(tree)
        taken.append(place)
        if pool is guesses and place.parent is not None:
            place.parent.children[place.token] = place
        leading, _ = place.options
        if len(taken) + len(leading) <= PASS_TOKENS:  # a guess that finds no room is no child: its parent makes it anew with its mass
            for token in leading:
                heapq.heappush(guesses, (bound + math.log(len(leading) + 1), next(order), _Place(place, token)))
    return taken


def _as_tree(taken: Sequence[_Place]) -> tuple[list[int], list[int], dict[int, int]]:
    """Tokens and parents of a pass: the places and their ancestors; and where each place is in it."""
    at: dict[int, int] = {}
    tokens: list[int] = []
    parents: list[int] = []
    for place in taken:
        path = [place]
        while (parent := path[-1].parent) is not None and parent.parent is not None and id(parent) not in at:
            path.append(parent)
        for one in reversed(path):
            above = one.parent
            at[id(one)] = len(tokens)
            tokens.append(one.token)
            parents.append(-1 if above is None or above.parent is None else at[id(above)])
    return tokens, parents, at


def _log_sum(values: Sequence[float]) -> float:
    """The log of a sum of exponentials."""
    top = max(values)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(value - top) for value in values))
