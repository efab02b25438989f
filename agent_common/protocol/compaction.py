"""How long conversations are made to fit: the policy, and the answer to somebody who asks for it."""

from __future__ import annotations

from pydantic import Field

from .base import Inbound, Peer


class SmartRecovery(Inbound):
    """What is tried when a conversation is too long even for the agent that sums it up, in this order."""

    prune_tool_outputs: bool = True
    """Old results of tools are told in short."""
    chunked_summarize: bool = True
    """It is summed up piece by piece."""
    drop_middle: bool = True
    """Only its beginning and its end are summed up."""


class CompactionPolicy(Inbound):
    """When and how conversations are compacted (docs/reference/compaction.md#settings)."""

    reserve_tokens: int | None = Field(default=None, ge=256, le=1_000_000)
    """Tokens of the window that stay free for an answer; unset 20000, never more than a quarter of the window."""
    tail_turns: int = Field(default=2, ge=1, le=100)
    """Turns that are kept word for word, as far as the budget goes."""
    tail_budget_pct: int = Field(default=25, ge=1, le=75)
    """Percent that they may take of what prompt and tools leave of the usable window."""
    retry_on_transient: int = Field(default=2, ge=0, le=10)
    """Further attempts of a summary after a passing failure of the model."""
    smart_recovery: SmartRecovery = Field(default_factory=SmartRecovery)
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Who sums up; unset the cheapest model whose price and window are known and fit, else the session's own."""


class CompactReply(Peer):
    """What a compaction did."""

    session_id: str
    message_id: str
    """The marker."""
    summary: str
    summary_tokens: int
    tokens_before: int
    """An estimate, as the next one."""
    tokens_after: int
