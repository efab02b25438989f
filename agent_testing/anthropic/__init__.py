"""Anthropic's Messages API, by a script, that refuses what Anthropic refuses."""

from .provider import FakeAnthropic
from .server import AnthropicServer
from .steps import Blocks

__all__ = ["AnthropicServer", "Blocks", "FakeAnthropic"]
