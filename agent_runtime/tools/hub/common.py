"""What the tools of the hub have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_common.protocol import RequirementSet

from ...ports import HubCaller, ToolContext

READ = RequirementSet(capabilities=["hub.read"])
WRITE = RequirementSet(capabilities=["hub.write"])
READ_AND_WRITE = RequirementSet(capabilities=["hub.read", "hub.write"])
ANSWER_SECONDS = 40.0
"""A little longer than the hub's own deadlines, whose errors say more."""
MAX_TEXT = 200_000
NAME: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": 100}


def caller_of(context: ToolContext) -> HubCaller:
    return HubCaller(context.principal, context.task_id, f"{context.message_id}:{context.call_id}")


def count_sent(context: ToolContext, *texts: str) -> None:
    """Count what a call says as sent out of the workspace."""
    if context.egress is not None:
        context.egress.count_sent(sum(len(text.encode(errors="replace")) for text in texts))
