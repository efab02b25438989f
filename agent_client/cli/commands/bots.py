"""`agent bots`: hands over to the program of the bots, which is a process without all that a terminal needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, NoReturn

import typer

from ..contexts import Choice, Target, check_own_host, identify
from ..errors import CliError, UsageError
from ..output import print_error
from ..run import ContextOption, Invocation, TokenFileOption, UrlOption, merged, run

app = typer.Typer(help="Run the bots of chat platforms, and say who may use them.", rich_markup_mode=None)
_TOKEN = ("MESH_TOKEN", "MESH_TOKEN_FILE")


@app.callback(invoke_without_command=True)
def bots(
    ctx: typer.Context, *, context: ContextOption = None, url: UrlOption = None, token_file: TokenFileOption = None
) -> None:
    """Run the bots that bots.yaml or the environment names, until Ctrl-C or SIGTERM. Subcommands say who may use them.

    The host is that of the file, of MESH_URL, or of the current context; its token that of the file, MESH_TOKEN or the
    context.
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
    """Return the environment with the host that an option names. Raises CliError."""
    target = await identify(call.target())
    if target.kind != "host":
        raise UsageError(f"{target.url} is an agent, and bots need a host", "choose one with --context or --url")
    return _environment(target)


def _current_host(call: Invocation) -> Mapping[str, str]:
    """Return the environment with the host of the current context, unless it names one. A token that it has without a
    URL is for that host. The bots' file may name another one. Raises CliError if there is such a token, and the host of
    the context does not run: what took its port would be sent the token."""
    if os.environ.get("MESH_URL"):
        return os.environ
    has_token = any(os.environ.get(name) for name in _TOKEN)
    try:
        target = call.target()
        if target.kind == "host":
            check_own_host(target)
            return {**os.environ, "MESH_URL": target.url} if has_token else _environment(target)
    except UsageError:  # no context, which the bots' program says if it needs one
        pass
    except CliError as error:
        if has_token:
            raise
        print_error(f"the current context is not used: {error}")
    return os.environ


def _environment(target: Target) -> Mapping[str, str]:
    """Return the environment with this host and its token, and with no token for another one."""
    others = {name: value for name, value in os.environ.items() if name not in _TOKEN}
    return {**others, "MESH_URL": target.url} | ({} if target.token is None else {"MESH_TOKEN": target.token})


def _become(arguments: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> NoReturn:
    """Replace this process. The other program must not come from the current folder, in which an agent may write."""
    if find_spec("frontends") is None:
        print_error("the bots are not installed; install the wheel with its extra bots (docs/how-to/install.md)")
        raise typer.Exit(1)
    sys.stdout.flush()
    program = [sys.executable, "-P", "-m", "frontends", *arguments]
    os.execve(sys.executable, program, {**environment})  # noqa: S606  as S603: no shell is wanted
