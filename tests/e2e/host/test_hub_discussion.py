"""Three live runtimes hold a discussion and a workflow, watched by `agent hub tail`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from agent_testing import Call, LiveProcess, Say
from tests.integration.host.live import OPERATOR, PATIENCE

from ..live import fresh
from .hub_world import HubWorld

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubWorld]:
    made = HubWorld(tmp_path_factory.mktemp("three"), ("ann", "bob", "eve"))
    yield made
    made.close()


def opened(world: HubWorld) -> str:
    """Have ann open a session, as its script says, and return the session's id."""
    reply = world.runtimes["ann"].chat("Begin.", session_id=fresh("s"))
    assert reply.status_code == 200, reply.text
    (output,) = reply.json()["tool_outputs"]
    return output["output"]["data"]["session"]


def watched(world: HubWorld, session_id: str, last: str) -> list[tuple[str, str, str]]:
    """Sender, event type and text of the turns that `agent hub tail` prints up to a text."""
    command = [sys.executable, "-m", "agent_client", "hub", "tail", session_id, "--json"]
    env = {"AGENT_URL": world.host.url, "AGENT_TOKEN": OPERATOR}
    names = {one["agent_id"]: one["passport"]["name"] for one in world.agents()}
    with LiveProcess(command, env) as tail:
        tail.wait_for_output(f'"text": ?"{last}"', PATIENCE)
        lines = [json.loads(line) for line in tail.output().splitlines() if line.startswith("{")]
    said = [one for one in lines if one["event_data"].get("text")]
    return [(names[one["sender_id"]], one["event_type"], one["event_data"]["text"]) for one in said]


def begin(kind: str, text: str) -> Call:
    return Call("sessions", {"action": "open", "type": kind, "agents": ["bob", "eve"], "text": text})


def test_a_discussion_goes_round(world: HubWorld) -> None:
    ann, bob, eve = world.runtimes.values()
    # Ann's last word is left unsaid, so that the discussion rests.
    ann.provider.script.replace(lambda request: _ann(str(request.messages[1:])))
    bob.provider.script.replace([Say("two"), Say("five")])
    eve.provider.script.replace([Say("three"), Say("six")])
    session_id = opened(world)
    said = watched(world, session_id, "six")
    assert [(who, text) for who, _, text in said] == [
        ("ann", "one"), ("bob", "two"), ("eve", "three"), ("ann", "four"), ("bob", "five"), ("eve", "six"),
    ]  # fmt: skip
    seen = str(eve.provider.completions[-2].messages[-1]["content"])
    assert seen.index('source="ann">\none') < seen.index('source="bob">\ntwo'), "what came before its turn is shown"


def _ann(seen: str) -> Call | Say:
    """A model that opens a discussion, speaks when two and three were said, and then is silent."""
    if "discussion hs_" not in seen:
        return Say("It has begun.") if "'role': 'tool'" in seen else begin("discussion", "one")
    return Say("SILENT") if "six" in seen else Say("four")


def test_a_workflow_is_handed_over(world: HubWorld) -> None:
    ann, bob, eve = world.runtimes.values()
    bob.provider.script.replace([Call("say", {"text": "back to you", "hand_over_to": "ann"}), Say("handed over")])
    eve.provider.script.replace([Say("the end")])
    turns = [Call("say", {"text": "eve, please", "hand_over_to": "eve"}), *[Say("SILENT")] * 2]
    ann.provider.script.replace(lambda request: _opener(str(request.messages[1:]), turns))
    session_id = opened(world)
    assert watched(world, session_id, "the end") == [
        ("ann", "ag2.msg.text", "start"),
        ("bob", "ag2.handoff", "back to you"),
        ("ann", "ag2.handoff", "eve, please"),
        ("eve", "ag2.msg.text", "the end"),
    ]


def _opener(seen: str, turns: list[Call | Say]) -> Call | Say:
    """A model that opens a workflow, and then takes its turns in it."""
    if "workflow hs_" not in seen:
        return Say("It has begun.") if "'role': 'tool'" in seen else begin("workflow", "start")
    return turns.pop(0)
