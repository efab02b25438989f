"""The client against a live runtime: tasks, chats, sessions, files, events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from pydantic import BaseModel

from agent_client import (
    Agent,
    AgentEvent,
    Approval,
    ChatEvent,
    Conflict,
    DeadlineExceeded,
    Finished,
    InvalidRequest,
    Limits,
    MapFailed,
    NotFound,
    NotWaiting,
    PreconditionFailed,
    Question,
    Steered,
    StepFinished,
    StepStarted,
    TaskFailed,
    TextDelta,
    ToolCall,
    ToolResult,
    TurnFailed,
    Unauthorized,
)
from agent_common.protocol import SessionRule
from agent_testing import Call, Fail, FakeBridge, Hang, Recorded, Say, Step, Trip

from ..live import PATIENCE, TOKEN, Runtime, fresh


class Report(BaseModel):
    orders: int
    title: str = "none"


def answer(**result: object) -> Say:
    return Say(json.dumps({"result": result}))


# ---------------------------------------------------------------- tasks


async def test_a_task_answers_with_an_object(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace([answer(orders=3), answer(orders=4)])
    id = fresh("t")
    assert await client.run("count the orders", id=id, limits=Limits(seconds=30, tokens=10_000)) == {"orders": 3}
    assert await client.run("count the orders", id=id, limits=Limits(seconds=30, tokens=10_000)) == {"orders": 3}
    assert len(agent.provider.completions) == 1
    with pytest.raises(Conflict, match="task_conflict"):
        await client.run("something else", id=id)
    assert [task.task_id async for task in client.tasks("complete") if task.task_id == id] == [id]


async def test_an_empty_input_is_a_task(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace(None, otherwise=Say('{"result": {"orders": 3}}'))
    assert await client.run({}) == {"orders": 3}
    assert await client.map([{}, {}]) == [{"orders": 3}, {"orders": 3}]


async def test_a_task_that_fails_says_why(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace([Fail(401, "no key")])
    with pytest.raises(TaskFailed) as caught:
        await client.run({"ask": "anything"})
    assert caught.value.code == "model_auth"
    assert caught.value.result.status == "failed"


async def test_the_wait_for_a_task_ends_and_the_task_goes_on(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace([Hang(reply=answer(orders=1))])
    task = await client.submit("count")
    with pytest.raises(DeadlineExceeded):
        await task.result(wait=0.2)
    await asyncio.to_thread(agent.provider.wait_for, 1)
    assert (await task.record()).status == "running"
    agent.provider.release()
    assert await task.result() == {"orders": 1}
    agent.provider.script.replace([Hang()])
    stopped = await client.submit("count")
    await stopped.cancel()
    with pytest.raises(TaskFailed, match="is cancelled"):
        await stopped.result()


async def test_a_map_keeps_the_order_and_the_bound(agent: Runtime, client: Agent) -> None:
    """Each answer waits until the next tasks run too, and there are never more of them than allowed."""
    running, most = 0, 0

    def model(request: Recorded) -> Step:
        nonlocal most
        most = max(most, client_tasks())
        number = request.last_user_text.split("number-")[1].split('"')[0]
        return Fail(401) if number == "7" else answer(orders=int(number))

    def client_tasks() -> int:
        return agent.status()["sessions"]["running"]

    agent.provider.script.replace(model)
    inputs = (f"number-{number}" for number in range(12))
    with pytest.raises(MapFailed, match="1 of 12 tasks failed") as caught:
        await client.map(inputs, at_once=3, id=fresh("m"))
    results = caught.value.results
    assert isinstance(results[7], TaskFailed)
    assert [one for number, one in enumerate(results) if number != 7] == [{"orders": n} for n in range(12) if n != 7]
    assert 1 <= most <= 3
    assert await client.map(["number-1", "number-0"], at_once=9) == [{"orders": 1}, {"orders": 0}]
    assert running == 0


# ---------------------------------------------------------------- chats


async def test_a_chat_is_typed_events(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace([Call("todo", {"todos": []}, text="A list.", id="c1"), Say("All done.")])
    events = [event async for event in client.chat("work", session=fresh("s"))]
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == "A list.All done."
    assert [event.number for event in events if isinstance(event, StepStarted | StepFinished)] == [1, 1, 2, 2]
    (call,) = (event for event in events if isinstance(event, ToolCall))
    (result,) = (event for event in events if isinstance(event, ToolResult))
    assert (call.id, call.name, call.input) == ("c1", "todo", {"todos": []})
    assert (result.id, result.name, result.error) == ("c1", "todo", None)
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert (finished.reply.text, finished.reply.finish_reason) == ("All done.", "stop")


async def test_questions_and_approvals_are_answered_while_the_stream_is_open(agent: Runtime, client: Agent) -> None:
    session = fresh("s")
    agent.provider.script.replace(
        [
            Say("ready"),
            Call("question", {"questions": [{"question": "Which colour?"}]}, id="q"),
            Call("bash", {"command": "echo painted"}, id="b"),
            Call("bash", {"command": "echo again"}, id="b2"),
            Say("It is blue."),
        ]
    )
    await client.ask("hello", session=session)
    rule = SessionRule(permission="bash", pattern="*", action="ask")
    await client.sessions.permit(session, [rule])
    asked: list[ChatEvent] = []
    async with client.chat("paint", session=session) as turn:
        async for event in turn:
            if isinstance(event, Question):
                asked.append(event)
                assert event.questions[0]["question"] == "Which colour?"
                await client.answer(event, "blue")
            elif isinstance(event, Approval):
                asked.append(event)
                assert event.tool == "bash"
                done = await client.answer(event, *(("once",) if event.tool_call_id == "b" else ("reject", "enough")))
                assert done.status == "running"
            elif isinstance(event, ToolResult) and event.id == "b2":
                assert event.error == "denied"
    assert "enough" in json.dumps(agent.provider.completions[-1].messages)
    assert [type(event) for event in asked] == [Question, Approval, Approval]
    assert isinstance(asked[0], Question)
    with pytest.raises(NotWaiting):
        await client.answer(asked[0], "red")


async def test_a_turn_is_steered_watched_and_aborted(agent: Runtime, client: Agent) -> None:
    session = fresh("s")
    agent.provider.script.replace(
        [Hang(reply=Say(calls=(Call("todo", {"todos": []}),))), Hang(after=1, reply=Say("one two"))]
    )
    turn = client.chat("work", session=session)
    events: list[ChatEvent] = []
    async with turn:
        async for event in turn:
            events.append(event)
            if isinstance(event, StepStarted) and event.number == 1:
                await client.steer("and hurry", session=session)
                agent.provider.release()
            if isinstance(event, TextDelta):
                watched = aiter(client.watch(session))
                assert (await anext(watched)).type == "started"
                assert (await client.abort(session)).aborted
                async for last in watched:
                    if isinstance(last, Finished):
                        assert last.reply.finish_reason == "abort"
    assert any(isinstance(event, Steered) for event in events)
    assert isinstance(events[-1], Finished)
    assert events[-1].reply.error_code == "cancelled"
    assert [event async for event in client.watch(session)] == []


async def test_a_turn_that_fails_raises_with_what_there_is(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace([Call("todo", {"todos": []}, text="A list."), Fail(401, "no key")])
    with pytest.raises(TurnFailed) as caught:
        await client.ask("work", session=fresh("s"))
    assert caught.value.code == "model_auth"
    assert caught.value.reply.text == "A list."


async def test_a_pause_that_the_provider_asks_for_is_known(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace(lambda _: Fail(429, "slow down", code="rate_limit_exceeded", retry_after=90))
    with pytest.raises(TurnFailed) as turn:
        await client.ask("work", session=fresh("s"))
    with pytest.raises(TaskFailed) as task:
        await client.run("work")
    assert {(error.code, error.retry_after) for error in (turn.value, task.value)} == {("model_rate_limited", 90)}


async def test_a_message_is_edited_and_answered_anew(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace([Say("to helo"), Say("to hello")], otherwise=Fail(500))
    session, id = fresh("s"), fresh("m")
    assert (await client.chat("helo", session=session, id=id).reply()).text == "to helo"
    for _ in range(2):  # it is safe to repeat
        await client.edit("hello", session=session, id=id)
        assert (await client.chat("hello", session=session, id=id).reply()).text == "to hello"
    shown = [message.parts[0]["text"] async for message in client.sessions.messages(session) if message.role == "user"]
    assert shown == ["hello"]
    with pytest.raises(Conflict):
        await client.send("helo", session=session, id=id)


# ---------------------------------------------------------------- the rest


async def test_sessions_are_listed_rewound_forked_and_carried(agent: Runtime, client: Agent) -> None:
    agent.provider.script.replace([Say("Paris."), Say("Rome.")])
    name = fresh("geo")
    async with Agent(agent.url, TOKEN, user=fresh("user")) as mine:
        await mine.ask("France?", session=name)
        await mine.ask("Italy?", session=name)
        await mine.sessions.update(name, title="Capitals", metadata={"pinned": True})
        assert [session.title async for session in mine.sessions.list()] == ["Capitals"]
        asked = [message.id async for message in mine.sessions.messages(name) if message.role == "user"]
        assert (await mine.sessions.rewind(name, asked[1])).hidden == 2
        fork = await mine.sessions.fork(name, title="Branch")
        assert (await mine.sessions.unrewind(name)).restored == 2
        assert len([message async for message in mine.sessions.messages(fork.id)]) == 2
        exported = await mine.sessions.export(name)
        with pytest.raises(Conflict, match="session_exists"):
            await mine.sessions.import_(exported)
        assert (await mine.sessions.archive(name)).archived_at
    with pytest.raises(NotFound, match="unknown_session"):
        await client.sessions.get(name)


async def test_files_are_listed_read_in_parts_and_written_safely(agent: Runtime, client: Agent) -> None:
    folder = fresh("folder")
    first = await client.files.write(f"{folder}/a b.txt", "First the tea.")
    assert await client.files.read(f"{folder}/a b.txt") == b"First the tea."
    assert await client.files.read(f"{folder}/a b.txt", 6, 9) == b"the"
    assert await client.files.read(f"{folder}/a b.txt", 10) == b"tea."
    assert (await client.files.stat(f"{folder}/a b.txt")).size == 14

    async def pieces():
        yield b"Then "
        yield b"cake."

    second = await client.files.write(f"{folder}/a b.txt", pieces(), if_match=first)
    with pytest.raises(PreconditionFailed):
        await client.files.write(f"{folder}/a b.txt", "x", if_match=first)
    with pytest.raises(PreconditionFailed):
        await client.files.write(f"{folder}/a b.txt", "x", only_new=True)
    assert [entry.name async for entry in client.files.list(folder)] == ["a b.txt"]
    await client.files.delete(f"{folder}/a b.txt", if_match=second)
    for gone in (client.files.read, client.files.stat):
        with pytest.raises(NotFound, match="unknown_path: there is no"):
            await gone(f"{folder}/a b.txt")


async def test_a_file_is_read_on_where_its_connection_broke(
    agent: Runtime, client: Agent, bridge: FakeBridge, through: Agent
) -> None:
    name, content = fresh("big"), bytes(range(256)) * 16_000
    await client.files.write(name, content)
    bridge.trip_each("to_guest", [Trip("rst", after=size) for size in (0, 50, 1_000, 300_000, 2_000_000)])
    assert await through.files.read(name, 1000, len(content) - 1) == content[1000:-1]
    assert bridge.counts.breaks == 5


async def test_every_event_comes_once_over_broken_connections(
    agent: Runtime, client: Agent, bridge: FakeBridge, through: Agent
) -> None:
    agent.provider.script.replace(None)
    session, told = fresh("s"), list[str]()
    async with aclosing(client.events("0")) as known:
        first = await anext(known)
    assert first.type == "events-lost", "there was no event 0"
    async with aclosing(through.events(first.id)) as events:
        following = asyncio.create_task(_finished(events, session, 6, told))
        await bridge.until(lambda counts: counts.to_guest > 0)
        for number in range(6):
            accepted = bridge.counts.accepted
            bridge.cut()
            await client.chat("echo hello", session=session, id=f"{session}-{number}").reply()
            await bridge.until(lambda counts, before=accepted: counts.accepted > before)
        async with asyncio.timeout(PATIENCE):
            await following
    assert told == [f"{session}-{number}" for number in range(6)]


async def _finished(events: AsyncGenerator[AgentEvent], session: str, count: int, told: list[str]) -> None:
    """Collect the messages whose turns have finished, until there are so many."""
    async for event in events:
        assert event.type != "events-lost"
        if (event.type, event.data.get("session_id")) == ("turn-finished", session):
            told.append(event.data["message_id"])
            if len(told) == count:
                return


async def test_what_waits_is_answered_for_its_user(agent: Runtime, client: Agent) -> None:
    user, session = fresh("ann"), fresh("s")
    question = {"questions": [{"question": "Which colour?"}]}
    agent.provider.script.replace([Call("question", question), Say("done")])
    async with Agent(agent.url, TOKEN, user) as ann:
        turn = ann.chat("paint", session=session)
        while not isinstance(await anext(turn), Question):
            pass
        async with aclosing(client.events("0")) as known:  # all that the server remembers
            asked = (one async for one in known if one.type == "approval-requested" and one.data["user"] == user)
            event = await anext(asked)
        [request] = [one async for one in client.pending(user=user)]
        assert [one async for one in ann.pending()] == [request]
        assert (request.id, request.input) == (event.data["id"], event.data["input"])
        assert [one.alias async for one in ann.sessions.list(state="waiting")] == [session]
        await client.answer(request, "blue")  # the operator, for ann
        assert (await turn.reply()).text == "done"
        assert [one async for one in ann.pending()] == []
        assert [one async for one in ann.sessions.list(state="waiting")] == []


async def test_the_agent_tells_about_itself(client: Agent) -> None:
    assert (await client.status()).state == "idle"
    assert "bash" in (await client.capabilities()).tools
    assert list(await client.skills()) == []


async def test_mistakes_are_named(agent: Runtime, client: Agent) -> None:
    async with Agent(agent.url, "wrong") as stranger:
        with pytest.raises(Unauthorized):
            await stranger.status()
    with pytest.raises(InvalidRequest) as caught:
        await client.ask("hello", session="a/b")
    assert caught.value.field == "session_id"
    with pytest.raises(ValueError, match="task_id"):
        await client.run("hello", id="no spaces")
    with pytest.raises(ValueError, match="at_once"):
        await client.map([], at_once=0)
