"""The open questions and approvals of a turn, as lists and events show them."""

from __future__ import annotations

from agent_common.protocol import ListedRequest

from .pending_requests import PendingRequest
from .turn_state import Turn


def listed_requests(turn: Turn, answer_seconds: float) -> list[ListedRequest]:
    """Return the open requests of a turn that waits, each with all that a person needs to answer it.

    `answer_seconds`: how long a turn waits for its answers.
    """
    since = turn.human_wait.since_ms or 0
    expires_at = min(since + round(answer_seconds * 1000), ListedRequest.LATEST)
    return [_listed(turn, request, since, expires_at) for request in turn.human_wait.requests.values()]


def _listed(turn: Turn, request: PendingRequest, since: int, expires_at: int) -> ListedRequest:
    return ListedRequest(
        session_id=turn.request.session_name,
        message_id=turn.request.message_name,
        user=turn.session.principal,
        sender=turn.request.sender,
        agent=turn.request.agent,
        kind=request.kind,
        id=request.id,
        code=request.code,
        tool_call_id=request.call_id,
        tool=request.tool,
        input=request.input,
        reason=request.reason or None,
        always=list(request.rules) if request.kind == "approval" else [],
        since=since,
        expires_at=expires_at,
    )
