"""Mutants of the C++ kernel: one build that holds all of them, each behind a switch.

A copy of the sources gets, at every place drawn, an expression that does the one thing or the other by a number that is set when the
kernel runs, and that notes that it was come by.
Most operators need nothing of their operands for it: in `a < b` a value of a class of its own is put between the two, `a < At{} < b`,
which has the precedence of the operator and so the same operands.
A place that does not compile so, a constant expression for instance, is given up for another.
"""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
KERNEL = Path("pda/kernel")
OTHERS = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "+": ("-",),
    "-": ("+",),
    "*": ("+",),
    "/": ("*",),
    "%": ("/",),
    "&": ("|",),
    "|": ("&",),
    "^": ("&",),
    "<<": (">>",),
    ">>": ("<<",),
    "+=": ("-=",),
    "-=": ("+=",),
    "*=": ("+=",),
    "|=": ("&=",),
    "&=": ("|=",),
}
ASSIGNING = ("+=", "-=", "*=", "|=", "&=")
NAMES = {"<": "LT", "<=": "LE", ">": "GT", ">=": "GE", "==": "EQ", "!=": "NE", "+": "ADD", "-": "SUB", "*": "MUL", "/": "DIV", "%": "MOD"}
NAMES |= {"&": "AND", "|": "OR", "^": "XOR", "<<": "SHL", ">>": "SHR"}
TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'|^[ ]*\#[^\n]*)
    |(?P<number>(?:0[xX][0-9a-fA-F']+|\d[\d']*(?:\.\d+)?)(?:[uUlL]*))|(?P<name>[A-Za-z_]\w*)
    |(?P<op><=>|<<=|>>=|->\*|\.\.\.|->|::|\+\+|--|&&|\|\||[<>=!+\-*/%&|^]=|<<|>>|\S)|(?P<blank>\s+)""",
    re.M | re.S | re.X,
)
# Constant expressions, what only counts or makes things faster, and Python's names of arguments.
NO_MUTANTS = re.compile(
    r"static_assert|constexpr|consteval|statistics|prefetch|PERF|reserve\(|^\s*(case|template|enum|using|#)|nb::arg|\boperator\b|__builtin|_a\b"
)
FAMILY = re.compile(r"\b(?:EDGE|OP|FRAME)_[A-Z_]+\b")

HEADER = """// Written by scripts/mutants_kernel.py.
#pragma once
#include <type_traits>
extern "C" int stackmask_mutant;
extern "C" unsigned char stackmask_mutants_reached[];
namespace stackmask::mutants {
template <int ID> inline bool on() { stackmask_mutants_reached[ID] = 1; return stackmask_mutant == ID; }
enum Op { LT, LE, GT, GE, EQ, NE, ADD, SUB, MUL, DIV, MOD, AND, OR, XOR, SHL, SHR };
template <int ID, Op FROM, Op TO> struct At {};
template <int ID, Op FROM, Op TO, class A> struct Half { const A& a; };
template <int ID, Op FROM, Op TO, class B> struct Given { const B& b; };
template <Op OP, class A, class B> auto apply(const A& a, const B& b) {
  if constexpr (OP == LT) return a < b; else if constexpr (OP == LE) return a <= b; else if constexpr (OP == GT) return a > b;
  else if constexpr (OP == GE) return a >= b; else if constexpr (OP == EQ) return a == b; else if constexpr (OP == NE) return a != b;
  else if constexpr (OP == ADD) return a + b; else if constexpr (OP == SUB) return a - b; else if constexpr (OP == MUL) return a * b;
  else if constexpr (OP == DIV) return a / b; else if constexpr (OP == MOD) return a % b; else if constexpr (OP == AND) return a & b;
  else if constexpr (OP == OR) return a | b; else if constexpr (OP == XOR) return a ^ b; else if constexpr (OP == SHL) return a << b;
  else return a >> b;
}
#define MUTANTS_BINARY(SIGN, OP) \\
  template <class A, int ID, Op TO> auto operator SIGN(const A& a, At<ID, OP, TO>) { return Half<ID, OP, TO, A>{a}; } \\
  template <int ID, Op TO, class A, class B> auto operator SIGN(const Half<ID, OP, TO, A>& h, const B& b) { \\
    using Result = decltype(h.a SIGN b); \\
    return on<ID>() ? static_cast<Result>(apply<TO>(h.a, b)) : static_cast<Result>(h.a SIGN b); \\
  }
MUTANTS_BINARY(<, LT) MUTANTS_BINARY(<=, LE) MUTANTS_BINARY(>, GT) MUTANTS_BINARY(>=, GE) MUTANTS_BINARY(==, EQ) MUTANTS_BINARY(!=, NE)
MUTANTS_BINARY(+, ADD) MUTANTS_BINARY(-, SUB) MUTANTS_BINARY(*, MUL) MUTANTS_BINARY(/, DIV) MUTANTS_BINARY(%, MOD) MUTANTS_BINARY(&, AND)
MUTANTS_BINARY(|, OR) MUTANTS_BINARY(^, XOR) MUTANTS_BINARY(<<, SHL) MUTANTS_BINARY(>>, SHR)
#define MUTANTS_ASSIGN(SIGN, OP) \\
  template <int ID, Op TO, class B> auto operator SIGN(At<ID, OP, TO>, const B& b) { return Given<ID, OP, TO, B>{b}; } \\
  template <class A, int ID, Op TO, class B> A& operator SIGN(A& a, const Given<ID, OP, TO, B>& g) { \\
    if (on<ID>()) a = static_cast<A>(apply<TO>(a, g.b)); else a SIGN g.b; \\
    return a; \\
  }
MUTANTS_ASSIGN(+=, ADD) MUTANTS_ASSIGN(-=, SUB) MUTANTS_ASSIGN(*=, MUL) MUTANTS_ASSIGN(|=, OR) MUTANTS_ASSIGN(&=, AND)
template <int ID> struct Not {};
template <int ID, class A> bool operator->*(Not<ID>, const A& a) { return static_cast<bool>(a) == on<ID>(); }
template <int ID, int MORE, class T> T number(T value) { return on<ID>() ? static_cast<T>(value + MORE) : value; }
template <int ID, class T> T other(T value, T instead) { return on<ID>() ? instead : value; }
}  // namespace stackmask::mutants
"""


@dataclass(slots=True)
class Mutant:
    """One change at one place."""

    path: str
    line: int
    change: str
    """The line, with its old and its new text."""
    edits: tuple[tuple[int, str, int], ...]
    """(offset, text, characters replaced), where {id} in the text is the number of the mutant."""
    id: int = -1
    tests: int = 0
    unfinished: bool = False


def families() -> dict[str, str]:
    """To each constant of an enumeration the one that stands behind it."""
    following = {}
    for header in sorted((ROOT / KERNEL).rglob("*.h")):
        for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", header.read_text()):
            names = re.findall(r"\b(?:EDGE|OP|FRAME)_[A-Z_]+\b", re.sub(r"//[^\n]*", "", body))
            following |= dict(zip(names, names[1:] + names[:1], strict=True))
    return {name: other for name, other in following.items() if name != other}


def mutants_of(path: Path, following: dict[str, str]) -> Iterator[Mutant]:
    """All mutants of one file."""
    source = (ROOT / path).read_text()
    tokens = [(m.lastgroup, m[0], m.start()) for m in TOKEN.finditer(source) if m.lastgroup not in ("blank", "skip")]
    lines = source.split("\n")
    starts = [0]
    for text in lines:
        starts.append(starts[-1] + len(text) + 1)
    line_of = {}
    line = 0
    for _, _, at in tokens:
        while starts[line + 1] <= at:
            line += 1
        line_of[at] = line
    for index, (kind, text, at) in enumerate(tokens):
        number = line_of[at]
        whole = lines[number]
        if NO_MUTANTS.search(whole):
            continue
        end = at + len(text)
        spaced = source[at - 1] in " \n" and source[end] in " \n"

        before, after = whole[: at - starts[number]].lstrip(), whole[end - starts[number] :]

        def mutant(
            instead: str, *edits: tuple[int, str, int], number: int = number, text: str = text, before: str = before, after: str = after
        ) -> Mutant:
            return Mutant(str(path), number + 1, f"{before}⟦{text} → {instead}⟧{after}", edits)

        if kind == "op" and spaced and text in OTHERS:
            sign = text.removesuffix("=") if text in ASSIGNING else text
            for instead in OTHERS[text]:
                other = instead.removesuffix("=") if text in ASSIGNING else instead
                between = f"::stackmask::mutants::At<{{id}}, ::stackmask::mutants::{NAMES[sign]}, ::stackmask::mutants::{NAMES[other]}>{{}}"
                yield mutant(instead, (end, f" {between} {text}", 0))
        elif text in ("&&", "||") and spaced and (operands := around(tokens, index)):
            left, right = operands
            on = "::stackmask::mutants::on<{id}>()"
            kept = on if text == "&&" else f"!{on}"
            yield mutant(
                "||" if text == "&&" else "&&", (left, "((bool(", 0), (at, f")) != ({kept}) ? bool(", 2), (right, f") : ({kept}))", 0)
            )
        elif text == "!" and kind == "op":
            yield mutant("", (at, "::stackmask::mutants::Not<{id}>{}->*", 1))
        elif text in ("true", "false"):
            instead = "false" if text == "true" else "true"
            yield mutant(instead, (at, f"::stackmask::mutants::other<{{id}}>({text}, {instead})", len(text)))
        elif text in ("break", "continue") and source[end] == ";":
            instead = "continue" if text == "break" else "break"
            yield mutant(instead, (at, f"{{ if (::stackmask::mutants::on<{{id}}>()) {instead}; {text}; }}", len(text) + 1))
        elif kind == "number" and re.fullmatch(r"\d+[uUlL]*", text) and tokens[index - 1][1] not in ("<", "[", "::"):
            for more in (1, -1):
                shown = f"{int(text.rstrip('uUlL')) + more}"
                yield mutant(shown, (at, f"::stackmask::mutants::number<{{id}}, {more}>({text})", len(text)))
        elif text in following:
            yield mutant(following[text], (at, f"::stackmask::mutants::other<{{id}}>({text}, {following[text]})", len(text)))


def around(tokens: list[tuple[str | None, str, int]], index: int) -> tuple[int, int] | None:
    """Where the operands of a logical operator begin and end."""
    sign = tokens[index][1]
    ends = {",", ";", "?", ":", "=", "return", "{", "}", "[", "<<", "else"} | ({"||"} if sign == "&&" else set())
    ends |= set(ASSIGNING)
    depth, left = 0, None
    for place in range(index - 1, -1, -1):
        text = tokens[place][1]
        if text in ")]}":
            depth += 1
        elif text in "([{" and depth:
            depth -= 1
        elif not depth and (text in ends or text == "("):
            left = tokens[place + 1][2]
            break
    depth = 0
    for place in range(index + 1, len(tokens)):
        text = tokens[place][1]
        if text in "([{":
            depth += 1
        elif text in ")]}" and depth:
            depth -= 1
        elif not depth and (text in ends or text in ("&&", "||", ")", "]", "}")):
            return None if left is None else (left, tokens[place][2])
    return None


def write(folder: Path, chosen: list[Mutant]) -> None:
    """The sources with switches for these mutants; files that are as they were keep their time."""
    kernel = folder / KERNEL
    by_path: dict[str, list[tuple[int, str, int]]] = {}
    for mutant in chosen:
        by_path.setdefault(mutant.path, []).extend((at, text.replace("{id}", str(mutant.id)), gone) for at, text, gone in mutant.edits)
    for path in sorted(path for path in (ROOT / KERNEL).rglob("*") if path.is_file()):
        text = path.read_text()
        for at, new, gone in sorted(by_path.get(str(path.relative_to(ROOT)), []), key=lambda edit: edit[0], reverse=True):
            text = text[:at] + new + text[at + gone :]
        if path.name == "base.h":
            text = text.replace("#pragma once\n", '#pragma once\n#include "mutants.h"\n', 1)
        change(folder / path.relative_to(ROOT), text)
    change(kernel / "mutants.h", HEADER)
    visible = 'extern "C" __attribute__((visibility("default"), used))'
    size = max((mutant.id for mutant in chosen), default=0) + 1
    lines = (f"{visible} int stackmask_mutant = -1;", f"{visible} unsigned char stackmask_mutants_reached[{size}] = {{}};", "")
    change(kernel / "mutants.cpp", "\n".join(lines))


def change(path: Path, text: str) -> None:
    """Write a file unless it holds this text."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def build(folder: Path, drawn: list[Mutant], count: int) -> list[Mutant]:
    """Build a kernel with `count` of the mutants drawn, the first that compile; the rest of the package is in the folder."""
    waiting = list(drawn)
    chosen: list[Mutant] = []
    number = 0
    while True:
        while len(chosen) < count and waiting:
            mutant = waiting.pop(0)
            if not any(overlap(mutant, other) for other in chosen):
                mutant.id, number = number, number + 1
                chosen.append(mutant)
        write(folder, chosen)
        wrong = places_of_errors(folder)
        if not wrong:
            return chosen
        dropped = [mutant for mutant in chosen if (mutant.path, mutant.line) in wrong]
        if not dropped:
            raise RuntimeError(f"the kernel does not compile: {sorted(wrong)}")
        print(f"{len(dropped)} mutants do not compile", flush=True)
        chosen = [mutant for mutant in chosen if mutant not in dropped]


def overlap(one: Mutant, other: Mutant) -> bool:
    """Whether two mutants change one piece of text: a switch within another's operands is none."""
    if one.path != other.path:
        return False
    return any(a < d + max(h, 1) and d < a + max(g, 1) for a, _, g in one.edits for d, _, h in other.edits)


def places_of_errors(folder: Path) -> set[tuple[str, int]]:
    """Build, and give (path in the checkout, line) of all that the compiler names where it fails."""
    build = folder / "build"
    if not (build / "build.ninja").exists():
        options = [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_CXX_FLAGS=-w"]
        options.append("-DSTACKMASK_EXPORTS=stackmask_mutant;stackmask_mutants_reached")
        subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", build, *options], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["ninja", "-k", "0", "-C", build], capture_output=True, text=True)
    if done.returncode == 0:
        library = next(build.glob("_kernel*.so"))
        shutil.copy(library, folder / "pda" / library.name)
        return set()
    log = done.stdout + done.stderr
    (folder / "errors.txt").write_text(log)
    named = re.findall(rf"({KERNEL}/[\w/]+\.(?:cpp|h)):(\d+)", log)
    return {(path, int(line)) for path, line in named if not path.endswith("mutants.h")}


def draw(seed: int, only: str = "") -> list[Mutant]:
    """All mutants in a random order; of one place at most one."""
    following = families()
    found: list[Mutant] = []
    for path in sorted((ROOT / KERNEL).rglob("*.*")):
        if path.suffix in (".cpp", ".h"):
            found += mutants_of(path.relative_to(ROOT), following)
    random.Random(seed).shuffle(found)
    return [mutant for mutant in found if re.search(only, f"{Path(mutant.path).name}:{mutant.line} {mutant.change}")]


class Switches:
    """The switches of a kernel that is loaded."""

    def __init__(self, kernel: ModuleType, mutants: list[Mutant]) -> None:
        library = ctypes.CDLL(kernel.__file__)
        self._active = ctypes.c_int.in_dll(library, "stackmask_mutant")
        self._size = max((mutant.id for mutant in mutants), default=0) + 1
        self._reached = (ctypes.c_ubyte * self._size).in_dll(library, "stackmask_mutants_reached")

    def watch(self) -> None:
        """Nothing has to be done to note what is reached."""

    def reached(self) -> list[int]:
        """The mutants come by since the last call."""
        found = [number for number, flag in enumerate(bytes(self._reached)) if flag]
        ctypes.memset(self._reached, 0, self._size)
        return found

    def apply(self, mutant: Mutant) -> None:
        """Make this mutant the one that runs."""
        self._active.value = mutant.id
