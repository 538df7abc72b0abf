"""What each speed device of the kernel is worth: every device is switched off in turn, and the same work is measured with and without it.

    python -m benchmarks.ablations --work /tmp/ablations > benchmarks/ABLATIONS.md

The rule: a device that moves no figure by 5 % is removed.

A device is switched off by a threshold or an option of the vocabulary's trie where there is one, and otherwise by a small change of the
sources. These changes are made in a copy of the checkout, all in one build: each asks a number that this program sets while it runs.
So all variants run in one process, in the same build, in turn, and a busy machine hits all of them alike.

The work, in each round with a vocabulary of its own for each variant, so that no variant finds what another one left there:

    masks       schemas of MaskBench, by keys in the order of the schema and in any order: first masks (compilation included) and steps
    states      single states of `benchmarks.mask`, and first masks of formats with large automata
    automata    a member whose pattern is an automaton of 16,384 states: the slowest step of its text
    words       a name that one of 1,000 words must follow: the slowest step of its text
    unique      arrays whose items differ, nearly all that there are
    ambiguous   grammars of `benchmarks.ambiguity`
    hostile     families of `benchmarks.hostile` that count: the slowest step of a text
    tools       a structural tag with 500 tools: the first mask, and that of a request in which one tool has changed
    greedy      the best tokens of rows of logits under masks
    batch       64 matchers that accept a token each, after other memory was read

A time is the lesser of wall-clock time and CPU time. Every round repeats the same calls, and the least time of each call counts, which
leaves out most of the other load. A figure has moved where the ratio of without to with is past 5 % in all rounds together and in
each half of them; the row "nothing" switches nothing off and shows what moves by chance. The work is what `Limits.step_work` counts
(`docs/kernel.md`), and is the same in every run.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from time import process_time_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import ambiguity, growth
from benchmarks import mask as state
from benchmarks import tools as agent
from benchmarks.engines import Walk
from benchmarks.families import FAMILIES
from benchmarks.instances import DATA, read_case, read_lines
from benchmarks.isolation import walk
from benchmarks.report import machine, markdown, number
from benchmarks.timing import command_line, load_vocabulary, once

ROOT = Path(__file__).resolve().parents[1]
KERNEL = ROOT / "pda" / "kernel"
NEVER = 1 << 30  # a threshold that nothing reaches
LEAST = 0.05  # the share of a figure that a device has to move
SWITCH = """#pragma once
// Written by benchmarks/ablations.py.
extern "C" __attribute__((visibility("default"))) int stackmask_without;
namespace stackmask { inline bool without(int device) { return stackmask_without == device; } }
"""


@dataclass(frozen=True, slots=True)
class Device:
    """Something that is in the kernel for speed alone.

    `lines`: about as many would go with it. One of these switches it off: `thresholds` and `options` of the trie; `changes` of the kernel,
    (path, old text, new text), where `OFF` is true while the device is switched off; a `method` of Python, (module, class, name, another
    class), which gives a new object of the other class instead.
    """

    name: str
    promise: str
    lines: int
    thresholds: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, int] = field(default_factory=dict)
    changes: tuple[tuple[str, str, str], ...] = ()
    method: tuple[str, str, str, str] | None = None
    loads: tuple[str, ...] = ("masks",)


DEVICES = (
    Device(
        "default transitions (delta states)",
        "MaskBench steps: keys that are not declared",
        129,
        changes=(
            (
                "rules/default_transitions.cpp",
                "  states_[state].default_state = DEAD;\n",
                "  states_[state].default_state = DEAD;\n  if (OFF) return;\n",
            ),
        ),
    ),
    Device(
        "large subtrees by classes",
        "mask: text behind a blank",
        25,
        thresholds={"large_subtree": NEVER},
        loads=("masks", "states"),
    ),
    Device("tables of wide nodes' children", "MaskBench steps", 20, thresholds={"wide_children": NEVER}),
    Device("sets of nodes", "MaskBench first masks and steps", 200, options={"set_bytes": 0}),
    Device("memory of class tables across grammars", "MaskBench first masks", 100, options={"class_bytes": 0}),
    Device(
        "byte runs",
        "MaskBench first masks: blanks",
        150,
        changes=(("masks/class_loops.cpp", "  if (run.inside == 0) return", "  if (OFF || run.inside == 0) return"),),
    ),
    Device(
        "counter chains",
        "MaskBench steps: strings",
        204,
        changes=(("masks/loops.cpp", "return loop.inside && attempt(", "return !OFF && loop.inside && attempt("),),
    ),
    Device("absorbing states", "MaskBench steps: keys that are not declared", 114, thresholds={"absorbing_differences": 0}),
    Device("closed classes", "MaskBench steps, mask: unanchored pattern", 160, thresholds={"closed_states": 0}),
    Device(
        "masks behind counts",
        "MaskBench steps: strings with a maxLength",
        15,
        changes=(
            ("vocabulary/classes.cpp", "takes_most = chars < largest", "takes_most = !OFF && chars < largest"),
            (
                "vocabulary/classes.cpp",
                "    if (begin != end) low = *begin, high = end[-1];\n",
                "    if (OFF) low = least, high = most;\n    else if (begin != end) low = *begin, high = end[-1];\n",
            ),
        ),
    ),
    Device("tables of dense states", "MaskBench steps", 15, thresholds={"lookups": NEVER}),
    Device(
        "bitmasks of long lists",
        "mask: number",
        12,
        thresholds={"listed_tokens": NEVER, "set_tokens": NEVER},
        loads=("masks", "states"),
    ),
    Device("automata lowered in pieces", "steps into large automata", 60, thresholds={"few_states": NEVER}, loads=("masks", "automata")),
    Device("words that share beginnings", "steps into many words", 60, thresholds={"sharing_bytes": NEVER}, loads=("masks", "words")),
    Device(
        "inlining of small rules",
        "mask: identifier in a large loop",
        103,
        thresholds={"inlined_states": 0, "inlined_open_states": 0, "inlined_behind_loop": 0},
        loads=("masks", "states", "ambiguous", "tools"),
    ),
    Device(
        "pooled vectors",
        "MaskBench steps",
        40,
        changes=(
            ("base.h", "    if (spare_.count == 0) return;\n", "    if (OFF || spare_.count == 0) return;\n"),
            ("base.h", "    if (this->capacity() == 0 || ", "    if (OFF || this->capacity() == 0 || "),
        ),
    ),
    Device(
        "pooled memory of compositions and builders",
        "mask: text behind a blank",
        35,
        changes=(
            ("pooled.h", "object_(spare_.count ? ", "object_(!OFF && spare_.count ? "),
            ("pooled.h", "    if (spare_.count == KEPT || spare_.ended) {", "    if (OFF || spare_.count == KEPT || spare_.ended) {"),
        ),
        loads=("masks", "states", "levels"),
    ),
    Device(
        "short lists by bytes",
        "ambiguity",
        20,
        changes=(("list_index.h", "    if (list.size() > FEW) ", "    if (OFF || list.size() > FEW) "),),
        loads=("masks", "ambiguous", "levels"),
    ),
    Device(
        "masks by upper levels",
        "growth: by levels around it",
        110,
        changes=(("masks/upper_levels.h", "    if (levels == 0 || ", "    if (OFF || levels == 0 || "),),
        loads=("masks", "levels"),
    ),
    Device(
        "nodes below which all is allowed",
        "hostile: counts and limits",
        150,
        thresholds={"covered_nodes": NEVER},
        loads=("masks", "ambiguous", "hostile"),
    ),
    Device(
        "counts of the spellings seen",
        "values that differ",
        154,
        changes=(("stacks/seen_spellings.cpp", "  if (!spells_values(below)) return", "  if (OFF || !spells_values(below)) return"),),
        loads=("unique",),
    ),
    Device(
        "... kept from the last count",
        "values that differ",
        20,
        changes=(("stacks/seen_spellings.cpp", "  auto known = std::find_if(", "  auto known = OFF ? counted_.end() : std::find_if("),),
        loads=("unique",),
    ),
    Device(
        "nodes read with the last grammar",
        "tools: one tool changed",
        70,
        changes=(("bindings/expressions.cpp", "= before.expressions ? shared(", "= before.expressions && !OFF ? shared("),),
        loads=("tools",),
    ),
    Device(
        "best tokens by stretches",
        "greedy rows of the engine",
        25,
        changes=(("logits.h", "      if (!mask || (begin == 0 && !sparse)) {", "      if (OFF || !mask || (begin == 0 && !sparse)) {"),),
        loads=("greedy",),
    ),
    Device(
        "prefetches of a batch",
        "steps of the engine",
        10,
        changes=(
            ("batch.cpp", "  for (const Matcher* matcher : matchers)", "  for (const Matcher* matcher : matchers)\n    if (!OFF)"),
            ("batch.cpp", "i < matchers.size(); i++) {", "i < matchers.size() && !OFF; i++) {"),
        ),
        loads=("batch",),
    ),
    Device(
        "tags kept between requests",
        "tools: one tool changed",
        340,
        method=("stackmask.schema.structural_tag.tag_cache", "Arenas", "take", "Arena"),
        loads=("tools",),
    ),
    Device(
        "nothing",
        "",
        0,
        loads=("masks", "states", "automata", "words", "unique", "ambiguous", "levels", "tools", "hostile", "greedy", "batch"),
    ),
)
UNCHANGED = "unchanged"


def main(arguments: list[str] | None = None) -> int:
    """Build the copy, and measure in another process, which imports the package from there."""
    parser = command_line("ablations", __doc__, rounds=5)
    add = parser.add_argument
    add("--schemas", type=int, default=60, metavar="N", help="how many schemas of MaskBench (default: 60)")
    add("--devices", nargs="+", metavar="TEXT", help="only devices with one of these in their names (default: all)")
    add("--work", type=Path, default=Path(tempfile.gettempdir()) / "stackmask-ablations", metavar="DIR", help="for the copy")
    options = parser.parse_args(arguments)
    if os.environ.get("STACKMASK_ABLATIONS") == str(options.work):
        return measure(options)
    build(options.work)
    environment = {**os.environ, "STACKMASK_ABLATIONS": str(options.work), "STACKMASK_DATA": str(DATA)}
    environment["PYTHONPATH"] = str(options.work / "src")
    command = [sys.executable, "-m", "benchmarks.ablations", *(sys.argv[1:] if arguments is None else arguments)]
    return subprocess.run(command, cwd=options.work, env=environment).returncode


def build(folder: Path) -> None:
    """A copy of the checkout whose kernel has all switches; files that are as they were keep their time."""
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    changes: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for place, device in enumerate(DEVICES):
        for path, old, new in device.changes:
            changes[f"pda/kernel/{path}"].append((place, old, new))
    write(folder / "pda/kernel/ablations.h", SWITCH.encode())
    variable = 'extern "C" __attribute__((visibility("default"), used)) int stackmask_without;\nint stackmask_without = -1;\n'
    write(folder / "pda/kernel/ablations.cpp", variable.encode())
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_symlink():
                target.symlink_to(source.readlink())
        elif source.exists():
            content = source.read_bytes()
            if name in changes:
                content = switched(name, content.decode(), changes[name]).encode()
            write(target, content)
    if not (folder / "build/build.ninja").exists():
        flags = [f"-DPython_EXECUTABLE={sys.executable}", "-DSTACKMASK_EXPORTS=stackmask_without"]
        subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", *flags], check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", folder / "build"], check=True, stdout=sys.stderr)
    library = next((folder / "build").glob("_kernel*.so"))
    shutil.copy(library, folder / "pda" / library.name)


def write(path: Path, content: bytes) -> None:
    """Write a file unless it has this content."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def switched(name: str, text: str, changes: list[tuple[int, str, str]]) -> str:
    """A source with the switches of some devices."""
    for place, old, new in changes:
        if text.count(old) != 1:
            raise RuntimeError(f"{name} has {text.count(old)} times what switches off {DEVICES[place].name!r}: {old!r}")
        text = text.replace(old, new.replace("OFF", f"without({place})"))
    text = text.replace("\n#include", '\n#include "ablations.h"\n#include', 1)
    return text


def measure(options: argparse.Namespace) -> int:
    """Measure all variants and print the table."""
    # an editable installation would import the package from elsewhere
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "ScikitBuildRedirectingFinder"]
    import stackmask
    import stackmask.pda._kernel as kernel

    if not Path(kernel.__file__).resolve().is_relative_to(options.work.resolve()):
        raise RuntimeError(f"the kernel comes from {kernel.__file__}, not from {options.work}")
    without = ctypes.c_int.in_dll(ctypes.CDLL(kernel.__file__), "stackmask_without")
    vocabulary, tokenizer = load_vocabulary(options.tokenizer)
    wanted = [d for d in DEVICES if not options.devices or any(text in d.name for text in options.devices)]
    loads = {name: load(stackmask, tokenizer, options) for name, load in LOADS.items() if any(name in device.loads for device in wanted)}
    warnings.simplefilter("ignore", stackmask.StackmaskWarning)
    found: Found = defaultdict(list)
    for round in range(options.rounds):
        for name, load in loads.items():
            variants = [None, *(device for device in wanted if name in device.loads)]
            runs = []
            for device in variants:
                without.value = -1 if device is None else DEVICES.index(device)
                runs.append((device, load(ablated(vocabulary, device), Random(0))))
            gc.collect()
            gc.freeze()
            shift = round * 7 % len(runs)
            runs = runs[shift:] + runs[:shift]
            while runs:  # a piece of the work of each variant in turn
                for run in list(runs):
                    device, pieces = run
                    without.value = -1 if device is None else DEVICES.index(device)
                    with replaced(device):
                        samples = next(pieces)
                    if samples is not None:
                        arrays = {key: np.array(each, float) for key, each in samples.items()}
                        found[name, device.name if device else UNCHANGED].append(arrays)
                        runs.remove(run)
            gc.unfreeze()
        print(f"round {round + 1} of {options.rounds}: {process_time_ns() / 1e9:.0f} s of CPU time", file=sys.stderr, flush=True)
    show(found, wanted, options)
    return 0


@contextmanager
def replaced(device: Device | None) -> Iterator[None]:
    """The method of Python that switches the device off, in place for a while."""
    if device is None or device.method is None:
        yield
        return
    path, kind, name, other = device.method
    module = importlib.import_module(path)
    owner, made = getattr(module, kind), getattr(module, other)
    before = getattr(owner, name)
    setattr(owner, name, lambda *_: made())
    try:
        yield
    finally:
        setattr(owner, name, before)


def ablated(vocabulary: Any, device: Device | None) -> Any:
    """The vocabulary with a trie of its own, which has the device's thresholds and options."""
    made = object.__new__(type(vocabulary))
    for name in (name for kind in type(vocabulary).__mro__ for name in getattr(kind, "__slots__", ())):
        setattr(made, name, getattr(vocabulary, name))
    thresholds, options = (device.thresholds, device.options) if device else ({}, {})
    made._trie = type(vocabulary.trie)(list(vocabulary.tokens), vocabulary.size, thresholds=dict(thresholds), **options)
    return made


Samples = Mapping[str, Sequence[float]]
Found = defaultdict[tuple[str, str], list[dict[str, npt.NDArray[np.float64]]]]
"""By load and variant, for each round: samples by name, those of one call at the same place in every round."""
Run = Iterator[Samples | None]
"""Does a piece of work and yields None, again and again, and yields the samples at the end."""
Load = Callable[[Any, Random], Run]


ORDERS = {"declared": "schema", "any": "any"}


def masks(stackmask: Any, tokenizer: Any, options: argparse.Namespace) -> Load:
    """MaskBench: schemas picked by a seed, the first text of each instance."""
    lines = read_lines(DATA / "maskbench-dev.jsonl.gz")
    Random(0).shuffle(lines)
    picked = map(read_case, lines[: options.schemas])
    cases = [(case.schema, [tokenizer.encode(texts[0]) for _, texts in case.instances]) for case in picked]

    def load(vocabulary: Any, _: Random) -> Run:
        found: dict[str, list[float]] = {f"{order}, {kind}": [] for order in ORDERS for kind in ("steps, us", "first masks, us", "work")}
        for place, (schema, instances) in enumerate(cases):
            for order, name in ORDERS.items():
                samples = [found[f"{order}, {kind}"] for kind in ("steps, us", "first masks, us", "work")]
                with suppress(stackmask.StackmaskError):  # it has no exact automaton
                    walk_texts(stackmask, vocabulary, schema, instances, name, *samples)
            if place % 5 == 4:
                yield None
        yield found

    return load


def walk_texts(
    stackmask: Any,
    vocabulary: Any,
    schema: str,
    texts: list[list[int]],
    order: str,
    steps: list[float],
    firsts: list[float],
    work: list[float],
) -> None:
    """Compile a schema and take texts through its masks: adds the microseconds of each step and of the first mask, and the work."""
    mask, stop = stackmask.allocate_token_bitmask(1, vocabulary.size), vocabulary.stop_token_ids[0]
    grammars: list[Any] = []

    def first_mask() -> None:
        grammars.append(stackmask.Compiler(vocabulary).json_schema(schema, property_order=order, whitespace="flexible"))
        grammars[0].matcher().fill_next_token_bitmask(mask)

    firsts.append(once(first_mask))
    for tokens in texts:
        matcher = grammars[0].matcher()
        fill = matcher.fill_next_token_bitmask
        run = Walk(mask[0], lambda fill=fill: fill(mask), matcher.accept_token)  # type: ignore[misc]
        steps += [spent / 1e3 for spent in walk(run, tokens, stop, process_time_ns)[0]]
    work.append(grammars[0]._kernel.statistics["work"])


def states(stackmask: Any, _tokenizer: Any, _: argparse.Namespace) -> Load:
    """The states of `benchmarks.mask`, in a grammar that is new, and the first masks of formats whose automata are large."""
    formats = ("date-time", "email", "hostname", "idn-email", "idn-hostname", "iri", "regex", "uri", "uri-template")

    def load(vocabulary: Any, _: Random) -> Run:
        mask = stackmask.allocate_token_bitmask(1, vocabulary.size)
        found: dict[str, list[float]] = {}
        for name, (make, before, _further) in state.states(stackmask.Compiler(vocabulary)).items():
            matcher = make().matcher()
            assert matcher.accept_bytes(before.encode())
            found[f"{name}, us"] = [once(partial(matcher.fill_next_token_bitmask, mask))]
            yield None

        def first_mask(name: str) -> None:
            grammar = stackmask.Compiler(vocabulary).json_schema({"type": "string", "format": name})
            grammar.matcher().fill_next_token_bitmask(mask)

        first_mask("ipv4")  # which reads the tables of formats
        found["formats, first masks, us"] = [once(partial(first_mask, name)) for name in formats]
        yield found

    return load


def automata(stackmask: Any, _tokenizer: Any, _: argparse.Namespace) -> Load:
    """A member whose pattern is a large automaton, of which a text needs few states."""
    letters = "abcdefghijklmn"
    pattern = "^" + "".join(f"(?=.*{letter})" for letter in letters) + ".{8,}$"
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}, "required": ["a"]}

    def load(vocabulary: Any, _: Random) -> Run:
        yield {"slowest step, us": [slowest_step(stackmask.Compiler(vocabulary).json_schema(schema), bytewise(json.dumps({"a": letters})))]}

    return load


def words(stackmask: Any, _tokenizer: Any, _: argparse.Namespace) -> Load:
    """A name that one of many words must follow, which are letters as well."""
    chosen = Random(0)
    followers = sorted({"".join(chosen.choices("abcdefghijklmnopqrstuvwxyz", k=chosen.randint(3, 10))) for _ in range(1000)})
    follow = " | ".join(f'"{word}"' for word in followers)
    rules = f"root ::= (name ({follow}) [;])+\nname ::= [a-z]+ (= {follow})"

    def load(vocabulary: Any, _: Random) -> Run:
        text = f"abc{followers[7]};xyz{followers[70]};"
        yield {"slowest step, us": [slowest_step(stackmask.Compiler(vocabulary).ebnf(rules), bytewise(text))]}

    return load


def bytewise(text: str) -> list[bytes]:
    """The bytes of a text, one by one."""
    return [bytes([byte]) for byte in text.encode()]


def slowest_step(grammar: Any, pieces: Sequence[int | bytes]) -> float:
    """The slowest mask on the way through a text, in tokens or in bytes, in microseconds."""
    import stackmask

    mask = stackmask.allocate_token_bitmask(1, grammar.vocabulary.size)
    matcher = grammar.matcher()
    steps = []
    for piece in pieces:
        steps.append(once(partial(matcher.fill_next_token_bitmask, mask)))
        assert matcher.accept_token(piece) if isinstance(piece, int) else matcher.accept_bytes(piece)
    return max(steps)


def unique(stackmask: Any, tokenizer: Any, _: argparse.Namespace) -> Load:
    """An array of strings by a pattern, nearly all that there are and all different."""
    names = [f"{letter}{number:02}{sign}" for letter in "abcdefgh" for number in range(100) for sign in "xy"]
    schema = json.dumps({"type": "array", "items": {"type": "string", "pattern": "^[a-h][0-9][0-9][xy]$"}, "uniqueItems": True})
    texts = [tokenizer.encode(json.dumps(Random(1).sample(names, 1550), separators=(",", ":")))]

    def load(vocabulary: Any, _: Random) -> Run:
        steps: list[float] = []
        firsts: list[float] = []
        work: list[float] = []
        walk_texts(stackmask, vocabulary, schema, texts, "schema", steps, firsts, work)
        yield {"steps, us": steps, "work": work}

    return load


def ambiguous(stackmask: Any, _tokenizer: Any, _: argparse.Namespace) -> Load:
    """The grammars of `benchmarks.ambiguity`, a fifth of its letters."""

    def load(vocabulary: Any, _: Random) -> Run:
        mask = stackmask.allocate_token_bitmask(1, vocabulary.size)
        samples: dict[str, list[float]] = {}
        for name, text, unit, ending, letters, _ in ambiguity.GRAMMARS:
            data = ambiguity.text_of(unit, ending, letters // 5).encode()
            samples[f"{name}, us in all"] = ambiguity.run(stackmask, vocabulary, text, data, mask, 1)
            yield None
        yield samples

    return load


def levels(stackmask: Any, tokenizer: Any, _: argparse.Namespace) -> Load:
    """Values in 400 levels of arrays and objects, of which none stands above the same stack as another."""
    tokens = tokenizer.encode(r'[[{"a":' * 200)

    def load(vocabulary: Any, _: Random) -> Run:
        matcher = stackmask.Compiler(vocabulary).json().matcher()
        mask = stackmask.allocate_token_bitmask(1, vocabulary.size)
        costs = []
        for token in tokens:
            costs.append(once(partial(matcher.fill_next_token_bitmask, mask)))
            matcher.accept_token(token)
        yield {"mask in levels, us": costs[40:]}

    return load


def hostile(stackmask: Any, tokenizer: Any, _: argparse.Namespace) -> Load:
    """Inputs of `benchmarks.hostile` that count, where many ways lead to the same tokens."""
    inputs = (("counted words", 316), ("limits in limits", 50), ("counted rule that calls itself", 30))

    def load(vocabulary: Any, _: Random) -> Run:
        compiler, found = stackmask.Compiler(vocabulary), {}
        for name, size in inputs:
            specification, text = FAMILIES[name].case(size)
            grammar = getattr(compiler, FAMILIES[name].kind)(specification)
            found[f"{name}, slowest step, us"] = [slowest_step(grammar, tokenizer.encode(text)[:500])]
            yield None
        yield found

    return load


def tools(stackmask: Any, _tokenizer: Any, _: argparse.Namespace) -> Load:
    """500 tools, as in `benchmarks.tools`."""

    def load(vocabulary: Any, chance: Random) -> Run:
        mask = stackmask.allocate_token_bitmask(1, vocabulary.size)
        (first, again, _), _, _ = agent.measure(vocabulary, mask, 500, "json", chance.randrange(100))
        yield {"first mask, ms": [first], "one tool changed, ms": [again]}

    return load


def greedy(stackmask: Any, _tokenizer: Any, _: argparse.Namespace) -> Load:
    """16 rows of logits, with few and with most tokens allowed; in the caches, and after other memory was read."""
    from stackmask.pda.engine import best_tokens

    def load(vocabulary: Any, chance: Random) -> Run:
        generator = np.random.default_rng(chance.randrange(100))
        logits = generator.standard_normal((16, vocabulary.size), np.float32)
        other = np.zeros(1 << 23)
        samples: dict[str, list[float]] = {}
        for name, share in (("300 tokens allowed", 300 / vocabulary.size), ("97 % allowed", 0.97)):
            allowed = generator.random((16, -(-vocabulary.size // 32) * 32)) < share
            bits = np.packbits(allowed, axis=1, bitorder="little").view(np.int32)
            best = partial(best_tokens, logits, bits)
            samples[f"{name}, us for 16 rows"] = [once(best) for _ in range(9)]
            cold: list[float] = []
            for _ in range(9):
                other += 1
                cold.append(once(best))
            samples[f"{name}, cold caches, us for 16 rows"] = cold
        yield samples

    return load


def batch(stackmask: Any, tokenizer: Any, _: argparse.Namespace) -> Load:
    """64 matchers at different places of a text; between two steps 32 MiB are written."""
    from stackmask.pda.engine import MatcherRows

    tokens = tokenizer.encode(growth.records(600))

    def load(vocabulary: Any, _: Random) -> Run:
        other = np.zeros(1 << 22)
        mask = stackmask.allocate_token_bitmask(64, vocabulary.size)
        grammar = stackmask.Compiler(vocabulary).json_schema(growth.RECORDS)
        matchers = [grammar.matcher() for _ in range(64)]
        for place, matcher in enumerate(matchers):
            for token in tokens[:place]:
                matcher.accept_token(token)
        rows = MatcherRows(matchers, mask)
        costs = []
        for step in range(64):
            other += 1
            costs.append(once(lambda step=step: rows.take(tokens[step : step + 64])))  # type: ignore[misc]
        yield {"step of 64, us": costs}

    return load


LOADS: dict[str, Callable[[Any, Any, argparse.Namespace], Load]] = {
    "masks": masks, "states": states, "automata": automata, "words": words, "unique": unique, "ambiguous": ambiguous, "tools": tools,
    "hostile": hostile, "greedy": greedy, "batch": batch, "levels": levels,
}  # fmt: skip


def show(found: Found, devices: list[Device], options: argparse.Namespace) -> None:
    """Print a table for each load: the figures with all devices, and without each."""
    print(f"# Ablations\n\n`python -m benchmarks.ablations --rounds {options.rounds} --schemas {options.schemas}`, {machine()}.\n")
    for load in LOADS:
        if (load, UNCHANGED) not in found:
            continue
        before = [figures(rounds) for rounds in halves(found[load, UNCHANGED])]
        lines = [["without", "lines", "promise", *before[0]], ["(with all)", "", "", *map(number, before[0].values())]]
        for device in devices:
            if load in device.loads:
                after = [figures(rounds) for rounds in halves(found[load, device.name])]
                cells = [cell(*([each[name] for each in part] for part in (before, after))) for name in before[0]]
                lines.append([device.name, str(device.lines or ""), device.promise, *cells])
        print(f"## {load}\n\n{markdown(lines)}\n")


def halves(rounds: list[Any]) -> tuple[list[Any], ...]:
    """All rounds, and where there are two or more, each half of them."""
    return (rounds, rounds[::2], rounds[1::2] or rounds)


def figures(rounds: list[dict[str, npt.NDArray[np.float64]]]) -> dict[str, float]:
    """Figures of samples: of each call the least of the rounds."""
    found: dict[str, float] = {}
    for name in rounds[0]:
        least = np.min([samples[name] for samples in rounds], axis=0)
        if "work" in name:
            found[name] = float(least.sum())
        elif "steps" in name or "first masks" in name:
            percentiles = (50, 90, 99) if "steps" in name else (50, 99)
            found |= {f"{name}, p{p}": float(np.percentile(least, p)) for p in percentiles}
            found[f"{name}, mean"] = float(least.mean())
        else:
            found[name] = float(np.median(least))
    return found


def cell(before: list[float], after: list[float]) -> str:
    """A figure without a device and its ratio to the one with it, bold where it moved; each by all rounds and by both halves of them."""
    ratios = [late / early for early, late in zip(before, after, strict=True)]
    moved = all(ratio > 1 + LEAST for ratio in ratios) or all(ratio < 1 - LEAST for ratio in ratios)
    text = f"{number(after[0])} x{ratios[0]:.2f}"
    return f"**{text}**" if moved else text


if __name__ == "__main__":
    sys.exit(main())
