"""Errors of the commands, as lines for a person."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from agent_common.terminal_text import safe_line, write_text

from ..errors import RequestError, StartError

P = ParamSpec("P")


def print_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Make a command print the faults of a StartError, one a line, and exit with 1."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (StartError, RequestError) as error:
            for line in error.message.splitlines():
                shown = safe_line(line.removeprefix("agent-host: "))  # a host's log has it too
                write_text(f"agent-host: {shown}\n", sys.stderr)
            raise typer.Exit(1) from None

    return wrapped
