"""`agent bots`: hands over to the program of the bots, which is a process without all that a terminal needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, NoReturn

import typer

from ..contexts import Choice, check_own_host, identify
from ..errors import CliError, UsageError
from ..output import print_error
from ..run import ContextOption, Invocation, TokenFileOption, UrlOption, merged, run

app = typer.Typer(help="Run the bots of chat platforms, and say who may use them.", rich_markup_mode=None)
_HOST = ("MESH_URL", "MESH_TOKEN", "MESH_TOKEN_FILE")


@app.callback(invoke_without_command=True)
def bots(
    ctx: typer.Context, *, context: ContextOption = None, url: UrlOption = None, token_file: TokenFileOption = None
) -> None:
    """Run the bots that bots.yaml or the environment names, until Ctrl-C or SIGTERM. Subcommands say who may use them.

    The host is that of the file, of MESH_URL and MESH_TOKEN, or of the current context.
    """
    if ctx.invoked_subcommand is None:
        run(_start(merged(ctx.obj, Invocation(choice=Choice(context, url, token_file)))))


async def _start(call: Invocation) -> None:
    named = call.choice.context or call.choice.url
    _become((), await _named_host(call) if named else _current_host(call))


@app.command()
def pair(
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code that a bot has shown.")],
    person: Annotated[
        str | None, typer.Option("--person", metavar="PRINCIPAL", help="Link it to this person, who is paired already.")
    ] = None,
) -> None:
    """Admit the stranger to whom a bot has shown a code."""
    _become(("pair", code, *(() if person is None else ("--person", person))))


@app.command()
def people() -> None:
    """List who is paired: the person, their identities, their bots."""
    _become(("people",))


@app.command()
def unpair(
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="As `agent bots people` says it.")],
) -> None:
    """Take all bots away from a person, or from one of their identities."""
    _become(("unpair", principal))


async def _named_host(call: Invocation) -> Mapping[str, str]:
    """Return the host that an option names, as the bots' program takes it. Raises CliError."""
    target = await identify(call.target())
    if target.kind != "host":
        raise UsageError(f"{target.url} is an agent, and bots need a host", "choose one with --context or --url")
    return _variables(target.url, target.token)


def _current_host(call: Invocation) -> Mapping[str, str]:
    """Return the host of the current context, if nothing else names one. The bots' file may still do so."""
    if any(os.environ.get(name) for name in _HOST):
        return {}
    try:
        target = call.target()
        if target.kind == "host":
            check_own_host(target)
            return _variables(target.url, target.token)
    except UsageError:  # no context, which the bots' program says if it needs one
        pass
    except CliError as error:
        print_error(f"the current context is not used: {error}")
    return {}


def _variables(url: str, token: str | None) -> Mapping[str, str]:
    return {"MESH_URL": url} | ({} if token is None else {"MESH_TOKEN": token})


def _become(arguments: tuple[str, ...], variables: Mapping[str, str] | None = None) -> NoReturn:
    """Replace this process. The other program must not come from the current folder, in which an agent may write."""
    if find_spec("frontends") is None:
        print_error("the bots are not installed; install the wheel with its extra bots (docs/how-to/install.md)")
        raise typer.Exit(1)
    sys.stdout.flush()
    environment = {name: value for name, value in os.environ.items() if not variables or name not in _HOST}
    os.execve(  # noqa: S606  as S603: no shell is wanted
        sys.executable,
        [sys.executable, "-P", "-m", "frontends", *arguments],
        {**environment, **(variables or {})},
    )
