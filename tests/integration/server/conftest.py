"""Servers that the tests of protocols share."""

import pytest


def _serve(*arguments):
    from support.server import Server

    server = Server(*arguments)
    yield server
    server.stop()
    assert all(line.startswith(("serving", "  ")) for line in server.lines), f"something went wrong in silence: {''.join(server.lines)}"


@pytest.fixture(scope="session")
def demo():
    """A server of the demo model."""
    yield from _serve()


@pytest.fixture(scope="session")
def thinker():
    """One whose model may think."""
    yield from _serve("--reasoning-end", "</think>")
