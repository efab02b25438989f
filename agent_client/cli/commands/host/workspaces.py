"""`agent ps` and `agent logs`: the agents of a host, and what their runtimes print."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...contexts import only_workspace, open_mesh
from ...log_lines import entry_of, readable
from ...run import Invocation, command

if TYPE_CHECKING:
    from agent_common.protocol import AgentStatus

    from .... import Mesh, Workspace

STATUS_SECONDS = 5.0
"""For each agent; one that does not answer is listed without its sessions."""
AT_ONCE = 16
POLL_SECONDS = 1.0
WIDE = 110
"""A terminal that is narrower has no room for what agents have in common. Their folders tell them apart."""
COLUMNS = ("workspace", "team", "state", "driver", "channel", "running", "waiting", "folder", "detail")
MARK_CHARACTERS = 200
"""By which the beginning of one look at an output is found in the look before."""


@command
async def ps(call: Invocation) -> None:
    """List the agents of the host: their state, channel and sessions."""
    async with call.mesh() as mesh:
        found = [one async for one in mesh.workspaces.list()]
        places = asyncio.Semaphore(AT_ONCE)
        statuses = await asyncio.gather(*(_status(mesh, one, places) for one in found))
    if call.output.json:
        rows = [_as_json(one, status) for one, status in zip(found, statuses, strict=True)]
        call.output.document({"workspaces": rows})
        return
    rows = [_row(one, status) for one, status in zip(found, statuses, strict=True)]
    shown = shown_columns(call.output.console().width) if call.output.terminal else COLUMNS
    at = [COLUMNS.index(name) for name in shown]
    call.output.table(shown, [[row[index] for index in at] for row in rows])
    for one in found:
        if one.detail and call.output.terminal:
            call.output.text(f"\n{one.id}: {one.detail}\n")


def shown_columns(width: int) -> Sequence[str]:
    """Return the columns for a terminal of that width; a person reads the details below them, whole."""
    left_out = {"detail"} if width >= WIDE else {"detail", "team", "driver"}
    return [name for name in COLUMNS if name not in left_out]


async def _status(mesh: Mesh, workspace: Workspace, places: asyncio.Semaphore) -> AgentStatus | None:
    """Ask a running agent what it does; None if it cannot be asked."""
    from .... import ClientError

    if workspace.state != "running":
        return None
    try:
        async with places, asyncio.timeout(STATUS_SECONDS):
            return await mesh.agent(workspace.id).status()
    except (ClientError, TimeoutError):
        return None


def _as_json(workspace: Workspace, status: AgentStatus | None) -> dict[str, Any]:
    sessions = status.sessions.model_dump(mode="json") if status else None
    return workspace.model_dump(mode="json", by_alias=True) | {"sessions": sessions}


def _row(workspace: Workspace, status: AgentStatus | None) -> tuple[object, ...]:
    from ...local import FOLDER_SETTING

    ready = workspace.mediation_ready
    channel = "" if ready is None else "ready" if ready.ready else ready.code or "not ready"
    sessions = (status.sessions.running, status.sessions.waiting) if status else ("", "")
    about = (workspace.id, workspace.team, workspace.state, workspace.driver)
    return (*about, channel, *sessions, workspace.settings.get(FOLDER_SETTING), workspace.detail)


@command
async def logs(
    call: Invocation,
    name: Annotated[str | None, typer.Argument(metavar="WORKSPACE", help="In the place of -w.")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what comes.")] = False,
) -> None:
    """Print the end of what an agent's runtime has printed."""
    target = call.target()
    async with open_mesh(target) as mesh:
        chosen = name or target.workspace or await only_workspace(mesh)
        shown = ""
        while True:
            console = await mesh.workspaces.console(chosen)
            _write(call, chosen, news(shown, console))
            shown = console
            if not follow:
                return
            await asyncio.sleep(POLL_SECONDS)


def news(before: str, now: str) -> str:
    """Return what `now` has after `before`, where both are the end of one growing text."""
    head = now[: min(MARK_CHARACTERS, len(before))]
    at = before.find(head) if head else -1
    while at >= 0:
        if now.startswith(before[at:]):
            return now[len(before) - at :]
        at = before.find(head, at + 1)
    return now


def _write(call: Invocation, workspace: str, text: str) -> None:
    if call.output.terminal and not call.output.json:
        for line in text.splitlines():
            entry = entry_of(line)
            call.output.line(readable(entry) if entry else line)
        return
    if not call.output.json:
        call.output.text(text if not text or text.endswith("\n") else f"{text}\n")
        return
    for line in text.splitlines():
        call.output.record({"workspace": workspace, "line": line})
