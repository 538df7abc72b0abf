"""GGUF models, run by llama.cpp.

    model, tokenizer = load_gguf("model.gguf")
    answer = stackmask.generate(model, tokenizer, "Anna, 31", json_schema=Person)

Read in this order:

    library             the shared library, and the parts of `llama.h` that are used
    fetch               a build of it for this machine
    tokenizer           the vocabulary and the tokenizer in a GGUF file
    cache               rows of the engine as sequences of llama.cpp
    model               a GGUF file as a model of the engine
    sampler             a grammar as a `llama_sampler`, for programs that drive llama.cpp themselves
    logits_processor    a grammar as a logits processor of llama-cpp-python

llama.cpp's back ends are loaded with its library, and torch with `cache`; importing this package loads neither.
"""
