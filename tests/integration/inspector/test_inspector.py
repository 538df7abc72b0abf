"""The inspector's answers: what fits, which part of a specification is responsible, what may come next, and that nothing stops it."""

import json
import random
import re
import time

import numpy as np
import pytest

import stackmask
from stackmask.integration.demo import demo_model_path, demo_vocabulary
from stackmask.integration.inspector import Inspector, RequestError, Tokenizer
from stackmask.integration.inspector.json_text import find_ranges, read_position
from stackmask.integration.inspector.request import FIELDS, VIEWS, read_request
from stackmask.integration.inspector.rule_places import live_parts
from stackmask.integration.inspector.terminal import trace_lines

ORDER = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 6},
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "maxItems": 2, "minItems": 1},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["name", "items"],
    "additionalProperties": False,
    "$defs": {"item": {"type": "object", "properties": {"price": {"type": "number", "minimum": 3}}, "additionalProperties": False}},
}
SCHEMA = json.dumps(ORDER, indent=2)


@pytest.fixture(scope="module")
def inspector():
    return Inspector([Tokenizer("demo", demo_vocabulary())])


def ask(inspector, kind, text, instance="", **more):
    """The answer about a specification and a text."""
    options = more.pop("options", {})
    return inspector.inspect({"specification": {"kind": kind, "text": text, "options": options}, "text": instance, **more})


REFUSALS = [
    ('{"name":"Jo","items":[{"price":1}', "/$defs/item/properties/price/minimum"),
    ('{"name":"Jo","items":[{"price":"', "/$defs/item/properties/price/type"),
    ('{"name":"Jo","items":[{"cost"', "/$defs/item/additionalProperties"),
    ('{"name":"J"', "/properties/name/minLength"),
    ('{"name":"Jolanda"', "/properties/name/maxLength"),
    ('{"name":3', "/properties/name/type"),
    ('{"name":"Jo","items":[]', "/properties/items/minItems"),
    ('{"name":"Jo","items":[{},{},', "/properties/items/maxItems"),
    ('{"name":"Jo","items":[{}],"kind":"c', "/properties/kind/enum"),
    ('{"name":"Jo","items":[{}],"extra', "/additionalProperties"),
    ('{"name":"Jo"}', "/required"),
    ("[", "/type"),
    ('{"items"', "/properties"),
]


@pytest.mark.parametrize(("text", "pointer"), REFUSALS)
def test_the_responsible_keyword(inspector, text, pointer):
    """The keyword is named without which the character would fit, and its range in the schema's text begins with it."""
    refusal = ask(inspector, "json_schema", SCHEMA, text, views=["trace"])["trace"]["refusal"]
    assert refusal["place"]["pointer"] == pointer
    start, end = refusal["place"]["range"]
    keyword = pointer.rsplit("/", 1)[1]
    assert SCHEMA[start:end].startswith(f'"{keyword}"')
    assert SCHEMA.count("\n", 0, start) + 1 == refusal["place"]["line"]


def test_the_words_of_the_schema(inspector):
    """The reasons are those of the matcher for the whole value, also where one character of it is refused."""
    refusal = ask(inspector, "json_schema", '{"maximum": 120}', "2000", views=["trace"])["trace"]["refusal"]
    assert refusal["position"] == 2
    assert refusal["reasons"] == ["the value: 2000 is more than 120 (schema /maximum)"]


def test_a_key_that_comes_twice(inspector):
    """The option is responsible, and no keyword."""
    text, options = '{"a": 1, "a"', {"distinct_keys": True}
    refusal = ask(inspector, "json_schema", '{"type": "object"}', text, options=options, views=["trace"])["trace"]["refusal"]
    assert (refusal["position"], refusal["place"]["pointer"]) == (len(text) - 1, "")
    assert refusal["place"]["reason"] == "distinct_keys is true: no key of an object comes twice"


@pytest.mark.parametrize("text", ['{"name":"Jo",}', '{"name" "', "{'", '{"name":"\x01'])
def test_no_keyword_is_responsible_for_what_is_no_json(inspector, text):
    refusal = ask(inspector, "json_schema", SCHEMA, text, views=["trace"])["trace"]["refusal"]
    assert refusal["place"] is None


def test_the_nearest_text_is_accepted(inspector):
    """What is offered in the place of a refused text is a text of the grammar that begins with all that fits."""
    matcher = stackmask.Compiler(demo_vocabulary()).json_schema(ORDER).matcher
    for text, _ in REFUSALS:
        refusal = ask(inspector, "json_schema", SCHEMA, text, views=["trace"])["trace"]["refusal"]
        offered = refusal["nearest"]["kept"] + refusal["nearest"]["completion"]
        assert offered.startswith(text[: refusal["position"]])
        fork = matcher()
        assert fork.accept_bytes(offered.encode())
        assert fork.is_completed()


def test_the_spans_agree_with_trying_every_byte(inspector):
    """A character is forced exactly where one byte after the other was the only one; the oracle counts next_bytes."""
    text = '{"name":"Jöse","items":[{"price":12.5}],"kind":"b"}'
    trace = ask(inspector, "json_schema", SCHEMA, text, views=["trace"])["trace"]
    assert trace["accepted"]
    assert trace["complete"]
    flags = "".join(flag[:2] * (end - start) for start, end, flag in trace["spans"])
    matcher = stackmask.Compiler(demo_vocabulary()).json_schema(ORDER).matcher()
    for index, character in enumerate(text):
        forced = True
        for byte in character.encode():
            forced = forced and matcher.next_bytes() == bytes([byte]) and not matcher.is_completed()
            matcher.accept_bytes(bytes([byte]))
        assert flags[2 * index : 2 * index + 2] == ("fo" if forced else "fi"), index


def test_the_strip_agrees_with_trying_every_token(inspector):
    """The number of allowed tokens at each place is that of fill_by_trial."""
    text = '{"name":"Jo","items":[{"price":12}]}'
    strip = ask(inspector, "json_schema", SCHEMA, text, views=["tokens"])["tokens"]
    vocabulary = demo_vocabulary()
    matcher = stackmask.Compiler(vocabulary).json_schema(ORDER).matcher()
    assert b"".join(vocabulary.token_bytes(row[0]) for row in strip["tokens"]).decode() == text
    bitmask = stackmask.allocate_token_bitmask(1, vocabulary.size)
    for token, start, end, status, allowed, mask, step in strip["tokens"]:
        matcher.fill_by_trial(bitmask)
        assert allowed == int(np.unpackbits(bitmask.view(np.uint8)).sum())
        assert status in ("forced", "chosen")
        assert text.encode()[start:end] == vocabulary.token_bytes(token)
        assert mask >= 0
        assert step >= 0
        assert matcher.accept_token(token)


def test_pages_of_allowed_tokens(inspector):
    """Pages put together are the allowed tokens, and a search keeps those that hold the text."""
    text = '{"name":"'
    matcher = stackmask.Compiler(demo_vocabulary()).json_schema(ORDER).matcher()
    matcher.accept_bytes(text.encode())
    wanted, found = matcher.allowed_tokens(), []
    while len(found) < len(wanted):
        page = ask(inspector, "json_schema", SCHEMA, text, views=["cursor"], offset=len(found), limit=200)["cursor"]["allowed"]
        assert page["total"] == len(wanted)
        found += [row[0] for row in page["rows"]]
    assert sorted(found) == wanted
    blank = [demo_vocabulary().token_bytes(token).isspace() for token in found]
    assert blank == sorted(blank)
    page = ask(inspector, "json_schema", SCHEMA, text, views=["cursor"], query="an", limit=200)["cursor"]["allowed"]
    assert page["matching"] == len(page["rows"]) > 0
    assert all("an" in row[1] for row in page["rows"])


def test_context_dependent_tokens(inspector):
    """A token that closes the rule and reads on is context-dependent; what stays inside is not."""
    grammar = 'root ::= "<" inner ">" "!"?\ninner ::= [a-z]+ | "(" inner ")"'
    rows = ask(inspector, "ebnf", grammar, "<(ab", views=["cursor"], limit=200)["cursor"]["allowed"]["rows"]
    kinds = {text: kind for _, text, kind in rows}
    assert kinds["a"] == "independent"
    assert kinds[")"] == "dependent"


def test_the_cursor(inspector):
    """The path, what is left of bounds and the shortest completion at a place inside of the text."""
    text = '{"name":"Jol","items":[{"price":12},{}]}'
    cursor = ask(inspector, "json_schema", SCHEMA, text, cursor=12, views=["cursor"])["cursor"]
    assert cursor["path"] == ["name"]
    assert {"pointer": "/properties/name", "unit": "characters", "used": 3, "minimum": 2, "maximum": 6} in cursor["bounds"]
    cursor = ask(inspector, "json_schema", SCHEMA, text, cursor=text.index("12") + 1, views=["cursor"])["cursor"]
    assert cursor["path"] == ["items", 0, "price"]
    assert {"pointer": "/properties/items", "unit": "items", "used": 1, "minimum": 1, "maximum": 2} in cursor["bounds"]
    assert cursor["places"][-1]["pointer"] == "/$defs/item/properties/price"
    assert cursor["completion"] == "0}]}"


def test_trying_a_token_and_a_text(inspector):
    token = demo_vocabulary().tokens.index(b"x")
    tried = ask(inspector, "regex", "[0-9]{4}", "20", views=["cursor"], try_token=token)["cursor"]["try"]
    assert not tried["accepted"]
    assert tried["nearest"]["completion"] == "00"
    assert ask(inspector, "regex", "[0-9]{4}", "20", views=["cursor"], try_text="21")["cursor"]["try"]["accepted"]
    assert not ask(inspector, "regex", "[0-9]{4}", "20", views=["cursor"], try_token=1 << 20)["cursor"]["try"]["accepted"]


PATTERNS = [
    (r"[a-z]+\d{2,3}(foo|bar)", "abc1", [r"\d{2,3}"]),
    (r"[a-z]+\d{2,3}(foo|bar)", "abc12", [r"\d{2,3}", "(foo|bar)"]),
    (r"[a-z]+\d{2,3}(foo|bar)", "abc123f", ["o"]),
    (r"^(\d{4})-(0[1-9]|1[0-2])$", "1815-1", ["[0-2]"]),
    (r"a*ab?", "a", ["a*", "a", "b?"]),
    (r"\((?:x|y)\]", "(", ["x", "y"]),
    (r"(ab)*c", "a", ["(ab)*"]),
    (r"(?=a)a", "", []),
]


@pytest.mark.parametrize(("pattern", "text", "parts"), PATTERNS)
def test_the_live_parts_of_a_pattern(pattern, text, parts):
    """The parts of the pattern that can read on at the end of the text; none where parts do not stand in a row."""
    assert [pattern[start:end] for start, end in live_parts(pattern, text, time.monotonic() + 5)] == parts


def test_the_rule_of_a_grammar(inspector):
    grammar = 'root ::= expr\nexpr ::= term ("+" term)*\nterm ::= [0-9]+ | "(" expr ")"\n'
    place = ask(inspector, "ebnf", grammar, "(1+x", views=["trace"])["trace"]["refusal"]["place"]
    assert (place["rule"], place["line"]) == ("term", 3)
    grammar = 'start: expr\nexpr: NUM ("+" NUM)*\nNUM: /[0-9]+/\n%ignore " "\n'
    place = ask(inspector, "lark", grammar, "1 + x", views=["trace"])["trace"]["refusal"]["place"]
    assert (place["rule"], place["line"]) == ("NUM", 3)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("regex", "(a"),
        ("json_schema", '{"type": 3}'),
        ("json_schema", '{"a":'),
        ("ebnf", "root ::= x"),
        ("lark", "start: x"),
        ("choice", "3"),
    ],
)
def test_a_wrong_specification_is_part_of_the_answer(inspector, kind, text):
    answer = ask(inspector, kind, text)
    assert answer["specification"]["error"]["message"]
    assert "trace" not in answer


def test_unsupported_keywords_have_ranges(inspector):
    schema = '{"type": "object",\n "properties": {"a": {"$dynamicRef": "#x"}}}'
    problems = ask(inspector, "json_schema", schema)["specification"]["error"]["problems"]
    assert problems


@pytest.mark.parametrize(
    ("kind", "text"),
    [("json_schema", SCHEMA), ("regex", "[a-z]{3,9}[0-9]"), ("json", ""), ("choice", '["yes", "no"]'), ("ebnf", 'root ::= "a" root? "b"')],
)
def test_random_texts_are_accepted(inspector, kind, text):
    """Every random text is one of the specification, and seeds give different ones where there are several."""
    texts = [ask(inspector, kind, text, views=["sample"], seed=seed)["sample"] for seed in range(12)]
    for sample in texts:
        assert ask(inspector, kind, text, sample, views=["trace"])["trace"]["complete"]
    assert len(set(texts)) > 1


def test_differences(inspector):
    """Exact by the algebra of schemas and by automata; a text of one that the other refuses."""
    answer = ask(inspector, "json_schema", SCHEMA, views=["difference"], other={"kind": "json_schema", "text": '{"type": "object"}'})
    found = answer["difference"]
    assert found["only_first"]["text"] is None
    assert found["only_first"]["exact"]
    assert found["only_second"]["text"] == "{}"
    found = ask(inspector, "regex", "[ab]{2}", views=["difference"], other={"kind": "regex", "text": "a[ab]"})["difference"]
    assert found["only_first"]["text"] in ("ba", "bb")
    assert found["only_second"] == {"text": None, "exact": True, "note": "every text of it is a text of the other"}
    grammar = {"kind": "ebnf", "text": 'root ::= "a" root? "b"'}
    found = ask(inspector, "regex", "a+b+", views=["difference"], other=grammar)["difference"]
    assert not re.fullmatch("(a)b|aabb", found["only_first"]["text"] or "ab")
    assert not found["only_second"]["exact"]


def test_drawings(inspector):
    """The rule graph names every rule, and the automaton's live state is the one that the text leads to."""
    answer = ask(inspector, "regex", "ab|cd", "a", views=["automaton", "rules"])
    live = [box for box in answer["automaton"]["boxes"] if box["live"]]
    assert len(live) == 1
    arrows = [arrow for arrow in answer["automaton"]["arrows"] if answer["automaton"]["boxes"][arrow["source"]] is live[0]]
    assert [arrow["label"] for arrow in arrows] == ['"b"']
    grammar = 'root ::= expr\nexpr ::= term ("+" term)*\nterm ::= [0-9]+ | "(" expr ")"\n'
    answer = ask(inspector, "ebnf", grammar, "(1", views=["automaton", "rules"])
    assert [box["label"] for box in answer["rules"]["boxes"]] == ["root", "expr", "term"]
    assert answer["automaton"]["title"] == "rule term"
    assert any(box["live"] and box["kind"] == "final" for box in answer["automaton"]["boxes"])


@pytest.mark.parametrize("kind", ["json_schema", "regex", "ebnf", "lark", "structural_tag", "choice", "json"])
def test_snippets(inspector, kind):
    """Python compiles, and the body for curl is the JSON of a request."""
    text = {
        "json_schema": SCHEMA,
        "regex": r"\d+'\"",
        "ebnf": 'root ::= "a\'b"',
        "lark": 'start: "a"',
        "structural_tag": '{"type": "structural_tag", "format": {"type": "any_text"}}',
        "choice": '["a", "it\'s"]',
        "json": "",
    }[kind]
    snippets = ask(inspector, kind, text, views=["snippets"])["snippets"]
    assert set(snippets) == {"python", "curl", "vllm", "sglang"}
    for name in ("python", "vllm", "sglang"):
        compile(snippets[name], name, "exec")
    import shlex

    words = shlex.split(snippets["curl"])
    assert json.loads(words[words.index("-d") + 1])["messages"]


def test_every_view_of_every_kind(inspector):
    """All views at once, for texts that fit and that do not; the answer is JSON."""
    cases = [
        ("json_schema", SCHEMA, '{"name":"J'),
        ("regex", "a+", "ab"),
        ("lark", 'start: "a"', "b"),
        ("json", "", "[1,"),
        ("choice", '["a"]', ""),
    ]
    for kind, text, instance in cases:
        answer = ask(inspector, kind, text, instance, views=[view for view in VIEWS if view != "probabilities"])
        json.loads(json.dumps(answer))
        assert answer["late"] == []


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"specification": 3},
        {"specification": {"kind": "x", "text": ""}},
        {"specification": {"kind": "regex", "text": 3}},
        {"specification": {"kind": "regex", "text": "a", "options": {"root": "x"}}},
        {"specification": {"kind": "ebnf", "text": "a", "options": {"root": 3}}},
        {"specification": {"kind": "regex", "text": "a", "more": 1}},
        {"specification": {"kind": "regex", "text": "a"}, "unknown": 1},
        {"specification": {"kind": "regex", "text": "a"}, "cursor": -1},
        {"specification": {"kind": "regex", "text": "a"}, "cursor": True},
        {"specification": {"kind": "regex", "text": "a"}, "limit": 201},
        {"specification": {"kind": "regex", "text": "a"}, "text": "a" * 70_000},
        {"specification": {"kind": "regex", "text": "a"}, "views": ["x"]},
        {"specification": {"kind": "regex", "text": "a"}, "views": ["trace"] * 99},
        {"specification": {"kind": "regex", "text": "a"}, "tokenizer": "none"},
    ],
)
def test_requests_that_cannot_be_read(inspector, body):
    with pytest.raises(RequestError):
        inspector.inspect(body)


def test_every_field_is_read():
    """The table of fields and the dataclass name the same."""
    assert set(FIELDS) == set(read_request({"specification": {"kind": "json", "text": ""}}).__dataclass_fields__)


def test_json_positions_agree_with_parsing():
    """The path at every place of random JSON is that of the value which a parser finds there."""
    rng = random.Random(5)

    def value(depth):
        kind = rng.randrange(6 if depth else 4)
        if kind == 4:
            return [value(depth - 1) for _ in range(rng.randrange(3))]
        if kind == 5:
            return {rng.choice('ab"\\/~é') * rng.randrange(3): value(depth - 1) for _ in range(rng.randrange(3))}
        return rng.choice([1, -2.5, True, None, "x", 'y"\\', "é"])

    for _ in range(200):
        whole = value(4)
        text = json.dumps(whole, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2]))
        ranges = find_ranges(text)

        def check(part, pointer, path, ranges=ranges, text=text):
            start, end = ranges[pointer]
            assert json.loads(text[start:end]) == part
            assert read_position(text[: start + 1]).path == path
            if isinstance(part, dict):
                for key, inner in part.items():
                    check(inner, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}", (*path, key))
            elif isinstance(part, list):
                for index, inner in enumerate(part):
                    check(inner, f"{pointer}/{index}", (*path, index))

        check(whole, "", ())


def test_offsets_count_code_points(inspector):
    text = '"😀é'
    trace = ask(inspector, "json_schema", '{"type": "string", "maxLength": 1}', text, views=["trace"])["trace"]
    assert trace["refusal"]["position"] == 2
    assert trace["spans"][-1][:2] == [2, 3]


def test_the_demo_tokenizer_spells_as_the_library_does():
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer.from_file(str(demo_model_path() / "tokenizer.json"))
    tokenizer = Tokenizer("demo", demo_vocabulary(), lambda text: backend.encode(text, add_special_tokens=False).ids)
    text = '{"name": "Anna", "age": 31}'
    assert tokenizer.tokens_of(text) == backend.encode(text, add_special_tokens=False).ids
    longest = Tokenizer("demo", demo_vocabulary()).tokens_of(text)
    assert b"".join(demo_vocabulary().token_bytes(token) for token in longest).decode() == text


CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 3}, "days": {"type": "integer", "minimum": 3}},
    "required": ["city"],
    "additionalProperties": False,
}
STEPS = [
    {"type": "const_string", "value": "go "},
    {"type": "regex", "pattern": r"[0-9]+\.x"},
    {"type": "grammar", "grammar": 'root ::= a "z"\na ::= "y"+'},
    {"type": "grammar", "syntax": "lark", "grammar": 'start: "[" WORD "]"\nWORD: /[a-z]+/'},
]
TAGS = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<f="],
        "excludes": ["bad"],
        "stop_after_first": True,
        "tags": [
            {"begin": "<f=json>", "content": {"type": "json_schema", "json_schema": CITY}, "end": "</f>"},
            {"begin": "<f=steps>", "content": {"type": "sequence", "elements": STEPS}, "end": "</f>"},
            {"begin": "<f=text>", "content": {"type": "any_text", "max_chars": 2}, "end": "</f>"},
            {"begin": "<f=xml>", "content": {"type": "json_schema", "style": "qwen_xml", "json_schema": CITY}, "end": "</f>"},
        ],
    },
}
OLDER = {"type": "structural_tag", "structures": [{"begin": "<a>", "schema": CITY, "end": "</a>"}], "triggers": ["<a"]}
UP_TO_TWO = {"type": "repeat", "min": 0, "max": 2, "content": {"type": "const_string", "value": "k"}}
PAIRS = {
    "type": "tags_with_separator",
    "separator": ", ",
    "at_least_one": True,
    "tags": [
        {"begin": "<a>", "content": {"type": "json_schema", "json_schema": {"enum": [[1]]}}, "end": "</a>"},
        {
            "begin": "<b>",
            "content": {"type": "repeat", "min": 0, "max": 2, "content": {"type": "const_string", "value": "k"}},
            "end": "</b>",
        },
    ],
}
DISTINCT = {"type": "json_schema", "json_schema": {"maxProperties": 9}, "distinct_keys": True}
EITHER = {"type": "or", "elements": [{"type": "const_string", "value": "abce"}, {"type": "const_string", "value": "abde"}]}
IN_TAGS = [
    (TAGS, "so bad", "/format/excludes", '"excludes": ["bad"]'),
    (TAGS, "<f=q", "/format/tags", None),
    (TAGS, "<f=jx", "/format/tags/0/begin", '"<f=json>"'),
    (TAGS, "<f=json>[", "/format/tags/0/content/json_schema/type", '"type": "object"'),
    (TAGS, 'hi <f=json>{"city": "Oslo', "/format/tags/0/content/json_schema/properties/city/maxLength", '"maxLength": 3'),
    (TAGS, '<f=json>{"city": "Rio", "days": 1}', "/format/tags/0/content/json_schema/properties/days/minimum", '"minimum": 3'),
    (TAGS, '<f=json>{"city": "Rio"}x', "/format/tags/0/end", '"</f>"'),
    (TAGS, '<f=json>{"city": "Rio"}</x', "/format/tags/0/end", '"</f>"'),
    (TAGS, '<f=json>{"city": "Rio"}</f> ', "/format/stop_after_first", '"stop_after_first": true'),
    (TAGS, "<f=steps>s", "/format/tags/1/content/elements/0/value", '"go "'),
    (TAGS, "<f=steps>go x", "/format/tags/1/content/elements/1/pattern", "[0-9]+"),
    (TAGS, "<f=steps>go 1-", "/format/tags/1/content/elements/1/pattern", "[0-9]+"),
    (TAGS, "<f=steps>go 1.y", "/format/tags/1/content/elements/1/pattern", "x"),
    (TAGS, "<f=steps>go 1.xx", "/format/tags/1/content/elements/2/grammar", r"a ::= \"y\"+"),
    (TAGS, "<f=steps>go 1.xy-", "/format/tags/1/content/elements/2/grammar", r"root ::= a \"z\""),
    (TAGS, "<f=steps>go 1.xyz[0", "/format/tags/1/content/elements/3/grammar", "WORD: /[a-z]+/"),
    (TAGS, "<f=text>abc", "/format/tags/2/content/max_chars", '"max_chars": 2'),
    (TAGS, "<f=xml><parameter=city>\nOslo", "/format/tags/3/content/json_schema/properties/city/maxLength", '"maxLength": 3'),
    (
        TAGS,
        "<f=xml>\n<parameter=city>\nRio\n</parameter>\n<parameter=days>\nx",
        "/format/tags/3/content/json_schema/properties/days/type",
        '"type": "integer"',
    ),
    (OLDER, '<a>{"city": 3', "/structures/0/schema/properties/city/type", '"type": "string"'),
    (OLDER, '<a>{"city": "Rio"}.', "/structures/0/end", '"</a>"'),
    (OLDER, "<ab", "/structures/0/begin", '"<a>"'),
    (PAIRS, "x", "/tags", None),
    (PAIRS, "<c", "/tags", None),
    (PAIRS, "<a>[1]</a>;", "/separator", '", "'),
    (PAIRS, "<a>[1]</a>, <a>[2", "/tags/0/content/json_schema/enum", '"enum": [[1]]'),
    (PAIRS, "<b>kkk", "/tags/1/content/max", '"max": 2'),
    (DISTINCT, '{"a": 1, "a"', "/json_schema", '"json_schema": {"maxProperties": 9}'),
    (EITHER, "abx", "/elements", None),
    (EITHER, "abcx", "/elements/0/value", '"abce"'),
]


@pytest.mark.parametrize(("tag", "text", "pointer", "lit"), IN_TAGS)
def test_the_responsible_part_of_a_structural_tag(inspector, tag, text, pointer, lit):
    """The format that reads there, a bound of one, or the place inside its content; the range is that of the pointer or inside it."""
    specification = json.dumps(tag)
    refusal = ask(inspector, "structural_tag", specification, text, views=["trace"])["trace"]["refusal"]
    place = refusal["place"]
    assert (refusal["position"], place["pointer"]) == (len(text) - 1, pointer)
    start, end = place["range"]
    if lit is None:
        value = tag
        for part in pointer.split("/")[1:]:
            value = value[int(part) if isinstance(value, list) else part]
        assert json.loads(specification[start:end]) == value
    else:
        assert specification[start:end] == lit


def test_the_live_part_of_a_structural_tag(inspector):
    """Where nothing is refused: the part that reads on at the cursor, which a schema's subschema or a grammar's rule may be."""
    specification = json.dumps(TAGS)

    def live(text):
        (place,) = ask(inspector, "structural_tag", specification, text, views=["cursor"])["cursor"]["places"]
        return place["pointer"], place.get("rule")

    assert live('<f=json>{"city": "R') == ("/format/tags/0/content/json_schema/properties/city", None)
    assert live("<f=steps>go 1.xy") == ("/format/tags/1/content/elements/2/grammar", "root")
    assert live("<f=steps>go 1.xyz[a]") == ("/format/tags/1/end", None)


def test_a_structural_tag_too_large_to_be_placed(inspector):
    """The text is refused all the same, only the place is left out."""
    tag = {"type": "sequence", "elements": [{"type": "const_string", "value": "a" * 300_000}, {"type": "const_string", "value": "b"}]}
    refusal = ask(inspector, "structural_tag", json.dumps(tag), "x", views=["trace"])["trace"]["refusal"]
    assert (refusal["position"], refusal["place"]) == (0, None)


def test_the_terminal_names_the_part_of_a_structural_tag(inspector):
    answer = ask(inspector, "structural_tag", json.dumps(TAGS), "<f=steps>go 1.xyx")
    lines = trace_lines(answer, "<f=steps>go 1.xyx", colours=False)
    assert any(line.startswith("  because of /format/tags/1/content/elements/2/grammar, rule root (line 1, column ") for line in lines)
