"""What Discord sends when a person calls a slash command: options checked against what the bot has registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .entities import JSON

_SUBCOMMAND = 1
_GROUP = 2
_PYTHON_TYPES: dict[int, tuple[type, ...]] = {3: (str,), 4: (int,), 5: (bool,), 10: (int, float)}


def command_data(commands: Sequence[JSON], line: str, options: Mapping[str, object]) -> JSON:
    """The data of the interaction. Raises ValueError if people could not call the command so."""
    name, *below = line.split()
    command = _named(commands, name, "commands")
    data = {"id": command["id"], "name": name, "type": command["type"]}
    data |= {"guild_id": command["guild_id"]} if "guild_id" in command else {}
    return data | {"options": _options(command, below, options)}


def _options(command: JSON, below: Sequence[str], given: Mapping[str, object]) -> list[JSON]:
    offered: list[JSON] = command.get("options") or []
    if below:
        inner = _named(offered, below[0], "subcommands")
        return [{"name": below[0], "type": inner["type"], "options": _options(inner, below[1:], given)}]
    if any(each["type"] in {_SUBCOMMAND, _GROUP} for each in offered):
        raise ValueError(f"name one of the subcommands {[each['name'] for each in offered]}")
    if missing := [each["name"] for each in offered if each.get("required") and each["name"] not in given]:
        raise ValueError(f"the options {missing} are required")
    return [_option(_named(offered, name, "options"), value) for name, value in given.items()]


def _option(option: JSON, value: object) -> JSON:
    if not isinstance(value, _PYTHON_TYPES.get(option["type"], (object,))):
        raise ValueError(f"the option {option['name']} does not take {value!r}")
    choices = [each["value"] for each in option.get("choices") or ()]
    if choices and value not in choices:
        raise ValueError(f"the option {option['name']} takes one of {choices}")
    return {"name": option["name"], "type": option["type"], "value": value}


def _named(offered: Sequence[JSON], name: str, what: str) -> JSON:
    found = next((each for each in offered if each["name"] == name), None)
    if found is None:
        raise ValueError(f"no {name!r} among the {what} {[each['name'] for each in offered]}")
    return found
