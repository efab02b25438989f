"""`agent blackboard`: the values that the agents of a team share under keys."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...output import local_time, safe_json
from ...run import Invocation, command
from .options import IfAbsent, IfVersion, TeamOption, Value, json_value, made_by

app = typer.Typer(help="Read, write and watch a team's blackboard.", rich_markup_mode=None, no_args_is_help=True)
Key = Annotated[str, typer.Argument(help="The key of the entry.")]


@app.command("list")
@command
async def list_(
    call: Invocation,
    prefix: Annotated[str, typer.Argument(help="Only keys that begin so.")] = "",
    team: TeamOption = None,
) -> None:
    """List the entries by key."""
    async with call.mesh() as mesh:
        found = [one async for one in mesh.team(team).blackboard.list(prefix)]
    if call.output.json:
        call.output.document({"entries": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (one.key, one.version, one.updated_by, local_time(one.updated_at), made_by(one.cause), safe_json(one.value))
        for one in found
    ]
    call.output.table(("key", "version", "by", "at", "cause", "value"), rows)


@app.command()
@command
async def get(call: Invocation, key: Key, team: TeamOption = None) -> None:
    """Print the value of an entry as JSON; with --json the whole entry."""
    async with call.mesh() as mesh:
        entry = await mesh.team(team).blackboard.get(key)
    if call.output.json:
        call.output.document(entry.model_dump(mode="json"))
    else:
        call.output.text(safe_json(entry.value, indent=2) + "\n")


@app.command()
@command
async def put(
    call: Invocation,
    key: Key,
    value: Value,
    *,
    text: Annotated[bool, typer.Option("--text", help="The value is a text, as it stands.")] = False,
    ttl: Annotated[float | None, typer.Option(metavar="SECONDS", help="It expires after this time.")] = None,
    if_version: IfVersion = None,
    if_absent: IfAbsent = False,
    team: TeamOption = None,
) -> None:
    """Write an entry, and print its version."""
    given = json_value(value, text)
    async with call.mesh() as mesh:
        board = mesh.team(team).blackboard
        entry = await board.put(key, given, ttl=ttl, if_version=if_version, if_absent=if_absent)
    _answer(call, entry.model_dump(mode="json"), f"{entry.key} has version {entry.version}")


@app.command()
@command
async def delete(call: Invocation, key: Key, if_version: IfVersion = None, team: TeamOption = None) -> None:
    """Delete an entry."""
    async with call.mesh() as mesh:
        await mesh.team(team).blackboard.delete(key, if_version=if_version)
    _answer(call, {"key": key, "deleted": True}, f"{key} is deleted")


@app.command()
@command
async def history(call: Invocation, key: Key, team: TeamOption = None) -> None:
    """List the changes of an entry, the newest first."""
    async with call.mesh() as mesh:
        found = [one async for one in mesh.team(team).blackboard.history(key)]
    if call.output.json:
        call.output.document({"entries": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (one.version, one.kind, one.updated_by, local_time(one.updated_at), made_by(one.cause), safe_json(one.value))
        for one in found
    ]
    call.output.table(("version", "change", "by", "at", "cause", "value"), rows)


@app.command()
@command
async def watch(
    call: Invocation,
    prefix: Annotated[str, typer.Argument(help="Only keys that begin so.")] = "",
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Begin after this event; 0: with all that are kept.")
    ] = None,
    team: TeamOption = None,
) -> None:
    """Print changes as they are made, until Ctrl-C."""
    async with call.mesh() as mesh:
        if call.output.terminal:
            call.output.note("waiting for changes; Ctrl-C ends")
        async for event in mesh.team(team).blackboard.watch(prefix, after=after):
            change = event.content
            if call.output.json:
                content = None if change is None else change.model_dump(mode="json")
                call.output.record({"id": event.id, "type": event.type, "change": content})
            elif change is None:
                call.output.line(f"{event.type}: older changes are no longer kept")
            else:
                what = f"{event.type} {change.key} version {change.version} by {change.updated_by}"
                call.output.line(f"{local_time(change.updated_at)} {what}: {safe_json(change.value)}")


def _answer(call: Invocation, document: dict[str, Any], line: str) -> None:
    if call.output.json:
        call.output.document(document)
    else:
        call.output.line(line)
