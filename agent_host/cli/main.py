"""`agent-host`: `up` runs the host, `listen` only its listener, `hub` only its hub, `run` one agent for one task,
`token` makes a token, `secret` keeps secrets of services, `enrol` makes a workspace for an agent that is booted
elsewhere, `backup` a copy of what the host knows, `models` shows the catalog, `conformance` tests an end of the
mediation channel against the protocol."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from agent_common.terminal_text import safe_text, write_text
from agent_conformance import conformance

from ..settings import LOADER, load_settings
from .backup import backup
from .enrol import enrol
from .models import models
from .print_errors import print_errors
from .secrets import secret
from .tokens import token

SETTINGS_HELP = "\n".join(
    ["\b", "Settings (environment variables):", *LOADER.help(90, {"data_dir": "~/.local/share/agent-mesh"})]
)
"""The help text on settings: name, default and meaning of each."""

app = typer.Typer(
    help="The mesh: holds every key, answers the agents' model calls, starts agents.",
    epilog="`agent-host up --help` lists the settings.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(epilog=SETTINGS_HELP)
@print_errors
def up() -> None:
    """Run the host until SIGTERM or Ctrl-C."""
    from ..serve import serve

    serve(load_settings(), lambda line: print(line, flush=True))


@app.command(epilog=SETTINGS_HELP)
@print_errors
def listen() -> None:
    """Run only the mediation listener, for agents that other programs boot: no model proxy, no runtimes."""
    from ..serve import Role, serve

    serve(load_settings(), lambda line: print(line, flush=True), Role.LISTENER)


@app.command(epilog=SETTINGS_HELP)
@print_errors
def hub() -> None:
    """Run one more hub beside a host, on the same PostgreSQL: agents may be at either."""
    from ..serve import Role, serve

    serve(load_settings(), lambda line: print(line, flush=True), Role.HUB)


@app.command()
@print_errors
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
    write_text(safe_text(RunOnce(driver, image, name, timeout).run(task, data_dir)) + "\n")


app.command()(print_errors(models))
app.command()(print_errors(token))
app.command()(print_errors(enrol))
app.command()(print_errors(backup))
app.command()(print_errors(conformance))
app.add_typer(secret, name="secret")


def main() -> None:
    app()
