"""Commands as Discord registers them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..platform import Command

_DESCRIPTION = 100
_STRING = 3
_IN_GUILDS_AND_PRIVATE_CHATS = [0, 1]


def slash_commands(commands: Sequence[Command]) -> list[dict[str, Any]]:
    """Return the commands as the body of a request that replaces all."""
    return [
        {
            "type": 1,
            "name": command.name,
            "description": command.description[:_DESCRIPTION],
            "options": [_option(command.argument)] if command.argument else [],
            "contexts": _IN_GUILDS_AND_PRIVATE_CHATS,
        }
        for command in commands
    ]


def _option(argument: str) -> dict[str, Any]:
    name = re.sub(r"[^\w-]+", "_", argument.lower()).strip("_")[:32] or "text"
    return {"type": _STRING, "name": name, "description": argument[:_DESCRIPTION], "required": False}
