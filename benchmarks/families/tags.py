"""Structural tags and choices: counts and limits around free text, many triggers, long and many texts."""

from __future__ import annotations

from random import Random
from typing import Any

from benchmarks.families.family import LONGEST_TEXT, Case, closed, family, row, word, words


def tag(begin: str, content: Any, end: str) -> dict[str, Any]:
    """A tag with literal ends."""
    return {"type": "tag", "begin": begin, "content": content, "end": end}


@family("structural_tag", *row(3, 300))
def repeated_tags(size: int, random: Random) -> Case:
    """Tags repeated at most n times, three deep."""
    content: Any = {"type": "any_text"}
    text = "some words"
    for name in "abc":
        content = {"type": "repeat", "min": 0, "max": size, "content": tag(f"<{name}>", content, f"</{name}>")}
        text = f"<{name}>{text}</{name}>" * min(size, 4)
    return content, text


@family("structural_tag", *row(3, 300))
def repeated_texts(size: int, random: Random) -> Case:
    """Texts of a pattern repeated at most n times, three deep, with nothing between them."""
    content: Any = {"type": "regex", "pattern": "[a-z]{1,9} ?"}
    for _ in range(3):
        content = {"type": "repeat", "min": 1, "max": size, "content": content}
    return content, " ".join(words(random, min(size**2, 200), 5))


@family("structural_tag", *row(2, 2000))
def texts_of_some_tokens(size: int, random: Random) -> Case:
    """Free texts of n tokens at most, one or more of them."""
    return {
        "type": "plus",
        "content": {"type": "any_text", "max_tokens": size},
    }, "It was the best of times, it was the worst of times. " * 8


@family("structural_tag", *row(10, 3000))
def many_tools(size: int, random: Random) -> Case:
    """Free text with n tools, all behind one trigger."""
    names = words(random, size)
    schema = closed({"city": {"type": "string"}, "days": {"type": "integer"}})
    tags = [tag(f"<f={name}>", {"type": "json_schema", "json_schema": schema}, "</f>") for name in names]
    call = f'Let me see. <f={names[size // 2]}>{{"city":"Rome","days":3}}</f> And '
    return {"type": "triggered_tags", "triggers": ["<f="], "tags": tags}, call * 10


@family("structural_tag", *row(10, 3000))
def many_triggers(size: int, random: Random) -> Case:
    """Free text with n triggers, words like any other."""
    names = words(random, size, 4)
    tags = [tag(f"{name}(", {"type": "regex", "pattern": "[0-9]+"}, ")") for name in names]
    text = "".join(f"once upon a time {name}({number}) " for number, name in enumerate(random.choices(names, k=40)))
    return {"type": "triggered_tags", "triggers": [f"{name}(" for name in names], "tags": tags}, text


@family("structural_tag", *row(10, 10_000))
def many_exclusions(size: int, random: Random) -> Case:
    """Free text that holds none of n words, with a bound on its characters."""
    return {"type": "any_text", "excludes": [f"{text}!" for text in words(random, size)], "max_chars": 5000}, "The quick brown fox. " * 60


@family("structural_tag", *row(2, 200))
def dispatch_in_dispatch(size: int, random: Random) -> Case:
    """Free text with n patterns, each of which begins free text with n others."""
    inner: list[tuple[str, dict[str, str]]] = [
        (f"{name}:", {"type": "const_string", "value": name[::-1]}) for name in words(random, size, 5)
    ]
    content = tag("{", {"type": "dispatch", "rules": inner, "excludes": ["}"]}, "}")
    names = words(random, size, 4)
    text = "".join(f"and so {name}:{{here {begin}{value['value']} ends}} " for name, (begin, value) in zip(names, inner, strict=True))
    return {"type": "dispatch", "rules": [[f"{name}:", content] for name in names]}, text[:5000].rpartition("}")[0] + "}"


@family("choice", *row(100, 50_000))
def long_choices(size: int, random: Random) -> Case:
    """Two hundred texts of n characters; a text is sampled where it would be too long."""
    options = [word(random, size) for _ in range(200)]
    return options, options[100] if size < LONGEST_TEXT else None


@family("choice", *row(100, 200_000))
def many_choices(size: int, random: Random) -> Case:
    """So many short texts."""
    options = words(random, size, 8)
    return options, options[size // 2]


@family("choice", *row(10, 2000))
def choices_that_begin_alike(size: int, random: Random) -> Case:
    """The beginnings of one text, of every length up to this one."""
    text = word(random, size)
    return [text[: length + 1] for length in range(size)], text
