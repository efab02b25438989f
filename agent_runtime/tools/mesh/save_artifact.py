"""`save_artifact`: a file of the workspace becomes a version of an artifact of the team."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import os
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, BinaryIO

from agent_common.protocol import MAX_ARTIFACT_BYTES, Folders, RequirementSet

from ...errors import ToolFailure
from ...ports import MeshRequest, TeamRequests, ToolContext, ToolSpec
from ..core.contract import WORKSPACE_AND_SCRATCH, Tool
from ..core.declaration import object_schema
from ..files.paths import Kind, authorize_path
from .artifact import ARTIFACT_SECONDS, FILE, NAME, PIECE_BYTES, SILENT_SECONDS, artifact_path, touches_file
from .exchange import VERSION, condition, read_object, sender

KINDS: tuple[Kind, ...] = ("read",)
DESCRIPTION = (
    "Save a file of yours as an artifact of your team, where the other agents of the team can get it: a report, a "
    "picture, a table that is too large for the blackboard. Each save makes a new version. With if_version it is saved "
    "only if the artifact still has the version that you know, with if_absent only if there is none; otherwise saved "
    "is false. Not for secrets, and not for small values (write_blackboard)."
)
PARAMETERS = object_schema(
    "path",
    "name",
    path=FILE,
    name=NAME,
    media_type={"type": "string", "maxLength": 200, "description": "Such as text/csv; default: by the name"},
    if_version=VERSION,
    if_absent={"type": "boolean", "description": "Only if there is no such artifact"},
)
_UNKNOWN = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[\x21-\x2e\x30-\x7e]+/[\x20-\x7e]+")
_BY_NAME = mimetypes.MimeTypes()
"""Python's own table; that of the machine may differ."""


def save_artifact_tool(team: TeamRequests) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        from agent_common.net import SizedStream  # a cold start needs none of its client

        name = arguments["name"]
        kind = _media_type(arguments)
        target = artifact_path(name)
        headers = {"content-type": kind, **condition(arguments)}
        at = authorize_path("read", KINDS, arguments["path"], context, (name,))
        with at.open() as file:
            sent = _Sent(file, at.shown)
            request = MeshRequest(
                "PUT",
                target,
                SizedStream(sent.size, sent.pieces()),
                headers,
                context.session_id,
                context.task_id,
                frozenset({200, 201, 412}),
                seconds=ARTIFACT_SECONDS,
                silence=SILENT_SECONDS,
            )
            reply = await sender(team, context)(request)
        answer = await read_object(reply)
        if reply.status == 412:
            present = {"version": answer.get("version")}
            return {"saved": False, "conflict": "the artifact is not what the condition says", "present": present}
        if answer.get("sha256") != sent.digest.hexdigest():
            raise ToolFailure(f"{name}: the host stored other bytes than {at.shown} has; save it again")
        return {"saved": True, **{name: answer.get(name) for name in ("version", "size", "sha256", "media_type")}}

    return Tool(
        ToolSpec("save_artifact", DESCRIPTION, PARAMETERS, "mesh"),
        run,
        RequirementSet(fs=Folders(read=WORKSPACE_AND_SCRATCH), capabilities=["mesh.write"]),
        timeout=ARTIFACT_SECONDS + 2,
        describe_access=touches_file("read", KINDS, "mesh.write"),
        result_doc="`saved`, `version`, `size`, `sha256`, `media_type`; else `conflict`, `present` of `version`",
        limits_doc=f"{MAX_ARTIFACT_BYTES // 2**20} MiB ([page](artifacts.md#for-agents))",
    )


class _Sent:
    """A file that is read while it is sent, as long as it was when it was opened."""

    def __init__(self, file: BinaryIO, shown: str) -> None:
        self._file = file
        self._shown = shown
        self.digest = hashlib.sha256()
        self.size = os.fstat(file.fileno()).st_size
        if self.size > MAX_ARTIFACT_BYTES:
            text = f"{shown} has {self.size} bytes; an artifact has at most {MAX_ARTIFACT_BYTES}. Save it in parts"
            raise ToolFailure(text, kind="invalid")

    async def pieces(self) -> AsyncIterator[bytes]:
        left = self.size
        while left:
            piece = await asyncio.to_thread(self._file.read, min(PIECE_BYTES, left))
            if not piece:
                raise ToolFailure(f"{self._shown} became shorter while it was sent; nothing is saved")
            self.digest.update(piece)
            left -= len(piece)
            yield piece


def _media_type(arguments: Mapping[str, Any]) -> str:
    given = arguments.get("media_type")
    if given is None:
        return _BY_NAME.guess_type(arguments["name"])[0] or _UNKNOWN
    if not _MEDIA_TYPE.fullmatch(given):
        raise ToolFailure("media_type: must be one media type, such as text/csv", kind="invalid")
    return given
