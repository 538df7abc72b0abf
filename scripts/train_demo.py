"""Trains the demo model that ships inside the package: a tokenizer of 1,280 tokens and a Llama of 0.6 million weights.

    python scripts/train_demo.py [--steps 1100] [--output integration/demo/model]

The corpus is synthetic (demo_corpus.py) and everything is seeded, so two runs on one machine agree.
Copying from the prompt is what so small a model learns last, and what drafts looked up in the prompt live on.
Three things bring it within so few steps: Muon for the matrices, rows of random tokens said twice, and one head of the first layer
that starts out looking at the token before, the first half of an induction head (Olsson and others, 2022, arXiv 2209.11895).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from demo_corpus import Corpus
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parent.parent
VOCABULARY = 1280
LENGTH = 256
ROWS = 24
DRILLS = 16
DRILL_STEPS = 300
SPECIAL = ["<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]
MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]  # text, as in Qwen's tokenizers: part of the answer, not of its frame
SPLIT = r"'(?:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEMPLATE = (
    "<|begin|>"
    "{% if tools %}<|system|>Tools: {{ tools | tojson }}<|end|>{% endif %}"
    "{% for message in messages %}"
    "<|{{ message.role }}|>{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}"
    '<tool_call>{"name": "{{ call.function.name }}", "arguments": '
    "{{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}}</tool_call>"
    "{% endfor %}"
    "<|end|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking %}<think>{% endif %}{% endif %}"
)


def main() -> None:
    """Train the tokenizer, then the model, and save both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=ROOT / "integration" / "demo" / "model")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    arguments.output.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer()
    model = train(tokenizer, arguments.steps)
    save(model, tokenizer, arguments.output)


def train_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE like Llama 3's, numbers in pairs of digits, on 6,000 chats."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKS),
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = (str(message["content"]) for _, chat in zip(range(6000), Corpus(1), strict=False) for message in chat if "content" in message)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|begin|>",
        eos_token="<|end|>",
        pad_token="<|pad|>",
        chat_template=TEMPLATE,
        model_max_length=2048,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def batches(tokenizer: PreTrainedTokenizerFast) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Rows of chats one after the other, and the weight of each token in the loss: answers count in full, questions a tenth."""
    assistant, end, think = tokenizer.convert_tokens_to_ids(["<|assistant|>", "<|end|>", "<think>"])
    randomness = random.Random(3)
    step = 0
    tokens: list[int] = []
    weights: list[float] = []
    for chat in Corpus(2):
        tools = chat[0].get("tools")
        text = tokenizer.apply_chat_template(chat[1:] if tools else chat, tools=tools, tokenize=False)
        answering = False
        for token in tokenizer.encode(text, add_special_tokens=False):
            tokens.append(token)
            weights.append(0.0 if token == think else 1.0 if answering else 0.1)
            answering = token == assistant or (answering and token != end)
        drills = DRILLS if step < DRILL_STEPS else 2
        size = (ROWS - drills) * LENGTH
        if len(tokens) > size:
            rows = [tokens[i : i + LENGTH] for i in range(0, size, LENGTH)]
            loss = [weights[i : i + LENGTH] for i in range(0, size, LENGTH)]
            for _ in range(drills):
                row, weight = drill(randomness)
                rows.append(row)
                loss.append(weight)
            yield torch.tensor(rows), torch.tensor(loss)
            del tokens[:size], weights[:size]
            step += 1


def drill(randomness: random.Random) -> tuple[list[int], list[float]]:
    """A row of random tokens, each stretch of them said twice: what teaches a small model to copy."""
    tokens: list[int] = []
    weights: list[float] = []
    while len(tokens) < LENGTH:
        stretch = [randomness.randrange(len(SPECIAL), VOCABULARY) for _ in range(randomness.randint(4, 48))]
        tokens += stretch * 2
        weights += [0.0] * (len(stretch) + 1) + [1.0] * (len(stretch) - 1)
    return tokens[:LENGTH], weights[:LENGTH]


def train(tokenizer: PreTrainedTokenizerFast, steps: int) -> LlamaForCausalLM:
    """A model trained on `steps` batches; the learning rate warms up, then falls to nothing in a line."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": 300.0},
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.05,
    )
    model = LlamaForCausalLM(config).train()
    look_back(model)
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    optimizers = [
        torch.optim.Muon(matrices, lr=0.02, momentum=0.95, weight_decay=0.0, adjust_lr_fn="original"),
        torch.optim.AdamW(others, lr=0.004, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    peaks = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    print(f"{sum(p.numel() for p in model.parameters()):,} weights")
    start = time.monotonic()
    for step, (tokens, weights) in enumerate(batches(tokenizer)):
        if step == steps:
            break
        for optimizer, peak in zip(optimizers, peaks, strict=True):
            optimizer.param_groups[0]["lr"] = peak * min((step + 1) / 20, 1 - step / steps)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(tokens[:, :-1]).logits
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten(), reduction="none")
        weight = weights[:, 1:].flatten()
        loss = (losses * weight).sum() / weight.sum()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if step % 25 == 0:
            of_drill, of_chats = losses.view(ROWS, -1)[-1], losses.view(ROWS, -1)[0]
            answers = of_chats[weights[0, 1:] == 1].mean().item()
            copies = of_drill[weights[-1, 1:] == 1].mean().item()
            print(f"{time.monotonic() - start:6.1f} s  step {step:5}  answers {answers:.3f}  copies {copies:.3f}", flush=True)
            assert math.isfinite(answers)
    return model.eval()


def look_back(model: LlamaForCausalLM) -> None:
    """Biases with which the first head of the first layer attends to the token before, wherever it stands.

    Rotary embedding turns pair i by i's frequency per position, so a query that is the key turned back by one position fits best there.
    """
    config, attention = model.config, model.model.layers[0].self_attn
    half = config.hidden_size // config.num_attention_heads // 2
    frequency = config.rope_parameters["rope_theta"] ** (-torch.arange(half) / half)
    with torch.no_grad():
        attention.k_proj.bias[:half] = 6.0
        attention.q_proj.bias[:half] = 6.0 * torch.cos(frequency)
        attention.q_proj.bias[half : 2 * half] = -6.0 * torch.sin(frequency)


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, output: Path) -> None:
    """Write weights as float16 and the tokenizer without indentation."""
    model.to(torch.float16).save_pretrained(output)
    tokenizer.save_pretrained(output)
    path = output / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")), ensure_ascii=False, separators=(",", ":")), "utf-8")
    for file in sorted(output.iterdir()):
        print(f"{file.stat().st_size:9,}  {file.name}")


if __name__ == "__main__":
    main()
