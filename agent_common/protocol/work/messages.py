"""The base shapes of the strict dialect, field by field (docs/protocols/mediation.md#21-shapes).

Peers refuse unknown fields, so no field may ever be added here. New data goes into control frames.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ..base import Inbound
from .timestamps import Stamp

PrincipalKind = Literal["user", "agent", "service"]
ContentKind = Literal["text", "json", "structured"]
ResultStatus = Literal["completed", "failed", "denied", "yielded"]
SignalName = Literal["ready", "accepting", "completed", "mediation_broken", "constraints_outdated", "quarantined"]

RETRYABLE = frozenset({"constraints_outdated", "draining", "overloaded"})
"""Codes of refusals that are not stored, so that the same id may be sent again
(docs/protocols/mediation.md#27-reconnects-and-ids)."""
MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""
Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Version = Annotated[int, Field(ge=0, le=MAX_INTEGER)]


class Principal(Inbound):
    """The person, agent or service that asks. Only a host sets `verified`, after its own check of the caller."""

    name: Id
    """Name of the principal; sessions and memory are stored under it."""
    kind: PrincipalKind
    """Whether the principal is a person, an agent or a service."""
    verified: bool
    """Whether the host has checked the principal's identity."""
    verified_by: str | None = Field(default=None, max_length=500)
    """How the identity was checked."""
    authorization_scope: tuple[Annotated[str, StringConstraints(max_length=500)], ...] = Field(
        default=(), strict=False, max_length=256
    )
    """Capabilities to which the work is limited; empty means all that the agent has."""


class WorkBounds(Inbound):
    """The most that the work may use. A bound that is left out does not limit it."""

    max_duration_seconds: int | None = Field(default=None, ge=1, le=MAX_INTEGER)
    """Seconds from the start of the work."""
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_INTEGER)
    """Tokens of all model calls together."""
    max_tool_calls: int | None = Field(default=None, ge=0, le=MAX_INTEGER)
    """Number of tool calls."""
    max_egress_bytes: int | None = Field(default=None, ge=0, le=MAX_INTEGER)
    """Bytes that the work's tools send to other machines. Model calls and the channel do not count."""


_UNBOUNDED = WorkBounds()
ASKED_BY = "asked-by:"
"""What the `audit_ref` of work begins with that an agent has given; its name follows."""


class WorkRequest(Inbound):
    """Work for an agent. The same id with the same content is the same work."""

    request_id: Id
    """Id of the work, which ends with exactly one recorded result."""
    principal: Principal
    content: str
    """The task: text, or JSON in a string if `content_kind` says so. Data, never an instruction to the runtime."""
    content_kind: ContentKind = "text"
    """`text` is a chat turn; `json` and `structured` are a TaskAssignment, or the input of one."""
    constraints_version: Version
    """The constraints that the agent must have acknowledged."""
    submitted_at: Stamp
    """When the work was submitted."""
    audit_ref: str = Field(max_length=500)
    """Links the records of both ends. The result has the same value."""
    bounds: WorkBounds | None = None
    """Limits for the work; null means none."""

    @property
    def is_asked_by_agent(self) -> bool:
        """Whether another agent has written the content, for itself or for the person it works for."""
        return self.principal.kind == "agent" or self.audit_ref.startswith(ASKED_BY)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the fields that identify the work (docs/protocols/mediation.md#27-reconnects-and-ids).
        A retry with another audit_ref and time is the same work. Empty bounds count as no bounds."""
        same = {"principal", "content", "content_kind", "constraints_version"}
        if self.bounds is not None and self.bounds != _UNBOUNDED:
            same.add("bounds")
        canonical = self.model_dump_json(include=same, exclude_none=True)
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


class WorkResult(Inbound):
    """The outcome of the work; one for each request."""

    request_id: Id
    """Id of the request."""
    status: ResultStatus
    """`yielded`: stopped at a bound or a break, with a partial answer. `denied`: never started."""
    content: str | None = None
    """The answer."""
    error: str | None = None
    """A stable code, a colon and an explanation; null if the work was completed."""
    completed_at: Stamp
    """When the work ended."""
    audit_ref: str = Field(max_length=500)
    """The `audit_ref` of the request."""


class LifecycleSignal(Inbound):
    """An agent's report on its own state, or on a request."""

    signal: SignalName
    agent_id: Id
    """The reporting agent."""
    observed_at: Stamp
    request_id: Id | None = None
    """The request that the signal is about; null if it is about the agent."""
    detail: str | None = Field(default=None, max_length=4000)
    """Text for people. That of `ready` also contains the offer of extensions."""
    error: str | None = Field(default=None, max_length=4000)
    """The error, if there is one."""


class Constraints(Inbound):
    """Rules for the agent, by version and hash. The payload is read from `payload_ref`, or pushed before this frame."""

    version: Version
    hash: str = Field(max_length=200)
    """`sha256:` and the hex digest of the payload's raw bytes."""
    effective_at: Stamp
    payload_ref: str = Field(min_length=1, max_length=4000)
    """Where the payload is: a path in the guest, or `inline` if it is pushed on the channel."""


class ConstraintAck(Inbound):
    """The agent has put this version of the constraints in force."""

    version: Version
    hash: str = Field(max_length=200)
    """Hash of the payload, as computed by the agent."""
    agent_id: Id
    observed_at: Stamp


class IdentityRevision(Inbound):
    """An agent's identity has changed; nothing sends it by default."""

    agent_id: Id
    version: Version
    hash: str = Field(max_length=200)
    mutated_at: Stamp
    mutation_ref: str = Field(max_length=4000)


def payload_hash(payload: bytes) -> str:
    """Return the hash of the payload's raw bytes. It is not re-serialized, because JSON serializers differ."""
    return f"sha256:{hashlib.sha256(payload).hexdigest()}"
