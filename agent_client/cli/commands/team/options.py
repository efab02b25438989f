"""Options and texts that the commands of a team have in common."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import UsageError

if TYPE_CHECKING:
    from agent_common.protocol import Cause

MAX_STDIN_BYTES = 1 << 20
"""More than a value may have."""
TeamOption = Annotated[
    str | None, typer.Option("--team", metavar="NAME", help="The team; as the operator `default` without it.")
]
IfVersion = Annotated[int | None, typer.Option("--if-version", metavar="N", min=1, help="Only if it has this version.")]
IfAbsent = Annotated[bool, typer.Option("--if-absent", help="Only if there is none.")]
Value = Annotated[str, typer.Argument(metavar="JSON", help="A JSON value; `-` reads it from stdin.")]


def json_value(given: str, text: bool) -> Any:
    """Return the value that an argument says: JSON, or with `text` the text itself. Raises UsageError."""
    from agent_common.json_reader import JsonLimits, read_json

    data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1) if given == "-" else given.encode("utf-8", "surrogateescape")
    if len(data) > MAX_STDIN_BYTES:
        raise UsageError(f"the value has more than {MAX_STDIN_BYTES} bytes", "save it as an artifact")
    try:
        return data.decode() if text else read_json(data, JsonLimits(MAX_STDIN_BYTES))
    except ValueError as error:
        raise UsageError(f"not a JSON value: {error}", "for a text write --text, or quotes inside the quotes") from None


def made_by(cause: Cause) -> str:
    """Return the task and the session that have caused a write, as far as they are known."""
    return " ".join(filter(None, (cause.task, cause.session)))
