"""What is distributed: the source distribution, the kernel's symbols, what an import loads, and the recipes of wheels and workflows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
import zlib
from pathlib import Path

import pytest

import stackmask
from stackmask.pda import engine

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SMALL = 512 << 10  # bytes; of the files of the package only the demo model is larger
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_source_distribution(tmp_path: Path) -> None:
    """It holds the package with its kernel, no links, and neither tests nor benchmarks nor what else lies in a checkout."""
    pytest.importorskip("scikit_build_core")
    program = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("stackmask-*.tar.gz")
    with tarfile.open(archive) as opened:
        members = opened.getmembers()
    assert [member.name for member in members if not member.isfile()] == []
    sizes = {member.name.partition("/")[2]: member.size for member in members}
    assert {name.partition("/")[0] for name in sizes if "/" in name} == {"src", "examples", "scripts"}
    held = {name for name in sizes if name.startswith("src/stackmask/")}
    listed = subprocess.run(["git", "ls-files", "-z", "pda", "schema", "integration"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        committed = {f"src/stackmask/{name}" for name in listed.stdout.split("\0") if name}
        assert committed <= held
    assert {name for name in held if name.endswith((".so", ".pyc"))} == set()
    assert {"src/stackmask/__init__.py", "src/stackmask/__main__.py", "src/stackmask/py.typed"} <= held
    assert {"LICENSE", "NOTICE", "CMakeLists.txt", "pyproject.toml", "README.md", "examples/masks.c", "scripts/smoke_test.py"} <= set(sizes)
    assert {name for name, size in sizes.items() if size > SMALL} == {"src/stackmask/integration/demo/model/model.safetensors"}


def test_a_wheel_from_the_source_distribution(tmp_path: Path) -> None:
    """Unpacked elsewhere, it builds a wheel that works alone; without the kernel here, which takes minutes to compile."""
    pytest.importorskip("scikit_build_core")
    environment = {**os.environ, "STACKMASK_KERNEL": "python"}
    build = "import sys; from scikit_build_core import build; getattr(build, sys.argv[1])(sys.argv[2])"
    subprocess.run([sys.executable, "-c", build, "build_sdist", str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # Python 3.11.4 has the first
    source = tmp_path / archive.name.removesuffix(".tar.gz")
    subprocess.run(
        [sys.executable, "-c", build, "build_wheel", str(tmp_path)], cwd=source, env=environment, check=True, capture_output=True
    )
    (wheel,) = tmp_path.glob("*-py3-none-any.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as opened_wheel:
        opened_wheel.extractall(installed)
    program = """
import stackmask
print(stackmask.__file__)
vocabulary = stackmask.Vocabulary.from_bytes([b"a", b"b", None], stop_token_ids=[2])
print(list(stackmask.Compiler(vocabulary).regex("a+b").matcher().allowed_tokens()))
"""
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(installed), *sys.path]
    )  # -S leaves out the editable package, and with it what is beside it
    python = [sys.executable, "-S"]
    done = subprocess.run([*python, "-c", program], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [str(installed / "stackmask" / "__init__.py"), "[0]"]
    check = [*python, "-m", "stackmask", "check", "--regex", "a+", "-"]
    subprocess.run(check, cwd=tmp_path, env=environment, input="aa", check=True, capture_output=True, text=True)


def test_size() -> None:
    """A wheel stays below 4 MB: so do the package's files and the kernel, as they are compressed in it."""
    package = Path(stackmask.__file__).parent
    files = [path for folder in ("pda", "schema", "integration") for path in (package / folder).rglob("*") if path.is_file()]
    kept = {path for path in files if path.suffix not in (".cpp", ".h", ".pyc", ".so")}
    kept.add(Path(str(sys.modules[engine.Matcher.__module__].__file__)))
    assert len(kept) > 300
    assert sum(len(zlib.compress(path.read_bytes())) for path in kept) < 4_000_000


def test_symbols_of_the_kernel() -> None:
    """The module exports its entry point and nothing that could be taken for a symbol of another library in the process."""
    if not engine.Matcher.__module__.endswith("_kernel"):
        pytest.skip("needs the compiled kernel")
    if not sys.platform.startswith("linux") or not (nm := shutil.which("nm")):
        pytest.skip("needs nm, on Linux")
    file = sys.modules[engine.Matcher.__module__].__file__
    listed = subprocess.run(
        [nm, "--dynamic", "--defined-only", "--format=just-symbols", str(file)], check=True, capture_output=True, text=True
    )
    assert listed.stdout.split() == ["PyInit__kernel"]


def uncovered() -> dict[str, str]:
    """The environment of a process that coverage does not follow: it would import its own modules there, and slow it down."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def test_import_is_light() -> None:
    """Importing the package loads NumPy alone; lark comes with the first EBNF or Lark grammar, torch and transformers with a model."""
    program = """
import sys
before = {name for name in sys.modules if name.endswith("customize")}  # of the system's Python
import stackmask
print(*sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - before))
vocabulary = stackmask.Vocabulary.from_bytes([b"a", None], stop_token_ids=[1])
compiler = stackmask.Compiler(vocabulary)
compiler.json_schema({"pattern": "a"}), compiler.json(), compiler.regex("a+"), compiler.choice(["a"])
assert "lark" not in sys.modules
compiler.ebnf('root ::= "a"')
compiler.lark('start: "a"')
print(*sorted({"torch", "transformers", "pydantic", "fastapi"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=uncovered())
    loaded, heavy = done.stdout.splitlines()
    allowed = {"__main__", "__mp_main__", "numpy", "stackmask"}
    assert {name for name in loaded.split() if not name.startswith("_") and name not in allowed} == set()
    assert heavy == ""


def test_import_is_quick(tmp_path: Path) -> None:
    """Importing the package, once its bytecode is there, takes less than ten times what NumPy takes (4 to 6 are usual)."""
    program = """
import time
begin = time.process_time()
import numpy
middle = time.process_time()
import stackmask
print((time.process_time() - middle) / (middle - begin))
"""
    environment = uncovered()
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path)
    command = [sys.executable, "-c", program]
    ratios = [float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout) for _ in range(4)]
    assert min(ratios) < 10, ratios


def test_wheels() -> None:
    """The recipe of the wheels names Pythons that the package declares, and tries each wheel."""
    recipe = CONFIGURATION["tool"]["cibuildwheel"]
    assert recipe["build"] == ["cp311-*", "cp312-*", "cp314-*", "cp314t-*"]
    assert CONFIGURATION["tool"]["scikit-build"]["wheel"]["py-api"] == "cp312"
    path = recipe["test-command"].removeprefix("python {project}/")
    assert (ROOT / path).is_file()


def test_smoke_test() -> None:
    """What tries the wheels passes with the kernel at hand."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "smoke_test.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "7 kinds" in done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows(path: Path) -> None:
    """Each workflow reads the repository and no more unless a job says so, its jobs end, and the scripts that it calls are there."""
    yaml = pytest.importorskip("yaml")
    text = path.read_text("utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 120, name
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                assert re.fullmatch(r"[\w.-]+(/[\w.-]+)+@(v\d[\w.]*|release/v1|[0-9a-f]{40})", step["uses"])
            assert "${{" not in step.get("run", ""), "an expression in a script is an injection; it comes by env"
    for called in re.findall(r"(?<![\w/])(?:\.ci|scripts)/[\w./-]*\w", text):
        assert (ROOT / called).exists(), called


def test_publishing_needs_no_secret() -> None:
    """The index is told who publishes by the workflow's identity, in a job that does nothing else."""
    yaml = pytest.importorskip("yaml")
    text = (ROOT / ".github" / "workflows" / "wheels.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert "secrets." not in text
    writing = {name for name, job in jobs.items() if "write" in (job.get("permissions") or {}).values()}
    assert writing == {"publish"}
    assert not any("run" in step for step in jobs["publish"]["steps"])
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}


def test_image() -> None:
    """The image's last stage has no compiler, no root and a health check; what builds the package is let into the build."""
    last = (ROOT / "Dockerfile").read_text("utf-8").rpartition("FROM ")[2]
    assert "apt-get" not in last and "pip" not in last
    assert re.search(r"^USER \d+$", last, re.MULTILINE) and "/health" in last
    assert 'CMD ["serve", "--demo", "--host", "0.0.0.0"]' in last
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    needed = {name.removeprefix("/") for name in CONFIGURATION["tool"]["scikit-build"]["sdist"]["include"]}
    assert needed | {"pda", "schema", "integration", ".ci/constraints.txt", "benchmarks/bowtie/bowtie_stackmask.py"} == allowed
