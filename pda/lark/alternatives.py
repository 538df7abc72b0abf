"""Alternatives that are emitted many times: of a template for its arguments, of a rule with a number for each number."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from lark import Token, Tree
from lark.visitors import Transformer_NonRecursive

from ..exceptions import LarkError
from ..grammar import NodeId
from .definitions import Definition, Definitions
from .parametric import Condition, ParameterError, read_condition

Plain: TypeAlias = Callable[[Token | Tree[Token], Definition], NodeId]

ReadT = TypeVar("ReadT")


class Branch:
    """An alternative of a rule that is emitted many times: its condition, the rest, and how many parts that has.

    `is_mixed`: conditions stand inside it, too. `plain` makes the node of a token or tree in a rule of a definition.
    """

    def __init__(self, definitions: Definitions, definition: Definition, child: Token | Tree[Token], plain: Plain) -> None:
        self.definitions = definitions
        self.definition = definition
        self.plain = plain
        self.condition: Condition | None = None
        if definition.parametric and isinstance(child, Tree) and child.children and _is_condition(child.children[-1]):
            *rest, token = child.children
            assert isinstance(token, Token)
            self.condition = parameter_of(definitions, token, len("%if"), read_condition)
            child = Tree(child.data, rest)
        self.written = child
        self.is_mixed = any(map(_is_condition, _parts(child)))

    def at(self, parameter: int) -> Token | Tree[Any]:
        """The tree for a number."""
        tree = self.tree
        return _Choice(self.definitions, parameter).transform(tree) if self.is_mixed and isinstance(tree, Tree) else tree

    @cached_property
    def tree(self) -> Token | Tree[Any]:
        """The tree; of a rule with a number, those members of a sequence are nodes already that are the same for all numbers."""
        tree = self.written
        is_fixable = self.definition.parametric and not self.is_mixed
        if not is_fixable or not isinstance(tree, Tree) or tree.data != "expansion" or len(tree.children) < 2:
            return tree
        return Tree("expansion", [part if _is_parametric(part) else self.plain(part, self.definition) for part in tree.children])

    @cached_property
    def size(self) -> int:
        """How many parts are emitted each time."""
        return 1 + len(_parts(self.tree))


def _parts(tree: Token | Tree[Any]) -> list[Any]:
    """All that stands inside a tree."""
    return [part for inner in tree.iter_subtrees() for part in inner.children] if isinstance(tree, Tree) else []


def _is_parametric(tree: Token | Tree[Token]) -> bool:
    """Whether a rule with a number is called inside a tree."""
    return isinstance(tree, Tree) and any(inner.data == "parametric" for inner in tree.iter_subtrees())


def _is_condition(part: object) -> bool:
    """Whether a part of a tree is `%if condition`."""
    return isinstance(part, Token) and part.type == "CONDITION"


class _Choice(Transformer_NonRecursive[Token, Any]):
    """Of the trees of a rule with a number, those alternatives whose conditions hold."""

    def __init__(self, definitions: Definitions, parameter: int) -> None:
        super().__init__()
        self.definitions = definitions
        self.parameter = parameter

    def expansion(self, children: list[Any]) -> Tree[Any]:
        """A B %if condition."""
        if not children or not _is_condition(children[-1]):
            return Tree("expansion", children)
        holds = parameter_of(self.definitions, children[-1], len("%if"), read_condition)(self.parameter)
        return Tree("expansion", children[:-1]) if holds else Tree("never", [])


def parameter_of(definitions: Definitions, token: Token, begin: int, read: Callable[[str], ReadT]) -> ReadT:
    """The number or the condition behind its mark in a token."""
    try:
        return read(token[begin:])
    except ParameterError as error:
        assert token.start_pos is not None
        raise LarkError(str(error), definitions.text, token.start_pos + begin + error.offset) from None
