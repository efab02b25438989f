"""Writes docs/settings.md from the settings themselves: `python -m scripts.settings`."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from agent_runtime.protocol import field_docs
from agent_runtime.settings import PREFIX, Settings, secret_fields

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"
HEAD = """\
# Settings of the runtime

Every setting is an environment variable. `agent-runtime serve --help` lists them too. A wrong one stops the start with
every fault named. A secret also has a `_FILE` form that names a file which holds it. Settings of the host are on
[its own page](host.md).

| variable | default | what it does |
|---|---|---|
"""
SHOWN = {"data_dir": "`/data` where it can be written, else `~/.local/share/agent-runtime`"}


def page() -> str:
    """The whole page."""
    docs, secrets = field_docs(Settings), secret_fields(Settings)
    return HEAD + "".join(
        f"| `{PREFIX}{name.upper()}`{' (secret)' if name in secrets else ''} | {_default(name)} | {docs[name]} |\n"
        for name in Settings.model_fields
    )


def _default(name: str) -> str:
    if name in SHOWN:
        return SHOWN[name]
    default = Settings.model_fields[name].get_default(call_default_factory=True, validated_data={})
    if isinstance(default, BaseModel):
        return f"`{default.model_dump_json(exclude_none=True)}`"
    return "none" if default is None else f"`{default}`"


if __name__ == "__main__":
    PAGE.write_text(page())
