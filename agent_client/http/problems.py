"""The client's errors for problems of the server and failures of the connection."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from math import inf

import httpx2
from pydantic import ValidationError

from agent_common.protocol import Problem

from ..errors import ApiError, ClientError, ConnectionFailed, TooManyRequests, Unavailable, UnexpectedReply, api_error


@contextmanager
def translated(url: str) -> Generator[None]:
    """Raise the client's errors in the place of those of the HTTP library."""
    try:
        yield
    except httpx2.SSEError as error:
        raise UnexpectedReply(f"{url}: {error}") from error
    except (httpx2.TransportError, httpx2.DecodingError) as error:
        raise ConnectionFailed(f"{url}: {error or type(error).__name__}") from error
    except httpx2.InvalidURL as error:
        raise UnexpectedReply(f"{url} is not a URL: {error}") from error


def refusal(response: httpx2.Response, body: bytes) -> ApiError:
    """Return the error that a response with a status of 400 or more says in its body."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
        problem = Problem(
            title=response.reason_phrase or "Error",
            status=response.status_code,
            detail=body[:2000].decode(errors="replace")[:500] or f"HTTP {response.status_code} without an explanation",
            instance=response.url.path,
            code="http_error",
        )
    return api_error(problem, _retry_after(response, problem))


def pause_before_retry(error: Exception) -> float | None:
    """Return the seconds to wait before the request is sent again; None if another attempt is of no use. 0 leaves it to
    the caller how long."""
    if isinstance(error, ConnectionFailed):
        return 0.0
    if isinstance(error, TooManyRequests | Unavailable):
        return error.retry_after or 0.0
    return None


def was_not_sent(error: ClientError) -> bool:
    """Whether the connection failed before the request was sent. Any request may then be sent again."""
    return isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)


def _retry_after(response: httpx2.Response, problem: Problem) -> float | None:
    given = (problem.model_extra or {}).get("retry_after", response.headers.get("retry-after"))
    try:
        seconds = float(given) if isinstance(given, int | float | str) else None
    except (ValueError, OverflowError):  # a date, which neither guest nor host sends
        return None
    return seconds if seconds is not None and 0 <= seconds < inf else None
