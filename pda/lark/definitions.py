"""The definitions of a Lark grammar text, with those it imports from lark's own grammars, and the names they know each other by.

Files are never read: %import knows the four grammars that come with lark (common, lark, python, unicode) and nothing else.
As in lark, an imported name is known by itself or its alias, and what it depends on is renamed `grammar__name`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias

from lark import Token, Tree

from ..budget import Budget
from ..exceptions import LarkError, LimitError, shown
from .lexer import parse, read_json

BUNDLED: Final = ("common", "lark", "python", "unicode")

Rename: TypeAlias = Callable[[str], str]

_NAMES: Final = ("RULE", "TERMINAL", "TEMPLATE", "PARAMETRIC")
_SETTINGS: Final[dict[str, tuple[object, ...]]] = {
    "allow_initial_skip": (False, True),
    "allow_invalid_utf8": (False,),
    "ignore_once": (False, True),
    "no_forcing": (False, True),
    "skip_repetition": ("once", "many"),
}


@dataclass(slots=True)
class Definition:
    """A rule, template or terminal.

    `head` is its name where it is defined, or the import that brought it; `rename` gives the global name behind a name in its trees, which
    are its alternatives. `bodies` is empty for a terminal that %declare gives no text.
    """

    head: Token
    rename: Rename
    bodies: list[Tree[Token]]
    parameters: tuple[str, ...] = ()
    options: dict[str, Token | None] = field(default_factory=dict)
    imported: bool = False
    parametric: bool = False

    def symbols(self) -> Iterator[Token]:
        """The names in its trees, parameters left out."""
        for body in self.bodies:
            for tree in body.iter_subtrees():
                for child in tree.children:
                    if isinstance(child, Token) and child.type in _NAMES and child not in self.parameters:
                        yield child


class Definitions:
    """All definitions of a grammar text, or of one inside another, from `begin` to `end`."""

    def __init__(self, text: str, budget: Budget, begin: int = 0, end: int | None = None) -> None:
        self.text = text
        self.begin = begin
        self.budget = budget
        self.by_name: dict[str, Definition] = {}
        self.ignored: list[Tree[Token]] = []
        self.options: dict[str, object] = {}
        tree = parse(text, budget, begin, end)
        for (grammar, relative), (first, aliases) in _imports(tree).items():
            self.load_import(grammar, relative, first, aliases)
        for statement in tree.children:
            assert isinstance(statement, Tree)
            self.add(statement)

    def error(self, message: str, token: Token) -> LarkError:
        """An error at a position of the text."""
        return LarkError(message, self.text, token.start_pos)

    def add(self, statement: Tree[Token]) -> None:
        """One statement; imports are loaded before."""
        kind = statement.data
        if kind in ("override", "extend"):
            (definition,) = statement.children
            assert isinstance(definition, Tree)
            self.define(definition, kind)
        elif kind == "definition":
            self.define(statement, kind)
        elif kind == "ignore":
            self.ignored.append(statement)
        elif kind == "declare":
            declare = statement.children[0]
            assert isinstance(declare, Token)
            raise self.error("%declare names terminals without text, which cannot be generated; define them", declare)
        elif kind == "options":
            self.set_options(statement.children[0])  # type: ignore[arg-type]

    def define(self, tree: Tree[Token], kind: str) -> None:
        """A definition, or with %override or %extend what changes one."""
        definition = _read(tree, str)
        name = str(definition.head)
        twice = _repeated(tree)
        if twice is not None:
            raise self.error(f"the option `{twice}` is given twice", twice)
        if definition.parametric and _parameter(tree) != "::_":
            raise self.error(f"a rule with a number is defined as `{name}::_`", definition.head)
        before = self.by_name.get(name)
        if kind == "definition" and before is not None:
            where = "is imported already" if before.imported else f"is defined already on line {self.line(before.head)}"
            raise self.error(f"`{name}` {where}", definition.head)
        if kind != "definition" and before is None:
            raise self.error(f"%{kind} needs a `{name}` that was defined or imported before", definition.head)
        if len(self.by_name) >= self.budget.limits.rules:
            most = self.budget.limits.rules
            raise LimitError(f"the grammar has more than {most} rules", limit="rules", value=most)
        if kind == "extend":
            assert before is not None
            if before.parameters != definition.parameters or before.parametric != definition.parametric:
                raise self.error(f"%extend needs the parameters that `{name}` has", definition.head)
            self.extend(before, definition)
        else:
            self.by_name[name] = definition

    def extend(self, before: Definition, more: Definition) -> None:
        """Add alternatives. Imported ones know other names, so they become a definition of their own."""
        name = str(more.head)
        if before.imported:
            other = f"{name}__imported"
            self.by_name[other] = before
            kind = more.head.type
            more.bodies.append(Tree("expansions", [Tree("expansion", [Token(kind, other, more.head.start_pos)])]))
            self.by_name[name] = more
        else:
            before.bodies += more.bodies

    def line(self, token: Token) -> int:
        """The line of a token."""
        return self.text.count("\n", 0, token.start_pos) + 1

    def set_options(self, token: Token) -> None:
        """%llguidance {...} or %grammar_options {...}: a repeated option replaces the earlier value from there on."""
        directive = token[: len("%llguidance" if token.startswith("%llguidance") else "%grammar_options")]
        value = read_json(token, len(directive))[0]
        if not isinstance(value, dict):
            raise self.error(f"{directive} takes an object", token)
        for key, setting in value.items():
            if key not in _SETTINGS:
                raise self.error(f"there is no option {shown(key)}; available: {', '.join(_SETTINGS)}", token)
            if not any(setting is known or (setting == known and isinstance(known, str)) for known in _SETTINGS[key]):
                known = " or ".join(json.dumps(known) for known in _SETTINGS[key])
                raise self.error(f"the option {key} is {known} here, not {shown(setting)}", token)
        self.options |= value

    def load_import(self, grammar: str, relative: bool, statement: Token, aliases: dict[str, str]) -> None:
        """The names that a text imports from one grammar, and their dependencies."""
        if relative or grammar not in BUNDLED:
            known = ", ".join(BUNDLED)
            raise self.error(f"no grammar `{'.' * relative}{grammar}` can be imported: files are not read; available: {known}", statement)
        library = _load(grammar, _renaming(grammar, aliases, str))
        todo = list(aliases.values())
        for name, alias in aliases.items():
            if alias not in library:
                near = get_close_matches(name[:100], _bundled(grammar)[0], n=1)
                raise self.error(f"grammar `{grammar}` has no `{name}`" + (f"; did you mean `{near[0]}`?" if near else ""), statement)
        while todo:
            name = todo.pop()
            if name not in self.by_name:
                definition = self.by_name[name] = library[name]
                definition.head = Token(definition.head.type, name, statement.start_pos)
                todo += [definition.rename(str(symbol)) for symbol in definition.symbols()]

    def find(self, token: Token, user: Definition) -> tuple[str, Definition]:
        """The definition behind a name in the trees of another one."""
        name = user.rename(str(token))
        found = self.by_name.get(name)
        if found is None:
            at = user.head if user.imported else token
            near = get_close_matches(name[:100], self.by_name, n=1) if len(self.by_name) <= 1000 else []
            raise self.error(f"`{name}` is not defined" + (f"; did you mean `{near[0]}`?" if near else ""), at)
        return name, found


def _read(tree: Tree[Token], rename: Rename) -> Definition:
    """A definition as it stands in the text."""
    parameters: tuple[str, ...] = ()
    options: dict[str, Token | None] = {}
    head = body = None
    for child in tree.children:
        if isinstance(child, Token):
            head = child if child.type not in ("MODIFIERS", "PARAMETER") else head
        elif child.data == "parameters":
            parameters = tuple(map(str, child.children))
        elif child.data == "attributes":
            options |= dict(map(_attribute, child.children))
        elif child.data == "expansions":
            body = child
    assert head is not None and body is not None
    return Definition(head, rename, [body], parameters, options, parametric=head.type == "PARAMETRIC")


def _repeated(tree: Tree[Token]) -> Token | None:
    """An option of a definition that is given twice."""
    seen: set[str] = set()
    for attributes in _statements(tree, "attributes"):
        for attribute in attributes.children:
            assert isinstance(attribute, Tree)
            key = attribute.children[0]
            if key in seen:
                return key  # type: ignore[return-value]
            seen.add(str(key))
    return None


def _parameter(tree: Tree[Token]) -> str:
    """The text behind the name of a parametric rule, without blanks."""
    return "".join(next(str(child) for child in tree.children if isinstance(child, Token) and child.type == "PARAMETER").split())


def _attribute(tree: Any) -> tuple[str, Token | None]:
    """One option in the brackets after a name, with its value if it has one."""
    children = tree.children
    return str(children[0]), children[1] if len(children) > 1 else None


def _statements(tree: Tree[Token], kind: str) -> Iterator[Tree[Token]]:
    """The statements of one kind, in order."""
    return (child for child in tree.children if isinstance(child, Tree) and child.data == kind)


Imports: TypeAlias = dict[tuple[str, bool], tuple[Token, dict[str, str]]]
"""By grammar, and whether it is named relative to this one: the first statement that names it, and the names that are imported and their
names here."""


def _imports(tree: Tree[Token]) -> Imports:
    """The imports of a grammar text."""
    imports: Imports = {}
    for statement in _statements(tree, "import_"):
        path, *what = statement.children
        assert isinstance(path, Tree)
        names = [token for token in path.children if isinstance(token, Token)]
        first = names[0]
        relative = first.type == "RELATIVE"
        names = names[relative:]
        if what and isinstance(what[0], Tree):
            aliases = {str(name): str(name) for name in what[0].children}
        else:
            name = names.pop()
            aliases = {str(name): str(what[0] if what else name)}
        imports.setdefault((".".join(names), relative), (first, {}))[1].update(aliases)
    return imports


@cache
def _bundled(grammar: str) -> tuple[dict[str, Tree[Token]], Imports, frozenset[str]]:
    """The definitions of one of lark's own grammars by name, its imports, and the terminals that it only declares."""
    tree = parse((files("lark") / "grammars" / f"{grammar}.lark").read_text(encoding="utf-8"), Budget())
    definitions = {str(_read(child, str).head): child for child in _statements(tree, "definition")}
    declared = frozenset(str(name) for declare in _statements(tree, "declare") for name in declare.children[1:])
    return definitions, _imports(tree), declared


def _load(grammar: str, rename: Rename) -> dict[str, Definition]:
    """All definitions of one of lark's own grammars and of those it imports itself, by their names in the importing text."""
    trees, imports, declared = _bundled(grammar)
    library: dict[str, Definition] = {}
    for (other, _), (_, aliases) in imports.items():
        library |= _load(other, _renaming(other, aliases, rename))
    for name in declared:
        library[rename(name)] = Definition(Token("TERMINAL", name), rename, [], imported=True)
    for name, tree in trees.items():
        definition = _read(tree, rename)
        definition.imported = True
        library[rename(name)] = definition
    return library


def _renaming(grammar: str, aliases: Mapping[str, str], outer: Rename) -> Rename:
    """The names that an imported grammar's definitions get: those asked for their alias, others the grammar's name in front."""

    def rename(name: str) -> str:
        hidden = "_" * name.startswith("_")
        return outer(aliases.get(name) or f"{hidden}{grammar}__{name.removeprefix('_')}")

    return rename
