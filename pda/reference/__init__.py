"""The reference engine: the specification of the kernel in plain Python, with the same names."""

from .matcher import (
    BitmaskFiller,
    KernelGrammar,
    Matcher,
    MatcherRows,
    TokenTrie,
    best_tokens,
    completion_lengths,
    fill_bitmasks,
    fill_draft_bitmasks,
    mask_logits,
    pack_grammar,
)

__all__ = [
    "BitmaskFiller",
    "KernelGrammar",
    "Matcher",
    "MatcherRows",
    "TokenTrie",
    "best_tokens",
    "completion_lengths",
    "fill_bitmasks",
    "fill_draft_bitmasks",
    "mask_logits",
    "pack_grammar",
]
