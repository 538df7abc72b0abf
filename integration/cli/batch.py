"""`stackmask batch`: a file of requests into a file of answers, each line with its own constraint.

A line is the body of a chat completion, or OpenAI's batch form `{"custom_id", "method", "url", "body"}`.
An answer is OpenAI's batch form: `{"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error": null}`.
Without a `custom_id` a line is called by its number, `line-1` for the first.

The run can be interrupted at any time, even by a kill: answers are appended as they come, and a later run does the rest.
A partly written last line is removed first. Answers come in the order in which they finish.
The requests run in this process, or with `--url` on a server. If that server stops answering, the run ends and can be continued later.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from .command import INTERRUPTED, OK, REFUSED, Command, CommandError, integer, note
from .serve import DTYPES, load_engine, read_template, set_chat_template

Json = dict[str, Any]
Complete = Callable[[Json], Awaitable[tuple[int, Json]]]
"""Answers a body: gives the HTTP status and the body of the answer."""

LONGEST_LINE: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Job:
    """One line of the input."""

    custom_id: str
    body: Json | None
    problem: str | None = None


class ServerGoneError(Exception):
    """The server answers no more."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("input", metavar="IN.jsonl", help="requests, one a line")
    parser.add_argument("output", metavar="OUT.jsonl", help="answers; existing ones are kept and not requested again")
    parser.add_argument("--model", metavar="DIR", help="a Hugging Face model (default: the demo model in the package)")
    parser.add_argument("--draft-model", metavar="DIR", help="a smaller model with the same vocabulary, for speculative decoding")
    parser.add_argument("--dtype", default="auto", choices=DTYPES, help="number type of the model (default: that of its files)")
    parser.add_argument("--device", metavar="DEVICE", help="where the model runs, such as cuda:1 (default: the GPU, if there is one)")
    parser.add_argument("--chat-template", metavar="FILE", help="a chat template in Jinja, in place of the model's")
    parser.add_argument("--url", metavar="URL", help="a server's base URL, such as http://127.0.0.1:8000/v1, in place of a model here")
    parser.add_argument("--api-key", metavar="KEY", help="the server's key (default: $STACKMASK_API_KEY)")
    parser.add_argument("--max-concurrent", type=integer(1), default=32, metavar="N", help="requests at a time (default: 32)")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(
        gguf=None,
        mlx=None,
        context=None,
        torch_threads=None,
        prefill_tokens=None,
        grammar_timeout=30.0,
        max_grammar_bytes=4 << 20,
        grammar_cache_bytes=512 << 20,
        grammar_threads=None,
        max_queue=1 << 30,
    )


def run(arguments: argparse.Namespace) -> int:
    """Answer the requests that have no answer yet."""
    if Path(arguments.input).resolve() == Path(arguments.output).resolve():
        raise CommandError("the answers cannot be written to the file of the requests")
    jobs = list(read_jobs(Path(arguments.input)))
    output = Path(arguments.output)
    done = finished(output)
    left = [job for job in jobs if job.custom_id not in done]
    if done:
        note(f"{len(jobs) - len(left)} of {len(jobs)} are done already")
    with output.open("a", encoding="utf-8") as file:
        try:
            failed = asyncio.run(_run(left, file, arguments, Progress(len(left), quiet=arguments.quiet)))
        except ServerGoneError as error:
            raise CommandError(f"{error}; run the same command again to continue") from None
        except asyncio.CancelledError:
            return INTERRUPTED
    if failed:
        note(f"{failed} of {len(left)} have an error, in their line")
    return REFUSED if failed else OK


def read_jobs(path: Path) -> Iterator[Job]:
    """The requests of a file; a malformed line is a job with a problem, so that it has an answer too."""
    seen: set[str] = set()
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
            if not line.strip():
                continue
            if len(line) > LONGEST_LINE:
                raise CommandError(f"{path}: line {number} is longer than {LONGEST_LINE} bytes")
            job = _read_job(line, f"line-{number}")
            if job.custom_id in seen:
                raise CommandError(f"{path}: line {number} has the custom_id {job.custom_id!r} of an earlier line")
            seen.add(job.custom_id)
            yield job


def finished(path: Path) -> set[str]:
    """The names of the answers in a file; a partly written last line is removed from it."""
    if not path.exists():
        return set()
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    done = set()
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            done.add(json.loads(line)["custom_id"])
        except (ValueError, KeyError, TypeError):
            raise CommandError(f"{path}: line {number} is not an answer of a batch; nothing was changed") from None
    if whole < len(data):
        os.truncate(path, whole)
    return done


class Progress:
    """The progress of a run, on standard error."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total = total
        self._shown = not quiet and sys.stderr.isatty()
        self._started = self._last = time.monotonic()
        self._done = 0

    def step(self) -> None:
        """One more is done."""
        self._done += 1
        now = time.monotonic()
        if self._shown and (now - self._last > 0.1 or self._done == self._total):
            self._last = now
            width = 30 * self._done // self._total
            rate = self._done / (now - self._started)
            left = (self._total - self._done) / rate
            bar = "#" * width + "." * (30 - width)
            end = "\n" if self._done == self._total else ""
            print(f"\r[{bar}] {self._done}/{self._total}  {rate:.1f}/s  {left:.0f} s left ", end=end, file=sys.stderr, flush=True)


async def _run(jobs: list[Job], file: IO[str], arguments: argparse.Namespace, progress: Progress) -> int:
    """Answer jobs, several at a time, and write each answer as it comes; how many are errors."""
    if not jobs:
        return 0
    task = asyncio.current_task()
    assert task is not None
    with contextlib.suppress(NotImplementedError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    waiting = iter(jobs)
    failed = 0

    async def work(complete: Complete) -> None:
        nonlocal failed
        for job in waiting:
            status, body = (400, _error(job.problem or "")) if job.body is None else await complete(job.body)
            failed += status != 200
            response = {"status_code": status, "request_id": f"req_{uuid.uuid4().hex}", "body": body}
            answer = {"id": f"batch_req_{uuid.uuid4().hex}", "custom_id": job.custom_id, "response": response, "error": None}
            file.write(json.dumps(answer) + "\n")
            file.flush()
            progress.step()

    try:
        async with _Completer(arguments) as complete, asyncio.TaskGroup() as group:
            for _ in range(min(arguments.max_concurrent, len(jobs))):
                group.create_task(work(complete))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return failed


class _Completer:
    """Answers bodies: an engine in this process, through the application of the server, or a server elsewhere."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._context: Any = None
        self._engine: Any = None

    async def __aenter__(self) -> Complete:
        if self._arguments.url is not None:
            return self._ask
        from ..server import ServerOptions, create_app

        path = self._arguments.chat_template
        text = read_template(path)
        self._engine, name = load_engine(self._arguments)
        set_chat_template(self._engine.tokenizer, path, text)
        app = create_app(self._engine, ServerOptions(model_name=name, max_queue=1 << 30))
        self._context = app.router.lifespan_context(app)
        await self._context.__aenter__()
        serving = app.state.serving

        async def complete(body: Json) -> tuple[int, Json]:
            return await _complete(serving, body)

        return complete

    async def __aexit__(self, *error: object) -> None:
        if self._context is not None:
            await self._context.__aexit__(None, None, None)
            self._engine.compiler.close()

    async def _ask(self, body: Json) -> tuple[int, Json]:
        return await asyncio.to_thread(_post, self._arguments.url, self._arguments.api_key, body)


async def _complete(serving: Any, body: Json) -> tuple[int, Json]:
    """The answer to a body, as the server would give it."""
    from pydantic import ValidationError

    from ..server.chat import Chat
    from ..server.errors import ApiError
    from ..server.protocol import ChatRequest, describe

    try:
        chat = Chat(serving, ChatRequest.model_validate(body))
        if chat.body.stream:
            raise ApiError("a batch cannot stream", param="stream")
        await chat.prepare()
        return 200, await chat.answer(None)
    except ValidationError as error:
        problem = describe(list(error.errors()))
    except ApiError as error:
        problem = error
    return problem.status, problem.body


def _post(url: str, key: str | None, body: Json) -> tuple[int, Json]:
    """The answer of a server; ServerGoneError where it does not answer, or not any more."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key or os.environ.get('STACKMASK_API_KEY', '')}"}
    request = urllib.request.Request(f"{url.rstrip('/')}/chat/completions", json.dumps(body).encode(), headers)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=3600) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            data = error.read()
            if error.code == 429:
                time.sleep(0.5)
                continue
            if error.code >= 500:
                raise ServerGoneError(f"the server answers with status {error.code}") from None
            try:
                return error.code, json.loads(data)
            except ValueError:
                return error.code, _error(data[:300].decode("utf-8", "replace"))
        except (OSError, ValueError) as error:
            raise ServerGoneError(f"the server does not answer: {error}") from None


def _read_job(line: bytes, name: str) -> Job:
    """One line as a job."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Job(name, None, f"the line is not JSON: {error}")
    if not isinstance(value, dict):
        return Job(name, None, "the line is not a JSON object")
    custom_id = value.get("custom_id", name)
    if not isinstance(custom_id, str):
        return Job(name, None, "custom_id is a text")
    if "body" not in value:
        return Job(custom_id, {key: item for key, item in value.items() if key != "custom_id"})
    if value.get("url", "/v1/chat/completions") != "/v1/chat/completions":
        return Job(custom_id, None, f"url is {str(value['url'])[:60]!r}; a batch has chat completions")
    body = value["body"]
    return Job(custom_id, body) if isinstance(body, dict) else Job(custom_id, None, "body is not an object")


def _error(message: str) -> Json:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": "invalid_line"}}


COMMAND = Command("batch", "answer a file of requests, each line with its own constraint", configure, run)
