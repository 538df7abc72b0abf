"""stackmask: exact token masks for JSON Schema, regexes and grammars."""
