"""Typed questions with few answers: `/v1/decisions`, OpenAI's, and `/v1/systemone`, as Ollama's client has it.

- requests: what comes, as questions with the texts of their answers
- answers: how probable each answer is, and the bodies that say so
"""

from .answers import Court, decisions_body, system_one_body
from .requests import DecisionsRequest, SystemOneRequest

__all__ = ["Court", "DecisionsRequest", "SystemOneRequest", "decisions_body", "system_one_body"]
