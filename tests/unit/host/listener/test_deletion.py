"""A deleted workspace: its work ends, its agent is cut, and nothing of it counts for the next of that name."""

from __future__ import annotations

import pytest

from agent_host.errors import NotFound

from .agent import Agent
from .conftest import Room
from .test_breaks import begun

NO_WORKSPACE = "no_workspace: its workspace is deleted"


async def greeted(room: Room) -> Agent:
    """An agent that is asked for its proof, and has not answered."""
    agent = await room.connected()
    agent.ready()
    agent.welcome = await agent.expect("welcome")
    return agent


async def test_all_open_work_ends_and_the_agent_is_cut(room: Room) -> None:
    agent, _ = await begun(room)
    for name in ("r2", "r3"):
        await room.submit(name)
    await room.listener.workspaces.delete_channel("a")
    assert [await room.error(name) for name in ("r1", "r2", "r3")] == [NO_WORKSPACE] * 3
    assert await agent.ended()
    assert room.listener.attached == 0
    with pytest.raises(NotFound):
        await room.submit("r4")
    await room.listener.workspaces.delete_channel("a")
    await room.again()
    assert await room.error("r1") == NO_WORKSPACE


async def test_the_old_agent_and_its_result_do_not_count_for_the_new_one(room: Room) -> None:
    agent, request = await begun(room)
    old_key = agent.key
    await room.listener.workspaces.delete_channel("a")
    await room.enrol()
    await room.submit("r2")
    intruder = await room.connected()
    intruder.key = old_key
    intruder.ready()
    intruder.welcome = await intruder.expect("welcome")
    intruder.answer(intruder.welcome["challenge"])
    intruder.result({**request, "request_id": "r2"})
    assert (await intruder.expect("nack"))["code"] == "wrong_mac"
    assert await room.status("r2") == "queued"
    renewed = await room.attached(unacked=("r1",))
    renewed.result(request)
    assert await room.error("r1") == NO_WORKSPACE, "what has ended stays as it is"


@pytest.mark.parametrize("auth", ["hmac", "none"])
async def test_epochs_go_on_over_lives_of_workspace_and_host(room: Room, auth: str) -> None:
    address = {"auth": auth, "listen": "tcp://127.0.0.1:0"} if auth == "none" else {}
    await room.listener.workspaces.delete_channel("a")
    epochs: list[int] = []
    for _ in range(3):
        await room.enrol(**address)
        for _ in range(2):
            epochs.append((await room.attached()).epoch)
            await room.again()
        await room.listener.workspaces.delete_channel("a")
    assert epochs == sorted(set(epochs)), "none is given twice"
    assert len(epochs) == 6


async def test_a_handshake_under_way_does_not_outlive_the_workspace(room: Room) -> None:
    agent = await greeted(room)
    await room.listener.workspaces.delete_channel("a")
    agent.answer(agent.welcome["challenge"])
    assert (await agent.expect("nack"))["code"] == "attach_while_deleted"
    assert await agent.ended()
    await room.enrol()
    assert room.listener.attached == 0


@pytest.mark.parametrize(("fence", "code"), [("quarantine", "quarantined"), ("delete", "deleted")])
async def test_an_agent_that_waits_for_its_allowance_is_not_attached_behind_a_fence(
    room: Room, fence: str, code: str
) -> None:
    channel = room.listener.channels.get("a")
    channel.rate_limiter.spend(5000)
    agent = await greeted(room)
    agent.answer(agent.welcome["challenge"])
    await room.until(lambda: channel.epoch == agent.welcome["epoch"])
    if fence == "quarantine":
        await room.listener.workspaces.quarantine("a", "a test")
    else:
        await room.listener.workspaces.delete_channel("a")
    room.pass_time(9)
    assert (await agent.expect("nack"))["code"] == f"attach_while_{code}"
    assert channel.session is None


async def test_the_constraints_go_too(room: Room) -> None:
    await room.listener.workspaces.push_constraints("a", 7, b"rules")
    await room.listener.workspaces.delete_channel("a")
    await room.enrol()
    assert room.listener.channels.get("a").constraints is None
    await room.listener.workspaces.push_constraints("a", 1, b"others")
    await room.again()
    constraints = room.listener.channels.get("a").constraints
    assert constraints is not None
    assert constraints.version == 1


async def test_the_trail_is_kept(room: Room) -> None:
    await begun(room)
    await room.listener.workspaces.delete_channel("a")
    await room.again()
    rows, _ = await room.listener.read_audit("a", None, 0, 1000)
    assert {"enrolled", "attached", "submitted", "dead", "deleted"} <= {row["type"] for row in rows}
