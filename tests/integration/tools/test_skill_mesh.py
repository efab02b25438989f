"""`mesh_client` of skills beside the model, in real workers and over real sockets: what it sends, by whose rules."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from agent_common.protocol import Rule
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.mesh import MeshTeamRequests
from agent_runtime.ports import OpenGate, ToolContext, ToolResult
from agent_runtime.runtime.skill_mesh import SkillMesh
from agent_runtime.sandbox import Confinement
from agent_runtime.tools import ToolGate, builtin_tools
from tests.unit.net.webs import Web, page, web

from .school import School

SECRET_WORD = "of another session"
PLUGIN = """
import asyncio
from agent_runtime.skills import MeshRefused, MeshUnavailable

async def told(awaitable):
    try:
        return await awaitable
    except MeshRefused as error:
        return ["refused", error.kind, str(error)]
    except MeshUnavailable as error:
        return ["unavailable", str(error)]

@skill(name="every", description="d")
async def every(*, mesh_client):
    return [
        await told(mesh_client.get("a")),
        await told(mesh_client.put("a", None, if_version=1)),
        await told(mesh_client.list("a", limit=3)),
        await told(mesh_client.publish("t", {"x": 1}, id="m")),
        await told(mesh_client.service("s", "/items?x=1", method="GET")),
        await told(mesh_client.artifact("r", "in.bin")),
    ]

@skill(name="plain", description="d")
def plain(*, mesh_client, workspace):
    (workspace / "out.txt").write_text("made by a skill")
    return [mesh_client.get("a"), mesh_client.artifact("w", workspace / "out.txt", save=True)]

@skill(name="one", description="d")
async def one(what: str, arguments: dict, *, mesh_client):
    return await told(getattr(mesh_client, what)(**arguments))

@skill(name="leave", description="d")
def leave(*, mesh_client):
    return mesh_client.get("missing")
"""
ENTRY = {"key": "a", "value": 1, "version": 1}
DIGEST = base64.b64encode(hashlib.sha256(b"bytes").digest()).decode()


def answer(body: object, status: str = "200 OK", kind: str = "application/json") -> bytes:
    return page(json.dumps(body).encode(), status, content_type=kind)


PAGES: dict[str, Any] = {
    "/blackboard/a": answer(ENTRY),
    "/blackboard?limit=3&prefix=a": answer({"entries": [ENTRY]}),
    "/blackboard/missing": answer({"detail": "no entry"}, "404 Not Found", "application/problem+json"),
    "/blackboard/off": answer({"detail": "off"}, "503 Off", "application/problem+json"),
    "/blackboard/huge": answer({**ENTRY, "value": "x" * 1_000_000}),
    "/topics/t": answer({"id": "m", "seq": 1}, "201 Created"),
    "/services/s/items?x=1": page(b'{"n": 1}', content_type="application/json", x_mesh_service="s"),
    "/artifacts/r": page(b"bytes", etag='"3"', repr_digest=f"sha-256=:{DIGEST}:"),
    "/artifacts/w": answer({"version": 1, "sha256": hashlib.sha256(b"made by a skill").hexdigest()}, "201 Created"),
}


class ClosedGate(OpenGate):
    """A required channel that is broken."""

    async def wait_open(self) -> None:
        raise TimeoutError


@asynccontextmanager
async def taught(school: School, gate: OpenGate | None = None, url: str | None = None) -> AsyncGenerator[Web]:
    """The plugin, with a host that answers `PAGES`."""
    async with web(PAGES) as server:
        team = MeshTeamRequests(url or f"http://127.0.0.1:{server.port}", {"authorization": "Bearer t"})
        tools = builtin_tools(Confinement(None), team=team)
        school.mesh_tools = SkillMesh(ToolGate(), tools, gate or OpenGate())
        school.timeout = 60
        await school.teach(load_seconds=60, plugin=PLUGIN)
        try:
            yield server
        finally:
            await team.close()


def ruled(school: School, *rules: tuple[str, str, Any], **more: Any) -> ToolContext:
    found = [
        Rule(permission=name, pattern=pattern, action=action, source="manifest") for name, pattern, action in rules
    ]
    everything = Rule(permission="*", action="allow", source="manifest")
    return replace(school.house.context, authority=Authority((Layer(rules=(everything, *found), **more),)))


async def one(school: School, context: ToolContext, what: str, **arguments: Any) -> Any:
    result = await school.tools.run("one", {"what": what, "arguments": arguments}, context)
    assert isinstance(result, ToolResult)
    assert result.type == "output", result.error_text
    return result.data


async def test_every_method_answers_as_the_tool_of_the_agent(school: School) -> None:
    async with taught(school) as host:
        got = await school.value("every")
        workspace = school.house.context.workspace
        assert (workspace / "in.bin").read_bytes() == b"bytes"
        assert await school.value("plain") == [
            ENTRY,
            {"saved": True, "version": 1, "sha256": hashlib.sha256(b"made by a skill").hexdigest()}
            | {"size": None, "media_type": None},
        ]
    read, written, listed, published, service, artifact = got
    assert (read, written, listed) == (ENTRY, {"written": True, "version": 1}, {"entries": [ENTRY]})
    assert published == {"id": "m", "seq": 1, "known": False}
    assert service == {"status": 200, "content_type": "application/json", "json": {"n": 1}}
    assert (artifact["version"], artifact["path"]) == (3, "in.bin")
    put = next(head.decode().lower() for head in host.heads if head.startswith(b"PUT /blackboard"))
    assert 'if-match: "1"' in put
    assert f"x-agent-session: {school.house.context.session_id.lower()}" in put
    assert "authorization: bearer t" in put


async def test_what_fails_says_so_at_once_and_by_its_kind(school: School) -> None:
    async with taught(school):
        at = school.house.context
        assert await one(school, at, "get", key="missing") == ["refused", "invalid", "get: the host refused: no entry"]
        assert await one(school, at, "get", key="a/../b") == ["refused", "invalid", ANY_KEY]
        assert (await one(school, at, "put", key="a", value=1, ttl=-1))[:2] == ["refused", "invalid"]
        assert (await one(school, at, "get", key="off"))[0] == "unavailable"
        whole = await one(school, at, "get", key="huge")  # too large for the model, and not for the skill
        assert whole["total_bytes"] > 1_000_000
        unknown = await one(school, at, "subscribe", topic="t")
        assert unknown[0] == "unavailable"
        assert "it has: artifact, chat, embed, get, list, openai, publish, put, search, service" in unknown[1]
        left = await school.call("leave")
        assert "plugin.py line" in str(left.error_text)
        assert "MeshRefused: get: the host refused: no entry" in str(left.error_text)


ANY_KEY = "get: key: must be printable, and have no empty part, `.` or `..` between slashes"


async def test_without_a_host_each_says_so_and_nothing_is_queued(school: School) -> None:
    async with taught(school, url="http://127.0.0.1:1"):
        for what, answered in zip(
            ("get", "put", "list", "publish", "service", "artifact"), await school.value("every"), strict=True
        ):
            assert answered[0] == "unavailable", answered
            assert answered[1].startswith(f"{what}: the host gave no answer"), answered
            assert "may have been carried out" not in answered[1], "nobody took the connection"


RULES: tuple[tuple[tuple[str, str, Any], str, dict[str, Any]], ...] = (
    (("read_blackboard", "a", "deny"), "get", {"key": "a"}),
    (("write_blackboard", "*", "ask"), "put", {"key": "a", "value": 1}),
    (("mesh.write", "*", "deny"), "put", {"key": "a", "value": 1}),
    (("list_blackboard", "*", "deny"), "list", {}),
    (("publish_event", "t", "deny"), "publish", {"topic": "t", "data": 1}),
    (("call_service", "GET s/*", "ask"), "service", {"service": "s", "path": "/items"}),
    (("get_artifact", "*", "deny"), "artifact", {"name": "r", "path": "x"}),
    (("save_artifact", "*", "deny"), "artifact", {"name": "w", "path": "f", "save": True}),
    (("fs.read", "f", "deny"), "artifact", {"name": "w", "path": "f", "save": True}),
    (("write", "x", "deny"), "artifact", {"name": "r", "path": "x"}),
)


async def test_a_skill_may_not_do_what_its_agent_may_not(school: School) -> None:
    (school.house.context.workspace / "f").write_text("x")
    async with taught(school) as host:
        for rule, what, arguments in RULES:
            for more in ({}, {"interactive": True, "approved": True}):
                refused = await one(school, replace(ruled(school, rule), **more), what, **arguments)
                assert refused[:2] == ["refused", "denied"], (rule, refused)
        assert host.heads == []


async def test_tools_that_an_agent_does_not_have_and_a_broken_channel(school: School) -> None:
    async with taught(school) as host:
        narrow = ruled(school, tools=("one", "read_blackboard"))
        assert await one(school, narrow, "get", key="a") == ENTRY
        assert "does not have it" in (await one(school, narrow, "service", service="s", path="/"))[2]
        assert len(host.heads) == 1
    async with taught(school, ClosedGate()) as host:
        assert (await one(school, school.house.context, "get", key="a"))[0] == "unavailable"
        assert host.heads == []


async def test_a_skill_has_no_scratch_folder_here_either(school: School) -> None:
    context = school.house.context
    (context.scratch / "secret").write_text(SECRET_WORD)
    (context.workspace / "link").symlink_to(context.scratch / "secret")
    async with taught(school) as host:
        for path in (str(context.scratch / "secret"), "link", "/etc/passwd", "../x"):
            refused = await one(school, context, "artifact", name="w", path=path, save=True)
            assert refused[:2] == ["refused", "denied"], refused
        assert host.heads == []


async def test_a_trial_reaches_nothing(school: School) -> None:
    async with taught(school) as host:
        checked = "\n\ndef self_check(*, mesh_client):\n    mesh_client.put('a', 1)\n"
        await school.teach(load_seconds=60, plugin=PLUGIN + checked)
        states = school.host.states() if school.host else ()
        assert any("this is a trial" in str(state.error) for state in states), states
        assert host.heads == []
