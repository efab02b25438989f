"""Checks of the agents of a host: do they run, are they contained, are their commands confined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .finding import Finding, error, ok, warning

if TYPE_CHECKING:
    from agent_common.protocol import AgentStatus

    from ... import Mesh, Workspace
    from ...agent import Agent
    from ..contexts import Target

_TAIL = 1000
_RESTART = "stop and start the agent"
_ENDPOINT = {"unreachable": "cannot be reached", "refused": "refuses its token"}


async def check_agents(mesh: Mesh, chosen: str | None) -> list[Finding]:
    """Look at all agents. `chosen`: the workspace that commands mean, which must be there and run."""
    workspaces = [one async for one in mesh.workspaces.list()]
    found = [finding for one in workspaces for finding in await _check_agent(mesh, one, chosen=one.id == chosen)]
    if chosen is not None and chosen not in [one.id for one in workspaces]:
        what = f"the host has no workspace {chosen}, which is chosen by -w or the context"
        found.append(error("agents", what, "`agent ps` lists those there are; `agent up` makes one for a folder"))
    return found or [warning("agents", "the host has no agent yet", "`agent up` in the folder where it is to work")]


async def check_agent(target: Target) -> Sequence[Finding] | None:
    """Look at an agent that commands talk to without a host. Returns None if the target is a host."""
    from ... import Agent, ClientError, Forbidden, NotFound, Unauthorized

    async with Agent(target.url, target.token) as agent:
        try:
            status = await agent.status()
        except (NotFound, Forbidden):  # an agent has this route, for all who have its token
            return None
        except Unauthorized:
            fix = "give its AGENT_TOKEN with --token-file, or `agent context add` again"
            return None if target.kind is None else [error("token", "the agent refuses the token", fix)]
        except ClientError as failure:
            return [error("agent", f"is there, but does not answer: {failure}", "its log says more")]
    well = ok("token", "the agent knows the token")
    if status.mesh in ("unreachable", "refused"):
        fix = "correct its AGENT_LLM_BASE_URL (or AGENT_MESH_URL) and AGENT_MESH_TOKEN, then restart it"
        return [well, error("agent", f"cannot call its model: the endpoint {_ENDPOINT[status.mesh]}", fix)]
    return [well, *_check_status("agent", status)]


async def _check_agent(mesh: Mesh, workspace: Workspace, *, chosen: bool) -> Sequence[Finding]:
    name = f"agent {workspace.id}"
    ready = workspace.mediation_ready
    if ready is not None and ready.code == "quarantined":
        fix = f"if it is safe again: POST /workspaces/{workspace.id}/unquarantine, then `agent up` in its folder"
        return [error(name, "is in quarantine: it is stopped, and its tokens are void", fix)]
    if workspace.state == "failed":
        why = (workspace.detail or "it ended")[-_TAIL:]
        return [error(name, f"has failed: {why}", "correct that, then `agent up` in its folder")]
    if workspace.state != "running":
        if not chosen and workspace.desired_state == "stopped":
            return [ok(name, "is stopped, as it is meant to be")]
        return [warning(name, f"is {workspace.state}", "`agent up` in its folder starts it")]
    found = [] if ready is None or ready.error is None else [_channel_down(name, ready.error, ready.code)]
    return [*found, *await _ask_status(name, mesh.agent(workspace.id))]


def _channel_down(name: str, why: str, code: str | None) -> Finding:
    fix = f"is MESH_LISTENER_URL right, and its port free? then {_RESTART}"
    return error(f"{name}: channel", f"{why} ({code}), so it changes nothing", fix)


async def _ask_status(name: str, agent: Agent) -> Sequence[Finding]:
    from ... import ClientError

    try:
        return _check_status(name, await agent.status())
    except ClientError as failure:
        return [error(name, f"runs, but does not answer: {failure}", f"{_RESTART}; `agent logs` says more")]


def _check_status(name: str, status: AgentStatus) -> Sequence[Finding]:
    if status.mesh in ("unreachable", "refused"):
        return [error(name, f"cannot call its model: the host is {status.mesh} for it", _RESTART)]
    if status.confinement == "none":
        why = f": {status.confinement_fault}" if status.confinement_fault else ""
        text = f"has no confinement, so it runs no commands, no skills and no local MCP servers{why}"
        return [warning(name, text, f"do what helps, then {_RESTART}; see also the finding `sandbox`")]
    if status.confinement == "off":
        return [warning(name, "runs commands unconfined, as the user of the host", "unset AGENT_CONFINEMENT=off")]
    if status.confinement != "bubblewrap":
        return [ok(name, f"is {status.state}; commands are confined by {status.confinement}, the second best way")]
    return [ok(name, f"is {status.state}; commands are confined by bubblewrap")]
