"""Builds the kernel's C library for another system, with the clang of the package `ziglang` (extra `cross`).

    python scripts/cross_compile.py wasm32-wasi --output stackmask.wasm     # examples/wasm/masks.mjs runs it in Node
    python scripts/cross_compile.py aarch64-macos --output libstackmask.dylib
    python scripts/cross_compile.py x86_64-windows --output stackmask.dll
    python scripts/cross_compile.py x86_64-windows --objects --output objects   # compiled and not linked
    python scripts/cross_compile.py x86_64-windows --bindings               # the Python module, compiled and not linked

A warning is an error.

WebAssembly (wasm32-wasi, one thread) throws by the exception handling proposal, which Node 17, Chrome 95, Firefox 100 and Safari 15.2 have.
The clang of ziglang carries the sources of libc++abi and libunwind but builds them without exceptions for this target, so the parts that
throw are compiled here.

To link, ziglang first compiles its C and C++ libraries for the system, which takes three to seven minutes of one core; it keeps them.

`--bindings` shows that nanobind and the bindings compile for the system without a warning, with its sizes of types and its C library.
It does not show that the module links or loads. Python's headers are those of the Python that runs this, which are the same everywhere but
for `pyconfig.h`; that one is written here, with the lines that the headers ask for.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNEL = ROOT / "pda" / "kernel"
FILES = 4  # that include those of the kernel, so that four cores work
TARGETS = {"wasm32-wasi": "wasm32-wasi", "aarch64-macos": "aarch64-macos", "x86_64-windows": "x86_64-windows-gnu"}
STRICT = ["-std=c++20", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror", f"-I{KERNEL}"]
THROWING = ["-fwasm-exceptions", "-mexception-handling", "-mllvm", "-wasm-enable-eh"]
SUPPORT = {
    "tag.s": ".tagtype __cpp_exception i32\n.globl __cpp_exception\n__cpp_exception:\n",  # what a C++ exception is to WebAssembly
    # There is one thread, and it never ends: nothing waits to be destroyed at its end.
    "thread.c": "int __cxa_thread_atexit(void (*f)(void *), void *a, void *d) { (void)f, (void)a, (void)d; return 0; }\n",
}
PYCONFIG = {
    "all": {
        "SIZEOF_SHORT": 2, "SIZEOF_INT": 4, "SIZEOF_LONG_LONG": 8, "SIZEOF_VOID_P": 8, "SIZEOF_SIZE_T": 8, "SIZEOF_TIME_T": 8,
        "SIZEOF_FLOAT": 4, "SIZEOF_DOUBLE": 8, "SIZEOF_FPOS_T": 8,
        "HAVE_SSIZE_T": 1, "HAVE_STDARG_PROTOTYPES": 1, "WITH_DOC_STRINGS": 1, "Py_ENABLE_SHARED": 1,
    },
    "aarch64-macos": {
        "SIZEOF_LONG": 8, "SIZEOF_WCHAR_T": 4, "SIZEOF_PID_T": 4, "SIZEOF_OFF_T": 8, "HAVE_UNISTD_H": 1, "HAVE_PTHREAD_H": 1,
    },
    "x86_64-windows": {
        "SIZEOF_LONG": 4, "SIZEOF_WCHAR_T": 2, "SIZEOF_PID_T": 8, "SIZEOF_OFF_T": 4,
        "MS_WINDOWS": 1, "MS_WIN32": 1, "MS_WIN64": 1, "NT_THREADS": 1, "HAVE_DECLSPEC_DLL": 1,
    },
}  # fmt: skip
"""What `pyconfig.h` says on each system, as far as Python's headers ask."""


def clang(language: str, *arguments: str | Path) -> None:
    """Runs the clang of ziglang as a compiler or linker of C (`cc`) or C++ (`c++`).

    Raises:
        RuntimeError: with what it printed, where it fails.

    """
    done = subprocess.run([sys.executable, "-m", "ziglang", language, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")


def compile_all(jobs: list[tuple[Path, Path, list[str]]]) -> list[Path]:
    """Compiles each (source, object, flags) on all cores; the objects."""

    def one(job: tuple[Path, Path, list[str]]) -> Path:
        source, made, flags = job
        clang("cc" if source.suffix in (".c", ".s") else "c++", "-c", *flags, source, "-o", made)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(one, jobs))


def joined_sources(work: Path) -> list[Path]:
    """Writes files that include those of the kernel: compiled by themselves, 50 files take four times as long, most of it for headers."""
    sources = [path for path in sorted(KERNEL.rglob("*.cpp")) if path.parent.name != "bindings"]
    joined = [work / f"kernel_{at}.cpp" for at in range(FILES)]
    for at, path in enumerate(joined):
        path.write_text("".join(f'#include "{source}"\n' for source in sources[at::FILES]))
    return joined


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


def build(name: str, output: Path, work: Path, level: str = "2", link: bool = True) -> None:
    """Builds the C library of the kernel for a target of TARGETS from objects in `work`; `level` is the optimisation."""
    wasm = name.startswith("wasm")
    target = ["-target", TARGETS[name], *(THROWING if wasm else ["-fPIC"] if "windows" not in name else [])]
    jobs = [(path, path.with_suffix(".o"), [*target, f"-O{level}", *STRICT]) for path in joined_sources(work)]
    objects = compile_all([*jobs, *(runtime_jobs(work, target) if wasm else [])])
    if not link:
        return
    if wasm:
        names = re.findall(r"^STACKMASK_API [^(]*?(stackmask_\w+)\(", (KERNEL / "c" / "stackmask.h").read_text(), re.MULTILINE)
        exports = [f"-Wl,--export={name}" for name in (*names, "malloc", "free")]
        clang("c++", *target, "-mexec-model=reactor", "-Wl,--strip-debug", *exports, *objects, "-o", output)
    else:
        clang("c++", *target, "-shared", *objects, "-o", output)


def compile_bindings(name: str, output: Path, work: Path) -> None:
    """Compiles the bindings for a target of PYCONFIG, all files as one, since nanobind's headers take most of the time."""
    import nanobind

    headers = work / "python"
    shutil.copytree(sysconfig.get_paths()["include"], headers, dirs_exist_ok=True)
    lines = {**PYCONFIG["all"], **PYCONFIG[name]}.items()
    (headers / "pyconfig.h").write_text("".join(f"#define {macro} {value}\n" for macro, value in lines))
    source = work / "bindings.cpp"
    source.write_text("".join(f'#include "{path}"\n' for path in sorted((KERNEL / "bindings").glob("*.cpp"))))
    # nanobind's headers shadow, convert, and use stdio without including it.
    flags = [*STRICT, "-Wno-shadow", "-Wno-conversion", "-include", "cstdio", f"-I{headers}", "-isystem", nanobind.include_dir()]
    clang("c++", "-target", TARGETS[name], "-c", "-O0", "-g0", "-fno-sanitize=undefined", *flags, source, "-o", output)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--output", type=Path, help="the library, or the object of the bindings")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--objects", action="store_true", help="compile the library into the folder `--output`, and do not link it")
    parts.add_argument("--bindings", action="store_true", help="compile the bindings of Python, without the kernel")
    parser.add_argument("--level", default="2", choices=["0", "1", "2", "3"], help="of optimisation")
    options = parser.parse_args()
    if options.bindings and options.target not in PYCONFIG:
        parser.error(f"bindings are compiled for {' and '.join(sorted(PYCONFIG.keys() - {'all'}))}")
    if options.output is None and not options.bindings:
        parser.error("--output is missing")
    with tempfile.TemporaryDirectory() as folder:
        work = options.output if options.objects else Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        output = options.output or work / "bindings.o"
        try:
            if options.bindings:
                compile_bindings(options.target, output, work)
            else:
                build(options.target, output, work, options.level, link=not options.objects)
        except RuntimeError as error:
            sys.exit(str(error))
        size = sum(path.stat().st_size for path in output.glob("*.o")) if options.objects else output.stat().st_size
        print(f"{output.name}: {size:,} bytes for {TARGETS[options.target]}")


if __name__ == "__main__":
    main()
