"""Builds the kernel's C library for another system, with the clang of the package `ziglang` (extra `cross`).

    python scripts/cross_compile.py wasm32-wasi --output stackmask.wasm     # examples/wasm/masks.mjs runs it in Node
    python scripts/cross_compile.py aarch64-macos --output libstackmask.dylib
    python scripts/cross_compile.py x86_64-windows --output stackmask.dll

A warning is an error. Objects are kept in `--work` and compiled again where a source or a header is newer.

WebAssembly (wasm32-wasi, one thread) throws by the exception handling proposal, which Node 17, Chrome 95, Firefox 100 and Safari 15.2 have.
The clang of ziglang carries the sources of libc++abi and libunwind but builds them without exceptions for this target, so the parts that
throw are compiled here.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNEL = ROOT / "pda" / "kernel"
TARGETS = {"wasm32-wasi": "wasm32-wasi", "aarch64-macos": "aarch64-macos", "x86_64-windows": "x86_64-windows-gnu"}
STRICT = ["-std=c++20", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror", f"-I{KERNEL}"]
THROWING = ["-fwasm-exceptions", "-mexception-handling", "-mllvm", "-wasm-enable-eh"]
SUPPORT = {
    "tag.s": ".tagtype __cpp_exception i32\n.globl __cpp_exception\n__cpp_exception:\n",  # what a C++ exception is to WebAssembly
    # There is one thread, and it never ends: nothing waits to be destroyed at its end.
    "thread.c": "int __cxa_thread_atexit(void (*f)(void *), void *a, void *d) { (void)f, (void)a, (void)d; return 0; }\n",
}


def clang(language: str, *arguments: str | Path) -> None:
    """Runs the clang of ziglang as a compiler or linker of C (`cc`) or C++ (`c++`).

    Raises:
        RuntimeError: with what it printed, where it fails.

    """
    done = subprocess.run([sys.executable, "-m", "ziglang", language, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")


def compile_all(jobs: list[tuple[Path, Path, list[str]]]) -> list[Path]:
    """Compiles each (source, object, flags) that is older than the sources of the kernel, on all cores; the objects."""
    newest = max(path.stat().st_mtime for path in (*KERNEL.rglob("*.h"), Path(__file__)))

    def one(job: tuple[Path, Path, list[str]]) -> Path:
        source, made, flags = job
        if not made.exists() or made.stat().st_mtime < max(newest, source.stat().st_mtime):
            clang("cc" if source.suffix in (".c", ".s") else "c++", "-c", *flags, source, "-o", made)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(one, jobs))


def runtime_jobs(work: Path, target: list[str]) -> list[tuple[Path, Path, list[str]]]:
    """The parts of libc++abi and libunwind that throw and catch, for WebAssembly."""
    import ziglang

    library = Path(ziglang.__file__).parent / "lib"
    folders = ("libcxxabi/include", "libcxxabi/src", "libcxx/src", "libunwind/include")
    flags = [*target, "-O2", *(f"-I{library / folder}" for folder in folders)]
    cpp = [*flags, "-std=c++23", "-D_LIBCXXABI_BUILDING_LIBRARY", "-DLIBCXXABI_NON_DEMANGLING_TERMINATE", "-D_LIBCPP_BUILDING_LIBRARY"]
    cpp += ["-D_LIBCXXABI_HAS_NO_THREADS"]
    support = [work / name for name in SUPPORT]
    for path in support:
        if not path.exists():
            path.write_text(SUPPORT[path.name])
    return [
        (library / "libcxxabi/src/cxa_exception.cpp", work / "cxa_exception.o", cpp),
        (library / "libcxxabi/src/cxa_personality.cpp", work / "cxa_personality.o", cpp),
        (library / "libunwind/src/Unwind-wasm.c", work / "unwind.o", [*flags, "-fms-extensions", "-D__USING_WASM_EXCEPTIONS__"]),
        *((path, path.with_suffix(".o"), target) for path in support),
    ]


def build(name: str, output: Path, work: Path, level: str = "2") -> None:
    """Builds the C library of the kernel for a target of TARGETS; `level` is the optimisation."""
    work.mkdir(parents=True, exist_ok=True)
    wasm = name.startswith("wasm")
    target = ["-target", TARGETS[name], *(THROWING if wasm else ["-fPIC"] if "windows" not in name else [])]
    sources = [path for path in sorted(KERNEL.rglob("*.cpp")) if path.parent.name != "bindings"]
    jobs = [
        (path, work / f"{path.relative_to(KERNEL).as_posix().replace('/', '_')}.o", [*target, f"-O{level}", *STRICT]) for path in sources
    ]
    objects = compile_all([*jobs, *(runtime_jobs(work, target) if wasm else [])])
    if wasm:
        names = re.findall(r"^STACKMASK_API [^(]*?(stackmask_\w+)\(", (KERNEL / "c" / "stackmask.h").read_text(), re.MULTILINE)
        exports = [f"-Wl,--export={name}" for name in (*names, "malloc", "free")]
        clang("c++", *target, "-mexec-model=reactor", "-Wl,--strip-debug", *exports, *objects, "-o", output)
    else:
        clang("c++", *target, "-shared", *objects, "-o", output)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="a folder for the objects (default: a temporary one)")
    parser.add_argument("--level", default="2", choices=["0", "1", "2", "3"], help="of optimisation")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            build(options.target, options.output, options.work or Path(folder), options.level)
        except RuntimeError as error:
            sys.exit(str(error))
    print(f"{options.output}: {options.output.stat().st_size:,} bytes for {TARGETS[options.target]}")


if __name__ == "__main__":
    main()
