"""What it costs to build a vocabulary of 128,000 tokens.

The promise: from the tokenizer of Llama 3 at most 0.4 s, of which the engine's trie takes at most 0.1 s.
It is built once for a model and shared by all grammars.
"""

from __future__ import annotations

import sys

from benchmarks.report import machine, markdown
from benchmarks.timing import command_line, load_vocabulary, typical, verdict

WHOLE_LIMIT, TRIE_LIMIT = 0.4, 0.1


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table."""
    options = command_line("vocabulary", __doc__, rounds=5).parse_args(arguments)
    import stackmask
    from stackmask.pda.engine import TokenTrie

    vocabulary, tokenizer = load_vocabulary(options.tokenizer)
    tokens, stops = list(vocabulary.tokens), vocabulary.stop_token_ids
    whole = typical(lambda: stackmask.Vocabulary.from_transformers(tokenizer.transformers), repeat=options.rounds) / 1e6
    listed = typical(lambda: stackmask.Vocabulary.from_bytes(tokens, stop_token_ids=stops), repeat=options.rounds) / 1e6
    trie = typical(lambda: TokenTrie(tokens, vocabulary.size), repeat=options.rounds) / 1e6
    lines = [["seconds", "measured", "promised"]]
    lines += [["from the tokenizer", f"{whole:.3f}", f"{WHOLE_LIMIT}"], ["from a list of bytes", f"{listed:.3f}", ""]]
    lines += [["of it the engine's trie", f"{trie:.3f}", f"{TRIE_LIMIT}"]]
    memory = vocabulary.trie.memory / 1e6
    print(f"{vocabulary.size:,} tokens, {memory:.1f} MB of tables; {machine()}\n\n{markdown(lines)}")
    broken = [f"from the tokenizer: {whole:.3f} s, promised {WHOLE_LIMIT}"] * (whole > WHOLE_LIMIT)
    broken += [f"trie: {trie:.3f} s, promised {TRIE_LIMIT}"] * (trie > TRIE_LIMIT)
    return verdict(broken, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
