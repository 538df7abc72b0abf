"""Mutants of the Python of pda and schema, as cosmic-ray's operators make them.

A mutant is the code of one function: it is put into the function objects that are there, so nothing is imported or collected anew.
What is outside of functions, tables and fields of dataclasses, takes effect only when a module is imported: such a mutant has a process
of its own.
Annotations and docstrings are no code, and what only changes these is no mutant.
"""

from __future__ import annotations

import ast
import copy
import functools
import gc
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.operators.operator import Operator
from parso.python.tree import EndMarker, Name, Newline, String

OPERATORS = [
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("GtE_Gt", "GtE_Lt", "Is_IsNot", "IsNot_Is")),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Mul_Add", "FloorDiv_Mul", "Div_Mul", "Mod_FloorDiv", "Pow_Mul")),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("BitAnd_BitOr", "BitOr_BitAnd", "BitXor_BitAnd", "LShift_RShift", "RShift_LShift")),
    *("AddNot", "NumberReplacer", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    *(
        "ReplaceFalseWithTrue",
        "ReplaceTrueWithFalse",
        "ReplaceUnaryOperator_Delete_Not",
        "ReplaceUnaryOperator_USub_UAdd",
        "ZeroIterationForLoop",
    ),
]
# Tables, what is run by hand, and the reference engine, whose tests take the most time: it is what the kernel is held against.
NO_MUTANTS = re.compile(r"_generate\.py$|_tables\.py$|/__init__\.py$|pda/reference")


@dataclass(slots=True)
class Mutant:
    """One change at one place."""

    path: str
    line: int
    column: int
    change: str
    id: int = -1
    tests: int = 0
    unfinished: bool = False
    function: tuple[str, int] | None = None
    """Qualified name and first line of the outermost function that holds it; None outside of functions."""
    source: str = field(default="", repr=False)


def draw(root: Path, seed: int, count: int, only: str = "") -> list[Mutant]:
    """`count` mutants at random of the checkout at `root`, each with the source of its module."""
    places: list[tuple[Module, Operator, Any, int, int, int]] = []
    for path in sorted([*(root / "pda").rglob("*.py"), *(root / "schema").rglob("*.py")]):
        if NO_MUTANTS.search(path.as_posix()):
            continue
        module = Module(root, path)
        nodes = [node for node in ast_nodes(module.tree) if not isinstance(node, Name | Newline | EndMarker | String)]
        for name in OPERATORS:
            operator = plugins.get_operator(f"core/{name}")()
            for node in nodes:
                places += [(module, operator, node, i, *start) for i, (start, _) in enumerate(operator.mutation_positions(node))]
    random.Random(seed).shuffle(places)
    drawn: list[Mutant] = []
    for place in places:
        if len(drawn) == count:
            break
        mutant = make(*place)
        if mutant and re.search(only, f"{mutant.path}:{mutant.line} {mutant.change}"):
            mutant.id = len(drawn)
            drawn.append(mutant)
    return drawn


class Module:
    """A module as text and as trees."""

    def __init__(self, root: Path, path: Path) -> None:
        self.path = str(path.relative_to(root))
        self.source = path.read_text("utf-8")
        self.tree = get_ast(self.source)

    @cached_property
    def bare(self) -> ast.Module:
        """Its syntax tree without annotations and docstrings."""
        return bare(self.source)

    @cached_property
    def dump(self) -> str:
        """That tree as text."""
        return ast.dump(self.bare)


def make(module: Module, operator: Operator, node: Any, index: int, line: int, column: int) -> Mutant | None:
    """One mutant; None where it changes no code."""
    siblings, parent = node.parent.children, node.parent
    place = next(i for i, sibling in enumerate(siblings) if sibling is node)
    node.parent = None  # or the whole tree would be copied
    copied = copy.deepcopy(node)
    node.parent = copied.parent = parent
    siblings[place] = operator.mutate(copied, index)  # which changes a node in place, or gives another for it
    mutated = module.tree.get_code()
    siblings[place] = node
    try:
        after = bare(mutated)
        compile(after, "", "exec")
    except SyntaxError:
        return None
    if ast.dump(after) == module.dump:
        return None
    old, new = module.source.split("\n"), mutated.split("\n")
    same = len(old) == len(new)
    change = difference(old[line - 1].strip(), new[line - 1].strip()) if same else f"{type(operator).__name__}: {old[line - 1].strip()}"
    return Mutant(module.path, line, column, change, function=function_of(module.bare, line), source=mutated)


def difference(old: str, new: str) -> str:
    """A line with its old and its new text."""
    begin = 0
    while begin < min(len(old), len(new)) and old[begin] == new[begin]:
        begin += 1
    end = 0
    while end < min(len(old), len(new)) - begin and old[-1 - end] == new[-1 - end]:
        end += 1
    return f"{old[:begin]}⟦{old[begin : len(old) - end]} → {new[begin : len(new) - end]}⟧{old[len(old) - end :]}"


def bare(source: str) -> ast.Module:
    """The syntax tree without annotations and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
            for argument in (*node.args.args, *node.args.posonlyargs, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg):
                if argument:
                    argument.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.copy_location(ast.Constant(0), node.annotation)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body[0].value.value = ""
    return tree


def function_of(tree: ast.Module, line: int) -> tuple[str, int] | None:
    """The outermost function that holds a line in its body, by name and first line as its code object has them."""

    def search(nodes: list[ast.stmt], prefix: str) -> tuple[str, int] | None:
        for node in nodes:
            if not node.lineno <= line <= (node.end_lineno or 0):
                continue
            if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= line:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                return prefix + node.name, first
            if isinstance(node, ast.ClassDef):
                return search(node.body, f"{prefix}{node.name}.")
        return None

    return search(tree.body, "")


def functions_of(code: CodeType) -> Iterator[CodeType]:
    """The code of the outermost functions of a module or class."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & 2:  # CO_NEWLOCALS, which the body of a class has not
                yield constant
            else:
                yield from functions_of(constant)


class Switches:
    """Puts code into functions."""

    def __init__(self, root: Path, mutants: list[Mutant]) -> None:
        self._root, self._mutants = root, mutants
        self._seen: set[int] = set()
        self._functions: dict[tuple[str, str, int], list[FunctionType]] = {}
        gc.collect()
        self._caches = []
        for found in gc.get_objects():  # by type, since some objects warn when they are asked for their class
            if type(found) is FunctionType and (found.__module__ or "").startswith("stackmask."):
                code = found.__code__
                self._functions.setdefault((self._relative(code.co_filename), code.co_qualname, code.co_firstlineno), []).append(found)
            elif type(found) is functools._lru_cache_wrapper and (found.__module__ or "").startswith("stackmask."):
                self._caches.append(found)

    def _relative(self, path: str) -> str:
        """A file of the package as its path in the checkout, however it was imported."""
        return path.removeprefix(f"{self._root}/").removeprefix("src/stackmask/")

    def _put(self, path: str, tree: ast.Module | str, names: set[tuple[str, int]]) -> None:
        code = compile(tree, str(self._root / path), "exec", dont_inherit=True)
        for function in functions_of(code):
            if (function.co_qualname, function.co_firstlineno) in names:
                for found in self._functions.get((path, function.co_qualname, function.co_firstlineno), ()):
                    found.__code__ = function

    def watch(self) -> None:
        """Put a note before every statement that a mutant changes."""
        for cache in self._caches:
            cache.cache_clear()
        by_path: dict[str, list[Mutant]] = {}
        for mutant in self._mutants:
            if mutant.function:
                by_path.setdefault(mutant.path, []).append(mutant)
        for path, mutants in by_path.items():
            tree = ast.parse((self._root / path).read_text("utf-8"))
            for mutant in mutants:
                note(tree, mutant)
            name = "stackmask." + path.removesuffix(".py").replace("/", ".")
            vars(sys.modules[name])["__mutants_seen__"] = self._seen
            self._put(path, ast.fix_missing_locations(tree), {mutant.function for mutant in mutants if mutant.function})

    def reached(self) -> list[int]:
        """The mutants come by since the last call."""
        found = sorted(self._seen)
        self._seen.clear()
        return found

    def apply(self, mutant: Mutant) -> None:
        """Put the mutant's code where it belongs."""
        for cache in self._caches:
            cache.cache_clear()
        if mutant.function:
            self._put(mutant.path, mutant.source, {mutant.function})


def note(tree: ast.Module, mutant: Mutant) -> None:
    """Put a statement before the innermost that holds the place, which adds the mutant's id to a set."""
    best: tuple[int, list[ast.stmt], int] | None = None
    for node in ast.walk(tree):
        for _, block in ast.iter_fields(node):
            if not (isinstance(block, list) and block and isinstance(block[0], ast.stmt)):
                continue
            for place, statement in enumerate(block):
                begin, end = (statement.lineno, statement.col_offset), (statement.end_lineno or 0, statement.end_col_offset or 0)
                if isinstance(statement, ast.Expr) and not hasattr(statement, "end_lineno"):
                    continue
                if begin <= (mutant.line, mutant.column) < end and (best is None or begin >= best[0]):
                    best = (begin, block, place)
    if best:
        call = ast.parse(f"__mutants_seen__.add({mutant.id})").body[0]
        call.lineno = call.end_lineno = -1
        best[1].insert(best[2], ast.copy_location(call, best[1][best[2]]))


class Instead(MetaPathFinder):
    """Imports the mutant's module from its own source."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = "stackmask." + mutant.path.removesuffix(".py").replace("/", ".")
        self._source = mutant.source

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module's specification with another loader."""
        if name != self._name:
            return None
        found = PathFinder.find_spec(name, path)
        assert found and found.origin
        found.loader = From(name, found.origin, self._source)
        return found


class From(SourceFileLoader, Loader):
    """Loads a text in the place of a file."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        """The code of the text."""
        return compile(self._source, self.path, "exec", dont_inherit=True)
