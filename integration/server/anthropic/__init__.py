"""Anthropic's Messages API: `/v1/messages` and `/v1/messages/count_tokens`.

- requests: request bodies, read into chat requests
- answers: messages, the events of a stream and errors
"""

from .answers import Message, count_tokens, error_body
from .requests import CountTokensRequest, MessagesRequest, chat_request

__all__ = ["CountTokensRequest", "Message", "MessagesRequest", "chat_request", "count_tokens", "error_body"]
