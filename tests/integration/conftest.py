"""Fixtures that the tests of models share."""

import pytest


@pytest.fixture(scope="session")
def model():
    """The demo model and its tokenizer, on one thread."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from stackmask.integration.demo import load_model

    torch.set_num_threads(1)
    return load_model()


@pytest.fixture(scope="module")
def engine(model):
    """An engine without a thread: it works while somebody waits for an answer."""
    from stackmask.integration.engine import Engine

    return Engine(*model, max_running=16)
