"""The packages as a whole: imports point one way, and what is public says so."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import stackmask

SOURCE = Path(stackmask.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("pda", "schema", "integration")  # each may import those before it
HEAVY = {
    "torch",
    "transformers",
    "vllm",
    "sglang",
    "fastapi",
    "uvicorn",
    "pydantic",
    "openai",
    "llama_cpp",
    "mlx",
    "outlines",
    "tiktoken",
    "sentencepiece",
    "mistral_common",
}
ROOMS = {  # the modules and packages of each layer; each may import those before it
    "pda": """
        exceptions limits budget automata operators analysis grammar_text grammar embed free_text choice regex
        reference
        engine packed captures vocabulary html matcher ebnf gbnf lark""",
    "schema": "errors formats sets dialect algebra emit json_schema structural_tag refusal",
    "integration": """
        torch tokenizers compiler follower transformers transformers_batching distributed demo processes tools forced_drafts engine
        llama_cpp mlx answers decisions generate inspector server cli environment vllm sglang xgrammar outlines""",
}
SCRIPTS = {"integration/processes/worker.py"}  # run as files, which have no package to be relative to
GENERATOR = "_generate"  # modules of this name are run by hand and their output is checked in; their needs are no dependencies
MODULES = sorted(path for layer in LAYERS for path in (SOURCE / layer).glob("**/*.py"))


def imports_of(path: Path, *, loading: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    """What a module imports, anywhere or when it is loaded: the statement, and the full name of each thing."""
    package = ["stackmask", *path.relative_to(SOURCE).parts[:-1]]
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if loading and (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        ):
            continue
        waiting.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = [*above, *(node.module.split(".") if node.module else [])]
            yield from ((node, ".".join([*module, alias.name])) for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_imports_point_one_way(path: Path) -> None:
    """Integration imports schema imports pda, relatively; none imports the facade, and the core no optional dependency."""
    layer = path.relative_to(SOURCE).parts[0]
    later = LAYERS[LAYERS.index(layer) + 1 :]
    for node, name in imports_of(path):
        parts = name.split(".")
        assert parts[:2] == ["stackmask", "integration"] or not any(part.endswith(GENERATOR) for part in parts), f"{name} is run by hand"
        assert parts[0] not in LAYERS, f"{name} is imported by its bare name"
        if parts[0] == "stackmask":
            is_relative = isinstance(node, ast.ImportFrom) and node.level > 0
            assert is_relative or path.relative_to(SOURCE).as_posix() in SCRIPTS, f"{name} is imported absolutely"
            assert len(parts) > 1
            assert parts[1] in LAYERS or parts[1].startswith("_"), f"{name} is part of the facade"
            assert parts[1] not in later, f"{layer} imports {name}"
        elif layer != "integration" and not path.stem.endswith(GENERATOR):
            assert parts[0] not in HEAVY, f"{layer} imports {name}"
            assert parts[0] in sys.stdlib_module_names | {"numpy", "lark"}, f"{name} is no dependency of the core"


def rooms_of(layer: str) -> set[str]:
    """The modules and packages that stand directly in a layer."""
    paths = [path.relative_to(SOURCE) for path in MODULES]
    return {path.parts[1].removesuffix(".py") for path in paths if path.parts[0] == layer} - {"__init__"}


@pytest.mark.parametrize("layer", LAYERS)
def test_rooms_import_earlier_rooms(layer: str) -> None:
    """Inside a layer too, imports point one way: each room imports rooms that come before it in ROOMS."""
    order = ROOMS[layer].split()
    assert sorted(order) == sorted(rooms_of(layer)), "ROOMS names every module and package of the layer, once"
    back = set()
    for path in MODULES:
        place = path.relative_to(SOURCE).parts
        if place[0] == layer and len(place) + (place[-1] != "__init__.py") > 2:
            own = order.index(place[1].removesuffix(".py"))
            named = {name.split(".")[2] for _, name in imports_of(path) if name.startswith(f"stackmask.{layer}.")}
            back |= {("/".join(place), room) for room in named & set(order[own + 1 :])}
    assert not back


def test_imports_form_no_cycle() -> None:
    """Modules that import each other when they are loaded form no cycle, anywhere in the package."""
    names = {".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path for path in MODULES}
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        found = {imported.removeprefix("stackmask.") for _, imported in imports_of(path, loading=True)}
        graph[name] = {whole if whole in names else whole.rpartition(".")[0] for whole in found} & set(names) - {name}
    while graph:
        leaves = {name for name, found in graph.items() if not found & set(graph)}
        assert leaves, f"a cycle among {sorted(graph)}"
        graph = {name: found for name, found in graph.items() if name not in leaves}


def test_the_core_imports_nothing_heavy() -> None:
    """Neither the facade nor the core loads an optional dependency."""
    code = f"import sys, stackmask, stackmask.pda.engine; print(sorted(set(sys.modules) & {HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def exported(module: ModuleType) -> list[str]:
    """The public names of a module that it does not import from elsewhere by accident: all but modules and dunders."""
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    )


def modules_with_all() -> list[str]:
    """The modules that say what is public."""
    names = ["stackmask", *(info.name for info in pkgutil.walk_packages(stackmask.__path__, "stackmask.") if not info.ispkg)]
    paths = {name: SOURCE.joinpath(*name.split(".")[1:]) for name in names}
    sources = {name: (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")) for name, path in paths.items()}
    return [name for name, path in sources.items() if path.is_file() and "\n__all__ = " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", modules_with_all())
def test_all_is_sorted_and_true(name: str) -> None:
    """`__all__` is sorted, and each of its names exists."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("stackmask"):
            raise
        pytest.skip(f"{error.name} is not installed")
    assert module.__all__ == sorted(module.__all__)
    for public in module.__all__:
        getattr(module, public)


def test_the_facade_exports_what_it_says() -> None:
    """The facade's `__all__` holds all its public names and no others."""
    assert getattr(stackmask, "__all__", []) == exported(stackmask)


def test_the_tests_that_sources_name_exist() -> None:
    """A reader who follows "Tested by" finds the file."""
    sources = [path for suffix in ("py", "h", "cpp", "rs") for path in SOURCE.glob(f"*/**/*.{suffix}")]
    named = {(name, path) for path in sources for name in re.findall(r"tests/[\w/]+\.py", path.read_text(encoding="utf-8"))}
    assert named
    assert [f"{path.relative_to(SOURCE)}: {name}" for name, path in sorted(named) if not (ROOT / name).exists()] == []


def test_test_files_have_unique_names() -> None:
    """No two test files share a name, so that reports are unambiguous."""
    names = [path.name for path in Path(__file__).parent.glob("**/test_*.py")]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("way", "most"), [(1, 14), (2, 6), (3, 6), (4, 12)])
def test_ways_through_the_house(way: int, most: int) -> None:
    """The files that docs/architecture.md leads through are there, each entered once, and they are few."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (item,) = re.findall(rf"^{way}\. \*\*(.*?)(?=^\d\. |^## )", text[text.index("## Four ways") :], re.MULTILINE | re.DOTALL)
    files = re.findall(r"`([\w/]+\.\w+)`", item)
    assert len(set(files)) == len(files) <= most
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_the_architecture_is_a_short_text() -> None:
    """It has at most 200 lines: what one stage decides is on a page of its own."""
    assert len((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()) <= 200


MOST_FILES, MOST_LINES, MOST_METHODS = 16, 600, 25
CODE = sorted(path for layer in LAYERS for suffix in ("py", "pyi", "h", "cpp") for path in (SOURCE / layer).glob(f"**/*.{suffix}"))


def python_classes(text: str) -> Iterator[tuple[str, int]]:
    """The classes of a module, each with the number of its methods."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            yield node.name, sum(isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) for inner in node.body)


def cpp_classes(text: str) -> Iterator[tuple[str, int]]:
    """The classes and structs of a C++ file, each with the number of member functions that it declares."""
    text = re.sub(r"//.*|/\*[\s\S]*?\*/", "", text)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', "0", text)
    for found in re.finditer(r"\b(?:class|struct)\s+(\w+)(?![\w\s]*[,>])[^;{}()=<>]*\{", text):
        depth, body = 1, ""  # the body without what stands in inner braces
        for character in text[found.end() :]:
            depth += (character == "{") - (character == "}")
            if depth == 0:
                break
            body += character if depth == 1 or (depth == 2 and character == "{") else ""
        members = [re.sub(r"<[^()]*>", "", " ".join(part.split())) for part in re.split(r"\{\}|;|\w+\s*:(?!:)", body)]
        kinds = ("using ", "friend ", "enum ", "struct ", "class ", "static_assert")
        yield found[1], sum(bool(re.match(r"[^=(]*(?:\w|operator\S+)\s*\(", part)) for part in members if not part.startswith(kinds))


def large_code() -> dict[str, int]:
    """Folders of many files, long files, and classes of many methods, by the name that docs/architecture.md gives them."""
    folders = Counter(path.parent.relative_to(SOURCE).as_posix() for path in CODE)
    large = {f"`{folder}/`": count for folder, count in folders.items() if count > MOST_FILES}
    for path in CODE:
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")
        lines = len(text.splitlines())
        large |= {f"`{name}`": lines} if lines > MOST_LINES else {}
        classes = python_classes(text) if path.suffix in (".py", ".pyi") else cpp_classes(text)
        large |= {f"`{name}`, `{kind}`": count for kind, count in classes if count > MOST_METHODS and path.suffix != ".pyi"}
    return large


def test_the_architecture_names_what_is_large() -> None:
    """The table of docs/architecture.md has each large folder, file and class, with a number near today's and a reason; and no other."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = re.search(r"^## What is still large$(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert section
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in section[1].splitlines() if row.startswith("| `")]
    named: dict[str, int] = {}
    for name, _, now, why in rows:
        assert len(why.split()) > 1, f"{name} has no reason"
        file, _, kind = name.partition(", ")
        counts = [int(number) for number in now.split(", ")]
        named |= {file: counts[0]} if len(counts) == 2 or not kind else {}
        named |= {name: counts[-1]} if kind else {}
    today = large_code()
    assert sorted(named) == sorted(today)
    assert {name: (count, today[name]) for name, count in named.items() if abs(count - today[name]) > today[name] / 10} == {}


def test_methods_are_counted() -> None:
    """Constructors, operators and functions with a body count once each; fields, types, calls and inner classes' functions do not."""
    text = """
    template <class T>
    class Stack final : public Base {  // class Comment {
     public:
      explicit Stack(std::size_t size) : items_(size), top_{0} { reserve(size); }
      ~Stack();
      bool operator==(const Stack&) const = default;
      std::vector<std::function<void(int)>> calls() const { return {f(1), g("}")}; }
      template <class F>
      void each(F visit) { for (T& item : items_) visit(item); }
      struct Inner { int one() { return 1; } int two(); };
      friend void swap(Stack& a, Stack& b);

     private:
      std::vector<T> items_;
      std::size_t top_ = limit(3), size_{0};
    };
    """
    assert dict(cpp_classes(text)) == {"Stack": 5, "Inner": 2}
    assert dict(python_classes("class A:\n  x = 1\n  def f(self): ...\n  async def g(self): ...\n")) == {"A": 2}
