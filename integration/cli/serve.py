"""`stackmask serve`: an OpenAI-compatible server over a Hugging Face model, a GGUF file or an MLX model, in which constraints hold."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

from ...schema.emit.json_parts import DEFAULT_WHITESPACE
from .command import OK, Command, CommandError, integer, note
from .loading import shown_loading

KINDS: Final = frozenset({"json_schema", "regex", "ebnf", "lark", "choice", "structural_tag"})
DTYPES: Final = ("auto", "float32", "float16", "bfloat16")
LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")
PLAIN_TEMPLATE: Final = (
    "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
)
"""The chat template for a model without one."""
LEFT: Final = 1.5  # seconds after those of `--grace` in which the process ends


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--model", metavar="DIR", help="a Hugging Face model (default: the demo model in the package)")
    model.add_argument("--gguf", metavar="FILE", help="a GGUF model, run by llama.cpp")
    model.add_argument("--mlx", metavar="DIR", help="an MLX model, run by mlx-lm: a directory or a name of Hugging Face")
    model.add_argument("--demo", action="store_true", help="the demo model in the package")
    parser.add_argument(
        "--draft-model", metavar="DIR", help="a smaller model of the same kind and vocabulary, for speculative decoding; a file with --gguf"
    )
    parser.add_argument("--context", type=integer(1), metavar="N", help="tokens of a request, with --gguf (default: up to 4096)")
    parser.add_argument("--dtype", default="auto", choices=DTYPES, help="number type of the model (default: that of its files)")
    parser.add_argument("--device", metavar="DEVICE", help="where the model runs, such as cuda:1 (default: the GPU, if there is one)")
    parser.add_argument("--chat-template", metavar="FILE", help="a chat template in Jinja, in place of the model's")
    parser.add_argument("--served-model-name", metavar="NAME", help="the model's name for clients (default: the directory's name, or demo)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=integer(0), default=8000, help="port to listen on, 0 for any free one (default: 8000)")
    key = parser.add_mutually_exclusive_group()
    key.add_argument("--api-key", metavar="KEY", help="clients must send it (default: $STACKMASK_API_KEY, or none)")
    key.add_argument("--api-key-file", metavar="FILE", help="a file with that key, which other users of the machine cannot see")
    parser.add_argument(
        "--cors-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="origin whose browser pages may send requests, * for all; repeatable",
    )
    parser.add_argument("--log-level", default="warning", choices=LEVELS, help="info logs every request (default: warning)")
    parser.add_argument("--log-format", default="text", choices=FORMATS, help="lines of text or JSON objects (default: text)")
    parser.add_argument(
        "--max-concurrent", type=integer(1), metavar="N", help="requests in a batch (default: 64, and 8 with --gguf or --mlx)"
    )
    parser.add_argument("--max-queue", type=integer(0), default=256, metavar="N", help="waiting requests; more get 429 (default: 256)")
    parser.add_argument("--max-tokens", type=integer(1), metavar="N", help="for requests that set no limit (default: the model's context)")
    parser.add_argument("--max-body-bytes", type=integer(1), default=4 << 20, metavar="N", help="longest request (default: 4 MiB)")
    grammar = parser.add_argument_group("grammars")
    grammar.add_argument(
        "--constraints", type=_kinds, metavar="KINDS", help="kinds that clients may send, such as json_schema,choice (default: all)"
    )
    grammar.add_argument(
        "--json-whitespace",
        default=DEFAULT_WHITESPACE,
        metavar="HOW",
        help="blanks in JSON: printed (default), single, compact, flexible, or a regex",
    )
    grammar.add_argument("--grammar-threads", type=integer(1), metavar="N", help="compilations at a time (default: half the cores, or 2)")
    grammar.add_argument(
        "--grammar-cache-bytes", type=integer(0), default=512 << 20, metavar="N", help="compiled grammars (default: 512 MiB)"
    )
    grammar.add_argument("--grammar-timeout", type=_positive, default=10.0, metavar="S", help="seconds for one grammar (default: 10)")
    grammar.add_argument("--max-grammar-bytes", type=integer(1), default=1 << 20, metavar="N", help="longest grammar (default: 1 MiB)")
    decoding = parser.add_argument_group("decoding")
    decoding.add_argument(
        "--prefill-tokens",
        type=integer(1),
        metavar="N",
        help="tokens of new prompts that are read between the steps of running requests (default: 64, and 512 on a GPU)",
    )
    decoding.add_argument("--speculation", type=integer(0), default=0, metavar="N", help="draft tokens a step (default: 0)")
    decoding.add_argument("--jump-forward", action="store_true", help="append forced text without a step for each token")
    decoding.add_argument("--reasoning-end", metavar="TEXT", help="text that ends the model's reasoning, such as </think>")
    decoding.add_argument("--tool-format", metavar="NAME", help="the model's tool-call notation (default: derived from the tokenizer)")
    decoding.add_argument("--torch-threads", type=integer(1), metavar="N", help="threads of one operation (default: 1 for the demo model)")
    parser.add_argument(
        "--grace", type=_positive, default=3.0, metavar="S", help="seconds for running requests to finish on shutdown (default: 3)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until stopped."""
    import uvicorn

    from ..server import ServerOptions, create_app
    from ..server.logs import configure_logs
    from ..tools import FORMATS

    if arguments.tool_format is not None and arguments.tool_format not in FORMATS:
        raise CommandError(f"no tool format is called {arguments.tool_format!r}; available: {', '.join(FORMATS)}")
    key, text = _api_key(arguments), read_template(arguments.chat_template)
    engine, name = load_engine(arguments)
    template = set_chat_template(engine.tokenizer, arguments.chat_template, text)
    configure_logs(arguments.log_level, arguments.log_format)
    options = ServerOptions(
        model_name=arguments.served_model_name or name,
        api_key=key,
        cors_origins=tuple(arguments.cors_origin),
        constraints=arguments.constraints,
        json_whitespace=arguments.json_whitespace,
        grammar_timeout=arguments.grammar_timeout,
        max_queue=arguments.max_queue,
        max_body_bytes=arguments.max_body_bytes,
        max_grammar_bytes=arguments.max_grammar_bytes,
        default_max_tokens=arguments.max_tokens,
        reasoning_end=arguments.reasoning_end,
        tool_format=arguments.tool_format,
        speculation=arguments.speculation,
        jump_forward=arguments.jump_forward,
    )
    app = create_app(engine, options)
    config = uvicorn.Config(
        app,
        host=arguments.host,
        port=arguments.port,
        log_config=None,
        access_log=False,  # the gate has a log of its own
        timeout_graceful_shutdown=max(1, int(arguments.grace)),
    )

    nowhere = os.open(os.devnull, os.O_WRONLY)  # stays open: it is used after this function has returned, if at all

    class Server(uvicorn.Server):  # type: ignore[misc, unused-ignore]  # uvicorn may be absent
        """A server that ends in time, whatever runs."""

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            """Begin to end; where that takes too long, a thread that needs nothing of the interpreter ends the process."""
            faulthandler.dump_traceback_later(arguments.grace + LEFT, exit=True, file=nowhere)
            super().handle_exit(sig, frame)

    server = Server(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn heeds them while it serves, and raises them again when it has ended
    # PERF: what is there now stays. Going through it for garbage took 250 ms every 15 s with 64 clients, in which nobody got a token.
    gc.collect()
    gc.freeze()
    gc.collect()  # the next is due when a quarter of what this one saw has been added: of nothing, not of all that is frozen
    try:
        with _announce(server, app, template):
            server.run()
    finally:
        gc.unfreeze()
        engine.compiler.close()
    return OK


@contextmanager
def _announce(server: Any, app: Any, template: str) -> Iterator[None]:
    """Print the server's address as soon as it listens, and its settings."""
    from ..server.summary import summary

    def wait() -> None:
        while not server.started and not server.should_exit:
            time.sleep(0.05)
        if not server.started:
            return
        serving = app.state.serving
        for listener in server.servers:
            for socket in listener.sockets:
                host, port = socket.getsockname()[:2]
                note(f"serving {serving.options.model_name} at http://{host}:{port}/v1")
        note("\n".join(summary(serving, template)))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    yield
    server.should_exit = True


def load_engine(arguments: argparse.Namespace) -> tuple[Any, str]:
    """The engine that the arguments describe, and the name of its model."""
    import torch
    from transformers.utils import logging as transformers_logging

    from ...pda.exceptions import LimitError
    from ...pda.limits import Limits
    from ..engine import Engine
    from ..llama_cpp.library import LibraryError
    from ..processes.pool import WorkerCompiler
    from ..tokenizers import model_vocabulary

    logging: Any = transformers_logging  # its functions have no annotations
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if arguments.context is not None and arguments.gguf is None:
        raise CommandError("--context has no effect without --gguf: other models have their own context")
    is_torch = arguments.gguf is None and arguments.mlx is None
    if not is_torch and (arguments.dtype != "auto" or arguments.device is not None):
        raise CommandError("--dtype and --device are for models of transformers; a GGUF or MLX model has its own numbers and device")
    if arguments.torch_threads or arguments.model is None:
        torch.set_num_threads(arguments.torch_threads or 1)  # PERF: the demo model's matrices are too small for two threads
    try:
        load, path = _loader(arguments)
        with shown_loading(path):
            model, tokenizer = load(path)
        with shown_loading(arguments.draft_model):
            draft = load(arguments.draft_model)[0] if arguments.draft_model else None
    except (OSError, ValueError, RuntimeError, LibraryError) as error:  # RuntimeError is torch's, of a device that is not there
        raise CommandError(f"cannot load a model: {str(error).splitlines()[0]}") from None
    compiler = WorkerCompiler(
        model_vocabulary(tokenizer, model.config.get_text_config().vocab_size),
        limits=Limits(compile_seconds=arguments.grammar_timeout, specification_bytes=arguments.max_grammar_bytes),
        cache_bytes=arguments.grammar_cache_bytes,
        workers=arguments.grammar_threads,
    )
    try:
        compiler.start_workers()
    except LimitError as error:
        raise CommandError(str(error)) from None
    name = "demo" if path is None else Path(path).resolve().name.removesuffix(".gguf")
    engine = Engine(
        model,
        tokenizer,
        compiler=compiler,
        draft_model=draft,
        max_running=arguments.max_concurrent or (64 if is_torch else 8),
        max_waiting=arguments.max_queue,
        prefill_tokens=arguments.prefill_tokens,
    )
    return engine, name


def _loader(arguments: argparse.Namespace) -> tuple[Callable[[Any], tuple[Any, Any]], str | None]:
    """The function that loads a model and its tokenizer, and where the model is; None is the demo model."""
    if arguments.gguf is not None:
        from ..llama_cpp.model import load_gguf

        return partial(load_gguf, context=arguments.context, threads=arguments.torch_threads), arguments.gguf
    if arguments.mlx is not None:
        try:
            from ..mlx.model import load_mlx
        except ImportError as error:
            raise CommandError(f"--mlx needs mlx-lm (pip install mlx-lm): {error}") from None
        return load_mlx, arguments.mlx
    from ..demo import load_model

    return partial(load_model, dtype=arguments.dtype, device=arguments.device), arguments.model


def read_template(path: str | None) -> str | None:
    """The chat template in a file."""
    try:
        return None if path is None else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise CommandError(f"cannot read the chat template: {error}") from None


def set_chat_template(tokenizer: Any, path: str | None, text: str | None) -> str:
    """Give a tokenizer the chat template of a file, or a plain one where it has none; in words, which it has then."""
    if text is not None:
        tokenizer.chat_template = text
        return f"the template in {path}"
    if getattr(tokenizer, "chat_template", None):
        return "the model's own template"
    note("warning: the model has no chat template; chats are written as lines of `role: text` (see --chat-template)")
    tokenizer.chat_template = PLAIN_TEMPLATE
    return "a plain template, as the model has none"


def _api_key(arguments: argparse.Namespace) -> str | None:
    """The key that clients send, from the command line, a file or the environment."""
    if arguments.api_key_file is None:
        return arguments.api_key or os.environ.get("STACKMASK_API_KEY") or None
    try:
        key = Path(arguments.api_key_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise CommandError(f"cannot read the API key: {error}") from None
    if not key or any(character.isspace() for character in key):
        raise CommandError(f"{arguments.api_key_file} holds no API key, or more than one")
    return key


def _kinds(text: str) -> frozenset[str]:
    """Kinds of constraints, separated by commas."""
    kinds = frozenset(kind for kind in text.split(",") if kind)
    if unknown := sorted(kinds - KINDS):
        raise argparse.ArgumentTypeError(f"no constraint is called {unknown[0]!r}; available: {', '.join(sorted(KINDS))}")
    return kinds


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not more than 0")
    return value


COMMAND = Command("serve", "serve a model with OpenAI's interface and enforced constraints", configure, run)
