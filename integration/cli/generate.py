"""`stackmask generate`: a model's text under a constraint, streamed, checked, and explained where it was cut."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from .command import CUT, OK, REFUSED, Command, CommandError, colour, integer, note, seconds
from .loading import shown_loading
from .specification import Specification, add_specification, read_specification

if TYPE_CHECKING:
    from ..answers.generation import Generation
    from ..compiler import CompiledGrammar
    from ..generate import Generator


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_specification(parser)
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--model", metavar="DIR", help="a Hugging Face model (default: the demo model in the package)")
    model.add_argument("--gguf", metavar="FILE", help="a GGUF model, run by llama.cpp")
    parser.add_argument("--prompt", metavar="TEXT", help="the prompt (default: made from the specification)")
    parser.add_argument("--max-tokens", type=integer(1), default=400, metavar="N", help="stop after N tokens (default: 400)")
    parser.add_argument(
        "--seed", type=integer(0), default=0, metavar="S", help="seed of the random numbers; the same seed gives the same text (default: 0)"
    )
    parser.add_argument("--temperature", type=_temperature, default=0.7, metavar="T", help="0 is greedy (default: 0.7)")
    parser.add_argument("--num", type=integer(1), default=1, metavar="N", help="N texts, with the seeds S, S+1, ... (default: 1)")
    parser.add_argument("--stats", action="store_true", help="show where the time went")


def run(arguments: argparse.Namespace) -> int:
    """Generate, check, and say how it ended."""
    specification = read_specification(arguments)
    generator = _load(arguments.model, arguments.gguf)
    grammar = specification.compile(generator.compiler)
    prompt = arguments.prompt or default_prompt(specification, demo=arguments.model is None and arguments.gguf is None)
    code = OK
    for number in range(arguments.num):
        start = time.perf_counter()
        answer = generator.generate(
            prompt,
            grammar=grammar,
            max_tokens=arguments.max_tokens,
            temperature=arguments.temperature,
            seed=arguments.seed + number,
            on_text=_write,
        )
        elapsed = time.perf_counter() - start
        _write("\n")
        code = max(code, conclude(specification, grammar, answer, arguments.max_tokens))
        if arguments.stats:
            _show_stats(answer, grammar, elapsed)
    return code


def conclude(specification: Specification, grammar: CompiledGrammar, answer: Generation[Any], max_tokens: int) -> int:
    """Check an answer, say how it ended, and give the exit code that goes with it."""
    checks, problem = check_answer(specification, grammar, answer)
    count = f"{len(answer.token_ids)} tokens"
    if problem:
        note(f"{colour('wrong', 'red')}: {problem}; this is an error in stackmask")
        return REFUSED
    if not answer.complete:
        why = f"--max-tokens {max_tokens}" if len(answer.token_ids) >= max_tokens else "the end of the model's context"
        missing = grammar_rest(grammar, answer)
        note(f"{colour('cut', 'yellow')} by {why} after {count}, inside the structure; the shortest end would be {missing}")
        return CUT
    ended = "complete" if answer.finish_reason == "stop" else "complete as it stands, though stopped by the limit"
    note(f"{colour(ended, 'green')}: {count}, checked by {', '.join(checks)}")
    return OK


def check_answer(specification: Specification, grammar: CompiledGrammar, answer: Generation[Any]) -> tuple[list[str], str | None]:
    """Which independent checks an answer passed, and the first that it did not."""
    fresh = grammar.matcher()
    fits = fresh.validate_tokens(answer.token_ids)
    if fits < len(answer.token_ids):
        return [], f"a fresh matcher refuses token {fits}"
    checks = ["a fresh matcher"]
    if not answer.complete or specification.kind not in ("json", "json_schema"):
        return checks, None
    try:
        value = json.loads(answer.text)
    except ValueError as error:
        return checks, f"it is not JSON: {error}"
    checks.append("json")
    if specification.kind == "json_schema":
        try:
            from jsonschema import Draft202012Validator
            from jsonschema.validators import validator_for
            from jsonschema_specifications import REGISTRY  # with a registry of its own it fetches nothing
        except ImportError:
            return checks, None
        validator = validator_for(specification.schema, default=Draft202012Validator)
        judge = validator(specification.schema, registry=REGISTRY, format_checker=validator.FORMAT_CHECKER)
        if problem := next(judge.iter_errors(value), None):
            return checks, f"jsonschema refuses it: {problem.message}"
        checks.append("jsonschema")
    return checks, None


def grammar_rest(grammar: CompiledGrammar, answer: Generation[Any]) -> str:
    """The shortest text that would complete an answer that was cut."""
    matcher = grammar.matcher()
    for token in answer.token_ids:
        matcher.accept_token(token)
    rest = matcher.shortest_completion().decode("utf-8", "replace")
    return repr(rest if len(rest) <= 40 else rest[:37] + "...")


def default_prompt(specification: Specification, *, demo: bool) -> str:
    """A question for which the specification is the answer's form; the demo model gets those that it was trained on."""
    match specification.kind:
        case "json_schema" if demo:
            schema = specification.schema
            title = str(schema.get("title", "record")).lower() if isinstance(schema, dict) else "record"
            properties = schema.get("properties") if isinstance(schema, dict) else None
            keys = f" with {', '.join(properties)}" if isinstance(properties, dict) and properties else ""
            return f"Write {article(title)} {title} as indented JSON{keys}."
        case "json_schema":
            return f"Write JSON that matches this JSON Schema:\n{specification.value}"
        case "json":
            return "Write a person as indented JSON."
        case "regex":
            return f"Write a text that matches {specification.value}."
        case "choice":
            return f"Choose one of: {', '.join(specification.value)}."
        case _:
            return "Write a text that matches the grammar." + ("" if demo else f"\n{specification.value}")


def article(noun: str) -> str:
    """The indefinite article.

    >>> article("order"), article("person")
    ('an', 'a')
    """
    return "an" if noun[:1] in "aeiou" else "a"


def _load(directory: str | None, gguf: str | None) -> Generator:
    """The model, without the chatter of the library that loads it."""
    import torch
    from transformers.utils import logging as transformers_logging

    from ..demo import load_model
    from ..generate import Generator
    from ..llama_cpp.library import LibraryError
    from ..llama_cpp.model import GGUFError, load_gguf

    logging: Any = transformers_logging  # its functions have no annotations
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if gguf is not None:
        try:
            with shown_loading(gguf):
                return Generator(*load_gguf(gguf))
        except (GGUFError, LibraryError) as error:
            raise CommandError(f"cannot load a model: {error}") from None
    if directory is None:
        torch.set_num_threads(1)  # PERF: its matrices are so small that a second thread costs more than it brings
    try:
        with shown_loading(directory):
            return Generator(*load_model(directory))
    except (OSError, ValueError) as error:
        if directory is None:
            raise
        raise CommandError(f"cannot load a model: {str(error).splitlines()[0]}") from None


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _show_stats(answer: Generation[Any], grammar: CompiledGrammar, elapsed: float) -> None:
    """The time of each stage."""
    stats = answer.stats
    tokens = len(answer.token_ids)
    parts: list[tuple[str, Any]] = [
        ("prompt", f"{answer.prompt_tokens} tokens"),
        ("compile", f"{seconds(grammar.stats.seconds)}, {grammar.stats.rules} rules"),
        ("model", f"{seconds(stats.model)}, {stats.steps} steps"),
        ("mask", f"{seconds(stats.mask)}, {100 * stats.mask / (stats.mask + stats.model + stats.sample):.1f} % of the time for tokens"),
        ("sample", seconds(stats.sample)),
        ("in all", f"{seconds(elapsed)}, {tokens / elapsed:.0f} tokens/s"),
    ]
    for name, value in parts:
        note(f"  {colour(f'{name:9}', 'dim')}{value}")


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a temperature of 0 or more")
    return value


COMMAND = Command("generate", "generate text that fits a specification, by construction", configure, run)
