"""Sessions of the hub's protocol, folded by hand in tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agent_common.protocol.hub import (
    EV_SESSION_OPENED,
    EV_TEXT,
    HUB_ID,
    SESSION_TYPES,
    Envelope,
    FoldedSession,
    SessionInfo,
    SessionType,
    begin,
    fold,
    roles,
    validate,
)


def info(kind: str, agents: int, **knobs: Any) -> SessionInfo:
    """A session of agents `a`, `b` and so on, whose names are `agent-a` and so on."""
    ids = "abcdefghij"[:agents]
    return SessionInfo("s1", kind, 1, "a", roles(tuple((one, f"agent-{one}") for one in ids)), 1000, knobs=knobs)


@dataclass
class Log:
    """A session that is appended to as the hub does."""

    folded: FoldedSession
    type: SessionType[Any]
    envelopes: list[Envelope] = field(default_factory=list)

    @classmethod
    def open(cls, kind: str, agents: int = 2, **knobs: Any) -> Log:
        log = cls(begin(SESSION_TYPES[kind], info(kind, agents, **knobs)), SESSION_TYPES[kind])
        log.send(HUB_ID, EV_SESSION_OPENED)
        return log

    def send(self, sender: str, event_type: str = EV_TEXT, audience: tuple[str, ...] | None = None, **data: Any) -> str:
        envelope = Envelope(
            session_id="s1", sender_id=sender, event_type=event_type, event_data=data, audience=audience
        )
        validate(self.type, self.folded, envelope)
        sequence = self.folded.sequence + 1
        stamps = {"sequence": sequence, "envelope_id": f"env_{sequence:04}", "created_at": 1000 + 10 * sequence}
        envelope = envelope.model_copy(update=stamps)
        self.envelopes.append(envelope)
        self.folded = fold(self.type, self.folded, envelope)
        return envelope.envelope_id

    @property
    def speaker(self) -> str | None:
        turn = self.type.expected_next(self.folded.state)
        return turn.agent_id if turn else None
