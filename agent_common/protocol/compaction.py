"""Compaction of long conversations: the policy, and the reply to a request for it."""

from __future__ import annotations

from pydantic import Field

from .base import Inbound, Peer


class SmartRecovery(Inbound):
    """Fallbacks for a conversation that is too long even for the agent that summarizes it, tried in this order."""

    prune_tool_outputs: bool = True
    """Shorten old tool results."""
    chunked_summarize: bool = True
    """Summarize the conversation piece by piece."""
    drop_middle: bool = True
    """Summarize only the beginning and the end."""


class CompactionPolicy(Inbound):
    """When and how conversations are compacted (docs/reference/compaction.md#settings)."""

    reserve_tokens: int | None = Field(default=None, ge=256, le=1_000_000)
    """Tokens of the window that stay free for an answer; unset 20000, never more than a quarter of the window."""
    tail_turns: int = Field(default=2, ge=1, le=100)
    """Newest turns that are kept unchanged, as far as `tail_budget_pct` allows."""
    tail_budget_pct: int = Field(default=25, ge=1, le=75)
    """Percent of the usable window, without prompt and tools, that those turns may take."""
    retry_on_transient: int = Field(default=2, ge=0, le=10)
    """Further attempts at a summary after a transient failure of the model."""
    smart_recovery: SmartRecovery = Field(default_factory=SmartRecovery)
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """The model that summarizes; unset the cheapest with a known price and a sufficient window, else the session's."""


class CompactReply(Peer):
    """The result of a compaction."""

    session_id: str
    message_id: str
    """The message that marks the compaction."""
    summary: str
    summary_tokens: int
    tokens_before: int
    """Estimated, like `tokens_after`."""
    tokens_after: int
