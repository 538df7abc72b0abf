r"""The parser of regular expressions, for two languages: ECMA-262 with flag `u` or `v`, and Python's `re`.

One loop with an explicit stack of open groups, so nesting costs no Python stack.
The table of flavour.py says where the two languages differ. Most patterns come as ECMA-262, because JSON Schema names it; what only Python
knows is taken when no other meaning competes with it, and refused otherwise:

    .  \d \w \s  \b    ECMA-262: `.` stops at \n \r \u2028 \u2029, \d and \w are ASCII, \s holds Unicode blanks
    $  \Z  \z          the very end (Python's `$` would also hold before a last newline)
    (?i) (?s) (?m) (?x) and (?i-s:...)    flags, to the end of the group they stand in; (?u) is always on
    (?<n>...) (?P<n>...) (?#...)          Python's spellings too
    x{,n}              up to n (Python); `{` and `}` that form no quantifier are plain characters, and so is a lone `]`
                       unless a class before it makes that doubtful
    x*+  (?>x)         read as Atomic nodes, which are refused unless they make no difference
    \1 (?P=n) \k<n> (?R) (?(1)...)        refused: back-references, recursion and conditions describe no regular language

The terminals of Lark are read as Python's, where it also matters which of several matches is preferred: first_match.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final, NoReturn, TypeAlias

from ..automata.charset import ANY, CharSet, from_ranges, pairs
from ..budget import Budget
from ..exceptions import LimitError, RegexError, kind_of
from ..limits import Limits
from .ast import Alt, Anchor, Ast, AstId, AstNode, Atomic, Boundary, Chars, Look, Place, Repeat, Seq, Text
from .char_class import Fault
from .flags import DOT_ALL, IGNORE_CASE, MULTILINE, VERBOSE
from .flavour import ECMA, PYTHON, Flavour
from .to_nfa import check_atoms

# An element of a sequence that is still open: literal text, a character set, or a finished node.
Item: TypeAlias = str | CharSet | AstId

# A count past this is refused: no engine could honour it.
MAX_REPEAT: Final = (1 << 31) - 1
# Depth of lookarounds inside each other; they are the one nesting that costs Python stack, in the compiler.
MAX_LOOK_NESTING: Final = 50

# Characters that may be read twice to find out whether `[` inside of a class begins another.
MAX_TRIED: Final = 200_000
# Literal text is collected in pieces of about this length: longer ones would be copied over and over.
_PIECE: Final = 100

_LITERAL: Final = re.compile(r"[^\\^$.|?*+()\[\]{]+")
_VERBOSE_LITERAL: Final = re.compile(r"[^\\^$.|?*+()\[\]{# \t\n\r\v\f]+")
# Python leaves out the blanks of ASCII alone.
_VERBOSE_BLANK: Final = re.compile(r"[ \t\n\r\v\f]+|#[^\n]*")
_COUNT: Final = re.compile(r"\{(\d*)(?:(,)(\d*))?\}", re.ASCII)
_GROUP: Final = re.compile(
    r"\((?:\?(?:(?P<plain>:)|(?P<look><?[=!])|(?P<atomic>>)|(?P<python>P?)<(?P<name>[^>]*)>|(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]+))?(?P<end>[:)])"
    r"|(?P<comment>\#[^)]*\))))?"
)
_REFUSED_GROUPS: Final = (
    ("(?P=", "a back-reference describes no regular language; write out the alternatives"),
    ("(?P>", "recursion describes no regular language; write the pattern as an EBNF grammar"),
    ("(?R", "recursion describes no regular language; write the pattern as an EBNF grammar"),
    ("(?&", "recursion describes no regular language; write the pattern as an EBNF grammar"),
    ("(?+", "recursion describes no regular language; write the pattern as an EBNF grammar"),
    ("(?(", "conditional groups are not supported; write out the alternatives"),
    ("(?|", "branch reset groups are not supported; write (?:...)"),
    ("(?#", "this comment has no closing )"),
    ("(?<", "a group name has to end in >"),
    ("(?P", "Python writes named groups (?P<name>...); nothing else begins with (?P"),
)


def parse(pattern: str, *, limits: Limits | None = None) -> Ast:
    """The syntax tree of a pattern of ECMA-262.

    >>> parse("a|b+").nodes
    (Text(text='b'), Repeat(body=0, minimum=1, maximum=-1, lazy=False), Text(text='a'), Alt(parts=(1, 2)))
    """
    if not isinstance(pattern, str):
        raise RegexError(f"a regular expression must be a str, not {kind_of(pattern)}")
    limits = Limits() if limits is None else limits
    return _parse(pattern, limits) if len(pattern) < 1000 else _parse.__wrapped__(pattern, limits)


# PERF: one schema often repeats a pattern, and so do the schemas of one service.
@lru_cache(maxsize=256)
def _parse(pattern: str, limits: Limits) -> Ast:
    if len(pattern) > limits.specification_bytes:
        raise LimitError(
            f"a regular expression of {len(pattern)} characters, more than {limits.specification_bytes} bytes",
            limit="specification_bytes",
            value=limits.specification_bytes,
        )
    if not pattern.isascii():
        try:
            pattern.encode()
        except UnicodeEncodeError as error:
            raise RegexError("the pattern contains a lone surrogate, which is not a character of any text", pattern, error.start) from None
    return _Parser(pattern, ECMA, Budget(limits)).run()


def parse_python(pattern: str, budget: Budget) -> Ast:
    """The syntax tree of a pattern of Python's `re`.

    >>> parse_python("a|b+?", Budget()).nodes
    (Text(text='b'), Repeat(body=0, minimum=1, maximum=-1, lazy=True), Text(text='a'), Alt(parts=(2, 1)))

    Possessive quantifiers and atomic groups make no difference here, and leave no node; others are refused.
    """
    ast = _Parser(pattern, PYTHON, budget).run()
    if not ast.atoms:
        return ast
    check_atoms(ast, budget)
    nodes = tuple(Seq((node.body,)) if isinstance(node, Atomic) else node for node in ast.nodes)
    return replace(ast, nodes=nodes, atoms=0)


class _Group:
    """An open group: its kind, its start, its finished branches, and the branch being read."""

    __slots__ = ("branches", "flags", "items", "kind", "position", "repeatable")

    def __init__(self, kind: str, flags: int, position: int) -> None:
        self.kind = kind
        self.flags = flags
        self.position = position
        self.branches: list[Item] = []
        self.items: list[Item] = []
        self.repeatable = False  # whether a quantifier may follow the last item


class _Parser:
    """The state of one parse."""

    __slots__ = (
        "assertions", "at", "atoms", "blank", "budget", "doubtful", "flavour",
        "group", "looks", "nodes", "pattern", "places", "stack", "tried",
    )  # fmt: skip

    def __init__(self, pattern: str, flavour: Flavour, budget: Budget) -> None:
        self.pattern = pattern
        self.flavour = flavour
        self.budget = budget
        self.nodes: list[AstNode] = []
        self.places: list[tuple[AstId, int]] = []
        self.stack: list[_Group] = []
        self.group = _Group("", 0, 0)
        self.at = 0
        self.assertions = self.atoms = self.looks = self.tried = 0
        self.blank = -1
        self.doubtful = -1  # where a class was that other engines read to a later `]`

    def run(self) -> Ast:
        try:
            self.read()
        except Fault as fault:
            raise RegexError(fault.message, self.pattern, fault.position) from None
        branches = len(self.group.branches) + 1
        root = self.node_of(self.close_branches())
        return Ast(self.pattern, tuple(self.nodes), root, self.assertions, self.atoms, branches, tuple(self.places), self.blank)

    def read(self) -> None:
        """Read all of the pattern."""
        pattern = self.pattern
        end = len(pattern)
        rounds = 0
        while self.at < end:
            handler = _HANDLERS.get(pattern[self.at])
            if handler is not None:
                handler(self)
            else:
                self.literal()
            rounds += 1
            if not rounds & 0xFFF:
                self.budget.spend(2 << 12)
        if self.stack:
            raise Fault("this group has no closing )", self.group.position)

    # Building the tree.

    def add(self, node: AstNode) -> AstId:
        self.nodes.append(node)
        return AstId(len(self.nodes) - 1)

    def node_of(self, item: Item) -> AstId:
        if isinstance(item, int):
            return item
        return self.add(Text(item) if isinstance(item, str) else Chars(item))

    def push(self, item: Item) -> None:
        self.group.items.append(item)
        self.group.repeatable = True

    def push_text(self, text: str) -> None:
        group = self.group
        if group.flags & IGNORE_CASE:
            any_case = self.flavour.any_case
            for character in text:
                # Two cases may be neighbours, as those of most letters from U+0100 to U+0233 are: one range, and yet two characters.
                alone = (ord(character), ord(character))
                chars = any_case(alone, group.flags)
                self.push(character if chars == alone else chars)
            return
        items = group.items
        if items and isinstance(last := items[-1], str) and len(last) < _PIECE:
            items[-1] = last + text
        else:
            items.append(text)
        group.repeatable = True

    def close_branch(self) -> Item:
        items = self.group.items
        if len(items) == 1:
            return items[0]
        return self.add(Seq(tuple([self.node_of(item) for item in items])))

    def close_branches(self) -> Item:
        group = self.group
        if not group.branches:
            return self.close_branch()
        group.branches.append(self.close_branch())
        # Branches of one character each are one set: fewer states, and nothing to try twice.
        # Where earlier ones are preferred, none may be moved past a longer one.
        singles: list[Item] = []
        kept: list[Item] = []
        for item in group.branches:
            single = isinstance(item, tuple) or (isinstance(item, str) and len(item) == 1)
            (singles if single else kept).append(item)
        if self.flavour.ordered and kept:
            kept = group.branches
        elif len(singles) > 1:
            kept.append(from_ranges(pair for item in singles for pair in _ranges(item)))
        else:
            kept += singles
        return kept[0] if len(kept) == 1 else self.add(Alt(tuple([self.node_of(item) for item in kept])))

    # One method for each character that is not literal.

    def literal(self) -> None:
        verbose = self.group.flags & VERBOSE
        if verbose:
            blank = _VERBOSE_BLANK.match(self.pattern, self.at)
            if blank is not None:
                self.at = blank.end()
                return
        match = (_VERBOSE_LITERAL if verbose else _LITERAL).match(self.pattern, self.at)
        assert match is not None
        self.push_text(match[0])
        self.at = match.end()

    def alternative(self) -> None:
        group = self.group
        group.branches.append(self.close_branch())
        group.items = []
        group.repeatable = False
        self.at += 1

    def dot(self) -> None:
        self.push(ANY if self.group.flags & DOT_ALL else self.flavour.dot)
        self.at += 1

    def anchor_start(self) -> None:
        self.anchor(Place.LINE_START if self.group.flags & MULTILINE else Place.START)

    def anchor_end(self) -> None:
        self.anchor(Place.LINE_END if self.group.flags & MULTILINE else self.flavour.end)

    def anchor(self, place: Place) -> None:
        self.assertion(Anchor(place), self.at)
        self.at += 1

    def assertion(self, node: AstNode, position: int) -> None:
        self.assertions += 1
        item = self.add(node)
        self.places.append((item, position))
        self.group.items.append(item)
        self.group.repeatable = False

    def character_class(self) -> None:
        match = self.flavour.read_class(self.pattern, self.at, self.group.flags)
        self.tried += match.tried
        if self.tried > MAX_TRIED:
            raise Fault(r"too many [ that may or may not begin a class; write \[ for the character", self.at)
        if match.doubtful:
            self.doubtful = self.at
        if not match.chars and self.blank < 0:
            self.blank = self.at
        self.push(match.chars)
        self.at = match.end

    def bracket(self) -> None:
        if self.doubtful >= 0:
            raise Fault(
                r"this ] has no class to close, and the class before it is read differently by other engines; "
                r"write \] and \[ for the characters",
                self.at,
            )
        self.push_text("]")
        self.at += 1

    def escape(self) -> None:
        flavour, flags = self.flavour, self.group.flags
        start = self.at + 1
        letter = self.pattern[start : start + 1]
        if letter and letter in "bB":
            self.assertion(Boundary(flavour.word(flags), letter == "B"), self.at)
            self.at = start + 1
        elif letter in flavour.anchors:
            self.anchor(flavour.anchors[letter])
            self.at = start + 1
        elif flavour.back_reference.match(self.pattern, start):
            raise Fault("a back-reference describes no regular language; write out the alternatives", self.at)
        else:
            found = flavour.escaped_set(self.pattern, start, flags)
            if found is not None:
                self.push(found[0])
                self.at = found[1]
            else:
                point, self.at = flavour.escaped_character(self.pattern, start)
                self.push_text(chr(point))

    def quantifier(self) -> None:
        pattern, at = self.pattern, self.at
        character = pattern[at]
        if character == "{":
            count = _COUNT.match(pattern, at)
            if count is None or not (count[1] or count[2]):
                self.push_text("{")
                self.at += 1
                return
            minimum, maximum = self.count(count)
            self.at = count.end()
        else:
            minimum, maximum = _QUANTIFIERS[character]
            self.at += 1
        if not self.group.repeatable:
            raise Fault(f"nothing to repeat before {pattern[at : self.at]}; for the character write \\{character}", at)
        suffix = pattern[self.at : self.at + 1]
        if suffix in ("?", "+"):
            self.at += 1
        else:
            suffix = ""
        body = self.take_last()
        if not suffix and self.repeat_further(body, minimum, maximum):
            self.group.repeatable = False
            return
        item = body if minimum == maximum == 1 else self.add(Repeat(self.node_of(body), minimum, maximum, suffix == "?"))
        if suffix == "+":
            self.atoms += 1
            item = self.add(Atomic(self.node_of(item), at))
        self.push(item)
        self.group.repeatable = False

    def repeat_further(self, body: Item, minimum: int, maximum: int) -> bool:
        """Let the repetition before it take these too, if it is greedy and repeats the same one character: `a?a?` is `a{0,2}`."""
        items = self.group.items
        if not items or isinstance(body, int) or not isinstance(items[-1], int):
            return False
        place = items[-1]
        before = self.nodes[place]
        if not isinstance(before, Repeat) or before.lazy:
            return False
        repeated = self.nodes[before.body]
        if not (isinstance(repeated, Text) and repeated.text == body) and not (isinstance(repeated, Chars) and repeated.chars == body):
            return False
        least = before.minimum + minimum
        most = -1 if before.maximum < 0 or maximum < 0 else before.maximum + maximum
        if max(least, most) > MAX_REPEAT:
            return False
        self.nodes[place] = Repeat(before.body, least, most)
        return True

    def take_last(self) -> Item:
        """The item that a quantifier applies to: of literal text the last character."""
        items = self.group.items
        last = items.pop()
        if isinstance(last, str) and len(last) > 1:
            items.append(last[:-1])
            return last[-1]
        return last

    def count(self, match: re.Match[str]) -> tuple[int, int]:
        low, comma, high = match[1], match[2], match[3]
        if comma and not low and not high and not self.flavour.open_count:
            raise Fault(r"{,} is zero or more to some engines and three characters to others; write * or \{,\}", self.at)
        if max(len(low), len(high or "")) > 10 or int(low or "0") > MAX_REPEAT or int(high or "0") > MAX_REPEAT:
            raise LimitError(f"the quantifier {match[0][:40]} counts to more than {MAX_REPEAT}", limit="states", value=MAX_REPEAT)
        minimum = int(low or "0")
        maximum = (int(high) if high else -1) if comma else minimum
        if 0 <= maximum < minimum:
            raise Fault(f"the bounds of {match[0]} are out of order", self.at)
        return minimum, maximum

    def open_group(self) -> None:
        pattern, start = self.pattern, self.at
        match = _GROUP.match(pattern, start)
        assert match is not None
        flags = self.group.flags
        kind = ""
        if match.end() == start + 1:
            if pattern.startswith("(?", start) or pattern.startswith("(*", start):
                self.refuse_group()
        elif match["comment"]:
            self.at = match.end()
            return
        elif match["look"]:
            kind = match["look"]
            self.looks += 1
            if self.looks > MAX_LOOK_NESTING:
                raise LimitError(f"lookarounds are nested more than {MAX_LOOK_NESTING} deep", limit="nesting", value=MAX_LOOK_NESTING)
        elif match["atomic"]:
            kind = ">"
        elif match["name"] is not None:
            if not match["python"] and not self.flavour.short_names:
                raise Fault("a group name is written (?P<name>...)", start)
            if not match["name"].replace("$", "_").isidentifier():
                raise Fault(f"{match['name']!r} is not a group name", start)
        elif match["end"]:
            if match["on"].startswith("R"):
                self.refuse_group()
            flags = self.flags(match, flags)
            if match["end"] == ")":
                self.group.flags = flags
                self.group.repeatable = False
                self.at = match.end()
                return
        self.at = match.end()
        self.stack.append(self.group)
        deepest = self.budget.limits.nesting
        if len(self.stack) > deepest:
            raise LimitError(f"groups are nested more than {deepest} deep", limit="nesting", value=deepest)
        self.group = _Group(kind, flags, start)

    def refuse_group(self) -> NoReturn:
        for opening, message in _REFUSED_GROUPS:
            if self.pattern.startswith(opening, self.at):
                raise Fault(message, self.at)
        if self.pattern[self.at + 2 : self.at + 3] in tuple("0123456789"):
            raise Fault(_REFUSED_GROUPS[1][1], self.at)
        if self.pattern.startswith("(*", self.at):
            raise Fault(r"verbs such as (*FAIL) are not supported; for the character write \*", self.at)
        raise Fault(f"unknown kind of group; available: {self.flavour.groups}", self.at)

    def flags(self, match: re.Match[str], flags: int) -> int:
        on, off = match["on"], match["off"] or ""
        if not on and not off and match["end"] == ")":
            raise Fault("this group holds no flags", self.at)
        switches = self.flavour.switches
        for letter in on + off:
            if letter not in switches:
                raise Fault(f"unknown flag {letter!r}; available: {self.flavour.flag_names}", self.at)
        for letter in on:
            flags = (flags | switches[letter][0]) & ~switches[letter][1]
        for letter in off:
            if letter in on or letter in self.flavour.lasting:
                raise Fault(f"flag {letter!r} cannot be switched off here", self.at)
            flags &= ~switches[letter][0]
        return flags

    def close_group(self) -> None:
        if not self.stack:
            raise Fault(r"this ) closes no group; for the character write \)", self.at)
        item = self.close_branches()
        kind, position = self.group.kind, self.group.position
        self.group = self.stack.pop()
        self.at += 1
        if not kind:
            # A text in brackets is repeated as a whole.
            self.push(self.node_of(item) if isinstance(item, str) and len(item) > 1 else item)
        elif kind == ">":
            self.atoms += 1
            self.push(self.add(Atomic(self.node_of(item), position)))
        else:
            self.looks -= 1
            self.assertion(Look(self.node_of(item), kind[0] != "<", kind[-1] == "!"), position)
            self.group.repeatable = True


def _ranges(item: Item) -> Iterable[tuple[int, int]]:
    """The ranges of an item that is one character or one set."""
    if isinstance(item, str):
        return ((ord(item), ord(item)),)
    assert isinstance(item, tuple)
    return pairs(item)


_QUANTIFIERS: Final = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}
_HANDLERS: Final = {
    "\\": _Parser.escape,
    "^": _Parser.anchor_start,
    "$": _Parser.anchor_end,
    ".": _Parser.dot,
    "|": _Parser.alternative,
    "?": _Parser.quantifier,
    "*": _Parser.quantifier,
    "+": _Parser.quantifier,
    "{": _Parser.quantifier,
    "(": _Parser.open_group,
    ")": _Parser.close_group,
    "[": _Parser.character_class,
    "]": _Parser.bracket,
}
