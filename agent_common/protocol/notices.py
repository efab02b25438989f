"""Notices: short messages of an agent to the person of a session (docs/protocols/chat.md#events)."""

from __future__ import annotations

NOTICE_EVENT = "notice"
MAX_NOTICE = 1000
"""Characters of a notice."""
