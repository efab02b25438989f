"""`agent-host conformance`: test any agent or listener as the other side of the channel."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_common.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .drive import WorkDriver
    from .host import Options
    from .rules import Finding

_MOST_BYTES = 1 << 20


def conformance(
    *,
    agent: Annotated[
        str | None, typer.Option(metavar="URL", help="Listen here as a host, and test the agent that dials in.")
    ] = None,
    listener: Annotated[
        str | None, typer.Option(metavar="URL", help="Dial this listener as an agent, and test it.")
    ] = None,
    dialect: Annotated[str, typer.Option(help="`strict`, or `loose`: only the rules of that dialect.")] = "strict",
    key_file: Annotated[Path | None, typer.Option(help="The workspace's key, for the challenge.")] = None,
    agent_id: Annotated[
        str, typer.Option(help="The identity that the tester gives the agent, or claims to be.")
    ] = "agent-under-test",
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait for a frame that must come.", min=0.5, max=600)
    ] = 10.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the other side to be there.", min=1)] = 60.0,
    work: Annotated[str, typer.Option(help="Agents: content of a request that is soon done.")] = "ping",
    slow: Annotated[
        str | None,
        typer.Option(help="Agents: content of one that takes two seconds or more; without it some rules are skipped."),
    ] = None,
    tool: Annotated[str | None, typer.Option(help="Agents: content of one that calls a tool.")] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="Agents: a command that posts a task to the agent's own HTTP API."),
    ] = None,
    constraints: Annotated[
        Path | None, typer.Option(help="Agents: a payload of constraints that the agent accepts.")
    ] = None,
    drive: Annotated[
        str | None,
        typer.Option(
            metavar="URL|COMMAND",
            help="Listeners: how work is submitted: the URL of an agent-host (with --token), or a command that gets "
            "WORK_CONTENT and may print the request's id. A listener that sends work by itself needs none.",
        ),
    ] = None,
    token: Annotated[
        str, typer.Option(envvar="MESH_ADMIN_TOKEN", help="Listeners: the operator's token for --drive.")
    ] = "",
    workspace: Annotated[str | None, typer.Option(help="Listeners: the workspace in --drive [the --agent-id].")] = None,
    only: Annotated[
        str, typer.Option(help="Rules to try, with commas between them; the first one is always tried.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Test an agent or a listener of the mediation channel against the protocol (docs/protocols). Exits with 1 when a
    rule is broken."""
    from .host import DEFAULT_PAYLOAD, Options

    if (agent is None) == (listener is None):
        raise StartError("name either --agent URL or --listener URL")
    if dialect not in ("strict", "loose"):
        raise StartError(f"--dialect: must be strict or loose, not {dialect!r}")
    options = Options(
        dialect=dialect,
        key=_read_option_file(key_file, "--key-file"),
        agent_id=agent_id,
        timeout=timeout,
        wait=wait,
        work=work,
        slow=slow,
        tool=tool,
        payload=_read_option_file(constraints, "--constraints") or DEFAULT_PAYLOAD,
    )
    rules = [name for name in only.replace(" ", "").split(",") if name]
    if agent is not None:
        found = _judge_agent(agent, options, rules, task)
    else:
        found = _judge_listener(listener or "", options, rules, _work_driver(drive, token, workspace or agent_id))
    print_findings(found, as_json=as_json)


def print_findings(found: Sequence[Finding], *, as_json: bool) -> None:
    """Print the table, or JSON. Exits with 1 if a rule is broken."""
    from . import report

    if as_json:
        typer.echo(report.as_json(found))
    else:
        report.print_table(found)
    if any(finding.state == "failed" for finding in found):
        raise typer.Exit(1)


def _judge_agent(url: str, options: Options, rules: list[str], task: str | None) -> list[Finding]:
    from agent_common.net import parse_endpoint

    from .drive import CommandTaskPoster
    from .host import TesterHost
    from .run import judge_agent

    try:
        endpoint = parse_endpoint(url, listening=True)
    except ValueError as error:
        raise StartError(f"--agent: {error}") from error
    post_task = CommandTaskPoster(task) if task else None
    return asyncio.run(judge_agent(TesterHost(endpoint, options, post_task), rules))


def _judge_listener(url: str, options: Options, rules: list[str], driver: WorkDriver) -> list[Finding]:
    from agent_common.net import parse_endpoint

    from .guest import TesterGuest
    from .run import judge_listener

    try:
        endpoint = parse_endpoint(url)
    except ValueError as error:
        raise StartError(f"--listener: {error}") from error
    return asyncio.run(judge_listener(TesterGuest(endpoint, options, driver), rules))


def _work_driver(given: str | None, token: str, workspace: str) -> WorkDriver:
    from .drive import CommandWorkDriver, HttpWorkDriver, NoWorkDriver

    if given is None:
        return NoWorkDriver()
    if given.startswith(("http://", "https://")):
        return HttpWorkDriver(given, token, workspace)
    return CommandWorkDriver(given)


def _read_option_file(path: Path | None, option: str) -> bytes | None:
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            found = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise StartError(f"{option}: cannot read {path}: {error.strerror}") from error
    if len(found) > _MOST_BYTES or not found.strip():
        raise StartError(f"{option}: {path} is {'empty' if not found.strip() else 'larger than 1 MiB'}")
    return found
