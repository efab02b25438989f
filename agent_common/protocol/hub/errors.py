"""The errors of the hub, at both ends of a link. A frame carries the code, so that a caller
gets the same class over each.

    NetworkError
    ├── NotFoundError        there is no such agent, session or envelope
    ├── AccessDeniedError    it is not yours, or a rule forbids it
    ├── AuthError            the link is not authenticated
    ├── ProtocolError        it contradicts the session's type, its state or the shape of messages
    │   └── WorkflowGraphError   a workflow's graph cannot be followed
    ├── RateLimited          you send more than your rule allows; carries when to try again
    │   └── InboxFull        the recipient has as many unacknowledged envelopes as its rule allows
    └── HubUnavailable       the hub cannot store it, or the link is down; try again

The docstring of a class is its default message.
"""

from __future__ import annotations

MAX_MESSAGE = 1000
"""Most characters of a message: it may quote what a client has sent."""


class NetworkError(Exception):
    """The hub has refused this."""

    code = "error"

    def __init__(self, message: str | None = None, *, retry_after: float | None = None) -> None:
        super().__init__((message or (type(self).__doc__ or "").strip())[:MAX_MESSAGE])
        self.retry_after = retry_after
        """Seconds after which another attempt may succeed; None: it will not, or that is not known."""

    @property
    def message(self) -> str:
        return str(self)


class NotFoundError(NetworkError):
    """There is no such thing on this hub."""

    code = "not_found"


class AccessDeniedError(NetworkError):
    """You may not do this."""

    code = "access_denied"


class AuthError(NetworkError):
    """The link is not authenticated."""

    code = "auth_failed"


class ProtocolError(NetworkError):
    """The session does not allow this now."""

    code = "protocol_error"


class WorkflowGraphError(ProtocolError):
    """The graph of the workflow cannot be followed."""

    code = "workflow_graph"


class RateLimited(NetworkError):
    """You send more than your rule allows."""

    code = "rate_limited"


class InboxFull(RateLimited):
    """The recipient has as many unacknowledged envelopes as its rule allows."""

    code = "inbox_full"


class HubUnavailable(NetworkError):
    """The hub cannot be reached or cannot store this; try again."""

    code = "unavailable"


_CLASSES: tuple[type[NetworkError], ...] = (
    NotFoundError, AccessDeniedError, AuthError, ProtocolError, WorkflowGraphError, RateLimited, InboxFull,
    HubUnavailable,
)  # fmt: skip
_BY_CODE = {error.code: error for error in _CLASSES}


def error_from_code(code: str, message: str, retry_after: float | None = None) -> NetworkError:
    """The error that a frame carries. A code that this version does not know gives the root class."""
    return _BY_CODE.get(code, NetworkError)(message, retry_after=retry_after)
