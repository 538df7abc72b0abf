"""Lists of trie nodes at which a state is left: few nodes are sorted by comparisons, many by bits for the nodes of the trie."""

from __future__ import annotations

import itertools
import re
from typing import Final

import pytest
from support.engines import Engine, matcher

from stackmask.pda.ebnf import ebnf_grammar

# Every text of one to four digits, so the last nodes of the trie are in the lists.
TOKENS: Final = [
    *(bytes(text) for length in (1, 2, 3, 4) for text in itertools.product(b"0123456789", repeat=length)),
    *(bytes([letter]) for letter in b"!()az"),
    None,
]
STOP: Final = len(TOKENS) - 1


@pytest.mark.parametrize("digits", ["[0-9]", "[37]", "[5-9]", "[09]"], ids=["all", "two", "last", "ends"])
def test_a_rule_that_ends_in_several_states(kernel: Engine, digits: str) -> None:
    """After one, two and three digits: at 1,110 nodes of 11,110, at 155, or at 14. The lists of the three states become one, in order."""
    # The rule calls itself, so it is not inlined.
    grammar = ebnf_grammar(
        f"root ::= n m\nn ::= {digits} | {digits} {digits} | {digits} {digits} {digits} | '(' n ')'\nm ::= [5-9] | 'a' [0-9]* 'z'"
    )
    at = matcher(kernel, grammar, TOKENS, (STOP,))
    begins = re.compile(rf"\(|(?:{digits}){{1,3}}[5-9]?".encode())
    expected = [token for token, text in enumerate(TOKENS) if text is not None and begins.fullmatch(text)]
    assert at.allowed_tokens() == expected
    for text in (b"(", TOKENS[expected[0]], b")", b"a", b"7", b"z"):
        assert at.accept_token(TOKENS.index(text)), text
        allowed = at.allowed_tokens()
        assert allowed == [token for token in range(len(TOKENS)) if at.validate_tokens([token])], text
