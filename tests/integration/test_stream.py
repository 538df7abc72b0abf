"""`stream`: its pieces are the answer of `generate`, and the parts of a partial value are final."""

import asyncio
import dataclasses
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pydantic = pytest.importorskip("pydantic")

import stackmask  # noqa: E402
from stackmask.integration.answers.partial import PartialJson, PartialObject, partial_reader  # noqa: E402
from stackmask.integration.demo import load_model  # noqa: E402


class Item(pydantic.BaseModel):
    """An item with a default and an alias."""

    name: str = pydantic.Field(alias="item-name")
    count: int = 1


class Order(pydantic.BaseModel):
    """An order, nested."""

    number: int
    first: Item
    items: list[Item]
    stock: dict[str, Item] = pydantic.Field({}, max_length=3)
    note: str | None = None


@dataclasses.dataclass
class Point:
    """A dataclass."""

    x: int
    y: list[int]


class Picky(pydantic.BaseModel):
    """A model with a validator of its own."""

    plain: int
    changed: int

    @pydantic.field_validator("changed")
    @classmethod
    def double(cls, value):
        """Change the value."""
        return 2 * value


ORDER = (
    '{"number": 7, "first": {"item-name": "a\\"b", "count": 2}, "items": [{"item-name": "x"}, {"item-name": "é", "count": 30}], '
    '"stock": {"k": {"item-name": "s"}}, "note": null}'
)


def pieces_of(text, seed):
    """The text in pieces of random lengths."""
    chance, place = random.Random(seed), 0
    while place < len(text):
        end = place + chance.randint(1, 4)
        yield text[place:end]
        place = end


def is_beginning(part, whole):
    """Whether a value is what a whole one looked like while it was written: scalars are final, containers a beginning."""
    if isinstance(part, dict):
        keys = list(part)
        return (
            isinstance(whole, dict)
            and keys == list(whole)[: len(keys)]
            and all(part[key] == whole[key] for key in keys[:-1])
            and (not keys or is_beginning(part[keys[-1]], whole[keys[-1]]))
        )
    if isinstance(part, list):
        return (
            isinstance(whole, list)
            and part[:-1] == whole[: len(part[:-1])]
            and (not part or (len(part) <= len(whole) and is_beginning(part[-1], whole[len(part) - 1])))
        )
    return type(part) is type(whole) and part == whole


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.booleans(), st.integers(0, 99), st.sampled_from([None, 2]))
def test_every_partial_value_is_a_beginning(value, ascii_only, seed, indent):
    """After each piece the value is a beginning of the whole one, which it is in the end; for any cut, also inside escapes."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    reader = PartialJson()
    for piece in pieces_of(text, seed):
        reader.feed(piece)
        assert reader.value is None or is_beginning(reader.value, value)
    reader.finish()
    assert reader.value == value and type(reader.value) is type(value)


@pytest.mark.parametrize("seed", range(4))
def test_partial_models(seed):
    """Fields that are there are those of the finished object; the others are not there, defaults included."""
    whole = Order.model_validate_json(ORDER)
    reader = PartialObject(Order)
    seen = set()
    for piece in pieces_of(ORDER, seed):
        reader.feed(piece)
        part = reader.object
        if part is None:
            continue
        assert isinstance(part, Order)
        for name in part.model_fields_set:
            assert getattr(part, name) == getattr(whole, name)
        if part is not whole and "items" in part.__dict__:
            seen.add((len(part.items), frozenset(part.items[-1].__dict__) if part.items else None))
            assert all(item == right for item, right in zip(part.items[:-1], whole.items, strict=False))
    assert reader.object == whole
    assert {(1, frozenset()), (1, frozenset({"name", "count"})), (2, frozenset({"name"}))} <= seen


def test_partial_objects_of_other_types():
    """A dataclass is a dict until it ends; a field with a validator of its own comes with its model; what is refused stays out."""
    reader = PartialObject(list[Point])
    reader.feed('[{"x": 1, "y": [2, 3')
    assert reader.object == [{"x": 1, "y": [2]}]
    reader.feed("]}, ")
    assert reader.object == [Point(1, [2, 3])]
    reader = PartialObject(Picky)
    reader.feed('{"plain": 1, "changed": 2 ')
    assert reader.object.__dict__ == {"plain": 1}
    reader.feed("}")
    assert reader.object == Picky(plain=1, changed=2)
    reader = PartialObject(dict[str, Item])
    reader.feed('{"a": {"item-name": 3}, "b": {"item-name": "b"')
    assert "a" not in reader.object and reader.object["b"].name == "b"

    def book(city: str, guests: set[str]) -> None:
        raise AssertionError("called")

    read = partial_reader({"json_schema": book})
    assert read('{"city": "Rome", "guests": ["a", ', False) == {"city": "Rome"}
    assert read('"b"]}', True) == {"city": "Rome", "guests": {"a", "b"}}


def test_each_character_is_read_a_bounded_number_of_times(monkeypatch):
    """Pydantic reads a part once for each level of types around it, down to a depth."""

    class Link(pydantic.BaseModel):
        next: "Link | None" = None

    read = []
    adapter = PartialObject._adapter

    class Counting:
        def __init__(self, inner):
            self.inner = inner

        def validate_json(self, text):
            read.append(len(text))
            return self.inner.validate_json(text)

    monkeypatch.setattr(PartialObject, "_adapter", lambda self, schema: Counting(adapter(self, schema)))
    for depth in (4, 100):
        text = '{"next": ' * depth + "null" + "}" * depth
        read.clear()
        reader = PartialObject(Link)
        for piece in pieces_of(text, depth):
            reader.feed(piece)
        assert reader.object == Link.model_validate_json(text)
        assert sum(read) <= 10 * len(text)


@pytest.fixture(scope="module")
def generator():
    torch.set_num_threads(1)
    return stackmask.Generator(*load_model())


def test_the_pieces_are_the_answer(generator):
    """Text and tokens join to those of `generate`; the last piece brings the same answer."""
    options = {"json_schema": Order, "max_tokens": 300, "finish_within_budget": True, "temperature": 1.0, "seed": 4}
    whole = generator.generate("Write an order.", **options)
    stream = generator.stream("Write an order.", **options)
    assert stream.generation is None
    pieces = list(stream)
    assert "".join(piece.text for piece in pieces) == whole.text == stream.generation.text
    assert sum((piece.token_ids for piece in pieces), ()) == whole.token_ids
    assert [piece.generation for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
    assert pieces[-1].generation is stream.generation and pieces[-1].partial == whole.parsed
    assert any(isinstance(piece.partial, Order) for piece in pieces[:5])
    assert list(stream) == []


def test_forms_of_streams(generator):
    """`async for`, the module's function, JSON that is no object, text that is no JSON, several answers, and errors at once."""

    async def read():
        return [piece async for piece in generator.stream("Hi", json_schema={"const": 31}, n=2)]

    *_, last = asyncio.run(read())
    assert (last.partial, last.generation.parsed, len(last.generation.others)) == (31, 31, 1)
    pieces = list(stackmask.stream(generator.model, generator.tokenizer, "Hi", regex="[ab]{9}", compiler=generator.compiler))
    assert len(pieces) > 1 and {piece.partial for piece in pieces} == {None}
    *_, last = generator.stream("Hi", json_schema={"const": "abcdefgh"}, max_tokens=2)
    assert last.partial is None and not last.generation.complete
    with pytest.raises(TypeError, match="did you mean max_tokens"):
        generator.stream("Hi", max_new_tokens=3)
