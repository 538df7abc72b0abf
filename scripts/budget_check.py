"""Answers cut by their budget: every one parses and validates, or was refused at once because it could not fit.

    python scripts/budget_check.py maskbench-dev.jsonl.gz [--schemas 300]

The file has one `schema` a line. It takes some at even distances and sends one request for each, with limits from 20 to 400 tokens, at
temperature 1, to the demo model. The validator is jsonschema, which reads patterns as Python does, drops an empty one and divides floats:
so patterns are translated first, and numbers are decimal. The exit code is 1 if an answer was wrong.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import torch
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY

from stackmask.integration.demo import load_model
from stackmask.integration.engine import Answer, Constraint, Engine, Request, RequestError, Sampling
from stackmask.pda.exceptions import StackmaskError

LEAST, MOST = 20, 400


def in_python(pattern: str) -> str:
    """A pattern with the byte order mark among the blanks, as ECMA-262 has it and Python does not; one that is not empty."""
    parts: list[str] = []
    in_class = False
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        in_class = part == "[" or (in_class and part != "]")
        if part == r"\s":
            part = r"\s\ufeff" if in_class else r"[\s\ufeff]"
        elif part == r"\S" and not in_class:
            part = r"[^\s\ufeff]"
        parts.append(part)
    return "".join(parts) or "^"


def translated(schema: Any) -> Any:
    """A schema with its patterns put into Python's words."""
    if isinstance(schema, list):
        return [translated(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: translated(member) for name, member in schema.items()}
    if isinstance(result.get("pattern"), str):
        result["pattern"] = in_python(result["pattern"])
    if isinstance(result.get("patternProperties"), dict):
        result["patternProperties"] = {in_python(pattern): member for pattern, member in result["patternProperties"].items()}
    return result


def verdict(schema: Any, answer: Answer) -> str:
    """What became of a request."""
    if isinstance(answer.error, RequestError) and answer.error.field == "max_tokens":
        return "refused at once"
    if isinstance(answer.error, StackmaskError):
        return "schema refused"
    if answer.error is not None:
        return f"error: {answer.error!r}"
    exact = json.loads(json.dumps(translated(schema)), parse_float=Decimal)
    try:
        value = json.loads(answer.text, parse_float=Decimal)
    except ValueError as error:
        return f"no JSON: {error}: {answer.text[:100]}"
    try:
        validator_for(schema, default=Draft202012Validator)(exact, registry=REGISTRY).validate(value)
    except jsonschema.ValidationError as error:
        return f"invalid: {error.message[-300:]}: {answer.text[:100]}"
    return "closed by its limit, valid" if answer.closed else "valid"


def main() -> int:
    """Ask, judge, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemas_file", type=Path, metavar="FILE", help="lines of JSON, compressed by gzip or not")
    parser.add_argument("--schemas", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    opened = gzip.open if arguments.schemas_file.suffix == ".gz" else open
    with opened(arguments.schemas_file, "rt", encoding="utf-8") as file:
        lines = file.readlines()
    count = min(arguments.schemas, len(lines))
    schemas = [json.loads(lines[place * len(lines) // count])["schema"] for place in range(count)]
    engine = Engine(*load_model())
    requests = [
        Request(
            prompt=engine.encode(f"Write JSON. {number}"),
            constraint=Constraint("json_schema", schema),
            sampling=Sampling(seed=arguments.seed + number),
            max_tokens=LEAST + 97 * number % (MOST - LEAST + 1),
        )
        for number, schema in enumerate(schemas)
    ]
    verdicts = [verdict(schema, answer) for schema, answer in zip(schemas, engine.generate_batch(requests), strict=True)]
    for what, number in Counter(verdicts).most_common():
        print(f"{number:4} {what}")
    return int(any(what not in ("valid", "closed by its limit, valid", "refused at once", "schema refused") for what in verdicts))


if __name__ == "__main__":
    sys.exit(main())
