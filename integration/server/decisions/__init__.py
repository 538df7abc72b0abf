"""Typed questions with few answers: `/v1/decisions`, OpenAI's, and `/v1/systemone`, as Ollama's client has it.

- requests: request bodies, read into questions with the texts of their answers
- answers: the probability of each answer, and the response bodies
"""

from .answers import Court, decisions_body, system_one_body
from .requests import DecisionsRequest, SystemOneRequest

__all__ = ["Court", "DecisionsRequest", "SystemOneRequest", "decisions_body", "system_one_body"]
