"""Servers as other products write them down, in the fields of ours.

What means the same is translated, what only concerns the other product's user is dropped, and for the rest the fault
says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

RENAMED = {"serverUrl": "url", "httpUrl": "url", "environment": "env"}
"""Windsurf, Gemini CLI, OpenCode."""
DROPPED = frozenset(
    {"alwaysAllow", "autoApprove", "autoStart", "description", "dev", "gallery", "icon", "iconPath", "trust", "version"}
)
"""Approvals are a matter of rules here, and nothing is allowed without one."""
INSTEAD = {
    "envFile": 'is not read; name its variables in env, as in {"KEY": "${KEY}"}',
    "timeout": "write timeout_ms, in milliseconds",
    "headersHelper": 'no program is run for headers; write "headers": {"Authorization": "Bearer ${TOKEN}"}',
    "auth": "nobody is asked for consent in a browser here; write oauth with a refresh_token, or headers",
    **dict.fromkeys(
        ("disabledTools", "excludeTools", "exclude_tools"),
        'write rules: {permission: "mcp:SERVER:TOOL", action: deny} in permissions.yaml',
    ),
    **dict.fromkeys(
        ("enabledTools", "includeTools", "tools"),
        'write rules: {permission: "mcp:SERVER:TOOL", action: allow} in permissions.yaml',
    ),
}
TYPES = {"streamableHttp": "streamable-http", "streamable_http": "streamable-http"}
_ASKED = re.compile(r"\$\{input:([^}]*)\}")
_ELSEWHERE = re.compile(r"\$\{env:([A-Za-z_]\w*)\}|(?<!\$)\{env:([A-Za-z_]\w*)\}")
_STRANGE = re.compile(r"\$\{((?:command|config|file\w*|relativeFile\w*|workspaceFolder\w*|selectedText)(?::[^}]*)?)\}")


def translated(fields: Mapping[str, Any], places: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields as ours, and what cannot be: faults as "field: what to write instead".

    `places` are folders that other products have names for, such as workspaceFolder.
    """
    found: dict[str, Any] = {}
    faults: list[str] = []
    for name, value in fields.items():
        if name == "disabled" and isinstance(value, bool):
            found["enabled"] = not value
        elif name in INSTEAD:
            faults.append(f"{name}: {INSTEAD[name]}")
        elif name not in DROPPED:
            found[RENAMED.get(name, name)] = _value(value, name, places, faults)
    if isinstance(kind := found.get("type"), str):
        found["type"] = TYPES.get(kind, kind)
    return found, faults


def _value(value: Any, where: str, places: Mapping[str, str], faults: list[str]) -> Any:
    if isinstance(value, str):
        return _text(value, where, places, faults)
    if isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
        return [_value(one, f"{where}[{number}]", places, faults) for number, one in items]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: _value(one, f"{where}.{name}", places, faults) for name, one in members}
    return value


def _text(text: str, where: str, places: Mapping[str, str], faults: list[str]) -> str:
    """Variables in the form of ours, `${NAME}`."""
    for name, place in places.items():
        text = text.replace(f"${{{name}}}", place)
    text = _ELSEWHERE.sub(lambda found: f"${{{found[1] or found[2]}}}", text)
    for found in _ASKED.finditer(text):
        name = re.sub(r"\W", "_", found[1]).upper()
        faults.append(f"{where}: nobody is asked for {found[0]}; write ${{{name}}} and set {name} in the environment")
    faults += [f"{where}: {found[0]} is not known here; write its value" for found in _STRANGE.finditer(text)]
    return text
