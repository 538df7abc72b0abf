"""XGrammar's interface over stackmask: the same names and signatures, and the same answers where docs/xgrammar.md names no difference."""

import importlib
import inspect
import json
import random

import pytest

torch = pytest.importorskip("torch")

import stackmask.integration.xgrammar as xgr  # noqa: E402
from stackmask.integration.xgrammar.strict import closed  # noqa: E402
from stackmask.integration.xgrammar.testing import (  # noqa: E402
    _get_masked_tokens_from_bitmask,
    _get_matcher_from_grammar,
    _is_grammar_accept_string,
    _is_single_token_bitmask,
    bitmask_to_bool_mask,
    bool_mask_to_bitmask,
)
from stackmask.pda.exceptions import StackmaskError  # noqa: E402

VOCAB = [*(bytes([byte]) for byte in range(256)), b'{"', b'": ', b"true", b"12", b"", b"</s>"]
STOP = len(VOCAB) - 1
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}


@pytest.fixture(scope="module")
def info():
    return xgr.TokenizerInfo(VOCAB, vocab_size=288, stop_token_ids=STOP)


@pytest.fixture
def compiler(info):
    return xgr.GrammarCompiler(info)


def accepts(grammar, text):
    return _is_grammar_accept_string(grammar, text)


def allowed(matcher, size=288):
    bitmask = xgr.allocate_token_bitmask(1, size)
    matcher.fill_next_token_bitmask(bitmask)
    return set(range(size)) - set(_get_masked_tokens_from_bitmask(bitmask, size))


@pytest.mark.parametrize(
    "name", ["TokenizerInfo", "Grammar", "GrammarCompiler", "CompiledGrammar", "GrammarMatcher", "BatchGrammarMatcher", "StructuralTag"]
)
def test_signatures(name):
    """Every public method and property of XGrammar's classes is there, and takes its parameters with its defaults."""
    theirs = pytest.importorskip("xgrammar")
    ours, original = getattr(xgr, name), getattr(theirs, name)
    for member, value in inspect.getmembers(original):
        if member.startswith("_") or member in dir(object) or member not in original.__dict__ or member in _OF_PYDANTIC:
            continue
        assert hasattr(ours, member), f"{name}.{member} is missing"
        if inspect.isfunction(value):
            check_parameters(f"{name}.{member}", getattr(ours, member), value)
    if name not in ("Grammar", "CompiledGrammar", "StructuralTag"):
        check_parameters(name, ours.__init__, original.__init__)


_OF_PYDANTIC = {"model_config", "model_fields", "model_computed_fields", "model_extra", "model_fields_set"}


def check_parameters(name, ours, theirs):
    mine, wanted = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    for parameter in wanted.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        assert parameter.name in mine, f"{name} takes no {parameter.name}"
        found = mine[parameter.name]
        assert found.kind == parameter.kind, f"{name}({parameter.name})"
        assert str(found.default) == str(parameter.default), f"{name}({parameter.name})"


@pytest.mark.parametrize(
    "name",
    ["allocate_token_bitmask", "get_bitmask_shape", "reset_token_bitmask", "apply_token_bitmask_inplace", "get_serialization_version"],
)
def test_signatures_of_functions(name):
    """The functions too."""
    theirs = pytest.importorskip("xgrammar")
    check_parameters(name, getattr(xgr, name), getattr(theirs, name))


def test_same_answers():
    """Over one vocabulary, with one pattern: the same masks, jumps and ends, token by token, with rollback and forks."""
    theirs = pytest.importorskip("xgrammar")
    rng = random.Random(3)
    for pattern in ("(ab|cd)*[0-9]{2,3}x?", '\\{"k": (true|12)\\}', "a(b(cd)?)+e", "[a-f]{3}(yes|no)"):
        pair = []
        for library in (theirs, xgr):
            made = library.TokenizerInfo(VOCAB, vocab_size=288, stop_token_ids=[STOP])
            pair.append(library.GrammarMatcher(library.GrammarCompiler(made).compile_regex(pattern)))
        accepted = 0
        for _ in range(60):
            assert [matcher.is_completed() for matcher in pair] == [pair[0].is_completed()] * 2
            assert [matcher.is_terminated() for matcher in pair] == [pair[0].is_terminated()] * 2
            if pair[0].is_terminated():
                count = rng.randint(1, accepted)
                for matcher in pair:
                    matcher.rollback(count)
                accepted -= count
                continue
            assert pair[0].find_jump_forward_string() == pair[1].find_jump_forward_string()
            masks = []
            for library, matcher in zip((theirs, xgr), pair, strict=True):
                bitmask = library.allocate_token_bitmask(2, 288)
                assert matcher.fill_next_token_bitmask(bitmask, 1)
                masks.append(bitmask[1].tolist())
            assert masks[0] == masks[1]
            token = rng.choice([index for index, bit in enumerate(bitmask_to_bool_mask(torch.tensor(masks[0]), 288).tolist()) if bit])
            pair = [matcher.fork() for matcher in pair] if rng.random() < 0.2 else pair
            assert [matcher.accept_token(7) for matcher in pair] == [False, False]
            assert [matcher.accept_token(token) for matcher in pair] == [True, True]
            accepted += 1
        for matcher in pair:
            matcher.reset()
        assert [matcher.is_completed() for matcher in pair] == [False, False]


@pytest.mark.parametrize("vocab_type", ["RAW", "BYTE_FALLBACK", "BYTE_LEVEL"])
def test_vocabularies(vocab_type):
    """Pieces are decoded as XGrammar decodes them."""
    theirs = pytest.importorskip("xgrammar")
    pieces = {
        "RAW": [b"a", "é", b"\xff", "b"],
        "BYTE_FALLBACK": ["▁a", "<0x0A>", "é", "▁▁"],
        "BYTE_LEVEL": ["Ġa", "Ċ", "Ã©", "a"],
    }[vocab_type]
    made = [
        library.TokenizerInfo([*pieces, "</s>"], library.VocabType[vocab_type], vocab_size=8, stop_token_ids=[4], add_prefix_space=True)
        for library in (theirs, xgr)
    ]
    assert made[0].decoded_vocab[:4] == made[1].decoded_vocab[:4]
    assert json.loads(made[0].dump_metadata()) == json.loads(made[1].dump_metadata())
    for name in ("vocab_size", "stop_token_ids", "add_prefix_space"):
        assert getattr(made[0], name) == getattr(made[1], name)
    again = xgr.TokenizerInfo.from_vocab_and_metadata([*pieces, "</s>"], made[1].dump_metadata())
    assert again.vocabulary.fingerprint == made[1].vocabulary.fingerprint
    assert again.vocab_type is xgr.VocabType[vocab_type]


def test_tokenizer_info(info):
    """What has no text is special, and a vocabulary survives its JSON, names included."""
    assert info.special_token_ids == [STOP - 1, *range(STOP + 1, 288)]
    assert len(info.decoded_vocab) == 288
    again = xgr.TokenizerInfo.deserialize_json(info.serialize_json())
    assert again.vocabulary.fingerprint == info.vocabulary.fingerprint
    with pytest.raises(xgr.UnsupportedOptionError, match="stop_token_ids"):
        xgr.TokenizerInfo(VOCAB)
    with pytest.raises(RuntimeError, match="stop token id"):
        xgr.TokenizerInfo(VOCAB, stop_token_ids=[1 << 20])
    for bad, error in (("{", xgr.InvalidJSONError), ("[]", xgr.DeserializeFormatError), ("{}", xgr.DeserializeFormatError)):
        with pytest.raises(error):
            xgr.TokenizerInfo.deserialize_json(bad)
        with pytest.raises(error):
            xgr.TokenizerInfo.from_vocab_and_metadata(VOCAB, bad)


def test_hugging_face():
    """A tokenizer's special tokens stay special and can be named; its vocabulary survives its JSON."""
    pytest.importorskip("transformers")
    from stackmask.integration.demo import load_tokenizer

    info = xgr.TokenizerInfo.from_huggingface(load_tokenizer(), vocab_size=1344)
    assert (info.vocab_size, info.stop_token_ids) == (1344, [2])
    assert xgr.TokenizerInfo.deserialize_json(info.serialize_json()).vocabulary.fingerprint == info.vocabulary.fingerprint
    matcher = xgr.GrammarMatcher(xgr.GrammarCompiler(info).compile_lark('start: "a" <|user|>'))
    assert matcher.accept_string("a")
    assert allowed(matcher, 1344) == {info.vocabulary.special["<|user|>"]}
    pieces = [piece for piece, _ in sorted(load_tokenizer().get_vocab().items(), key=lambda pair: pair[1])]
    again = xgr.TokenizerInfo.from_vocab_and_metadata(pieces, info.dump_metadata())
    assert again.vocab_type is xgr.VocabType.BYTE_LEVEL
    assert [text for text in info.decoded_vocab if text] == [
        text for text, ours in zip(again.decoded_vocab, info.decoded_vocab, strict=True) if ours
    ]
    assert accepts(xgr.Grammar.from_lark('start: "a"'), "a")
    assert xgr.Grammar.from_lark('start: "a" <|user|>', tokenizer_info=info)
    with pytest.raises(RuntimeError):
        xgr.Grammar.from_lark('start: "a" <|user|>')


def test_grammars():
    """Every way to make a grammar, and to put grammars together."""
    digits, word = xgr.Grammar.from_regex("[0-9]+"), xgr.Grammar.from_ebnf('begin ::= "ab" begin | "c"', root_rule_name="begin")
    assert accepts(digits, "12")
    assert accepts(word, "ababc")
    assert accepts(xgr.Grammar.concat(digits, word, digits), "1abc2")
    assert not accepts(xgr.Grammar.concat(digits, word), "abc1")
    assert accepts(xgr.Grammar.union(digits, word), "c")
    assert not _is_grammar_accept_string(digits, "")
    assert _is_grammar_accept_string(word, "ab", require_termination=False)
    assert accepts(xgr.Grammar.builtin_json_grammar(), '[1, {"a": null}]')
    assert accepts(xgr.Grammar.from_json_schema(json.dumps(SCHEMA), any_order=True), '{"b": "x", "a": 1}')
    assert not accepts(xgr.Grammar.from_json_schema(SCHEMA), '{"b": "x", "a": 1}')
    assert accepts('root ::= "x"', "x")
    inside = xgr.Grammar.from_lark('start: "<" %json {"type": "integer"} ">"')
    assert accepts(inside, "<12>")
    assert not accepts(inside, "<a>")
    assert "root" in str(word) or "begin" in str(word)


def test_named_grammars(compiler):
    """Lark texts and grammars by the names that a Lark text knows them by; XGrammar takes the same texts."""
    theirs = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string as original

    text, texts = 'start: "<" @a @b ">"', ["<x12>", "<12x>", "<x>", "<xy12>", "<>", "<x12"]

    def given(module):
        return {"a": "start: /[a-z]/", "b": module.Grammar.from_ebnf("root ::= [0-9]+")}

    expected = [original(theirs.Grammar.from_lark(text, named_grammars=given(theirs)), each) for each in texts]
    assert expected == [True, False, False, False, False, False]
    grammar = xgr.Grammar.from_lark(text, named_grammars=given(xgr))
    compiled = compiler.compile_lark(text, named_grammars=given(xgr))
    assert [accepts(grammar, each) for each in texts] == expected
    found = [(at := xgr.GrammarMatcher(compiled)).accept_string(each) and at.is_completed() for each in texts]
    assert found == expected
    for wrong in ({1: "start: /a/"}, {"a": 1}):
        for module in (theirs, xgr):
            with pytest.raises(TypeError, match="named"):
                module.Grammar.from_lark(text, named_grammars=wrong)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"indent": 2},
        {"separators": (",", ":")},
        {"any_whitespace": False},
        {"any_whitespace": False, "separators": (",", ":")},
        {"any_whitespace": False, "separators": (" , ", " : ")},
    ],
)
def test_separators(compiler, options):
    """Without any whitespace, separators are fixed; with it, they and the indentation have no effect, as in XGrammar.

    Its separators do not reach into values without a schema, so those are empty here where it is asked.
    """
    theirs = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string as original

    value = {"a": [1, 2], "b": {"c": None, "d": {}}, "e": []}
    inner = {"type": "object", "properties": {"c": {"type": "null"}, "d": {"type": "object"}}, "required": ["c", "d"]}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "integer"}}, "b": inner, "e": {"type": "array"}},
        "required": ["a", "b", "e"],
    }
    texts = [json.dumps(value, separators=pair) for pair in ((", ", ": "), (",", ":"), (" , ", " : "), (", ", ":"), (",", ": "))]
    texts += [json.dumps(value, indent=2), json.dumps(value).replace("[1", "[ 1"), json.dumps(value).replace("{}", "{ }")]
    peer = theirs.Grammar.from_json_schema(json.dumps(schema), **options)
    expected = [original(peer, text) for text in texts]
    for given in (schema, {}):
        assert [accepts(xgr.Grammar.from_json_schema(given, strict_mode=False, **options), text) for text in texts] == expected
        compiled = compiler.compile_json_schema(given, strict_mode=False, **options)
        assert [(at := xgr.GrammarMatcher(compiled)).accept_string(text) and at.is_completed() for text in texts] == expected
        assert compiler.compile_json_schema(given, strict_mode=False, **options).compiled is compiled.compiled
        assert any(expected)


@pytest.mark.parametrize("separators", [(";", ":"), (",", "="), (", x", ":"), ("", ":"), (1, ":")])
def test_wrong_separators(compiler, separators):
    """What is no JSON is an error."""
    with pytest.raises(RuntimeError, match="separators must be , and : with blanks of JSON around them, not "):
        compiler.compile_json_schema(SCHEMA, any_whitespace=False, separators=separators)


def test_printing(capsys):
    """A grammar is printed where that is asked for."""
    xgr.Grammar.from_regex("ab", print_converted_ebnf=True)
    assert capsys.readouterr().out.startswith("root ::= ")


def test_serialised_grammars(info, compiler):
    """Grammars survive their JSON; damage, other versions and other vocabularies are refused."""
    grammar = xgr.Grammar.from_json_schema(SCHEMA)
    assert xgr.Grammar.deserialize_json(grammar.serialize_json()).ir == grammar.ir
    compiled = compiler.compile_json_schema(SCHEMA)
    again = xgr.CompiledGrammar.deserialize_json(compiled.serialize_json(), info)
    assert again.compiled.fingerprint == compiled.compiled.fingerprint
    assert again.memory_size_bytes > 0
    assert again.tokenizer_info is info
    assert again.grammar.ir == compiled.grammar.ir
    version = xgr.get_serialization_version()
    cases = [
        ("{", xgr.InvalidJSONError),
        ("{}", xgr.DeserializeVersionError),
        ("[]", xgr.DeserializeVersionError),
        (json.dumps({"__VERSION__": "v16"}), xgr.DeserializeVersionError),
        (json.dumps({"__VERSION__": version}), xgr.DeserializeFormatError),
        (json.dumps({"__VERSION__": version, "grammar": "!", "compiled": "!"}), xgr.DeserializeFormatError),
        (json.dumps({"__VERSION__": version, "grammar": "aGk=", "compiled": "aGk="}), xgr.DeserializeFormatError),
    ]
    for text, error in cases:
        with pytest.raises(error):
            xgr.Grammar.deserialize_json(text)
        with pytest.raises(error):
            xgr.CompiledGrammar.deserialize_json(text, info)
    other = xgr.TokenizerInfo(VOCAB, stop_token_ids=STOP)
    with pytest.raises(xgr.DeserializeFormatError, match="another vocabulary"):
        xgr.CompiledGrammar.deserialize_json(compiled.serialize_json(), other)


def test_compiler(compiler, info):
    """Every method of the compiler, its cache, and grammars that are no text."""
    texts = {
        "12": compiler.compile_regex("[0-9]+"),
        "[true]": compiler.compile_builtin_json_grammar(),
        '{"a": 1}': compiler.compile_json_schema(SCHEMA),
        "ab": compiler.compile_lark('start: "a" "b"'),
        "aab": compiler.compile_grammar('root ::= "a" root | "b"'),
        "xx": compiler.compile_grammar(xgr.Grammar.from_regex("x+")),
    }
    for text, compiled in texts.items():
        matcher = xgr.GrammarMatcher(compiled)
        assert matcher.accept_string(text)
        assert matcher.is_completed()
    assert compiler.compile_regex("[0-9]+").compiled is texts["12"].compiled
    assert compiler.get_cache_size_bytes() > 0
    compiler.clear_cache()
    assert compiler.get_cache_size_bytes() == 0
    assert compiler.cache_limit_bytes == -1
    without = xgr.GrammarCompiler(info, cache_enabled=False, max_threads=1)
    assert without.compile_regex("a").compiled is not without.compile_regex("a").compiled


def test_json_options(compiler):
    """Whitespace as far as stackmask has it, and strict mode as XGrammar has it."""
    compact = xgr.GrammarMatcher(compiler.compile_json_schema(SCHEMA, any_whitespace=False, separators=(",", ":")))
    assert not compact.accept_string('{"a": 1}')
    assert compact.accept_string('{"a":1}')
    narrow = xgr.GrammarMatcher(compiler.compile_json_schema(SCHEMA, max_whitespace_cnt=1))
    assert not narrow.accept_string('{"a":  1}')
    assert narrow.accept_string('{"a": 1}')
    assert accepts(xgr.Grammar.from_json_schema(SCHEMA, strict_mode=False), '{"a": 1, "x": 2}')
    assert not accepts(xgr.Grammar.from_json_schema(SCHEMA), '{"a": 1, "x": 2}')


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, '{"a": 1, "x": 2}'),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True}, '{"a": 1, "x": 2}'),
        ({"type": "object"}, '{"x": 2}'),
        ({"type": "array", "prefixItems": [{"type": "integer"}]}, "[1, 2]"),
        ({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}}, '[{"a": 1, "x": 2}]'),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"a": {"type": "integer"}}}}}, '{"a": 1, "x": 2}'),
        ({"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "integer"}]}, '{"x": 2}'),
    ],
)
def test_strict_mode(schema, text):
    """What a schema declares is closed where XGrammar closes it."""
    theirs = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string as original

    for strict in (True, False):
        wanted = original(theirs.Grammar.from_json_schema(schema, strict_mode=strict), text)
        assert accepts(xgr.Grammar.from_json_schema(schema, strict_mode=strict), text) == wanted


def test_strict_mode_of_parts():
    """Parts of one object are closed together, and the caller's schema stays as it is."""
    schema = {
        "allOf": [{"properties": {"a": {"type": "integer"}}}, {"if": {"required": ["a"]}, "then": {"properties": {"b": True}}}],
        "type": "object",
        "dependentSchemas": {"a": {"properties": {"c": {"prefixItems": [{"properties": {"d": {}}}, True]}}}},
        "not": {"properties": {"z": False}},
    }
    before = json.dumps(schema)
    strict = closed(schema)
    assert json.dumps(schema) == before
    assert strict["unevaluatedProperties"] is False
    inside = strict["dependentSchemas"]["a"]["properties"]["c"]
    assert inside["unevaluatedItems"] is False
    assert inside["prefixItems"][0]["unevaluatedProperties"] is False
    assert "unevaluatedProperties" not in strict["allOf"][0]
    assert closed(True) is True
    deep = {"type": "integer"}
    for _ in range(5000):
        deep = {"items": deep}
    assert closed(deep)


def test_structural_tags(compiler):
    """The newer form out of models, mappings or JSON, and the older one."""
    tags = xgr.structural_tag
    content = tags.JSONSchemaFormat(json_schema={"type": "integer"})
    tag = xgr.StructuralTag(format=tags.TagFormat(begin="<f>", content=content, end="</f>"))
    older = xgr.StructuralTagItem(begin="<f>", schema={"type": "integer"}, end="</f>")
    cases = [
        (tag,),
        (tag.model_dump(),),
        (tag.model_dump_json(),),
        (xgr.StructuralTag.from_json(tag.model_dump_json()),),
        ([older], ["<f>"]),
        ({"format": tag.model_dump()["format"]},),
        (json.dumps({"format": tag.model_dump()["format"]}),),
    ]
    for case in cases:
        matcher = xgr.GrammarMatcher(compiler.compile_structural_tag(*case))
        assert matcher.accept_string("<f>12</f>")
        assert matcher.is_completed()
        assert accepts(xgr.Grammar.from_structural_tag(*case), "<f>12</f>")
    assert not accepts(
        xgr.Grammar.from_structural_tag([xgr.StructuralTagItem(begin="<f>", schema='{"type": "null"}', end="!")], ["<f>"]), "<f>1!"
    )
    with pytest.raises(xgr.InvalidStructuralTagError):
        compiler.compile_structural_tag({"type": "structural_tag", "format": {"type": "regexp"}})
    with pytest.raises(xgr.InvalidJSONError):
        xgr.StructuralTag.from_json("{")
    for broken in (xgr.Grammar.from_structural_tag, compiler.compile_structural_tag):
        with pytest.raises(xgr.InvalidJSONError):
            broken("{")
    for broken in ("[]", {}, {"type": "structural_tag"}, {"format": {}, "x": 1}):
        with pytest.raises(xgr.InvalidStructuralTagError):
            xgr.StructuralTag.from_json(broken)
    theirs = pytest.importorskip("xgrammar")
    model = theirs.structural_tag
    original = theirs.StructuralTag(format=model.TagFormat(begin="<f>", content=model.RegexFormat(pattern="[ab]"), end="</f>"))
    assert accepts(xgr.Grammar.from_structural_tag(original), "<f>a</f>"), "XGrammar's own models are taken too"


def test_matcher(compiler, info):
    """Refused tokens change nothing, whatever they are; stop tokens can be replaced; a text may end without one."""
    compiled = compiler.compile_regex("ab?")
    matcher = xgr.GrammarMatcher(compiled)
    for token in (-1, 288, 1 << 40, STOP - 1):
        assert not matcher.accept_token(token)
    assert matcher.accept_token(97)
    assert allowed(matcher) == {98, STOP}
    assert matcher.accept_token(STOP)
    assert matcher.is_terminated()
    assert matcher.is_completed()
    assert not matcher.accept_token(STOP)
    matcher.rollback()
    assert not matcher.is_terminated()
    with pytest.raises(RuntimeError, match="roll"):
        matcher.rollback(9)
    other = xgr.GrammarMatcher(compiled, override_stop_tokens=7)
    assert (other.stop_token_ids, xgr.GrammarMatcher(compiled, override_stop_tokens=[7, 8]).stop_token_ids) == ([7], [7, 8])
    assert other.accept_string(b"ab")
    assert allowed(other) == {7}
    ends = xgr.GrammarMatcher(compiled, terminate_without_stop_token=True, default_temperature=0.5).fork()
    assert (ends.is_terminated(), ends.accept_token(97), ends.is_terminated()) == (False, True, True)
    assert (ends.temperature, ends.max_rollback_tokens) == (0.5, -1)


@pytest.mark.parametrize("pattern", ["ab?", "a*b", "(ab)+", "a|ab", "a(b|bb)"])
def test_terminate_without_stop_token(pattern):
    """A complete text ends there and still takes what the grammar lets follow; a stop token is never accepted, wherever it is tried."""
    theirs = pytest.importorskip("xgrammar")
    rng = random.Random(1)
    pair = []
    for library in (theirs, xgr):
        made = library.TokenizerInfo(VOCAB, vocab_size=288, stop_token_ids=[STOP])
        compiled = library.GrammarCompiler(made).compile_regex(pattern)
        pair.append(library.GrammarMatcher(compiled, terminate_without_stop_token=True))
    went_on = 0
    for _ in range(40):
        states = [(matcher.is_terminated(), matcher.is_completed()) for matcher in pair]
        assert states[0] == states[1]
        assert [matcher.accept_token(STOP) for matcher in pair] == [False, False]
        found = [matcher.accept_token(token := rng.choice([97, 98])) for matcher in pair[:1]] + [pair[1].accept_token(token)]
        assert found[0] == found[1]
        went_on += found[0] and states[0][0]
        if not found[0] and rng.random() < 0.3:
            for matcher in pair:
                matcher.reset()
    assert went_on or pattern == "a*b"


@pytest.mark.parametrize("temperature", [-0.1, float("inf"), float("nan")])
def test_wrong_temperatures(compiler, temperature):
    """A default temperature is finite and not negative."""
    with pytest.raises(RuntimeError, match="default_temperature"):
        xgr.GrammarMatcher(compiler.compile_regex("a"), default_temperature=temperature)
    assert xgr.GrammarMatcher(compiler.compile_regex("a"), default_temperature=0).temperature == 0.0


def test_batches(compiler):
    """Calls for a batch are the calls for each."""
    matchers = [
        xgr.GrammarMatcher(compiler.compile_regex(pattern), default_temperature=t) for pattern, t in (("ab", None), ("[b-d]x", 0.7))
    ]
    bitmask = xgr.allocate_token_bitmask(4, 288)
    xgr.BatchGrammarMatcher(max_threads=2).batch_fill_next_token_bitmask(matchers, bitmask, indices=[3, 1])
    assert _is_single_token_bitmask(bitmask, 288, 3) == (True, 97)
    assert _is_single_token_bitmask(bitmask, 288, 1) == (False, -1)
    assert _get_masked_tokens_from_bitmask(bitmask, 288, 0) == []
    assert xgr.BatchGrammarMatcher.batch_accept_token(matchers, [97, 97]) == [True, False]
    assert xgr.BatchGrammarMatcher.batch_accept_string(matchers, ["b", b"cx"]) == [True, True]
    xgr.BatchGrammarMatcher.batch_rollback(matchers, [2, 1])
    xgr.BatchGrammarMatcher.batch_rollback(matchers, 0)
    assert [allowed(matcher) for matcher in matchers] == [{97}, {98, 99, 100}]
    temperatures = torch.ones(3)
    xgr.BatchGrammarMatcher.batch_fill_temperature(matchers, temperatures)
    assert temperatures.tolist() == pytest.approx([-1.0, 0.7, 1.0])
    xgr.BatchGrammarMatcher.batch_fill_temperature(matchers, temperatures, indices=[2, 0])
    assert temperatures.tolist() == pytest.approx([0.7, 0.7, -1.0])
    for wrong, indices in ((torch.ones(1), None), (torch.ones(3), [0]), (torch.ones(3), [0, 3]), (torch.ones(3), [0, -1])):
        with pytest.raises(RuntimeError, match="do not fit"):
            xgr.BatchGrammarMatcher.batch_fill_temperature(matchers, wrong, indices)
    for wrong in (torch.ones(3, 1), torch.ones(3, dtype=torch.float64)):
        with pytest.raises(RuntimeError, match="float32"):
            xgr.BatchGrammarMatcher.batch_fill_temperature(matchers, wrong)


def test_draft_trees(compiler):
    """A row for each node of the tree: the mask after the drafts that lead to it."""
    matcher = xgr.GrammarMatcher(compiler.compile_regex("(ab|cd)*x"))
    # node 0 is here; a (1), then b (2); c (3) beside a, then x (4), which does not fit; d (5) beside x
    children, siblings = torch.tensor([1, 2, -1, 4, -1, -1]), torch.tensor([-1, 3, -1, -1, 5, -1])
    drafts = torch.tensor([0, *(ord(letter) for letter in "abcxd")])
    bitmask = xgr.allocate_token_bitmask(6, 288)
    assert matcher.traverse_draft_tree(children, siblings, drafts, bitmask)
    rows = [set(range(288)) - set(_get_masked_tokens_from_bitmask(bitmask, 288, row)) for row in range(6)]
    a, b, c, d, x = (ord(letter) for letter in "abcdx")
    assert rows == [{a, c, x}, {b}, {a, c, x}, {d}, set(), {a, c, x}]
    assert not matcher.traverse_draft_tree(children, siblings, drafts, bitmask, time_threshold=1e-12)
    assert matcher.traverse_draft_tree(children, siblings, drafts, bitmask, 100.0)
    assert matcher.traverse_draft_tree(children.numpy(), siblings.numpy(), drafts.numpy(), bitmask.numpy())


DRAFT_TREES = {
    "below a refused draft": ([1, 2, 3, -1], [-1] * 4, [0, 120, 97, 98]),
    "a refused draft": ([1, 2, 3, -1], [-1] * 4, [0, 98, 97, 98]),
    "not reached": ([1, -1, -1], [-1] * 3, [0, 97, 98]),
    "a child before its parent": ([2, -1, 1], [-1] * 3, [0, 98, 97]),
    "siblings": ([1, 2, -1, -1, 5, -1], [-1, 3, -1, 4, -1, -1], [0, 97, 98, 99, 120, 97]),
    "a stop token": ([1, 2, 3, -1], [-1] * 4, [0, 120, STOP, 97]),
    "no token": ([1, 2, -1], [-1] * 3, [0, 9999, 98]),
    "a negative token": ([1, 2, -1], [-1] * 3, [0, -4, 98]),
    "the first node's token": ([1, -1], [-1, -1], [77, 97]),
    "a child out of range": ([1, 7, -1], [-1] * 3, [0, 97, 98]),
    "a sibling out of range": ([1, -1, -1], [-1, 7, -1], [0, 97, 98]),
    "below -1": ([1, -2], [-1, -1], [0, 97]),
    "a sibling of the first": ([-1, -1], [1, -1], [0, 97]),
    "back to the first": ([1, 0], [-1, -1], [0, 97]),
    "two parents": ([1, 1, -1], [-1] * 3, [0, 97, 98]),
    "fewer children": ([1, -1], [-1] * 3, [0, 97, 98]),
    "fewer tokens": ([1, 2, -1], [-1] * 3, [0, 97]),
    "nothing": ([], [], []),
}


@pytest.mark.parametrize("case", DRAFT_TREES)
def test_draft_trees_as_xgrammar(case):
    """Rows, temperatures and the kind of the error are XGrammar's, for every tree and for what is none."""
    theirs = pytest.importorskip("xgrammar")
    found = []
    for library in (theirs, xgr):
        made = library.TokenizerInfo(VOCAB, vocab_size=288, stop_token_ids=[STOP])
        matcher = library.GrammarMatcher(library.GrammarCompiler(made).compile_regex("(ab|cd)*x"), default_temperature=0.5)
        tree = [torch.tensor(part, dtype=torch.int64) for part in DRAFT_TREES[case]]
        bitmask, temperatures = torch.full((len(tree[0]), 9), -7, dtype=torch.int32), torch.full((len(tree[0]),), 9.0)
        try:
            done = matcher.traverse_draft_tree(*tree, bitmask, -1.0, temperatures)
            found.append((done, bitmask.tolist(), temperatures.tolist()))
        except RuntimeError as error:
            found.append((type(error), bitmask.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({0: torch.tensor([1, -1], dtype=torch.int32)}, RuntimeError),
        ({1: torch.tensor([[-1, -1]])}, RuntimeError),
        ({2: torch.tensor([0.0, 97.0])}, RuntimeError),
        ({0: [1, -1]}, TypeError),
        ({3: torch.zeros((3, 9), dtype=torch.int32)}, RuntimeError),
        ({3: torch.zeros((2, 8), dtype=torch.int32)}, RuntimeError),
        ({3: torch.zeros((2, 9), dtype=torch.int64)}, RuntimeError),
        ({3: torch.zeros(9, dtype=torch.int32)}, RuntimeError),
        ({5: torch.zeros(3)}, RuntimeError),
        ({5: torch.zeros(2, dtype=torch.float64)}, RuntimeError),
    ],
)
def test_wrong_draft_trees(compiler, change, error):
    """Tensors of other shapes and dtypes are errors of the kinds that XGrammar raises."""
    arguments = [torch.tensor([1, -1]), torch.tensor([-1, -1]), torch.tensor([0, 97]), torch.zeros((2, 9), dtype=torch.int32), -1.0, None]
    matcher = xgr.GrammarMatcher(compiler.compile_regex("ab"))
    assert matcher.traverse_draft_tree(*arguments)
    for place, value in change.items():
        arguments[place] = value
    with pytest.raises(error):
        matcher.traverse_draft_tree(*arguments)


def test_bitmasks():
    """Allocation, conversion and application."""
    assert xgr.get_bitmask_shape(2, 33) == (2, 2)
    assert xgr.bitmask_dtype is torch.int32
    wanted = torch.rand(3, 70, generator=torch.Generator().manual_seed(1)) < 0.5
    bitmask = bool_mask_to_bitmask(wanted)
    assert torch.equal(bitmask_to_bool_mask(bitmask, 70), wanted)
    logits = torch.zeros(3, 70)
    xgr.apply_token_bitmask_inplace(logits, bitmask, indices=[0, 2], backend="cpu")
    assert torch.equal(logits[[0, 2]] == 0, wanted[[0, 2]])
    assert torch.equal(logits[1], torch.zeros(70))
    xgr.reset_token_bitmask(bitmask)
    assert set(bitmask.flatten().tolist()) == {-1}
    for mask in (bool_mask_to_bitmask(wanted[:1]), bool_mask_to_bitmask(wanted[0])):
        row = torch.zeros(70)
        xgr.apply_token_bitmask_inplace(row, mask, backend="torch_compile")
        assert torch.equal(row == 0, wanted[0])
    with pytest.raises(ValueError, match="shape"):
        xgr.apply_token_bitmask_inplace(torch.zeros(70), bool_mask_to_bitmask(wanted[:2]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, for the module of XGrammar's that uses torch.compile
@pytest.mark.parametrize("name", ["cpu", "torch", "torch_compile", "triton", "cuda"])
def test_kernels(name):
    """The kernels have XGrammar's names and parameters, and one result; those for a GPU refuse logits that are not there."""
    name = f"apply_token_bitmask_inplace_{name}"
    kernel = getattr(importlib.import_module(f"stackmask.integration.xgrammar.kernels.{name}"), name)
    wanted = torch.rand(3, 70, generator=torch.Generator().manual_seed(1)) < 0.5
    logits, bitmask = torch.zeros(3, 70), bool_mask_to_bitmask(wanted)
    if name.endswith(("triton", "cuda")):
        with pytest.raises(ValueError, match="logits are on cpu"):
            kernel(logits, bitmask)
        return
    kernel(logits, bitmask, None, [1])
    assert torch.equal(logits[1] == 0, wanted[1])
    assert not logits[0].any()
    pytest.importorskip("xgrammar")
    theirs = importlib.import_module(f"xgrammar.kernels.{name}")
    assert list(inspect.signature(kernel).parameters) == list(inspect.signature(getattr(theirs, name)).parameters)


def test_the_kernel_of_mlx():
    """That for MLX returns the masked logits, of as many columns as it is asked for."""
    mx = pytest.importorskip("mlx.core")
    from stackmask.integration.xgrammar.kernels.apply_token_bitmask_mlx import apply_token_bitmask_mlx

    found = apply_token_bitmask_mlx(mx.array([[0b101]], mx.int32), mx.zeros((1, 32)), 3)
    assert found.tolist() == [[0.0, float("-inf"), 0.0]]


def test_rule_options(compiler):
    """Captures and temperatures are the grammar's; a temperature that nothing asks for is the default."""
    grammar = compiler.compile_grammar('root ::= word "!"\nword[capture, temperature=0.5] ::= [a-z]+')
    matcher = xgr.GrammarMatcher(grammar, default_temperature=0.9)
    temperatures = torch.zeros(4)
    tree = [torch.tensor([1, 2, -1, -1]), torch.tensor([-1, -1, 3, -1]), torch.tensor([0, ord("a"), ord("!"), ord("A")])]
    rows = xgr.allocate_token_bitmask(4, grammar.tokenizer_info.vocab_size)
    assert matcher.traverse_draft_tree(*tree, rows, temperatures=temperatures)
    assert temperatures.tolist() == pytest.approx([0.5, 0.5, 0.9, -1.0])
    assert matcher.accept_string("ab!")
    assert matcher.get_captures() == [("word", b"ab")]
    assert matcher.temperature == 0.9


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("indent", lambda c, m: c.compile_json_schema(SCHEMA, any_whitespace=False, indent=2)),
        ("indent", lambda c, m: xgr.Grammar.from_json_schema(SCHEMA, any_whitespace=False, indent=2)),
        ("debug_print", lambda c, m: m.accept_token(97, debug_print=True)),
        ("debug_print", lambda c, m: xgr.BatchGrammarMatcher().batch_fill_next_token_bitmask([m], None, debug_print=True)),
        ("backend", lambda c, m: xgr.apply_token_bitmask_inplace(torch.zeros(1, 3), xgr.allocate_token_bitmask(1, 3), backend="triton")),
    ],
)
def test_refused_options(compiler, name, call):
    """What cannot be honoured is refused by its name."""
    with pytest.raises(xgr.UnsupportedOptionError, match=name):
        call(compiler, xgr.GrammarMatcher(compiler.compile_regex("a")))


@pytest.mark.parametrize("text", ['{"a":\r1}', '{\r\n"a": 1\r\n}', '{"a": 1\r}'])
def test_carriage_returns(compiler, text):
    """A carriage return is a blank of JSON (RFC 8259, section 2)."""
    for grammar in (compiler.compile_json_schema(SCHEMA), compiler.compile_json_schema(SCHEMA, max_whitespace_cnt=2)):
        assert xgr.GrammarMatcher(grammar).accept_string(text)
    assert accepts(xgr.Grammar.builtin_json_grammar(), text)
    assert accepts(xgr.Grammar.from_lark(f"start: %json {json.dumps(SCHEMA)}"), text)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.compile_regex("(a"),
        lambda c: c.compile_json_schema({"type": "strin"}),
        lambda c: c.compile_json_schema("{"),
        lambda c: c.compile_grammar('root ::= "a" other'),
        lambda c: c.compile_lark("start: ("),
        lambda c: xgr.Grammar.from_ebnf("root ::= ("),
        lambda c: xgr.Grammar.from_regex("(a"),
        lambda c: xgr.Grammar.from_json_schema({"type": "strin"}),
        lambda c: xgr.Grammar.from_structural_tag("{}"),
        lambda c: xgr.GrammarMatcher(c.compile_regex("a")).fill_next_token_bitmask(xgr.allocate_token_bitmask(1, 7)),
    ],
)
def test_errors(compiler, call):
    """Errors are RuntimeErrors, as engines expect; the cause says more."""
    with pytest.raises((RuntimeError, ValueError)) as caught:
        call(compiler)
    assert isinstance(caught.value.__cause__, StackmaskError) or isinstance(caught.value, ValueError)


def test_a_bytes_matcher():
    """Tests of engines make matchers without a vocabulary."""
    matcher = _get_matcher_from_grammar('root ::= "ab"', terminate_without_stop_token=True)
    assert matcher.accept_string("ab")
    assert matcher.is_terminated()


def test_exports():
    """The names are listed, sorted, and there."""
    assert sorted(xgr.__all__) == xgr.__all__
    assert all(hasattr(xgr, name) for name in xgr.__all__)
