"""Functions for tests of engines."""

from __future__ import annotations

import torch

from .bitmask import bitmask_dtype
from .compiler import GrammarCompiler
from .grammar import Grammar
from .matcher import GrammarMatcher
from .tokenizer_info import TokenizerInfo


def bitmask_to_bool_mask(bit_mask: torch.Tensor, vocab_size: int | None = None) -> torch.Tensor:
    """The bits as booleans."""
    bits = bit_mask.unsqueeze(-1).bitwise_right_shift(torch.arange(32, dtype=bitmask_dtype, device=bit_mask.device)).bitwise_and(1)
    return bits.flatten(-2).bool()[..., :vocab_size]


def bool_mask_to_bitmask(bool_mask: torch.Tensor) -> torch.Tensor:
    """Booleans as bits; the last word is filled up with zeros."""
    padded = torch.nn.functional.pad(bool_mask.to(torch.int64), (0, -bool_mask.shape[-1] % 32))
    words = (padded.reshape(*padded.shape[:-1], -1, 32) << torch.arange(32, device=bool_mask.device)).sum(-1)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(bitmask_dtype)


def _is_grammar_accept_string(grammar: Grammar | str, input_str: str, *, require_termination: bool = True) -> bool:
    """Whether a text is one of the grammar's."""
    matcher = _get_matcher_from_grammar(grammar)
    return matcher.accept_string(input_str) and (not require_termination or matcher.is_completed())


def _get_masked_tokens_from_bitmask(bitmask: torch.Tensor, vocab_size: int, index: int = 0) -> list[int]:
    """The tokens that a row forbids."""
    return torch.where(~bitmask_to_bool_mask(bitmask, vocab_size)[index])[0].tolist()


def _is_single_token_bitmask(bitmask: torch.Tensor, vocab_size: int, index: int = 0) -> tuple[bool, int]:
    """Whether a row allows one token only, and which."""
    allowed = torch.where(bitmask_to_bool_mask(bitmask, vocab_size)[index])[0].tolist()
    return (True, allowed[0]) if len(allowed) == 1 else (False, -1)


def _get_matcher_from_grammar_and_tokenizer_info(
    grammar: Grammar | str, tokenizer_info: TokenizerInfo | None = None, **options: object
) -> GrammarMatcher:
    """A matcher, for a vocabulary of bytes where none is given."""
    if tokenizer_info is None:
        tokenizer_info = TokenizerInfo([*(bytes([byte]) for byte in range(256)), b""], stop_token_ids=256)
    return GrammarMatcher(GrammarCompiler(tokenizer_info).compile_grammar(grammar), **options)  # type: ignore[arg-type]


def _get_matcher_from_grammar(grammar: Grammar | str, **options: object) -> GrammarMatcher:
    """A matcher over bytes."""
    return _get_matcher_from_grammar_and_tokenizer_info(grammar, None, **options)
