"""A harness of stackmask for Bowtie (https://bowtie.report), which compares implementations of JSON Schema on the official suite.

Bowtie writes a command of JSON a line to standard input, and reads an answer a line from standard output: `start`, `dialect`, `run` and
`stop`. A `run` has a schema with instances, and with documents by their URIs.

An instance is valid where its text, written compactly, is a text of the schema's grammar. Keys are taken in any order.
A schema that stackmask refuses to compile is skipped, with its message: there is no output for it, and never a wrong one.
`format` is an annotation, as the dialects have it by default.
"""

from __future__ import annotations

import itertools
import json
import platform
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator
from decimal import Decimal
from importlib.metadata import version
from typing import Any, TextIO

import stackmask

PROTOCOL = 1
DIALECTS = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
]
HOME = "https://pypi.org/project/stackmask/"
END = 256
OPTIONS: Any = {"property_order": "any", "format": "annotate", "whitespace": "compact"}
MOST_TEXTS = 200
"""Orders of keys that are tried for an instance, and for each value in it."""
Json = dict[str, Any]


class Harness:
    """The answers to Bowtie's commands. The vocabulary is that of single bytes, over which any text is judged."""

    def __init__(self) -> None:
        tokens = [*(bytes([byte]) for byte in range(END)), None]
        self._compiler = stackmask.Compiler(stackmask.Vocabulary.from_bytes(tokens, stop_token_ids=[END]))
        self._dialect: str | None = None
        self._started = False

    def answer(self, command: Json) -> Json | None:
        """The answer to a command; None to `stop`. ValueError for anything else, or before `start`."""
        name = command["cmd"]
        if name == "start":
            return self.start(command["version"])
        if not self._started:
            raise ValueError(f"{name} before start")
        if name == "dialect":
            self._dialect = command["dialect"]
            return {"ok": self._dialect in DIALECTS}
        if name == "run":
            return {"seq": command["seq"], **self.run(command["case"])}
        if name == "stop":
            return None
        raise ValueError(f"unknown command {name!r}")

    def start(self, protocol: int) -> Json:
        """What is tested."""
        if protocol != PROTOCOL:
            raise ValueError(f"version {protocol} of the protocol; this harness speaks version {PROTOCOL}")
        self._started = True
        implementation = {
            "language": "python",
            "name": "stackmask",
            "version": version("stackmask"),
            "homepage": HOME,
            "documentation": HOME,
            "issues": HOME,
            "source": HOME,
            "dialects": DIALECTS,
            "os": platform.system(),
            "os_version": platform.release(),
            "language_version": platform.python_version(),
        }
        return {"version": PROTOCOL, "implementation": implementation}

    def run(self, case: Json) -> Json:
        """A verdict on each instance, or the reason why there is none."""
        schema, documents = case["schema"], case.get("registry") or {}
        if isinstance(schema, dict) and self._dialect is not None:
            schema = {"$schema": self._dialect, **schema}
        instances = [test["instance"] for test in case["tests"]]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", stackmask.StackmaskWarning)
                grammar = self._compiler.json_schema(schema, documents=documents, **OPTIONS)
            return {"results": [{"valid": is_valid(grammar, instance)} for instance in instances]}
        except stackmask.UnsatisfiableError:
            return {"results": [{"valid": False} for _ in instances]}
        except stackmask.StackmaskError as error:
            return {"skipped": True, "message": str(error)}
        except Exception:
            return {"errored": True, "context": {"traceback": traceback.format_exc()}}


def is_valid(grammar: stackmask.CompiledGrammar, instance: Any) -> bool:
    """Whether the grammar takes a text of the instance. Objects in `const` and `enum` have one order of keys, so all orders are tried."""
    return any(is_text(grammar, text.encode("utf-8", "surrogatepass")) for text in itertools.islice(texts(instance), MOST_TEXTS))


def is_text(grammar: stackmask.CompiledGrammar, data: bytes) -> bool:
    """Whether the grammar takes a text as a whole."""
    matcher = grammar.matcher()
    return matcher.accept_bytes(data) and matcher.is_completed()


def texts(value: Any) -> Iterator[str]:
    """A value as compact JSON, with the keys of its objects in every order; a number is written by its value, so that 1.0 is 1."""
    if isinstance(value, dict):
        for names in itertools.permutations(value):
            for members in combinations(value[name] for name in names):
                yield (
                    "{"
                    + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{member}" for name, member in zip(names, members, strict=True))
                    + "}"
                )
    elif isinstance(value, list):
        for items in combinations(value):
            yield "[" + ",".join(items) + "]"
    elif isinstance(value, float) and value.is_integer():
        yield str(int(Decimal(repr(value))))
    else:
        yield json.dumps(value, ensure_ascii=False)


def combinations(values: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    """A text of each value, in every combination."""
    return itertools.product(*(tuple(itertools.islice(texts(value), MOST_TEXTS)) for value in values))


def main(commands: TextIO = sys.stdin, answers: TextIO = sys.stdout) -> None:
    """Answer commands until `stop`."""
    harness = Harness()
    for line in commands:
        answer = harness.answer(json.loads(line))
        if answer is None:
            return
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
