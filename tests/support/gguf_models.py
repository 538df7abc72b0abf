"""GGUF files of models small enough to make: the demo model, and Llamas of random weights with a vocabulary of either kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from stackmask.integration.demo import demo_model_path

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
WORDS = ["name", "age", "true", "false", "null", "Anna", "city", '":', '",', "{", "}", "[", "]", ", ", "er", "an", "ä", "日本", "the", "  "]


def demo_gguf(path: Path) -> Path:
    """The demo model, weights and vocabulary, as a GGUF file."""
    from safetensors.numpy import load_file

    directory = demo_model_path()
    config = json.loads((directory / "config.json").read_text())
    writer = _writer(path, config)
    description = json.loads((directory / "tokenizer.json").read_text())
    added = {token["id"]: token for token in description["added_tokens"]}
    pieces = {token: piece for piece, token in description["model"]["vocab"].items()}
    size = config["vocab_size"]
    tokens = [added[i]["content"] if i in added else pieces.get(i, f"<|unused{i}|>") for i in range(size)]
    types = [(CONTROL if added[i]["special"] else USER_DEFINED) if i in added else NORMAL if i in pieces else UNUSED for i in range(size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    merges = description["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    end = next(token for token, entry in added.items() if entry["content"] == "<|end|>")
    writer.add_eos_token_id(end)
    writer.add_bos_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_chat_template((directory / "chat_template.jinja").read_text())
    _add_weights(writer, config, {name: value.astype(np.float32) for name, value in load_file(directory / "model.safetensors").items()})
    return path


def random_gguf(path: Path, *, seed: int = 0, kind: str = "spm") -> Path:
    """A Llama of random weights with a vocabulary of this kind."""
    random = np.random.default_rng(seed)
    tokens, types, scores = _spm() if kind == "spm" else _bpe()
    width, layers, heads, inner = 32, 2, 2, 64
    config = {
        "vocab_size": len(tokens), "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": heads, "rms_norm_eps": 1e-5, "max_position_embeddings": 512,
    }  # fmt: skip
    writer = _writer(path, config)
    writer.add_tokenizer_model("llama" if kind == "spm" else "gpt2")
    if kind != "spm":
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_merges(["a b", "b c"])
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if kind == "spm":
        writer.add_token_scores(scores)
        writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)

    def matrix(rows: int, columns: int) -> npt.NDArray[np.float32]:
        return (random.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    weights: dict[str, npt.NDArray[Any]] = {
        "model.embed_tokens.weight": matrix(len(tokens), width), "lm_head.weight": 6 * matrix(len(tokens), width),
        "model.norm.weight": np.ones(width, np.float32),
    }  # fmt: skip
    for layer in range(layers):
        name = f"model.layers.{layer}"
        for part in "qkvo":
            weights[f"{name}.self_attn.{part}_proj.weight"] = matrix(width, width)
        weights[f"{name}.mlp.gate_proj.weight"], weights[f"{name}.mlp.up_proj.weight"] = matrix(inner, width), matrix(inner, width)
        weights[f"{name}.mlp.down_proj.weight"] = matrix(width, inner)
        for part in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{name}.{part}.weight"] = np.ones(width, np.float32)
    _add_weights(writer, config, weights)
    return path


def _spm() -> tuple[list[str], list[int], list[float]]:
    """A SentencePiece vocabulary: control tokens, all bytes, the letters, some words, and one token that a user defined."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256]
    letters = ["▁", *(chr(code) for code in range(0x21, 0x7F))]
    words = [word for text in WORDS for word in (text.replace(" ", "▁"), "▁" + text.replace(" ", "▁"))]
    new = [token for token in dict.fromkeys([*letters, *words]) if token not in tokens]
    tokens, types = [*tokens, *new, "<tool>", "<|user|>", "<|assistant|>"], [*types, *[NORMAL] * len(new), USER_DEFINED, CONTROL, CONTROL]
    return tokens, types, [-float(place) for place in range(len(tokens))]


def _bpe() -> tuple[list[str], list[int], list[float]]:
    """A byte-level vocabulary in GPT-2's alphabet, with all bytes, some words, and control tokens in front."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    alphabet = bytes_to_unicode()
    words = ["".join(alphabet[byte] for byte in word.encode()) for text in WORDS for word in (text, " " + text)]
    plain = [alphabet[byte] for byte in range(256)]
    new = list(dict.fromkeys([*plain, "ab", "bc", *words]))
    tokens = ["<unk>", "<s>", "</s>", *new, "<tool>", "<|user|>", "<|assistant|>"]
    return tokens, [CONTROL, CONTROL, CONTROL, *[NORMAL] * len(new), USER_DEFINED, CONTROL, CONTROL], []


def _writer(path: Path, config: dict[str, Any]) -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_rope_freq_base(float((config.get("rope_parameters") or config).get("rope_theta", 10000.0)))
    writer.add_vocab_size(config["vocab_size"])
    return writer


def _add_weights(writer: gguf.GGUFWriter, config: dict[str, Any], weights: dict[str, npt.NDArray[Any]]) -> None:
    """Write the tensors under llama.cpp's names; queries and keys are reordered, because its rotary embedding pairs neighbours."""
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, value in weights.items():
        if "q_proj" in name or "k_proj" in name:
            count = heads if "q_proj" in name else kv
            value = value.reshape(count, 2, value.shape[0] // count // 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(found, np.ascontiguousarray(value, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
