"""Writes docs/reference/settings.md from the settings themselves: `python -m scripts.settings`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agent_common.protocol import AgentSettings, field_docs
from agent_common.settings import SettingsLoader
from agent_runtime.settings import LOADER, Settings
from frontends.settings import LOADER as BOTS_LOADER
from frontends.settings import BotsEnvironment

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "settings.md"
HEAD = """\
# Settings of the runtime and of the bots

```sh
AGENT_PORT=8401 AGENT_TOKEN_FILE=/run/secrets/agent_token AGENT_RETENTION_DAYS=30 agent-runtime serve
```

Every setting is an environment variable. `agent-runtime serve --help` lists them too. A wrong one, or an `AGENT_` name
that is no setting, stops the start with every fault named. A secret also has a `_FILE` form that names a file which
holds it. Settings of the host are on [its own page](host.md).

## Tokens, addresses and folders

These are the operator's alone: the maker of a [workspace](host.md#workspaces) on a host cannot set them.

"""
CHOSEN = """\

## The agent and its limits

The maker of a [workspace](host.md#workspaces) on a host may choose these for it. Two may only be narrowed then:
`AGENT_CONFINEMENT` to `required`, `AGENT_SKILL_DEPENDENCIES` to `off`.

"""
BOTS = """\

## The bots

`agent bots` reads these, and no setting of the runtime. [Bots](../how-to/bots.md) says what the file holds.

"""
COLUMNS = """\
| variable | default | takes | what it does |
|---|---|---|---|
"""
_KINDS: dict[type, str] = {bool: "`true`, `false`", int: "whole number", float: "number", Path: "path"}
SHOWN = {
    "AGENT_DATA_DIR": "`/data` where it can be written, else `~/.local/share/agent-runtime`",
    "BOTS_DATA_DIR": "`~/.local/share/agent-bots`",
    "BOTS_WORKSPACE": "none",
}


def page() -> str:
    """The whole page."""
    chosen = list(AgentSettings.model_fields)
    others = [name for name in Settings.model_fields if name not in chosen]
    bots = _table(BOTS_LOADER, list(BotsEnvironment.model_fields))
    return HEAD + _table(LOADER, others) + CHOSEN + _table(LOADER, chosen) + BOTS + bots


def _table(loader: SettingsLoader[Any], names: list[str]) -> str:
    docs = {name: _linked(text) for name, text in field_docs(loader.model).items()}
    return COLUMNS + "".join(
        f"| `{loader.env_name(name)}`{' (secret)' if loader.is_secret(name) else ''} | {_default(loader, name)}"
        f" | {allowed(loader.model.model_fields[name])} | {docs[name]} |\n"
        for name in names
    )


def allowed(field: FieldInfo) -> str:
    """What a setting takes: its kind, with the bounds or the words that it may be."""
    kinds = [kind for kind in get_args(field.annotation) or (field.annotation,) if kind is not type(None)]
    words = next((get_args(kind) for kind in (field.annotation, *kinds) if get_origin(kind) is Literal), ())
    if words:
        return ", ".join(f"`{word}`" for word in words)
    name = _KINDS.get(kinds[0], "text") if isinstance(kinds[0], type) else "text"
    if isinstance(kinds[0], type) and issubclass(kinds[0], BaseModel):
        name = "JSON"
    return " ".join((name, *(_bound(one) for one in field.metadata if _bound(one))))


def _linked(text: str) -> str:
    """The description with `(docs/...)` as a link from the page."""

    def link(cited: re.Match[str]) -> str:
        return f"([page]({os.path.relpath(PAGE.parents[2] / cited[1], PAGE.parent)}))"

    return re.sub(r"\((docs/[\w/-]+\.md)\)", link, text)


def _bound(one: object) -> str:
    """A limit as the page shows it; texts are limited where their description says so."""
    for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
        if (value := getattr(one, name, None)) is not None:
            return f"{sign} {value}"
    return ""


def _default(loader: SettingsLoader[Any], name: str) -> str:
    if loader.env_name(name) in SHOWN:
        return SHOWN[loader.env_name(name)]
    default = loader.model.model_fields[name].get_default(call_default_factory=True, validated_data={})
    if isinstance(default, BaseModel):
        return f"`{default.model_dump_json(exclude_none=True)}`"
    return "none" if default is None else f"`{default}`"


if __name__ == "__main__":
    PAGE.write_text(page())
