"""The commands of `agent-runtime`. They use argparse because a microVM's cold start is a delay that users notice."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from .. import __version__
from ..errors import RequestError, StartError, StoreError, ToolFailure


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Return the exit code: 0, or 1 if it failed."""
    argv = sys.argv[1:] if argv is None else list(argv)
    gc.disable()  # a start makes little garbage; the server turns it on again
    given = _parser(helping=bool({"-h", "--help"} & set(argv))).parse_args(argv)
    try:
        if given.command == "import":
            _import(given.file, keep_permissions=given.keep_permissions)
        elif given.command == "backup":
            _back_up(given.file)
        elif given.command == "mcp":
            return 0 if _try_servers(given.name) else 1
        elif given.command == "run":
            return 0 if _run(given.input, given.output) else 1
        elif given.command == "skill":
            _skill(given)
        else:
            _serve()
    except (StartError, RequestError, StoreError, ToolFailure) as error:
        _print(f"agent-runtime: {error}", sys.stderr)
        return 1
    return 0


def _print(text: str, stream: TextIO | None = None) -> None:
    """Print what may quote a plugin, an MCP server or a file."""
    from agent_common.terminal_text import safe_text, write_text

    write_text(safe_text(text) + "\n", stream)


def _serve() -> None:
    from agent_common.telemetry import configure

    from ..settings import load_settings

    settings = load_settings()
    configure(settings.log_level, settings.log_format)
    from ..server import serve

    serve(settings)


def _run(source: Path, target: Path) -> bool:
    from agent_common.telemetry import configure

    from ..settings import load_settings

    settings = load_settings()
    configure(settings.log_level, settings.log_format)
    gc.enable()
    from .run_file import run

    return run(settings, source, target)


def _try_servers(name: str | None) -> bool:
    import asyncio

    from agent_common.telemetry import configure

    from ..runtime import try_servers
    from ..settings import load_settings

    settings = load_settings()
    configure("error")  # faults are printed with their server
    lines, good = asyncio.run(try_servers(settings, name))
    _print("\n".join(lines))
    return good


def _import(path: str, *, keep_permissions: bool) -> None:
    """Store an export while no server runs. Raises StartError, InvalidRequest, Conflict, StoreError."""
    from ..runtime import import_session
    from ..settings import load_settings

    session_id, left_out = import_session(load_settings(), path, keep_permissions=keep_permissions)
    for rule in left_out:
        _print(f"left out the rule {rule!r}")
    _print(f"imported session {session_id}")


def _back_up(file: Path | None) -> None:
    from ..settings import load_settings
    from ..store import Backup
    from ..workspace import Home

    print(Backup(Home(load_settings().data_dir).database, file).make())


def _skill(given: argparse.Namespace) -> None:
    from agent_common.telemetry import configure

    from ..runtime import allow_skill, test_skill
    from ..settings import load_settings

    settings = load_settings()
    configure(settings.log_level, settings.log_format)
    gc.enable()
    if given.action == "test":
        _print(test_skill(settings, given.file, given.skill, given.arguments))
    else:
        _print(allow_skill(settings, given.file, given.secret, given.host))


def _parser(*, helping: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent-runtime", description="A runtime for one LLM agent.")
    parser.add_argument("--version", action="version", version=f"agent-runtime {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "serve",
        help="run the agent's server",
        description="Run the agent's server, which is configured by environment variables:",
        epilog=settings_help() if helping else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    running = commands.add_parser(
        "run",
        help="carry out one request from a file",
        description="Carry out one request (a WorkRequest or a TaskAssignment as JSON) and write its result. If it is"
        " run again with the same AGENT_DATA_DIR, it continues where it stopped. Exit code 0: completed.",
    )
    running.add_argument("--input", type=Path, default=Path("input.json"), metavar="FILE", help="[input.json]")
    running.add_argument("--output", type=Path, default=Path("result.json"), metavar="FILE", help="[result.json]")
    importing = commands.add_parser(
        "import",
        help="store an exported session",
        description="Store an exported session (JSON Lines) in AGENT_DATA_DIR while no server uses it, for exports"
        " that are too large for POST /sessions/import.",
    )
    importing.add_argument("file", metavar="FILE", help="the export")
    importing.add_argument(
        "--keep-permissions", action="store_true", help="let the session's own rules hold here; else they are shown"
    )
    backup = commands.add_parser(
        "backup",
        help="copy the database while the server works",
        description="Make a checked copy of the database in {AGENT_DATA_DIR} and print its path. A server may run.",
    )
    backup.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="a new file; the default is one in {AGENT_DATA_DIR}/backups, which keeps the newest two",
    )
    _add_skill(commands.add_parser("skill", help="try a skill, or allow it secrets and hosts"))
    mcp = commands.add_parser("mcp", help="try the configured MCP servers")
    trying = mcp.add_subparsers(dest="action", required=True).add_parser(
        "test",
        help="connect to them without a turn",
        description="Connect to the MCP servers in AGENT_MCP_FILE (default: {AGENT_DATA_DIR}/mcp.json) and print each"
        " one's state, tools, and faults with their fixes. Exit code 0: all are ready.",
    )
    trying.add_argument("name", nargs="?", metavar="NAME", help="only this server")
    return parser


def _add_skill(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    testing = actions.add_parser(
        "test",
        help="try a plugin as the server would",
        description="Import a plugin in a confined process, install its dependencies, run its self_check and, with"
        " --arguments, call it. Needs no server and no model. Exit code 0: the server would offer it.",
    )
    testing.add_argument("--arguments", metavar="JSON", help="call it with these arguments, a JSON object")
    testing.add_argument("--skill", metavar="NAME", help="the skill to call; the default is the plugin's only one")
    allowing = actions.add_parser(
        "allow",
        help="let a plugin have secrets and reach hosts",
        description="Let a plugin have variables of the server's environment, and reach hosts, as long as its code does"
        " not change. Replaces the previous grant; without --secret and --host the plugin is granted nothing.",
    )
    for action in (testing, allowing):
        action.add_argument("file", type=Path, metavar="FILE", help="the plugin: a Python file, or a package's folder")
    allowing.add_argument("--secret", metavar="NAME", action="append", default=[], help="a variable's name; repeatable")
    allowing.add_argument(
        "--host",
        metavar="HOST[:PORT]",
        action="append",
        default=[],
        help="a host, or *.host: its ports 80 and 443, or the one that is named; repeatable",
    )


def settings_help() -> str:
    """Return one entry for each setting: name, default, description."""
    from ..settings import LOADER

    return "\n".join(LOADER.help(100))
