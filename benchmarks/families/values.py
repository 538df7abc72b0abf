"""JSON Schema: strings and numbers that many conditions hold for."""

from __future__ import annotations

from random import Random
from typing import Any

from benchmarks.families.family import LONGEST_TEXT, Case, closed, compact, family, row, word, words


@family("json_schema", *row(10, 3000))
def format_regex(size: int, random: Random) -> Case:
    """A string that has to be a regular expression, of n groups."""
    return {"type": "string", "format": "regex"}, compact(
        "".join(f"(?:{word(random, 3)}|[a-{word(random, 1)}z]+)*" for _ in range(size))[:6000]
    )


@family("json_schema", *row(10, 1000))
def pattern_count_searched(size: int, random: Random) -> Case:
    """A string with a run of n letters somewhere in it."""
    runs = (word(random, random.randint(1, size - 1)) for _ in range(max(3, 3000 // size)))
    return {"type": "string", "pattern": f"[a-zA-Z0-9_-]{{{size}}}"}, compact(" ".join(runs)[:3000] + " " + word(random, size))


@family("json_schema", *row(2, 60))
def overlapping_patterns_in_one_of(size: int, random: Random) -> Case:
    """Exactly one of n patterns that overlap."""
    letters = words(random, size, 3)
    return {"oneOf": [{"type": "string", "pattern": f"^.*{text}[a-z]*$"} for text in letters]}, None


@family("json_schema", *row(2, 120))
def patterns_in_all_of(size: int, random: Random) -> Case:
    """All of n patterns that are searched for."""
    texts = words(random, size, 3)
    return {"type": "string", "allOf": [{"pattern": f"{text}[0-9]"} for text in texts]}, compact(" ".join(f"{text}7" for text in texts))


@family("json_schema", *row(10, 10_000))
def negated_category_with_lengths(size: int, random: Random) -> Case:
    """A string with n characters that are no capital letters, and lengths on top."""
    schema = {"type": "string", "pattern": rf"\P{{Lu}}(?:\P{{Lu}}){{{size - 1}}}", "minLength": size, "maxLength": 2 * size}
    return schema, compact(word(random, size + size // 2, "abc дé1")[:LONGEST_TEXT])


@family("json_schema", *row(10, 100_000))
def lengths(size: int, random: Random) -> Case:
    """A string of at least n characters, and at most twice as many."""
    return {"type": "string", "minLength": size, "maxLength": 2 * size}, compact(word(random, min(size, LONGEST_TEXT), "abc дé1\n"))


@family("json_schema", *row(7, 12_345_678_901, 7))
def multiples(size: int, random: Random) -> Case:
    """Integers that a large number divides."""
    return {"type": "integer", "multipleOf": size}, str(size * random.randint(10**6, 10**7))


@family("json_schema", *row(1, 10**8))
def multiples_of_a_fraction(size: int, random: Random) -> Case:
    """Numbers between bounds that a small fraction divides."""
    return {"type": "number", "multipleOf": 0.01, "minimum": -size - 0.5, "maximum": size + 0.25}, f"{size // 2}.07"


@family("json_schema", *row(100, 100_000))
def enum_of_words(size: int, random: Random) -> Case:
    """One of n words."""
    options = words(random, size, 8)
    return {"enum": options}, compact(options[size // 2])


@family("json_schema", *row(30, 10_000))
def enum_of_objects(size: int, random: Random) -> Case:
    """One of n objects."""
    options = [{"id": n, "name": name, "tags": [name[:2], name[2:]]} for n, name in enumerate(words(random, size))]
    return {"enum": options}, compact(options[size // 2])


@family("json_schema", *row(4, 400))
def words_excluded_by_not(size: int, random: Random) -> Case:
    """Any string of letters but n words and what begins with n others."""
    excluded = words(random, size)
    schema = {
        "type": "string",
        "pattern": "^[a-z ]*$",
        "not": {"anyOf": [{"enum": excluded}, *({"pattern": f"^{t[:4]}x"} for t in excluded)]},
    }
    return schema, compact(" ".join(excluded[:50]))


@family("json_schema", *row(2, 10))
def multiples_of_one_of_some_squares(size: int, random: Random) -> Case:
    """A multiple of the square of one of n primes, but of no other number."""
    primes = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
    return {"anyOf": [{"type": "integer", "multipleOf": prime**2} for prime in primes[:size]], "not": {"multipleOf": 97}}, "1016"


@family("json_schema", *row(10, 1000))
def unique_short_strings_with_escapes(size: int, random: Random) -> Case:
    """Different strings of up to twenty characters, most of which are as long as they may be, some with escapes."""
    values = [word(random, 20 - number % 3) if number % 4 else word(random, 9) + '\n"' + word(random, 9) for number in range(size)]
    return {"type": "array", "uniqueItems": True, "items": {"type": "string", "maxLength": 20}}, compact(values)


@family("both_orders", *row(2, 60))
def unique_objects_of_unique_lists(size: int, random: Random) -> Case:
    """An array of n different objects, each with two lists of different words of at most eight letters and a small number."""
    words_of = {"type": "array", "uniqueItems": True, "items": {"type": "string", "maxLength": 8}}
    item = closed({"a": words_of, "b": words_of, "n": {"type": "integer", "minimum": 0, "maximum": 99}}, [])
    value = [{"a": words(random, 3, 5), "b": words(random, 2, 8), "n": n} for n in range(size)]
    return {"type": "array", "uniqueItems": True, "items": item}, compact(value)


@family("both_orders", *row(2, 60))
def unique_lists_that_contain(size: int, random: Random) -> Case:
    """An array of different objects of n lists of digits with a 1 in each, where a flag requires the first list."""
    digits = {"type": "array", "uniqueItems": True, "items": {"type": "integer", "minimum": 0, "maximum": 9}, "contains": {"const": 1}}
    names = [f"k{place}" for place in range(size)]
    properties = dict.fromkeys(names, digits) | {"flag": {"type": "boolean"}}
    condition = {"if": {"properties": {"flag": {"const": True}}, "required": ["flag"]}, "then": {"required": names[:1]}}
    value = [{names[0]: [*random.sample(range(2, 10), 3), 1], "flag": True}, {names[-1]: [1, 2]}, {names[0]: [1], "flag": False}]
    return {"type": "array", "uniqueItems": True, "items": closed(properties, [], **condition)}, compact(value)


@family("json_schema", *row(2, 60))
def unique_words_in_unique_lists(size: int, random: Random) -> Case:
    """Different words of a pattern and at most ten letters, in lists that differ, n deep."""
    schema: dict[str, Any] = {"type": "string", "pattern": "^[^/]+/[^/]+$", "maxLength": 10}
    for _ in range(size):
        schema = {"type": "array", "uniqueItems": True, "items": schema}
    value: Any = [["ab/cd", "a/b", "some/other"], ["ab/cd"]]
    for _ in range(size - 2):
        value = [value]
    return schema, compact(value)
