"""Random grammars and vocabularies as hypothesis draws them: what all property tests draw from. `generators` writes the grammars."""

from __future__ import annotations

from hypothesis import strategies as st
from support.generators import Features, random_grammar
from support.tokens import BROKEN, GROUPS, JSON_ENDS, LONG, PUNCTUATION, VALUES, WHOLE, WORDS

from stackmask.pda.grammar import Grammar

ANY = Features()
# What real tokenizers hold few of: the end of a string behind punctuation, ASCII joined with whole characters and with broken ones.
SHAPES = (
    (WORDS, PUNCTUATION, JSON_ENDS),
    (PUNCTUATION, JSON_ENDS, VALUES),
    (VALUES, VALUES, JSON_ENDS),
    (WORDS + PUNCTUATION, WHOLE, BROKEN),
    (BROKEN, WORDS + WHOLE, BROKEN),
)


@st.composite
def vocabularies(draw: st.DrawFn, *, special: int = 3) -> list[bytes | None]:
    """Tokens: bytes, mostly all that matter, pieces joined, some equal to others, a long one, and at the end ids without text."""
    piece = st.sampled_from(GROUPS).flatmap(st.sampled_from)
    shaped = st.sampled_from(SHAPES).flatmap(lambda shape: st.tuples(*map(st.sampled_from, shape))).map(b"".join)
    joined = st.lists(piece, min_size=1, max_size=4).map(b"".join)
    tokens: list[bytes | None] = list(draw(st.lists(joined | shaped | st.binary(min_size=1, max_size=3), min_size=5, max_size=60)))
    tokens += draw(st.lists(st.builds(bytes.__mul__, st.sampled_from(LONG), st.sampled_from((3, 17, 40))), max_size=2))
    single = [bytes((byte,)) for byte in b'ab1"{}[],:tz\\']
    tokens += single if draw(st.integers(0, 3)) else draw(st.lists(st.sampled_from(single), max_size=5))
    return tokens + [None] * special


@st.composite
def grammars(draw: st.DrawFn, features: Features = ANY, *, vocabulary: int = 8) -> Grammar:
    """A random grammar; `vocabulary` bounds the ids that its TOKENS name."""
    return random_grammar(draw(st.randoms(use_true_random=False)), features, vocabulary=vocabulary)
