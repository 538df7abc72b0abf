"""A build of llama.cpp for this machine, fetched once: `python -m stackmask.integration.llama_cpp.fetch`.

The shared libraries are those of the npm package `@node-llama-cpp/<platform>`: llama.cpp v0.5.0 with one CPU back end for each generation
of processors. One version is pinned with the SHA-512 that the registry states, because the C interface has structures that change from
version to version (`library`). Nothing of the package is executed but these libraries.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import Final

from ...pda.exceptions import StackmaskError

VERSION: Final = "3.22.1"
PACKAGES: Final = {
    ("Linux", "x86_64"): ("linux-x64", "5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg=="),
    ("Linux", "aarch64"): ("linux-arm64", "W+7naKCXX9/eEjjFmRS8vvx91QyLXDbeFxexZc3bh/PtQABZgmRL3C0AtYYXn4YGTj/3Qor4lWZn2tpjZFPLdQ=="),
}
"""The package of each platform that has this version, and the base64 of its SHA-512."""


class FetchError(StackmaskError):
    """There is no build for this machine, or it could not be fetched whole."""


def library_directory() -> Path:
    """The folder of a fetched build: below $XDG_CACHE_HOME, or ~/.cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "stackmask" / f"node-llama-cpp-{VERSION}"


def fetched_library() -> Path | None:
    """The path of libllama in a fetched build; None where none was fetched."""
    return next(iter(sorted(library_directory().glob("libllama.*so*"))), None)


def fetch(directory: Path | None = None, *, timeout: float = 60.0) -> Path:
    """Fetch the build for this machine into `directory`, `library_directory()` by default; the path of its libllama."""
    target = library_directory() if directory is None else directory
    found = next(iter(sorted(target.glob("libllama.*so*"))), None)
    if found is not None:
        return found
    machine = (platform.system(), platform.machine())
    if machine not in PACKAGES:
        known = ", ".join(" ".join(names) for names in PACKAGES)
        raise FetchError(f"no build is pinned for {' '.join(machine)}, only for {known}; set STACKMASK_LIBLLAMA to a libllama v0.5.0")
    name, integrity = PACKAGES[machine]
    registry = os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")
    url = f"{registry}/@node-llama-cpp/{name}/-/{name}-{VERSION}.tgz"
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response:
            data: bytes = response.read()
    except OSError as error:
        raise FetchError(f"cannot fetch {url}: {error}") from None
    if base64.b64encode(hashlib.sha512(data).digest()).decode() != integrity:
        raise FetchError(f"{url} does not have the pinned content")
    return _unpack(data, target)


def _unpack(data: bytes, target: Path) -> Path:
    """Put the shared libraries of a package into `target`, all of them or none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as temporary, tarfile.open(fileobj=io.BytesIO(data)) as archive:
        new = Path(temporary) / "new"
        new.mkdir()
        for member in archive:
            path = Path(member.name)
            content = archive.extractfile(member)
            if content is not None and path.parts[:2] == ("package", "bins") and ".so" in path.suffixes:
                (new / path.name).write_bytes(content.read())
        if not target.exists():  # another process may have been faster
            new.rename(target)
    found = next(iter(sorted(target.glob("libllama.*so*"))), None)
    if found is None:
        raise FetchError(f"{target} has no libllama: remove it, and fetch again")
    return found


def main() -> int:
    """Fetch, and print the path of the library."""
    try:
        print(fetch())
    except FetchError as error:
        print(f"stackmask: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
