"""The normal form of a schema, and the looks at a schema that spare it.

    bounds         upper and lower bounds on the values of a subschema, by a few looks
    algebra        every subschema as a union of typed parts, under intersection, union and complement
    finite         the values of a conjunction, one by one, where they are few
    unsat_core     which constraints of an unsatisfiable schema contradict each other

>>> from stackmask.schema.json_schema import unsatisfiable
>>> print(unsatisfiable({"type": "integer", "minimum": 3, "maximum": 2, "title": "none"}))
no instance can satisfy the schema: /type, /minimum, /maximum contradict each other
"""
