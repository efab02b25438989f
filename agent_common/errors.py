"""The errors that guest and host share. `agent_runtime.errors` and `agent_host.errors` add their own.

    AgentRuntimeError
    ├── RequestError            the caller can correct it; carries the HTTP status
    │   ├── InvalidRequest      422  one or more fields are wrong
    │   ├── NotFound            404
    │   └── Conflict            409
    ├── ModelError              a model's call failed; the caller sees the code, the model never does
    ├── ToolFailure             the model sees the text as the tool's error
    └── StartError              the process must not start; the operator reads the text

The docstring of a class is its default message. A message is cut where the error is made: it often quotes what
somebody has sent, and goes into answers, logs and databases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

LONGEST_FIELD = 200
"""Characters of a field's name in an error."""


def cut(text: str, longest: int) -> str:
    """Return the text with at most `longest` characters: of a longer one its beginning and its end."""
    if len(text) <= longest:
        return text
    mark = f" ... ({len(text)} characters) ... "
    half = max(0, longest - len(mark)) // 2
    return f"{text[:half]}{mark}{text[len(text) - half :]}"


class AgentRuntimeError(Exception):
    """Something went wrong."""

    longest: ClassVar[int] = 20_000
    """Characters of its message."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(cut(message or (type(self).__doc__ or "").strip(), self.longest))

    @property
    def message(self) -> str:
        return str(self)


class RequestError(AgentRuntimeError):
    """The request cannot be carried out."""

    longest = 2_000
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
        self.faults = tuple((cut(field, LONGEST_FIELD), cut(fault, self.longest)) for field, fault in faults)
        """Pairs of field path and what is wrong with it."""

    @classmethod
    def from_faults(cls, faults: Sequence[tuple[str, str]]) -> Self:
        """The request has these faults."""
        return cls("; ".join(f"{field}: {message}" for field, message in faults), faults=faults)


def describe(error: BaseException) -> str:
    """Return the text of any error, cut, or the name of its class if it has none."""
    return cut(str(error) or type(error).__name__, RequestError.longest)


class NotFound(RequestError):
    """There is no such thing."""

    status = 404
    code = "not_found"


class Conflict(RequestError):
    """The request contradicts what is already there."""

    status = 409
    code = "conflict"


ToolFailureKind = Literal["invalid", "unavailable", "backend", "denied", "timeout"]


class ToolFailure(AgentRuntimeError):
    """The tool failed."""

    def __init__(self, message: str, *, kind: ToolFailureKind = "backend") -> None:
        super().__init__(message)
        self.kind: ToolFailureKind = kind
        """`invalid`: mend the arguments; `unavailable`: not here; `backend`: it broke; `denied`: not allowed;
        `timeout`: it took too long."""


ModelErrorCode = Literal[
    "model_unavailable",
    "model_rate_limited",
    "model_quota",
    "model_auth",
    "model_config",
    "unknown_model",
    "context_overflow",
    "content_refused",
    "budget_exhausted",
]
"""`model_unavailable`: an outage; `model_rate_limited`: too much at once; `model_quota`: nothing left to spend;
`content_refused`: the provider does not answer to this content; `budget_exhausted`: the mesh's budget is used up."""


class ModelError(AgentRuntimeError):
    """The model call failed."""

    def __init__(
        self,
        message: str,
        *,
        code: ModelErrorCode = "model_unavailable",
        transient: bool = False,
        retry_after: float | None = None,
        attempts: int | None = None,
        limit: str | None = None,
    ) -> None:
        super().__init__(message)
        self.limit = limit
        """Which limit of a budget is used up, such as `daily_usd`; None: unknown."""
        self.code: ModelErrorCode = code
        self.transient = transient
        """Another attempt may succeed."""
        self.retry_after = retry_after
        """Seconds the provider asks to wait."""
        self.attempts = attempts
        """How many attempts are worth making at most; None: as many as the caller makes."""
        self.loading = False
        """The model is being loaded, which takes minutes."""
        self.by_fallback = False
        """Another model has said so, which was asked in place of the wanted one."""


class StartError(AgentRuntimeError):
    """The process cannot start."""
