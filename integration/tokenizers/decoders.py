"""From the strings that a tokenizer lists as its tokens to the bytes that they stand for.

A token list is text in some alphabet: GPT-2's stand-ins for bytes, or SentencePiece's pieces with `▁` for a blank and `<0x0A>` for a byte.
The tokenizer's *decoder* turns it back into text: a pipeline of steps, which every Hugging Face tokenizer describes.
Here the same steps run on all tokens at once: the tokens are joined by a character that none of them contains, so that a step is one
`str.replace` or one table lookup, and not a call for each of 128,000 tokens.

Only decoders under which a token has the same bytes in every context have an exact answer.
The one exception made is the blank that SentencePiece puts before a text and takes off again (the dummy prefix): a token keeps its blank,
as it has everywhere but at the very start.
WordPiece, `</w>` suffixes and CTC put blanks between tokens depending on their neighbours, and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...pda.exceptions import VocabularyError

Decoder = Mapping[str, Any]

SENTENCEPIECE: Final[Decoder] = {
    "type": "Sequence",
    "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}],
}

_OUTSIDE: Final = 256  # what the alphabet table holds for a character that is no stand-in for a byte


def decode_pieces(pieces: Iterable[str], decoder: Decoder | None) -> list[bytes]:
    r"""The bytes of each piece under a decoder, given as the JSON of `tokenizers.decoders`.

    >>> decode_pieces(["▁a", "<0x0A>"], SENTENCEPIECE)
    [b' a', b'\n']
    >>> decode_pieces(["Ġa", "Ċ", "日"], {"type": "ByteLevel"})
    [b' a', b'\n', b'\xe6\x97\xa5']
    """
    pieces = list(pieces)
    if not pieces:
        return []
    text, separator = _join(pieces)
    stage = ""  # the last of ByteLevel, ByteFallback and Fuse that was met: each leaves less room for what may follow
    byte_level = byte_fallback = False
    for step in _steps(decoder):
        match step["type"]:
            case "Replace" if not stage:
                text = text.replace(_literal(step, separator), step["content"])
            case "Metaspace" if not stage:
                text = text.replace(step["replacement"], " ")
            case "ByteLevel" if not stage:
                byte_level = True
            case "ByteFallback" if not stage:
                byte_fallback = True
            case "Fuse":
                pass
            case "Strip" if stage == "Fuse" and not step["stop"]:
                continue  # the dummy prefix
            case kind:
                raise _refusal(kind)
        if step["type"] in ("ByteLevel", "ByteFallback", "Fuse"):
            stage = step["type"]
    if byte_level:
        return _byte_level(text, separator)
    tokens = text.encode().split(separator.encode())
    return [_fallback(token) for token in tokens] if byte_fallback else tokens


def _steps(decoder: Decoder | None) -> list[Decoder]:
    """The steps of a decoder, sequences flattened."""
    if decoder is None:
        raise _refusal("none")
    steps, todo = [], [decoder]
    while todo:
        step = todo.pop()
        if step["type"] == "Sequence":
            todo.extend(reversed(step["decoders"]))
        else:
            steps.append(step)
    return steps


def _literal(step: Decoder, separator: str) -> str:
    """The text that a Replace step looks for; with the separator in it or beside it, the step would move the bounds of tokens."""
    pattern = step["pattern"].get("String")
    if not pattern or separator in pattern + step["content"]:
        raise _refusal("Replace with a regular expression" if not pattern else "Replace of a private-use character")
    return str(pattern)


def _refusal(kind: str) -> VocabularyError:
    return VocabularyError(
        f"the tokenizer's decoder ({kind}) gives a token different bytes in different places, so no exact mask exists; "
        "byte-level BPE, SentencePiece with or without byte fallback, and tiktoken are supported"
    )


def _join(pieces: list[str]) -> tuple[str, str]:
    """All pieces in one string, and the character between them, which no piece holds and no decoder step touches."""
    for code in range(0xE000, 0xF8FF):  # private use
        text = chr(code).join(pieces)
        if text.count(chr(code)) == len(pieces) - 1:
            return text, chr(code)
    raise VocabularyError("the tokens use every private-use character")


def _fallback(token: bytes) -> bytes:
    """The byte that a token such as `<0x0A>` spells, other tokens as they are."""
    if len(token) != 6 or not token.startswith(b"<0x") or not token.endswith(b">"):
        return token
    try:
        return bytes.fromhex(token[3:5].decode())
    except ValueError:
        return token


def _alphabet() -> npt.NDArray[np.uint16]:
    """The byte that each UTF-16 unit stands for in GPT-2's alphabet: printable Latin-1 for itself, the other bytes in order from U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    table = np.full(1 << 16, _OUTSIDE, np.uint16)
    table[list(printable)] = list(printable)
    others = [byte for byte in range(256) if byte not in printable]
    table[256 : 256 + len(others)] = others
    return table


def _byte_level(text: str, separator: str) -> list[bytes]:
    """The bytes of joined tokens in GPT-2's alphabet; a token with a character outside it (an added token) stands for its own UTF-8."""
    units = np.frombuffer(text.encode("utf-16-le"), np.dtype("<u2"))
    ends = np.append(np.flatnonzero(units == ord(separator)), units.size)
    values = _alphabet()[units]
    data = values.astype(np.uint8).tobytes()
    bounds = [-1, *ends.tolist()]
    tokens = [data[start + 1 : end] for start, end in pairwise(bounds)]
    values[ends[:-1]] = 0  # separators are outside the alphabet too, but part of no token
    foreign = np.unique(np.searchsorted(ends, np.flatnonzero(values == _OUTSIDE)))
    if foreign.size:
        pieces = text.split(separator)
        for index in foreign.tolist():
            tokens[index] = pieces[index].encode()
    return tokens
