"""Grammars inside JSON strings: what is generated is the JSON spelling of what the grammar generates by itself."""

import json
import random

import pytest

from stackmask import Compiler, Vocabulary
from stackmask.pda.exceptions import StructuralTagError

LARK = 'start: ("a" | NAME "=" /"[^"\\n]*"/ | "\\n" | "\\\\")+\nNAME: /[b-dé"]+/'
PATTERN = r'("[^"\\]{0,3}"|\n|\t|\\|\x01|[^a-z]){1,4}'


@pytest.fixture(scope="module")
def compiler():
    return Compiler(Vocabulary.from_bytes([*(bytes((byte,)) for byte in range(256)), None], stop_token_ids=[256]))


def quoted(content):
    """A tag around a content that stands inside a JSON string."""
    return {"type": "tag", "begin": '"', "content": {**content, "escape": "json"}, "end": '"'}


def accepts(grammar, text):
    """Whether a text is one of the grammar's."""
    matcher = grammar.matcher()
    return matcher.accept_bytes(text.encode()) and matcher.is_completed()


def walk(grammar, rng):
    """A random text, ended the shortest way after some steps."""
    matcher, data = grammar.matcher(), b""
    for _ in range(rng.randint(1, 12)):
        allowed = [token for token in matcher.allowed_tokens() if token < 256]
        if not allowed:
            break
        data += bytes((rng.choice([token for token in allowed if token < 128] or allowed),))
        matcher.accept_bytes(data[-1:])
    return (data + matcher.shortest_completion()).decode()


@pytest.mark.parametrize(
    ("content", "plain"),
    [
        ({"type": "grammar", "grammar": LARK, "syntax": "lark"}, lambda c: c.lark(LARK)),
        ({"type": "regex", "pattern": PATTERN}, lambda c: c.regex(PATTERN)),
        (
            {"type": "grammar", "grammar": 'root ::= "x\\"" [^ab] root? | "\\x7f/"'},
            lambda c: c.ebnf('root ::= "x\\"" [^ab] root? | "\\x7f/"'),
        ),
    ],
)
def test_escaped_is_the_json_spelling(compiler, content, plain):
    """Texts of either grammar are in the other, spelled as JSON and read as JSON."""
    inside, outside = compiler.structural_tag(quoted(content)), plain(compiler)
    rng = random.Random(3)
    for _ in range(60):
        assert accepts(outside, json.loads(walk(inside, rng)))
        assert accepts(inside, json.dumps(walk(outside, rng), ensure_ascii=False))
    assert not accepts(inside, '"zz') and not accepts(inside, '""')


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"type": "grammar", "grammar": 'start: %json {"type": "string"}', "syntax": "lark"}, "escaped twice"),
        ({"type": "grammar", "grammar": "start: missing", "syntax": "lark"}, "missing"),
        ({"type": "grammar", "grammar": "x", "syntax": "yacc"}, "ebnf and lark"),
        ({"type": "regex", "pattern": "(", "escape": "json"}, "pattern"),
    ],
)
def test_what_cannot_be_escaped(compiler, content, message):
    """JSON in a grammar, and what is no grammar, are refused with their place."""
    with pytest.raises(StructuralTagError, match=message):
        compiler.structural_tag(quoted(content))
    with pytest.raises(StructuralTagError, match="escape"):
        compiler.structural_tag({"type": "regex", "pattern": "a", "escape": "xml"})
