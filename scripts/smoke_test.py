"""Tries an installed wheel: imports the package, compiles a grammar of each kind, and fills masks with the compiled kernel.

    python scripts/smoke_test.py

Needs nothing but the wheel and its dependencies, so it runs where no compiler is. It imports the installed package, from any folder.
"""

from __future__ import annotations

import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np

import stackmask
from stackmask.pda import engine

WORDS = (b'{"', b'":', b'"}', b"true", b"12", b"ab", "é".encode(), None)
TOKENS = [*(bytes((byte,)) for byte in range(256)), *WORDS]
VOCABULARY = stackmask.Vocabulary.from_bytes(TOKENS, stop_token_ids=[len(TOKENS) - 1])
ARITHMETIC = 'root ::= term ("+" term)*\nterm ::= [0-9]+ | "(" root ")"\n'
TOOL = {"type": "tag", "begin": "<call>", "content": {"type": "json_schema", "json_schema": {"const": 7}}, "end": "</call>"}
CALLS = {"type": "triggered_tags", "triggers": ["<call>"], "tags": [TOOL]}
KINDS = {  # the method of Compiler, the specification, a text that it takes, one that it refuses
    "json_schema": ({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}, '{"age": 12}', '{"age": true}'),
    "json": (None, '[{"a": [true, null]}]', "[,]"),
    "regex": (r"\d{4}-\d{2}", "2026-11", "2026-1a"),
    "ebnf": (ARITHMETIC, "(1+2)+3", "(1+2"),
    "lark": ('start: WORD ("," WORD)*\nWORD: /[a-zé]+/\n', "ab,é", "ab,"),
    "choice": (["yes", "no", "é"], "é", "yess"),
    "structural_tag": ({"type": "structural_tag", "format": CALLS}, "so <call>7</call>.", "<call>8</call>"),
}


def check(kind: str, compiler: stackmask.Compiler) -> int:
    """Walks through a text of this kind of grammar, with the mask of every step; how many steps there were."""
    specification, accepted, refused = KINDS[kind]
    grammar = compiler.json() if specification is None else getattr(compiler, kind)(specification)
    mask, oracle = stackmask.allocate_token_bitmask(2, VOCABULARY.size)
    matcher = grammar.matcher()
    for byte in accepted.encode():
        matcher.fill_next_token_bitmask(mask)
        matcher.fill_by_trial(oracle)
        assert np.array_equal(mask, oracle), kind
        assert matcher.accept_token(byte), kind
    assert matcher.is_completed(), kind
    other = grammar.matcher()
    assert not (other.accept_bytes(refused.encode()) and other.is_completed()), kind
    return len(accepted.encode())


def main() -> None:
    """Runs the checks, one after the other and then in threads that share the compiler and its grammars."""
    assert engine.Matcher.__module__ == "stackmask.pda._kernel", f"the kernel is not compiled: {engine.Matcher.__module__}"
    steps = sum(check(kind, stackmask.Compiler(VOCABULARY)) for kind in KINDS)
    shared = stackmask.Compiler(VOCABULARY)
    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(lambda kind: check(kind, shared), [*KINDS] * 4)) == 4 * steps
    free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    if sysconfig.get_config_var("Py_GIL_DISABLED"):  # a module that does not declare that it needs no GIL switches it on
        assert free_threaded, "an import switched the GIL on"
    threading = " without the GIL" if free_threaded else ""
    print(f"stackmask {version('stackmask')}: {steps} masks of {len(KINDS)} kinds of grammars, Python {sys.version.split()[0]}{threading}")


if __name__ == "__main__":
    main()
