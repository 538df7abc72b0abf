"""llama.cpp's library: what is taken, and what is refused with a reason."""

import ctypes
import io
import sys
import tarfile
from types import ModuleType, SimpleNamespace

import pytest

from stackmask.integration.llama_cpp import fetch
from stackmask.integration.llama_cpp import library as module
from stackmask.integration.llama_cpp.library import ContextParams, Library, LibraryError, ModelParams
from stackmask.integration.llama_cpp.sampler import _Interface


def test_sizes_are_those_of_the_header():
    """The structures have the sizes and offsets that a C compiler gives those of llama.h v0.5.0 on 64-bit systems."""
    assert ModelParams.spare.offset == 78  # of 80 bytes, padding included
    assert ContextParams.spare.offset == 160
    assert (ContextParams.type_k.offset, ContextParams.kv_unified.offset, ModelParams.load_mtp.offset) == (104, 133, 77)
    assert (ctypes.sizeof(module.Batch), ctypes.sizeof(_Interface), ctypes.sizeof(module.TokenDataArray)) == (56, 96, 32)


def test_defaults_are_looked_at(library, monkeypatch):
    """A library whose defaults are others than the version's has another layout, and is refused before it is used."""
    for table, name in ((module.MODEL_DEFAULTS, "main_gpu"), (module.CONTEXT_DEFAULTS, "n_rs_seq"), (module.CONTEXT_DEFAULTS, "swa_full")):
        with monkeypatch.context() as context:
            context.setitem(table, name, not table.get(name, 0))
            with pytest.raises(LibraryError, match=f"{name}.*another layout"):
                Library(library.path)


def test_another_version_is_refused(library, monkeypatch):
    """The layout is known for one version."""
    monkeypatch.setattr(module, "VERSIONS", ("0.4.",))
    with pytest.raises(LibraryError, match=r"is llama\.cpp 0\.5\.0"):
        Library(library.path)


def test_other_files_are_refused(library, tmp_path, monkeypatch):
    """What is no library, or not llama.cpp, is an error that says so; and so is that there is none."""
    with pytest.raises(LibraryError, match="cannot load"):
        Library(tmp_path / "libllama.so")
    with pytest.raises(LibraryError, match="has no llama_backend_init"):
        Library(next(iter(library.path.parent.glob("libggml-base*"))))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("STACKMASK_LIBLLAMA", raising=False)
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LibraryError, match="fetch"):
        Library.open.__wrapped__()
    monkeypatch.setenv("STACKMASK_LIBLLAMA", str(tmp_path / "nowhere.so"))
    with pytest.raises(LibraryError, match=r"nowhere\.so"):
        Library.open.__wrapped__()


def test_the_library_of_llama_cpp_python(library, monkeypatch):
    """The package says where its library is and how its structures are laid out; nothing else is asked of it."""
    package, bindings = ModuleType("llama_cpp"), ModuleType("llama_cpp.llama_cpp")
    bindings._lib = SimpleNamespace(_name=str(library.path))
    bindings.llama_model_params = type("P", (ModelParams,), {})
    bindings.llama_context_params = type("C", (ContextParams,), {})
    monkeypatch.setitem(sys.modules, "llama_cpp", package)
    monkeypatch.setitem(sys.modules, "llama_cpp.llama_cpp", bindings)
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: name == "llama_cpp")
    monkeypatch.delenv("STACKMASK_LIBLLAMA", raising=False)
    found = Library.open.__wrapped__()
    assert found.path == library.path
    assert type(found.context_params()) is bindings.llama_context_params


def package(files, path):
    """The tarball of an npm package with these files, and the base64 of its SHA-512."""
    import base64
    import hashlib

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    path.parent.mkdir(parents=True)
    path.write_bytes(data.getvalue())
    return base64.b64encode(hashlib.sha512(data.getvalue()).digest()).decode()


def test_fetch(tmp_path, monkeypatch):
    """A build is taken as a whole, once, where its content is what is pinned; libraries alone are unpacked, and only into the directory."""
    registry = tmp_path / "registry"
    files = {"package/bins/x/libllama.v0.so": b"1", "package/bins/x/libggml.so.1": b"2", "package/bins/x/a.node": b"", "../../evil.so": b""}
    integrity = package(files, registry / "@node-llama-cpp" / "there" / "-" / f"there-{fetch.VERSION}.tgz")
    machine = (fetch.platform.system(), fetch.platform.machine())
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"{registry.as_uri()}/")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert fetch.fetched_library() is None
    monkeypatch.setattr(fetch, "PACKAGES", {})
    with pytest.raises(fetch.FetchError, match="no build is pinned"):
        fetch.fetch()
    monkeypatch.setattr(fetch, "PACKAGES", {machine: ("there", "AAAA")})
    with pytest.raises(fetch.FetchError, match="does not have the pinned content"):
        fetch.fetch()
    monkeypatch.setattr(fetch, "PACKAGES", {machine: ("elsewhere", integrity)})
    assert fetch.main() == 1
    monkeypatch.setattr(fetch, "PACKAGES", {machine: ("there", integrity)})
    path = fetch.fetch()
    assert path == fetch.fetched_library() == fetch.library_directory() / "libllama.v0.so"
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["libggml.so.1", "libllama.v0.so"]
    assert not list(tmp_path.rglob("evil.so"))
    monkeypatch.setattr(fetch, "PACKAGES", {})
    assert fetch.main() == 0, "it is there already"
