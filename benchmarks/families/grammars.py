"""EBNF and Lark: ambiguity, counts, many rules, terminals that overlap, limits inside limits."""

from __future__ import annotations

import json
from random import Random

from benchmarks.families.family import LONGEST_TEXT, Case, family, row, word, words


@family("ebnf", *row(3, 300))
def counted_rule_that_calls_itself(size: int, random: Random) -> Case:
    """A counted group whose items are letters, two letters or the whole again."""
    return f'root ::= ([ab] | root | "ba"){{2,{size}}} ([ab] | [ab])', word(random, 300, "ab")


@family("ebnf", *row(3, 300))
def counted_rules_in_counted_rules(size: int, random: Random) -> Case:
    """Rules counted from two to n, nested twice, over ambiguous items."""
    return f'root ::= x{{2,{size}}}\nx ::= y{{2,{size}}}\ny ::= "a" | "ab" | "b" | "(" root ")"', word(random, min(size**2, 500), "ab")


@family("ebnf", *row(10, 10_000))
def counted_brackets(size: int, random: Random) -> Case:
    """So many items that nest, up to twice as many."""
    return f'root ::= item{{{size},{2 * size}}}\nitem ::= "(" item* ")"', "()" * size


@family("ebnf", *row(30, 8000))
def palindromes(size: int, random: Random) -> Case:
    """A text of n letters, of which each could be in the first half or in the second."""
    half = word(random, size // 2, "ab")
    return 'root ::= "a" root "a" | "b" root "b" | ""', half + half[::-1]


@family("ebnf", *row(30, 8000))
def palindromes_of_one_letter(size: int, random: Random) -> Case:
    """As palindromes, where no letter says that the first half is over."""
    return 'root ::= "a" root "a" | "b" root "b" | ""', "a" * (size // 2 * 2)


@family("ebnf", *row(30, 8000))
def hidden_left_recursion(size: int, random: Random) -> Case:
    """A rule that calls itself behind one that may be empty, over a text of n letters."""
    return 'root ::= maybe root "a" | "a"\nmaybe ::= "" | "b"', word(random, size // 20, "b") + "a" * size


@family("ebnf", *row(3, 2000))
def levels_of_precedence(size: int, random: Random) -> Case:
    """Expressions with n binary operators, each on a level of its own."""
    levels = "".join(f'e{n} ::= e{n + 1} | e{n} "+{n} " e{n + 1}\n' for n in range(size))
    text = "a" + "".join(f"+{random.randrange(size)} {letter}" for letter in word(random, 50))
    return f'root ::= e0\n{levels}e{size} ::= [a-z]+ | "(" e0 ")"', text


@family("ebnf", *row(3, 300))
def levels_of_brackets(size: int, random: Random) -> Case:
    """Lists on n levels, each of which may be left out, so that a bracket may be of any level below the last."""
    levels = "\n".join(f'l{n} ::= "[" (l{n + 1} ("," l{n + 1})*)? "]" | l{n + 1}' for n in range(size))
    depth = min(size, 12)
    return f'root ::= l0\n{levels}\nl{size} ::= [0-9]+ | "(" root ")"', "[" * depth + "1,2" + "]" * depth


@family("ebnf", *row(5, 80))
def doubled_rules(size: int, random: Random) -> Case:
    """Rules in n levels that are one or two of the next level, so that up to 2^n letters have very many derivations."""
    levels = "\n".join(f"r{n} ::= r{n + 1} r{n + 1}?" for n in range(size))
    return f'root ::= r0\n{levels}\nr{size} ::= "a"', "a" * min(2 ** min(size, 20), 1000)


@family("ebnf", *row(30, 8000))
def many_derivations(size: int, random: Random) -> Case:
    """`S ::= S S | S S S | a`, over a text of n letters."""
    return 'root ::= root root | root root root | "a"', "a" * size


@family("ebnf", *row(30, 8000))
def ambiguous_sums(size: int, random: Random) -> Case:
    """Sums and products without precedence, of n terms."""
    operators = random.choices("+*", k=size)
    text = "".join(f"{random.randint(1, 99)}{operator}" for operator in operators)
    return 'root ::= root "+" root | root "*" root | "(" root ")" | [0-9]+', f"({text}1)"


@family("ebnf", *row(30, 8000))
def matched_or_not(size: int, random: Random) -> Case:
    """`S ::= a S b | a S | a`: the dangling else, with n letters."""
    return 'root ::= "a" root "b" | "a" root | "a"', "a" * (size - size // 3) + "b" * (size // 3)


@family("ebnf", *row(30, 8000))
def equal_counts_either_way(size: int, random: Random) -> Case:
    """The union of a^n b^n c* and a* b^n c^n, which every grammar derives ambiguously."""
    third = size // 3
    rules = 'root ::= x c | a y\nx ::= "a" x "b" | ""\ny ::= "b" y "c" | ""\na ::= "a" a | ""\nc ::= "c" c | ""'
    return rules, "a" * third + "b" * third + "c" * third


@family("ebnf", *row(10, 100_000))
def rules_in_a_chain(size: int, random: Random) -> Case:
    """So many rules, each of which calls the next one."""
    rules = [f'r{number} ::= "a" r{number + 1} | "b"' for number in range(size)]
    return "root ::= r0\n" + "\n".join(rules) + f'\nr{size} ::= "c"', "a" * min(size - 1, 3000) + "b"


@family("ebnf", *row(10, 20_000))
def rules_as_alternatives(size: int, random: Random) -> Case:
    """A choice of n rules, each a word and a number."""
    names = words(random, size)
    rules = [f'r{number} ::= "{name}" [0-9]+ ("," root)?' for number, name in enumerate(names)]
    text = ",".join(f"{name}{random.randint(0, 999)}" for name in random.choices(names, k=100))
    return f"root ::= {' | '.join(f'r{number}' for number in range(size))}\n" + "\n".join(rules), text


@family("ebnf", *row(10, 2000))
def rules_that_may_be_empty(size: int, random: Random) -> Case:
    """A sequence of n rules, each of which may be empty or anything of the others' letters."""
    rules = [f'r{number} ::= "" | [ab] r{number}' for number in range(size)]
    return f"root ::= {' '.join(f'r{number}' for number in range(size))}\n" + "\n".join(rules), word(random, 500, "ab")


@family("ebnf", *row(10, 5000))
def rules_in_a_circle(size: int, random: Random) -> Case:
    """So many rules that call each other without reading anything."""
    rules = [f'r{n} ::= r{(n + 1) % size} | r{n * 7 % size} "b" | "a"' for n in range(size)]
    return "root ::= r0\n" + "\n".join(rules), "a" + "b" * 300


@family("ebnf", *row(100, 100_000))
def nested_brackets(size: int, random: Random) -> Case:
    """Brackets of two kinds, nested so deep; the text is sampled where it would be too long."""
    opening = random.choices("([", k=min(size, LONGEST_TEXT // 2))
    closing = (")" if bracket == "(" else "]" for bracket in reversed(opening))
    return 'root ::= "(" root ")" | "[" root "]" | "x"', "".join(opening) + "x" + "".join(closing)


@family("ebnf", *row(5, 500))
def limits_in_limits(size: int, random: Random) -> Case:
    """`max_tokens` nested over ambiguity."""
    outer = f"root ::= a+\na[max_tokens={4 * size}] ::= b+\nb[max_tokens={size}] ::= c+ | b b\nc[max_tokens=2] ::= [a-z]+ | c [ ]"
    return outer, " ".join(words(random, 150, 5)) + " "


@family("ebnf", *row(10, 3000))
def lookahead_after_a_name(size: int, random: Random) -> Case:
    """A name that one of n words must follow, where the words are letters as well."""
    followers = words(random, size)
    follow = " | ".join(f'"{text}"' for text in followers)
    return f"root ::= (name ({follow}) [;])+\nname ::= [a-z]+ (= {follow})", "".join(
        f"{word(random, 5)}{text};" for text in random.choices(followers, k=60)
    )


@family("lark", *row(10, 4000))
def keywords_in_any_case(size: int, random: Random) -> Case:
    """So many terminals in any case, and names."""
    names = words(random, size, 7)
    terminals = "\n".join(f'K{number}: "{name}"i' for number, name in enumerate(names))
    choice = " | ".join(f"K{number}" for number in range(size))
    grammar = f"start: (keyword | NAME)+\nkeyword: {choice}\nNAME: /[a-z]+[0-9]+/\n{terminals}\n%ignore /[ ]+/"
    return grammar, " ".join(f"{name.title()} x{number}" for number, name in enumerate(random.choices(names, k=60)))


@family("lark", *row(100, 100_000))
def substrings(size: int, random: Random) -> Case:
    """Any part of a text of n characters."""
    text = " ".join(words(random, max(2, size // 7)))
    return f"start: S\nS: %regex {{{json.dumps('substring_chars')}: {json.dumps(text)}}}", text[: LONGEST_TEXT // 4]


@family("lark", *row(2, 200))
def overlapping_terminals(size: int, random: Random) -> Case:
    """So many terminals whose texts overlap, with blanks that are ignored."""
    terminals = [f"T{number}: /[a-z0-{number % 10}]{{1,{number + 2}}}/" for number in range(size)]
    choice = " | ".join(f"T{number}" for number in range(size))
    return f"start: (({choice}) T0)+\n" + "\n".join(terminals) + "\n%ignore /[ ]+/", " ".join(words(random, 100, 8))


@family("lark", *row(3, 100))
def terminals_that_end_anywhere(size: int, random: Random) -> Case:
    """So many terminals that begin with two letters of their own, and end behind 1 to n others."""
    begins = words(random, size, 2)
    terminals = [f"T{number}: /{begin}[a-z]{{1,{number + 1}}}/" for number, begin in enumerate(begins)]
    items = "start: (" + " | ".join(f"T{number}" for number in range(size)) + ")+\n"
    text = " ".join(begin + word(random, number + 1) for number, begin in enumerate(begins))
    return items + "\n".join(terminals) + "\n%ignore /[ ]+/", text[:LONGEST_TEXT]


@family("lark", *row(2, 200))
def lazy_texts(size: int, random: Random) -> Case:
    """So many texts in a row, each up to its own ending."""
    endings = [f"<{name}>" for name in words(random, size, 4)]
    rules = "\n".join(f"t{number}[suffix={json.dumps(ending)}]: /(.|\\n)*/" for number, ending in enumerate(endings))
    return f"start: {' '.join(f't{n}' for n in range(size))}\n{rules}", "".join(f"some text{ending}" for ending in endings)


@family("lark", *row(3, 3000))
def keywords_and_names(size: int, random: Random) -> Case:
    """So many keywords, a terminal each, beside names, with blanks that are ignored."""
    keywords = words(random, size, 5)
    terminals = "\n".join(f'T{number}: "{keyword}"' for number, keyword in enumerate(keywords))
    choice = " | ".join(f"T{number}" for number in range(size))
    return f'start: ({choice} | NAME)+\nNAME: /[a-z]+/\n{terminals}\n%ignore " "', " ".join(random.choices(keywords, k=50))


@family("ebnf", *row(5, 200))
def rules_that_skip_levels(size: int, random: Random) -> Case:
    """Rules in n levels that are the next level, or the one after it, or nest, or end in a letter."""
    levels = "\n".join(f'r{n} ::= r{n + 1} | r{min(n + 2, size)} | "a" r{n} "b" | r{min(n + 3, size)} "c"' for n in range(size))
    return f'root ::= r0\n{levels}\nr{size} ::= "x" | "(" root ")"', "a" * 100 + "xc" + "b" * 100


@family("ebnf", *row(3, 80))
def tripled_rules(size: int, random: Random) -> Case:
    """Rules in n levels that are one or three of the next level, or end in a letter."""
    levels = "\n".join(f'r{n} ::= r{n + 1} | r{n + 1} r{n + 1} r{n + 1} | r{n + 1} "b"' for n in range(size))
    return f'root ::= r0\n{levels}\nr{size} ::= "a" | "b"', "abb"[: min(size, 3)] + "abababab"[: 2 * max(0, min(size, 20) - 3)]


@family("ebnf", *row(3, 300))
def operators_on_both_sides(size: int, random: Random) -> Case:
    """Expressions on n levels with an infix, a prefix and a postfix operator each, none of which says how it groups."""
    levels = "\n".join(f'e{n} ::= e{n} "o{n}" e{n} | e{n + 1} | "p{n}" e{n} | e{n} "q{n}"' for n in range(size))
    numbers = random.choices(range(size), k=30)
    text = "".join(f"(p{number}(ao{number}bq{number}))o{number}" for number in numbers) + "c"
    return f'root ::= e0\n{levels}\ne{size} ::= [a-z] | "(" e0 ")"', text


@family("ebnf", *row(30, 8000))
def prefix_and_postfix_operators(size: int, random: Random) -> Case:
    """Letters side by side, with signs before and behind them, over a text of n characters."""
    return 'root ::= root root | "-" root | root "!" | "(" root ")" | [a-z]', "-a!b-c!" * (size // 7)


@family("ebnf", *row(30, 8000))
def stars_in_stars(size: int, random: Random) -> Case:
    """Repetitions of three rules that are repetitions of the same letter, over a text of n letters."""
    return 'root ::= (a | b | c)*\na ::= "x"* "y"?\nb ::= "x"+ "y"?\nc ::= ("x" "x")* c?', "xxy" * (size // 3)


@family("ebnf", *row(30, 8000))
def blanks_everywhere(size: int, random: Random) -> Case:
    """Nested lists with any number of blanks around everything, which are doubled blanks, over a text of n characters."""
    value = 'value ::= "[" ws (value ws ("," ws value ws)*)? "]" | [0-9]+ | ws value ws'
    depth = size // 8
    return f'root ::= ws value ws\nws ::= ws ws | " " | ""\n{value}', "[ " * depth + "1  , 2 " + " ]" * depth


@family("lark", *row(5, 300))
def many_ignored_patterns(size: int, random: Random) -> Case:
    """Short words, with n longer ones that are ignored."""
    names = words(random, size)
    ignored = "\n".join(f"%ignore /{name}+[ ]*/" for name in names)
    return f'start: A+\nA: /[a-z]{{1,9}}/\n{ignored}\n%ignore " "', " ".join(random.choices(names, k=60))


@family("lark", *row(2, 300))
def terminals_in_a_row(size: int, random: Random) -> Case:
    """A terminal of n parts, each a run of up to five letters or a word again and again."""
    names = words(random, size, 3)
    parts = "\n".join(f"B{n}: /[a-{chr(98 + n % 24)}]{{1,5}}/\nC{n}: /({name})+/" for n, name in enumerate(names))
    return f"start: A+\nA: {' '.join(f'(B{n} | C{n})' for n in range(size))}\n{parts}", "".join(names)


@family("lark", 3, 6, 9, 12, 16, 24, 60)
def permutations_as_numbers(size: int, random: Random) -> Case:
    """A rule whose number says which of n words came already: each word once, in any order."""
    names = words(random, size, 4)
    once = "\n".join(f'     | "{name} " once::set_bit({place}) %if bit_clear({place})' for place, name in enumerate(names))
    end = f'once::_: "." %if is_ones([0:{size}])'
    return f"start: once::0\n{end}\n{once}", " ".join([*random.sample(names, size), "."])


@family("lark", *row(2, 100))
def lazy_calls(size: int, random: Random) -> Case:
    """Text with n kinds of calls in it, each of which begins where its head ends the text lazily."""
    names = words(random, size, 4)
    calls = "\n".join(f'c{n}: h{n} /[a-z]+/ "</{name}>"\nh{n}[lazy]: TEXT "<{name}>"' for n, name in enumerate(names))
    choice = " | ".join(f"c{n}" for n in range(size))
    return f"start: ({choice})* TEXT\n{calls}\nTEXT: /(.|\\n)*/", "".join(f"some text <{n}>abc</{n}>" for n in random.choices(names, k=8))


@family("lark", *row(3, 1000))
def names_that_are_no_keywords(size: int, random: Random) -> Case:
    """Names of up to thirty letters, of which n are keywords that a lookahead rules out."""
    keywords = "|".join(words(random, size, 5))
    return f'start: NAME ("," NAME)*\nNAME: /(?!(?:{keywords})\\b)[a-z_][a-z0-9_]{{0,30}}/', ",".join(words(random, 30, 7))
