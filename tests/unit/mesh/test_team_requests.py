"""What the host keeps, asked over a real socket: the cause of a request, and what failures mean to a tool."""

from __future__ import annotations

import json

import pytest

from agent_runtime.errors import MeshUnavailable, ToolFailure
from agent_runtime.mesh import MeshTeamRequests
from agent_runtime.ports import MeshReply, MeshRequest
from tests.unit.net.webs import page, web

PROBLEM = "application/problem+json"
GET = MeshRequest("GET", "/x", session_id="ses_1", task_id="t1")


def answer(body: object, status: str = "200 OK", kind: str = PROBLEM) -> bytes:
    return page(json.dumps(body).encode(), status, content_type=kind)


async def ask(reply: bytes, request: MeshRequest = GET) -> tuple[MeshReply, bytes]:
    async with web({"/x": reply}) as host:
        team = MeshTeamRequests(f"http://127.0.0.1:{host.port}", {"authorization": "Bearer t"})
        try:
            return await team.request(request), host.heads[0]
        finally:
            await team.close()


async def test_a_request_names_its_cause() -> None:
    reply, head = await ask(answer({"a": 1}))
    assert (reply.status, json.loads(reply.body)) == (200, {"a": 1})
    lines = head.decode().lower().splitlines()
    assert {"x-agent-session: ses_1", "x-agent-task: t1", "authorization: bearer t"} <= {*lines}
    _, head = await ask(answer({}), MeshRequest("GET", "/x", session_id="a\r\nb: c", task_id="ü"))
    assert b"x-agent" not in head.lower()
    _, head = await ask(answer({}), MeshRequest("GET", "/x", user="ann/\r\nü"))
    assert b"x-agent-user: ann%2F%0D%0A%C3%BC\r\n" in head


async def test_what_was_refused_was_not_carried_out() -> None:
    gone = MeshTeamRequests("http://127.0.0.1:1", {})
    with pytest.raises(MeshUnavailable) as caught:
        await gone.request(MeshRequest("POST", "/x"))
    assert "gave no answer" in str(caught.value)
    assert "carried out" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("404 Not Found", "invalid"),
        ("422 Unprocessable", "invalid"),
        ("403 Forbidden", "denied"),
        ("507 Full", "unavailable"),
        ("500 Oh", "backend"),
    ],
)
async def test_refusals(status: str, kind: str) -> None:
    with pytest.raises(ToolFailure, match="the host refused: because") as failure:
        await ask(answer({"detail": "because", "code": "x"}, status))
    assert failure.value.kind == kind


@pytest.mark.parametrize("status", ["404 Not Found", "405 Not Allowed", "401 Who", "503 Off"])
async def test_a_mesh_that_is_no_host(status: str) -> None:
    with pytest.raises(MeshUnavailable, match="does not offer this: no"):
        await ask(answer({"detail": "no"}, status, "application/json"))


async def test_a_marked_answer_is_one_whatever_its_status() -> None:
    marked = MeshRequest("GET", "/x", accepted_header="content-type")
    assert (await ask(answer({}, "500 Oh"), marked))[0].status == 500
    with pytest.raises(ToolFailure):
        await ask(answer({}), MeshRequest("GET", "/x", accepted_header="x-mesh-service"))


async def test_a_host_that_is_not_there() -> None:
    gone = MeshTeamRequests("http://127.0.0.1:1", {})
    with pytest.raises(MeshUnavailable, match="gave no answer") as read:
        await gone.request(GET)
    assert "carried out" not in read.value.message
    with pytest.raises(MeshUnavailable, match="not queued, but may have been carried out"):
        await ask(b"", MeshRequest("PUT", "/x", b"{}"))
