"""OpenAI's Responses API, by a script, that refuses what OpenAI refuses."""

from .provider import FakeResponses
from .server import ResponsesServer
from .steps import Items

__all__ = ["FakeResponses", "Items", "ResponsesServer"]
