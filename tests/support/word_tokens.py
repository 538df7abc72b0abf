"""A byte-level tokenizer in which the token of a text depends on the token before, as in those of Llama 3, Qwen and GPT-4.

Their pattern takes one character before a word along, so `.name` is one token by itself, but behind `[` it is `.` and `name`.
"""

from __future__ import annotations

from typing import Any

import tokenizers
import transformers
from tokenizers import decoders, models, pre_tokenizers

PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
MERGES = [("a", "m"), ("n", "am"), ("nam", "e"), (".", "name"), ("i", "s"), ("Ġ", "is")]


def load() -> Any:
    """The tokenizer, with 256 bytes, the joined pieces, and a token for the end."""
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(left + right for left, right in MERGES)]
    made = tokenizers.Tokenizer(models.BPE({piece: token for token, piece in enumerate(pieces)}, MERGES))
    split = pre_tokenizers.Split(tokenizers.Regex(PATTERN), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>")
