"""Whether masks say of every token what accepting it says: every bit of them, at places inside of real texts.

The promise: none differs.

    python -m benchmarks.exactness --source schemas --order any --vocabulary llama3 --check

Sources are the schemas of a MaskBench file, their patterns, alone and with a maxLength inside an object, and calls of tools in each style
of a structural tag, for the schemas of objects in the file.
A place is where a valid instance was cut, or where a walk came to that takes random tokens now and then and goes on by shortest
completions in between.
At each place the mask is held against `fill_by_trial`, which tries every token, and that against `accept_token` for some tokens.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.instances import DATA, read_case, read_lines, write
from benchmarks.timing import command_line, load_vocabulary, verdict

TRIED: Final = 40
"""How many tokens are tried with `accept_token` itself at each place."""
STYLES: Final = (
    "json", "qwen_xml", "minimax_xml", "minimax_m3_xml", "glm_xml", "deepseek_xml", "deepseek_v4_1_xml", "kimi_k3_xml", "cohere_xml",
)  # fmt: skip
ORDERS: Final = ("schema", "any")


class Task(NamedTuple):
    """A specification, the method of a compiler that takes it, with its options, and texts that fit."""

    name: str
    method: str
    specification: Any
    options: dict[str, Any]
    texts: tuple[str, ...]


class Difference(NamedTuple):
    """A place where a mask and trials disagree: tokens that are missing from the mask, and those that it has too many of."""

    name: str
    place: bytes
    missing: list[bytes]
    extra: list[bytes]


class Stuck(Exception):  # noqa: N818, it is no error of the comparison
    """A place that allowed tokens led to has no completion."""


@dataclass(slots=True)
class Tally:
    """What was compared."""

    specifications: int = 0
    places: int = 0
    bits: int = 0
    refused: int = 0
    limits: int = 0
    differences: list[Difference] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count what another tally has counted."""
        for name in ("specifications", "places", "bits", "refused", "limits"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.differences += other.differences
        self.stuck += other.stuck


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison and print what differs."""
    options = parse(arguments)
    lines = read_lines(options.file)
    random.Random(options.seed).shuffle(lines)
    tasks = list(islice(SOURCES[options.source](lines, options.order, options.seed), options.count))
    shares = [tasks[start :: options.processes * 8] for start in range(options.processes * 8)]
    total = Tally()
    with ProcessPoolExecutor(options.processes) as pool:
        for tally in pool.map(compare, shares, *zip(*[(options.vocabulary, options.places, options.seed)] * len(shares), strict=True)):
            total.add(tally)
    for difference in total.differences[: options.show]:
        print(f"{difference.name}\n  behind {difference.place[-80:]!r}")
        for what, tokens in (("missing", difference.missing), ("extra", difference.extra)):
            if tokens:
                print(f"  {len(tokens)} {what}: {tokens[:8]!r}")
    print(*total.stuck[: options.show], sep="\n")
    print(
        f"{options.source}, order {options.order}, {options.vocabulary}: {total.specifications} specifications ({total.refused} refused), "
        f"{total.places} places ({total.limits} met a limit), {total.bits} bits, {len(total.differences)} places differ, "
        f"{len(total.stuck)} have no completion"
    )
    broken = [f"{len(total.differences)} masks differ from what is accepted"] if total.differences else []
    broken += [f"{len(total.stuck)} places have no completion"] if total.stuck else []
    return verdict(broken, check=options.check)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("exactness", __doc__, tokenizer=False)
    add = parser.add_argument
    add("--source", choices=SOURCES, default="schemas", help="what to compile (default: schemas)")
    add("--order", choices=ORDERS, default="schema", help="the order of an object's keys (default: schema)")
    add("--vocabulary", choices=VOCABULARIES, default="llama3", help="whose tokens (default: llama3)")
    add("--file", type=Path, default=DATA / "maskbench-dev.jsonl.gz", help="a file of MaskBench schemas")
    add("--count", type=int, metavar="N", help="the first N specifications only, in a random order")
    add("--places", type=int, default=4, metavar="N", help="how many places of each (default: 4)")
    add("--seed", type=int, default=0, help="of the order, the places and the walks (default: 0)")
    add("--processes", type=int, default=2, metavar="N", help="how many at a time (default: 2)")
    add("--show", type=int, default=20, metavar="N", help="how many differences to print (default: 20)")
    return parser.parse_args(arguments)


# ---- what is compiled


def schemas(lines: Iterable[str], order: str, seed: int) -> Iterator[Task]:
    """The schemas of a file, with the texts of their valid instances."""
    for line in lines:
        case = read_case(line)
        chosen = random.Random(f"{seed} {case.id}")
        valid = [texts for is_valid, texts in case.instances if is_valid]
        chosen.shuffle(valid)
        texts = (
            [shuffled(text, chosen) for texts in valid for text in texts[:1]]
            if order == "any"
            else [text for texts in valid for text in texts]
        )
        yield Task(case.id, "json_schema", case.schema, {"property_order": order}, tuple(texts[:12]))


def patterns(lines: Iterable[str], order: str, seed: int) -> Iterator[Task]:
    """The distinct patterns of a file, each alone and with a maxLength inside an object."""
    seen: set[str] = set()
    for line in lines:
        for pattern in found_patterns(json.loads(line)["schema"]):
            if pattern in seen:
                continue
            seen.add(pattern)
            length = random.Random(f"{seed} {pattern}").choice((8, 20, 64, 80, 255))
            yield Task(f"regex {pattern}", "regex", pattern, {}, ())
            schema = {
                "type": "object",
                "properties": {"name": {"type": "string", "pattern": pattern, "maxLength": length}},
                "required": ["name"],
            }
            yield Task(f"pattern {pattern} maxLength {length}", "json_schema", write(schema), {"property_order": order}, ())


def tags(lines: Iterable[str], order: str, seed: int) -> Iterator[Task]:
    """Calls of tools whose parameters are the schemas of objects in a file, in each style in turn."""
    objects = (read_case(line) for line in lines)
    for case in objects:
        schema = json.loads(case.schema)
        if not isinstance(schema, dict) or schema.get("type") != "object":
            continue
        for style in STYLES:
            content = {"type": "json_schema", "style": style, "json_schema": schema, "any_order": order == "any"}
            tag = {"type": "structural_tag", "format": {"type": "tag", "begin": "<call>", "content": content, "end": "</call>"}}
            yield Task(f"{style} {case.id}", "structural_tag", tag, {}, ())


SOURCES: Final = {"schemas": schemas, "patterns": patterns, "tags": tags}


def shuffled(text: str, chosen: random.Random) -> str:
    """The same JSON with the members of its objects in a random order."""

    def turn(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: turn(value[name]) for name in chosen.sample([*value], len(value))}
        return [turn(item) for item in value] if isinstance(value, list) else value

    return write(turn(json.loads(text, parse_float=Decimal)))


def found_patterns(schema: Any) -> Iterator[str]:
    """Every pattern in a schema, those of keys too."""
    todo = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if isinstance(value.get("pattern"), str):
                yield value["pattern"]
            if isinstance(value.get("patternProperties"), dict):
                yield from value["patternProperties"]
            todo += value.values()
        elif isinstance(value, list):
            todo += value


# ---- vocabularies


def llama3() -> Any:
    """The vocabulary of Llama 3."""
    return load_vocabulary(DATA / "tokenizers" / "llama3")[0]


def mistral(file: str) -> Any:
    """A vocabulary of the package mistral-common."""
    import mistral_common
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    import stackmask

    return stackmask.Vocabulary.from_mistral(MistralTokenizer.from_file(str(Path(mistral_common.__file__).parent / "data" / file)))


VOCABULARIES: Final = {
    "llama3": llama3,
    "tekken": lambda: mistral("tekken_240911.json"),
    "sentencepiece": lambda: mistral("mistral_instruct_tokenizer_240323.model.v3"),
}


@cache
def vocabulary(name: str) -> Any:
    """A vocabulary, made once a process."""
    return VOCABULARIES[name]()


# ---- the comparison


def compare(tasks: list[Task], name: str, places: int, seed: int) -> Tally:
    """Hold the masks of some specifications against trials."""
    import stackmask

    tally = Tally()
    for task in tasks:
        chosen = random.Random(f"{seed} {task.name}")
        compiler = stackmask.Compiler(vocabulary(name))
        tally.specifications += 1
        try:
            grammar = getattr(compiler, task.method)(task.specification, **task.options)
        except stackmask.StackmaskError:
            tally.refused += 1
            continue
        for place in range(places):
            matcher = grammar.matcher()
            try:
                before = go_to_a_place(matcher, task.texts, chosen, walk=place % 2 == 1)
                missing, extra = differing(matcher, chosen)
            except stackmask.LimitError:
                tally.limits += 1
                continue
            except Stuck as stuck:
                tally.stuck.append(f"{task.name} {task.options or ''}: {stuck}")
                continue
            tally.places += 1
            tally.bits += vocabulary(name).size
            if missing or extra:
                spelled = [[vocabulary(name).token_bytes(token) or b"" for token in tokens] for tokens in (missing, extra)]
                tally.differences.append(Difference(f"{task.name} {task.options or ''}", before, *spelled))
    return tally


def go_to_a_place(matcher: Any, texts: tuple[str, ...], chosen: random.Random, *, walk: bool) -> bytes:
    """Move a matcher to a place inside one of the texts, or to where a walk comes to; what was read."""
    from stackmask import GrammarError

    for text in () if walk else chosen.sample(texts, len(texts)):
        data = text.encode()
        before = data[: chosen.randint(0, len(data))]
        if matcher.accept_bytes(before):
            return before
    read = b""
    for _ in range(chosen.randint(0, 12)):
        if chosen.random() < 0.4:
            allowed = matcher.allowed_tokens()
            token = chosen.choice(allowed)
            if matcher.accept_token(token):
                read += matcher.vocabulary.token_bytes(token) or b""
            if matcher.is_terminated():
                matcher.rollback(1)
        else:
            try:
                completion = matcher.shortest_completion()
            except GrammarError as error:
                raise Stuck(f"no completion behind {read!r}") from error
            ahead = completion[: chosen.randint(1, 20)]
            if ahead and matcher.accept_bytes(ahead):
                read += ahead
    return read


def differing(matcher: Any, chosen: random.Random) -> tuple[list[int], list[int]]:
    """The tokens that the mask here lacks, and those that it has too many of."""
    size = matcher.vocabulary.size
    mask, trial = np.zeros((2, (size + 31) // 32), np.int32)
    matcher.fill_next_token_bitmask(mask[None])
    matcher.fill_by_trial(trial[None])
    allowed, accepted = (np.unpackbits(row.view(np.uint8), bitorder="little")[:size].astype(bool) for row in (mask, trial))
    missing, extra = (np.flatnonzero(found).tolist() for found in (accepted & ~allowed, allowed & ~accepted))
    some = np.flatnonzero(accepted)
    for token in [
        *chosen.choices(range(size), k=TRIED // 2),
        *(chosen.choices(some.tolist(), k=TRIED // 2) if len(some) else ()),
        *missing[:9],
        *extra[:9],
    ]:
        taken = matcher.accept_token(token)
        if taken:
            matcher.rollback(1)
        if taken != accepted[token]:
            raise AssertionError(f"accept_token and fill_by_trial disagree on token {token}")
    return missing, extra


if __name__ == "__main__":
    sys.exit(main())
