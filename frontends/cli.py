"""`agent bots`: runs the bots, and says who may use them. argparse, because a process that idles should be small."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from agent_common.clock import SystemClock
from agent_common.errors import StartError

from .people import PairingError, WrongCode, confirm, people_in, unpair_in
from .settings import load_data_dir, load_settings
from .store import NAME, opened, transaction

DONE = 0
FAILED = 1
USAGE = 2
WRONG_CODE_SECONDS = 1.0
"""What a wrong code costs."""
_LIBRARIES = {"telegram", "discord", "apprise"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out what the arguments say, and return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        return given.run(given)
    except StartError as error:
        return _failed(str(error))
    except PairingError as error:
        if isinstance(error, WrongCode):
            time.sleep(WRONG_CODE_SECONDS)
        return _failed(str(error))


def _failed(message: str) -> int:
    for line in message.splitlines():
        print(f"agent bots: {line}", file=sys.stderr)
    return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("agent bots", description="Run the bots of chat platforms.")
    parser.set_defaults(run=_run)
    commands = parser.add_subparsers(metavar="COMMAND")
    pair = commands.add_parser("pair", help="admit the stranger who has this code", description=_pair.__doc__)
    pair.add_argument("code", metavar="CODE")
    pair.add_argument("--person", metavar="PRINCIPAL", help="link it to this person, who is paired already")
    pair.set_defaults(run=_pair)
    people = commands.add_parser("people", help="list who is paired", description=_people.__doc__)
    people.set_defaults(run=_people)
    unpair = commands.add_parser("unpair", help="take all bots away from a person", description=_unpair.__doc__)
    unpair.add_argument("principal", metavar="PRINCIPAL")
    unpair.set_defaults(run=_unpair)
    return parser


def _run(_: argparse.Namespace) -> int:
    """Run the bots until SIGTERM or Ctrl-C."""
    settings = load_settings()
    try:
        from .bots import configure_logs, make_platform, run
        from .conversation import COMMANDS, Conversations

        configure_logs(settings)
        return DONE if run(settings, make_platform, Conversations, COMMANDS) else FAILED
    except ModuleNotFoundError as error:
        if error.name not in _LIBRARIES:
            raise
        return _failed(f"the package {error.name!r} is not installed: install the wheel with its extra bots")


def _pair(given: argparse.Namespace) -> int:
    """Admit the stranger to whom a bot has shown the code. The bot says so in the chat."""
    with opened(load_data_dir() / NAME) as connection:
        paired = confirm(connection, given.code, given.person, now=SystemClock().now_ms())
    linked = "" if paired.principal == paired.identity else f" as {paired.principal}"
    print(f"{paired.identity} may use the bot {paired.bot}{linked}")
    return DONE


def _people(_: argparse.Namespace) -> int:
    """List who is paired: the person, their identities, and the bots that they may use."""
    with opened(load_data_dir() / NAME) as connection:
        found = people_in(connection)
    for person in found:
        print(person.principal, ",".join(person.identities), ",".join(person.bots), sep="\t")
    return DONE


def _unpair(given: argparse.Namespace) -> int:
    """Take all bots away from a person, or from one linked identity. What waits of them is dropped."""
    with opened(load_data_dir() / NAME) as connection, transaction(connection):
        allowed = {identity for person in people_in(connection) for identity in person.allowed}
        gone = unpair_in(connection, given.principal, now=SystemClock().now_ms())
    print(f"{', '.join(sorted(gone))} may use no bot")
    for identity in sorted(gone & allowed):
        print(f"agent bots: {identity} is in bots.yaml, and is paired again at the next start", file=sys.stderr)
    return DONE
