"""The files of the page, from the package: the file of a path, and the headers that keep untrusted text from becoming code."""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "static"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
NONCE: Final = b"{{nonce}}"


class Asset(NamedTuple):
    """A file of the page with its headers."""

    content: bytes
    headers: dict[str, str]


def asset(name: str) -> Asset | None:
    """The page for the empty name, or one of its files; None where there is no such file."""
    content = _files().get(name or "index.html")
    if content is None:
        return None
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "Content-Type": TYPES[Path(name or "index.html").suffix],
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
    return Asset(content.replace(NONCE, nonce.encode()), headers)


@cache
def _files() -> dict[str, bytes]:
    """Every file by its name; they are few and small, and no path of a request ever reaches the disk."""
    return {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.suffix in TYPES}
