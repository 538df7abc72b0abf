"""The engine that runs grammars: the compiled kernel, or the reference engine where the environment asks for it.

STACKMASK_KERNEL=python selects the reference engine, which needs no compiler and is far slower.
Any other value, or none, means the kernel: a missing one is an error, never a silent fallback.
Type checkers see the reference engine, whose interface is the kernel's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# ruff: noqa: F403 - the names are those of the engine: `__all__` of the reference engine, every public name of the kernel

if TYPE_CHECKING or os.environ.get("STACKMASK_KERNEL") == "python":
    from .reference import *
else:
    try:
        from ._kernel import *
    except ImportError as error:
        raise ImportError(
            "the compiled kernel stackmask.pda._kernel cannot be imported: "
            f"{error}. Build it with `pip install .` in the source tree (a C++20 compiler is needed), "
            "or set STACKMASK_KERNEL=python to use the slow reference engine."
        ) from error
