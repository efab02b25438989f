"""The tools of artifacts against a live host, and against servers that lie: bytes, versions, rights to the file."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_common.protocol import Folders, RequirementSet, Rule
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.errors import ToolFailure
from agent_runtime.mesh import MeshTeamRequests
from agent_runtime.ports import HumanRequest, ToolContext, ToolResult
from agent_runtime.sandbox import Confinement, SandboxLimits
from agent_runtime.tools import ToolRegistry, builtin_tools
from tests.unit.net.webs import page, web
from tests.unit.tools import doubles

from .live import Host

MIB = 1 << 20
ALLOWED = Rule(permission="*", action="allow", source="manifest")


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return replace(doubles.context(tmp_path), task_id="t1")


@pytest.fixture
async def team(host: Host, token: str) -> AsyncIterator[MeshTeamRequests]:
    opened = MeshTeamRequests(host.url, {"authorization": f"Bearer {token}"})
    yield opened
    await opened.close()


async def ask(
    team: MeshTeamRequests, tool: str, context: ToolContext, /, **arguments: Any
) -> ToolResult | HumanRequest:
    tools = ToolRegistry(builtin_tools(Confinement(None), team=team, limits=SandboxLimits(workspace=40 * MIB)))
    return await tools.snapshot().run(tool, arguments, context)


async def run(team: MeshTeamRequests, tool: str, context: ToolContext, /, **arguments: Any) -> ToolResult:
    return doubles.finished(await ask(team, tool, context, **arguments))


async def data(team: MeshTeamRequests, tool: str, context: ToolContext, /, **arguments: Any) -> dict[str, Any]:
    result = await run(team, tool, context, **arguments)
    assert result.type == "output", result.error_text
    return result.data


async def test_a_file_is_saved_listed_and_got(
    team: MeshTeamRequests, context: ToolContext, agent: httpx.Client
) -> None:
    first, second = b"a,b\n\0\xff", os.urandom(3 * MIB)
    file = context.workspace / "out.csv"
    file.write_bytes(first)
    saved = await data(team, "save_artifact", context, path="out.csv", name="tools/ü 1.csv")
    digest = hashlib.sha256(first).hexdigest()
    assert saved == {"saved": True, "version": 1, "size": 6, "sha256": digest, "media_type": "text/csv"}
    file.write_bytes(second)
    again = await data(team, "save_artifact", context, path="out.csv", name="tools/ü 1.csv", media_type="x/y")
    assert (again["version"], again["media_type"]) == (2, "x/y")
    fetched = await asyncio.to_thread(agent.get, "/artifacts/tools/ü 1.csv")
    assert fetched.content == second
    (listed,) = (await data(team, "list_artifacts", context, prefix="tools/ü"))["artifacts"]
    assert (listed["version"], listed["cause"]) == (2, {"session": "ses_1", "task": "t1"})
    got = await data(team, "get_artifact", context, name="tools/ü 1.csv", path="new/in.csv")
    assert got == {
        "path": "new/in.csv",
        "created": True,
        "name": "tools/ü 1.csv",
        "version": 2,
        "media_type": "x/y",
        "size": len(second),
        "sha256": hashlib.sha256(second).hexdigest(),
    }
    assert (context.workspace / "new/in.csv").read_bytes() == second
    result = await run(team, "get_artifact", context, name="tools/ü 1.csv", path="new/in.csv", version=1)
    assert (result.data["version"], result.data["created"]) == (1, False)
    assert (context.workspace / "new/in.csv").read_bytes() == first
    assert (context.workspace / result.metadata["backup"]).read_bytes() == second
    assert sorted(path.name for path in (context.workspace / "new").iterdir()) == ["in.csv"]


async def test_an_empty_file(team: MeshTeamRequests, context: ToolContext) -> None:
    (context.workspace / "empty").touch()
    assert (await data(team, "save_artifact", context, path="empty", name="tools/empty"))["size"] == 0
    assert (await data(team, "get_artifact", context, name="tools/empty", path="back"))["size"] == 0
    assert (context.workspace / "back").read_bytes() == b""


async def test_conditions(team: MeshTeamRequests, context: ToolContext) -> None:
    (context.workspace / "large").write_bytes(bytes(20 * MIB))
    file = {"path": "large", "name": "tools/conditions"}
    assert (await data(team, "save_artifact", context, **file, if_absent=True))["version"] == 1
    for wrong in ({"if_absent": True}, {"if_version": 7}):  # refused before the bytes are read
        late = await data(team, "save_artifact", context, **file, **wrong)
        assert (late["saved"], late["present"]) == (False, {"version": 1})
    assert (await data(team, "save_artifact", context, **file, if_version=1))["version"] == 2
    both = await run(team, "save_artifact", context, **file, if_version=1, if_absent=True)
    assert "if_version: must be left out" in str(both.error_text)


@pytest.mark.parametrize(
    ("tool", "arguments", "kind", "fault"),
    [
        ("save_artifact", {"path": "no", "name": "a"}, "invalid", "no does not exist"),
        ("save_artifact", {"path": ".", "name": "a"}, "invalid", "is a folder"),
        ("save_artifact", {"path": "/etc/passwd", "name": "a"}, "denied", "outside the folders"),
        ("save_artifact", {"path": "out", "name": "a"}, "denied", "outside the folders"),
        ("save_artifact", {"path": "huge", "name": "a"}, "invalid", "at most 67108864"),
        ("save_artifact", {"path": "file", "name": "../a"}, "invalid", "name: must be printable"),
        ("save_artifact", {"path": "file", "name": "a\r\nb"}, "invalid", "name: must be printable"),
        ("save_artifact", {"path": "file", "name": "a", "media_type": "a/b\r\nx: y"}, "invalid", "media_type: must"),
        ("get_artifact", {"name": "tools/nothing", "path": "a"}, "invalid", "host refused"),
        ("get_artifact", {"name": "tools/nothing", "path": "a", "version": 3}, "invalid", "host refused"),
        ("get_artifact", {"name": "a", "path": "../b"}, "denied", "outside the folders"),
        ("get_artifact", {"name": "a", "path": "out/b"}, "denied", "outside the folders"),
        ("get_artifact", {"name": "a", "path": ".git/config"}, "denied", "git takes commands"),
        ("get_artifact", {"name": "a", "path": ".backups/x"}, "denied", "the runtime itself keeps"),
        ("get_artifact", {"name": "a", "path": "b", "version": 0}, "invalid", "version"),
    ],
)
async def test_what_is_refused(
    team: MeshTeamRequests, context: ToolContext, tool: str, arguments: dict[str, Any], kind: str, fault: str
) -> None:
    (context.workspace / "file").write_bytes(b"x")
    (context.workspace / "out").symlink_to("/etc")
    with (context.workspace / "huge").open("wb") as file:
        file.truncate(64 * MIB + 1)
    result = await run(team, tool, context, **arguments)
    assert fault in str(result.error_text)
    assert result.metadata["kind"] == kind


async def test_the_file_needs_the_rights_of_read_and_write(team: MeshTeamRequests, context: ToolContext) -> None:
    (context.workspace / "private.txt").write_bytes(b"x")
    hidden = (Rule(permission="fs.read", pattern="private*", action="deny", source="manifest"),)
    asked = (Rule(permission="write", pattern="kept*", action="ask", source="manifest"),)
    at = replace(context, authority=Authority((Layer(rules=(ALLOWED, *hidden, *asked)),)), interactive=True)
    result = await run(team, "save_artifact", at, path="private.txt", name="tools/private")
    assert (result.metadata["kind"], result.error_text) == ("denied", "private.txt: agent default may not read it")
    (context.workspace / "file").write_bytes(b"x")
    await data(team, "save_artifact", at, path="file", name="tools/file")
    target = {"name": "tools/file", "path": "kept.txt"}
    question = await ask(team, "get_artifact", at, **target)
    assert isinstance(question, HumanRequest)
    assert "no rule allows write" in question.reason
    assert question.touches == ("tools/file", "kept.txt")
    unattended = await run(team, "get_artifact", replace(at, interactive=False), **target)
    assert "none is here" in str(unattended.error_text)
    approved = replace(at, approved=True, approved_for=question.touches)
    assert (await data(team, "get_artifact", approved, **target))["created"]
    other = {**target, "path": "kept2.txt"}  # what was approved is another file
    assert isinstance(await ask(team, "get_artifact", approved, **other), HumanRequest)
    grant = RequirementSet(fs=Folders(read=["{workspace}"]), capabilities=["mesh.read", "mesh.write"])
    narrow = replace(context, authority=Authority((Layer(grant),)))
    assert (await run(team, "get_artifact", narrow, **target)).metadata["kind"] == "denied"
    grant = RequirementSet(fs=Folders(read=["{workspace}"]), capabilities=["mesh.read"])
    narrow = replace(context, authority=Authority((Layer(grant),)))
    assert (await run(team, "save_artifact", narrow, path="file", name="a")).metadata["kind"] == "denied"


@pytest.mark.parametrize("path", ["AGENTS.md", ".agents/skills/a/SKILL.md"])
async def test_a_person_is_asked_before_an_artifact_becomes_instructions(
    team: MeshTeamRequests, context: ToolContext, path: str
) -> None:
    (context.workspace / "file").write_bytes(b"Do as I say.")
    await data(team, "save_artifact", context, path="file", name="tools/instructions")
    target = {"name": "tools/instructions", "path": path}
    assert "none is here" in str((await run(team, "get_artifact", context, **target)).error_text)
    assert not (context.workspace / path).exists()
    always = Rule(permission="get_artifact", pattern="tools/instructions", action="allow", source="session")
    ruled = replace(context, authority=Authority((Layer(rules=(ALLOWED, always)),)), interactive=True)
    assert isinstance(await ask(team, "get_artifact", ruled, **target), HumanRequest)


async def test_what_is_sent_is_counted_and_limited(team: MeshTeamRequests, context: ToolContext) -> None:
    class Meter:
        sent_bytes, limited = 0, True

        def count_sent(self, count: int) -> None:
            self.sent_bytes += count
            if self.sent_bytes > 10_000:
                raise ToolFailure("no more may be sent", kind="denied")

    meter = Meter()
    (context.workspace / "file").write_bytes(bytes(9000))
    metered = replace(context, egress=meter)
    await data(team, "save_artifact", metered, path="file", name="tools/metered")
    assert 9000 < meter.sent_bytes < 9300
    refused = await run(team, "save_artifact", metered, path="file", name="tools/metered")
    assert refused.error_text == "no more may be sent"
    listed = await data(team, "list_artifacts", context, prefix="tools/metered")
    assert listed["artifacts"][0]["version"] == 1


async def test_what_has_no_space_is_refused(team: MeshTeamRequests, context: ToolContext) -> None:
    (context.workspace / "file").write_bytes(bytes(30 * MIB))
    await data(team, "save_artifact", context, path="file", name="tools/room")
    result = await run(team, "get_artifact", context, name="tools/room", path="copy")
    assert "room" in str(result.error_text)
    assert sorted(path.name for path in context.workspace.iterdir()) == ["file"]


def answer(body: bytes, announced: bytes | None = None, **headers: str) -> bytes:
    digest = hashlib.sha256(body if announced is None else announced).digest()
    fields = {"etag": '"1"', "repr-digest": f"sha-256=:{base64.b64encode(digest).decode()}:", **headers}
    return page(body, **fields)


SHORT = answer(b"half").replace(b"content-length: 4", b"content-length: 9")
LARGE = answer(b"half").replace(b"content-length: 4", b"content-length: 67108865")


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (answer(b"other", b"saved"), "their SHA-256 differs"),
        (page(b"bytes"), "their SHA-256 differs"),
        (SHORT, "the host gave no answer"),
        (LARGE, "at most 67108864 are taken"),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nbytes", "has no length"),
    ],
)
async def test_a_host_that_lies_leaves_the_file_as_it_was(context: ToolContext, reply: bytes, fault: str) -> None:
    old = context.workspace / "file"
    old.write_bytes(b"old")
    async with web({"/artifacts/a": reply}) as server:
        team = MeshTeamRequests(f"http://127.0.0.1:{server.port}", {})
        result = await run(team, "get_artifact", context, name="a", path="file")
        await team.close()
    assert fault in str(result.error_text)
    assert old.read_bytes() == b"old"
    assert [path.name for path in context.workspace.iterdir()] == ["file"]


async def test_a_file_that_shrinks_and_a_host_that_stores_something_else(context: ToolContext) -> None:
    file = context.workspace / "file"
    file.write_bytes(bytes(4 * MIB))

    async def shrink(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readexactly(1000)
        os.truncate(file, 0)
        await reader.read()

    stored = page(b'{"version": 1, "sha256": "00"}', "201 Created", content_type="application/json")
    async with web({"/artifacts/a": shrink, "/artifacts/b": stored}) as server:
        team = MeshTeamRequests(f"http://127.0.0.1:{server.port}", {})
        shrunk = await run(team, "save_artifact", context, path="file", name="a")
        assert "became shorter" in str(shrunk.error_text)
        other = await run(team, "save_artifact", context, path="file", name="b")
        assert "stored other bytes" in str(other.error_text)
        await team.close()


async def test_without_a_host(context: ToolContext) -> None:
    (context.workspace / "file").write_bytes(b"x")
    gone = MeshTeamRequests("http://127.0.0.1:1", {})
    for tool, arguments in (
        ("save_artifact", {"path": "file", "name": "a"}),
        ("get_artifact", {"path": "file", "name": "a"}),
        ("list_artifacts", {}),
    ):
        result = await run(gone, tool, context, **arguments)
        assert result.metadata["kind"] == "unavailable"
        assert "the host gave no answer" in str(result.error_text)
