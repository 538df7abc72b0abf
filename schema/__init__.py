"""JSON Schema and structural tags, compiled to grammars. Imports pda, but not integration.

    JSON Schema --- json_schema ---> emit/direct ----> nodes of a grammar       simple subschemas
                                        '--> algebra/ --> sets/ --> emit/       all others, by their normal form
    structural tag --- structural_tag/ ---> free text with such grammars in it

Each line imports those above it.

    errors               internal errors of a compilation
    formats/             the formats, as automata in tables
    sets/                the values of one JSON type, closed under intersection, union and complement
    dialect/             drafts, keywords, references and the report
    algebra/             a subschema as a union of typed parts
    emit/                schemas and values as nodes
    json_schema          the entry point: json_schema_grammar
    structural_tag/      structural tags
    refusal/             why a text is not an instance, in terms of its schema

>>> from stackmask.schema.json_schema import json_schema_grammar
>>> grammar, report = json_schema_grammar({"type": "array", "items": {"type": "integer", "minimum": 3}})
>>> [entry.keyword for entry in report.entries]
['type', 'items', 'type', 'minimum']
"""
