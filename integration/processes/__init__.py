"""Grammars compiled in processes of their own."""
