"""`agent token`: a host's tokens for people. A secret goes into a file that only its owner can read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import UsageError
from ...output import local_time
from ...private_file import new_private_file
from ...run import Invocation, command

if TYPE_CHECKING:
    from ....host_messages import Scope

app = typer.Typer(help="Make, list and revoke the tokens of a host.", rich_markup_mode=None, no_args_is_help=True)


@app.command()
@command
async def create(
    call: Invocation,
    people: Annotated[
        list[str], typer.Argument(metavar="USER...", help="The person that it speaks for, or several: telegram:* too.")
    ],
    workspaces: Annotated[str, typer.Option(metavar="A,B", help="The workspaces that it opens.")],
    file: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="A new file, which will hold it.")],
    expires: Annotated[str | None, typer.Option(metavar="30d", help="A number and s, m, h, d or w.")] = None,
) -> None:
    """Make a token that speaks for one person, or several, in some workspaces, and write it to a file."""
    names = [name.strip() for name in workspaces.split(",") if name.strip()]
    if not names:
        raise UsageError("--workspaces names none", "write it as --workspaces a,b")
    async with call.mesh() as mesh:
        with new_private_file(file) as target:
            made = await mesh.tokens.create(people, names, expires)
            target.write(f"{made.token}\n".encode())
    if call.output.json:
        call.output.document(made.model_dump(mode="json", exclude={"token"}) | {"file": str(file)})
    else:
        call.output.line(f"{made.id} is in {file}")


@app.command("list")
@command
async def list_(call: Invocation) -> None:
    """List the tokens, without their secrets."""
    async with call.mesh() as mesh:
        found = await mesh.tokens.list()
    if call.output.json:
        call.output.document({"tokens": [one.model_dump(mode="json") for one in found]})
        return
    rows = [
        (
            *(one.id, one.owner, one.purpose),
            *(_scope(one.scope) if one.scope else ("", "")),
            local_time(one.expires_at) or "never",
        )
        for one in found
    ]
    call.output.table(("token", "owner", "purpose", "user", "workspaces", "expires"), rows)


def _scope(scope: Scope) -> tuple[str, str]:
    return scope.user or ", ".join(scope.users or ()), ", ".join(scope.workspaces)


@app.command()
@command
async def revoke(call: Invocation, token: Annotated[str, typer.Argument(help="The token's id.")]) -> None:
    """Revoke a token; requests that it has open are cut."""
    async with call.mesh() as mesh:
        await mesh.tokens.revoke(token)
    if call.output.json:
        call.output.document({"id": token, "revoked": True})
    else:
        call.output.line(f"{token} is revoked")
