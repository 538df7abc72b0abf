"""Why a text is no instance of a schema, in the words of the schema.

    problems      one problem of one value: its path, the keyword that it offends, a sentence
    evaluate      a value against the keywords of a schema
    reading       a text, whole or not, as a value with the places of its parts
    refusal       the sentences for a text that a grammar refuses at some byte

>>> from stackmask.schema.refusal import Refusals
>>> refusals = Refusals({"type": "object", "properties": {"age": {"type": "integer", "maximum": 120}}})
>>> print(*refusals(b'{"age": 200}', 10))
`/age`: 200 is more than 120 (/properties/age/maximum)
"""

from .refusal import Refusals, choice_refusal

__all__ = [
    "Refusals",
    "choice_refusal",
]
