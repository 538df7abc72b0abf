"""JSON Schema and structural tags, compiled to grammars."""
