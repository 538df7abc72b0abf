"""What is said of a refused text: the sentences of the corpus, places in the text, and the nearest text that fits."""

import json
import re
import warnings

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from support.corpus import cases

from stackmask import Compiler, GrammarError, UnsatisfiableError, Vocabulary
from stackmask.integration.cli import main
from stackmask.schema.dialect.pointers import without

CASES = {case["name"]: case for case in cases("refusals.toml")}
ERRORS = {case["name"]: case for case in cases("specification_errors.toml")}
KINDS = {"schema": "json_schema", "regex": "regex", "ebnf": "ebnf", "lark": "lark", "structural_tag": "structural_tag"}
SCHEMAS = {name: case for name, case in CASES.items() if "schema" in case}
KEYWORDS = """
    type enum const minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format items prefixItems
    minItems maxItems uniqueItems contains minContains maxContains unevaluatedItems properties additionalProperties patternProperties
    propertyNames minProperties maxProperties required dependentRequired dependentSchemas unevaluatedProperties allOf anyOf oneOf not
    then else $defs"""


@pytest.fixture(scope="module")
def compiler():
    return Compiler(Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], stop_token_ids=[256], size=257))


def compiled(compiler, case):
    """The grammar of a case."""
    kind = next(kind for kind in ("schema", "ebnf", "lark", "choice") if kind in case)
    value = json.loads(case["schema"]) if kind == "schema" else case[kind]
    return getattr(compiler, "json_schema" if kind == "schema" else kind)(value, **case.get("options", {}))


def test_the_corpus_is_whole():
    """It has 120 refusals, every keyword of 2020-12 that constrains, and five grammars."""
    assert len(CASES) >= 120 and len(CASES) == len(cases("refusals.toml"))
    said = " ".join(sentence for case in SCHEMAS.values() for sentence in case["says"])
    keywords = KEYWORDS.split()
    assert [keyword for keyword in keywords if f"/{keyword}" not in said] == []
    assert len({case.get("ebnf", case.get("lark")) for case in CASES.values()} - {None}) >= 5


@pytest.mark.parametrize("name", CASES)
def test_sentences(compiler, name):
    """The sentences are those of the corpus, and the nearest text fits."""
    case = CASES[name]
    grammar, text = compiled(compiler, case), case["text"].encode()
    found = grammar.matcher().explain(text)
    assert found.accepted == case.get("ends", False)
    lines = grammar.matcher().missing(text) if found.accepted else (*found.reasons, *found.places)
    assert [line for said in lines for line in said.splitlines()[:2]] == case["says"]
    if not found.accepted:
        matcher = grammar.matcher()
        assert found.nearest.startswith(text[: found.position])
        assert matcher.accept_bytes(found.nearest) and matcher.is_completed()
        assert str(found).splitlines()[0] == (case["says"][0] if found.reasons else str(found).splitlines()[0])
        assert str(found).endswith(f"nearest text that fits: {found.nearest.decode()}")


def specification(case):
    """The kind of a case of the errors, and its value."""
    kind = next(kind for kind in KINDS if kind in case)
    return KINDS[kind], json.loads(case[kind]) if kind in ("schema", "structural_tag") else case[kind]


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_specifications(compiler, name):
    """What no text satisfies, and what is malformed, is refused by the error of the corpus, word for word."""
    kind, value = specification(ERRORS[name])
    with pytest.raises(GrammarError) as caught:
        getattr(compiler, kind)(value)
    assert str(caught.value) == ERRORS[name]["error"].rstrip("\n")


@pytest.mark.parametrize("name", [name for name, case in ERRORS.items() if "schema" in case and case["schema"] != "false"])
def test_every_constraint_of_an_error_is_needed(compiler, name):
    """Without any one of the constraints that it names a schema has an instance."""
    kind, schema = specification(ERRORS[name])
    pointers = re.findall(r"\((/\S+)\)", ERRORS[name]["error"])
    assert pointers
    for pointer in pointers:
        getattr(compiler, kind)(without(schema, pointer))


def test_the_assertion_that_is_to_blame(compiler):
    """A pattern without texts has a caret at an assertion; where there are many, at the first."""
    with pytest.raises(UnsatisfiableError) as caught:
        compiler.regex("(?=x)" * 50 + "b")
    assert "line 1, column 1\n" in str(caught.value)
    with pytest.raises(UnsatisfiableError, match="column 6\n"):
        compiler.regex("(?=a)(?=b)c")


@pytest.mark.parametrize("name", SCHEMAS)
def test_jsonschema_names_the_same_keywords(name):
    """Every keyword that is named is one that python-jsonschema finds offended, at the same place; the others are valid instances."""
    case = SCHEMAS[name]
    schema = json.loads(case["schema"])
    try:
        value = json.loads(case["text"])
    except ValueError:
        return  # no JSON, so no instance
    if case.get("options"):
        return
    judge = validator_for(schema, default=Draft202012Validator)
    errors = list(judge(schema, format_checker=judge.FORMAT_CHECKER).iter_errors(value))
    offended = set()
    while errors:
        error = errors.pop()
        errors += error.context
        offended.add((error.validator, "".join(f"/{step}" for step in error.absolute_path)))
    named = [found[1].split("/") for sentence in case["says"] if (found := re.search(r"\((?:schema )?(\S*/\S*)\)$", sentence))]
    assert bool(offended) == bool(named)
    known = {keyword for keyword, _ in offended}
    for steps in named:
        # jsonschema knows of no keyword for a schema `false`, and of none below unevaluatedItems
        assert None in known or not known.isdisjoint(steps), (named, offended)


def test_a_matcher_that_is_not_at_the_start(compiler):
    """What was accepted before is not at hand, so the refusal is told by bytes; so it is of a token."""
    matcher = compiler.json_schema({"type": "array", "items": {"maximum": 3}}).matcher()
    assert matcher.accept_bytes(b"[1,")
    found = matcher.explain(b"9]")
    assert (found.reasons, found.nearest) == ((), None)
    assert matcher.missing(b"") == ()
    assert matcher.fork().explain(b"9]").reasons == ()
    assert compiler.json_schema({"maximum": 3}).matcher().fork().explain(b"4 ").reasons[0].startswith("the value: 4 is more than 3")


def test_without_the_nearest_text(compiler):
    """It is not looked for where the caller does not want it, and not shown where it is long or has no text."""
    assert compiler.choice(["yes"]).matcher().explain(b"x", nearest=False).nearest is None
    assert compiler.regex("a{5000}").matcher().explain(b"b").nearest is None
    named = Compiler(Vocabulary.from_bytes([b"a", b"b", None], stop_token_ids=[], special={"<x>": 2}))
    assert named.ebnf('root ::= "a" <x>').matcher().explain(b"b").nearest is None


def test_long_and_deep_texts_cost_little(compiler):
    """A text that is too long or too deep for sentences is told by its bytes."""
    grammar = compiler.json_schema({"type": "array", "items": {"type": ["array", "integer"]}})
    for text in (b"[" + b"1," * (1 << 20) + b"x", b"[" + b"null," * 30_000 + b"x", b"[" * 100_000 + b"x", b"[[" + b"1" * 5000 + b"],x"):
        found = grammar.matcher().explain(text)
        assert not found.accepted and len(str(found)) < 5000


def test_other_ways_to_a_grammar(compiler):
    """`submit` explains as well; a grammar out of bytes has no schema to speak of."""
    grammar = compiler.submit("json_schema", {"maximum": 3}).result()
    assert grammar.matcher().explain(b"4 ").reasons
    again = type(grammar).from_bytes(grammar.to_bytes(), grammar.vocabulary)
    assert again.matcher().explain(b"4 ").reasons == ()


def test_documents(compiler):
    """References into other documents are followed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grammar = compiler.json_schema({"$ref": "urn:s"}, documents={"urn:s": {"type": "null"}})
    assert grammar.matcher().explain(b"1").reasons == ("the value: 1 is an integer, not null (urn:s#/type)",)


def test_the_command_line(capsys, tmp_path):
    """`stackmask check` shows the sentence, the place and the nearest text; for grammars the rule with its line."""
    schema, instance, grammar = tmp_path / "s.json", tmp_path / "i.json", tmp_path / "g.ebnf"
    schema.write_text('{"type": "object", "properties": {"age": {"type": "integer", "maximum": 120}}}')
    instance.write_text('{"age": 200}\n')
    grammar.write_text('root ::= "[" word "]"\nword ::= [a-z]+\n')
    assert main(["check", "--quiet", "--json-schema", str(schema), str(instance)]) == 1
    out = capsys.readouterr().out
    assert "\n  `/age`: 200 is more than 120 (/properties/age/maximum)\n  line 1, column 11, byte 10\n" in out
    assert out.endswith('\n  nearest text that fits: {"age": 20}\n')
    instance.write_text("[A]")
    assert main(["check", "--quiet", "--ebnf", str(grammar), str(instance)]) == 1
    assert "\n  rule word: line 2, column 1\n    word ::= [a-z]+\n    ^\n" in capsys.readouterr().out
    instance.write_text('{"age": 2')
    assert main(["check", "--quiet", "--json-schema", str(schema), str(instance)]) == 1
    assert "\n  the text: expected , or }, not the end of the text\n" in capsys.readouterr().out
