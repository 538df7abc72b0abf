"""An object with clauses as a union of objects without clauses, for keys that come in any order.

The alternatives are the leaves of a tree of decisions. A node is a part with some clauses left; its branches decide one of them, and what
cannot be is pruned (`sets.objects.prune`), so every leaf is an alternative that generates something as far as anybody can tell cheaply.

Many clauses may make exponentially many leaves. `is_hopeless` tells so in milliseconds. It walks from the root to a random leaf; the
product of the numbers of branches on the way is an estimate of the number of leaves, whose mean is right (D. E. Knuth, Estimating the
Efficiency of Backtrack Programs, Mathematics of Computation 29, 1975). Each walk is a bet that there are too many leaves: half of the
stake, 1 at the start, is multiplied by the estimate as a fraction of what is allowed. Where the leaves are not too many no bet is better
than fair, so the stake grows to a million with a probability of at most one in a million (Ville's inequality).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from ..sets.keys import in_class
from ..sets.objects import Known, Oracle, key_space, member, names_of, prune, single, surely
from ..sets.types import TRUE, Atom, Conjunction, Object

_TIMES: Final = itemgetter(1)
STEPS: Final = 10
"""The tree may have this many nodes for each alternative that is allowed."""
ODDS: Final = 1e6
"""A stake that has grown by this factor is proof enough that a tree is too large."""
WALKED: Final = 5
"""The walks see one of this many of the nodes that the search might."""
Witnesses = tuple[tuple[frozenset[int], Conjunction], ...]
"""Required undeclared keys: the languages of each, and the subschemas that its value meets."""
Alternative = tuple[Object, Witnesses]
"""A part, and what some different undeclared keys must have beside it."""


class Alternatives:
    """The tree of decisions about the clauses of one object."""

    def __init__(self, part: Object, oracle: Oracle) -> None:
        self.part = part
        self.oracle = oracle
        self.names = names_of(part)
        self.classes = sorted(key_space(part, self.names, oracle).classes, key=sorted)

    def all(self, most: int) -> list[Alternative] | None:
        """The alternatives, whose union is the part; None where they are more than `most`, or the tree is too large."""
        stack: list[Alternative] = [(self.part, ())]
        found: list[Alternative] = []
        steps = 0
        while stack:
            node = stack.pop()
            steps += 1
            if steps > STEPS * most:
                return None
            branches = self._branches(node)
            if branches is None:
                found.append(node)
                continue
            for branch in branches:
                stack.append(branch)
                if len(found) + len(stack) > most:
                    return None
        return found

    def is_hopeless(self, most: int) -> bool:
        """Whether it is as good as certain that there are more than `most` alternatives; the same in every process."""
        chance = random.Random(0)
        stake, steps = 1.0, 0
        while 1 / ODDS < stake < ODDS and steps < most // WALKED:
            node: Alternative = self.part, ()
            leaves = 1
            while (branches := self._branches(node)) is not None:
                alive = list(branches)
                leaves *= len(alive)
                steps += 1
                if not alive:
                    break
                node = alive[int(chance.random() * len(alive))]
            stake *= (1 + min(leaves, 2 * ODDS * most) / most) / 2
        return stake >= ODDS

    def _branches(self, node: Alternative) -> Iterator[Alternative] | None:
        """The parts, less those that are surely empty, whose union a part is, each with fewer decisions left; None where none is left."""
        current, witnesses = node
        old = len(current.atoms)  # so many atoms the options have before their own
        if current.clauses:
            options = [(option, witnesses) for option in self._decided(current)]
        elif (choice := next((i for i, a in enumerate(current.atoms) if a.leaves_key_open), None)) is not None:
            atom = current.atoms[choice]
            base = current._replace(atoms=current.atoms[:choice] + current.atoms[choice + 1 :])
            if self._is_met(atom, base, witnesses):
                return iter([(base, witnesses)])
            old -= 1
            options = [
                (base._replace(atoms=(*base.atoms, Atom(False, single(name), atom.literal, name))), witnesses)
                for name in self.names
                if member(self.oracle, atom.keys, name)
            ]
            met = frozenset((atom.literal,))
            options += [(base, (*witnesses, (inside, met))) for inside in self.classes if in_class(atom.keys, inside)]
            # One key may be what several atoms ask for.
            options += [
                (base, (*witnesses[:place], (inside, literals | met), *witnesses[place + 1 :]))
                for place, (inside, literals) in enumerate(witnesses)
                if in_class(atom.keys, inside)
            ]
        else:
            return None
        self.oracle.budget.spend(8 * len(options))
        pruned = ((prune(option, self.oracle, option.atoms[old:]), wanted) for option, wanted in reversed(options))
        return ((option, wanted) for option, wanted in pruned if option is not None)

    def _is_met(self, atom: Atom, part: Object, witnesses: Witnesses) -> bool:
        """Whether a key that has to be there anyway is surely one of those that an atom asks for."""
        known = Known(part, self.oracle)
        return any(
            in_class(atom.keys, inside) and (atom.literal == TRUE or atom.literal in literals) for inside, literals in witnesses
        ) or any(
            member(self.oracle, atom.keys, name) and (atom.literal == TRUE or surely(known.value(name), atom.literal, self.oracle))
            for name in known.required
        )

    def _decided(self, part: Object) -> list[Object]:
        """A part with clauses as a union of some that each have fewer.

        An atom of several clauses, or of a key that several clauses speak of, as the member by which branches are told apart, either
        holds and settles them, or is in none. So `if`/`then` pairs on the values of one member are an alternative for each value.
        Its negation is added only where it is cheap: an atom that does not hold never helps.
        """
        found = Counter(atom for clause in part.clauses for atom in clause)
        asked = Counter(key for clause in part.clauses for key in {(atom.every, atom.name) for atom in clause})

        def telling_apart(every: bool) -> Counter[Atom]:
            """How many clauses speak of the key of an atom, for keys of which several do."""
            named = [atom for atom in found if atom.every is every and atom.name is not None and asked[every, atom.name] > 1]
            return Counter({atom: asked[every, atom.name] for atom in named if self._is_cheap(atom)})

        atom, times = max((found | telling_apart(False)).items(), key=_TIMES)
        if times == 1:
            atom, times = max(telling_apart(True).items(), key=_TIMES, default=(atom, 1))
        if times == 1:
            shortest = min(range(len(part.clauses)), key=lambda place: len(part.clauses[place]))
            base = part._replace(clauses=part.clauses[:shortest] + part.clauses[shortest + 1 :])
            return [base._replace(atoms=(*base.atoms, atom)) for atom in part.clauses[shortest]]
        holds = part._replace(atoms=(*part.atoms, atom), clauses=tuple(clause for clause in part.clauses if atom not in clause))
        rest = tuple([tuple([other for other in clause if other != atom]) for clause in part.clauses])
        negated = (atom.negated(),) if self._is_cheap(atom) else ()
        fails = part._replace(
            atoms=(*part.atoms, *negated, *(clause[0] for clause in rest if len(clause) == 1)),
            clauses=tuple(clause for clause in rest if len(clause) > 1),
        )
        return [holds, fails] if all(rest) else [holds]

    def _is_cheap(self, atom: Atom) -> bool:
        """Whether an atom can be negated without a large complement."""
        return abs(atom.literal) == TRUE or self.oracle.is_small(atom.literal)
