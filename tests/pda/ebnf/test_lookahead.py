"""Lookahead against its definition: a recogniser that knows the whole text, and asks what stands behind a rule."""

from __future__ import annotations

import itertools
import warnings
from random import Random

from support.engines import Engine, accepts, matcher

from stackmask.pda.ebnf import UnusedRuleWarning, ebnf_grammar
from stackmask.pda.exceptions import EbnfError

Tree = tuple[object, ...]
TEXTS = ["".join(letters) for length in range(6) for letters in itertools.product("ab", repeat=length)]


def random_tree(random: Random, depth: int, rules: str) -> Tree:
    """A small expression that calls these rules."""
    kind = random.random()
    if depth == 0 or kind < 0.15:
        return ("text", random.choice(("a", "b", "ab", "ba", "aa"))) if random.random() < 0.5 else ("rule", random.choice(rules))
    if kind < 0.6:
        return ("seq", *(random_tree(random, depth - 1, rules) for _ in range(random.randint(2, 3))))
    if kind < 0.8:
        return ("alt", *(random_tree(random, depth - 1, rules) for _ in range(2)))
    return ("repeat", random_tree(random, depth - 1, rules), *random.choice(((0, -1), (1, -1), (0, 1), (0, 2), (2, 2))))


def written(tree: Tree) -> str:
    """An expression as EBNF."""
    kind, *parts = tree
    if kind == "text":
        return f'"{parts[0]}"'
    if kind == "rule":
        return str(parts[0])
    if kind == "repeat":
        body, low, high = parts
        return f"({written(body)}){{{low},{'' if high == -1 else high}}}"  # type: ignore[arg-type]
    return "(" + (" " if kind == "seq" else " | ").join(map(written, parts)) + ")"  # type: ignore[arg-type]


def ends(tree: Tree, rules: dict[str, tuple[Tree, tuple[str, ...]]], text: str, at: int, depth: int) -> set[int]:
    """Where a reading of an expression from a place may end."""
    kind, *parts = tree
    if kind == "text":
        return {at + len(str(parts[0]))} if text.startswith(str(parts[0]), at) else set()
    if kind == "rule":
        body, ahead = rules[str(parts[0])]
        found = ends(body, rules, text, at, depth - 1) if depth else set()
        return {end for end in found if not ahead or text.startswith(ahead, end)}
    if kind == "alt":
        return set().union(*(ends(part, rules, text, at, depth) for part in parts))  # type: ignore[arg-type]
    if kind == "seq":
        here = {at}
        for part in parts:
            here = set().union(*(ends(part, rules, text, place, depth) for place in here))  # type: ignore[arg-type]
        return here
    body, low, high = parts
    found, here = {at} if not low else set(), {at}
    for count in range(1, 8 if high == -1 else high + 1):  # type: ignore[operator]
        here = set().union(*(ends(body, rules, text, place, depth) for place in here))  # type: ignore[arg-type]
        found |= here if count >= low else set()  # type: ignore[operator]
    return found


def test_lookahead_means_what_it_says(engine: Engine) -> None:
    """Random grammars with lookaheads generate what the definition says, or are refused by name."""
    random = Random(7)
    compared = taken_away = 0
    for _ in range(250):
        rules: dict[str, tuple[Tree, tuple[str, ...]]] = {}
        for index, name in enumerate(("root", "x", "y", "z", "t")):
            tree = random_tree(random, 2, "xyz" if random.random() < 0.1 else "xyzt"[index:] or "t")
            tree = ("text", random.choice("ab")) if name == "t" else tree
            tree = tree if index else ("seq", tree, ("repeat", ("alt", ("text", "a"), ("text", "b")), 0, -1))
            ahead = (
                tuple(sorted({random.choice(("a", "b", "ab", "bb", "aba")) for _ in range(2)})) if index and random.random() < 0.6 else ()
            )
            rules[name] = (tree, ahead)
        lines = [
            f"{name} ::= {written(tree)}" + (f" (= {' | '.join(f'{chr(34)}{text}{chr(34)}' for text in ahead)})" if ahead else "")
            for name, (tree, ahead) in rules.items()
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnusedRuleWarning)
            try:
                grammar = ebnf_grammar("\n".join(lines))
            except EbnfError:
                continue
        if all(not ahead for _, ahead in rules.values()):
            continue
        start = matcher(engine, grammar)
        free = {name: (tree, ()) for name, (tree, _) in rules.items()}
        generated = [text for text in TEXTS if accepts(start, text.encode())]
        assert generated == [text for text in TEXTS if len(text) in ends(rules["root"][0], rules, text, 0, 8)], lines
        compared += 1
        taken_away += generated != [text for text in TEXTS if len(text) in ends(rules["root"][0], free, text, 0, 8)]
    assert compared > 50
    assert taken_away > 20
