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
    │   └── StorageFull         507
    ├── ModelError              the model call failed; the caller sees the code, the model never does
    ├── MeshUnavailable         the host does not offer what was asked for
    │   └── MeshRefused         it, or a rule of the agent, refuses what a skill asks for
    ├── ToolFailure             the model sees the text as the tool's error
    ├── StoreError              the database refused
    │   └── BrokenRecord        what it holds cannot be read
    └── StartError              the process must not start; the operator reads the text

`agent_common.errors` defines the classes that the host uses as well. The docstring of a class is its default
message. `agent_runtime.api` maps the tree to HTTP in one place.
"""

from __future__ import annotations

from typing import Literal

from agent_common.errors import (
    AgentRuntimeError,
    Conflict,
    InvalidRequest,
    ModelError,
    ModelErrorCode,
    NotFound,
    RequestError,
    StartError,
    ToolFailure,
    ToolFailureKind,
)

__all__ = [
    "AgentRuntimeError",
    "BrokenRecord",
    "Busy",
    "Conflict",
    "InvalidRequest",
    "MeshRefused",
    "MeshUnavailable",
    "ModelError",
    "ModelErrorCode",
    "NotAllowed",
    "NotFound",
    "NotReady",
    "PreconditionFailed",
    "RequestError",
    "StartError",
    "StorageFull",
    "StoreError",
    "TooLarge",
    "ToolFailure",
    "ToolFailureKind",
]


class NotAllowed(RequestError):
    """This cannot be done from here."""

    status = 403
    code = "not_allowed"


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


class StorageFull(RequestError):
    """There is no room for it."""

    status = 507
    code = "no_room"


class MeshUnavailable(AgentRuntimeError):
    """The mesh does not offer this."""


class MeshRefused(MeshUnavailable):
    """This is refused."""

    def __init__(self, message: str | None = None, *, kind: Literal["invalid", "denied"] = "denied") -> None:
        super().__init__(message)
        self.kind = kind
        """`invalid`: mend the arguments; `denied`: the agent may not do this."""


class StoreError(AgentRuntimeError):
    """The database refused."""


class BrokenRecord(StoreError):
    """A row of the database cannot be read."""
