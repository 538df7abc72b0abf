"""What a regular expression means, by definition: the ends of all its matches, found by trying everything.

It shares the parser with the automata and nothing else.
"""

from __future__ import annotations

from stackmask.pda.automata import charset
from stackmask.pda.regex import Ast
from stackmask.pda.regex.ast import Alt, Anchor, AstId, Atomic, Boundary, Chars, Look, Place, Repeat, Seq, Text

NEWLINES = "\n\r\u2028\u2029"


class Oracle:
    """All matches of one pattern in one text."""

    def __init__(self, ast: Ast, text: str) -> None:
        self.ast = ast
        self.text = text
        self.known: dict[tuple[int, int], frozenset[int]] = {}

    def whole(self) -> bool:
        """Whether a match covers the text."""
        return len(self.text) in self.ends(self.ast.root, 0)

    def search(self) -> bool:
        """Whether there is a match anywhere."""
        return any(self.ends(self.ast.root, start) for start in range(len(self.text) + 1))

    def ends(self, index: AstId, start: int) -> frozenset[int]:
        """Where a match of a node that begins at `start` can end."""
        found = self.known.get((index, start))
        if found is None:
            found = self.known[index, start] = frozenset(self._ends(index, start))
        return found

    def _ends(self, index: AstId, start: int) -> set[int]:
        match self.ast.nodes[index]:
            case Chars(chars):
                return {start + 1} if start < len(self.text) and charset.contains(chars, ord(self.text[start])) else set()
            case Text(text):
                return {start + len(text)} if self.text.startswith(text, start) else set()
            case Seq(parts):
                here = {start}
                for part in parts:
                    here = {end for place in here for end in self.ends(part, place)}
                return here
            case Alt(parts):
                return {end for part in parts for end in self.ends(part, start)}
            case Atomic(body):
                return set(self.ends(body, start))
            case Repeat(body, minimum, maximum):
                return self._repeat(body, minimum, maximum, start)
            case Look(body, ahead, negated):
                begins = [start] if ahead else range(start + 1)
                found = any(ahead or start in ends for ends in (self.ends(body, begin) for begin in begins) if ends)
                return {start} if found != negated else set()
            case Anchor(place):
                return {start} if self._holds(place, start) else set()
            case Boundary(word, negated):
                before = start > 0 and charset.contains(word, ord(self.text[start - 1]))
                after = start < len(self.text) and charset.contains(word, ord(self.text[start]))
                return {start} if (before != after) != negated else set()

    def _repeat(self, body: AstId, minimum: int, maximum: int, start: int) -> set[int]:
        here = {start}
        for _ in range(minimum):
            here = {end for place in here for end in self.ends(body, place)}
        found = set(here)
        rounds = 0
        while here and rounds != maximum - minimum:
            here = {end for place in here for end in self.ends(body, place)} - found
            found |= here
            rounds += 1
        return found

    def _holds(self, place: Place, at: int) -> bool:
        match place:
            case Place.START:
                return at == 0
            case Place.END:
                return at == len(self.text)
            case Place.LINE_START:
                return at == 0 or self.text[at - 1] in NEWLINES
            case Place.LINE_END:
                return at == len(self.text) or self.text[at] in NEWLINES
