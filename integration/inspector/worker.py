"""The process of the inspector: `python -m ...inspector.worker CHANNEL`; it ends when the other end of its channel does."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from ...pda.limits import Limits
from ...pda.vocabulary import Vocabulary
from .inspector import Inspector
from .request import RequestError
from .service import Answer, TokenizerData, failure
from .tokens import Tokenizer


def main() -> None:
    """Answer one request after the other."""
    channel = Connection(int(sys.argv[1]))
    tokenizers, seconds, memory = pickle.loads(channel.recv_bytes())
    with contextlib.suppress(ImportError, ValueError):  # Windows has none, and a lower limit may be set already
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with contextlib.suppress(OSError, AttributeError):
        os.nice(5)  # generation goes first
    ready = [make_tokenizer(data) for data in tokenizers]
    ready[0].prepare()
    inspector = Inspector(ready, limits=Limits(compile_seconds=seconds * 0.7, states=500_000))
    for kind, text in (("json_schema", "{}"), ("ebnf", "root ::= 'a'"), ("lark", 'start: "a"')):  # what front ends import, they import now
        inspector.inspect({"specification": {"kind": kind, "text": text}})
    with contextlib.suppress(EOFError, OSError):
        channel.send_bytes(b"ready")
        while True:
            channel.send_bytes(pickle.dumps(_answer(inspector, channel.recv_bytes())))


def _answer(inspector: Inspector, body: bytes) -> Answer:
    try:
        return 200, json.dumps(inspector.inspect(json.loads(body))).encode()
    except RequestError as error:
        return failure(400, str(error), "invalid_request", error.field)
    except (ValueError, RecursionError):
        return failure(400, "the body is not readable JSON", "invalid_request")
    except MemoryError:
        os._exit(1)  # the other end makes a new process
    except Exception as error:  # a fault of the inspector's: one request fails, the page continues
        logging.getLogger("stackmask.inspector").exception("error in an inspection")
        return failure(500, f"the inspector failed: {type(error).__name__}", "internal_error")


def make_tokenizer(data: TokenizerData) -> Tokenizer:
    """A tokenizer out of what describes it."""
    vocabulary = Vocabulary.from_bytes(list(data.tokens), stop_token_ids=data.stop_token_ids, special=data.special, size=data.size)
    encode: Callable[[str], Sequence[int]] | None = None
    if data.backend is not None:
        with contextlib.suppress(ImportError):
            from tokenizers import Tokenizer as Backend

            backend: Any = Backend.from_str(data.backend)

            def encode(text: str) -> Sequence[int]:
                ids: Sequence[int] = backend.encode(text, add_special_tokens=False).ids
                return ids

    return Tokenizer(data.name, vocabulary, encode)


if __name__ == "__main__":
    main()
