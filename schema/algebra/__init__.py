"""The algebra of schemas, and the looks that spare it."""
