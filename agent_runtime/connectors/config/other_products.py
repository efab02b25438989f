"""Translate server entries in the format of other products.

Equivalent fields are translated, fields for the other product's user interface are dropped, and for all others a fault
says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

RENAMED_FIELDS = {
    "serverUrl": "url",
    "httpUrl": "url",
    "environment": "env",
    "startup_timeout_ms": "start_timeout_ms",
    **dict.fromkeys(("transport", "transportType"), "type"),
}
"""Field names of Windsurf, Gemini CLI, OpenCode, Codex, FastMCP and Cline."""
DROPPED_FIELDS = frozenset(
    {"alwaysAllow", "autoApprove", "autoStart", "description", "dev", "gallery", "icon", "iconPath", "trust", "version"}
)
"""Fields about approvals, which are dropped because permission rules decide about approvals here."""
UNSUPPORTED_FIELDS = {
    "envFile": 'is not read; name its variables in env, as in {"KEY": "${KEY}"}',
    "timeout": "write timeout_ms, in milliseconds",
    "tool_timeout_sec": "write timeout_ms, in milliseconds",
    "startup_timeout_sec": "write start_timeout_ms, in milliseconds",
    "source": "programs of extensions are not known here; write command and args",
    "headersHelper": 'no program is run for headers; write "headers": {"Authorization": "Bearer ${TOKEN}"}',
    "auth": "no browser is opened for consent here; write oauth with a refresh_token, or headers",
    **dict.fromkeys(
        ("disabledTools", "excludeTools", "exclude_tools"),
        'write rules: {permission: "mcp:SERVER:TOOL", action: deny} in permissions.yaml',
    ),
    **dict.fromkeys(
        ("enabledTools", "includeTools", "tools"),
        'write rules: {permission: "mcp:SERVER:TOOL", action: allow} in permissions.yaml',
    ),
}
TEXT_FIELDS = frozenset({"args", "env", "headers"})
"""Fields of texts, for which others take numbers and booleans too."""
TYPE_NAMES = {"streamableHttp": "streamable-http", "streamable_http": "streamable-http"}
_INPUT_VARIABLE = re.compile(r"\$\{input:([^{}]*+)\}")
_ENV_VARIABLE = re.compile(r"\$\{env:([A-Za-z_]\w*)\}|(?<!\$)\{env:([A-Za-z_]\w*)\}")
_UNKNOWN_VARIABLE = re.compile(
    r"\$\{((?:command|config|file\w*|relativeFile\w*|workspaceFolder\w*|selectedText)(?::[^}]*)?)\}"
)


def translate_fields(fields: Mapping[str, Any], folders: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the translated fields, and faults for those that cannot be translated: "field: what to write instead".

    `folders`: the values of folder variables of other products, such as workspaceFolder.
    """
    found: dict[str, Any] = {}
    faults: list[str] = []
    for name, value in fields.items():
        if name == "disabled" and isinstance(value, bool):
            found["enabled"] = not value
        elif (name, value) == ("source", "custom") or (RENAMED_FIELDS.get(name) == "type" and "type" in fields):
            continue
        elif name in UNSUPPORTED_FIELDS:
            faults.append(f"{name}: {UNSUPPORTED_FIELDS[name]}")
        elif name not in DROPPED_FIELDS:
            found[RENAMED_FIELDS.get(name, name)] = _translate_value(value, name, folders, faults)
    if isinstance(kind := found.get("type"), str):
        found["type"] = TYPE_NAMES.get(kind, kind)
    return {name: _as_texts(value) if name in TEXT_FIELDS else value for name, value in found.items()}, faults


def _as_texts(value: Any) -> Any:
    """Return a list or an object with numbers and booleans as texts, and without the members that are null."""
    if isinstance(value, list):
        return [_as_text(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _as_text(one) for name, one in cast("dict[str, Any]", value).items() if one is not None}
    return value


def _as_text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, int) else value  # as JSON has it, a boolean too


def _translate_value(value: Any, where: str, folders: Mapping[str, str], faults: list[str]) -> Any:
    if isinstance(value, str):
        return _translate_text(value, where, folders, faults)
    if isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
        return [_translate_value(one, f"{where}[{number}]", folders, faults) for number, one in items]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: _translate_value(one, f"{where}.{name}", folders, faults) for name, one in members}
    return value


def _translate_text(text: str, where: str, folders: Mapping[str, str], faults: list[str]) -> str:
    """Translate variables to our form, `${NAME}`."""
    for name, folder in folders.items():
        text = text.replace(f"${{{name}}}", folder)
    text = _ENV_VARIABLE.sub(lambda found: f"${{{found[1] or found[2]}}}", text)
    for found in _INPUT_VARIABLE.finditer(text):
        name = re.sub(r"\W", "_", found[1]).upper()
        faults.append(f"{where}: {found[0]} is not prompted for; write ${{{name}}} and set {name} in the environment")
    faults += [f"{where}: {found[0]} is not known here; write its value" for found in _UNKNOWN_VARIABLE.finditer(text)]
    return text
