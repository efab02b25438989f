"""The client against a live host: agents, a blackboard, topics, artifacts of a team; as operator and as an agent."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from agent_client import Conflict, InvalidRequest, Mesh, NotFound, PreconditionFailed, Team, TeamEvent
from agent_client.sync import SyncMesh
from agent_common.protocol import Change
from agent_testing import Hang, Say
from tests.integration.host.live import OPERATOR, PATIENCE
from tests.integration.host.members import make_member

from ..live import fresh
from .conftest import World


@pytest.fixture
async def team(world: World) -> AsyncIterator[Team]:
    async with Mesh(world.host.url, OPERATOR) as mesh:
        yield mesh.team(fresh("team"))


async def test_an_entry_from_its_first_version_to_its_end(team: Team) -> None:
    board = team.blackboard
    first = await board.put("plans/a b", {"beds": 3}, if_absent=True)
    assert (first.version, first.value, first.updated_by) == (1, {"beds": 3}, "operator")
    with pytest.raises(PreconditionFailed, match="version_conflict"):
        await board.put("plans/a b", 0, if_absent=True)
    assert (await board.put("plans/a b", None, ttl=600, if_version=1)).expires_at is not None
    with pytest.raises(PreconditionFailed):
        await board.delete("plans/a b", if_version=1)
    await board.put("other", 1)
    assert [entry.key async for entry in board.list("plans/")] == ["plans/a b"]
    assert (await board.get("plans/a b")).value is None
    await board.delete("plans/a b")
    assert [(one.kind, one.version) async for one in board.history("plans/a b")] == [
        ("delete", 3), ("put", 2), ("put", 1),
    ]  # fmt: skip
    with pytest.raises(NotFound):
        await board.get("plans/a b")
    for wrong in ("../workspaces/ada", "a//b", ""):
        with pytest.raises(InvalidRequest):
            await board.put(wrong, 1)


async def test_an_entry_is_claimed_and_released(team: Team) -> None:
    await team.blackboard.put("job", 1)
    claim = await team.blackboard.claim("job", 60)
    assert (await team.blackboard.claim("job", 60)).claim_id == claim.claim_id
    await team.blackboard.release("job")


async def test_changes_are_followed_from_the_first_and_from_any(team: Team) -> None:
    board = team.blackboard
    for number in range(3):
        await board.put("count", number)
    events = await first_events(board.watch("count", after="0"), 3)
    assert [(event.type, event.content.value) for event in events if event.content] == [
        ("put", one) for one in range(3)
    ]
    assert [event.id for event in await first_events(board.watch(after=events[1].id), 1)] == [events[2].id]


async def first_events(events: AsyncIterator[TeamEvent[Change]], count: int) -> list[TeamEvent[Change]]:
    async with asyncio.timeout(PATIENCE):
        return [await anext(events) for _ in range(count)]


async def test_messages_are_published_once_and_read_in_their_order(team: Team) -> None:
    topics = team.topics
    assert (await topics.publish("orders", {"beds": 3}, id="order-7")).seq == 1
    assert (await topics.publish("orders", {"beds": 3}, id="order-7")).seq == 1
    with pytest.raises(Conflict, match="message_conflict"):
        await topics.publish("orders", {"beds": 4}, id="order-7")
    await topics.publish("orders", "more")
    assert [(one.seq, one.data) async for one in topics.read("orders")] == [(1, {"beds": 3}), (2, "more")]
    assert [one.seq async for one in topics.read("orders", after=1)] == [2]
    async with asyncio.timeout(PATIENCE):
        event = await anext(topics.follow("orders", after=1))
    assert (event.id, event.type, event.content and event.content.data) == ("2", "message", "more")
    await topics.delete("orders")
    with pytest.raises(NotFound):
        await anext(topics.read("orders"))


async def test_artifacts_are_saved_in_versions_and_read_whole(team: Team) -> None:
    artifacts, data = team.artifacts, b"0123456789" * 100_000
    made = await artifacts.write("reports/may.csv", data, if_absent=True)
    assert (made.version, made.size, made.media_type) == (1, len(data), "text/csv")
    assert made.sha256 == hashlib.sha256(data).hexdigest()
    with pytest.raises(PreconditionFailed):
        await artifacts.write("reports/may.csv", "no", if_version=2)
    await artifacts.write("reports/may.csv", "two", media_type="text/plain", if_version=1)
    assert await artifacts.read("reports/may.csv", version=1) == data
    assert await artifacts.read("reports/may.csv") == b"two"
    assert await artifacts.stat("reports/may.csv", version=1) == made
    assert [(one.name, one.version) async for one in artifacts.list("reports/")] == [("reports/may.csv", 2)]
    await artifacts.delete("reports/may.csv", version=2)
    with pytest.raises(NotFound):
        await artifacts.read("reports/may.csv", version=2)
    await artifacts.delete("reports/may.csv")
    assert [one async for one in artifacts.list()] == []


async def test_an_agent_is_found_asked_and_handed_work(world: World) -> None:
    world.provider.script.replace([Say("three"), Say("done")], otherwise=Hang())
    async with Mesh(world.host.url, OPERATOR) as mesh:
        agents = mesh.team("counting").agents
        async with asyncio.timeout(PATIENCE):
            while not [one async for one in agents.list(capability="bash")]:  # it posts its card when it has started
                await asyncio.sleep(0.05)
        card = await agents.get("ada")
        assert (card.id, card.team, card.state) == ("ada", "counting", "attached")
        reply = await agents.ask("ada", "How many beds?", key=(key := fresh("ask")))
        assert (reply.status, reply.response) == ("completed", {"text": "three"})
        assert await agents.ask("ada", "How many beds?", key=key) == reply
        assert (await agents.cancel("ada", key)).status == "resulted"
        with pytest.raises(NotFound):
            await agents.cancel("ada", fresh("ask"))
        with pytest.raises(Conflict, match="message_conflict"):
            await agents.ask("ada", "How many more?", key=key)
        given = await agents.hand_off("ada", "Plant them.")
        assert (await mesh.work.wait(given.request_id)).status == "resulted"
        late = await agents.ask("ada", "And when?", seconds=0.5)
        assert (late.status, late.response) == ("timeout", None)
        for wrong in ("nobody", ".."):
            with pytest.raises(NotFound):
                await agents.ask(wrong, "Hello?")
        with pytest.raises(NotFound):
            await mesh.team("other").agents.get("ada")
        with pytest.raises(InvalidRequest, match="message"):
            await agents.hand_off("ada", "")


def test_an_agent_writes_to_its_own_team_without_await(world: World) -> None:
    token = make_member(world.host, name := fresh("member"), fresh("red"))
    with SyncMesh(world.host.url, token) as mesh:
        own = mesh.team()
        assert own.blackboard.put("mine", [1]).updated_by == name
        assert [entry.key for entry in own.blackboard.list()] == ["mine"]
        assert next(own.blackboard.watch(after="0")).type == "put"
        assert own.artifacts.write("a.txt", "text").version == 1
        assert b"".join(own.artifacts.stream("a.txt")) == b"text"
        assert own.topics.publish("news", None).seq == 1
        assert list(own.agents.list()) == []
        with pytest.raises(NotFound):
            mesh.team("counting").blackboard.get("mine")
