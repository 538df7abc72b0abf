"""The values of one JSON type that a schema allows, as sets closed under intersection, union and complement.

    numbers      intervals and multiples
    strings      an automaton over decoded characters, with bounds on the length kept apart
    keys         undeclared keys, cut into sets that the keywords of an object treat alike
    types        the typed parts, and how they make up the normal form of a schema
    arrays       the algebra of Array parts
    objects      the algebra of Object parts

>>> from stackmask.schema.sets.numbers import NumberSet
>>> (NumberSet.interval(0, 10) & NumberSet.multiples(4)).values(9)
[0, 4, 8]
"""
