"""`agent events`: what happens now, at an agent or at a host and all its agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..contexts import identify, open_agent, open_mesh
from ..output import local_time, safe_json
from ..run import Invocation, command

if TYPE_CHECKING:
    from ... import AgentEvent

FIRST = ("workspace", "user", "session_id", "reason", "state", "status", "error")
"""Fields that a person looks for; the others follow them."""
LEFT_OUT = ("type", "at", "id", *FIRST)


@command
async def events(call: Invocation) -> None:
    """Print events as they happen, until Ctrl-C.

    What is there already is in `agent ps`, `agent sessions` and `agent pending`.
    """
    target = await identify(call.target())
    if call.output.terminal:
        call.output.note("waiting for events; Ctrl-C ends")
    if target.kind == "host" and target.workspace is None:
        async with open_mesh(target) as mesh:
            async for event in mesh.events(user=target.user):
                _print(call, event)
        return
    async with open_agent(target) as agent:
        async for event in agent.events():
            _print(call, event)


def _print(call: Invocation, event: AgentEvent) -> None:
    if call.output.json:
        call.output.record({"id": event.id, "type": event.type, "data": event.data})
        return
    when: Any = event.data.get("at")
    time = local_time(when) if isinstance(when, int) else ""
    call.output.line(" ".join(filter(None, (time, event.type, *facts(event.data)))))


def facts(data: dict[str, Any]) -> list[str]:
    """Return the fields of an event as `name=value`, those first that a person looks for."""
    rest = [name for name in data if name not in LEFT_OUT]
    return [f"{name}={_value(data[name])}" for name in (*FIRST, *rest) if data.get(name) not in (None, "")]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else safe_json(value)
