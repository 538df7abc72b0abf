"""Benchmarks, one file per question, its promise in the docstring; run as `python -m benchmarks.NAME` from the root of the repository."""
