"""The code blocks of the documentation, each run alone.

A block of Python gets a namespace of its own. What it prints is compared with the comments that begin with `#>` behind the statement. In a
block of the language `console`, lines behind `$ ` are commands and the others their output; in one of `bash` every line is a command.
Blocks with a title, as ```json title="person.schema.json"```, are files that the commands and programs of the page find.
Expected output may leave things out by `...`, and numbers with a unit of time or memory behind them may differ.

Comments in front of a block:

    <!-- given: model, tokenizer -->  names that the block finds, each made by `Given`; `model.gguf` is a file
    <!-- not run: needs vLLM -->      Python is compiled, its imports of stackmask are resolved, options of commands are read; no more
    <!-- own process -->              it changes a library for the whole process
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import io
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import stackmask

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[\w+-]*)(?P<rest>[^`]*)$")
COMMENT = re.compile(r"^ *<!-- *(given|not run|own process)(?:: *(.*?))? *-->$")
UNITS = "ns|us|µs|ms|s|seconds|KB|MB|GB|KiB|MiB|GiB|bytes of memory"
VARYING = re.compile(rf"\d[\d,]*(?:\.\d+)?(?= ?(?:{UNITS})\b)")
SERVERS = re.compile(r"http://(?:127\.0\.0\.1|localhost):(?:8000|11434)")
CLIENTS = frozenset({"anthropic", "mlx", "mlx_lm", "ollama", "openai", "outlines", "gguf"})
"""Modules of the extra `test` that need not be installed."""
GGUF = "model.gguf"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: `line` is that of its first line of code, counted from 1."""

    path: Path
    line: int
    indent: int
    language: str
    title: str | None
    code: str
    given: tuple[str, ...] = ()
    not_run: str | None = None
    own_process: bool = False

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


class BlockError(AssertionError):
    """A block does not do what the page says."""


def pages() -> list[Path]:
    """The pages whose blocks are run."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def read_blocks(path: Path) -> list[Block]:
    """All fenced blocks of a page."""
    lines = path.read_text(encoding="utf-8").split("\n")
    blocks = []
    notes: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if note := COMMENT.match(line):
            notes[note[1]] = note[2] or ""
        elif not (found := FENCE.match(line)):
            if line.strip():
                notes = {}
        else:
            end = next((i for i in range(at, len(lines)) if lines[i].strip() == found["fence"]), None)
            if end is None:
                raise BlockError(f"{path}:{at}: this block is never closed")
            indent = len(found["indent"])
            title = re.search(r'title="([^"]+)"', found["rest"])
            code = "\n".join(text[indent:] for text in lines[at:end]) + "\n"
            given = tuple(name.strip() for name in notes["given"].split(",")) if "given" in notes else ()
            more = (given, notes.get("not run"), "own process" in notes)
            blocks.append(Block(path, at + 1, indent, found["language"], title and title[1], code, *more))
            notes, at = {}, end + 1
    return blocks


def indented_blocks(path: Path) -> list[int]:
    """The lines at which a block of code begins that has no fence, and so no language."""
    fenced, before, item, found = False, "", False, []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        fenced ^= FENCE.match(line) is not None
        if not fenced and not before.strip() and not item and re.match(r"    +\S", line):
            found.append(number)
        if line[:1].strip():
            item = re.match(r"[-*] |\d+\. ", line) is not None
        before = line
    return found


class Given:
    """The names that a block can be given; each is made when it is asked for, and they fit together."""

    @cached_property
    def _loaded(self) -> Any:
        from stackmask.integration.demo import load_model

        return load_model()

    @cached_property
    def model(self) -> Any:
        """The demo model."""
        return self._loaded[0]

    @cached_property
    def tokenizer(self) -> Any:
        """Its tokenizer."""
        return self._loaded[1]

    @cached_property
    def vocabulary(self) -> stackmask.Vocabulary:
        """Its vocabulary."""
        from stackmask.integration.demo import demo_vocabulary

        return demo_vocabulary()

    @cached_property
    def compiler(self) -> stackmask.Compiler:
        """A compiler for it."""
        return stackmask.Compiler(self.vocabulary)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """A JSON Schema."""
        properties = {"name": {"type": "string"}, "age": {"type": "integer"}}
        return {"type": "object", "properties": properties, "required": ["name", "age"], "additionalProperties": False}

    @cached_property
    def Person(self) -> Any:  # noqa: N802 - a type
        """A type."""
        import pydantic

        return pydantic.create_model("Person", name=(str, ...), age=(int, ...))

    @cached_property
    def prompt(self) -> str:
        """A prompt that the demo model knows."""
        return "Write a person as JSON with name, age."

    @cached_property
    def inputs(self) -> Any:
        """The prompt as transformers takes it."""
        return self.tokenizer(self.prompt, return_tensors="pt")

    @cached_property
    def grammar(self) -> stackmask.CompiledGrammar:
        """The grammar of the schema."""
        return self.compiler.json_schema(self.schema)

    @cached_property
    def matcher(self) -> stackmask.Matcher:
        """A matcher at the start of a text of the grammar."""
        return self.grammar.matcher()

    @cached_property
    def logits(self) -> Any:
        """A row of logits for a batch of one."""
        import torch

        return torch.zeros(1, self.vocabulary.size)

    @cached_property
    def token(self) -> int:
        """A token that a text of the grammar may begin with."""
        return self.grammar.matcher().allowed_tokens()[0]


@dataclass(slots=True)
class Session:
    """What the blocks of one session share: a server of the demo model, started when a block first asks for it, and a folder."""

    server: Callable[[], str]
    folder: Path

    def directory(self, block: Block) -> Path:
        """A fresh folder with the examples and the files of the block's page."""
        directory = self.folder / re.sub(r"\W+", "_", str(block))
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        (directory / "examples").symlink_to(ROOT / "examples")
        for other in read_blocks(block.path):
            if other.title is not None and other.title != block.title:
                (directory / other.title).write_text(other.code, encoding="utf-8")
        return directory

    def code(self, text: str) -> str:
        """A text with the address of the server that runs."""
        return SERVERS.sub(lambda _: self.server(), text)


@dataclass(frozen=True, slots=True)
class Output:
    """What was printed at one place of a block, and which of the block's lines (from, to) show it."""

    begin: int
    end: int
    shown: str
    printed: str


def check_block(block: Block, session: Session) -> str | None:
    """Do with a block what its language asks for; the result is why it was not run, if it was not."""
    for output in run_block(block, session):
        if not matches(output.shown, output.printed):
            remedy = f"if that is right: python scripts/documentation.py outputs {block.path.relative_to(ROOT)}"
            raise BlockError(f"{block}: the page shows\n{output.shown}\nand this is printed:\n{output.printed}\n{remedy}")
    return block.not_run


def run_block(block: Block, session: Session) -> list[Output]:
    """Run a block; the places at which it shows what is printed."""
    if block.language not in LANGUAGES:
        raise BlockError(f"{block}: no rule for blocks of the language {block.language!r}; available: {', '.join(LANGUAGES)}")
    with contextlib.chdir(session.directory(block)):
        return LANGUAGES[block.language](block, session)


def matches(shown: str, printed: str) -> bool:
    """Whether what is printed is what the page shows, but for `...` and numbers that vary."""
    pattern = ""
    for at, piece in enumerate(re.split(rf"(\.\.\.|{VARYING.pattern})", shown.strip())):
        pattern += re.escape(piece) if at % 2 == 0 else ".*?" if piece == "..." else r"\d[\d,]*(?:\.\d+)?"
    lines = "\n".join(line.rstrip() for line in printed.strip().split("\n"))
    return re.fullmatch(pattern, lines, re.DOTALL) is not None


# Python


def run_python(block: Block, session: Session) -> list[Output]:
    """Run statement after statement, and take what each prints."""
    tree = ast.parse(block.code, str(block))
    resolve_imports(tree, block)
    if re.search(r"^\s*# >", block.code, re.MULTILINE):
        raise BlockError(f"{block}: a line that begins with '# >' is no output; write '#>' (ruff format adds the blank)")
    if block.not_run is not None:
        compile(block.code, str(block), "exec")
        return []
    if block.own_process:
        done = subprocess.run([sys.executable, "-c", session.code(block.code)], capture_output=True, text=True)
        if done.returncode:
            raise BlockError(f"{block}: {done.stderr}")
        return []
    module = types.ModuleType("block_of_a_page")
    given = Given()
    for name in block.given:
        if name == GGUF:
            from support.gguf_models import demo_gguf

            demo_gguf(Path(GGUF))
            continue
        if name.startswith("_") or not hasattr(Given, name):
            raise BlockError(f"{block}: a block can be given {', '.join(name for name in vars(Given) if name[0] != '_')}, not {name}")
        setattr(module, name, getattr(given, name))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if idle := [name for name in block.given if name not in used and name != GGUF]:
        raise BlockError(f"{block}: it is given {', '.join(idle)} and does not use it")
    lines = block.code.split("\n")
    tree = ast.parse(session.code(block.code), str(block))
    outputs = []
    sys.modules[module.__name__] = module  # types are looked up there by their names
    try:
        for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
            end = len(lines) if following is None else following.lineno - 1
            begin = node.end_lineno or 0
            shown = [(at, line.strip()) for at, line in enumerate(lines[begin:end], begin) if line.strip().startswith("#>")]
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(ast.Module([node], []), str(block), "exec"), module.__dict__)
            if shown:
                text = "\n".join(line[2:].removeprefix(" ") for _, line in shown)
                outputs.append(Output(shown[0][0], shown[-1][0] + 1, text, printed.getvalue()))
    except NameError as error:
        raise BlockError(f"{block}: {error}; names from elsewhere need <!-- given: ... --> before the block") from error
    finally:
        del sys.modules[module.__name__]
        if hasattr(client := getattr(module, "client", None), "close"):
            client.close()
    return outputs


def missing_client(block: Block) -> str | None:
    """The module of an optional client that a block imports and that is not installed."""
    if block.language != "python" or block.not_run is not None:
        return None
    names = {name.partition(".")[0] for name, _ in imports(ast.parse(block.code))}
    if "stackmask.integration.outlines" in {name for name, _ in imports(ast.parse(block.code))}:
        names.add("outlines")
    if GGUF in block.given:
        from stackmask.integration.llama_cpp.fetch import fetched_library

        names.add("gguf")
        if fetched_library() is None:
            return "llama.cpp"
    return next((name for name in sorted(names & CLIENTS) if importlib.util.find_spec(name) is None), None)


def imports(tree: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The modules that a program imports, with the names that it takes from each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, tuple(alias.name for alias in node.names)


def resolve_imports(tree: ast.AST, block: Block) -> None:
    """Check that what is imported of stackmask is there, also where a module cannot be imported here."""
    for module, names in imports(tree):
        if module.partition(".")[0] != "stackmask":
            continue
        try:
            spec = importlib.util.find_spec(module)
        except ModuleNotFoundError:  # the package above it
            spec = None
        if spec is None or spec.origin is None:
            raise BlockError(f"{block}: there is no module {module}")
        source = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
        defined = {node.name for node in source.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        taken = [node for node in ast.walk(source) if isinstance(node, ast.ImportFrom | ast.Import)]
        defined |= {alias.asname or alias.name for node in taken for alias in node.names}
        defined |= {node.id for node in ast.walk(source) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for name in names:
            if name not in defined and importlib.util.find_spec(f"{module}.{name}") is None:
                raise BlockError(f"{block}: there is no {name} in {module}")


# Commands


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a block, and the lines of the block with its output."""

    text: str
    begin: int
    end: int
    output: str | None


def commands(block: Block) -> list[Shown]:
    """The commands of a block, with the output that a console shows; lines that end in a backslash or inside of quotes go on."""
    lines = block.code.split("\n")[:-1]
    prompt = "$ " if block.language == "console" else ""
    found = []
    at = 0
    while at < len(lines):
        if not lines[at].strip() or not lines[at].startswith(prompt):
            if block.language == "console" and lines[at].strip():
                raise BlockError(f"{block}: this output has no command: {lines[at]}")
            at += 1
            continue
        text = lines[at][len(prompt) :]
        at += 1
        while text.endswith("\\") or _is_open(text):
            if at == len(lines):
                raise BlockError(f"{block}: this command does not end: {text}")
            text += "\n" + lines[at].removeprefix("> " if prompt else "")
            at += 1
        begin = at
        if block.language == "console":
            while at < len(lines) and not lines[at].startswith(prompt):
                at += 1
        if shlex.split(text, comments=True):
            found.append(Shown(text, begin, at, "\n".join(lines[begin:at]) if block.language == "console" else None))
    return found


def run_console(block: Block, session: Session) -> list[Output]:
    """Run the commands; those that show no output have to succeed."""
    outputs = []
    last = 0
    for command in commands(block):
        words = shlex.split(command.text.replace("\\\n", " "), comments=True)
        if block.not_run is not None:
            check_words(words, block)
            continue
        if words == ["echo", "$?"]:
            outputs.append(Output(command.begin, command.end, command.output or "", str(last)))
            continue
        if (done := run_words(words, command.text, block, session)) is None:
            continue
        last, printed = done
        if command.output is not None and command.output.strip():
            outputs.append(Output(command.begin, command.end, command.output, printed))
        elif last:
            raise BlockError(f"{block}: {command.text} ends with {last}:\n{printed}")
        elif command.output is not None and printed.strip():
            outputs.append(Output(command.begin, command.end, command.output, printed))
    return outputs


def run_words(words: Sequence[str], text: str, block: Block, session: Session) -> tuple[int, str] | None:
    """The exit code of a command and what it prints; None where it is only read: servers and installations."""
    if words[0] == "stackmask" and not {"|", "<", "&&"} & set(words):
        if stays(words):
            check_words(words, block)
            return None
        target = words[words.index(">") + 1] if ">" in words else None
        code, printed, errors = run_stackmask([session.code(word) for word in words[1 : words.index(">") if target else None]])
        if target is not None:
            Path(target).write_text(printed, encoding="utf-8")
            printed = ""
        return code, printed + errors if target else printed
    if words[0] in ("pip", "python3", "python") and "install" in words:
        check_words(words, block)
        return None
    if words[0] in ("curl", "cat", "echo", "ls", "printf", "stackmask"):
        environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
        shell = ["bash", "-c", session.code(text)]
        done = subprocess.run(shell, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        return done.returncode, done.stdout
    raise BlockError(f"{block}: {words[0]} is no command that blocks run; <!-- not run: why --> in front of the block says so")


def run_stackmask(arguments: Sequence[str]) -> tuple[int, str, str]:
    """The command line in this process: its exit code, and its output with the errors in their place, unless the output goes to a file."""
    from stackmask.integration.cli import main

    printed, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
        try:
            code = main(list(arguments))
        except SystemExit as error:
            code = int(error.code or 0)
    return code, printed.getvalue(), errors.getvalue()


def stays(words: Sequence[str]) -> bool:
    """Whether a command of stackmask serves until it is stopped."""
    return words[1] == "serve" or (words[1] == "inspect" and not {"--text", "--svg", "--dot", "--help", "--as-json"} & set(words))


def check_words(words: Sequence[str], block: Block) -> None:
    """What can be said of a command without running it: options, extras and files."""
    from stackmask.integration.cli.entry import build_parser

    words = [word for word in words if not re.fullmatch(r"[A-Z_]+=.*", word)]
    if words and words[0] == "stackmask" and len(words) > 1 and words[1] != "--help":
        arguments = [word for word in words[1:] if not (word.startswith("[") and word.endswith("]"))]
        arguments = arguments[: next((at for at, word in enumerate(arguments) if word in ("|", ">", ">>")), None)]
        errors = io.StringIO()
        try:
            with contextlib.redirect_stderr(errors):
                build_parser().parse_args(arguments)
        except SystemExit as error:
            raise BlockError(f"{block}: {' '.join(words)}: {errors.getvalue()}") from error
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for word in words:
        if (wanted := re.fullmatch(r"(?:stackmask|\.)\[([\w,-]+)\]", word)) and (unknown := set(wanted[1].split(",")) - extras.keys()):
            raise BlockError(f"{block}: there is no extra {', '.join(sorted(unknown))}")
        if re.fullmatch(r"(?:scripts|examples|benchmarks|\.ci|tests)/[\w./-]+", word) and not (ROOT / word).exists():
            raise BlockError(f"{block}: there is no file {word}")
    for before, word in itertools.pairwise(words):
        if before == "-m" and word.startswith(("benchmarks.", "stackmask.")):
            path = ROOT / word.removeprefix("stackmask.").replace(".", "/")
            if not path.with_suffix(".py").exists() and not path.is_dir():
                raise BlockError(f"{block}: there is no module {word}")


def _is_open(text: str) -> bool:
    """Whether a command ends inside of quotes."""
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


# Data and grammars


def byte_compiler() -> stackmask.Compiler:
    """A compiler for a vocabulary of single bytes, which is all that it takes to read a specification."""
    return stackmask.Compiler(stackmask.Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], stop_token_ids=[256], size=257))


def run_json(block: Block, session: Session) -> list[Output]:
    """Parse it; a schema compiles too."""
    value = json.loads(block.code)
    if block.title is not None and block.title.endswith(".schema.json"):
        byte_compiler().json_schema(value)
    return []


def run_jsonl(block: Block, session: Session) -> list[Output]:
    """Parse each line."""
    assert [json.loads(line) for line in block.code.splitlines()]
    return []


def run_yaml(block: Block, session: Session) -> list[Output]:
    """Parse it."""
    import yaml

    assert list(yaml.safe_load_all(block.code))
    return []


def run_toml(block: Block, session: Session) -> list[Output]:
    """Parse it."""
    tomllib.loads(block.code)
    return []


def run_ebnf(block: Block, session: Session) -> list[Output]:
    """Compile it, from its first rule."""
    name = re.search(r"^\s*([\w-]+)", block.code, re.MULTILINE)
    if block.not_run is None:
        byte_compiler().ebnf(block.code, root=name[1] if name else "root")
    return []


def run_lark(block: Block, session: Session) -> list[Output]:
    """Compile it."""
    if block.not_run is None:
        byte_compiler().lark(block.code)
    return []


def run_regex(block: Block, session: Session) -> list[Output]:
    """Compile each line."""
    for line in block.code.splitlines():
        byte_compiler().regex(line)
    return []


def keep(block: Block, session: Session) -> list[Output]:
    """Text for people."""
    return []


LANGUAGES: dict[str, Callable[[Block, Session], list[Output]]] = {
    "python": run_python,
    "bash": run_console,
    "console": run_console,
    "json": run_json,
    "jsonl": run_jsonl,
    "yaml": run_yaml,
    "toml": run_toml,
    "ebnf": run_ebnf,
    "gbnf": run_ebnf,
    "lark": run_lark,
    "regex": run_regex,
    "text": keep,
    "nginx": keep,
}


def written(path: Path, session: Session) -> str:
    """The page with the real output at every place where its blocks show some."""
    lines = path.read_text(encoding="utf-8").split("\n")
    for block in reversed(read_blocks(path)):
        if block.not_run is not None or missing_client(block):
            continue
        try:
            found = run_block(block, session)
        except Exception as error:
            print(f"{block}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        for output in reversed(found):
            if matches(output.shown, output.printed):
                continue
            mark = "#> " if block.language == "python" else ""
            first = lines[block.line - 1 + output.begin]
            blank = " " * (len(first) - len(first.lstrip())) if mark else " " * block.indent
            new = [f"{blank}{mark}{line}".rstrip() for line in output.printed.strip("\n").split("\n")]
            lines[block.line - 1 + output.begin : block.line - 1 + output.end] = new
    return "\n".join(lines)
