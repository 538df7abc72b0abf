"""Keeps the documentation current.

    python scripts/documentation.py outputs docs/tutorial.md ...   # put the real output into the blocks that show some
    python scripts/documentation.py reference                      # make the pages of docs/reference

What a block shows is what it prints: write `#> ?`, or `?` below a command, and run this. `tests/docs` holds every page to it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in the tests, and before torch is imported
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import reference_pages
from support.blocks import Session, written
from support.server import Server


def main() -> None:
    """Run the command that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    outputs = commands.add_parser("outputs", help="put real output into pages")
    outputs.add_argument("pages", nargs="+", type=Path)
    outputs.set_defaults(run=write_outputs)
    reference = commands.add_parser("reference", help="make the reference")
    reference.set_defaults(run=write_reference)
    arguments = parser.parse_args()
    arguments.run(arguments)


def write_reference(arguments: argparse.Namespace) -> None:
    """Write the pages that are made of the code."""
    for path, text in reference_pages.pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def write_outputs(arguments: argparse.Namespace) -> None:
    """Run the blocks of some pages and write their output."""
    servers: list[Server] = []

    def server() -> str:
        if not servers:
            servers.append(Server())
        return servers[0].url

    try:
        with tempfile.TemporaryDirectory() as folder:
            for page in arguments.pages:
                page.write_text(written(page.resolve(), Session(server, Path(folder))), encoding="utf-8")
    finally:
        for started in servers:
            started.stop()


if __name__ == "__main__":
    main()
