"""Bodies of HTTP requests and responses."""

from __future__ import annotations

import json
import secrets
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from agent_common.protocol import Inbound
from agent_common.protocol.work import (
    ContentKind,
    Id,
    PrincipalKind,
    Severity,
    Stamp,
    Version,
    WorkBounds,
    WorkRequest,
    WorkResult,
    to_rfc3339,
)

from ...errors import InvalidRequest
from ...http import MAX_BODY
from ..ledger.states import ShownStatus
from ..ledger.work import LedgerRecord

VERIFIED_BY = "operator-token"
REQUEST_ID = r"^[^\x00-\x1f\x7f/]+$"
"""No slash, because the id becomes part of a path."""
_WEEK = 7 * 86_400
Text = Annotated[str, StringConstraints(max_length=MAX_BODY)]
"""Any text. The length limit makes pydantic decode it, so that lone surrogates are refused."""


class Given(Inbound):
    """Base of the strict bodies. The model is built at once, because FastAPI requires it."""

    model_config = ConfigDict(defer_build=False)


class GivenPrincipal(Given):
    """Who asks, according to the operator. The host vouches for it, because it has checked the operator's token."""

    name: Id = "operator"
    """Name of the principal."""
    kind: PrincipalKind = "user"
    """Kind of the principal."""
    verified: bool = True
    """False is refused: no agent takes such work."""
    verified_by: str | None = Field(default=VERIFIED_BY, max_length=500)
    """How the principal was checked."""
    authorization_scope: tuple[Annotated[str, StringConstraints(max_length=500)], ...] = Field(
        default=(), strict=False, max_length=256
    )
    """The most that the work may use."""


class GivenRequest(Given):
    """A WorkRequest whose missing fields the host fills in."""

    request_id: Id | None = Field(default=None, pattern=REQUEST_ID)
    """Names the work; the same id and content again is the same work. No slash: it becomes part of a path."""
    principal: GivenPrincipal = GivenPrincipal()
    """Who asks, or only the name; missing, it is the operator."""
    content: Text
    """The task."""
    content_kind: ContentKind = "text"
    """Kind of the content."""
    constraints_version: Version | None = None
    """The constraints that must be in force; None: those in force when the work is sent."""
    submitted_at: Stamp | None = None
    """When the work was submitted; None: now."""
    audit_ref: str | None = Field(default=None, max_length=400)
    """Joins the records of both ends."""
    bounds: WorkBounds | None = None
    """Limits of time, tokens and tool calls; None: no limits of its own."""

    @field_validator("principal", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """Accept a principal as a plain name, as the loose dialect has it."""
        return {"name": value} if isinstance(value, str) else value

    def to_work_request(self, request_id: str, now_ms: int) -> WorkRequest:
        return WorkRequest.model_validate(
            {
                "request_id": request_id,
                "principal": self.principal.model_dump(),
                "content": self.content,
                "content_kind": self.content_kind,
                "constraints_version": self.constraints_version or 0,
                "submitted_at": self.submitted_at or to_rfc3339(now_ms),
                "audit_ref": self.audit_ref if self.audit_ref is not None else f"work:{request_id}",
                "bounds": self.bounds.model_dump() if self.bounds else None,
            }
        )


class SubmitWork(Given):
    """Body of `POST /work`."""

    workspace: str = Field(min_length=1, max_length=100)
    """The workspace that does the work."""
    request: GivenRequest
    """The work."""
    expires_in: float | None = Field(default=None, gt=0, le=_WEEK, strict=False)
    """Seconds that the work may wait to be begun; None: a day."""


class CancelWork(Given):
    """Body of `POST /work/{id}/cancel`; may be left out."""

    reason: str = Field(default="cancelled", max_length=2000)
    """Why; sent to the agent."""


class DrainWorkspace(Given):
    """Body of `POST /workspaces/{id}/drain`; may be left out."""

    deadline_s: float | None = Field(default=None, ge=0, le=_WEEK, strict=False)
    """Seconds that the agent may take to end its work; None: a minute."""


class QuarantineWorkspace(Given):
    """Body of `POST /workspaces/{id}/quarantine`; may be left out."""

    reason: str = Field(default="by the operator", max_length=2000)
    """Why; for the records."""


class PushConstraints(Given):
    """Body of `POST /workspaces/{id}/constraints`."""

    version: Version
    """Larger than any version before."""
    payload: str | dict[str, Any]
    """The rules: text as it is, or an object that is written as JSON once and never again."""
    severity: Severity = "MEDIUM"
    """Decides how long the acknowledgement may take, and whether running work is stopped for it."""
    effective_at: Stamp | None = None
    """When the constraints take effect; None: now."""
    payload_ref: str = Field(default="inline", min_length=1, max_length=4000)
    """A path in the guest, for agents that take no payload on the channel."""

    def payload_bytes(self) -> bytes:
        """Return the payload as it is hashed and pushed. Raises InvalidRequest if it cannot be encoded."""
        try:
            if isinstance(self.payload, str):
                return self.payload.encode()
            return json.dumps(self.payload, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:
            message = "contains a lone surrogate"
        except (ValueError, RecursionError):
            message = "contains NaN, Infinity or too many levels: no agent accepts that as JSON"
        raise InvalidRequest(f"payload {message}", faults=[("payload", message)])


class WorkRecord(BaseModel):
    """A request as its caller sees it."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    request_id: str
    workspace: str
    status: ShownStatus
    attempts: int
    """Number of attempts at the work."""
    result: WorkResult | None = None
    """The result, once there is one."""
    error: str | None = None
    """Why there is no result: a code, a colon and an explanation."""
    submitted_at: int
    """Epoch milliseconds."""
    finished_at: int | None = None

    @classmethod
    def from_record(cls, record: LedgerRecord) -> WorkRecord:
        return cls(**{name: getattr(record, name) for name in cls.model_fields})


class WorkPage(BaseModel):
    """Answer to `GET /work`."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    work: list[WorkRecord]
    next: str | None = None
    """Pass it as `after` for the next page; null: there are no more."""


class AcceptedWork(BaseModel):
    """Answer to `POST /work`."""

    request_id: str
    status: ShownStatus


class ConstraintsView(BaseModel):
    """Answer to `POST /workspaces/{id}/constraints`."""

    version: int
    hash: str
    status: Literal["pending", "acked", "hash_mismatch", "timeout", "halted"]


def new_request_id() -> str:
    return f"work_{secrets.token_hex(12)}"
