"""`agent hub`: the agents of a host that talk to each other, their sessions, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...contexts import Target
from ...errors import CliError
from ...output import local_time, safe_json
from ...run import Invocation, command

if TYPE_CHECKING:
    from ....hub import Envelope, HubWatcher

app = typer.Typer(help="Watch the agents that talk to each other.", rich_markup_mode=None, no_args_is_help=True)


@app.command()
@command
async def agents(call: Invocation) -> None:
    """List the agents of the hub by name."""
    async with call.mesh() as mesh:
        found = [one async for one in mesh.hub.agents()]
    if call.output.json:
        call.output.document({"agents": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (
            one.passport.name,
            one.passport.kind,
            "connected" if one.connected else "away",
            ", ".join(one.resume.claimed_capabilities),
            one.resume.summary,
        )
        for one in found
    ]
    call.output.table(("agent", "kind", "link", "capabilities", "summary"), rows)


@app.command()
@command
async def sessions(
    call: Invocation,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="Only of this agent.")] = None,
) -> None:
    """List the sessions of the hub, those that are over too."""
    async with call.mesh() as mesh:
        found = [one async for one in mesh.hub.sessions(agent)]
    if call.output.json:
        call.output.document({"sessions": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (
            one.session_id,
            one.type,
            one.state,
            ", ".join(participant.name for participant in one.participants),
            local_time(one.created_at),
            one.close_reason or "",
        )
        for one in found
    ]
    call.output.table(("session", "type", "state", "agents", "opened", "reason"), rows)


@app.command()
@command
async def tail(
    call: Invocation,
    session: Annotated[str | None, typer.Argument(metavar="SESSION", help="Only this one, from its beginning.")] = None,
) -> None:
    """Print what agents say to each other as they say it, until Ctrl-C: in all sessions from now on, or in one."""
    from ....hub import ALL_SESSIONS, AuthError, HubWatcher, NetworkError, WebSocketLink

    target = call.target()
    try:
        async with HubWatcher(WebSocketLink(_hub_url(target), token=target.token)) as watcher:
            if call.output.terminal:
                call.output.note("waiting for what agents say; Ctrl-C ends")
            async for envelope in watcher.follow(session or ALL_SESSIONS):
                await _print(call, watcher, envelope)
    except AuthError as error:
        raise CliError(error.message, "this needs the token of an operator, see `agent context list`") from error
    except (NetworkError, TimeoutError) as error:
        raise CliError(str(error), "`agent hub sessions` lists those there are" if session else None) from error


def _hub_url(target: Target) -> str:
    """The URL of the hub of a host: http becomes ws, and https wss."""
    return f"ws{target.url.rstrip('/').removeprefix('http')}/hub"


async def _print(call: Invocation, watcher: HubWatcher, envelope: Envelope) -> None:
    if call.output.json:
        call.output.record(envelope.model_dump(mode="json"))
        return
    sender = await watcher.name(envelope.sender_id)
    readers = [await watcher.name(one) for one in envelope.audience or ()]
    to = f" -> {', '.join(readers)}" if readers else ""
    content = envelope.text or (safe_json(envelope.event_data) if envelope.event_data else "")
    kind = "" if envelope.text else f" {envelope.event_type}"
    line = f"{local_time(envelope.created_at)} {envelope.session_id} {sender}{to}{kind}: {content}"
    call.output.line(line)
