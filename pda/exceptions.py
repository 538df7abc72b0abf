"""The errors stackmask raises.

    StackmaskError
      GrammarError(ValueError)        the place (line:column with a caret, or a JSON pointer), the problem, the supported alternative
        RegexError
        EbnfError
        LarkError
        SchemaError
          UnsupportedSchemaError      every offending keyword with its JSON pointer, all at once
          UnsatisfiableError          no instance can satisfy the schema
        StructuralTagError
      LimitError                      which limit, its value, and the part that exceeds it
      VocabularyError(ValueError)
      RollbackError(ValueError)       asked for more tokens than were accepted
    StackmaskWarning(UserWarning)     a part of a specification that has no effect but was probably meant to

Leaves inherit the builtin that callers expect, so `except ValueError` around a request works.
"""

from __future__ import annotations

from pathlib import PurePath


class StackmaskError(Exception):
    """The root of every error that stackmask raises on purpose."""


class GrammarError(StackmaskError, ValueError):
    """A specification is wrong, or has no exact automaton."""


class _TextError(GrammarError):
    """An error at one position of a specification text; `str` shows the line with a caret below the position."""

    def __init__(self, message: str, text: str = "", position: int | None = None) -> None:
        self.message = message
        self.text = text
        self.position = position
        super().__init__(message if position is None or not text.strip() else f"{message}\n{caret(text, position)}")

    @property
    def line(self) -> int | None:
        """One-based line of the position."""
        return None if self.position is None else self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int | None:
        """One-based column of the position, in code points."""
        return None if self.position is None else self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1


class RegexError(_TextError):
    """A regular expression is malformed, or describes a language that is not regular."""


class EbnfError(_TextError):
    """An EBNF grammar text is malformed, or names a rule that does not exist or produces nothing."""


class LarkError(_TextError):
    """A Lark grammar text is malformed, or uses a feature that has no exact automaton."""


class SchemaError(GrammarError):
    """A JSON Schema is malformed: a keyword has an invalid value, or a reference leads nowhere."""


class UnsupportedSchemaError(SchemaError):
    """A JSON Schema uses keywords that cannot be enforced exactly.

    `problems` lists every one of them as (JSON pointer, reason).
    """

    def __init__(self, problems: tuple[tuple[str, str], ...]) -> None:
        self.problems = problems
        super().__init__("unsupported JSON Schema:\n" + "\n".join(f"  {pointer or '/'}: {reason}" for pointer, reason in problems))


class UnsatisfiableError(SchemaError):
    """No text at all satisfies the specification."""


class StructuralTagError(GrammarError):
    """A structural tag is malformed; the message names the path of the field."""


class LimitError(StackmaskError):
    """A limit was exceeded; `limit` is its name in `Limits`, `value` its value.

    The message begins with the place to blame, if it is known: the pointer of a subschema, a rule, the path of a format.
    """

    def __init__(self, message: str, *, limit: str = "", value: float | None = None) -> None:
        self.limit = limit
        self.value = value
        self.located = False
        super().__init__(message)

    def at(self, place: str) -> LimitError:
        """The error with its place in front of the message; the innermost place stays."""
        if self.located:
            return self
        error = LimitError(f"{place}: {self}", limit=self.limit, value=self.value)
        error.located = True
        return error


class VocabularyError(StackmaskError, ValueError):
    """A tokenizer or a list of tokens cannot be turned into a vocabulary."""


class RollbackError(StackmaskError, ValueError):
    """A rollback asked for more tokens than were accepted."""


class StackmaskWarning(UserWarning):
    """A part of a specification has no effect, but was probably meant to."""


def shown(value: object, most: int = 60) -> str:
    """Any value as text for a message. Python refuses to print integers of many digits, and deeply nested values.

    >>> shown("a"), shown(10**5000)
    ("'a'", 'an int')
    """
    try:
        return f"{value!r:.{most}}"
    except Exception:  # an instance of a foreign class may do anything here
        name = type(value).__name__
        return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def kind_of(value: object) -> str:
    """The type of a value that should be text; of a path also how to get its text, since nothing here reads files.

    >>> from pathlib import PurePosixPath
    >>> kind_of(3), kind_of(PurePosixPath("a.json"))
    ('int', 'PurePosixPath; pass the text of the file: path.read_text()')
    """
    return type(value).__name__ + ("; pass the text of the file: path.read_text()" if isinstance(value, PurePath) else "")


def outside_vocabulary(token: int, size: int | None) -> str:
    """The complaint about the id of a token that a vocabulary of this size does not have; empty where it may have it.

    >>> outside_vocabulary(5, 5), outside_vocabulary(4, 5), outside_vocabulary(4, None)
    ('the vocabulary has no token 5; its ids end at 4', '', '')
    """
    return "" if size is None or token < size else f"the vocabulary has no token {token}; its ids end at {size - 1}"


def caret(text: str, position: int) -> str:
    r"""The line of `text` that holds `position`, its place, and a caret below it.

    >>> print(caret("ab\nc(d", 4))
    line 2, column 2
      c(d
       ^
    """
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end]
    column = position - start
    left = max(0, column - 60)
    shown = line[left : column + 60].replace("\t", " ")
    return f"line {text.count(chr(10), 0, position) + 1}, column {column + 1}\n  {shown}\n  {' ' * (column - left)}^"
