"""From the description of a language to masks over tokens: grammars, automata, vocabularies, engines. Uses neither JSON Schema nor torch.

    regex, EBNF, Lark, choice --- front end ---> Grammar ----.
                                                             +--> KernelGrammar --> Matcher --> bitmask
    bytes of every token ----> Vocabulary --> TokenTrie -----'    shared            one a request

Each line imports only those above it.

    exceptions, limits, budget     the errors, and the bounds that stop hostile input
    automata/                      sets of characters, deterministic and position automata
    operators                      the table of operators that grammars are made of
    analysis                       which parts of a grammar generate a text, or the empty one, and which lead to which
    grammar, grammar_text          the intermediate representation that every front end emits and every engine runs, and its printed form
    embed                          one grammar copied into another
    free_text                      text up to a tag, searched for several tags at once
    choice, regex/, ebnf/, lark/   the front ends
    gbnf                           grammars in llama.cpp's notation
    reference/                     the engine in plain Python: the specification of the kernel
    kernel/, _kernel               the engine in C++
    engine                         picks one of the two
    packed                         a grammar on its way from another process
    vocabulary, matcher            the public face of an engine
    html                           coloured text for notebooks
    captures                       the captured parts of a text, read again by the reference engine

>>> from stackmask.pda.engine import KernelGrammar, Matcher, TokenTrie
>>> from stackmask.pda.regex import regex_grammar
>>> trie = TokenTrie([b"a", b"b", b"ab", None], 4)  # the last token ends a text
>>> grammar = KernelGrammar(trie, regex_grammar("ab*"), states=1000, stack_depth=100, memory=1 << 20, seconds=1.0)
>>> Matcher(grammar, [3]).allowed_tokens()
[0, 2]
"""
