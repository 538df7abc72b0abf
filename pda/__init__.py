"""Automata, grammars, vocabulary, kernel and matcher: everything that knows neither JSON nor torch."""
