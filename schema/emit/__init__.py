"""Schemas written as nodes of a grammar."""
