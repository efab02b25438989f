"""Results of tasks that have come to the host (docs/reference/results.md)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from http import HTTPStatus
from time import monotonic

from pydantic import ValidationError

from .errors import NotFound, UnexpectedReply
from .host_messages import ResultPage, ResultRecord
from .http import FIRST_POLL_SECONDS, POLL_SECONDS, Call, Connection, pages, resumed, without_none

WAIT_SECONDS = 3600.0


async def list_results(
    connection: Connection, workspace: str | None, task_id: str | None, user: str | None
) -> AsyncGenerator[ResultRecord]:
    """Yield results, the newest first; of one task at most one."""
    params = without_none(workspace=workspace, task_id=task_id, user=user)
    call = Call("GET", "/results", params=params)
    if task_id is not None:
        with suppress(NotFound):
            yield await connection.fetch(ResultRecord, call)
        return
    async for page in pages(connection, ResultPage, call):
        for record in page.results:
            yield record


async def wait_for_result(
    connection: Connection, workspace: str, task_id: str, user: str | None, wait: float
) -> ResultRecord:
    """Return the result once it has come. Raises NotFound if `wait` is 0 and there is none, DeadlineExceeded."""
    params = without_none(workspace=workspace, task_id=task_id, user=user)
    if not wait:
        return await connection.fetch(ResultRecord, Call("GET", "/results", params=params))

    async def polls() -> AsyncGenerator[ResultRecord | None]:
        poll = FIRST_POLL_SECONDS
        while True:
            call = Call("GET", "/results", params={**params, "wait": poll}, timeout=2 * POLL_SECONDS)
            reply = await connection.send(call)
            if reply.status_code == HTTPStatus.ACCEPTED:
                poll = POLL_SECONDS
                yield None
                continue
            try:
                yield ResultRecord.model_validate_json(reply.content)
            except ValidationError as error:
                raise UnexpectedReply(f"the result of task {task_id} is not one") from error

    async with aclosing(resumed(polls, deadline=monotonic() + wait)) as found:
        async for record in found:
            return record
    raise AssertionError("unreachable")
