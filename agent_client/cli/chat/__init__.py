"""`agent chat`: the chat in a terminal, on `agent_client.Agent` alone (docs/how-to/chat.md)."""

from .command import history_path
from .options import ChatOptions
from .run import run_chat

__all__ = ["ChatOptions", "history_path", "run_chat"]
