"""Errors of calls to services. An answer of the service itself is none, whatever its status."""

from __future__ import annotations

from ..errors import Forbidden, NotFound, RequestError


class UnknownService(NotFound):
    """There is no such service for this agent."""

    code = "unknown_service"


class MethodNotAllowed(RequestError):
    """The service may not be called with this method."""

    status = 405
    code = "method_not_allowed"


class PathNotAllowed(Forbidden):
    """The service may not be asked for this path."""

    code = "path_not_allowed"


class InvalidTarget(RequestError):
    """The path or the query is written in a way that the host does not pass on."""

    status = 400
    code = "invalid_path"


class ServiceFailed(RequestError):
    """The service did not answer, or its answer is not passed on.

    `service_unreachable` and `service_timeout` (504): no answer, or a broken one; `service_auth`: no token;
    `address_not_allowed`: its name leads to an address that is not public; `redirect_refused`: it redirects to another
    host; `answer_encoded`, `answer_too_large`: an answer that cannot be searched for the secret, or too long a one.
    """

    status = 502
    code = "service_unreachable"

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message, code=code)
        self.status = 504 if code == "service_timeout" else 502
