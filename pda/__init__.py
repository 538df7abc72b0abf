"""From the text of a language to masks over tokens: grammars, automata, vocabularies, the engines. Knows no JSON Schema and no torch.

    regex, EBNF, Lark, choice --- front end ---> Grammar ----.
                                                             +--> KernelGrammar --> Matcher --> bitmask
    bytes of every token ----> Vocabulary --> TokenTrie -----'    shared            one a request

Each line imports those above it only.

    exceptions, limits, budget     the errors, and what hostile input runs into
    automata/                      sets of characters, deterministic and position automata
    operators                      the table of operators that grammars are made of
    productive, useless_rules      does a grammar generate any text, and which of its rules take part
    grammar, grammar_text          the intermediate representation that every front end emits and every engine runs, and its text
    embed                          one grammar copied into another
    free_text                      text up to a tag, watched for several tags at once
    choice, regex/, ebnf/, lark/   the front ends
    gbnf                           grammars for llama.cpp and what takes its notation
    reference/                     the engine in plain Python: the specification of the kernel
    kernel/, _kernel               the engine in C++
    engine                         picks one of the two
    packed                         a grammar on its way from another process
    vocabulary, matcher            what people see of an engine
    html                           text in colours for notebooks
    captures                       the captured parts of a text, read again by the reference engine

>>> from stackmask.pda.engine import KernelGrammar, Matcher, TokenTrie
>>> from stackmask.pda.regex import regex_grammar
>>> trie = TokenTrie([b"a", b"b", b"ab", None], 4)  # the last token ends a text
>>> grammar = KernelGrammar(trie, regex_grammar("ab*"), states=1000, stack_depth=100, memory=1 << 20, seconds=1.0)
>>> Matcher(grammar, [3]).allowed_tokens()
[0, 2]
"""
