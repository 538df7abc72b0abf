"""A differential fuzzer of the engines: random programs of calls on matchers of one grammar, made by any front end.

    specifications   random grammars of the intermediate representation, patterns, schemas, EBNF, Lark, choices and structural tags
    vocabularies     tokens that no tokenizer and every tokenizer has, many of them cut out of texts of the grammar
    case             one program with all that it runs on, as data and as a script of its own
    session          runs a program on both engines at once and compares what they say
    draw             a program, call by call, each drawn where the calls before it have led
    shrink           a smaller case that disagrees in the same way
    campaign         many cases, in separate processes

What is compared: the kernel with the reference engine, masks with what is accepted, drafts with what they foretell, matchers that were
rolled back, forked, packed or serialised with those that were not. `scripts/fuzz.py` is the command line.
Every case is drawn from its kind, a seed and a number alone, so it is the same in every process.
"""
