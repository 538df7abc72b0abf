"""Grammars in mlx-lm, and models of mlx-lm in the engine and the server.

    grammar = Compiler(model_vocabulary(model, tokenizer)).json_schema(schema)
    generate(model, tokenizer, prompt, logits_processors=[GrammarLogitsProcessor(grammar)])

    model, tokenizer = load_mlx("mlx-community/Qwen3-4B-4bit")
    answer = stackmask.generate(model, tokenizer, "Anna, 31", json_schema=Person)

Read in this order:

    vocabulary          the vocabulary of a model
    bitmask             masks applied to MLX's logits, on the device
    logits_processor    for `generate`, `stream_generate` and `BatchGenerator`
    cache               rows of the engine as caches of mlx-lm
    model               a model of mlx-lm as a model of the engine

MLX is loaded with these modules, and torch with `cache`; importing this package loads neither.
"""
