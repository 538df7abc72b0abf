"""The interface to other people's code: tokenizers, models, servers, engines.

    torch                                  bitmasks applied to logits
    tokenizers/                            vocabularies from other libraries' tokenizers
    compiler/                              specifications compiled once, cached and shared
    processes/                             the same in separate processes
    follower                               a matcher that follows a list of tokens
    transformers/, transformers_batching   model.generate and continuous batching of transformers
    answers/                               options, types, partial values and pieces of generate's answers
    decisions/                             the probability of each text of a finite grammar, and exact draws
    generate                               generation for scripts: one prompt, several, asyncio
    distributed                            agreement among ranks on which grammars are ready
    demo/                                  a model small enough to ship
    tools/                                 the tool-call notations of model families
    forced_drafts                          forced text cut into tokens, which engines verify as drafts
    engine/                                continuous batching of constrained requests
    inspector/                             why a text is refused and what may come next: data, a page, colours
    llama_cpp/                             GGUF models, run by llama.cpp
    mlx/                                   models of mlx-lm, on Apple silicon
    server/                                an HTTP server over the engine, with OpenAI's interface
    cli/                                   the command line
    outlines/                              a back end for Outlines
    environment                            settings of backends that are variables of the environment
    vllm/, sglang/, xgrammar/              backends for vLLM and SGLang, and XGrammar's Python interface

>>> import stackmask
>>> from stackmask.integration.demo import demo_vocabulary
>>> matcher = stackmask.Compiler(demo_vocabulary()).regex("[0-9]{4}").matcher()
>>> matcher.accept_bytes(b"19"), matcher.is_completed()
(True, False)
"""
