"""The kernel that XGrammar compiles with torch: the one for logits on any device."""

from .apply_token_bitmask_inplace_torch import apply_token_bitmask_inplace_torch as apply_token_bitmask_inplace_torch_compile

__all__ = ["apply_token_bitmask_inplace_torch_compile"]
