"""The normal form of a schema, and the looks at a schema that spare it.

    bounds         upper and lower bounds on the values of a subschema, by a few looks
    numbering      numbers for subschemas, values and languages of keys
    boolean        union, intersection and complement of typed parts
    closing        which subschema closes the objects at its place, where undeclared keys are closed
    from_keywords  keywords of one type, and listed values, as typed parts
    lists          subschemas that list scalars, compared as sets
    towers         if/then/else, each in the `else` of the one before, as the branches of a union
    algebra        every subschema as a union of typed parts: what applies to the same place, and emptiness
    unevaluated    the cases of a subschema beside unevaluated keywords
    finite         the values of a conjunction, one by one, where they are few
    unsat_core     which constraints of an unsatisfiable schema contradict each other
    unsat_sentence what they ask for, as a sentence

>>> from stackmask.schema.json_schema import unsatisfiable
>>> print(unsatisfiable({"type": "integer", "minimum": 3, "maximum": 2, "title": "none"}))
no instance can satisfy the schema: the value must be an integer (/type), be at least 3 (/minimum) and be at most 2 (/maximum)
"""
