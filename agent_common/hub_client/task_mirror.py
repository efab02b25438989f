"""A running turn as a task on the hub: others see it, and what ends the task ends the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from ..protocol.hub import (
    EV_TASK_CANCEL_REQUEST,
    HUB_ID,
    TASK_ENDINGS,
    Envelope,
    NetworkError,
    TaskSpec,
)
from ..telemetry import logger
from .agent_client import AgentClient

log = logger(__name__)
_MOST_TITLE = 200
_MOST_ERROR = 2000
_MOST_REASON = 500


class TaskMirror:
    """Shows one turn as a task. If the hub refuses the task, `fault` has the error, and the turn goes on."""

    def __init__(self, client: AgentClient, envelope: Envelope, on_cancel: Callable[[str], None]) -> None:
        """`envelope`: the one that the turn answers. `on_cancel`: called once with the reason when the task is over, or
        a participant asks for its end; it must not wait."""
        self._client = client
        self._envelope = envelope
        self._on_cancel = on_cancel
        self.task_id = f"turn:{envelope.envelope_id}:{client.agent_id}"
        """The same for each attempt at the turn, in this process or a later one."""
        self.cancelled: str | None = None
        """Why the turn is to end; None: it is not."""
        self.fault: Exception | None = None
        """Why the task does not show the turn; None: it does."""
        self._watching: asyncio.Task[None] | None = None

    async def attach(self, title: str) -> None:
        """Show the turn, and follow what becomes of its task. Raises nothing of the hub's."""
        tasks = self._client.tasks
        session_id = self._envelope.session_id
        try:
            task = await tasks.observe(self.task_id, TaskSpec(title=title[:_MOST_TITLE]), session_id=session_id)
            if not task.is_over:
                await tasks.update(self.task_id, "running")
        except (NetworkError, TimeoutError) as error:
            self._note(error)
            return
        if task.state in ("cancelled", "expired"):
            self._cancel(task.error or task.state)
        elif not task.is_over:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def progress(self, value: Any) -> None:
        """Say how far the turn has come, as any JSON. Raises nothing of the hub's."""
        if self.fault is None and self.cancelled is None:
            try:
                await self._client.tasks.update(self.task_id, progress=value)
            except (NetworkError, TimeoutError) as error:
                self._note(error)

    async def detach(
        self, state: Literal["completed", "failed"] | None, *, result: Any = None, error: str | None = None
    ) -> None:
        """Follow no more, and say how the turn has ended; None: it goes on in a later process. One that was to end
        and has not completed ends its task as cancelled. Raises nothing of the hub's."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        if state is None or self.fault is not None:
            return
        try:
            if self.cancelled is not None and state == "failed":
                await self._client.tasks.cancel(self.task_id, self.cancelled[:_MOST_REASON])
            else:
                short = error[:_MOST_ERROR] if error is not None else None
                await self._client.tasks.update(self.task_id, state, result=result, error=short)
        except (NetworkError, TimeoutError) as fault:
            self._note(fault)

    async def _watch(self) -> None:
        try:
            async with self._client.events(self._envelope.session_id, self._envelope.sequence) as events:
                while self.cancelled is None:
                    self._see(await events.get())
        except NetworkError as error:
            self._note(error)

    def _see(self, event: Envelope) -> None:
        is_cancel = event.event_type in (EV_TASK_CANCEL_REQUEST, *TASK_ENDINGS) and event.sender_id == HUB_ID
        if is_cancel and event.event_data.get("task_id") == self.task_id:
            self._cancel(str(event.event_data.get("reason") or "it was cancelled"))

    def _cancel(self, reason: str) -> None:
        if self.cancelled is None:
            self.cancelled = reason
            self._on_cancel(reason)

    def _note(self, error: Exception) -> None:
        self.fault = error
        log.warning("hub_mirror_failed", task_id=self.task_id, why=str(error) or type(error).__name__)
