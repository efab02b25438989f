"""`agent-host`: `up` runs the host, `listen` only its listener, `run` one agent for one task, `token` makes a token,
`models` shows the catalog, `conformance` holds an end of the mediation channel to the protocol."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from agent_conformance import conformance

from ..errors import RequestError, StartError
from ..settings import LOADER, load_settings

P = ParamSpec("P")


def settings_help() -> str:
    """Return the help text on settings: name, default and meaning of each."""
    lines = LOADER.help(90, {"data_dir": "~/.local/share/agent-mesh"})
    return "\n".join(["\b", "Settings (environment variables):", *lines])


app = typer.Typer(
    help="The mesh: holds every key, answers the agents' model calls, starts agents.",
    epilog=settings_help(),
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Make a command print the faults of a StartError, one a line, and exit with 1."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (StartError, RequestError) as error:
            for line in error.message.splitlines():
                print(f"agent-host: {line}", file=sys.stderr)
            raise typer.Exit(1) from None

    return wrapped


@app.command(epilog=settings_help())
@_print_errors
def up() -> None:
    """Run the host until SIGTERM or Ctrl-C."""
    from ..serve import serve

    serve(load_settings(), lambda line: print(line, flush=True))


@app.command(epilog=settings_help())
@_print_errors
def listen() -> None:
    """Run only the mediation listener, for agents that other programs boot: no model proxy, no runtimes."""
    from ..serve import serve

    serve(load_settings(), lambda line: print(line, flush=True), only_listen=True)


@app.command()
@_print_errors
def run(
    task: Annotated[str, typer.Argument(help="What the agent is to do.")],
    driver: Annotated[str, typer.Option(help="process, qemu, container, firecracker or microagent.")] = "qemu",
    image: Annotated[str | None, typer.Option(help="A folder for machines, a name for containers.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Keeps the volume there; unset nothing is kept.")] = None,
    name: Annotated[str, typer.Option(help="The workspace's name.")] = "agent",
    timeout: Annotated[float, typer.Option(help="Seconds that each step may take.")] = 120,
) -> None:
    """Boot one agent, wait until it can be given work, give it a task, print the result, power off."""
    from .run_once import RunOnce

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: stops what was started
    print(RunOnce(driver, image, name, timeout).run(task, data_dir))


@app.command()
@_print_errors
def token(
    agent_id: Annotated[
        str, typer.Argument(metavar="ID", help="The agent's id; `operator` replaces the operator's token.")
    ],
    revoke: Annotated[bool, typer.Option("--revoke", help="Delete all tokens of this agent instead.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the token in a file and print its path; one that still holds stays.")
    ] = False,
) -> None:
    """Make a bearer token for an agent and print it. It is shown only now; the host keeps its SHA-256."""
    from agent_common.clock import SystemClock

    from ..access import OPERATOR, TokenStore, check_agent_id
    from ..database import open_database
    from ..serve import make_data_dir

    settings = load_settings()
    if agent_id != OPERATOR:
        check_agent_id(agent_id)
    elif settings.admin_token is not None:
        raise StartError("MESH_ADMIN_TOKEN is set, and is the operator's only token; change it there")
    make_data_dir(settings.data_dir)
    database = open_database(settings.database)
    tokens = TokenStore(database, SystemClock())
    try:
        if revoke:
            print(f"revoked: {database.run_sync(lambda connection: tokens.revoke_in(connection, agent_id))}")
        elif keep:
            path = settings.data_dir / "tokens" / agent_id
            print(database.run_sync(lambda connection: tokens.ensure_file_in(connection, agent_id, path)))
        else:
            print(database.run_sync(lambda connection: tokens.mint_in(connection, agent_id, "manual")))
    finally:
        database.close()


@app.command()
@_print_errors
def models() -> None:
    """Show the models an agent may name."""
    from rich.console import Console
    from rich.table import Column, Table

    from ..proxy import load_catalog

    names = (Column(head, no_wrap=True) for head in ("model", "provider", "its name there"))
    table = Table(*names, "context", "output", "$/M in", "$/M out", "capabilities")
    for model in load_catalog(load_settings()).models.values():
        prices = (model.pricing.input, model.pricing.output) if model.pricing else (None, None)
        known = [model.context_limit, model.max_output_tokens, *prices]
        shown = ["unknown" if value is None else f"{value:,}" for value in known]
        table.add_row(model.name, model.provider, model.upstream, *shown, ", ".join(model.capabilities))
    Console(soft_wrap=True).print(table)


app.command()(_print_errors(conformance))


def main() -> None:
    app()
