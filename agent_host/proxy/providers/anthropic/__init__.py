"""Claude by Anthropic's own API: OpenAI's request and answer on one side, the Messages API on the other."""

from .provider import AnthropicProvider

__all__ = ["AnthropicProvider"]
