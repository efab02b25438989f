"""Tasks: one objective each, with an answer that is checked against a model of the caller's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from typing import Any, Generic, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from typing_extensions import TypeVar

from agent_common.protocol import TaskAssignment, TaskRecord, TaskResult, TokenBudget, new_task_id

from .chat import ChatStream
from .errors import ClientError, InvalidResult, MapFailed, TaskFailed, UnexpectedReply
from .http import FIRST_POLL_SECONDS, POLL_SECONDS, Call, Connection, path, resumed, without_none

T = TypeVar("T", default=dict[str, Any])
TaskInput = str | Mapping[str, Any]
"""An objective in words, or the task's input."""
WAIT_SECONDS = 3600.0
"""How long a result is waited for unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a task may take. What is None has the server's default."""

    seconds: float = 120.0
    """Of the run, without the time in the queue."""
    tokens: int | None = None
    cost_usd: float | None = None
    retries: int = 0
    """Further attempts after a transient failure of the model."""


class Task(Generic[T]):
    """A task that the server has taken. It runs whether or not a caller waits."""

    def __init__(self, connection: Connection, task_id: str, result: type[T] | None = None) -> None:
        self.id = task_id
        self._connection = connection
        self._shape = result

    async def result(self, wait: float = WAIT_SECONDS) -> T:
        """Wait for the answer, and return it as the model that was asked for, or as an object. Raises TaskFailed,
        InvalidResult, DeadlineExceeded while the task goes on, other ClientError."""
        outcome = await self.outcome(wait)
        if outcome.error_code == "invalid_result":
            raise InvalidResult(outcome)
        if outcome.status != "complete":
            raise TaskFailed(outcome)
        if self._shape is None:
            return cast(T, outcome.result or {})
        try:
            return TypeAdapter(self._shape).validate_json(to_json(outcome.result))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            at = ".".join(map(str, first["loc"])) or "result"
            raise InvalidResult(outcome, f"{at}: {first['msg']}") from error

    async def outcome(self, wait: float = WAIT_SECONDS) -> TaskResult:
        """Wait for the end of the task, however it ends. Raises ClientError."""
        async with aclosing(resumed(self._polls, deadline=monotonic() + wait)) as polls:
            async for found in polls:
                return found
        raise AssertionError("unreachable")

    async def _polls(self) -> AsyncGenerator[TaskResult | None]:
        """Yield None for as long as the task is under way, then its result."""
        wait = FIRST_POLL_SECONDS
        while True:
            params = {"task_id": self.id, "wait": wait}
            reply = await self._connection.send(Call("GET", "/result", params=params, timeout=2 * POLL_SECONDS))
            if reply.status_code == HTTPStatus.ACCEPTED:
                wait = POLL_SECONDS
                yield None
                continue
            try:
                yield TaskResult.model_validate_json(reply.content)
            except ValidationError as error:
                raise UnexpectedReply(f"the result of task {self.id} is not one") from error

    def events(self, wait: float = WAIT_SECONDS) -> ChatStream:
        """Follow the task from its first event, also when it has ended."""
        return ChatStream(self._connection, Call("GET", path("task", self.id, "stream")), wait)

    async def record(self) -> TaskRecord:
        """Read the task as it is now."""
        return await self._connection.fetch(TaskRecord, Call("GET", path("task", self.id)))

    async def cancel(self) -> TaskRecord:
        """Cancel the task. No effect if it has ended."""
        call = Call("POST", path("task", self.id, "cancel"), repeatable=True)
        return await self._connection.fetch(TaskRecord, call)


def assignment_body(
    given: TaskInput, *, result: Any, task_id: str | None, limits: Limits, agent: str | None, context: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of `POST /task`. Raises ValueError that names the field."""
    budget = without_none(max_tokens=limits.tokens, max_cost_usd=limits.cost_usd)
    task_id = task_id or new_task_id()
    assignment = TaskAssignment(
        task_id=task_id,
        workflow_id="agent_client",
        step_id=task_id,
        task_type="task",
        input_data={"objective": given} if isinstance(given, str) else dict(given),
        context=dict(context),
        timeout=limits.seconds,
        max_retries=limits.retries,
        token_budget=TokenBudget.model_validate(budget) if budget else None,
        agent=agent,
        result_schema=TypeAdapter(result).json_schema() if result is not None else None,
    )
    required: dict[str, Any] = {"task_id": task_id, "input_data": {}}  # also where the input is empty, as by default
    return required | assignment.model_dump(mode="json", exclude_defaults=True)


async def map_in_order(
    run: Callable[[TaskInput, int], Awaitable[T]], inputs: Iterable[TaskInput], at_once: int
) -> list[T]:
    """Run the inputs, at most `at_once` at a time, and return the results in the order of the inputs. All of them are
    carried out: raises MapFailed at the end if some failed."""
    if at_once < 1:
        raise ValueError("at_once: must be 1 or more")
    waiting = enumerate(inputs)
    results: dict[int, T | ClientError] = {}

    async def work() -> None:
        for number, given in waiting:
            try:
                results[number] = await run(given, number)
            except ClientError as error:
                results[number] = error

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    ordered = [results[number] for number in sorted(results)]
    if any(isinstance(one, ClientError) for one in ordered):
        raise MapFailed(ordered)
    return cast(list[T], ordered)
