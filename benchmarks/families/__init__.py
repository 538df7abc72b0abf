"""Hostile inputs in families: each is a function of a size, n below, that returns a specification and a text that it generates.

The sizes of a family are a geometric row, so that its cost against size shows as a line: flat, linear, or worse.
The text may also be the beginning of one that the specification generates.
A family that knows no text returns None for it, and is walked through the masks' own allowed tokens.
All that is random comes from a generator seeded with the family's name and the size.
"""

from benchmarks.families import regexes, grammars, schemas, values, tags  # isort: skip  # the order of the tables
from benchmarks.families.family import FAMILIES, Family

__all__ = ["FAMILIES", "Family", "grammars", "regexes", "schemas", "tags", "values"]
