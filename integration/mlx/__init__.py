"""Grammars in mlx-lm.

    grammar = Compiler(model_vocabulary(model, tokenizer)).json_schema(schema)
    generate(model, tokenizer, prompt, logits_processors=[GrammarLogitsProcessor(grammar)])

Read in this order:

    bitmask             masks applied to MLX's logits, on the device
    logits_processor    for `generate`, `stream_generate` and `BatchGenerator`

Importing this package loads MLX with its modules.
"""
