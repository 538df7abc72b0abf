"""The parts of the specification of JSON Schema around its assertions.

    keywords           the keywords of every draft, and which part of the compiler each concerns
    dialects           which draft a schema is written in, and what that decides
    keyword_values     the values of keywords, read and checked
    references         what $ref, $dynamicRef and $recursiveRef name
    pointers           where a subschema stands
    guidance           options of llguidance in a schema
    unknown_keywords   keywords that a draft does not have, which may be misspelt
    report             what became of every keyword
    serialiser         schemas as bytes, which equal ones share
    mistakes           values passed as schemas that are not schemas
    metaschemas/       the metaschemas of the drafts, as they were published

>>> from stackmask.schema.dialect.dialects import known_dialect
>>> known_dialect("http://json-schema.org/draft-07/schema#").name
'draft7'
"""
