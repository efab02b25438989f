"""Answers of `GET /hub/...`."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic_core import from_json  # noqa: TID251  our own rows

from agent_common.protocol.hub import CancelReason, Envelope, Passport, Resume, SessionInfo, TaskMetadata

from ..store import AuditRow, DeadLetterRow


class _Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class HubAgent(_Answer):
    """An agent that is registered on the hub."""

    agent_id: str
    passport: Passport
    resume: Resume
    card: dict[str, Any]
    """Its card, as A2A has them."""
    connected: bool
    """Whether it has a link now."""


class HubAgents(_Answer):
    """Answer to `GET /hub/agents`."""

    agents: list[HubAgent]
    """By name."""
    next: str | None
    """Pass it as `after` for the next page; null: there are no more."""


class HubParticipant(_Answer):
    """An agent in a session."""

    agent_id: str
    name: str
    role: str


class HubSession(_Answer):
    """A session without what was said in it."""

    session_id: str
    type: str
    state: str
    """`pending`, `active`, `closed` or `expired`."""
    participants: list[HubParticipant]
    """In the order of turns; the creator is first."""
    created_at: int
    """Epoch milliseconds."""
    closed_at: int | None
    """Epoch milliseconds; null: it is not over."""
    close_reason: str | None
    """Why it is over."""
    labels: dict[str, str]

    @classmethod
    def of(cls, info: SessionInfo) -> Self:
        return cls(
            session_id=info.session_id,
            type=info.type,
            state=info.state,
            participants=[
                HubParticipant(agent_id=one.agent_id, name=one.name, role=one.role) for one in info.participants
            ],
            created_at=info.created_at,
            closed_at=info.closed_at,
            close_reason=info.close_reason,
            labels=info.labels,
        )


class HubSessions(_Answer):
    """Answer to `GET /hub/sessions`."""

    sessions: list[HubSession]
    """In the order of their ids."""
    next: str | None
    """Pass it as `after` for the next page; null: there are no more."""


class HubLog(_Answer):
    """Answer to `GET /hub/sessions/{session_id}/log`."""

    envelopes: list[Envelope]
    """In the order of the log, whoever they are for."""
    next: int | None
    """Pass it as `after` for the next page; null: this is the end of the log."""


class HubDeadLetter(_Answer):
    """An envelope that an agent has refused too often."""

    id: int
    session_id: str
    agent_id: str
    """Who has refused it."""
    agent: str | None
    """Its name; null: it is not registered any more."""
    sequence: int
    envelope_id: str
    reason: str
    """Why, as it has said the last time."""
    attempts: int
    at: int
    """Epoch milliseconds."""

    @classmethod
    def of(cls, number: int, row: DeadLetterRow, agent: str | None) -> Self:
        return cls(id=number, agent=agent, **row._asdict())


class HubDeadLetters(_Answer):
    """Answer to `GET /hub/dead-letters`."""

    dead_letters: list[HubDeadLetter]
    """Oldest first."""
    next: int | None
    """Pass it as `after` for the next page; null: there are no more."""


class HubAuditEntry(_Answer):
    """Something that happened on the hub."""

    id: int
    at: int
    """Epoch milliseconds."""
    kind: str
    """For example `agent_registered`, `session_closed`, `expectation_violated`, `turn_failed`."""
    agent_id: str | None
    """Whose it is; what happens to a session is its creator's."""
    session_id: str | None
    detail: dict[str, JsonValue]
    """What else is known of it, such as a `reason`."""

    @classmethod
    def of(cls, number: int, row: AuditRow) -> Self:
        return cls(id=number, **{**row._asdict(), "detail": from_json(row.detail)})


class HubAuditPage(_Answer):
    """Answer to `GET /hub/audit`."""

    entries: list[HubAuditEntry]
    """Oldest first."""
    next: int | None
    """Pass it as `after` for the next page; null: there are no more yet."""


class HubTasks(_Answer):
    """Answer to `GET /hub/tasks`."""

    tasks: list[TaskMetadata]
    """In the order of their ids."""
    next: str | None
    """Pass it as `after` for the next page; null: there are no more."""


class CancelBody(BaseModel):
    """Body of `POST /hub/tasks/{task_id}/cancel`; may be left out."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    reason: CancelReason = "cancelled by an operator"
    """Why, for the participants of its session."""
