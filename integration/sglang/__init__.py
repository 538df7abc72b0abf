"""stackmask as a grammar backend of SGLang: `python -m sglang.launch_server --grammar-backend stackmask ...`.

SGLang finds `register` through the entry point group `sglang.srt.plugins` and calls it in every process; it patches nothing
but the n-gram proposer, by SGLang's own hooks, where a server speculates by it.
docs/sglang.md lists the enforced and refused constraints, and measurements.

    plugin          which SGLang this was tested with, and telling it that there is a backend
    backend         grammars out of what requests ask for, and SGLang's wrapper for reasoning around them
    grammar         one request's place in a grammar, and masks
    grammar_table   the grammars that are kept
    answer_frames   the structural tags that SGLang makes
    drafts          forced text as drafts of n-gram speculation

Importing this package imports nothing of SGLang.
"""

from .plugin import IncompatibleVersionError, register

__all__ = ["IncompatibleVersionError", "register"]
