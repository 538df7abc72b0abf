"""Ollama's interface: `/api/chat`, `/api/generate`, `/api/tags`, `/api/show`, `/api/ps` and `/api/version`.

- requests: request bodies, read into chat requests
- answers: objects, streams of JSON lines, descriptions of the model and errors
"""

from .answers import VERSION, Reply, describe_model, error_body, list_models
from .requests import GenerateRequest, OllamaChatRequest, ShowRequest

__all__ = ["VERSION", "GenerateRequest", "OllamaChatRequest", "Reply", "ShowRequest", "describe_model", "error_body", "list_models"]
