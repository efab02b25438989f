"""Work for the agent, handed in at the mesh: its listener gives it to the agent, and gets the result back."""

from __future__ import annotations

from contextlib import closing, suppress

from pydantic import ValidationError
from rich.console import Console

from agent_client import ClientError, WorkRecord
from agent_client.sync import SyncAgent, SyncMesh
from agent_common.protocol import TaskAssignment, TaskResult

from .mesh import AGENT, DemoError
from .view import StepView

SIGNALS = {
    "dispatched": "WorkRequest  the host has it on disk, and sends it",
    "accepted": "accepting    the agent has it on disk, and begins",
    "resulted": "WorkResult   the host has it on disk",
}
"""What is seen of the channel, by the state of the request on the host."""


def carry_out(
    mesh: SyncMesh, agent: SyncAgent, assignment: TaskAssignment, console: Console, view: StepView
) -> TaskResult:
    """Hand the assignment in as a WorkRequest, show what happens, and return its result. Raises DemoError."""
    content = assignment.model_dump(mode="json", exclude_unset=True, exclude={"task_id"})
    request_id = mesh.work.submit(AGENT, content, id=assignment.task_id)
    show_start(mesh, request_id, console)
    with suppress(ClientError), agent.task(request_id).events() as events:  # the result does not depend on the stream
        for event in events:
            view.show(event)
    record = mesh.work.wait(request_id)
    show_signal(record.status, console)
    return result_of(record)


def show_start(mesh: SyncMesh, request_id: str, console: Console) -> None:
    """Show how the request fares until the agent has it, or until it has ended without that."""
    with closing(mesh.work.follow(request_id)) as changes:
        for change in changes:
            if change.type != "progress" and change.data["status"] not in ("queued", "resulted"):
                show_signal(change.data["status"], console)
            if change.type == "result" or change.data.get("status") == "accepted":
                return


def show_signal(status: str, console: Console) -> None:
    if status in SIGNALS:
        console.print(f"channel {SIGNALS[status]}", style="dim", markup=False, highlight=False)


def result_of(record: WorkRecord) -> TaskResult:
    """Return the result of work that has ended. Raises DemoError if it has none."""
    result = record.result
    try:
        return TaskResult.model_validate_json((result and result.content) or "")
    except ValidationError:
        raise DemoError((result and result.error) or record.error or "the work has no result") from None
