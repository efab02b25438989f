"""Refuse messages that cannot fit into the model's window, before anything is written or sent."""

from __future__ import annotations

from dataclasses import dataclass

from ...context import View, serialize_tools, too_long
from ...errors import TooLarge
from ...ports import ToolCatalog
from ..core.authority import AuthorityResolver
from ..core.model_windows import ModelWindows
from ..core.turn_state import Turn

SKIP_FACTOR = 8
"""A message with fewer characters than the window's tokens divided by this is not counted."""


@dataclass(frozen=True, slots=True)
class MessageSizeCheck:
    """Checks messages before they are admitted, at every entry point."""

    windows: ModelWindows
    tool_catalog: ToolCatalog
    authority_resolver: AuthorityResolver

    async def require(self, turn: Turn) -> None:
        """Raise TooLarge for a message that would not fit even into an empty conversation. If the window is unknown, or
        prompt and tools alone do not fit, the message passes and the provider decides."""
        window = self.windows.window(turn.model)
        limit = window.limit
        agent_prompt = turn.session.prompts.get(turn.request.agent)
        if agent_prompt is None or not window.known or _size(turn) * SKIP_FACTOR <= limit:
            return
        view = View(agent_prompt.prompt, turn.request.agent)
        view.add_user(turn.request.parts, turn.request.agent, (), turn.message_id)
        authority = self.authority_resolver.resolve(turn)
        tools = serialize_tools(self.tool_catalog.snapshot(agent_prompt.tools, authority).specs)
        sizes = await too_long(self.windows.calibrations.for_model(turn.model), view.messages, tools, limit)
        if sizes is None:
            return
        tokens, available = sizes
        raise TooLarge(
            f"the message has {tokens} tokens and model {turn.model} takes {limit}, of which prompt and tools leave "
            f"{available}: send less, put it into a file of the workspace, or choose a larger model",
            code="message_too_long",
            message_tokens=tokens,
            window_tokens=limit,
        )


def _size(turn: Turn) -> int:
    """Return about how many characters the message has. It may hold half a character, which no JSON can."""
    return sum(len(part["text"] if part["type"] == "text" else str(part)) for part in turn.request.parts)
