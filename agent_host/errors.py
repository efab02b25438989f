"""Errors of the host's requests. `agent_host.http.problems` maps them to HTTP.

RequestError
├── InvalidRequest  422
│   └── InvalidCall 400  a field of a model call is wrong
├── Unauthorized    401  no token, or a wrong one
├── Forbidden       403  the token is not enough
├── NotFound        404
├── Conflict        409
├── TooMany         429  the caller has too many at a time
├── Unavailable     503  the host cannot do it at the moment
└── ProviderFailed  501, 502, 504  the model's provider failed
"""

from __future__ import annotations

from agent_common.errors import (
    LONGEST_FIELD,
    AgentRuntimeError,
    Conflict,
    InvalidRequest,
    ModelError,
    NotFound,
    RequestError,
    StartError,
    cut,
    describe,
)

__all__ = [
    "AgentRuntimeError",
    "Conflict",
    "Forbidden",
    "InvalidCall",
    "InvalidRequest",
    "ModelError",
    "NotFound",
    "ProviderFailed",
    "RequestError",
    "StartError",
    "TooMany",
    "Unauthorized",
    "Unavailable",
    "cut",
    "describe",
]


class InvalidCall(InvalidRequest):
    """The model call has a field that is wrong."""

    status = 400

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        """`param`: the field, as OpenAI's errors name it."""
        super().__init__(message, code=code)
        self.extra = {"param": None if param is None else cut(param, LONGEST_FIELD)}


class Unauthorized(RequestError):
    """This needs a bearer token of the mesh: the operator's, or one made by `agent-host token ID`."""

    status = 401
    code = "unauthorized"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, headers={"www-authenticate": 'Bearer realm="mesh"'})


class Forbidden(RequestError):
    """This needs the operator's token; an agent's is not enough."""

    status = 403
    code = "forbidden"


class TooMany(RequestError):
    """You have your share of this host; wait for something of yours to end."""

    status = 429
    code = "too_many"

    def __init__(self, message: str | None = None, *, code: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message, code=code, headers={"retry-after": "1", **(headers or {})})


class Unavailable(RequestError):
    """The host cannot do this at the moment; try again later."""

    status = 503
    code = "unavailable"


class ProviderFailed(RequestError):
    """The model's provider failed. The code says whether another attempt may succeed.

    `provider_auth` (the host's key was refused) lasts until an operator acts, `provider_unreadable` as long as the
    provider compresses its answers; `provider_unreachable`, `provider_dropped` and `provider_error` may pass. After a
    `provider_timeout` a fallback is asked; the agent does not ask again, as the provider still works on the call.
    """

    status = 502
    code = "provider_error"

    def __init__(self, message: str, *, code: str = "provider_error") -> None:
        super().__init__(message, code=code)
        self.status = _PROVIDER_STATUSES.get(code, 502)


_PROVIDER_STATUSES = {"provider_timeout": 504, "provider_unreadable": 501}
