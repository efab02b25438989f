"""The event types that the hub and its session types know. Any other is logged and delivered, and moves no turn."""

from __future__ import annotations

EV_TEXT = "ag2.msg.text"
"""`{text}`, and in a workflow `{tool?, context_updates?: {set, delete}}`."""
EV_HANDOFF = "ag2.handoff"
"""`{target, reason?, tool?, text?, context_updates?}`: the sender's turn, and who is next."""
EV_FINISH = "ag2.finish"
"""`{summary?, reason?}`: the sender's turn, and the last one of a workflow."""
EV_CONTEXT_SET = "ag2.context.set"
"""`{set, delete}`: the variables of a workflow; no turn."""

EV_SESSION_INVITE = "ag2.session.invite"
"""`{type, version, creator_id, knobs, labels}`, from the hub to each one invited."""
EV_SESSION_INVITE_ACK = "ag2.session.invite.ack"
EV_SESSION_INVITE_REJECT = "ag2.session.invite.reject"
"""`{reason?}`."""
EV_SESSION_OPENED = "ag2.session.opened"
EV_SESSION_CLOSED = "ag2.session.closed"
"""`{reason}`."""
EV_SESSION_EXPIRED = "ag2.session.expired"
"""`{reason}`."""
EV_EXPECTATION_VIOLATED = "ag2.expectation.violated"
"""`{expectation, violators, action}`, from the hub."""

EV_TASK_CANCEL_REQUEST = "ag2.task.cancel_request"
"""`{task_id, reason, requested_by}`: a participant asks the owner of a task to end it."""
EV_TASK_CANCELLED = "ag2.task.cancelled"
"""`{task_id, reason}`: a task is over, by its owner or an operator."""
EV_TASK_EXPIRED = "ag2.task.expired"
"""`{task_id, reason}`: a task is over, because its time is."""

HUB_ID = "hub"
"""The sender of what the hub itself says. No agent may have this name."""
INVITE_ANSWERS = frozenset({EV_SESSION_INVITE_ACK, EV_SESSION_INVITE_REJECT})
"""Event types by which an invited agent answers; they are logged, and delivered to nobody."""
TASK_ENDINGS = frozenset({EV_TASK_CANCELLED, EV_TASK_EXPIRED})
"""Event types by which the hub says that a task is over without its owner having said so."""
TURN_EVENTS = frozenset({EV_TEXT, EV_HANDOFF, EV_FINISH})
"""Event types that are turns, where a session type has turns."""
_PROTOCOL = ("ag2.session.", "ag2.task.")


def is_protocol_event(event_type: str) -> bool:
    """Whether the type is about a session or task itself. All else is what agents say, and counts in inboxes."""
    return event_type.startswith(_PROTOCOL)


def is_hub_event(event_type: str) -> bool:
    """Whether only the hub may send the type: all that is about a session or task itself, but for answers to
    invitations. An agent's own events of these kinds would be delivered without a bound."""
    is_protocol = is_protocol_event(event_type) or event_type == EV_EXPECTATION_VIOLATED
    return is_protocol and event_type not in INVITE_ANSWERS
