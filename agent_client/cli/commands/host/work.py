"""`agent work`: the work that a host has handed to its agents."""

from __future__ import annotations

from typing import Annotated

import typer

from ...contexts import open_mesh
from ...errors import UsageError
from ...output import local_time
from ...run import Invocation, command

app = typer.Typer(help="List a host's work, read one, cancel one.", rich_markup_mode=None)
WorkId = Annotated[str, typer.Argument(help="The id of the work.")]
STATES = "queued, dispatched, accepted, resulted, dead, cancelled, expired"


@app.callback(invoke_without_command=True)
@app.command("list")
@command
async def work(
    call: Invocation,
    status: Annotated[list[str] | None, typer.Option(help=f"Only with this status: {STATES}. Repeatable.")] = None,
) -> None:
    """List the work of all workspaces, or of one with -w, newest first; the subcommands read and cancel one."""
    if call.choice.user is not None:
        raise UsageError("--user: a host does not list work by its user", "leave it out; -w names a workspace")
    target = call.whole()
    async with open_mesh(target) as mesh:
        wanted = mesh.work.list(*(status or ()), workspace=target.workspace)  # pyright: ignore[reportArgumentType]  the server says what it knows
        found = [one async for one in wanted]
    if call.output.json:
        call.output.document({"work": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (one.request_id, one.workspace, one.status, one.attempts, local_time(one.submitted_at), one.error or "")
        for one in found
    ]
    call.output.table(("work", "workspace", "status", "attempts", "submitted", "error"), rows)


@app.command()
@command
async def show(call: Invocation, work: WorkId) -> None:
    """Print a piece of work: its status, its answer."""
    async with call.mesh() as mesh:
        record = await mesh.work.get(work)
    if call.output.json:
        call.output.document(record.model_dump(mode="json"))
        return
    attempts = f"{record.attempts} attempt{'' if record.attempts == 1 else 's'}"
    call.output.line(f"work {record.request_id} of {record.workspace}: {record.status}, {attempts}")
    result = record.result
    if error := record.error or (result and result.error):
        call.output.line(f"error: {error}")
    if result is not None and result.content is not None:
        call.output.text(f"{result.content}\n")


@app.command()
@command
async def cancel(call: Invocation, work: WorkId) -> None:
    """Cancel work that has not ended."""
    async with call.mesh() as mesh:
        record = await mesh.work.cancel(work)
    if call.output.json:
        call.output.document(record.model_dump(mode="json"))
    else:
        call.output.line(record.status)
