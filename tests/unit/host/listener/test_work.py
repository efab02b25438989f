"""Work from the caller to the agent and back."""

from __future__ import annotations

import pytest

from agent_host.errors import Conflict, NotFound

from .conftest import Room


async def test_a_request_goes_out_and_its_result_comes_back(room: Room) -> None:
    agent = await room.attached()
    await room.submit()
    request = await agent.request()
    assert request["request_id"] == "r1"
    assert request["principal"] == {"name": "ann", "kind": "user", "verified": True, "authorization_scope": []}
    await room.stands("dispatched")
    agent.accept(request)
    await room.stands("accepted")
    agent.result(request)
    assert await agent.expect("ack") == {"ctl": "ack", "request_id": "r1", "what": "result"}
    agent.complete(request)
    record = await room.ended()
    assert (record.status, record.attempts) == ("resulted", 1)
    assert record.result is not None
    assert record.result.content == "did ping"


async def test_work_waits_for_its_agent(room: Room) -> None:
    assert (await room.submit()).status == "queued"
    agent = await room.attached()
    assert (await agent.request())["request_id"] == "r1"


async def test_the_same_again_is_the_same_and_other_content_is_refused(room: Room) -> None:
    await room.submit()
    assert (await room.submit()).status == "queued"
    with pytest.raises(Conflict):
        await room.submit(content="other")
    agent = await room.attached()
    request = await agent.request()
    agent.result(request)
    await room.ended()
    again = await room.submit()
    assert again.status == "resulted"
    with pytest.raises(Conflict):
        await room.submit(content="other")
    with pytest.raises(NotFound):
        await room.submit("r2", name="nobody")
    assert room.count("requests") == 1


async def test_an_agent_gets_as_much_as_it_offers(room: Room) -> None:
    agent = await room.attached(window=2)
    for number in range(3):
        await room.submit(f"r{number}")
    first, second = await agent.request(), await agent.request()
    assert (first["request_id"], second["request_id"]) == ("r0", "r1")
    agent.accept(second)
    agent.result(second)
    await agent.expect("ack")
    assert await room.status("r2") == "queued", "the place is free when it says so"
    agent.complete(second)
    assert (await agent.request())["request_id"] == "r2"
