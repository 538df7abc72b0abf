"""Fixtures of the tests of llama.cpp: its library, and small models."""

import pytest


@pytest.fixture(scope="session")
def library():
    """The fetched build of llama.cpp; .ci/run fetches it."""
    pytest.importorskip("gguf")
    pytest.importorskip("torch")
    from stackmask.integration.llama_cpp.fetch import fetched_library
    from stackmask.integration.llama_cpp.library import Library

    path = fetched_library()
    if path is None:
        pytest.skip("there is no llama.cpp: python -m stackmask.integration.llama_cpp.fetch")
    return Library.open(path)


@pytest.fixture(scope="session")
def files(library, tmp_path_factory):
    """GGUF files: the demo model, and one of random weights for each kind of vocabulary."""
    from support.gguf_models import demo_gguf, random_gguf

    directory = tmp_path_factory.mktemp("gguf")
    return {
        "demo": demo_gguf(directory / "demo.gguf"),
        "spm": random_gguf(directory / "spm.gguf"),
        "bpe": random_gguf(directory / "bpe.gguf", kind="bpe"),
    }


@pytest.fixture(scope="session")
def loaded(library, files):
    """Each of these as a model and its tokenizer, on one thread: the tests share the cores."""
    from stackmask.integration.llama_cpp.model import load_gguf

    return {name: load_gguf(path, threads=1, library=library) for name, path in files.items()}
