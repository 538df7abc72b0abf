"""Regular expressions: counts, ambiguity, alternatives, lookaround, large classes."""

from __future__ import annotations

import string
from random import Random

from benchmarks.families.family import LONGEST_TEXT, Case, family, row, word, words


@family("regex", *row(3, 300))
def counts_in_counts(size: int, random: Random) -> Case:
    """Four counted repetitions around one letter: a text can be counted in very many ways."""
    return f"(?:(?:(?:a{{0,{size}}}){{0,{size}}}){{0,{size}}}){{0,{size}}}", "a" * min(size**4, 2000)


@family("regex", *row(4, 400))
def counts_in_counts_then_a_letter(size: int, random: Random) -> Case:
    """Three counted repetitions, at least once each, and a letter behind them."""
    return f"(?:(?:[ab]{{1,{size}}}){{1,{size}}}){{1,{size}}}c", word(random, min(size**3, 2000), "ab") + "c"


@family("regex", *row(5, 500))
def words_with_blanks_between(size: int, random: Random) -> Case:
    """At most n words of at most n letters, each with a blank behind it or none, so that a word may be cut anywhere."""
    return rf"(?:\w{{1,{size}}}\s?){{1,{size}}}", " ".join(word(random, min(size, 7)) for _ in range(min(size // 2, 200)))


@family("regex", *row(5, 500))
def lines_of_seven(size: int, random: Random) -> Case:
    """Up to seven characters and a line break, or none, n times."""
    return rf"(?:[^\n]{{1,7}}\n?){{1,{size}}}", "".join(word(random, 6, "abc ,") + "\n" for _ in range(min(size - size // 4, 200)))


@family("regex", *row(5, 500))
def pieces_of_a_line(size: int, random: Random) -> Case:
    """Exactly n pieces of 3 to 9 letters, with a comma behind them or none."""
    return rf"(?:[a-z ]{{3,9}},?){{{size}}}\.", word(random, 4 * size, "abc ") + word(random, size * 2) + "."


@family("regex", *row(10, 10_000))
def counted_words(size: int, random: Random) -> Case:
    """A hundred words of at least three letters, whose dashes may be left out."""
    return f"([a-z]{{3,{size}}}-?){{100}}", "".join(word(random, 6) + random.choice(["-", ""]) for _ in range(100))


@family("regex", *row(10, 20_000, 6))
def optionals_then_as_many(size: int, random: Random) -> Case:
    """`(a?){n}a{n}`, over which backtracking takes exponential time."""
    return f"(a?){{{size}}}a{{{size}}}", "a" * min(size + size // 2, LONGEST_TEXT)


@family("regex", *row(1000, 500_000))
def written_out_optionals(size: int, random: Random) -> Case:
    """`a?a?a?...`, up to 1 MB of it."""
    return "a?" * size, "a" * min(size, 2000)


@family("regex", *row(100, 150_000))
def written_out_alternatives(size: int, random: Random) -> Case:
    """Random words as alternatives, up to 1 MB of them."""
    options = words(random, size)
    return "|".join(options), options[size // 2]


@family("regex", *row(10, 1000))
def repeated_alternatives(size: int, random: Random) -> Case:
    """Random words as alternatives, again and again."""
    options = words(random, size)
    return f"(?:{'|'.join(options)}){{1,500}}", "".join(random.choices(options, k=300))


@family("regex", *row(4, 256))
def alternatives_that_begin_alike(size: int, random: Random) -> Case:
    """`(?:a|aa|aaa|...){1,n}`: every text can be cut in very many ways."""
    return f"(?:{'|'.join('a' * length for length in range(1, size + 1))}){{1,{size}}}", "a" * min(size**2, 2000)


@family("regex", *row(10, 2000))
def count_searched_in_text(size: int, random: Random) -> Case:
    """A run of n letters anywhere in a text."""
    runs = (word(random, random.randint(1, size - 1)) for _ in range(max(3, 6000 // size)))
    return f".*[a-zA-Z0-9_-]{{{size}}}.*", (" ".join(runs)[:6000] + " " + word(random, size))[:LONGEST_TEXT]


@family("regex", *row(2, 300))
def dates_searched_in_text(size: int, random: Random) -> Case:
    """So many dates with any text between them, where any of the texts may hold dates too."""
    return rf"(?:.*\d{{4}}-\d{{2}}-\d{{2}}){{{size}}}", " and then on ".join(f"20{random.randint(10, 99)}-01-02" for _ in range(size))


@family("regex", *row(5, 5000))
def letter_far_from_the_end(size: int, random: Random) -> Case:
    """`[ab]*a[ab]{n}`, whose DFA has 2^n states."""
    return f"[ab]*a[ab]{{{size}}}", word(random, 1500, "ab") + "a" + word(random, size, "ab")


@family("regex", *row(5, 500))
def letters_and_others_counted(size: int, random: Random) -> Case:
    r"""`(?:\p{L}{1,n}\P{L}){1,n}`: two large classes of characters, counted."""
    return rf"(?:\p{{L}}{{1,{size}}}\P{{L}}){{1,{size}}}", "".join(word(random, random.randint(1, 5), "aбγdé") + "1" for _ in range(size))


@family("regex", *row(10, 30_000))
def negated_category_repeated(size: int, random: Random) -> Case:
    r"""`\P{Lu}` n times and once more."""
    return rf"\P{{Lu}}(?:\P{{Lu}}){{{size - 1}}}", word(random, size, "abc дé1")


@family("regex", 1, 2, 4, 8, 16, 24)
def lookaheads(size: int, random: Random) -> Case:
    """So many letters, each of which has to come somewhere."""
    letters = string.ascii_lowercase[:size]
    return "".join(f"(?=.*{letter})" for letter in letters) + ".{8,}", " ".join(random.sample(letters, size)) + " and so on"


@family("regex", *row(1, 100))
def negative_lookaheads(size: int, random: Random) -> Case:
    """So many words, none of which may come anywhere."""
    return "".join(f"(?!.*{text})" for text in words(random, size, 5)) + ".*", "the quick brown fox jumps over 12 lazy dogs " * 10


@family("regex", *row(10, 10_000))
def large_class_counted(size: int, random: Random) -> Case:
    """So many single characters of all planes in one class, counted."""
    characters = "".join(map(chr, sorted(random.sample([*range(0x100, 0xD800), *range(0x10000, 0x20000)], size))))
    return f"[{characters}]{{1,500}}", "".join(random.choices(characters, k=300))


@family("regex", *row(1000, 1_000_000))
def long_literal(size: int, random: Random) -> Case:
    """A literal of n letters, with one choice at its end; the text of the longest ones is sampled."""
    text = word(random, size)
    return f"{text}(?:1|2)", text + "1" if size < LONGEST_TEXT else None


@family("regex", *row(2, 5000))
def stars_in_stars(size: int, random: Random) -> Case:
    """`((((a*)*)*)*b)`, nested so deep."""
    return "(?:" * size + "a*" + ")*" * size + "b", "a" * 1000 + "b"


@family("regex", *row(10, 4000))
def words_in_any_case(size: int, random: Random) -> Case:
    """So many words in any case, separated by blanks."""
    options = words(random, size, 8)
    picked = " ".join("".join(random.choice([letter, letter.upper()]) for letter in text) for text in random.choices(options, k=60))
    return f"(?i:(?:{'|'.join(options)}) ?)+", picked


@family("regex", *row(100, 60_000))
def loops_counted(size: int, random: Random) -> Case:
    """`(?:a+b?){n}`: where one round ends is open at every letter."""
    return f"(?:a+b?){{{size}}}", "".join("a" * random.randint(1, 3) + random.choice(["", "b"]) for _ in range(size))[:4000]


@family("regex", *row(10, 3000))
def escapes_counted(size: int, random: Random) -> Case:
    """A quoted text of n to 3n characters, some of them escaped, as a pattern writes it."""
    character = r'(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-f]{4})'
    return f'"{character}{{{size},{3 * size}}}"', '"' + r"ab\n\u00e9é" * min(size // 5 + 1, 100)


@family("regex", *row(5, 1000))
def gaps_searched(size: int, random: Random) -> Case:
    """Three letters at most n characters apart, anywhere in a text."""
    return f".*x.{{{size}}}y.{{0,{size}}}z.*", word(random, min(5 * size, 1500), "xyz ")


@family("regex", *row(5, 1000))
def words_in_order(size: int, random: Random) -> Case:
    """A text with n words in it, in this order."""
    names = words(random, size)
    return "".join(f".*{name}" for name in names), " ".join(names)


@family("regex", *row(5, 1000))
def two_of_many_words(size: int, random: Random) -> Case:
    """A text with two of n words in it, each an alternative with any text around it."""
    names = words(random, size)
    return "(?:" + "|".join(f".*{name}.*" for name in names) + "){2}", " ".join(names)[:2000]


@family("regex", *row(3, 300))
def counts_as_alternatives(size: int, random: Random) -> Case:
    """One letter, or two, or up to n of them, n times."""
    return "(?:" + "|".join(f"a{{{count}}}" for count in range(1, size + 1)) + f"){{{size}}}b", "a" * 2 * size + "b"


@family("regex", *row(3, 300))
def classes_that_shrink(size: int, random: Random) -> Case:
    """Twenty classes, each up to n times, and each but the first a part of the one before."""
    return "".join(f"[a-{chr(ord('z') - place)}]{{0,{size}}}" for place in range(20)), word(random, size, "abcdef")


@family("regex", *row(3, 300))
def runs_of_two_classes(size: int, random: Random) -> Case:
    """Up to n runs of two classes that overlap, each of up to n letters."""
    return f"(?:[a-c]{{1,{size}}}[b-d]{{1,{size}}}){{1,{size}}}", "".join(random.choice("abc") + random.choice("bcd") for _ in range(size))


@family("regex", *row(3, 3000))
def fields_of_any_characters(size: int, random: Random) -> Case:
    """So many fields of up to n characters, any of which may be the comma behind each field."""
    return f"(?:.{{0,{size}}},){{{size}}}", "".join(word(random, random.randrange(min(size, 9))) + "," for _ in range(size))


@family("regex", *row(3, 1000))
def letter_or_other_letters(size: int, random: Random) -> Case:
    """One letter n times and up to n others, for each of 26 letters, up to five times."""
    branches = "|".join(f"{letter}{{{size}}}[a-z]{{0,{size}}}" for letter in string.ascii_lowercase)
    return f"(?:{branches}){{1,5}}", "q" * size + word(random, size)


@family("regex", *row(3, 1000))
def conditions_on_a_password(size: int, random: Random) -> Case:
    """At least n characters, with a digit, a letter of each case and a sign among them."""
    return rf"(?=.*\d)(?=.*[a-z])(?=.*[A-Z])(?=.*[!-/]).{{{size},{2 * size + 8}}}", "aA1!" + word(random, size)


@family("regex", *row(3, 300))
def branches_with_lookaheads(size: int, random: Random) -> Case:
    """One of n letters, each where a word follows later."""
    names = words(random, size)
    return "|".join(f"(?=.*{name}){name[0]}.*" for name in names), f"{names[0][0]} and then {names[0]}"


@family("regex", *row(3, 1000))
def words_with_boundaries(size: int, random: Random) -> Case:
    r"""Up to n words between `\b`, and an end."""
    return rf"(?:\b\w+\b\W+){{1,{size}}}end", " ".join(words(random, min(size, 80))) + " end"


@family("regex", *row(2, 1000))
def forbidden_words(size: int, random: Random) -> Case:
    """Up to 280 characters without n words, in any case."""
    names = words(random, size, 5)
    return f"(?i)^(?!.*\\b(?:{'|'.join(names)})\\b)[\\w .,!?]{{1,280}}$", " ".join(words(random, 40, 4))


@family("regex", *row(3, 3000))
def lines_of_so_many_letters(size: int, random: Random) -> Case:
    """Up to n lines of up to n letters, with anchors of lines around them."""
    return f"(?m)^(?:.{{1,{size}}}\\n){{1,{size}}}$", "".join(word(random, min(size, 9)) + "\n" for _ in range(min(size, 40)))


@family("regex", 8, 16, 32, 64, 128, 256, 1000)
def passwords(size: int, random: Random) -> Case:
    """Passwords of eight to n characters with two of each kind."""
    kinds = "".join(f"(?=(?:.*{kind}){{2}})" for kind in ("[a-z]", "[A-Z]", "[0-9]", "[^\\w ]"))
    return f"{kinds}(?!.*(?:012|123|234|abc)).{{8,{size}}}", "aB3$xY7!"
