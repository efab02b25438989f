"""Faults of a hub that take others for the owner of a task."""

from __future__ import annotations

from agent_common.protocol.hub import Frame, RequestFrame
from agent_host.hub import HubConnection


class AsOwner(HubConnection):
    """One operation on a task is done for anybody, in the name of its owner."""

    op = ""

    def receive(self, frame: Frame, size: int = 0) -> None:
        if isinstance(frame, RequestFrame) and frame.op == self.op:
            self._tasks.start(self.receive_as_owner(frame, size))
        else:
            super().receive(frame, size)

    async def receive_as_owner(self, frame: RequestFrame, size: int) -> None:
        task = await self._hub.tasks.get(None, frame.params["task_id"])
        self._caller.agent_ids.add(task.owner_id)
        super().receive(frame.model_copy(update={"params": {**frame.params, "agent_id": task.owner_id}}), size)


class ShowsAllTasks(AsOwner):
    op = "get_task"


class AnybodyUpdatesTasks(AsOwner):
    op = "update_task"


class AnybodyCancelsTasks(AsOwner):
    op = "cancel_task"


OF_TASKS: dict[str, type[HubConnection]] = {
    "shows_all_tasks": ShowsAllTasks,
    "anybody_updates_tasks": AnybodyUpdatesTasks,
    "anybody_cancels_tasks": AnybodyCancelsTasks,
}
