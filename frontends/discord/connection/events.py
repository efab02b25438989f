"""Events of the gateway on their way to discord.py: missing fields are added, and one that fails ends nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from typing import Any, cast

from agent_common.telemetry import Seldom

Parser = Callable[[Any], Any]
_SESSION = {"READY", "RESUMED"}
"""Without one of these there is no session: discord.py has to begin another one."""
_USER = {"username": "", "discriminator": "0", "avatar": None}
_MEMBER: dict[str, Any] = {"roles": [], "flags": 0}
_MESSAGE: dict[str, Any] = {"type": 0, "content": "", "mentions": [], "mention_roles": []}
_INTERACTION = {"version": 1, "application_id": 0, "attachment_size_limit": 0}
_CHANNEL = {"name": "", "position": 0}
_GUILD_TEXT = 0
_DM = 1

_log = logging.getLogger(__name__)


def guard(parsers: MutableMapping[str, Parser]) -> None:
    """Keep an event that cannot be read from ending the connection, as it does in discord.py."""
    seldom = Seldom()
    for event, parse in parsers.items():
        if event not in _SESSION:
            parsers[event] = partial(_parse, event, parse, seldom)


def _parse(event: str, parse: Parser, seldom: Seldom, data: Any) -> None:
    try:
        parse(_completed(event, data))
    except Exception as error:  # noqa: BLE001 - discord.py may raise anything for an event that lacks a field
        if (skipped := seldom.count_event(event)) is not None:
            what = f"{type(error).__name__}: {error}"
            _log.warning(
                "Discord sent a %s that cannot be read (%s others since the last line): %s", event, skipped, what
            )


def _completed(event: str, data: Any) -> Any:
    """Return the event with the fields that discord.py demands and the bot does not need."""
    match event:
        case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
            return _message(data)
        case "INTERACTION_CREATE":
            return _interaction(data)
        case _:
            return data


def _message(data: Mapping[str, Any]) -> dict[str, Any]:
    message = _with_people({**_MESSAGE, **data})
    message["mentions"] = [{**_USER, **person} for person in message["mentions"]]
    if referenced := message.get("referenced_message"):
        message["referenced_message"] = _message(referenced)
    return message


def _interaction(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a complete interaction. Of the channel the bot reads only id and name, so any kind will do."""
    channel = cast("Mapping[str, Any]", data.get("channel") or {"id": data["channel_id"]})
    kind = _GUILD_TEXT if data.get("guild_id") else _DM
    interaction = _with_people({**_INTERACTION, **data, "channel": {**_CHANNEL, **channel, "type": kind}})
    if message := interaction.get("message"):
        interaction["message"] = _message(message)
    return interaction


def _with_people(data: dict[str, Any]) -> dict[str, Any]:
    for key in data.keys() & {"author", "user"}:
        data[key] = {**_USER, **data[key]}
    if member := data.get("member"):
        data["member"] = {**_MEMBER, **member}
        if user := member.get("user"):
            data["member"]["user"] = {**_USER, **user}
    return data
