"""What the specification of JSON Schema says around the keywords: drafts, references, values of keywords, reports."""
