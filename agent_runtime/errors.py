"""Everything that can go wrong, in one tree.

    AgentRuntimeError
    ├── RequestError            the caller can mend it; carries the HTTP status
    │   ├── InvalidRequest      422  one or more fields are wrong
    │   ├── NotAllowed          403
    │   ├── NotFound            404
    │   ├── Conflict            409
    │   ├── PreconditionFailed  412  what is there is not what the caller knows
    │   ├── TooLarge            413
    │   ├── Busy                429  a queue is full
    │   ├── NotReady            503  the server is starting or shutting down
    │   └── NoRoom              507
    ├── ModelError              the model call failed; the caller sees the code, the model never does
    ├── MeshUnavailable         the host does not offer what was asked for
    ├── ToolFailure             the model sees the text as the tool's error
    ├── StoreError              the database refused
    │   └── BrokenRecord        what it holds cannot be read
    └── StartError              the process must not start; the operator reads the text

The docstring of a class is its default message. `agent_runtime.api` maps the tree to HTTP in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self


class AgentRuntimeError(Exception):
    """Something went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())

    @property
    def message(self) -> str:
        return str(self)


class RequestError(AgentRuntimeError):
    """The request cannot be carried out."""

    status = 400
    code = "bad_request"

    def __init__(
        self,
        message: str | None = None,
        *,
        code: str | None = None,
        headers: dict[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.headers = headers or {}
        self.extra = extra
        """Members that the problem+json body carries beside the usual ones."""


class InvalidRequest(RequestError):
    """The request has a field that is wrong."""

    status = 422
    code = "invalid_request"

    def __init__(
        self, message: str | None = None, *, code: str | None = None, faults: Sequence[tuple[str, str]] = ()
    ) -> None:
        super().__init__(message, code=code)
        self.faults = tuple(faults)
        """Pairs of field path and what is wrong with it."""

    @classmethod
    def of(cls, faults: Sequence[tuple[str, str]]) -> Self:
        """The request has these faults."""
        return cls("; ".join(f"{field}: {message}" for field, message in faults), faults=faults)


class NotAllowed(RequestError):
    """This cannot be done from here."""

    status = 403
    code = "not_allowed"


class NotFound(RequestError):
    """There is no such thing."""

    status = 404
    code = "not_found"


class Conflict(RequestError):
    """The request contradicts what is already there."""

    status = 409
    code = "conflict"


class PreconditionFailed(RequestError):
    """What is there is not what the request expects."""

    status = 412
    code = "precondition_failed"


class TooLarge(RequestError):
    """The content is larger than it may be."""

    status = 413
    code = "too_large"


class Busy(RequestError):
    """The queue is full; try again later."""

    status = 429
    code = "queue_full"


class NotReady(RequestError):
    """The server is starting or shutting down; try again in a moment."""

    status = 503
    code = "not_ready"


class NoRoom(RequestError):
    """There is no room for it."""

    status = 507
    code = "no_room"


ModelErrorCode = Literal[
    "model_unavailable",
    "model_rate_limited",
    "model_quota",
    "model_auth",
    "model_config",
    "unknown_model",
    "context_overflow",
]
"""`model_unavailable`: an outage; `model_rate_limited`: too much at once; `model_quota`: nothing left to spend."""


class ModelError(AgentRuntimeError):
    """The model call failed."""

    def __init__(
        self,
        message: str,
        *,
        code: ModelErrorCode = "model_unavailable",
        transient: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code: ModelErrorCode = code
        self.transient = transient
        """Another attempt may succeed."""
        self.retry_after = retry_after
        """Seconds the provider asks to wait."""


class MeshUnavailable(AgentRuntimeError):
    """The mesh does not offer this."""


ToolFailureKind = Literal["invalid", "unavailable", "backend", "denied", "timeout"]


class ToolFailure(AgentRuntimeError):
    """The tool failed."""

    def __init__(self, message: str, *, kind: ToolFailureKind = "backend") -> None:
        super().__init__(message)
        self.kind: ToolFailureKind = kind
        """`invalid`: mend the arguments; `unavailable`: not here; `backend`: it broke; `denied`: not allowed;
        `timeout`: it took too long."""


class StoreError(AgentRuntimeError):
    """The database refused."""


class BrokenRecord(StoreError):
    """A row of the database cannot be read."""


class StartError(AgentRuntimeError):
    """The process cannot start."""
