"""Tool calls as structural tags: what the formats write is accepted, what the tags generate is read back and valid."""

import json
import random
import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.tool_calls import functions, write_answer

from stackmask import Compiler, Vocabulary
from stackmask.integration.tools import FORMATS, MARK, Call, CallParser, Text, ToolError, choose, named_tokens, read_tools, structural_tag
from stackmask.schema.structural_tag.notations import NOTATIONS

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
    return sorted({name for text in (*bound, NOTATIONS[format.style].pair) for name in SPECIAL.findall(text)})


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


@pytest.mark.parametrize(
    ("name", "schema", "message"),
    [
        ("step3", {"type": "array"}, "not of type object"),
        ("step3", {"minProperties": 1}, "minProperties"),
        ("step3", {"properties": {"a": {"type": "string", "pattern": "x"}}}, "pattern"),
        ("step3", {"properties": {"a": {"type": ["string", "integer"]}}}, "writes alike"),
        ("step3", {"properties": {"a": {"$ref": "#/properties/a"}}}, "cycle"),
        ("step3", {"properties": {'a"': {}}}, "name"),
        ("step3", {"required": ["b"]}, "not among its properties"),
        ("step3", {"required": 5}, "not a JSON Schema"),
        ("pythonic", {"properties": {"a-b": {"type": "string"}}}, "name"),
        ("pythonic", {"properties": {"a": {}}}, "no type"),
        ("pythonic", {"properties": {"a": {"type": "array", "uniqueItems": True}}}, "uniqueItems"),
        ("pythonic", {"properties": {"a": {"type": "array", "minItems": "x"}}}, "not a JSON Schema"),
        ("pythonic", {"properties": {"a": {"enum": [[1]]}}}, "lists values"),
        (
            "pythonic",
            {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
            "without end",
        ),
        ("pythonic", {"properties": {"a": {"type": "object", "patternProperties": {}}}}, "patternProperties"),
        ("gemma4", {"properties": {"a": {"type": "string", "maxLength": 3}}}, "maxLength"),
        ("gemma4", {"properties": {"a": {"const": 'x<|"|>'}}}, "value"),
        ("gemma4", {"properties": {"a": {"type": "object", "properties": {"b c": {"type": "null"}}}}}, "name"),
    ],
)
def test_what_a_format_cannot_hold(name, schema, message):
    """Schemas that a composed notation cannot enforce exactly are refused, with the tool and the format."""
    tools = read_tools([{"type": "function", "name": "f", "parameters": schema}])
    with pytest.raises(ToolError, match=message) as caught:
        structural_tag(FORMATS[name], choose(tools, "auto"))
    assert f"tool 'f' in the format {name}" in str(caught.value)


RICH = {
    "type": "object",
    "properties": {
        "a": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        "b": {"type": "array", "items": {"type": ["boolean", "null"]}, "minItems": 1, "maxItems": 2},
        "c": {"$ref": "#/$defs/C"},
        "d": {"enum": ["x", 1, None, True]},
        "e": {"const": "only"},
    },
    "required": ["c"],
    "$defs": {"C": {"type": "object", "properties": {"k": {"type": "boolean"}, "l": {"type": "string"}}, "required": ["l"]}},
}


@pytest.mark.parametrize("name", [name for name, format in FORMATS.items() if NOTATIONS[format.style].literals])
def test_literals(name):
    """Arguments as literals: any members may be left out but those required, and values are bound as the schema says."""
    format = FORMATS[name]
    tools = read_tools([{"type": "function", "name": "f", "parameters": RICH}])
    grammar = grammar_of(format, "required", tools=tools)

    def accepted(arguments):
        return accepts(grammar, write_answer(format, [(tools[0], arguments)]))

    c = {"l": "s"}
    good = [
        {"c": c},
        {"a": 5, "c": c},
        {"a": None, "b": [True, None], "c": {"k": False, "l": ""}, "d": "x", "e": "only"},
        {"c": c, "d": 1},
        {"c": c, "d": True},
    ]
    bad = [
        {},
        {"a": 0, "c": c},
        {"c": {}},
        {"c": c, "b": [True]},
        {"b": [], "c": c},
        {"b": [True] * 3, "c": c},
        {"c": c, "d": "y"},
        {"c": c, "e": "x"},
    ]
    for arguments in good:
        assert accepted(arguments), arguments
        found = CallParser(format, tools).feed(write_answer(format, [(tools[0], arguments)]), final=True)
        assert [(piece.name, json.loads(piece.arguments)) for piece in found] == [("f", arguments)]
    for arguments in bad:
        assert not accepted(arguments), arguments
    assert all(Draft202012Validator(RICH).is_valid(arguments) for arguments in good)


BOUND = {
    "type": "object",
    "properties": {
        "p": {"type": "string", "pattern": "^ ?[0-9]+$"},
        "u": {
            "anyOf": [
                {"type": "string", "maxLength": 2},
                {"type": "integer", "minimum": 100},
                {"type": "array", "items": {"type": "string"}},
            ]
        },
        "e": {"enum": ["1", 1, "null", None]},
        "l": {"type": "string", "minLength": 2},
    },
    "required": ["p", "u", "e", "l"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("name", ["qwen3_coder", "minimax_m2", "glm47", "deepseek_v32", "kimi_k3", "cohere_xml"])
def test_texts_that_read_in_two_ways(name):
    """Random arguments with strings that could be numbers, and bound strings with blanks around them, are read as valid ones."""
    format = FORMATS[name]
    tools = read_tools([{"type": "function", "name": "f", "parameters": BOUND}])
    grammar, rng = grammar_of(format, "required", tools=tools, parallel=False), random.Random(5)
    for _ in range(150):
        matcher, data = grammar.matcher(), bytearray()
        for _ in range(rng.randint(0, 400)):
            allowed = [token for token in matcher.allowed_tokens() if token < 256]
            likely = [token for token in allowed if chr(token) in '012 \n[]",nul</=>']
            if not allowed or (rng.random() < 0.2 and not likely):
                break
            data.append(rng.choice(likely or allowed))
            matcher.accept_bytes(bytes(data[-1:]))
        answer = (bytes(data) + matcher.shortest_completion()).decode()
        calls = [piece for piece in CallParser(format, tools).feed(answer, final=True) if isinstance(piece, Call)]
        errors = list(Draft202012Validator(BOUND).iter_errors(json.loads("".join(call.arguments for call in calls))))
        assert not errors, (answer, calls)


@pytest.mark.parametrize("name", FORMATS)
def test_reasoning_before_calls(name):
    """An answer that begins inside the reasoning, one that may begin with it, and one that has none."""
    format = FORMATS[name]
    begin, end = format.reasoning
    call = format.lead + write_answer(format, [(NOW, {})])
    inside = ("hm" if format.layout != "either" else f"{begin}hm") + end + call
    assert accepts(grammar_of(format, "required", reasoning=True), inside)
    assert not accepts(grammar_of(format, "required"), inside)
    parser = CallParser(format, TOOLS, reasoning=True)
    pieces = [piece for character in inside for piece in parser.feed(character)] + parser.feed("", final=True)
    assert "".join(piece.text for piece in pieces if isinstance(piece, Text) and piece.is_reasoning) == "hm"
    assert [piece.name for piece in pieces if isinstance(piece, Call) and piece.begins] == ["now"]
    maybe = grammar_of(format, "required", reasoning=None)
    assert accepts(maybe, call) and (not begin or accepts(maybe, f"{begin}hm{end}{call}"))


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(sorted(FORMATS)))
def test_random_tools_are_accepted(data, name):
    """Arguments that fit random schemas are written by the format and accepted by its tag."""
    schema, arguments = data.draw(functions(nested=True))
    tools = read_tools([{"type": "function", "name": "f", "parameters": {**schema, "additionalProperties": False}}])
    answer = FORMATS[name].lead + write_answer(FORMATS[name], [(tools[0], arguments)])
    assert accepts(grammar_of(FORMATS[name], "required", tools=tools), answer), answer
