"""stackmask as a structured-output backend of vLLM: `vllm serve MODEL --structured-outputs-config.backend stackmask`.

vLLM finds `plugin` in the entry point group `vllm.general_plugins` and calls it in every process.
It has no registry of backends, so `register` patches five places of it, once it has checked that they are what they were in the tests.
docs/vllm.md lists the enforced and refused constraints, and measurements.

    backend    Backend and Grammar, which vLLM calls; neither imports vLLM
    beam       the same for offline beam search, where beams are forks
    drafts     forced text as drafts
    patches    the checks and the patches
"""

from __future__ import annotations

import logging

from .backend import Backend, Grammar
from .patches import IncompatibleVersionError, register

__all__ = ["Backend", "Grammar", "IncompatibleVersionError", "plugin", "register"]


def plugin() -> None:
    """`register` for vLLM's plug-in loader: where the versions do not fit, an error in the log, and a vLLM that knows no such backend.

    An installed stackmask that nobody selected must not keep another version of vLLM from starting.
    """
    try:
        register()
    except IncompatibleVersionError as error:
        logging.getLogger("vllm.plugins.stackmask").error("%s", error)
