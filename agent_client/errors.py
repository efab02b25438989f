"""What a call of the client can raise.

    ClientError
    ├── ConnectionFailed        no answer, or a broken one; also a ConnectionError
    ├── DeadlineExceeded        the call took longer than it may; also a TimeoutError
    ├── UnexpectedReply         the answer is not of this API: another server, or another version
    ├── ApiError                the server refused: `code`, `status`, `field`, `retry_after`
    │   ├── InvalidRequest      400, 413, 422
    │   ├── Unauthorized        401
    │   ├── Forbidden           403
    │   ├── NotFound            404
    │   ├── Conflict            409
    │   │   ├── SessionBusy     session_busy
    │   │   ├── NotWaiting      not_waiting: answered already, or over
    │   │   ├── NotRunning      not_running
    │   │   └── Quarantined     quarantined
    │   ├── PreconditionFailed  412
    │   ├── TooManyRequests     429
    │   └── ServerFailed        5xx
    │       ├── ModelFailed     model_...
    │       └── Unavailable     503, and agent_unreachable
    ├── TaskFailed              a task ended without a complete answer: `result`
    │   └── InvalidResult       invalid_result: its answer does not fit the model that was asked for
    ├── TurnFailed              a chat turn ended without an answer: `reply` (in `chat`)
    └── MapFailed               some of many tasks failed: `results`

The docstring of a class is its default message.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_common.protocol import FieldFault, Problem, TaskResult


class ClientError(Exception):
    """The call failed."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConnectionFailed(ClientError, ConnectionError):
    """The server cannot be reached, or the connection broke."""


class DeadlineExceeded(ClientError, TimeoutError):
    """The call took too long."""


class UnexpectedReply(ClientError):
    """The answer is not what this API says."""


class ApiError(ClientError):
    """The server refused the request."""

    def __init__(self, problem: Problem, retry_after: float | None = None) -> None:
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem = problem
        self.retry_after = retry_after
        """Seconds to wait before another attempt, if the server says."""

    @property
    def code(self) -> str:
        """Why, as a stable word."""
        return self.problem.code

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def faults(self) -> Sequence[FieldFault]:
        """Everything that is wrong with the request's fields."""
        return self.problem.errors or ()

    @property
    def field(self) -> str | None:
        """The first field that is wrong."""
        return self.faults[0].field if self.faults else None


class InvalidRequest(ApiError):
    """The request has a field that is wrong."""


class Unauthorized(ApiError):
    """The token is missing or wrong."""


class Forbidden(ApiError):
    """The token does not allow this."""


class NotFound(ApiError):
    """There is no such thing."""


class Conflict(ApiError):
    """The request contradicts what is already there."""


class SessionBusy(Conflict):
    """A turn runs in the session."""


class NotWaiting(Conflict):
    """The question or approval is not open any more."""


class NotRunning(Conflict):
    """The agent does not run."""


class Quarantined(Conflict):
    """The agent is in quarantine."""


class PreconditionFailed(ApiError):
    """The file has changed meanwhile."""


class TooManyRequests(ApiError):
    """The server has too much to do."""


class ServerFailed(ApiError):
    """The server failed."""


class ModelFailed(ServerFailed):
    """The agent's model failed."""


class Unavailable(ServerFailed):
    """The server is not ready, or the agent behind it does not answer."""


class TaskFailed(ClientError):
    """A task ended without a complete answer."""

    def __init__(self, result: TaskResult, message: str | None = None) -> None:
        super().__init__(message or f"task {result.task_id} is {result.status}: {result.error or result.error_code}")
        self.result = result
        """What there is: a partial answer, the limit, the usage."""

    @property
    def code(self) -> str | None:
        """Why, as a stable word."""
        return self.result.error_code

    @property
    def retry_after(self) -> float | None:
        """Seconds that the model's provider asks to wait."""
        return self.result.retry_after


class InvalidResult(TaskFailed):
    """A task's answer does not fit the model that was asked for, also after its agent was told what is wrong."""

    def __init__(self, result: TaskResult, faults: str | None = None) -> None:
        super().__init__(result, f"the answer of task {result.task_id} does not fit: {faults or result.error}")

    @property
    def code(self) -> str:
        """Why, as a stable word."""
        return "invalid_result"


class MapFailed(ClientError):
    """Some of the tasks failed."""

    def __init__(self, results: Sequence[object]) -> None:
        failed = [one for one in results if isinstance(one, ClientError)]
        super().__init__(f"{len(failed)} of {len(results)} tasks failed, the first with: {failed[0]}")
        self.results = results
        """A result or a ClientError for each input, in the order of the inputs."""


_BY_CODE: dict[str, type[ApiError]] = {
    "agent_unreachable": Unavailable,
    "not_running": NotRunning,
    "not_waiting": NotWaiting,
    "quarantined": Quarantined,
    "session_busy": SessionBusy,
}
_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    413: InvalidRequest,
    422: InvalidRequest,
    429: TooManyRequests,
    503: Unavailable,
}


def api_error(problem: Problem, retry_after: float | None) -> ApiError:
    """Return the error for a problem: by its code, else by its status."""
    kind = _BY_CODE.get(problem.code)
    if kind is None and problem.code.startswith("model_") and problem.status >= 500:
        kind = ModelFailed
    if kind is None:
        kind = _BY_STATUS.get(problem.status, ServerFailed if problem.status >= 500 else ApiError)
    return kind(problem, retry_after)
