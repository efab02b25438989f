"""The recipients of an envelope, by the rules of their inboxes: who gets it, who drops it, and who refuses it."""

from __future__ import annotations

from collections.abc import Callable

from agent_common.protocol.hub import HUB_ID, AccessDeniedError, InboxFull, is_protocol_event

from ..agents import Agent, Agents
from ..delivery import Cursor, Inbox, Inboxes
from ..live_session import LiveSession, Post

_INBOX_RETRY = 1.0


class Recipients:
    """Counts envelopes in the inboxes of those who are to get them."""

    def __init__(self, agents: Agents, inboxes: Inboxes) -> None:
        self._agents = agents
        self._inboxes = inboxes
        self.on_full_elsewhere: Callable[[Agent], None] = _ignore
        """Called when an inbox seems full to which another hub delivers: this one does not see what is acknowledged."""

    def count(self, session: LiveSession, post: Post) -> list[Cursor]:
        """Count the envelope in the inboxes of its recipients. Returns those whose rule drops it. Those whose rule
        drops their oldest for it do so when it is durable: were it not stored, that would be lost.

        Raises InboxFull or AccessDeniedError, and then it is counted nowhere, and nothing is dropped for it."""
        envelope = post.envelope
        if is_protocol_event(envelope.event_type):
            return []
        sender = self._agents.find(envelope.sender_id)
        recipients = [cursor for cursor in self._inboxes.cursors(session.session_id) if cursor.is_for(envelope)]
        full: list[Cursor] = []
        for cursor in recipients:
            agent = cursor.inbox.agent
            if sender is not None and not agent.accepts(sender):
                raise AccessDeniedError(f"the rule of {agent.name} does not let {sender.name} send to it")
            most = agent.rule.inbox.max_pending if agent.is_held or agent.rule.inbox.overflow == "reject" else None
            if most is None or cursor.inbox.pending < most or envelope.sender_id == HUB_ID:
                continue
            self._inboxes.forget_expired(cursor.inbox)
            if cursor.inbox.pending >= most:
                full.append(cursor)
        for cursor in full:
            self._check_drops(cursor.inbox)
        for cursor in recipients:
            self._inboxes.count(cursor, envelope)
        post.recipients = [cursor.inbox.agent.agent_id for cursor in recipients]
        post.displaces = [cursor.inbox.agent.agent_id for cursor in full if not _drops_newest(cursor)]
        return [cursor for cursor in full if _drops_newest(cursor)]

    def _check_drops(self, inbox: Inbox) -> None:
        """Raise InboxFull, unless the rule of a full inbox has something to drop for a new envelope."""
        rule = inbox.agent.rule.inbox
        if rule.overflow == "drop_newest":
            return
        if rule.overflow == "drop_oldest" and self._inboxes.oldest(inbox) is not None:
            return
        if not inbox.agent.is_held:
            self.on_full_elsewhere(inbox.agent)
        raise InboxFull(
            f"{inbox.agent.name} has {inbox.pending} unacknowledged envelopes, and its rule allows {rule.max_pending}",
            retry_after=_INBOX_RETRY,
        )


def _drops_newest(cursor: Cursor) -> bool:
    return cursor.inbox.agent.rule.inbox.overflow == "drop_newest"


def _ignore(_agent: Agent) -> None:
    return
