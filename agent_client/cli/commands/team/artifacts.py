"""`agent artifacts`: the files that the agents of a team share."""

from __future__ import annotations

import sys
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from ...errors import CliError, UsageError
from ...output import local_time
from ...private_file import new_private_file
from ...run import Invocation, command
from .options import IfAbsent, IfVersion, TeamOption, made_by

app = typer.Typer(help="List, get and save a team's artifacts.", rich_markup_mode=None, no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="ARTIFACT", help="The artifact's name.")]
Version = Annotated[int | None, typer.Option(min=1, metavar="N", help="This version, not the newest.")]


@app.command("list")
@command
async def list_(
    call: Invocation,
    prefix: Annotated[str, typer.Argument(help="Only names that begin so.")] = "",
    team: TeamOption = None,
) -> None:
    """List the artifacts by name, each in its newest version."""
    async with call.mesh() as mesh:
        found = [one async for one in mesh.team(team).artifacts.list(prefix)]
    if call.output.json:
        call.output.document({"artifacts": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (
            *(one.name, one.version, one.size, one.media_type),
            *(one.updated_by, local_time(one.updated_at), made_by(one.cause)),
        )
        for one in found
    ]
    call.output.table(("artifact", "version", "bytes", "type", "by", "at", "cause"), rows)


@app.command()
@command
async def get(
    call: Invocation,
    artifact: Name,
    file: Annotated[Path | None, typer.Option("-o", "--output", help="A new file; stdout without it.")] = None,
    version: Version = None,
    team: TeamOption = None,
) -> None:
    """Write the bytes of an artifact to a new file, or to stdout."""
    if file is None and (call.output.terminal or call.output.json):
        why = "bytes are not JSON" if call.output.json else "bytes may drive a terminal"
        raise UsageError(f"{why}, so they need a file", "name a new one with -o FILE")
    size = 0
    async with call.mesh() as mesh:
        pieces = mesh.team(team).artifacts.stream(artifact, version=version)
        target = nullcontext(sys.stdout.buffer) if file is None else new_private_file(file)
        async with aclosing(pieces):
            first = await anext(pieces, b"")  # an artifact that is not there makes no file
            with target as out:
                size += out.write(first)
                async for piece in pieces:
                    size += out.write(piece)
                out.flush()
    if call.output.json:
        call.output.document({"file": str(file), "bytes": size})
    elif file is not None:
        call.output.line(f"{size} bytes in {file}")


@app.command()
@command
async def put(
    call: Invocation,
    artifact: Name,
    file: Annotated[Path, typer.Argument(help="The file to save.")],
    *,
    media_type: Annotated[str | None, typer.Option(metavar="TYPE", help="Such as text/csv; else by the name.")] = None,
    if_version: IfVersion = None,
    if_absent: IfAbsent = False,
    team: TeamOption = None,
) -> None:
    """Save a file as a version of an artifact."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CliError(f"{file}: cannot be read: {error.strerror}") from error
    async with call.mesh() as mesh:
        artifacts = mesh.team(team).artifacts
        made = await artifacts.write(artifact, data, media_type=media_type, if_version=if_version, if_absent=if_absent)
    if call.output.json:
        call.output.document(made.model_dump(mode="json"))
    else:
        call.output.line(f"{made.name} has version {made.version}, {made.size} bytes, sha256 {made.sha256}")


@app.command()
@command
async def delete(
    call: Invocation, artifact: Name, version: Version = None, if_version: IfVersion = None, team: TeamOption = None
) -> None:
    """Delete an artifact with all its versions, or with --version one of them."""
    async with call.mesh() as mesh:
        await mesh.team(team).artifacts.delete(artifact, version=version, if_version=if_version)
    if call.output.json:
        call.output.document({"name": artifact, "version": version, "deleted": True})
    else:
        call.output.line(f"{artifact} is deleted" if version is None else f"version {version} of {artifact} is deleted")
