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

HUB_ID = "hub"
"""The sender of what the hub itself says. No agent may have this name."""
HUB_EVENTS = frozenset(
    {EV_SESSION_INVITE, EV_SESSION_OPENED, EV_SESSION_CLOSED, EV_SESSION_EXPIRED, EV_EXPECTATION_VIOLATED}
)
"""Event types that only the hub may send."""
INVITE_ANSWERS = frozenset({EV_SESSION_INVITE_ACK, EV_SESSION_INVITE_REJECT})
"""Event types by which an invited agent answers; they are logged, and delivered to nobody."""
TURN_EVENTS = frozenset({EV_TEXT, EV_HANDOFF, EV_FINISH})
"""Event types that are turns, where a session type has turns."""
_PROTOCOL = ("ag2.session.", "ag2.task.")


def is_protocol_event(event_type: str) -> bool:
    """Whether the type is about a session or task itself. All else is what agents say, and counts in inboxes."""
    return event_type.startswith(_PROTOCOL)
