"""All checks, in the order in which a fault explains those after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..contexts import Choice, Target, check_own_host, resolve
from ..errors import CliError
from .agents import check_agent, check_agents
from .files import check_contexts, check_data_dir
from .finding import Finding, error
from .host import Server, check_reachable, check_token, open_client
from .local_host import check_local_host
from .machine import check_packages, check_proxies, check_python, check_sandbox
from .model import check_model

LOCAL: Sequence[Callable[[], list[Finding]]] = (
    check_python,
    check_packages,
    check_sandbox,
    check_proxies,
    check_contexts,
    check_data_dir,
)
"""Checks that need no server."""


async def examine(choice: Choice, *, call_model: bool = True) -> list[Finding]:
    """Make all checks that make sense. `call_model`: have a model answer too."""
    found = [finding for check in LOCAL for finding in check()]
    try:
        target = resolve(choice)
    except CliError as failure:
        return [*found, *check_local_host(), error("target", failure.message, failure.fix or "correct that")]
    target = _without_stranger(target)
    try:
        client = open_client(target)
    except ValueError as failure:
        return [*found, error("certificates", str(failure), "name a readable PEM file, or unset the variable")]
    async with client as http:
        server = Server(target, http)
        if server.local and target.kind == "host":
            found += check_local_host()
        return [*found, *await _examine_server(server, call_model=call_model)]


def _without_stranger(target: Target) -> Target:
    """Return the target without its token, if something else has the port of the host of this user."""
    try:
        check_own_host(target)
    except CliError:
        return replace(target, token=None)
    return target


async def _examine_server(server: Server, *, call_model: bool) -> list[Finding]:
    import httpx2

    reachable = await check_reachable(server)
    if reachable.state == "error":
        return [reachable]
    own = await check_agent(server.target) if server.target.kind != "host" else None
    if own is not None:
        return [reachable, *own]
    try:
        found = await check_token(server)
        if len(found) < 2:
            return [reachable, *found]
        models = [await check_model(server, "default")] if call_model else []
    except (httpx2.HTTPError, ValueError, KeyError) as failure:
        fix = "is the URL that of a host of the same version?"
        return [reachable, error("host", f"its answer is not understood: {failure or type(failure).__name__}", fix)]
    return [reachable, *found, *models, *await _agents(server.target)]


async def _agents(target: Target) -> list[Finding]:
    from ... import ClientError, Mesh

    try:
        async with Mesh(target.url, target.token) as mesh:
            return await check_agents(mesh, target.workspace)
    except ClientError as failure:
        return [error("agents", str(failure), "the host's log says more")]
