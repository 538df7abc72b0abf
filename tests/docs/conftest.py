"""What the blocks of the documentation share: a folder, and a server that starts when a block first asks for it."""

import functools

import pytest


@pytest.fixture(scope="session")
def session(tmp_path_factory):
    """The session of `support.blocks`."""
    from support.blocks import Session
    from support.server import Server

    servers = []

    @functools.cache
    def server() -> str:
        servers.append(Server())
        return servers[0].url

    yield Session(server, tmp_path_factory.mktemp("blocks"))
    for started in servers:
        started.stop()
        assert all(line.startswith(("serving", "  ")) for line in started.lines), "".join(started.lines)
