"""What the tools of artifacts have in common: names, and the rights to the file on this side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from agent_common.protocol import MAX_ARTIFACT_NAME, Folders, RequirementSet

from ...errors import ToolFailure
from ...ports import ToolContext
from ..core.contract import AccessRequest, DescribeAccess
from ..files.paths import PATH_PARAMETER, Kind, question_about_file, resolve_path

ARTIFACT_SECONDS = 300.0
SILENT_SECONDS = 60.0
"""Seconds in which a byte must come or go; the host answers an upload when it is on the disk."""
PIECE_BYTES = 256 * 1024
NAME: Mapping[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_ARTIFACT_NAME,
    "description": "Such as reports/may.pdf",
}
FILE = PATH_PARAMETER


def artifact_path(name: str) -> str:
    """Return the path of an artifact at the host. Raises ToolFailure for a name that no artifact has."""
    if not name.isprintable() or "\\" in name or any(part in ("", ".", "..") for part in name.split("/")):
        text = "name: must be printable, without a backslash, and have no empty part, `.` or `..` between slashes"
        raise ToolFailure(text, kind="invalid")
    return f"/artifacts/{quote(name, safe='/')}"


def touches_file(tool: str, kinds: Sequence[Kind], capability: str) -> DescribeAccess:
    """Return what describes a call by the name of the artifact. Its file needs the rights that `tool` would need."""

    async def describe(arguments: Mapping[str, Any], context: ToolContext) -> AccessRequest:
        at = resolve_path(arguments["path"], context)
        asks = question_about_file(tool, kinds, at, context)
        folders = Folders(**{kind: [str(at.path)] for kind in kinds})
        return AccessRequest(
            (arguments["name"], at.shown) if asks else (arguments["name"],),
            requires=RequirementSet(fs=folders, capabilities=[capability]),
            asks=f"{arguments['name']}: {asks}" if asks else "",
            suggested_patterns=("*",),
        )

    return describe
