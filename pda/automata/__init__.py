"""Automata over code points, and the sets of code points on their edges."""
