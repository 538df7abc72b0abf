"""What a grammar costs a step of llama.cpp, as a sampler in a chain of its C interface.

The promise: at 128,256 tokens the grammar's sampler takes less than 5 % of a step of a small real model.
The model has the shape of Llama 3.2 1B, with random weights of 4 bits and the vocabulary of Llama 3: a step takes as long as with trained
weights, and no model has to be fetched. A larger model takes longer over a step, and the sampler does not. The text is drawn at random
from what the grammar allows: an array of persons, with strings, numbers, a pattern and an email address.
llama.cpp has one thread, so that the processor time of a pass is the time that it takes on a machine that does nothing else.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.report import machine, markdown
from benchmarks.timing import LLAMA3, command_line, verdict

LIMIT = 0.05
WIDTH, INNER, LAYERS, HEADS, GROUPS, HEAD = 2048, 8192, 16, 32, 8, 64
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string", "format": "email"},
        "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
    },
    "required": ["name", "age", "email", "zip"],
    "additionalProperties": False,
}
SCHEMA = {"type": "array", "items": PERSON, "minItems": 1000}


class Times(NamedTuple):
    """Seconds of each step: the forward pass, by the processor, and what the grammar's sampler adds to it, by the clock."""

    forward: list[float]
    grammar: list[float]

    @property
    def ratio(self) -> float:
        """The grammar's part of a step, by the medians of both."""
        return median(self.grammar) / (median(self.forward) + median(self.grammar))


def main(arguments: list[str] | None = None) -> int:
    """Make the model, measure and print."""
    parser = command_line("llama_cpp", __doc__)
    parser.add_argument("--layers", type=int, default=LAYERS, metavar="N", help=f"layers of the model (default: {LAYERS})")
    parser.add_argument("--steps", type=int, default=150, metavar="N", help="steps to measure (default: 150)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        times = measure(random_model(Path(folder) / "model.gguf", options.tokenizer, options.layers), options.steps)
    lines = [["ms", "median", "most"]]
    lines += [[name, f"{1e3 * median(found):.2f}", f"{1e3 * max(found):.2f}"] for name, found in times._asdict().items()]
    print(f"{len(times.grammar)} steps, {options.layers} layers; {machine()}\n\n{markdown(lines)}\n")
    print(f"the grammar takes {100 * times.ratio:.1f} % of a step")
    broken = [f"the grammar takes {100 * times.ratio:.1f} % of a step, promised {100 * LIMIT:.0f}"] * (times.ratio > LIMIT)
    return verdict(broken, check=options.check)


def measure(path: Path, steps: int) -> Times:
    """The times of some steps of a GGUF model whose chain of samplers is a grammar and a random choice among 40 tokens."""
    from stackmask import Compiler
    from stackmask.integration.llama_cpp.library import ChainParams, Library
    from stackmask.integration.llama_cpp.model import load_gguf
    from stackmask.integration.llama_cpp.sampler import GrammarSamplers

    library = Library.open()
    model, tokenizer = load_gguf(path, context=steps + 64, threads=1, library=library)
    native, pointer = library.native, ctypes.c_void_p
    for name, result, given in (
        ("llama_sampler_chain_init", pointer, [ChainParams]),
        ("llama_sampler_chain_add", None, [pointer, pointer]),
        ("llama_sampler_init_top_k", pointer, [ctypes.c_int32]),
        ("llama_sampler_init_dist", pointer, [ctypes.c_uint32]),
        ("llama_sampler_sample", ctypes.c_int32, [pointer, pointer, ctypes.c_int32]),
    ):
        getattr(native, name).restype, getattr(native, name).argtypes = result, given
    samplers = GrammarSamplers(library)
    chain = native.llama_sampler_chain_init(ChainParams(no_perf=True))
    grammar = Compiler(tokenizer.vocabulary).json_schema(SCHEMA, whitespace="compact")
    for sampler in (samplers.make(grammar), native.llama_sampler_init_top_k(40), native.llama_sampler_init_dist(7)):
        native.llama_sampler_chain_add(chain, sampler)
    cache, times = model.make_cache(1), Times([], [])
    row = cache.add()
    cache.prefill(row, tokenizer("Write persons as JSON.")["input_ids"])
    for _ in range(steps):
        samplers.seconds = 0.0
        token = native.llama_sampler_sample(chain, cache._context, -1)
        times.grammar.append(samplers.seconds)
        start = process_time()
        cache.forward([[token]], first=row)
        times.forward.append(process_time() - start)
    library.llama_sampler_free(chain)
    return times


def random_model(path: Path, tokenizer: Path = LLAMA3, layers: int = LAYERS) -> Path:
    """A GGUF file of a model of the shape of Llama 3.2 1B with random weights of 4 bits, and the vocabulary of a byte-level tokenizer."""
    import gguf

    described = json.loads((tokenizer / "tokenizer.json").read_text())
    added = {token["id"]: token["content"] for token in described["added_tokens"]}
    pieces = {token: piece for piece, token in described["model"]["vocab"].items()} | added
    writer: Any = gguf.GGUFWriter(path, "llama")
    for add, value in (
        (writer.add_context_length, 4096),
        (writer.add_embedding_length, WIDTH),
        (writer.add_block_count, layers),
        (writer.add_feed_forward_length, INNER),
        (writer.add_head_count, HEADS),
        (writer.add_head_count_kv, GROUPS),
        (writer.add_layer_norm_rms_eps, 1e-5),
        (writer.add_rope_dimension_count, HEAD),
        (writer.add_rope_freq_base, 500_000.0),
        (writer.add_vocab_size, len(pieces)),
        (writer.add_tokenizer_model, "gpt2"),
        (writer.add_tokenizer_pre, "llama-bpe"),
        (writer.add_token_list, [pieces[token] for token in range(len(pieces))]),
        (writer.add_token_types, [gguf.TokenType.CONTROL if token in added else gguf.TokenType.NORMAL for token in range(len(pieces))]),
        (writer.add_token_merges, [merge if isinstance(merge, str) else " ".join(merge) for merge in described["model"]["merges"]]),
        (writer.add_bos_token_id, min(added)),
        (writer.add_eos_token_id, next(token for token, name in added.items() if name == json_value(tokenizer, "eos_token"))),
    ):
        add(value)
    for name, rows, columns in shapes(len(pieces), layers):
        if columns:
            writer.add_tensor(name, blocks(rows, columns), raw_dtype=gguf.GGMLQuantizationType.Q4_0)
        else:
            writer.add_tensor(name, np.ones(rows, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def json_value(tokenizer: Path, name: str) -> Any:
    """A value of a tokenizer's configuration."""
    return json.loads((tokenizer / "tokenizer_config.json").read_text())[name]


def shapes(size: int, layers: int) -> Iterator[tuple[str, int, int]]:
    """Names, rows and columns of the weights, no columns for those of a norm; the output's matrix is that of the embedding."""
    yield from (("token_embd.weight", size, WIDTH), ("output_norm.weight", WIDTH, 0))
    for layer in range(layers):
        for name, rows, columns in (
            ("attn_norm", WIDTH, 0),
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", GROUPS * HEAD, WIDTH),
            ("attn_v", GROUPS * HEAD, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_norm", WIDTH, 0),
            ("ffn_gate", INNER, WIDTH),
            ("ffn_up", INNER, WIDTH),
            ("ffn_down", WIDTH, INNER),
        ):
            yield f"blk.{layer}.{name}.weight", rows, columns


def blocks(rows: int, columns: int) -> npt.NDArray[np.uint8]:
    """A matrix in blocks of 32 weights, each a scale of 16 bits and 32 weights of 4 bits around 8 (Q4_0 of ggml)."""
    found = np.random.default_rng(rows * columns).integers(0, 256, (rows, columns // 32, 18), np.uint8)
    found[..., :2] = np.array([columns**-0.5 / 4.6], np.float16).view(np.uint8)  # weights from -8 to 7 deviate by 4.6
    return found.reshape(rows, -1)


if __name__ == "__main__":
    sys.exit(main())
