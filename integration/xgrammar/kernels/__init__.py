"""The names of XGrammar's kernels: a module for each, with a function of the same name. All are one function here.

    from stackmask.integration.xgrammar.kernels.apply_token_bitmask_inplace_cpu import apply_token_bitmask_inplace_cpu

The others are apply_token_bitmask_inplace_cuda, apply_token_bitmask_inplace_torch, apply_token_bitmask_inplace_torch_compile,
apply_token_bitmask_inplace_triton and apply_token_bitmask_mlx, which needs mlx.
Each masks logits in place, on the device where they are; those of one device refuse logits that are elsewhere.
"""

from . import (
    apply_token_bitmask_inplace_cpu,
    apply_token_bitmask_inplace_cuda,
    apply_token_bitmask_inplace_torch,
    apply_token_bitmask_inplace_torch_compile,
    apply_token_bitmask_inplace_triton,
)

__all__ = [
    "apply_token_bitmask_inplace_cpu",
    "apply_token_bitmask_inplace_cuda",
    "apply_token_bitmask_inplace_torch",
    "apply_token_bitmask_inplace_torch_compile",
    "apply_token_bitmask_inplace_triton",
]
