"""The reference engine: the specification of the kernel in plain Python, with the same names.

It tries every token of the vocabulary for every mask, and is slower than the kernel by orders of magnitude.

    spelling       a range of code points as bytes
    program        the expressions of a grammar as small NFAs
    columns        items, stack nodes and columns: the data of the chart
    earley         Earley's algorithm over the program, byte by byte: the chart
    finite         the states from which infinitely many texts can be read
    json_values    the JSON texts that spell the same value
    unique         the chart of a program with unique values
    shortest       a shortest text that completes a column
    bitmasks       bitmasks as arrays, and logits
    matcher        vocabulary, grammar and matcher, as the kernel has them
    batch          several matchers at once

>>> from stackmask.pda.choice import choice_grammar
>>> trie = TokenTrie([b"y", b"yes", b"no", None], 4)
>>> grammar = KernelGrammar(trie, choice_grammar(["yes", "no"]), states=1000, stack_depth=100, memory=1 << 20, seconds=1.0)
>>> Matcher(grammar, [3]).allowed_tokens()
[0, 1, 2]
"""

from .batch import BitmaskFiller, MatcherRows, completion_lengths, fill_bitmasks, fill_draft_bitmasks
from .bitmasks import best_tokens, mask_logits
from .matcher import KernelGrammar, Matcher, TokenTrie, pack_grammar

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
