"""OpenAI's Responses API: chat completions on one side, input and output items on the other."""

from .provider import ResponsesProvider

__all__ = ["ResponsesProvider"]
