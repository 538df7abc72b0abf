"""The engine that runs grammars: the compiled kernel, or the reference engine where the environment asks for it.

STACKMASK_KERNEL=python selects the reference engine, which needs no compiler and is far slower. Unset or empty it means the kernel: a
missing one is an error, but for a package that was installed without it (`STACKMASK_KERNEL=python pip install .`), which warns once.
Any other value is an error. Type checkers see the reference engine, whose interface is the kernel's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# ruff: noqa: F403 - the names are those of the engine: `__all__` of the reference engine, every public name of the kernel


def _is_pure() -> bool:
    """Whether the package was installed without its kernel."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return "Root-Is-Purelib: true" in (distribution("stackmask").read_text("WHEEL") or "")
    except PackageNotFoundError:
        return False


_ASKED = os.environ.get("STACKMASK_KERNEL", "")
if _ASKED not in ("", "python"):
    raise ImportError(
        f"STACKMASK_KERNEL is {_ASKED!r}; it can be 'python', for the slow reference engine, or unset, for the compiled kernel"
    )

if TYPE_CHECKING or _ASKED == "python":
    from .reference import *
else:
    try:
        from ._kernel import *
    except ImportError as error:
        if not _is_pure():
            raise ImportError(
                "the compiled kernel stackmask.pda._kernel cannot be imported: "
                f"{error}. Build it with `pip install .` in the source tree (a C++20 compiler is needed), "
                "or set STACKMASK_KERNEL=python to use the slow reference engine."
            ) from error
        import warnings

        from .exceptions import StackmaskWarning
        from .reference import *

        warnings.warn(
            "stackmask was installed without its compiled kernel and runs the reference engine, which is far slower; "
            "set STACKMASK_KERNEL=python to confirm this",
            StackmaskWarning,
            stacklevel=2,
        )
