"""Live runtimes ask each other by tools of source `hub`, and are told when that cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from agent_testing import Call, Fail, Hang, Say

from ..live import fresh
from .hub_world import HubRuntime, HubWorld, answer_to, eventually

pytestmark = pytest.mark.slow

AWAY = (
    ("peers", {}),
    ("delegate", {"agent": "bob", "text": "Anything?"}),
    ("say", {"session": "hs_1", "text": "Hello"}),
    ("sessions", {}),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubWorld]:
    made = HubWorld(tmp_path_factory.mktemp("tools"), ("ann", "bob"))
    yield made
    made.close()


def envelopes(runtime: HubRuntime, *calls: Call) -> list[Any]:
    """What the model sees of its calls, in a turn that a person has asked for."""
    runtime.provider.script.replace([*calls, Say("done")])
    reply = runtime.chat("go", session_id=fresh("s"))
    assert reply.status_code == 200, reply.text
    return [one["output"] for one in reply.json()["tool_outputs"]]


def results(runtime: HubRuntime, since: int) -> str:
    """The results of tools that a model has been sent."""
    seen = [one for request in runtime.provider.completions[since:] for one in request.messages]
    return "\n".join(str(one["content"]) for one in seen if one["role"] == "tool")


def test_a_runtime_asks_another_which_cannot_ask_it_back(world: HubWorld) -> None:
    ann, bob = world.runtimes["ann"], world.runtimes["bob"]
    since = bob.asked
    bob.provider.script.replace([Call("delegate", {"agent": "ann", "text": "You first?"}), Say("It is 7.")])
    peers, answer = envelopes(
        ann,
        Call("peers", {"text": "bob"}),
        Call("delegate", {"agent": "bob", "text": "What is the number?", "timeout_seconds": 600}),
    )
    assert [(one["name"], one["connected"]) for one in peers["data"]["agents"]] == [("bob", True)]
    assert isinstance(answer, dict), answer
    assert (answer["data"]["agent"], answer["data"]["answer"]) == ("bob", "It is 7.")
    assert "waits for this turn" in results(bob, since)
    (result,) = [one for one in ann.provider.completions[-1].messages if "It is 7." in str(one["content"])]
    assert (result["role"], '"source":"agent on the hub bob"' in result["content"]) == ("tool", True)
    (session,) = [
        one for one in envelopes(ann, Call("sessions", {}))[0]["data"]["sessions"]
        if one["session"] == answer["data"]["session"]
    ]  # fmt: skip
    assert (session["type"], session["state"]) == ("consulting", "closed")
    (read,) = envelopes(ann, Call("sessions", {"action": "read", "session": session["session"]}))
    assert [(one["from"], one["text"]) for one in read["data"]["texts"]] == [
        ("ann", "What is the number?"),
        ("bob", "It is 7."),
    ]


def test_no_answer_is_an_error_that_says_why(world: HubWorld) -> None:
    ann, bob = world.runtimes["ann"], world.runtimes["bob"]
    ask = Call("delegate", {"agent": "bob", "text": "Well?", "timeout_seconds": 600})
    bob.provider.script.replace([Fail(400, "no")])
    assert "bob gives no answer: its turn failed" in str(envelopes(ann, ask))
    bob.provider.script.replace([Hang(0, Say("late"))])
    (late,) = envelopes(ann, Call("delegate", {"agent": "bob", "text": "Well?", "timeout_seconds": 3}))
    assert "within 3 s" in late
    bob.provider.release()
    (unknown,) = envelopes(ann, Call("delegate", {"agent": "nobody", "text": "Well?"}))
    assert "no agent nobody" in unknown
    (itself,) = envelopes(ann, Call("delegate", {"agent": "ann", "text": "Well?"}))
    assert "is the creator" in itself


async def test_what_is_said_in_a_turn_stands_in_place_of_its_reply(world: HubWorld) -> None:
    ann = world.runtimes["ann"]
    ann.provider.script.replace([Call("say", {"text": "Said."}), Say("I have said it."), Say("A reply.")])
    async with world.client(fresh("client")) as client:
        session = await client.open(type="conversation", target="ann")
        first = await session.send("Say it.")
        assert (await answer_to(client, session, first)).text == "Said."
        second = await session.send("And now?")
        assert (await answer_to(client, session, second)).text == "A reply."
        page, _ = await client.read_log(session.session_id, 0, 100)
        assert [one.text for one in page if one.text] == ["Say it.", "Said.", "And now?", "A reply."]


async def test_while_the_host_is_away_each_tool_says_so(world: HubWorld) -> None:
    ann = world.runtimes["ann"]
    await asyncio.to_thread(world.host.process.kill9)
    for name, arguments in AWAY:
        (failed,) = await asyncio.to_thread(envelopes, ann, Call(name, arguments))
        assert "the host's hub is away" in failed, name
    await asyncio.to_thread(world.host.start)
    joined = {"ann", "bob"}  # for the tests after this one
    await eventually(lambda: joined <= {one["passport"]["name"] for one in world.agents() if one["connected"]})
