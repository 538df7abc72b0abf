"""An object of a pydantic model out of a language model: python examples/pydantic_model.py."""

from pydantic import BaseModel, Field

import stackmask
from stackmask.integration.demo import load_model


class Person(BaseModel):
    """Someone and where they live."""

    name: str = Field(min_length=3, max_length=40)
    age: int = Field(ge=18, le=99)
    city: str


model, tokenizer = load_model()  # or any model and tokenizer of transformers
answer = stackmask.generate(model, tokenizer, "Write a person as JSON with name, age, city.", json_schema=Person)
print(answer.text)
print(repr(answer.parsed))
