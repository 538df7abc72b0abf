"""The engine of this repository for MaskBench's own runner, so that others can measure it beside theirs with their code.

    git clone https://github.com/guidance-ai/jsonschemabench
    PYTHONPATH=jsonschemabench/maskbench:. python -m benchmarks.maskbench_engine --output results jsonschemabench/maskbench/data

runs `maskbench.runner` with this engine, in one process; all arguments are the runner's.
Its results, a file for each schema, go to `results`, and `scripts/maskbench_results.py` of that repository makes tables of them.
To run it in many processes by `scripts/run_maskbench.py`, copy this file to `maskbench/maskbench/stackmask_engine.py` there, and let
`get_engine` in `runner.py` return a `StackmaskEngine` for an option of your choice.

Each schema is compiled by a compiler of its own, whose cache is empty. The blanks that JSON printers write are allowed, as by default.
The runner never asks for the stop token: a number or an object that ends too early counts as accepted, for every engine.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any


class StackmaskEngine:
    """What `maskbench.engine.Engine` asks of an engine; the runner sets the attributes below before it calls `init`."""

    tokenizer: Any
    tokenizer_model_id: str
    multi: bool = False
    debug: bool = False

    def get_id(self) -> str:
        """The name of the folder of results."""
        return "stackmask"

    def get_name(self) -> str:
        """The name in tables."""
        return "stackmask"

    def get_module(self) -> str:
        """The distribution whose version is measured."""
        return "stackmask"

    def get_version(self) -> str:
        """The version."""
        return version(self.get_module())

    def init(self) -> None:
        """Load the vocabulary, once."""
        import stackmask

        self._stackmask = stackmask
        self._vocabulary = stackmask.Vocabulary.from_transformers(self.tokenizer)
        self._bitmask = stackmask.allocate_token_bitmask(1, self._vocabulary.size)

    def compile_grammar(self, schema: Any) -> None:
        """Compile a schema, a value of JSON; StackmaskError where it is refused."""
        self._grammar = self._stackmask.Compiler(self._vocabulary).json_schema(schema)
        self.reset()

    def reset(self) -> None:
        """Begin an instance."""
        self._matcher = self._grammar.matcher()

    def compute_mask(self) -> None:
        """Fill the mask of the next token."""
        self._matcher.fill_next_token_bitmask(self._bitmask)

    def commit_token(self, token: int) -> bool:
        """Take a token; whether the grammar allows it."""
        accepted: bool = self._matcher.accept_token(token)
        return accepted

    def log_single(self, text: str) -> None:
        """What the runner says of a schema, where it runs in one process."""
        if not self.multi:
            print(text, file=sys.stderr)


def engine(options: Any) -> StackmaskEngine:
    """The engine for the runner's options, in the place of its `get_engine`."""
    found = StackmaskEngine()
    found.multi, found.debug, found.tokenizer_model_id = options.multi, options.debug, options.tokenizer
    return found


def main() -> int:
    """Run MaskBench's runner, which reads the command line."""
    try:
        from maskbench import runner  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        print("MaskBench's runner is not on PYTHONPATH: see the docstring of this file", file=sys.stderr)
        return 2
    runner.get_engine = engine
    runner.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
