"""The command line: `stackmask generate`, `stackmask check` and more.

    command                          the common parts of commands: table entry, exit codes, errors
    specification                    the arguments that name a specification
    tokenizer                        a tokenizer by its file
    loading                          a line while a model loads
    generate, check, inspect, export, serve, batch
                                     a command each
    bench, benchmark                 a command, and its measurements
    entry                            the table of commands, and main

>>> main(["check", "--regex", "[0-9]+", "--quiet"])
0
"""

from .entry import main

__all__ = [
    "main",
]
