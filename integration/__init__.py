"""Tokenizers, the compiler facade, Hugging Face, the engine, the server and the command line."""
