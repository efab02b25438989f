"""Live agents with the tools of the mesh: a team shares a blackboard, another team does not see it, a host may go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.integration.host.echo_service import EchoService
from tests.integration.host.live import Host
from tests.integration.host.members import make_token
from tests.integration.host.reporting import made
from tests.integration.host.watching import eventually
from tests.ports import free_port

from ..live import Runtime, fresh

pytestmark = pytest.mark.slow

TEAMS = {"ann": "red", "bob": "red", "eve": "blue"}
SERVICES = """
services:
  echo: {{base_url: "{url}", private: true, teams: [red], paths: [/open]}}
"""
GARDEN = {"beds": 3}


class Member(Runtime):
    """An agent of a team."""

    def envelope(self, name: str, /, **arguments: object) -> dict[str, Any]:
        """The envelope of one tool call, as the model sees it."""
        self.provider.script.replace([Call(name, arguments), Say("done")])
        reply = self.chat("go", session_id=fresh("s"))
        assert reply.status_code == 200, reply.text
        (output,) = reply.json()["tool_outputs"]
        return output["output"]

    def data(self, name: str, /, **arguments: object) -> Any:
        envelope = self.envelope(name, **arguments)
        assert isinstance(envelope, dict), envelope
        return envelope["data"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, dict[str, Member]]]:
    folder = tmp_path_factory.mktemp("team")
    services = folder / "services.yaml"
    with ExitStack() as stack:
        services.write_text(SERVICES.format(url=stack.enter_context(EchoService()).url))
        provider = stack.enter_context(ScriptedProvider())
        # The same ports after a restart: agents look for it where it was.
        at = {"MESH_PORT": free_port(), "MESH_LISTENER_URL": f"tcp://127.0.0.1:{free_port()}"}
        host = stack.enter_context(Host(folder / "mesh", MESH_SERVICES=services, **at))
        members: dict[str, Member] = {}
        for name, team in TEAMS.items():
            (folder / name).mkdir()
            workspace = made(host, name, team=team)
            where = {"AGENT_ID": name, "AGENT_MESH_URL": host.url, "AGENT_MESH_TOKEN": make_token(host, name)}
            if name == "bob":
                (folder / "key").write_text(workspace["mediation_key"])
                where |= {
                    "AGENT_MEDIATION_URL": workspace["mediation_url"],
                    "AGENT_MEDIATION_KEY_FILE": f"{folder / 'key'}",
                }
            members[name] = stack.enter_context(Member(provider, folder / name / "data", **where))
        yield host, members


def test_a_team_shares_a_blackboard(world: tuple[Host, dict[str, Member]]) -> None:
    _, members = world
    ann, bob, eve = members["ann"], members["bob"], members["eve"]
    assert ann.data("write_blackboard", key="plans/garden", value=GARDEN, if_absent=True)["version"] == 1
    read = bob.data("read_blackboard", key="plans/garden")
    assert (read["value"], read["version"], read["updated_by"]) == (GARDEN, 1, "ann")
    assert read["cause"]["session"].startswith("ses_")
    assert bob.data("write_blackboard", key="plans/garden", value={"beds": 4}, if_version=1)["written"]
    late = ann.data("write_blackboard", key="plans/garden", value={"beds": 5}, if_version=1)
    assert (late["written"], late["present"]) == (False, {"value": {"beds": 4}, "version": 2})
    assert "there is no entry" in str(eve.envelope("read_blackboard", key="plans/garden"))
    assert eve.data("list_blackboard")["entries"] == []
    assert [entry["key"] for entry in bob.data("list_blackboard", prefix="plans/")["entries"]] == ["plans/garden"]
    result = next(one for one in bob.provider.requests[-1].messages if one["role"] == "tool")
    assert '"source":"blackboard plans/"' in result["content"]


def test_one_of_a_team_claims(world: tuple[Host, dict[str, Member]]) -> None:
    _, members = world
    ann, bob = members["ann"], members["bob"]
    assert ann.data("write_blackboard", key="job", value=None)["written"]
    assert ann.data("claim", key="job")["claimed"]
    assert bob.data("claim", key="job")["claimed_by"] == "ann"
    assert ann.data("claim", key="job", action="renew")["claimed"]
    assert ann.data("claim", key="job", action="release")["released"]
    assert bob.data("claim", key="job")["claimed"]


def test_events_and_services(world: tuple[Host, dict[str, Member]]) -> None:
    host, members = world
    event = {"topic": "orders", "data": GARDEN, "id": "order-7"}
    assert members["ann"].data("publish_event", **event) == {"id": "order-7", "seq": 1, "known": False}
    assert members["ann"].data("publish_event", **event)["known"]
    (message,) = host.operator.get("/topics/orders", params={"team": "red"}).json()["messages"]
    assert (message["data"], message["by"]) == (GARDEN, "ann")
    answer = members["bob"].data("call_service", service="echo", path="/open")
    assert (answer["status"], answer["json"]["method"]) == (200, "GET")
    assert "path" in str(members["bob"].envelope("call_service", service="echo", path="/other"))
    assert "no service" in str(members["eve"].envelope("call_service", service="echo", path="/open")).lower()


def test_a_team_shares_files(world: tuple[Host, dict[str, Member]]) -> None:
    _, members = world
    ann, bob, eve = members["ann"], members["bob"], members["eve"]
    assert ann.data("write", path="may.csv", content="a,b\n")["created"]
    saved = ann.data("save_artifact", path="may.csv", name="reports/may.csv")
    got = bob.data("get_artifact", name="reports/may.csv", path="in/may.csv")
    assert (got["version"], got["sha256"], got["media_type"]) == (1, saved["sha256"], "text/csv")
    assert bob.data("read", path="in/may.csv")["content"] == "a,b\n"
    (listed,) = bob.data("list_artifacts", prefix="reports/")["artifacts"]
    assert (listed["updated_by"], listed["cause"]["session"][:4]) == ("ann", "ses_")
    assert "there is no artifact" in str(eve.envelope("get_artifact", name="reports/may.csv", path="x")).lower()
    assert eve.data("list_artifacts")["artifacts"] == []


def states(host: Host) -> dict[str, str]:
    return {agent["id"]: agent["state"] for agent in host.operator.get("/agents").json()["agents"]}


def test_agents_know_and_ask_each_other(world: tuple[Host, dict[str, Member]]) -> None:
    host, members = world
    ann = members["ann"]
    eventually(lambda: {**dict.fromkeys(members, "away"), "bob": "attached"} == states(host))  # each posted its card
    found = ann.data("list_agents", capability="ask_agent")["agents"]
    assert [agent["id"] for agent in found] == ["ann", "bob"]
    assert "there is no agent 'eve'" in str(ann.envelope("ask_agent", agent="eve", message="hi"))
    assert "do it yourself" in str(ann.envelope("hand_off", agent="ann", message="hi"))
    asks = Call("ask_agent", {"agent": "bob", "message": "How many beds?"})
    ann.provider.script.replace([asks, Say("three"), Say("done")])
    reply = ann.chat("go", session_id=fresh("s"))
    (asked,) = reply.json()["tool_outputs"]
    assert asked["output"]["data"] == {"status": "completed", "response": {"text": "three"}}
    result = next(one for one in ann.provider.requests[-1].messages if one["role"] == "tool")
    assert '"source":"agent bob"' in result["content"]
    assert "How many beds?" in str(ann.provider.requests[-2].messages), "bob's task"


def test_without_its_host_a_call_fails_at_once(world: tuple[Host, dict[str, Member]]) -> None:
    host, members = world
    host.process.terminate(60)
    try:
        assert "the host gave no answer" in str(members["ann"].envelope("write_blackboard", key="later", value=1))
    finally:
        host.start()  # at the same port, for the tests after this one
