"""Patterns that are a list of words, such as `yes|no|maybe` or `(?i:select|insert)`, whose automaton is made without a determinisation.

A word is a row of sets of characters. Where two sets of a list are equal or disjoint, as all cases of a letter are, they serve as letters:
the words make a trie, and equal subtrees fold into one from the leaves up (Revuz, "Minimisation of acyclic deterministic automata in
linear time", Theoretical Computer Science 92, 1992).
"""

from __future__ import annotations

from collections.abc import Set

from ..automata.charset import CharSet, size, union
from ..automata.dfa import Dfa, from_letters
from ..budget import Budget
from ..choice import without_extensions
from .ast import Alt, Ast, AstId, Chars, Seq, Text

Word = tuple[CharSet, ...]


def word_list(ast: Ast, root: AstId) -> list[Word] | None:
    """The alternatives of a node in their order, as words; None where one is no word or two sets overlap.

    >>> from stackmask.pda.regex.parser import parse
    >>> ast = parse("ab|(?:cd|e)")
    >>> [len(word) for word in word_list(ast, ast.root)]
    [2, 2, 1]
    >>> ast = parse("[ab]c|bd")
    >>> word_list(ast, ast.root) is None
    True
    """
    words: list[Word] = []
    todo = [root]
    while todo:
        index = todo.pop()
        node = ast.nodes[index]
        if isinstance(node, Alt):
            todo.extend(reversed(node.parts))
            continue
        word: list[CharSet] = []
        for part in node.parts if isinstance(node, Seq) else (index,):
            letter = ast.nodes[part]
            if isinstance(letter, Chars):
                word.append(letter.chars)
            elif isinstance(letter, Text):
                word += [(ord(character), ord(character)) for character in letter.text]
            else:
                return None
        words.append(tuple(word))
    return words if are_disjoint({chars for word in words for chars in word}) else None


def are_disjoint(letters: Set[CharSet]) -> bool:
    """Whether no set is empty and no two share a character."""
    return all(letters) and size(union(*letters)) == sum(map(size, letters))


def plain_words(ast: Ast) -> list[str] | None:
    """The words of a pattern that is alternatives of literal texts and nothing else, without those that begin with an earlier word.

    >>> from stackmask.pda.regex.parser import parse_python
    >>> plain_words(parse_python("ab|cd|abc|c", Budget())), plain_words(parse_python("ab|c.", Budget()))
    (['ab', 'cd', 'c'], None)
    """
    root = ast.nodes[ast.root]
    if not isinstance(root, Alt):
        return None
    words: list[str] = []
    for part in root.parts:
        node = ast.nodes[part]
        if not isinstance(node, Text):
            return None
        words.append(node.text)
    return without_extensions(words)


def words_dfa(words: list[Word], budget: Budget, *, first_match: bool = False) -> Dfa:
    """The canonical automaton of the words; with `first_match` without those of which an earlier word is the beginning.

    >>> from stackmask.pda.regex.parser import parse
    >>> ast = parse("ab|a|abc")
    >>> words_dfa(word_list(ast, ast.root), Budget(), first_match=True)
    <Dfa of 3 states, 2 transitions>
    """
    return from_letters(words, lambda chars: chars, budget, prefix_free=first_match)
