"""Check the settings that a caller wants for a workspace, by the runtime's own rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue, ValidationError

from agent_common.protocol import AGENT_PREFIX, NARROWEST, AgentSettings
from agent_common.user_folder import check_user_folder

from ..errors import InvalidRequest
from .driver import Driver

ALLOWED: Mapping[str, str] = {f"{AGENT_PREFIX}{field.upper()}": field for field in AgentSettings.model_fields}
"""The variables that a caller may set, and their fields."""
USER_FOLDER = f"{AGENT_PREFIX}WORKSPACE_DIR"
"""The variable that names a folder of the user, in which the agent works."""
_LONGEST_VALUE = 4000
_LONGEST_NAME = 100
_MOST_FAULTS = 10


def check_settings(given: Mapping[str, JsonValue]) -> dict[str, str | None]:
    """Return the settings as environment variables; None takes one away. Raises InvalidRequest that names each
    fault."""
    faults: list[tuple[str, str]] = []
    checked: dict[str, str | None] = {}
    for name, value in given.items():
        checked[name] = text = _as_text(value)
        faults += [(f"settings.{name[:_LONGEST_NAME]}{within}", fault) for within, fault in _faults(name, value, text)]
        if len(faults) >= _MOST_FAULTS:
            break
    if faults:
        raise InvalidRequest.from_faults(faults)
    return checked


def merge_settings(stored: Mapping[str, str], changed: Mapping[str, str | None]) -> dict[str, str]:
    """Return the stored settings with the changes applied."""
    return {name: value for name, value in {**stored, **changed}.items() if value is not None}


def check_passed(name: str, driver: Driver, settings: Mapping[str, str], host_folder: Path) -> None:
    """Raise InvalidRequest if the driver of this name does not pass the settings to the runtime, or if they name a
    folder of the user in which no agent may work. `host_folder`: the host's data folder."""
    if settings and not driver.passes_settings:
        message = f"the driver {name!r} passes none; set them where the agent is booted"
        raise InvalidRequest(f"settings: {message}", faults=[("settings", message)])
    if (folder := settings.get(USER_FOLDER)) is None:
        return
    try:
        if not driver.sees_host_files:
            raise ValueError(f"the driver {name!r} shows its agent no folder of this machine; leave it out")
        check_user_folder(Path(folder), apart_from=(host_folder,))
    except ValueError as error:
        raise InvalidRequest.from_faults([(f"settings.{USER_FOLDER}", str(error))]) from None


def _as_text(value: JsonValue) -> str | None:
    """Return the value as an environment variable has it."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _faults(name: str, value: JsonValue, text: str | None) -> list[tuple[str, str]]:
    """Return what is wrong with a setting: where in its value, and the fault. `text`: the value as text."""
    field = ALLOWED.get(name)
    if field is None:
        return [("", f"a caller may not set this; allowed are {', '.join(ALLOWED)}")]
    if text is None:
        return []
    if isinstance(value, list | dict) and field != "compaction":
        return [("", "must be text, a number, true or false")]
    if not text:
        return [("", "is empty; leave it out")]
    if len(text) > _LONGEST_VALUE or not text.isprintable():
        return [("", f"must be at most {_LONGEST_VALUE} printable characters on one line")]
    if field in NARROWEST and text != NARROWEST[field]:
        return [("", f"may only be {NARROWEST[field]!r} here: any other value may widen what the operator has set")]
    try:
        AgentSettings.model_validate({field: text})
    except ValidationError as error:
        return [(_within(one["loc"]), one["msg"].removeprefix("Value error, ")) for one in error.errors()]
    return []


def _within(location: tuple[int | str, ...]) -> str:
    return "".join(f".{part}" for part in location[1:])
