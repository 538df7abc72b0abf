"""The pages of docs/reference, made of what the code says of itself, and the drawings of docs/images.

The former come from docstrings and signatures, argparse, and the classes of errors; the latter from the inspector.

Sources are read and not imported, so the page of Python is the same with and without the kernel, torch or an engine.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import re
import tempfile
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "src" / "stackmask"
FOLDER: Final = ROOT / "docs" / "reference"
LABEL: Final = re.compile(r"^`\w+`(?:, `\w+`)*(?: \([^)]*\))?: ", re.MULTILINE)
"""The names that a line of a docstring is about."""
MADE: Final = "<!-- made by scripts/documentation.py reference -->"

GROUPS: Final = {
    "Generate": ("generate", "stream", "generate_batch", "generate_async", "Generator", "Generation", "Stream", "Piece"),
    "Decide": ("decide", "Decider", "Decision"),
    "Compile": ("Compiler", "CompiledGrammar", "Limits", "Vocabulary"),
    "Match": ("Matcher", "Explanation", "allocate_token_bitmask", "fill_bitmasks", "fill_draft_bitmasks"),
}
OPTIONS: Final = ("TextConstraint", "JsonFormat", "ConstraintOptions", "SamplingOptions")
SOURCES: Final = {
    "generate": "integration.generate",
    "stream": "integration.generate",
    "generate_batch": "integration.generate",
    "generate_async": "integration.generate",
    "Generator": "integration.generate",
    "Generation": "integration.answers.generation",
    "Stream": "integration.answers.stream",
    "Piece": "integration.answers.stream",
    "decide": "integration.decisions.decide",
    "Decider": "integration.decisions.decide",
    "Decision": "integration.decisions.decide",
    "Compiler": "integration.compiler.compiler",
    "CompiledGrammar": "integration.compiler.compiled_grammar",
    "Limits": "pda.limits",
    "Vocabulary": "integration.tokenizers.vocabulary",
    "Matcher": "pda.matcher",
    "Explanation": "pda.matcher",
    "allocate_token_bitmask": "pda.matcher",
    "fill_bitmasks": "pda._kernel",
    "fill_draft_bitmasks": "pda._kernel",
}
ABOVE: Final = {"Matcher": ("pda._kernel", "Matcher"), "Vocabulary": ("pda.vocabulary", "Vocabulary")}
"""Classes that add to another one whose methods are public, too."""
INTEGRATIONS: Final = {
    "integration.torch": (),
    "integration.transformers": ("logits_processor", "continuous_batching"),
    "integration.demo": ("loading",),
    "integration.tools": ("formats", "parser", "templates", "tool"),
    "integration.engine": ("request", "engine", "aio"),
    "integration.processes": ("pool",),
    "integration.inspector": ("inspector",),
    "integration.llama_cpp": ("model", "sampler", "logits_processor"),
    "integration.mlx": ("model", "vocabulary", "logits_processor"),
    "integration.outlines": ("backend",),
    "integration.vllm": ("patches",),
    "integration.distributed": (),
}
EXAMPLES: Final = {
    "RegexError": 'compiler.regex("[0-9")',
    "EbnfError": 'compiler.ebnf(\'root ::= "a" nmae\\nname ::= "b"\')',
    "LarkError": "compiler.lark('start: \"a\" NAME')",
    "SchemaError": 'compiler.json_schema({"properties": {"age": {"type": "integr"}}})',
    "UnsupportedSchemaError": 'compiler.json_schema({"properties": {"a": {"pattern": r"(.)\\1"}, "b": {"minLength": 10**10}}})',
    "UnsatisfiableError": 'compiler.json_schema({"type": "integer", "minimum": 5, "maximum": 3})',
    "StructuralTagError": 'compiler.structural_tag({"type": "tag", "begin": "<a>", "content": {"type": "any_txt"}, "end": "</a>"})',
    "LimitError": 'stackmask.Compiler(compiler.vocabulary, limits=stackmask.Limits(nesting=3)).regex("((((a))))")',
    "VocabularyError": 'stackmask.Vocabulary.from_bytes([b"a"], stop_token_ids=[7], size=2)',
    "RollbackError": 'compiler.regex("a").matcher().rollback(2)',
}


def pages() -> dict[Path, str]:
    """Each page with its text."""
    made = {FOLDER / "api.md": api(), FOLDER / "cli.md": command_line(), FOLDER / "errors.md": errors()}
    return made | {ROOT / "docs" / "images" / f"{what}.svg": drawing(what) for what in ("rules", "automaton")}


def drawing(what: str) -> str:
    """The rules or the automaton of the grammar of docs/how_it_works.md, drawn by the inspector."""
    from stackmask.integration.cli import main

    page = (ROOT / "docs" / "how_it_works.md").read_text(encoding="utf-8")
    grammar = page.partition('```ebnf title="lists.ebnf"\n')[2].partition("```")[0]
    drawn = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(drawn):
        file = Path(folder) / "lists.ebnf"
        file.write_text(grammar, encoding="utf-8")
        main(["inspect", "--ebnf", str(file), "--text", '["a",', "--svg", what])
    return drawn.getvalue()


# Python


def api() -> str:
    """What `import stackmask` has, and the modules of engines and libraries."""
    parts = [
        "# Python",
        MADE,
        "What `import stackmask` has. Arguments behind `*` are given by name. Errors are on a [page of their own](errors.md).",
    ]
    for title, names in GROUPS.items():
        parts.append(f"## {title}")
        for name in names:
            parts += entry(SOURCES[name], name)
        if title == "Generate":
            parts.append("### Options of `generate`")
            parts.append("The same for `stream`, `generate_batch` and `generate_async`; at most one constraint.")
            for name in OPTIONS:
                parts += options("integration.answers.options", name)
    parts.append("## Engines and libraries")
    parts.append("Modules below `stackmask.integration`; each is imported only where it is used.")
    for package, modules in INTEGRATIONS.items():
        parts += integration(package, modules)
    return "\n\n".join(parts) + "\n"


def integration(package: str, modules: tuple[str, ...]) -> Iterator[str]:
    """The exports of a package for an engine or a library."""
    yield f"### `stackmask.{package}`"
    tree = module(package)
    yield first_paragraph(ast.get_docstring(tree) or "")
    exported = next((ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign) and is_all(node)), None)
    for home in [package, *(f"{package}.{name}" for name in modules)]:
        for node in module(home).body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or is_overload(node):
                continue
            if node.name.startswith("_") if exported is None else node.name not in exported:
                continue
            yield f"- `{heading(node)}`" + (f", of `stackmask.{home}`" if exported is None and home != package else "")
            yield textwrap.indent(first_paragraph(ast.get_docstring(node) or ""), "    ")


def entry(home: str, name: str) -> Iterator[str]:
    """A function, or a class with its methods and properties."""
    node = find(module(home), name)
    yield f"### `{heading(node)}`"
    yield prose(ast.get_docstring(node) or "")
    if not isinstance(node, ast.ClassDef):
        return
    bodies = [node.body]
    if name in ABOVE:
        above = find(module(ABOVE[name][0]), ABOVE[name][1])
        assert isinstance(above, ast.ClassDef)
        bodies.insert(0, above.body)
    members: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for body in bodies:
        for member in body:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and not member.name.startswith("_") and not is_overload(member):
                members[member.name] = member
    for member in members.values():
        text = ast.get_docstring(member)
        if text is None:
            continue
        decorators = {ast.unparse(decorator) for decorator in member.decorator_list}
        shown = member.name if "property" in decorators else heading(member, inside=True, is_static="staticmethod" in decorators)
        yield f"#### `{name}.{shown}`"
        yield prose(text)


def options(home: str, name: str) -> Iterator[str]:
    """A group of options with their types."""
    node = find(module(home), name)
    assert isinstance(node, ast.ClassDef)
    yield prose(ast.get_docstring(node) or "")
    rows = [
        f"| `{field.target.id}` | `{cell(ast.unparse(field.annotation))}` |"
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    ]
    yield "\n".join(["| option | type |", "|---|---|", *rows])


# The command line


def command_line() -> str:
    """Every command with its options."""
    from stackmask.integration.cli.entry import COMMANDS, build_parser

    parser = build_parser()
    codes = [line.split(maxsplit=1) for line in (parser.epilog or "").splitlines()[1:]]
    parts = ["# Command line", MADE, parser.description or ""]
    rows = [f"| [`stackmask {command.name}`](#stackmask-{command.name}) | {cell(command.help)} |" for command in COMMANDS]
    parts.append("\n".join(["| command | |", "|---|---|", *rows]))
    parts.append("Results go to standard output and everything else to standard error. `stackmask --version` prints the version.")
    parts.append("\n".join(["| exit code | |", "|---|---|", *(f"| {code} | {cell(text)} |" for code, text in codes)]))
    for command in COMMANDS:
        own = argparse.ArgumentParser(add_help=False)
        command.configure(own)
        parts += [f"## `stackmask {command.name}`", f"{command.help[0].upper()}{command.help[1:]}."]
        rows = [f"| {spelled(action)} | {cell(meaning(action))} |" for action in own._actions]
        parts.append("\n".join(["| argument | |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def spelled(action: argparse.Action) -> str:
    """An argument as it is typed."""
    value = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper())
    if not action.option_strings:
        return f"`{value}`"
    return ", ".join(f"`{name}`" if action.nargs == 0 else f"`{name} {value}`".replace("|", "\\|") for name in action.option_strings)


def meaning(action: argparse.Action) -> str:
    """What an argument does."""
    return (action.help or "").replace("%%", "%") % {"default": action.default} if "%(" in (action.help or "") else action.help or ""


# Errors


def errors() -> str:
    """The tree of errors, each with an example, and those of engines and libraries."""
    tree = module("pda.exceptions")
    plan = (ast.get_docstring(tree) or "").split("\n\n")
    parts = ["# Errors", MADE, "Every error that stackmask raises on purpose is a `StackmaskError`:"]
    parts.append(f"```text\n{textwrap.dedent(plan[1])}\n```")
    parts.append(prose(plan[2]))
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        bases = ", ".join(f"`{ast.unparse(base)}`" for base in node.bases if not ast.unparse(base).startswith("_"))
        parts += [f"## `{node.name}`", prose(ast.get_docstring(node) or "")]
        if any(ast.unparse(base) == "_TextError" for base in node.bases):
            parts.append("A `GrammarError` with `message`, `text`, `position`, `line` and `column` of the place.")
        elif bases:
            parts.append(f"A kind of {bases}.")
        if node.name in EXAMPLES:
            parts.append(example(node.name))
    parts.append("## Engines and libraries")
    rows = []
    for path in sorted((ROOT / "integration").rglob("*.py")):
        home = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and re.fullmatch(r"[A-Z]\w*(Error|Warning)", node.name):
                text = first_paragraph(ast.get_docstring(node) or "").replace("\n", " ")
                rows.append(f"| `{node.name}` | `{home}` | {cell(text)} |")
    parts.append("\n".join(["| error | in `stackmask.` | |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def example(name: str) -> str:
    """A program that raises the error, with its output."""
    import stackmask
    from stackmask.integration.demo import demo_vocabulary

    needs = "<!-- given: compiler -->\n" if "compiler" in EXAMPLES[name] else ""
    code = f"import stackmask\n\ntry:\n    {EXAMPLES[name]}\nexcept stackmask.{name} as error:\n    print(error)\n"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"compiler": stackmask.Compiler(demo_vocabulary())})
    shown = "".join(f"#> {line}".rstrip() + "\n" for line in printed.getvalue().splitlines())
    return f"{needs}```python\n{code}{shown}```"


# Reading sources, writing Markdown


@cache
def module(home: str) -> ast.Module:
    """The syntax tree of a module, by its name below `stackmask`."""
    path = PACKAGE / home.replace(".", "/")
    files = [path.with_suffix(".pyi"), path.with_suffix(".py"), path / "__init__.py"]
    return ast.parse(next(file for file in files if file.exists()).read_text(encoding="utf-8"))


def find(tree: ast.Module, name: str) -> ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef:
    """The definition of a name, behind its overloads."""
    found = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name and not is_overload(node)
    ]
    return found[-1]


def is_overload(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a definition is for type checkers alone."""
    return any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)


def is_all(node: ast.Assign) -> bool:
    """Whether this is the list of exported names."""
    return [ast.unparse(target) for target in node.targets] == ["__all__"]


def heading(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, *, inside: bool = False, is_static: bool = False) -> str:
    """A definition with its arguments and defaults, without types."""
    if isinstance(node, ast.ClassDef):
        made = [member for member in node.body if isinstance(member, ast.FunctionDef) and member.name == "__init__"]
        return node.name + (arguments(made[0].args, inside=True) if made else "")
    return node.name + arguments(node.args, inside=inside and not is_static)


def arguments(given: ast.arguments, *, inside: bool) -> str:
    """Arguments as they are written, without their types; `inside` of a class, without self."""
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    parts = [name.arg + ("" if value is None else f"={ast.unparse(value)}") for name, value in zip(plain, defaults, strict=True)]
    if inside:
        parts = parts[1:]
    if given.vararg:
        parts.append(f"*{given.vararg.arg}")
    elif given.kwonlyargs:
        parts.append("*")
    pairs = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    parts += [name.arg + ("" if value is None else f"={ast.unparse(value)}") for name, value in pairs]
    if given.kwarg:
        parts.append(f"**{given.kwarg.arg}")
    return f"({', '.join(parts)})"


def prose(text: str) -> str:
    """A docstring in Markdown: what is indented becomes a block, what looks like a tag is text."""
    parts = []
    for part in re.split(r"\n\s*\n", text):
        if part.startswith((" ", ">>>")):
            parts.append(f"```text\n{textwrap.dedent(part)}\n```")
        else:
            if len(LABEL.findall(part)) > 1:  # an item for each name
                part = LABEL.sub(r"- \g<0>", part).replace("\n- ", "\n\n- ", not part.startswith("`"))
            parts.append(re.sub(r"`[^`]*`|<", lambda found: "&lt;" if found[0] == "<" else found[0], part))
    return "\n\n".join(parts)


def first_paragraph(text: str) -> str:
    """The first paragraph of a docstring."""
    return prose(re.split(r"\n\s*\n", text)[0])


def cell(text: str) -> str:
    """A text inside of a table."""
    return re.sub(r"(?<!\\)\|", r"\\|", text.replace("<", "&lt;"))
