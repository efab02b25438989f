"""The client against a live host: workspaces, agents through the host, work, tokens, usage; and without `await`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import BaseModel

from agent_client import (
    Agent,
    AgentEvent,
    Artifacts,
    Blackboard,
    Conflict,
    Files,
    Finished,
    Forbidden,
    InvalidRequest,
    Mesh,
    NotFound,
    NotRunning,
    Quarantined,
    Question,
    Sessions,
    Task,
    Team,
    TeamAgents,
    TextDelta,
    Tokens,
    Topics,
    Work,
    Workspaces,
)
from agent_client.sync import SyncAgent, SyncMesh, SyncTask
from agent_client.sync.agent import SyncFiles, SyncSessions
from agent_client.sync.mesh import SyncTokens, SyncWork, SyncWorkspaces
from agent_client.sync.team import SyncArtifacts, SyncBlackboard, SyncTeam, SyncTeamAgents, SyncTopics
from agent_testing import Call, Hang, Say
from tests.integration.host.live import OPERATOR, PATIENCE

from .conftest import World
from .test_page import OF_THE_HOST, run

TASK = {"workflow_id": "w", "step_id": "s", "task_type": "say", "input_data": {"objective": "Count."}}
ANSWER = json.dumps({"result": {"orders": 3}})


class Report(BaseModel):
    orders: int


async def test_a_workspace_from_its_beginning_to_its_end(world: World) -> None:
    async with Mesh(world.host.url, OPERATOR) as mesh:
        made = await mesh.workspaces.create("bea", settings={"AGENT_ROLE": "writer"})
        assert (made.state, made.settings, bool(made.token)) == ("stopped", {"AGENT_ROLE": "writer"}, True)
        with pytest.raises(Conflict, match="id_taken"):
            await mesh.workspaces.create("bea")
        with pytest.raises(InvalidRequest) as caught:
            await mesh.workspaces.update("bea", settings={"AGENT_NOTHING": 1})
        assert "AGENT_NOTHING" in str(caught.value.field)
        assert (await mesh.workspaces.update("bea", team="letters")).team == "letters"
        assert [one.id async for one in mesh.workspaces.list(team="letters")] == ["bea"]
        with pytest.raises(NotRunning):
            await mesh.agent("bea").status()
        with pytest.raises(NotRunning):
            await mesh.workspaces.console("bea")
        await mesh.workspaces.delete("bea")
        with pytest.raises(NotFound):
            await mesh.workspaces.get("bea")


async def test_an_agent_is_reached_through_its_host(world: World) -> None:
    async with Mesh(world.host.url, OPERATOR) as mesh:
        ada = mesh.agent("ada", user="ann")
        assert (await ada.status()).agent_id == "ada"
        assert (await ada.ask("hello", session="s")).text == "well said"
        assert [session.session_id async for session in ada.sessions.list()]
        assert [session async for session in mesh.agent("ada", user="bob").sessions.list()] == []
        world.provider.script.replace([Say(ANSWER)])
        assert await ada.run("Count.", result=Report) == Report(orders=3)
        assert sum(one.calls for one in (await mesh.usage("ada")).sums) >= 2


async def test_work_is_handed_in_and_waited_for(world: World) -> None:
    world.provider.script.replace([Hang(reply=Say(ANSWER)), Hang()])
    async with Mesh(world.host.url, OPERATOR) as mesh:
        id = await mesh.work.submit("ada", TASK, id="count-1")
        assert await mesh.work.submit("ada", TASK, id="count-1") == id
        with pytest.raises(Conflict, match="work_conflict"):
            await mesh.work.submit("ada", "something else", id="count-1")
        waiting = asyncio.create_task(mesh.work.wait(id))
        await asyncio.to_thread(world.provider.wait_for, 1)
        world.provider.release()
        record = await waiting
        assert (record.status, record.workspace) == ("resulted", "ada")
        assert record.result is not None
        assert json.loads(record.result.content or "")["result"] == {"orders": 3}
        assert [event.type async for event in mesh.work.follow(id)] == ["result"]
        other = await mesh.work.submit("ada", "Tell me a story.")
        await mesh.work.cancel(other)
        assert (await mesh.work.wait(other)).status in ("cancelled", "resulted")
        assert {one.request_id async for one in mesh.work.list(workspace="ada")} >= {id, other}
        assert [one.request_id async for one in mesh.work.list("queued")] == []


async def test_work_whose_result_does_not_fit_its_schema_fails_with_what_there_is(world: World) -> None:
    wrong, task = Say('{"result": {"orders": "three"}}'), {**TASK, "result_schema": Report.model_json_schema()}
    world.provider.script.replace([wrong, Say(ANSWER), wrong, wrong])
    async with Mesh(world.host.url, OPERATOR) as mesh:
        good = (await mesh.work.wait(await mesh.work.submit("ada", task))).result
        assert good is not None
        assert (good.status, json.loads(good.content or "")["result"]) == ("completed", {"orders": 3})
        bad = (await mesh.work.wait(await mesh.work.submit("ada", task))).result
        assert bad is not None
        assert (bad.status, (bad.error or "").split(":")[0]) == ("failed", "invalid_result")
        assert json.loads(bad.content or "")["result"]["orders"] == "three"
        refused = (
            await mesh.work.wait(await mesh.work.submit("ada", {**task, "result_schema": {"type": "array"}}))
        ).result
        assert refused is not None
        assert (refused.status, refused.error) == (
            "denied",
            "invalid_request: result_schema.type: must be object, because an answer is one",
        )


async def test_the_result_of_a_task_that_was_posted_to_the_agent_comes_home(world: World) -> None:
    world.provider.script.replace([Hang(reply=Say(ANSWER))])
    async with Mesh(world.host.url, OPERATOR) as mesh:
        with pytest.raises(NotFound):
            await mesh.result("ada", "home-1", wait=0)
        task = await mesh.agent("ada", user="eve").submit("Count.", id="home-1")
        waiting = asyncio.create_task(mesh.result("ada", task.id))
        await asyncio.to_thread(world.provider.wait_for, 1)
        world.provider.release()
        record = await waiting
        assert (record.workspace, record.user, record.result.result) == ("ada", "eve", {"orders": 3})
        assert [one.task_id async for one in mesh.results("ada", user="eve")] == ["home-1"]
        assert [one async for one in mesh.results(task_id="home-1")] == [record]
        assert [one async for one in mesh.results(task_id="nowhere")] == []
        with pytest.raises(InvalidRequest) as caught:
            await mesh.agent("ada").submit("Count.", result_url="not a url")
        assert caught.value.field == "result_url"


async def test_where_results_are_sent_is_set_and_taken_away(world: World) -> None:
    async with Mesh(world.host.url, OPERATOR) as mesh:
        made = await mesh.workspaces.create("dora", result_url="https://example.org/done")
        assert (made.result_url, bool(made.result_secret)) == ("https://example.org/done", True)
        assert (await mesh.workspaces.update("dora", result_url=False)).result_url is None
        with pytest.raises(InvalidRequest):
            await mesh.workspaces.update("dora", result_url="http://example.org/done")
        await mesh.workspaces.delete("dora")


async def test_a_token_for_a_person_reaches_their_agents_only(world: World) -> None:
    async with Mesh(world.host.url, OPERATOR) as mesh:
        made = await mesh.tokens.create("ann", ["ada"], "1h")
        assert made.scope is not None
        assert made.id in [token.id for token in await mesh.tokens.list()]
        async with Mesh(world.host.url, made.token) as own:
            assert (await own.agent("ada").ask("hello")).text == "well said"
            with pytest.raises(Forbidden):
                await own.usage()
        await mesh.tokens.revoke(made.id)


async def test_a_token_for_several_people_speaks_for_the_one_that_is_named(world: World) -> None:
    question = {"questions": [{"question": "Which colour?"}]}
    async with Mesh(world.host.url, OPERATOR) as mesh:
        made = await mesh.tokens.create(["telegram:*", "discord:7"], ["ada"], "1h")
        assert made.scope is not None
        assert (made.scope.user, made.scope.users) == (None, ["discord:7", "telegram:*"])
        async with Mesh(world.host.url, made.token) as bot:
            with pytest.raises(InvalidRequest) as caught:
                await bot.agent("ada").status()
            assert caught.value.field == "X-Agent-User"
            with pytest.raises(Forbidden):
                await bot.agent("ada", user="ann").status()
            assert (await bot.agent("ada", user="telegram:10").ask("hello")).text == "well said"
            world.provider.script.replace([Call("question", question), Say("done")])
            async with aclosing(bot.events(user="telegram:1", after="0")) as events:
                following = asyncio.create_task(_asked(events, "wall"))
                turn = bot.agent("ada", user="telegram:1").chat("paint", session="wall")
                while not isinstance(await anext(turn), Question):
                    pass
                async with asyncio.timeout(PATIENCE):
                    assert (await following).data["user"] == "telegram:1"
            [request] = (await bot.pending()).requests
            assert (request.user, (await bot.pending(user="telegram:10")).requests) == ("telegram:1", [])
            await bot.agent(request.workspace).answer(request, "blue")
            assert (await turn.reply()).text == "done"
        await mesh.tokens.revoke(made.id)


async def test_quarantine_ends_an_open_stream_for_good(world: World) -> None:
    world.provider.script.replace([Hang(after=1, reply=Say("one two"))])
    async with Mesh(world.host.url, OPERATOR) as mesh:
        await mesh.workspaces.create("cid")
        await mesh.workspaces.start("cid")
        turn = mesh.agent("cid").chat("hello")
        while not isinstance(await anext(turn), TextDelta):
            pass
        assert (await mesh.workspaces.quarantine("cid", "a test")).state == "stopped"
        with pytest.raises(Quarantined):
            await turn.reply()
        await mesh.workspaces.unquarantine("cid")
        await mesh.workspaces.delete("cid", force=True)


async def test_what_waits_anywhere_is_listed_told_and_answered(world: World) -> None:
    question = {"questions": [{"question": "Which colour?"}]}
    world.provider.script.replace([Call("question", question), Say("done")])
    async with Mesh(world.host.url, OPERATOR) as mesh:
        async with aclosing(mesh.events(workspace="ada", after="0")) as events:
            following = asyncio.create_task(_asked(events, "fence"))
            turn = mesh.agent("ada", user="ann").chat("paint", session="fence")
            while not isinstance(await anext(turn), Question):
                pass
            async with asyncio.timeout(PATIENCE):
                event = await following
        found = await mesh.pending(workspace="ada", user="ann")
        [request] = found.requests
        assert (request.id, request.workspace, found.unreachable) == (event.data["id"], "ada", [])
        assert (await mesh.pending(user="bob")).requests == []
        await mesh.agent(request.workspace).answer(request, "blue")
        assert (await turn.reply()).text == "done"
        assert [event.type async for event in _until_resolved(mesh, event.id)][-1] == "approval-resolved"


async def _asked(events: AsyncGenerator[AgentEvent], session: str) -> AgentEvent:
    return await anext(
        event async for event in events if event.data.get("session_id") == session and "input" in event.data
    )


async def _until_resolved(mesh: Mesh, after: str) -> AsyncGenerator[AgentEvent]:
    async for event in mesh.events(after=after):
        yield event
        if event.type == "approval-resolved":
            return


async def test_the_examples_of_the_page_run(world: World) -> None:
    names: dict[str, Any] = {"operator_token": OPERATOR}
    for example in OF_THE_HOST:
        await run(example.replace("http://localhost:8420", world.host.url), names)
    assert names["reply"].text == "well said"
    assert names["record"].status == "resulted"
    assert (names["entry"].version, names["answer"].status) == (2, "completed")
    async with Mesh(world.host.url, OPERATOR) as mesh:
        await mesh.workspaces.stop("writer")


# ---------------------------------------------------------------- without await


def test_everything_works_without_await(world: World) -> None:
    with SyncMesh(world.host.url, OPERATOR) as mesh:
        assert "ada" in [one.id for one in mesh.workspaces.list()]
        ada = mesh.agent("ada")
        events = list(ada.chat("hello", session="plain"))
        assert isinstance(events[-1], Finished)
        assert events[-1].reply.text == "well said"
        with ada.chat("again", session="plain") as turn:
            assert next(turn).type in ("started", "queued")
        assert ada.ask("and again", session="plain").text == "well said"
        ada.files.write("a.txt", "text")
        assert b"".join(ada.files.stream("a.txt")) == b"text"
        assert [entry.name for entry in ada.files.list() if entry.name == "a.txt"] == ["a.txt"]
        world.provider.script.replace([Say(ANSWER), Say(ANSWER)])
        task = ada.submit("Count.", result=Report)
        assert task.result() == Report(orders=3)
        assert ada.task(task.id).record().status == "complete"
        assert list(task.events())[-1].type == "finished"
        assert ada.map(["Count."], result=Report) == [Report(orders=3)]
        with pytest.raises(NotFound):
            ada.sessions.get("nowhere")
    with pytest.raises(RuntimeError, match="open it first"):
        SyncAgent(world.host.url).status()


@pytest.mark.parametrize(
    ("facade", "wrapped"),
    [
        (SyncAgent, Agent),
        (SyncMesh, Mesh),
        (SyncTask, Task),
        (SyncSessions, Sessions),
        (SyncFiles, Files),
        (SyncWorkspaces, Workspaces),
        (SyncWork, Work),
        (SyncTokens, Tokens),
        (SyncTeam, Team),
        (SyncTeamAgents, TeamAgents),
        (SyncBlackboard, Blackboard),
        (SyncTopics, Topics),
        (SyncArtifacts, Artifacts),
    ],
)
def test_no_call_is_missing_without_await(facade: type[object], wrapped: type[object]) -> None:
    calls = {name for name in vars(wrapped) if not name.startswith("_")} - {"aclose", "over"}
    assert calls - set(dir(facade)) == set()
