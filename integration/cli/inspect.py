"""`stackmask inspect`: why a text is refused and what may come next, as a page in the browser or as a coloured trace."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from ..compiler import Compiler
from ..demo import demo_model_path, demo_vocabulary
from ..inspector import Inspector, InspectRequest, Specification
from ..inspector.drawing import Drawing, draw_automaton, draw_rules, to_dot, to_svg
from ..inspector.local import LocalServer
from ..inspector.service import InspectorService, TokenizerData
from ..inspector.terminal import write_trace
from ..inspector.worker import make_tokenizer
from .command import OK, REFUSED, Command, CommandError, integer, note
from .specification import add_specification, has_specification, read_bytes, read_specification
from .tokenizer import read_tokenizer


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_specification(parser, required=False)
    parser.add_argument("--text", metavar="TEXT", help="show this text in the specification, in the terminal")
    parser.add_argument("--text-file", metavar="FILE", help="the same for the text in FILE ('-' is standard input)")
    parser.add_argument("--as-json", action="store_true", help="print the answer of POST /v1/grammar/inspect")
    drawings = parser.add_mutually_exclusive_group()
    drawings.add_argument("--svg", choices=("rules", "automaton"), help="print the rules, or the automaton at the end of the text, as SVG")
    drawings.add_argument("--dot", choices=("rules", "automaton"), help="print the same for Graphviz")
    parser.add_argument(
        "--tokenizer", action="append", default=[], metavar="PATH", help="a tokenizer.json, or a model's directory (repeatable)"
    )
    parser.add_argument("--port", type=integer(0), default=0, help="port of the page (default: any free one)")


def run(arguments: argparse.Namespace) -> int:
    """Serve the page, or trace a text."""
    tokenizers = [TokenizerData.of("demo", demo_vocabulary(), (demo_model_path() / "tokenizer.json").read_text("utf-8"))]
    tokenizers = [*(load_tokenizer(path) for path in arguments.tokenizer), *tokenizers]
    text = arguments.text
    if arguments.text_file is not None:
        if text is not None:
            raise CommandError("--text and --text-file cannot be combined")
        text = read_bytes(arguments.text_file).decode("utf-8", "replace")
    drawing = arguments.svg or arguments.dot
    if not has_specification(arguments):
        if text is not None or drawing is not None or arguments.as_json:
            raise CommandError("a text, a drawing or --as-json needs a specification")
        return _serve(tokenizers, arguments.port)
    named = read_specification(arguments)
    value = "" if named.value is None else named.value if isinstance(named.value, str) else json.dumps(named.value)
    given = Specification(named.kind, value, named.options)
    tokenizer = make_tokenizer(tokenizers[0])
    if drawing is not None:
        picture = _draw(drawing, named.compile(Compiler(tokenizer.vocabulary)), text or "")
        print(to_svg(picture) if arguments.svg else to_dot(picture), end="")
        return OK
    views = ("trace", "tokens", "cursor", *(("report",) if arguments.as_json else ()))
    answer = Inspector([tokenizer]).inspect(InspectRequest(specification=given, text=text or "", views=views))
    if arguments.as_json:
        print(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        write_trace(answer, text or "")
    return REFUSED if answer.get("trace", {}).get("refusal") or answer["specification"]["error"] else OK


def load_tokenizer(path: str) -> TokenizerData:
    """A tokenizer by its file or directory."""
    name, vocabulary, backend = read_tokenizer(path)
    return TokenizerData.of(name, vocabulary, backend.to_str())


def _draw(which: str, grammar: Any, text: str) -> Drawing:
    matcher = grammar.matcher()
    data = text.encode("utf-8", "surrogatepass")
    fits = data[: matcher.matching_prefix(data)]
    if which == "rules":
        return draw_rules(grammar.grammar, matcher.rule_names(fits))
    drawing = draw_automaton(grammar, fits.decode("utf-8", "ignore"), time.monotonic() + 30.0)
    if drawing is None:
        raise CommandError("the grammar or the text is too large to draw its automaton")
    return drawing


def _serve(tokenizers: list[TokenizerData], port: int) -> int:
    service = InspectorService(tokenizers)
    service.start()
    server = LocalServer(service, port=port)
    note(f"the inspector is at {server.url} (Ctrl-C ends it)")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        note("")
    finally:
        server.server_close()
        service.close()
    return OK


COMMAND = Command(
    "inspect", "show why a text is refused and what may come next, as a page in the browser or in the terminal", configure, run
)
