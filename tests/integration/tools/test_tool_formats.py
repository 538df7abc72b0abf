"""Tool calls: what is written by the table of formats is read back, in whatever pieces it comes."""

import json
import re
import runpy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tool_calls import functions, write_answer

from stackmask.integration.tools import DEFAULT, FORMATS, MARK, Call, CallParser, Text, choose, detect_format, named_tokens, read_tools
from stackmask.integration.tools.kinds import KINDS, kinds
from stackmask.integration.tools.spelling import bind, openers, spellings, triggers
from stackmask.schema.structural_tag.notations import NOTATIONS

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "exact": {"type": "boolean"},
        "place": {"type": "object", "properties": {"lat": {"type": "number"}, "name": {"type": "string"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}
DEFINITIONS = [
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "weather.now", "parameters": {"type": "object", "properties": {}}}},
    {"type": "custom", "custom": {"name": "run-code"}},
]
TOOLS = read_tools(DEFINITIONS)
FUNCTION, EMPTY, CUSTOM = TOOLS
ARGUMENTS = {"city": 'Oslo "x" {<é', "days": 3, "exact": True, "place": {"lat": 1.5, "name": "a b"}, "tags": ["p", "q"], "note": None}
GAPS = ("\n", "", "\n  ")
CODE = 'print("hi")\nx = {1: [2]}\n'


def read(format, text, pieces=None, tools=TOOLS, **options):
    """The text, the reasoning and the calls that a parser makes of a text that comes in pieces."""
    parser = CallParser(format, tools, **options)
    content, reasoning, calls = [], [], {}
    pieces = [text] if pieces is None else pieces
    for number, piece in enumerate(pieces):
        for found in parser.feed(piece, final=number == len(pieces) - 1):
            if isinstance(found, Text):
                (reasoning if found.is_reasoning else content).append(found.text)
            else:
                assert isinstance(found, Call) and found.begins == (found.index not in calls)
                name, sofar = calls.get(found.index, (found.name, ""))
                calls[found.index] = name, sofar + found.arguments
    return "".join(content), "".join(reasoning), [calls[index] for index in sorted(calls)]


def values(calls):
    """Calls with their arguments as values."""
    return [(name, text if name == CUSTOM.name else json.loads(text)) for name, text in calls]


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
    return sorted({name for text in bound for name in re.findall(r"<[|｜][^<>\s]*?[|｜]>|\[[A-Z_]+\]|</?tool_calls?>", text)})


def test_the_table_is_whole():
    """Each entry can be told apart by the parser: a name ends where what follows it begins, and calls begin with something."""
    for name, format in FORMATS.items():
        assert name == format.name and format.families and format.parsers and format.style in NOTATIONS
        for spelling in spellings(format):
            assert "$name" in spelling.head
            for piece, following in zip(spelling.pieces[1::2], spelling.pieces[2::2], strict=True):
                assert piece != "name" or not re.match(r"[A-Za-z0-9_.-]", following or '"'), spelling
        assert all(openers(format)), name
        if format.layout == "free":
            assert all(any(trigger and opener.startswith(trigger) for trigger in triggers(format)) for opener in openers(format)), name
        assert bind(format, ()) == bind(format, ("<|never|>",))
    assert DEFAULT in FORMATS


@pytest.mark.parametrize("is_special", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_round_trip(name, is_special):
    """Calls of all kinds in all spellings, between texts, are read back, whole and character by character."""
    format = FORMATS[name]
    special = special_of(format) if is_special else ()
    most = 1 if format.is_single else 3
    for spelling in range(max(3, len(format.calls))):
        for calls in (
            [],
            [(FUNCTION, ARGUMENTS)],
            [(EMPTY, {})],
            [(CUSTOM, CODE)],
            [(FUNCTION, ARGUMENTS), (CUSTOM, CODE), (EMPTY, {})][:most],
        ):
            before = "Let me <see> [1]: {"
            after = "" if format.is_single or not calls else "Done."
            text = write_answer(format, calls, before=before, after=after, special=special, spelling=spelling, gap=GAPS[spelling % 3])
            pieces = [[text], list(text), [text[:7], *re.findall("(?s).{1,5}", text[7:])]]
            for cut in pieces:
                content, _, found = read(format, text, cut, special=special)
                assert values(found) == [(tool.name, value) for tool, value in calls], (spelling, cut)
                expected = before if format.layout == "before" else "" if format.layout == "either" and calls else before
                assert content == expected + (after if format.layout == "free" and calls else ""), (spelling, cut)


@pytest.mark.parametrize("name", ["hermes", "mistral_args", "qwen3_coder", "glm47", "minimax_m3", "cohere_xml"])
def test_every_way_to_cut_a_text_in_three(name):
    """Two cuts at any places change nothing."""
    format = FORMATS[name]
    text = write_answer(format, [(FUNCTION, {"city": "a<\\", "days": -1}), (EMPTY, {})], before="b<")
    expected = read(format, text)
    for first in range(len(text)):
        for second in range(first, len(text), 7):
            assert read(format, text, [text[:first], text[first:second], text[second:]]) == expected


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(sorted(FORMATS)))
def test_random_tools(data, name):
    """Random schemas and arguments come back as they were, cut at random."""
    format = FORMATS[name]
    schemas = data.draw(st.lists(functions(nested=True), min_size=1, max_size=1 if format.is_single else 3))
    tools = read_tools([{"type": "function", "name": f"f{n}", "parameters": schema} for n, (schema, _) in enumerate(schemas)])
    calls = [(tool, arguments) for tool, (_, arguments) in zip(tools, schemas, strict=True)]
    text = write_answer(format, calls)
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    cut = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    content, _, found = read(format, text, cut, tools=tools)
    assert (content, [(one, json.loads(arguments)) for one, arguments in found]) == ("", [(tool.name, value) for tool, value in calls])


@pytest.mark.parametrize("name", FORMATS)
def test_a_text_cut_short(name):
    """Wherever an answer is cut, reading it ends without an error, and says no call that has not begun."""
    format = FORMATS[name]
    text = write_answer(format, [(FUNCTION, ARGUMENTS)], before="x")
    for end in range(len(text)):
        content, _, calls = read(format, text[:end])
        assert len(calls) <= 1 and (format.layout == "either" or content[:1] in ("", "x"))


def test_text_that_is_no_call():
    """What begins like a call and names no tool is text, and so is text in which a special token's name is spelled out."""
    hermes = FORMATS["hermes"]
    for text in ('<tool_call>\n{"name": "other", "arguments": {}}\n</tool_call>', "<tool_call", "a <tool_call> b", "", " x\n"):
        assert read(hermes, text) == read(hermes, text, list(text) or [""]) == (text, "", [])
    mistral = FORMATS["mistral_args"]
    assert read(mistral, "[TOOL_CALLS]weather{}", special=["[TOOL_CALLS]"])[2] == []
    assert read(mistral, MARK + "[TOOL_CALLS]weather{}", special=["[TOOL_CALLS]"])[2] == [("weather", "{}")]


def test_reasoning():
    """Reasoning is told apart, where the answer begins in it and where it begins it."""
    hermes, harmony = FORMATS["hermes"], FORMATS["harmony"]
    assert read(hermes, "hm <b>\n</think>\n\nyes", reasoning=True) == ("\n\nyes", "hm <b>\n", [])
    assert read(hermes, "", list("<think>hm</think>yes")) == ("yes", "hm", [])
    text = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>ok<|end|><|start|>assistant"
    call = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{}"
    for special in ((), special_of(harmony)):
        marked = re.sub("|".join(map(re.escape, special)), lambda name: MARK + name[0], text + call) if special else text + call
        assert read(harmony, marked, list(marked), special=special, stops=["<|call|>"]) == ("ok", "hm", [("weather", "{}")])


def test_ids_of_the_family():
    """Where a family names its calls, the calls have these names."""
    parser = CallParser(FORMATS["kimi_k2"], TOOLS)
    (call,) = parser.feed(write_answer(FORMATS["kimi_k2"], [(EMPTY, {})]), final=True)
    assert call.id == "functions.weather.now:0"
    (call,) = CallParser(FORMATS["hermes"], TOOLS).feed(write_answer(FORMATS["hermes"], [(EMPTY, {})]), final=True)
    assert call.id.startswith("call_")


def test_deep_arguments():
    """Arguments nested a hundred thousand deep are passed on, however they are cut."""
    deep = "[" * 100_000 + "]" * 100_000
    text = '<tool_call>{"name": "weather", "arguments": ' + deep + "}</tool_call>"
    assert read(FORMATS["hermes"], text)[2] == [("weather", deep)]
    opened = "]<]minimax[>[<a>" * 3000
    call = write_answer(FORMATS["minimax_m3"], [(EMPTY, {})]).replace('">', '">' + opened + "1" + "]<]minimax[>[</a>" * 3000, 1)
    assert read(FORMATS["minimax_m3"], call)[2][0][1].count("{") == 3000


@pytest.mark.parametrize(
    ("template", "tokens", "name"),
    [
        ('<tool_call>\\n{"name": ', (), "hermes"),
        ('<tool_call>{"name": "', (), "hermes_compact"),
        ("<tool_call> <function=name> <parameter=x>", (), "qwen3_coder"),
        ("<tool_call>{name}<arg_key>k</arg_key>\\n<arg_value>", (), "glm45"),
        ("<tool_call>{name}<arg_key>k</arg_key><arg_value>", (), "glm47"),
        ("", ("[TOOL_CALLS]", "[INST]"), "mistral"),
        ("", ("[TOOL_CALLS]", "[ARGS]"), "mistral_args"),
        ("", ("<|channel|>", "<|message|>", "<|call|>", "<|constrain|>"), "harmony"),
        ("", ("<|python_tag|>", "<|eot_id|>"), "llama3_json"),
        ("'<｜tool▁calls▁begin｜>' + '```json'", (), "deepseek_v3"),
        ("<｜tool▁calls▁begin｜>", (), "deepseek_v31"),
        ("<|tool_calls_section_begin|>", (), "kimi_k2"),
        ("no tools at all", ("<s>",), None),
    ],
)
def test_detection(template, tokens, name):
    """A format is told by what a chat template and the tokens speak of; the more of it, the surer."""
    found = detect_format(template, tokens)
    assert (found.name if found else None) == name


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, (3, False, False)),
        ("auto", (3, False, False)),
        ("required", (3, True, False)),
        ("none", None),
        ({"type": "function", "function": {"name": "weather"}}, (1, True, True)),
        ({"type": "function", "name": "weather"}, (1, True, True)),
        ({"type": "custom", "custom": {"name": "run-code"}}, (1, True, True)),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "custom", "custom": {"name": "run-code"}}]}},
            (1, False, False),
        ),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "weather"}]}, (1, True, False)),
        ({"type": "function", "function": {"name": "run-code"}}, "not one of the tools"),
        ({"type": "function", "function": {"name": "x"}}, "not one of the tools"),
        ({"type": "other"}, "allowed_tools"),
        ({"type": "allowed_tools", "tools": []}, "mode"),
        ("maybe", "maybe"),
    ],
)
def test_choices(choice, expected):
    """What a tool_choice comes to, and what is wrong with one."""
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            choose(TOOLS, choice)
        return
    found = choose(TOOLS, choice)
    assert (found and (len(found.tools), found.is_required, found.is_single)) == expected


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"type": "x"}, "type is 'x'"),
        ({"type": "function", "function": {"name": "a b"}}, "name"),
        ({"type": "function", "function": {"name": "a" * 65}}, "name"),
        ({"type": "function", "name": "a", "parameters": 5}, "JSON Schema"),
        ({"type": "custom", "name": "a", "format": {"type": "grammar", "syntax": "ebnf", "definition": "x"}}, "lark or regex"),
        ("x", "type is 'None'"),
    ],
)
def test_what_is_no_tool(definition, message):
    """A definition that is none is refused, and so are two of one name."""
    with pytest.raises(ValueError, match=message):
        read_tools([definition])
    with pytest.raises(ValueError, match="two tools"):
        read_tools(DEFINITIONS + DEFINITIONS)


def test_named_tokens():
    """Of a tokenizer's special tokens, those that a format spells are shown in the text of an answer."""
    assert named_tokens(FORMATS["mistral"], ["[TOOL_CALLS]", "<s>"]) == {"[TOOL_CALLS]": MARK + "[TOOL_CALLS]"}
    assert named_tokens(FORMATS["deepseek_v32"], ["｜DSML｜"]) == {"｜DSML｜": "｜DSML｜"}
    assert named_tokens(FORMATS["hermes"], ["<s>"]) == {}


def test_the_documented_table():
    """The table in the documentation is the one that the script prints."""
    root = Path(__file__).parents[3]
    script = runpy.run_path(str(root / "scripts" / "tool_formats.py"))
    text = (root / "docs" / "tool_calling.md").read_text("utf-8")
    assert script["table"]() in text
    assert [name for name, format in sorted(FORMATS.items()) if not format.detect] == ["granite31", "llama3_tag", "mimo", "xlam"]
    assert "`granite31`, `llama3_tag`, `mimo` and `xlam`" in text


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(FORMATS)), st.randoms(use_true_random=False))
def test_malformed_answers(name, rng):
    """Whatever a model without a constraint writes, reading it ends, and does not depend on how it is cut."""
    format = FORMATS[name]
    calls = [(FUNCTION, {"city": "x<", "days": 1, "note": None}), (CUSTOM, 'q"{')][: rng.randint(1, 2)]
    parts = re.findall(r"(?s).{1,6}", write_answer(format, calls, before=rng.choice(["", "hi "])))
    for _ in range(rng.randint(0, 5)):
        place = rng.randrange(len(parts))
        parts[place : place + rng.randint(0, 1)] = [rng.choice([*parts, "<", "}", '"', "\n", "\\", "["])] * rng.randint(0, 1)
        parts = parts or ["x"]
    text = "".join(parts)
    assert read(format, text) == read(format, text, list(text) or [""]) == read(format, text, [*parts, ""])


def test_hostile_schemas():
    """Schemas whose combinations multiply, or whose references go in a circle, are read as allowing anything, and soon."""
    wide = {
        "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 50} for n in range(20)},
        "properties": {"a": {"$ref": "#/$defs/d0"}},
    }
    circle = {"$defs": {"x": {"$ref": "#/$defs/x"}}, "properties": {"a": {"$ref": "#/$defs/x"}}, "allOf": "no list"}
    odd = {"properties": {"a": {"type": [["x"]], "enum": "no list", "anyOf": 5}}}
    for schema in (wide, circle, odd):
        tools = read_tools([{"type": "function", "name": "f", "parameters": schema}])
        for name in ("qwen3_coder", "minimax_m3", "cohere_xml"):
            text = write_answer(FORMATS[name], [(tools[0], {"a": "b"})])
            assert read(FORMATS[name], text, tools=tools)[2] == [("f", '{"a": "b"}')]
        assert kinds(schema, schema) == KINDS
