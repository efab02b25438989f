"""The tools of the hub: what they ask of it, who has them, and when they are in the list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent_common.protocol import RequirementSet
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.agents import AgentDirectory
from agent_runtime.errors import MeshUnavailable
from agent_runtime.ports import HubCaller, ToolContext, ToolResult
from agent_runtime.sandbox import Confinement
from agent_runtime.tools import HUB_TOOL_NAMES, RESERVED_TOOL_NAMES, ToolRegistry, builtin_tools

from .doubles import finished


@dataclass
class FakeHub:
    """Notes what it is asked."""

    away: bool = False
    asked: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])

    def _note(self, *what: Any) -> None:
        if self.away:
            raise MeshUnavailable("the host's hub is away")
        self.asked.append(what)

    async def peers(self, *, capability: str | None, text: str | None, limit: int) -> list[dict[str, Any]]:
        self._note("peers", capability, text, limit)
        return [{"name": "bob"}]

    async def delegate(self, caller: HubCaller, agent: str, text: str, seconds: float) -> dict[str, Any]:
        self._note("delegate", caller, agent, text, seconds)
        return {"agent": agent, "answer": "42", "session": "hs_1"}

    async def say(
        self,
        caller: HubCaller,
        text: str,
        *,
        session: str | None,
        audience: Sequence[str] | None,
        hand_over_to: str | None,
    ) -> dict[str, Any]:
        self._note("say", caller, text, session, audience, hand_over_to)
        return {"session": session, "envelope_id": "env_1"}

    async def list_sessions(self) -> list[dict[str, str]]:
        self._note("list")
        return []

    async def open_session(
        self, caller: HubCaller, type: str, agents: Sequence[str], text: str | None
    ) -> dict[str, Any]:
        self._note("open", caller, type, agents, text)
        return {"session": "hs_1"}

    async def read_session(self, session: str, after: int, limit: int) -> dict[str, Any]:
        self._note("read", session, after, limit)
        return {"texts": []}

    async def close_session(self, session: str) -> None:
        self._note("close", session)


CALLER = HubCaller("operator", "", "msg_1:call_1")
MINE: dict[str, Any] = {"text": "Hi", "session": "hs_1", "audience": ["bob"], "hand_over_to": "eve"}


def registry(hub: FakeHub) -> ToolRegistry:
    return ToolRegistry(builtin_tools(Confinement(None), hub=hub))


async def run(hub: FakeHub, name: str, context: ToolContext, **arguments: Any) -> ToolResult:
    call = replace(context, message_id="msg_1", call_id="call_1")
    return finished(await registry(hub).snapshot().run(name, arguments, call))


@pytest.mark.parametrize(
    ("name", "arguments", "asked"),
    [
        ("peers", {"text": "bo"}, ("peers", None, "bo", 20)),
        ("delegate", {"agent": "bob", "text": "Sum?"}, ("delegate", CALLER, "bob", "Sum?", 120.0)),
        ("say", MINE, ("say", CALLER, "Hi", "hs_1", ["bob"], "eve")),
        ("sessions", {}, ("list",)),
        ("sessions", {"action": "read", "session": "hs_1", "after": 3}, ("read", "hs_1", 3, 20)),
        ("sessions", {"action": "close", "session": "hs_1"}, ("close", "hs_1")),
        (
            "sessions",
            {"action": "open", "type": "discussion", "agents": ["bob", "eve"], "text": "Well?"},
            ("open", CALLER, "discussion", ["bob", "eve"], "Well?"),
        ),
    ],
)
async def test_a_call_asks_the_hub(
    context: ToolContext, name: str, arguments: dict[str, Any], asked: tuple[Any, ...]
) -> None:
    hub = FakeHub()
    assert (await run(hub, name, context, **arguments)).type == "output"
    assert hub.asked == [asked]


async def test_wrong_calls_and_a_hub_that_is_away_are_told(context: ToolContext) -> None:
    missing = await run(FakeHub(), "sessions", context, action="read")
    assert (missing.error_text, missing.metadata["kind"]) == ("session: is needed to read a session", "invalid")
    long = await run(FakeHub(), "delegate", context, agent="bob", text="Sum?", timeout_seconds=601)
    assert "timeout_seconds" in str(long.error_text)
    for name, arguments in (("peers", {}), ("delegate", {"agent": "bob", "text": "Sum?"}), ("say", {"text": "Hi"})):
        away = await run(FakeHub(away=True), name, context, **arguments)
        assert (away.metadata["kind"], "is away" in str(away.error_text)) == ("unavailable", True)


async def test_grants_and_rules(context: ToolContext) -> None:
    layer = Layer(RequirementSet(capabilities=["hub.read"]))
    looking = replace(context, authority=Authority((layer,)))
    for name, arguments in (("peers", {}), ("sessions", {})):
        assert (await run(FakeHub(), name, looking, **arguments)).type == "output"
    for name, arguments in (("say", {"text": "Hi"}), ("sessions", {"action": "close", "session": "hs_1"})):
        assert (await run(FakeHub(), name, looking, **arguments)).metadata["kind"] == "denied"
    default = AgentDirectory().get("default")
    assert default is not None
    unattended = replace(context, authority=Authority().with_layer(default.layer))
    assert (await run(FakeHub(), "delegate", unattended, agent="bob", text="Sum?")).type == "output"


def test_they_are_found_by_search_unless_a_manifest_names_them() -> None:
    names = set(HUB_TOOL_NAMES)
    assert names < RESERVED_TOOL_NAMES
    tools = registry(FakeHub())
    shown = tools.snapshot()
    assert not {spec.name for spec in shown.specs} & names
    assert {spec.name for spec in shown.search("ask another agent", 10)} >= {"delegate"}
    layer = Layer(RequirementSet(), tools=("read", "tool_search", "delegate"))
    named = tools.snapshot(authority=Authority((layer,)))
    assert {spec.name for spec in named.specs} == {"read", "tool_search", "delegate"}
    assert not names & {spec.name for spec in ToolRegistry(builtin_tools(Confinement(None))).all_specs()}
