"""The options of a Lark rule, in brackets behind its name; as llguidance writes them.

    lazy                          the shortest match; the rule's body is read as a terminal's
    suffix=";"   stop=/;+/        likewise, up to and with this ending: a literal, a regular expression or a terminal
    stop=""                       all of the body's texts, which is read as a terminal's
    max_chars=20                  its text, without an ending, has at most 20 characters; the body is read as a terminal's
    stop_capture="end"            the text of that ending can be asked for by this name
    max_tokens=20                 the text ends after 20 tokens, or where the rule may first end at the end of a later token
    temperature=0.5               the temperature at which its tokens are sampled: `matcher.temperature`
    capture   capture="name"      its text can be asked for: `matcher.get_captures()`; without its ending, where it has one

llguidance allows lazy, suffix, stop, max_tokens and temperature for rules that are terminals only; here the last two go with any rule.
max_chars is XGrammar's, which reads on where the text cannot end in time; here there are no such texts.

It differs in two more things.
It removes the text of `stop` from the output. A library that only says which tokens may come next cannot do that: here `stop` is `suffix`.
And it ends a text after `max_tokens` tokens even where the grammar does not let it end, so the output may be outside of the grammar. Here a
text ends only where the grammar lets it, and its ending still follows, whose tokens do not count.
With `stop=""` it takes the model's end token for the end of the rule, and hides it. Here the rule ends by what follows, or with all text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final

from lark import Token

from ..automata import dfa, nfa
from ..automata.dfa import Dfa
from ..budget import Budget
from ..ebnf.difference import shortest_texts
from ..exceptions import LarkError
from ..grammar import GrammarBuilder, NodeId

_MOST: Final = (1 << 31) - 1
ErrorAt = Callable[[str, Token], LarkError]


@dataclass(frozen=True, slots=True)
class Options:
    """The options in the brackets; -1 is no bound, and `capture` is empty for the rule's own name."""

    lazy: bool = False
    ending: Token | None = None
    stop_capture: str | None = None
    to_end: bool = False
    max_tokens: int = -1
    max_chars: int = -1
    temperature: float | None = None
    capture: str | None = None

    @property
    def is_lazy(self) -> bool:
        """Whether the rule ends as soon as it can."""
        return self.lazy or self.ending is not None

    @property
    def is_lexeme(self) -> bool:
        """Whether the rule's body is read as a terminal's."""
        return self.is_lazy or self.to_end or self.max_chars >= 0

    @property
    def parts_ending(self) -> bool:
        """Whether the ending must be kept apart from the text before it."""
        bounded = self.max_tokens >= 0 or self.max_chars >= 0
        return self.ending is not None and (bounded or self.capture is not None or self.stop_capture is not None)

    def around(self, builder: GrammarBuilder, body: NodeId, name: str, ending: NodeId | None = None) -> NodeId:
        """The body of a rule of this name and its ending, within the options."""
        node = builder.limit(body, tokens=self.max_tokens)
        if self.capture is not None:
            node = builder.capture(node, self.capture or name)
        if ending is not None:
            node = builder.seq(node, ending if self.stop_capture is None else builder.capture(ending, self.stop_capture))
        return node if self.temperature is None else builder.temperature(node, self.temperature)


def read_options(written: Mapping[str, Token | None], head: Token, error: ErrorAt) -> Options:
    """The options behind the name `head` of a rule."""
    for key in written:
        if key not in _KNOWN:
            raise error(f"there is no option `{key}`; available: {', '.join(_KNOWN)}", head)
    if "suffix" in written and "stop" in written:
        raise error("suffix and stop are two names for one thing; a rule has one of them", head)
    key = "stop" if "stop" in written else "suffix"
    ending = written.get(key)
    if key in written and (ending is None or ending.type == "NUMBER"):
        raise error(f'{key} takes a value, as in {key}=";"', head)
    empty = ending is not None and ending.type == "STRING" and ending[:2] == '""'
    if empty and key == "suffix":
        raise error('suffix="" is not an ending; stop="" asks for the end of all text', head)
    if empty and "lazy" in written:
        raise error('lazy asks for the shortest text, and stop="" for all text up to the end', head)
    if "stop_capture" in written and (ending is None or empty):
        raise error("stop_capture is for rules with suffix or stop", head)
    if written.get("lazy") is not None:
        raise error("lazy takes no value", head)
    return Options(
        lazy="lazy" in written,
        ending=None if empty else ending,
        to_end=empty,
        stop_capture=_name(written, "stop_capture", head, error) if "stop_capture" in written else None,
        max_tokens=_count("max_tokens", written, head, error, least=1),
        max_chars=_count("max_chars", written, head, error, least=0),
        temperature=_temperature(written["temperature"], head, error) if "temperature" in written else None,
        capture=(_name(written, "capture", head, error) if written["capture"] is not None else "") if "capture" in written else None,
    )


def _name(written: Mapping[str, Token | None], key: str, head: Token, error: ErrorAt) -> str:
    token = written[key]
    if token is None or token.type != "STRING" or len(token) < 3 or token[-1] != '"' or "\\" in token:
        raise error(f'{key} takes a name in quotes, as in {key}="name"', head)
    return str(token[1:-1])


def _count(key: str, written: Mapping[str, Token | None], head: Token, error: ErrorAt, *, least: int) -> int:
    if key not in written:
        return -1
    token = written[key]
    if token is None or not token.isdigit() or len(token) > 10 or not least <= int(token) <= _MOST:
        raise error(f"{key} takes a number from {least} to {_MOST}, as in {key}=20", head)
    return int(token)


def _temperature(token: Token | None, head: Token, error: ErrorAt) -> float:
    if token is None or token.type != "NUMBER" or token[0] == "-" or len(token) > 30 or not isfinite(float(token)):
        raise error("temperature takes a number from 0, as in temperature=0.7", head)
    return float(token)


_KNOWN: Final = ("lazy", "suffix", "stop", "stop_capture", "max_tokens", "max_chars", "temperature", "capture")


def part_ending(lexeme: Dfa, ending: Dfa, budget: Budget) -> tuple[Dfa, Dfa] | None:
    """The texts before their endings and the endings, of shortest texts with an ending; None where these are no pairs of any two.

    >>> from stackmask.pda.automata.dfa import from_strings
    >>> before, end = part_ending(from_strings(["a;", ";"]), from_strings([";", ";;"]), Budget())
    >>> before == from_strings(["a", ""]), end == from_strings([";"])
    (True, True)
    """
    # The states of the lexeme that an ending leads to acceptance: in the product backwards from where both accept.
    width = len(ending.transitions)
    before: dict[int, list[int]] = {}
    todo = [state * width for state in range(len(lexeme.transitions))]
    seen = set(todo)
    for pair in todo:
        state, at = divmod(pair, width)
        for lo, hi, target in lexeme.transitions[state]:
            for low, high, following in ending.transitions[at]:
                if max(lo, low) <= min(hi, high):
                    key = target * width + following
                    before.setdefault(key, []).append(pair)
                    if key not in seen:
                        seen.add(key)
                        todo.append(key)
        budget.check_states(len(todo))
        budget.spend(4)
    reached = [pair for pair in todo if lexeme.accepting[pair // width] and ending.accepting[pair % width]]
    ends = set(reached)
    for pair in reached:
        for previous in before.get(pair, ()):
            if previous not in ends:
                ends.add(previous)
                reached.append(previous)
    accepting = tuple(state * width in ends for state in range(len(lexeme.transitions)))
    text = dfa.minimize(Dfa(lexeme.transitions, accepting), budget=budget)
    end = shortest_texts(ending, budget)
    return (text, end) if nfa.concatenation(text, end, budget=budget) == lexeme else None
