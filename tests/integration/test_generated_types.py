"""Objects of many Python types: whatever is generated parses into its type, and no key is lost. The script tries more of each."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

import stackmask

pytest.importorskip("pydantic")
pytest.importorskip("torch")
pytest.importorskip("transformers")

PATH = Path(__file__).parents[2] / "scripts" / "types_generated.py"


@pytest.fixture(scope="module")
def script():
    """scripts/types_generated.py as a module."""
    found = importlib.util.spec_from_file_location("types_generated", PATH)
    module = importlib.util.module_from_spec(found)
    sys.modules["types_generated"] = module  # where pydantic looks for the parts of generic models
    found.loader.exec_module(module)
    yield module
    del sys.modules["types_generated"]


@pytest.fixture(scope="module")
def generator(model):
    return stackmask.Generator(*model)


@pytest.mark.filterwarnings("ignore:/format. unknown format 'binary'")  # pydantic's of bytes
def test_types(script, generator):
    """One object of each type; there are 60 types and more."""
    assert len(script.TYPES) >= 60
    assert {name: problem for name in script.TYPES if (problem := script.check(generator, name, 3, max_tokens=120))} == {}


def compiled(generator, schema):
    """The matcher of a type."""
    return generator.compile(json_schema=schema).matcher()


@pytest.mark.parametrize(
    ("schema", "takes", "refuses"),
    [
        (dict[int, int], ['{"-3": 1, "0": 2}', "{}"], ['{"a"', '{"01"', '{"-0"', '{"+1"', '{"1.0"', '{"1": 1, "1"']),
        (dict[bool, int], ['{"true": 1, "false": 2}'], ['{"True"', '{"1"']),
        (dict[str, int], ['{"a": 1, "b": 2}'], ['{"a": 1, "a"']),
        (Any, ['{"a": [{"a": 1, "b": {"a": 2}}]}', "[{}, {}]"], ['{"a": 1, "a"', '[{"b": [{"c": 1, "c"']),
        (dict, ['{"a": {"a": 1}}'], ['{"a": 1, "a"', '{"b": {"a": 1, "a"']),
        (list, ['[{"a": 1}, {"a": 1}]'], ['[{"a": 1, "a"']),
        (dict[str, dict[str, int]], ['{"a": {"a": 1}, "b": {"a": 1}}'], ['{"a": {"b": 1, "b"']),
    ],
)
def test_keys(generator, schema, takes, refuses):
    """Keys are what Python reads as its keys, in one spelling, and none comes twice."""
    for text in takes:
        matcher = compiled(generator, schema)
        assert matcher.accept_bytes(text.encode()) and matcher.is_completed(), text
    for text in refuses:
        assert not compiled(generator, schema).accept_bytes(text.encode()), text


def test_bounded_types(generator, script):
    """Bounds of keys, the digits of a decimal, and the size of a duration."""
    from datetime import timedelta
    from decimal import Decimal
    from typing import Annotated

    from pydantic import Field

    for schema, takes, refuses in (
        (dict[Annotated[int, Field(ge=1, lt=3)], int], ['{"1": 0, "2": 0}'], ['{"0"', '{"3"']),
        (dict[Annotated[int, Field(ge=0)], int], ['{"7": 0}'], ['{"-1"']),
        (Annotated[Decimal, Field(decimal_places=2)], ["1.25", "-3"], ["1.255", '"1"']),
        (Annotated[Decimal, Field(max_digits=4, decimal_places=1)], ["999.9", "-12"], ["1000", "1.25"]),
        (Annotated[Decimal, Field(ge=0, multiple_of=Decimal("0.5"))], ["1.5"], ["-1", "1.25"]),
        (Decimal, ["1e5", "0.125"], ['"']),
        (timedelta, ['"P3D"', '"PT36H"'], ['"P1000000D']),
    ):
        for text in takes:
            matcher = compiled(generator, schema)
            assert matcher.accept_bytes(text.encode()) and matcher.is_completed(), (schema, text)
        for text in refuses:
            assert not compiled(generator, schema).accept_bytes(text.encode()), (schema, text)


def test_schemas_stay_as_they_are_written(generator):
    """What is a schema already may have a key twice, as before: only of a type it is known what reads it."""
    matcher = compiled(generator, {"type": "object", "additionalProperties": {"type": "integer"}})
    assert matcher.accept_bytes(b'{"a": 1, "a": 2}')
