"""The tools of the mesh: what they send, what they show, who has them, and when they are in the list."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent_common.protocol import Folders, RequirementSet
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.agents import AgentDirectory
from agent_runtime.errors import MeshUnavailable
from agent_runtime.loop.turn.tool_calls import CANCEL_SECONDS
from agent_runtime.ports import HumanRequest, MeshReply, MeshRequest, MeshStream, ToolContext, ToolResult
from agent_runtime.sandbox import Confinement
from agent_runtime.tools import MESH_TOOL_NAMES, RESERVED_TOOL_NAMES, ToolRegistry, builtin_tools

from .doubles import finished

ENTRY = {"key": "a", "value": 1, "version": 2, "updated_at": 1, "updated_by": "bob", "cause": {}}
WRITE = {"key": "a", "value": 1}


@dataclass
class Kept:
    """Answers as it is told to, and notes what was asked."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    away: bool = False
    asked: list[MeshRequest] = field(default_factory=list[MeshRequest])

    async def request(self, request: MeshRequest) -> MeshReply:
        self.asked.append(request)
        if self.away:
            raise MeshUnavailable("the host gave no answer")
        return MeshReply(self.status, self.headers, json.dumps(self.body).encode())

    def open(self, request: MeshRequest) -> AbstractAsyncContextManager[MeshStream]:
        raise NotImplementedError


def registry(team: Kept) -> ToolRegistry:
    return ToolRegistry(builtin_tools(Confinement(None), team=team))


async def run(team: Kept, name: str, context: ToolContext, **arguments: Any) -> ToolResult:
    return finished(await registry(team).snapshot().run(name, arguments, context))


@pytest.mark.parametrize(
    ("name", "arguments", "sent"),
    [
        ("read_blackboard", {"key": "a/ü b"}, ("GET", "/blackboard/a/%C3%BC%20b", None, {})),
        ("list_blackboard", {"prefix": "a&b"}, ("GET", "/blackboard?limit=20&prefix=a%26b", None, {})),
        ("write_blackboard", WRITE, ("PUT", "/blackboard/a", {"value": 1}, {})),
        ("write_blackboard", {**WRITE, "ttl": 5}, ("PUT", "/blackboard/a", {"value": 1, "ttl": 5}, {})),
        ("write_blackboard", {**WRITE, "if_version": 3}, ("PUT", "/blackboard/a", {"value": 1}, {"if-match": '"3"'})),
        (
            "write_blackboard",
            {**WRITE, "if_absent": True},
            ("PUT", "/blackboard/a", {"value": 1}, {"if-none-match": "*"}),
        ),
        ("claim", {"key": "a"}, ("POST", "/blackboard/a/claim", {"lease_seconds": 300}, {})),
        ("claim", {"key": "a", "action": "release"}, ("DELETE", "/blackboard/a/claim", None, {})),
        ("claim", {"key": "claim"}, ("POST", "/blackboard/claim/claim", {"lease_seconds": 300}, {})),
        ("write_blackboard", {"key": "history", "value": 1}, ("PUT", "/blackboard/history", {"value": 1}, {})),
        ("publish_event", {"topic": "t", "data": [1], "id": "x"}, ("POST", "/topics/t", {"id": "x", "data": [1]}, {})),
        ("subscribe", {"topic": "t"}, ("POST", "/subscriptions", {"topic": "t", "session": "ses_1"}, {})),
        ("subscribe", {"action": "list"}, ("GET", "/subscriptions?session=ses_1", None, {})),
        ("list_agents", {"query": "a b", "capability": "x"}, ("GET", "/agents?limit=20&q=a+b&capability=x", None, {})),
        ("call_service", {"service": "s", "path": "/a b?c=d#e"}, ("GET", "/services/s/a%20b?c=d%23e", None, {})),
        (
            "call_service",
            {"service": "s", "path": "a", "method": "POST", "json": {}, "headers": {"Accept": "x"}},
            ("POST", "/services/s/a", {}, {"accept": "x"}),
        ),
    ],
)
async def test_what_is_sent(context: ToolContext, name: str, arguments: Any, sent: Any) -> None:
    team = Kept(body=ENTRY, headers={"x-mesh-service": "1"})
    result = await run(team, name, replace(context, task_id="t1", may_subscribe=True), **arguments)
    assert result.type == "output", result.error_text
    (request,) = team.asked
    headers = {name: value for name, value in request.headers.items() if name != "content-type"}
    assert isinstance(request.body, bytes | None)
    body = None if request.body is None else json.loads(request.body)
    assert (request.method, request.path, body, headers) == sent
    assert (request.session_id, request.task_id) == (context.session_id, "t1")


async def test_only_a_conversation_subscribes(context: ToolContext) -> None:
    team = Kept(body={"subscriptions": [{"id": "sub_1"}]})
    result = await run(team, "subscribe", context, topic="t")
    assert (result.metadata["kind"], team.asked) == ("denied", [])
    assert (await run(team, "subscribe", context, topic="t", action="unsubscribe")).data["subscribed"] is False
    assert [(one.method, one.path) for one in team.asked] == [
        ("GET", "/subscriptions?session=ses_1&topic=t"),
        ("DELETE", "/subscriptions/sub_1"),
    ]


@pytest.mark.parametrize("name", ["ask_agent", "hand_off"])
async def test_a_call_that_is_repeated_is_the_same_message(context: ToolContext, name: str) -> None:
    team = Kept(body={"status": "completed", "response": {"text": "three"}, "request_id": "ask_1"})
    calls = [replace(context, task_id="t1"), replace(context, task_id="t1"), replace(context, call_id="other")]
    results = [await run(team, name, one, agent="bob", message="How many?", deadline_seconds=30) for one in calls]
    first, again, other = (request.headers["idempotency-key"] for request in team.asked)
    assert first == again != other
    body = team.asked[0].body
    assert isinstance(body, bytes)
    assert json.loads(body) == {"message": "How many?", "deadline_s": 30}
    assert (team.asked[0].task_id, team.asked[0].user) == ("t1", "operator")
    if name == "ask_agent":
        assert results[0].data == {"status": "completed", "response": {"text": "three"}}
        assert team.asked[0].seconds > 30
    else:
        assert results[0].data == {"handed_off": True, "request_id": "ask_1", "status": "completed"}


@pytest.mark.parametrize(
    ("status", "kind"), [("timeout", "timeout"), ("unavailable", "unavailable"), ("failed", "backend")]
)
async def test_an_agent_that_gives_no_answer_is_an_error(context: ToolContext, status: str, kind: str) -> None:
    team = Kept(body={"status": status, "response": None, "error": "expired: nobody began it"})
    result = await run(team, "ask_agent", context, agent="bob", message="hi")
    assert result.metadata["kind"] == kind
    assert f"the agent bob gave no answer ({status}): expired: nobody began it" in (result.error_text or "")


@dataclass
class Silent(Kept):
    """Never answers an ask, and a cancellation only if it is told to."""

    answers_cancel: bool = True
    asking: asyncio.Event = field(default_factory=asyncio.Event)

    async def request(self, request: MeshRequest) -> MeshReply:
        self.asked.append(request)
        if request.method == "DELETE" and self.answers_cancel:
            return MeshReply(200, {}, b"{}")
        self.asking.set()
        try:
            async with asyncio.timeout(request.seconds):
                await asyncio.Event().wait()
        except TimeoutError as error:
            raise MeshUnavailable("the host gave no answer") from error
        raise AssertionError


@pytest.mark.parametrize("answers_cancel", [True, False])
@pytest.mark.parametrize("was_aborted", [True, False])
async def test_an_aborted_call_cancels_what_it_has_asked(
    context: ToolContext, was_aborted: bool, answers_cancel: bool
) -> None:
    team = Silent(answers_cancel=answers_cancel)
    call = asyncio.create_task(
        run(team, "ask_agent", replace(context, was_aborted=lambda: was_aborted), agent="bob", message="hi")
    )
    await team.asking.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    asked, *cancelled = team.asked
    key = asked.headers["idempotency-key"]
    told = [(one.method, one.path, one.body, one.headers["idempotency-key"]) for one in cancelled]
    assert told == ([("DELETE", "/agents/bob/ask", None, key)] if was_aborted else [])
    assert all(one.seconds < CANCEL_SECONDS for one in cancelled), "less than a turn waits for a cancelled tool"


@pytest.mark.parametrize(("agent", "path"), [("bob", ["/agents/bob/ask"]), ("b/ob", []), (7, ["/agents/7/ask"])])
async def test_an_ask_of_an_earlier_process_is_withdrawn_under_its_key(
    context: ToolContext, agent: object, path: list[str]
) -> None:
    team = Kept(body={"status": "completed", "response": {"text": "three"}, "request_id": "ask_1"})
    await run(team, "ask_agent", context, agent="bob", message="hi")
    await registry(team).snapshot().withdraw("ask_agent", {"agent": agent, "message": "hi"}, context)
    asked, *withdrawn = team.asked
    assert [(one.method, one.path, one.headers) for one in withdrawn] == [
        ("DELETE", where, {"idempotency-key": asked.headers["idempotency-key"]}) for where in path
    ]


async def test_of_a_card_a_model_sees_the_beginning(context: ToolContext) -> None:
    card = {"id": "bob", "state": "away", "name": "Bob", "role": "", "protocols": {}, "agents": [], "skills": []}
    team = Kept(body={"agents": [{**card, "tools": [f"t{number}" for number in range(100)]}], "next": "bob"})
    result = await run(team, "list_agents", context)
    (shown,) = result.data["agents"]
    assert (len(shown["tools"]), shown["more"], result.data["next"]) == (40, {"tools": 60}, "bob")
    assert "protocols" not in shown


async def test_conflicts_are_told(context: ToolContext) -> None:
    taken = Kept(412, {"code": "version_conflict", "value": {"beds": 4}, "version": 7})
    result = await run(taken, "write_blackboard", context, **WRITE, if_version=6)
    assert result.data["written"] is False
    assert result.data["present"] == {"value": {"beds": 4}, "version": 7}
    result = await run(Kept(409, {"claimed_by": "bob", "expires_at": 9}), "claim", context, key="a")
    assert result.data == {"claimed": False, "claimed_by": "bob", "expires_at": 9}
    held = await run(Kept(200, {"claim_id": "c", "expires_at": 9}), "claim", context, key="a", action="renew")
    assert held.data == {"claimed": True, "claim_id": "c", "expires_at": 9}


async def test_a_list_shows_the_size_of_large_values(context: ToolContext) -> None:
    team = Kept(body={"entries": [ENTRY, {**ENTRY, "value": "x" * 3000}], "next": "a"})
    result = await run(team, "list_blackboard", context)
    small, large = result.data["entries"]
    assert small == ENTRY
    assert "value" not in large
    assert (large["value_bytes"], result.data["next"]) == (3002, "a")


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("read_blackboard", {"key": "watch"}, "key: must not be `watch`"),
        ("read_blackboard", {"key": "a/claim"}, "nor end in `/claim`"),
        ("read_blackboard", {"key": "a/../b"}, "key: must be printable"),
        ("read_blackboard", {"key": "a\nb"}, "key: must be printable"),
        ("write_blackboard", {"key": "a", "value": "x" * 300_000}, "value: has 300002 bytes as JSON"),
        ("write_blackboard", {**WRITE, "if_version": 1, "if_absent": True}, "if_version: must be left out"),
        ("publish_event", {"topic": "a/b", "data": 1}, "topic: "),
        ("subscribe", {"topic": "a/b"}, "topic: "),
        ("subscribe", {}, "topic: is needed to subscribe"),
        ("subscribe", {"topic": "t", "action": "leave"}, "action: "),
        ("ask_agent", {"agent": "a/ask", "message": "x"}, "agent: "),
        ("hand_off", {"agent": "..", "message": "x"}, "agent: "),
        ("ask_agent", {"agent": "a", "message": "x", "deadline_seconds": 601}, "deadline_seconds: "),
        ("call_service", {"service": "a/b", "path": ""}, "service: "),
        ("call_service", {"service": "a", "path": "", "json": 1, "text": "x"}, "text: must be left out"),
        ("call_service", {"service": "a", "path": "", "headers": {"Authorization": "x"}}, "headers: Authorization"),
        ("call_service", {"service": "a", "path": "", "headers": {"x": "a\r\nb: c"}}, "headers: 'x'"),
    ],
)
async def test_what_is_wrong_is_named_and_not_sent(context: ToolContext, name: str, arguments: Any, fault: str) -> None:
    team = Kept()
    result = await run(team, name, context, **arguments)
    assert result.metadata["kind"] == "invalid"
    assert fault in (result.error_text or "")
    assert not team.asked


async def test_a_host_that_is_away_is_an_error(context: ToolContext) -> None:
    result = await run(Kept(away=True), "write_blackboard", context, **WRITE)
    assert (result.metadata["kind"], result.error_text) == ("unavailable", "the host gave no answer")


@pytest.mark.parametrize(
    ("kind", "body", "found"),
    [
        ("application/json", {"a": 1}, {"json": {"a": 1}}),
        ("text/plain", "hi", {"text": '"hi"'}),
    ],
)
async def test_an_answer_of_a_service(context: ToolContext, kind: str, body: Any, found: Any) -> None:
    team = Kept(404, body, {"x-mesh-service": "s", "content-type": kind})
    result = await run(team, "call_service", context, service="s", path="/")
    assert result.data == {"status": 404, "content_type": kind, **found}


async def test_grants_and_rules(context: ToolContext) -> None:
    layer = Layer(RequirementSet(fs=Folders(read=["{workspace}"]), capabilities=["mesh.read"]))
    at = replace(context, authority=Authority((layer,)))
    assert (await run(Kept(body=ENTRY), "read_blackboard", at, key="a")).type == "output"
    refused = await run(Kept(), "write_blackboard", at, **WRITE)
    assert refused.metadata["kind"] == "denied"
    default = AgentDirectory().get("default")
    assert default is not None
    team = Kept(body=ENTRY, headers={"x-mesh-service": "s"})
    asks = replace(context, authority=Authority().with_layer(default.layer), interactive=True)
    tools = registry(team).snapshot()
    assert isinstance(await tools.run("call_service", {"service": "s", "path": "a"}, asks), ToolResult)
    post = {"service": "s", "path": "a", "method": "POST"}
    assert isinstance(await tools.run("call_service", post, asks), HumanRequest)
    assert len(team.asked) == 1


def test_they_are_found_by_search_unless_a_manifest_names_them() -> None:
    names = set(MESH_TOOL_NAMES)
    assert names <= RESERVED_TOOL_NAMES
    tools = registry(Kept())
    shown = tools.snapshot()
    assert not {spec.name for spec in shown.specs} & names
    assert {spec.name for spec in shown.search("blackboard", 10)} >= {"read_blackboard", "write_blackboard"}
    layer = Layer(RequirementSet(), tools=("read", "tool_search", "claim", "*_blackboard"))
    named = tools.snapshot(authority=Authority((layer,)))
    assert {spec.name for spec in named.specs} == {"read", "tool_search", "claim"}
    assert not names & {spec.name for spec in ToolRegistry(builtin_tools(Confinement(None))).all_specs()}
