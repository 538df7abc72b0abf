"""Interned code point sets: the labels on the edges of the automata inside one operation.

An operation on automata compares and combines few distinct sets very often.
Interning turns a set into a small integer, so that equality is integer equality, and union, intersection and partition are one dictionary
lookup after their first use.
An interner lives as long as one operation and is not shared.
"""

from __future__ import annotations

from typing import Final, NewType

from . import charset
from .charset import CharSet

LabelId = NewType("LabelId", int)

NO_LABEL: Final = LabelId(0)


class Labels:
    """The code point sets of one operation, by number; number 0 is the empty set.

    `effort` counts the ranges that were sorted for partitions: what a determinisation spends beside its steps.
    """

    __slots__ = ("_complements", "_ids", "_meets", "_partitions", "_unions", "effort", "sets")

    def __init__(self) -> None:
        self.effort = 0
        self.sets: list[CharSet] = [()]
        self._ids: dict[CharSet, LabelId] = {(): NO_LABEL}
        self._unions: dict[tuple[LabelId, ...], LabelId] = {}
        self._meets: dict[tuple[LabelId, LabelId], LabelId] = {}
        self._complements: dict[LabelId, LabelId] = {}
        self._partitions: dict[tuple[LabelId, ...], tuple[tuple[LabelId, tuple[LabelId, ...]], ...]] = {}

    def intern(self, chars: CharSet) -> LabelId:
        """The number of a set."""
        found = self._ids.get(chars)
        if found is None:
            found = self._ids[chars] = LabelId(len(self.sets))
            self.sets.append(chars)
        return found

    def union(self, labels: list[LabelId]) -> LabelId:
        """The set that holds what any of the labels holds."""
        if len(labels) == 1:
            return labels[0]
        key = tuple(sorted(labels))
        found = self._unions.get(key)
        if found is None:
            found = self._unions[key] = self.intern(charset.union(*(self.sets[label] for label in key)))
        return found

    def meet(self, left: LabelId, right: LabelId) -> LabelId:
        """The set that holds what both labels hold."""
        if left == right:
            return left
        key = (left, right) if left < right else (right, left)
        found = self._meets.get(key)
        if found is None:
            found = self._meets[key] = self.intern(charset.intersection(self.sets[left], self.sets[right]))
        return found

    def complement(self, label: LabelId) -> LabelId:
        """The set of all other scalar values."""
        found = self._complements.get(label)
        if found is None:
            found = self._complements[label] = self.intern(charset.complement(self.sets[label]))
        return found

    def partition(self, labels: tuple[LabelId, ...]) -> tuple[tuple[LabelId, tuple[LabelId, ...]], ...]:
        """The minterms of labels: disjoint classes (class, the labels that hold it) which cover their union."""
        found = self._partitions.get(labels)
        if found is None:
            found = self._partitions[labels] = self._partition(labels)
        return found

    def _partition(self, labels: tuple[LabelId, ...]) -> tuple[tuple[LabelId, tuple[LabelId, ...]], ...]:
        if len(labels) == 1:
            return ((labels[0], labels),)
        # One sweep over all ends of ranges, with the set of the labels that hold the current character.
        events: dict[int, list[LabelId]] = {}
        for label in labels:
            flat = self.sets[label]
            self.effort += len(flat)
            for index in range(0, len(flat), 2):
                events.setdefault(flat[index], []).append(label)
                events.setdefault(flat[index + 1] + 1, []).append(label)
        classes: dict[frozenset[LabelId], list[int]] = {}
        holding: set[LabelId] = set()
        start = 0
        for point in sorted(events):
            if holding:
                classes.setdefault(frozenset(holding), []).extend((start, point - 1))
            holding.symmetric_difference_update(events[point])
            start = point
        return tuple((self.intern(tuple(flat)), tuple(sorted(members))) for members, flat in classes.items())
