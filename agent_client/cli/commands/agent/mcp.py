"""`agent mcp`: the MCP servers of an agent."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import CliError, UsageError
from ...private_file import replace_private_file
from ...run import Invocation, command
from .local_runtime import find_local_agent, run_runtime

app = typer.Typer(help="Name MCP servers, list and try them.", rich_markup_mode=None, no_args_is_help=True)
FileOption = Annotated[
    Path | None, typer.Option("--file", help="The agent's mcp.json; without it that of the workspace, if it is here.")
]


@app.command("list")
@command
async def list_(call: Invocation) -> None:
    """List the MCP servers of an agent, with their states and faults."""
    async with call.agent() as agent:
        found = (await agent.capabilities()).mcp_servers
    if call.output.json:
        call.output.document({"mcp_servers": [one.model_dump(mode="json") for one in found]})
        return
    rows = [(one.name, one.kind, one.state, len(one.tools), one.error) for one in found]
    call.output.table(("server", "kind", "state", "tools", "error"), rows)
    for one in found:
        for fault in one.faults:
            call.output.note(f"{one.name}: left out: {fault}")


@app.command("test")
@command
async def try_(
    call: Invocation,
    name: Annotated[str | None, typer.Argument(help="Only this server.")] = None,
    file: FileOption = None,
) -> int:
    """Connect to the servers without a turn, with the agent-runtime of this machine. Exit code 0: all are ready."""
    from ...local import FOLDER_SETTING

    path, user_folder = await _file_of(call, file)
    if not path.exists():
        raise CliError(f"no MCP server is named yet: there is no {path}", "`agent mcp add` names one")
    environment = {"AGENT_MCP_FILE": str(path), **({FOLDER_SETTING: user_folder} if user_folder else {})}
    return await run_runtime(call, ["mcp", "test", *([name] if name else [])], environment)


@app.command()
@command
async def add(
    call: Invocation,
    name: Annotated[str, typer.Argument(help="The server's name.")],
    program: Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="A local program.")] = None,
    *,
    server: Annotated[str | None, typer.Option("--server", metavar="URL", help="A server elsewhere.")] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A variable that it gets from the runtime's. Repeatable.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="HEADER=NAME", help="A header from a variable. Repeatable.")
    ] = None,
    network: Annotated[list[str] | None, typer.Option(metavar="HOST", help="It may reach it. Repeatable.")] = None,
    read: Annotated[list[str] | None, typer.Option(metavar="FOLDER", help="It may read it. Repeatable.")] = None,
    file: FileOption = None,
) -> None:
    """Name a server in an agent's mcp.json; its next start reads that. Values of variables are not written down."""
    if bool(program) == bool(server):
        raise UsageError("a server is a program or a URL", "write `-- COMMAND...` or --server URL")
    entry: dict[str, Any] = {"url": server} if server else {"command": (program or [])[0], "args": (program or [])[1:]}
    entry |= {"env": _variables(env)} if env else {}
    entry |= {"headers": _headers(header)} if header else {}
    entry |= {"network": network} if network else {}
    entry |= {"read": read} if read else {}
    _check(name, entry)
    path, _ = await _file_of(call, file)
    with _changing(path) as servers:
        if name in servers:
            raise UsageError(
                f"{path} names a server {name!r} already", f"`agent mcp remove {name}` first, or choose another name"
            )
        servers[name] = entry
    if call.output.json:
        call.output.document({"file": str(path), "name": name, "server": entry})
    else:
        call.output.line(f"{name} is in {path}")
    if variables := [*(env or ()), *(one.partition("=")[2] for one in header or ())]:
        call.output.note(
            f"its next start needs {', '.join(variables)} in the environment of its host: `agent down`, then `agent up`"
        )
    call.output.note(f"try it with `agent mcp test`; the agent has it from its next start on: {_restart(call, file)}")


@app.command()
@command
async def remove(
    call: Invocation, name: Annotated[str, typer.Argument(help="The server's name.")], *, file: FileOption = None
) -> None:
    """Take a server out of an agent's mcp.json; its next start reads that."""
    path, _ = await _file_of(call, file)
    with _changing(path) as servers:
        if name not in servers:
            raise CliError(f"{path} names no server {name!r}", f"it names {', '.join(servers) or 'none'}")
        del servers[name]
    if call.output.json:
        call.output.document({"file": str(path), "name": name})
    else:
        call.output.line(f"{name} is no longer in {path}")
    call.output.note(f"the agent has it until its next start: {_restart(call, file)}")


def _restart(call: Invocation, file: Path | None) -> str:
    """Return in words how the agent starts again, without the others of its host."""
    try:
        name = None if file else call.target().workspace
    except CliError:  # there is no host
        name = None
    return f"`agent stop {name or 'WORKSPACE'}`, then `agent start {name or 'WORKSPACE'}`"


def _variables(names: list[str]) -> dict[str, str]:
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise UsageError(f"--env {name!r} is no name of a variable", "its value comes from the runtime's own")
    return {name: f"${{{name}}}" for name in names}


def _headers(given: list[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    return {head: _variables([variable])[variable] for head, _, variable in pairs}


def _check(name: str, entry: dict[str, Any]) -> None:
    """Raise UsageError with the faults for which the runtime would refuse to start."""
    from pydantic import ValidationError

    from agent_common.mcp_servers import ServerFields, fault_text

    filled = {"name": name, **entry}  # what variables stand for is known at the start only
    if entry.get("url", "").startswith("${"):
        filled["url"] = "http://variable.example"
    if "read" in entry:
        filled["read"] = ["/variable" if folder.startswith("${") else folder for folder in entry["read"]]
    try:
        ServerFields.model_validate(filled)
    except ValidationError as error:
        faults = dict.fromkeys(fault_text(one) for one in error.errors(include_input=False))
        raise UsageError("; ".join(faults)) from None


@contextmanager
def _changing(path: Path) -> Generator[dict[str, Any]]:
    """Give the servers that the file names, and write what has become of them. Raises CliError."""
    from agent_common.json_reader import JsonLimits, read_json
    from agent_common.mcp_servers import SERVER_KEYS, object_with_servers

    try:
        document: Any = read_json(path.read_bytes(), JsonLimits(1 << 20)) if path.exists() else {}
        if not isinstance(document, dict):
            raise ValueError("it is not an object")
        listing: Any = object_with_servers(document)  # pyright: ignore[reportUnknownArgumentType]
        key = next((one for one in SERVER_KEYS if one in listing), SERVER_KEYS[0])
        yield listing.setdefault(key, {})
        replace_private_file(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise CliError(f"{path} is no configuration of MCP servers: {error}", "mend it") from error


async def _file_of(call: Invocation, given: Path | None) -> tuple[Path, str | None]:
    """Return the path of the agent's mcp.json on this machine, and the folder of a person in which it works, if it is
    known. Raises UsageError."""
    named = given or os.environ.get("AGENT_MCP_FILE")
    if named:
        return Path(named), None
    if (agent := await find_local_agent(call)) is None:
        raise UsageError("the agent's mcp.json is not on this machine", "name it with --file")
    return agent.data_dir / "mcp.json", agent.user_folder
