"""Tool calls as structural tags: what the formats write is accepted, what the tags generate is read back and valid."""

import json
import random
import re
from functools import cache

import pytest
from jsonschema import Draft202012Validator
from support.tool_calls import write_answer

from stackmask import Compiler, Vocabulary
from stackmask.integration.tools import FORMATS, MARK, Call, CallParser, Text, choose, named_tokens, read_tools, structural_tag
from stackmask.integration.tools.formats import STYLES

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 0, "maximum": 9},
        "unit": {"enum": ["c", "f"]},
        "place": {"type": "object", "properties": {"lat": {"type": "integer"}}, "required": ["lat"], "additionalProperties": False},
        "tags": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
DEFINITIONS = [
    {"type": "function", "name": "weather", "parameters": SCHEMA},
    {"type": "function", "name": "now"},
    {"type": "custom", "name": "run"},
]
TOOLS = read_tools(DEFINITIONS)
WEATHER, NOW, RUN = TOOLS
ARGUMENTS = {"city": "Oslo", "days": 3, "unit": "f", "place": {"lat": -1}, "tags": [1, 2]}
SPECIAL = re.compile(r"<[|｜][^<>\s]*?[|｜]>|\[[A-Z_]+\]|</?tool_calls?>")


def special_of(format):
    """Everything in a format that looks like a special token."""
    bound = [
        *format.calls,
        *format.custom,
        format.open,
        format.close,
        *format.text,
        format.tail,
        *format.reasoning,
        *sum(format.preambles, ()),
    ]
    return sorted({name for text in (*bound, STYLES[format.style].pair) for name in SPECIAL.findall(text)})


@cache
def compiler(special):
    """A compiler for single bytes and these special tokens."""
    tokens = [bytes((byte,)) for byte in range(256)]
    named = {name: 256 + place for place, name in enumerate(special)}
    return Compiler(Vocabulary.from_bytes([*tokens, *[None] * len(special), None], stop_token_ids=[256 + len(special)], special=named))


def encode(text, vocabulary):
    """Token ids of a text in which special tokens are marked."""
    ids = []
    for place, part in enumerate(
        re.split(MARK + "(" + "|".join(map(re.escape, vocabulary.special)) + ")", text) if vocabulary.special else [text]
    ):
        ids += [vocabulary.special[part]] if place % 2 else part.encode()
    return ids


def accepts(grammar, text):
    """Whether a text is one of the grammar's."""
    matcher = grammar.matcher()
    ids = encode(text, grammar.vocabulary)
    return matcher.validate_tokens(ids) == len(ids) and all(map(matcher.accept_token, ids)) and matcher.is_completed()


def grammar_of(format, choice, *, special=(), parallel=True, tools=TOOLS, **options):
    """The compiled tag of a choice."""
    return compiler(tuple(special)).structural_tag(
        structural_tag(format, choose(tools, choice, parallel=parallel), special=special, **options)
    )


NAMED = {"type": "function", "name": "weather"}


@pytest.mark.parametrize("is_special", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_accepted(name, is_special):
    """Every format, with and without special tokens: calls are accepted by the choices that allow them, and by no others."""
    format = FORMATS[name]
    special = special_of(format) if is_special else ()

    def written(*calls, **options):
        return write_answer(format, calls, special=special, **options)

    text, one, custom = written(before="Hi <b"), written((WEATHER, ARGUMENTS)), written((RUN, 'x = "1"\ny'))
    several = written((WEATHER, ARGUMENTS), (NOW, {}), (RUN, "z"))
    wrong = written((WEATHER, {"city": "Oslo", "days": 10}))
    lead = format.lead
    auto, single = grammar_of(format, "auto", special=special), grammar_of(format, "auto", special=special, parallel=False)
    required, named = grammar_of(format, "required", special=special), grammar_of(format, NAMED, special=special)
    for grammar, allowed in [
        (auto, [text, one, custom, *([] if format.is_single else [several])]),
        (single, [text, one, custom]),
        (required, [lead + one, lead + custom, *([] if format.is_single else [lead + several])]),
        (named, [lead + one]),
    ]:
        for answer in allowed:
            assert accepts(grammar, answer), (answer, grammar.grammar.names[:5])
    for grammar, refused in [
        (auto, [wrong]),
        (single, [several]),
        (required, ["Hi", lead + wrong, ""]),
        (named, [lead + custom, lead + several]),
    ]:
        for answer in refused:
            assert not accepts(grammar, answer), answer
    for spelling in range(max(3, len(format.calls))):
        assert accepts(auto, written((WEATHER, ARGUMENTS), spelling=spelling, gap=("\n", "", "\n   ")[spelling % 3])), spelling


def walk(grammar, shown, rng, most=500):
    """A random answer of a grammar, ended as soon as it may after a while, as the engine shows it; None where it does not end."""
    matcher, named = grammar.matcher(), {token: shown[name] for name, token in grammar.vocabulary.special.items() if name in shown}
    text, data = [], b""
    stop = grammar.vocabulary.stop_token_ids[0]
    for step in range(most):
        allowed = matcher.allowed_tokens()
        if stop in allowed and (len(allowed) == 1 or step > 60 or rng.random() < 0.1):
            return "".join([*text, data.decode()])
        marks = [token for token in allowed if token in named]
        likely = [token for token in allowed if token < 127 and chr(token) in 'ab"<}]> \n/tnp'] if step > 9 else []
        plain = marks if marks and rng.random() < 0.3 else likely or [token for token in allowed if 31 < token < 127]
        token = rng.choice(plain or marks or [one for one in allowed if one != stop])
        assert matcher.accept_token(token)
        if token in named:
            text += [data.decode(), named[token]]
            data = b""
        else:
            data += bytes((token,))
    return None


@pytest.mark.parametrize("is_special", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_what_is_generated_is_read(name, is_special):
    """Random answers are read as text and calls whose arguments are valid, however they are cut."""
    format = FORMATS[name]
    special = special_of(format) if is_special else ()
    rng = random.Random(7)
    calls = 0
    for choice in ("required", "auto", NAMED):
        grammar = grammar_of(format, choice, special=special)
        for _ in range(12):
            answer = walk(grammar, named_tokens(format, special), rng)
            if answer is None:
                continue
            parser = CallParser(format, TOOLS, special=special)
            pieces = [piece for character in answer for piece in parser.feed(character)] + parser.feed("", final=True)
            found = {}
            for piece in pieces:
                if isinstance(piece, Call):
                    found.setdefault(piece.index, [piece.name, ""])[1] += piece.arguments
            assert not parser.in_call, answer
            assert found or choice == "auto", answer
            for called, arguments in found.values():
                calls += 1
                if called == "weather":
                    Draft202012Validator(SCHEMA).validate(json.loads(arguments))
                elif called == "now":
                    assert json.loads(arguments) == {}
            if choice != "auto":
                assert not [piece for piece in pieces if isinstance(piece, Text) and format.layout == "free"], answer
    assert calls > 3 or (format.layout == "before" and not is_special)  # whose text hardly ever ends by chance


XGRAMMAR = {
    "llama": "llama3_json",
    "kimi": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "deepseek_r1": "deepseek_v3",
    "deepseek_v3_1": "deepseek_v31",
    "deepseek_v3_2": "deepseek_v32",
    "deepseek_v4": "deepseek_v4",
    "deepseek_v4_1": "deepseek_v41",
    "qwen_3_coder": "qwen3_coder",
    "qwen_3_5": "qwen3_coder",
    "mimo": "mimo",
    "qwen_3": "hermes",
    "exaone": "hermes_compact",
    "minimax_m3": "minimax_m3",
    "glm_4_7": "glm47",
    "cohere": "cohere_xml",
    "harmony": "harmony",
}
"""XGrammar's own templates, which vLLM and SGLang use, and the formats here."""


@pytest.mark.parametrize(("model", "name"), XGRAMMAR.items())
def test_the_same_as_xgrammar(model, name):
    """A template of XGrammar's accepts what the format writes, and this compiler reads that template alike."""
    xgrammar = pytest.importorskip("xgrammar")
    format = FORMATS[name]
    vocabulary = [bytes((byte,)) for byte in range(256)]
    info = xgrammar.TokenizerInfo([*vocabulary, b"</s>"], stop_token_ids=[256])
    engine = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    tools = [{"type": "function", "function": {"name": tool.name, "parameters": tool.parameters}} for tool in (WEATHER, NOW)]
    gap = "" if model in ("exaone", "mimo", "harmony") else "\n"
    single = [(WEATHER, ARGUMENTS)]
    answers = [write_answer(format, calls, gap=gap, before=text) for calls in ([], single, [*single, (NOW, {})]) for text in ("", "Hi <b")]
    agreed = 0
    for choice in ("auto", "required", {"type": "function", "function": {"name": "weather"}}):
        theirs = xgrammar.get_model_structural_tag(model, tools=tools, tool_choice=choice, reasoning="disabled")
        compiled = engine.compile_structural_tag(theirs)
        read = compiler(()).structural_tag(theirs.model_dump_json())
        ours = grammar_of(format, choice, tools=(WEATHER, NOW))
        for answer in answers:
            lead = format.lead if choice != "auto" else ""
            matcher = xgrammar.GrammarMatcher(compiled)
            expected = all(map(matcher.accept_token, (lead + answer).encode())) and matcher.accept_token(256)
            agreed += expected
            assert accepts(read, lead + answer) == expected, (choice, answer)
            assert accepts(ours, lead + answer) == expected, (choice, answer, theirs)
    assert agreed >= 5, agreed
