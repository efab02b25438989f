"""`agent tasks`: the tasks of an agent."""

from __future__ import annotations

from typing import Annotated

import typer

from ...output import local_time
from ...run import Invocation, command

app = typer.Typer(help="List tasks, read one, cancel one.", rich_markup_mode=None)
TaskId = Annotated[str, typer.Argument(help="The task's id.")]
STATES = "queued, running, waiting, complete, failed, cancelled, timeout, skipped"


@app.callback(invoke_without_command=True)
@app.command("list")
@command
async def tasks(
    call: Invocation,
    status: Annotated[list[str] | None, typer.Option(help=f"Only with this status: {STATES}. Repeatable.")] = None,
) -> None:
    """List the tasks, the newest first; the subcommands read and cancel one."""
    async with call.agent() as agent:
        found = [one async for one in agent.tasks(*(status or ()))]  # pyright: ignore[reportArgumentType]  the server says what it knows
    if call.output.json:
        call.output.document({"tasks": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (one.task_id, one.status, one.user, one.tokens_used, local_time(one.created_at), one.error or "")
        for one in found
    ]
    call.output.table(("task", "status", "user", "tokens", "created", "error"), rows)


@app.command()
@command
async def show(call: Invocation, task: TaskId) -> None:
    """Print a task: its status, its answer, what it used."""
    async with call.agent() as agent:
        record = await agent.task(task).record()
    if call.output.json:
        call.output.document(record.model_dump(mode="json"))
        return
    call.output.line(f"task {record.task_id}: {record.status}, {record.tokens_used} tokens")
    if record.error:
        call.output.line(f"error: {record.error}")
    if record.result is not None:
        call.output.answer(record.result)


@app.command()
@command
async def cancel(call: Invocation, task: TaskId) -> None:
    """Cancel a task, queued or running."""
    async with call.agent() as agent:
        record = await agent.task(task).cancel()
    if call.output.json:
        call.output.document(record.model_dump(mode="json"))
    else:
        call.output.line(record.status)
