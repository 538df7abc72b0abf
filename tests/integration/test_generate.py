"""`generate` and its forms: every answer matches its constraint, batch and async agree with one at a time."""

import asyncio
import dataclasses
import enum
import json
import re
from typing import Literal, Optional

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from stackmask.integration.compiler import Compiler  # noqa: E402
from stackmask.integration.demo import load_model  # noqa: E402
from stackmask.integration.generate import Generator, encode_prompt, generate, generate_async, generate_batch  # noqa: E402
from stackmask.integration.tokenizers import Vocabulary  # noqa: E402
from stackmask.pda.exceptions import RegexError, SchemaError, VocabularyError  # noqa: E402

pydantic = pytest.importorskip("pydantic")


class Person(pydantic.BaseModel):
    """A type with bounds."""

    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(min_length=2, max_length=30)
    age: int = pydantic.Field(ge=0, le=120)


@dataclasses.dataclass
class Point:
    """A type that is no pydantic model."""

    x: int
    y: int


@pytest.fixture(scope="module")
def model():
    """The demo model; one thread is the fastest for one so small, and leaves the other cores alone."""
    torch.set_num_threads(1)
    return load_model()


@pytest.fixture(scope="module")
def generator(model):
    return Generator(*model)


def test_parsed_is_an_object_of_the_type(model, generator):
    """A pydantic model gives an object of it."""
    answer = generate(*model, "Write a person as JSON with name, age.", json_schema=Person, compiler=generator.compiler)
    assert isinstance(answer.parsed, Person)
    assert answer.parsed == Person.model_validate_json(answer.text)
    assert answer.finish_reason == "stop" and answer.complete


def test_parsed_of_dataclass_mapping_and_json(generator):
    """A dataclass gives an instance, a schema and any JSON give plain values, and other constraints their text."""
    assert isinstance(generator.generate("Write a point as JSON.", json_schema=Point).parsed, Point)
    assert generator.generate("Yes?", json_schema={"const": 7}).parsed == 7
    answer = generator.generate("Write a person as JSON.", json=True)
    assert answer.parsed == json.loads(answer.text)
    assert generator.generate("Yes?", regex="a{3}b").parsed == "aaab"
    assert generator.generate("Yes?", choice=["no"]).parsed == "no"
    grammars = {"json_schema": {"const": 7}, "regex": "7"}
    for (kind, specification), value in zip(grammars.items(), (7, "7"), strict=True):
        grammar = generator.compile(**{kind: specification})
        assert generator.generate("Yes?", grammar=grammar).parsed == value


@pytest.mark.parametrize(
    ("constraint", "pattern"),
    [
        ({"regex": r"[A-Z]{3}-\d{2,4}"}, r"[A-Z]{3}-[0-9]{2,4}"),
        ({"ebnf": 'root ::= "(" root ")" | [0-9]'}, r"\(*[0-9]\)*"),
        ({"choice": ["yes", "no"]}, "yes|no"),
        ({"lark": 'start: "x" DIGIT+\nDIGIT: /[0-9]/'}, "x[0-9]+"),
    ],
)
def test_every_kind_of_constraint(generator, constraint, pattern):
    """Text of each kind matches, at several seeds."""
    for seed in range(3):
        answer = generator.generate("Write a text.", temperature=1.0, seed=seed, max_tokens=200, **constraint)
        assert re.fullmatch(pattern, answer.text) or not answer.complete


def test_the_pieces_join_to_the_text(generator):
    """What a listener hears is the text, also where a character takes several tokens."""
    pieces = []
    answer = generator.generate("Write.", regex="(日本|é|🙂){3}", on_text=pieces.append)
    assert "".join(pieces) == answer.text
    assert len(answer.token_ids) > len(pieces) == len(answer.text)


def test_a_seed_gives_the_same_text(generator):
    """Same seed, same text; another seed, another text; without a seed, chance."""
    texts = [generator.generate("Write a person as JSON.", json_schema=Person, temperature=1.5, seed=seed).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    generator.generate("Give me a color.", temperature=1.0, max_tokens=3)


def test_batch_equals_one_at_a_time(generator):
    """Left padding and rows that end early change nothing in a greedy answer."""
    prompts = ["Write a person as JSON.", 'Repeat this JSON:\n{"name": "Zoe", "age": 4}', "Hi"]
    batch = generator.generate_batch(prompts, json_schema=Person)
    alone = [generator.generate(prompt, json_schema=Person) for prompt in prompts]
    assert [answer.text for answer in batch] == [answer.text for answer in alone]
    assert len({len(answer.token_ids) for answer in batch}) > 1
    assert generator.generate_batch([], json=True) == []


def test_module_level_batch_and_async(model, generator):
    """The forms without a Generator."""
    compiler = generator.compiler
    (answer,) = generate_batch(*model, ["Yes?"], choice=["a"], compiler=compiler)
    assert answer.text == "a"
    assert asyncio.run(generate_async(*model, "Yes?", choice=["b"], compiler=compiler)).text == "b"


def test_cancelling_stops_the_thread(generator):
    """A cancelled task does not go on generating in its thread."""

    async def cancelled():
        task = asyncio.create_task(generator.generate_async("Go", regex="a{1800}", max_tokens=1900, temperature=1.0, seed=0))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())  # waits for the threads of its executor


def test_length(generator):
    """Cut inside the structure: not complete and not parsed. Cut where the text may end: complete."""
    answer = generator.generate("Write a person as JSON.", json_schema=Person, max_tokens=3)
    assert (answer.finish_reason, answer.complete, answer.parsed) == ("length", False, None)
    assert len(answer.token_ids) == 3
    answer = generator.generate("Number?", regex="[0-9]+", max_tokens=1)
    assert (answer.finish_reason, answer.complete) == ("length", True)
    free = generator.generate("Write a story.", max_tokens=2)
    assert (free.finish_reason, free.complete, len(free.token_ids)) == ("length", True, 2)


def test_the_context_is_a_limit(generator):
    """A prompt as long as the context is refused; a nearly full one leaves what is left."""
    ids = encode_prompt(generator.tokenizer, "a")
    context = generator.context
    with pytest.raises(ValueError, match="fills the model's context"):
        generator.generate(ids + [ids[-1]] * context, regex="a")
    answer = generator.generate([ids[0]] * (context - 2), regex="a{90}", max_tokens=100)
    assert len(answer.token_ids) == 2 and answer.finish_reason == "length"


def test_without_constraint(generator):
    """No constraint: the model's own text up to its own stop token."""
    answer = generator.generate("Give me a color.", max_tokens=20)
    assert answer.finish_reason == "stop" and answer.text.isalpha() and answer.parsed is None


def test_prompts(generator):
    """A text is the user's turn; messages and ids are taken as they are; without a chat template a text is a text."""
    ids = encode_prompt(generator.tokenizer, "Hi")
    assert ids == encode_prompt(generator.tokenizer, [{"role": "user", "content": "Hi"}])
    assert ids == encode_prompt(generator.tokenizer, ids)
    assert generator.tokenizer.decode(ids) == "<|begin|><|user|>Hi<|end|><|assistant|>"

    class Plain:
        def __call__(self, text):
            return {"input_ids": [1, 2]}

    assert encode_prompt(Plain(), "Hi") == [1, 2]
    with pytest.raises(ValueError, match="no tokens"):
        encode_prompt(Plain(), [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"json": True, "regex": "a"}, "json and regex"),
        ({"whitespace": "compact"}, "whitespace: options without a constraint"),
        ({"regex": "a", "max_tokens": 0}, "max_tokens"),
        ({"regex": "a", "temperature": -1.0}, "temperature"),
        ({"regex": "a", "temperature": float("nan")}, "temperature"),
        ({"regex": "a", "temperature": "hot"}, "temperature is 'hot', which is not a number"),
        ({"regex": "a", "seed": "x"}, "seed is 'x', which is not a whole number"),
        ({"regex": "a", "stop": 7}, "stop must be a text or several texts, not 7"),
        ({"regex": "a", "repetition_penalty": 0.0}, "repetition_penalty"),
        ({"regex": "a", "n": 0}, "n is 0"),
        ({"regex": "a", "stop": [7]}, "stop must be a text or several"),
        ({"regex": "a", "stop": ""}, "stop text is empty"),
        ({"regex": "a", "whitespace": "compact"}, "whitespace is an option of json_schema and json, not of regex"),
        ({"json": True, "root": "r"}, "root is an option of ebnf, not of json"),
        ({"json": True, "whitespace": "compcat"}, "'compact', .* or a regex that matches nothing but blanks.*'compcat'"),
        ({"json": True, "whitespace": r"\s*"}, "nothing but blanks"),
        ({"json_schema": {}, "property_order": "anny"}, "'schema' or 'any'"),
        ({"json_schema": Person, "max_tokens": 3, "finish_within_budget": True}, "cannot hold even the shortest answer"),
    ],
)
def test_wrong_arguments(generator, arguments, message):
    """Two constraints, options without one, and numbers out of range."""
    with pytest.raises(ValueError, match=message):
        generator.generate("Hi", **arguments)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (None, "a prompt must be a text, the messages of a chat or token ids, not NoneType"),
        (7, "token ids, not int"),
        (["Hi", "Ho"], "token ids; several prompts are for generate_batch"),
        ([1.5], "the messages of a chat or token ids$"),
    ],
)
def test_wrong_prompts(generator, prompt, message):
    """What is no prompt is said to be none, and a list of texts leads to the function that takes several."""
    with pytest.raises(ValueError, match=message):
        generator.generate(prompt, regex="a")


def test_arguments_that_are_no_model_and_no_tokenizer(generator):
    """The two exchanged, or a name where the model is expected."""
    for model, tokenizer in ((generator.tokenizer, generator.model), ("gpt2", generator.tokenizer)):
        with pytest.raises(TypeError, match=f"a model and a tokenizer of transformers, in this order, not {type(model).__name__} and"):
            generate(model, tokenizer, "Hi", regex="a")


def test_a_wrong_specification_is_an_error_before_the_model_runs(generator):
    """The front end's error comes through."""
    with pytest.raises(RegexError):
        generator.generate("Hi", regex="(")


def test_options_reach_the_compiler(generator):
    """Options of JSON Schema are those of the compiler."""
    answer = generator.generate("Write a person as indented JSON.", json_schema=Person, whitespace="compact")
    assert answer.text == json.dumps(json.loads(answer.text), separators=(",", ":"), ensure_ascii=False)


def test_a_vocabulary_that_cannot_go_on(model):
    """A text that the tokens cannot spell is an error that says so, not a random token."""
    vocabulary = Vocabulary.from_bytes([b"a", b"b", None], stop_token_ids=[2], size=1280)
    generator = Generator(*model, compiler=Compiler(vocabulary))
    with pytest.raises(VocabularyError, match="no token can follow 'ab'"):
        generator.generate([5, 6], regex="abc")


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("max_new_tokens", "max_tokens"),
        ("schema", "json_schema"),
        ("response_format", "json_schema"),
        ("n_predict", "max_tokens"),
        ("temprature", "temperature"),
        ("topk", "top_k"),
        ("repeat_penalty", "repetition_penalty"),
        ("json_shema", "json_schema"),
        ("compilers", "compiler"),
    ],
)
def test_a_wrong_option_names_the_right_one(model, generator, name, right):
    """Names of other libraries and names that are misspelt, in every form, before anything else is looked at."""
    for call in (
        lambda: generate(*model, "Hi", compiler=generator.compiler, **{name: 1}),
        lambda: generate_batch(*model, ["Hi"], compiler=generator.compiler, **{name: 1}),
        lambda: asyncio.run(generate_async(*model, "Hi", compiler=generator.compiler, **{name: 1})),
    ):
        with pytest.raises(TypeError, match=f"'{name}' is not an option; did you mean {right}"):
            call()
    with pytest.raises(TypeError, match="'xyzzy' is not an option; available: choice, "):
        generator.generate("Hi", xyzzy=1)
    with pytest.raises(TypeError, match="did you mean regex"):
        generator.compile(pattern="a")
    with pytest.raises(ValueError, match="temperature is an option of generate, not of regex"):
        generator.compile(regex="a", temperature=1.0)


def test_several_answers(generator):
    """`n` answers have the seeds from `seed` on, prompt by prompt."""
    options = {"regex": "[a-z]{8}", "temperature": 2.0}
    batch = generator.generate_batch(["Hi", "Go"], n=3, seed=5, **options)
    texts = [answer.text for first in batch for answer in (first, *first.others)]
    assert texts == [generator.generate(["Hi", "Go"][row // 3], seed=5 + row, **options).text for row in range(6)]
    assert len(set(texts)) > 4 and [len(first.others) for first in batch] == [2, 2]


def test_sampling_options_reach_the_engine(generator):
    """Each changes the answer as it says."""
    options = {"regex": "[a-d]{12}", "temperature": 5.0, "seed": 3}
    greedy = generator.generate("Hi", regex="[a-d]{12}").text
    for narrow in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}):
        assert generator.generate("Hi", **options, **narrow).text == greedy
    assert generator.generate("Hi", **options).text != greedy
    ids = {text: token for token, text in enumerate(generator.compiler.vocabulary.tokens) if text in (b"a", b"b", b"c", b"d")}
    biased = generator.generate("Hi", regex="[a-d]", logit_bias={ids[b"c"]: 100.0})
    assert biased.text == "c"
    for penalty in ({"presence_penalty": 2.0}, {"frequency_penalty": 2.0}, {"repetition_penalty": 1e6}):
        letters = generator.generate("Hi", regex="([a-d] ){4}", **penalty, logit_bias={ids[b"c"]: 1.0}).text
        assert letters != generator.generate("Hi", regex="([a-d] ){4}", logit_bias={ids[b"c"]: 1.0}).text, penalty


def test_stop_texts(generator):
    """A stop text ends the answer; the answer is complete only where the constraint is satisfied without it."""
    answer = generator.generate("Hi", regex="abc;def", stop=";")
    assert (answer.text, answer.finish_reason, answer.complete) == ("abc", "stop", False)
    answer = generator.generate("Hi", regex="(abc)?;?", stop=[";", "x"], logit_bias={}, max_tokens=30)
    assert answer.text == "abc" * answer.text.count("abc") and answer.complete
    cut = generator.generate("Write a person as JSON.", json_schema=Person, stop="}")
    assert not cut.complete and cut.parsed is None and "}" not in cut.text


def test_answers_that_close_within_their_budget(generator):
    """Near its end the budget leaves only tokens after which the answer can be completed."""
    options = {"regex": r"\([a-z]{1,200}\)", "temperature": 1.0, "seed": 1, "max_tokens": 12}
    cut, closed = generator.generate("Hi", **options), generator.generate("Hi", **options, finish_within_budget=True)
    assert not cut.complete and not cut.closed and cut.finish_reason == "length"
    assert closed.complete and closed.text.endswith(")") and len(closed.token_ids) <= 12


def test_captures(generator):
    """What the grammar captures is in the answer."""
    grammar = 'start: "<" word ">"\nword[capture]: /[a-z]{3}/'
    answer = generator.generate("Hi", lark=grammar)
    assert answer.captures == [("word", answer.text[1:-1])]
    assert generator.generate("Hi", max_tokens=1).captures == []


class Colour(enum.Enum):
    """A type of three values."""

    RED = "red"
    GREEN = "green"
    BLUE = 3


def book(city: Literal["Rome", "Oslo"], nights: int = 1, *, guests: set[Literal["Ann", "Bob"]]) -> None:
    """A function that is never called."""
    raise AssertionError("called")


@pytest.mark.parametrize(
    ("schema", "right"),
    [
        (Literal["a", 3], lambda value: value in ("a", 3)),
        (Optional[Literal["x"]], lambda value: value in ("x", None)),  # noqa: UP045 - as users write it
        (Colour | Literal["no"], lambda value: value == "no" or isinstance(value, Colour)),
        (Colour, lambda value: isinstance(value, Colour)),
        (set[Colour], lambda value: isinstance(value, set) and all(isinstance(item, Colour) for item in value)),
        (pydantic.TypeAdapter(tuple[Colour, Colour]), lambda value: len(value) == 2 and {*map(type, value)} == {Colour}),
        (
            book,
            lambda value: (
                {*value} - {"nights"} == {"city", "guests"}
                and value["city"] in ("Rome", "Oslo")
                and isinstance(value["guests"], set)
                and isinstance(value.get("nights", 1), int)
            ),
        ),
    ],
    ids=["literal", "optional", "union", "enum", "set", "adapter", "function"],
)
def test_python_types(generator, schema, right):
    """Whatever pydantic makes a schema of is a schema, and `parsed` is a value of the type; of functions it is the arguments."""
    for seed in range(3):
        answer = generator.generate("Hi", json_schema=schema, temperature=1.0, seed=seed, max_tokens=300, finish_within_budget=True)
        assert right(answer.parsed), answer.text


def test_a_function_without_names(generator):
    """Parameters that a call cannot name are refused, as is what pydantic makes no schema of."""

    def positional(a, /):
        pass

    def star(*rest):
        pass

    for schema, message in (
        (positional, "'a' of positional has no name"),
        (star, "'rest' of star"),
        (object(), "cannot make a JSON Schema"),
        ([], "list"),
    ):
        with pytest.raises(SchemaError, match=message):
            generator.generate("Hi", json_schema=schema)
