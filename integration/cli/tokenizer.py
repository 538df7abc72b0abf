"""A tokenizer by its file, for commands that need no model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..tokenizers import Vocabulary
from .command import CommandError

ENDS = ("end", "eot", "eos", "</s>", "im_end")
"""Words in the names of special tokens that end a text."""


def read_tokenizer(path: str) -> tuple[str, Vocabulary, Any]:
    """Name, vocabulary and `tokenizers.Tokenizer` of a tokenizer.json, or of a directory that has one."""
    place = Path(path)
    file = place / "tokenizer.json" if place.is_dir() else place
    name = place.resolve().name if place.is_dir() else place.resolve().parent.name if place.name == "tokenizer.json" else place.stem
    if not file.is_file():
        raise CommandError(f"{file}: there is no such tokenizer.json")
    try:
        from tokenizers import Tokenizer as Backend
    except ImportError:
        raise CommandError("--tokenizer needs the package tokenizers: pip install tokenizers") from None
    try:
        backend: Any = Backend.from_file(str(file))
        special = [token.content for token in backend.get_added_tokens_decoder().values() if token.special]
        stops = [backend.token_to_id(token) for token in special if any(word in token for word in ENDS)]
        return name, Vocabulary.from_transformers(backend, stop_token_ids=stops), backend
    except Exception as error:  # the library raises what it likes
        raise CommandError(f"{file}: {str(error).splitlines()[0][:200]}") from None
