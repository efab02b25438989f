"""The base shapes of the strict dialect, field by field (docs/protocols/mediation.md#21-shapes).

Peers refuse a field they do not know, so none may ever be added here: anything new goes into a control frame.
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
Bound = Literal["max_duration_seconds", "max_tokens", "max_tool_calls", "max_egress_bytes"]

RETRYABLE = frozenset({"constraints_outdated", "draining", "overloaded"})
"""Codes of refusals that are not kept: the same id may be sent again
(docs/protocols/mediation.md#27-reconnects-and-ids)."""
MAX_INTEGER = 2**53 - 1
"""The largest number that every JSON reader takes exactly."""
Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Version = Annotated[int, Field(ge=0, le=MAX_INTEGER)]


class Principal(Inbound):
    """Who asked. Only a host sets `verified`, from its own check of the caller."""

    name: Id
    """How the principal is called; sessions and memory are kept under this name."""
    kind: PrincipalKind
    """What asks: a person, an agent or a service."""
    verified: bool
    """The host has checked who it is."""
    verified_by: str | None = Field(default=None, max_length=500)
    """How it was checked."""
    authorization_scope: tuple[Annotated[str, StringConstraints(max_length=500)], ...] = Field(
        default=(), strict=False, max_length=256
    )
    """What the work may use at most; empty means whatever the agent may."""


class WorkBounds(Inbound):
    """What the work may use at most; a bound that is not given does not bound."""

    max_duration_seconds: int | None = Field(default=None, ge=1, le=MAX_INTEGER)
    """Seconds from the start of the work."""
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_INTEGER)
    """Tokens of all model calls together."""
    max_tool_calls: int | None = Field(default=None, ge=0, le=MAX_INTEGER)
    """Calls of tools."""
    max_egress_bytes: int | None = Field(default=None, ge=0, le=MAX_INTEGER)
    """Bytes that its tools send beyond the host; model calls and the channel do not count."""


_UNBOUNDED = WorkBounds()


class WorkRequest(Inbound):
    """Work for an agent. The same id with the same content is the same work."""

    request_id: Id
    """Names the work; it ends with exactly one recorded result."""
    principal: Principal
    content: str
    """What to do: words, or JSON in a string when `content_kind` says so. Data, never an instruction to the runtime."""
    content_kind: ContentKind = "text"
    """`text` is a chat turn; `json` and `structured` are a TaskAssignment, or the input of one."""
    constraints_version: Version
    """The constraints that the agent must have acknowledged."""
    submitted_at: Stamp
    """When it was handed in."""
    audit_ref: str = Field(max_length=500)
    """Joins the records of both ends; it comes back with the result."""
    bounds: WorkBounds | None = None
    """What it may use."""

    def fingerprint(self) -> str:
        """Return the SHA-256 of the fields that identify the work (docs/protocols/mediation.md#27-reconnects-and-ids).
        A retry has another audit_ref and time and is the same work. Empty bounds count as no bounds."""
        same = {"principal", "content", "content_kind", "constraints_version"}
        if self.bounds is not None and self.bounds != _UNBOUNDED:
            same.add("bounds")
        canonical = self.model_dump_json(include=same, exclude_none=True)
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


class WorkResult(Inbound):
    """How the work ended; one for each request."""

    request_id: Id
    """Of the request."""
    status: ResultStatus
    """`yielded`: it was stopped at a bound or a break, with what there was by then. `denied`: it was never begun."""
    content: str | None = None
    """The answer."""
    error: str | None = None
    """A stable code, a colon and words; none when it was completed."""
    completed_at: Stamp
    """When it ended."""
    audit_ref: str = Field(max_length=500)
    """Of the request."""


class LifecycleSignal(Inbound):
    """What an agent tells of itself."""

    signal: SignalName
    agent_id: Id
    """Who tells it."""
    observed_at: Stamp
    request_id: Id | None = None
    """What it is about; none: the agent as a whole."""
    detail: str | None = Field(default=None, max_length=4000)
    """For people; that of `ready` also carries the offer of the extensions."""
    error: str | None = Field(default=None, max_length=4000)
    """What went wrong."""


class Constraints(Inbound):
    """Rules for the agent. They are named here; the payload is fetched from `payload_ref`, or pushed."""

    version: Version
    hash: str = Field(max_length=200)
    """`sha256:` and the hex digest of the payload's raw bytes."""
    effective_at: Stamp
    payload_ref: str = Field(min_length=1, max_length=4000)
    """Where the payload is: a path in the guest, or `inline` when it is pushed on the channel."""


class ConstraintAck(Inbound):
    """The agent works under this version from now on."""

    version: Version
    hash: str = Field(max_length=200)
    """Of the payload as the agent has computed it."""
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
    """Over the bytes as they are: two JSON writers never agree, so nothing is written again for it."""
    return f"sha256:{hashlib.sha256(payload).hexdigest()}"
