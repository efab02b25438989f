"""Links to the hub of a live host: who gets in, as whom, and what a link may cost."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from .hub_link import RawSocket, linked, opened
from .live import PATIENCE, Host
from .members import make_member
from .watching import eventually


@pytest.mark.parametrize(
    ("token", "status", "code"), [(None, 401, "unauthorized"), ("mesh_wrong", 401, "unauthorized")]
)
async def test_without_a_token_there_is_no_link(host: Host, token: str | None, status: int, code: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with linked(host, token):
            pass
    response = refused.value.response
    assert (response.status_code, json.loads(response.body or b"")["code"]) == (status, code)


async def test_a_persons_token_reaches_the_agents_of_its_workspaces_alone(host: Host, token: str) -> None:
    scoped = host.token_command("--user=telegram:7", "--workspaces=writer", "--expires=1h")
    async with linked(host, scoped) as person, linked(host, token) as agent, linked(host) as operator:
        refused = await person.ask("register", passport={"name": "writer"})
        assert refused["code"] == "access_denied"
        me = (await person.ask("register", passport={"name": "user.telegram_3a7", "kind": "human"}))["agent_id"]
        writer = (await agent.ask("register", passport={"name": "writer"}))["agent_id"]
        other = (await operator.ask("register", passport={"name": "out-of-reach"}))["agent_id"]
        listed = [one["passport"]["name"] for one in await person.ask("list_agents")]
        assert listed == ["user.telegram_3a7", "writer"]
        for name in ("out-of-reach", other):
            assert (await person.ask("get_agent", name=name))["code"] == "not_found"
            opening = await person.ask("open", agent_id=me, type="conversation", targets=[name])
            assert opening["code"] == "not_found"
        await opened(person, me, agent, writer, "writer")


async def test_an_agent_reaches_those_of_its_team(host: Host) -> None:
    tokens = {name: make_member(host, name, team) for name, team in (("hub-a", "hub-red"), ("hub-b", "hub-blue"))}
    async with linked(host, tokens["hub-a"]) as one, linked(host, tokens["hub-b"]) as two:
        first = (await one.ask("register", passport={"name": "hub-a"}))["agent_id"]
        second = (await two.ask("register", passport={"name": "hub-b"}))["agent_id"]
        assert (await one.ask("get_agent", name="hub-b"))["code"] == "not_found"
        opening = await two.ask("open", agent_id=second, type="conversation", targets=["hub-a"])
        assert opening["code"] == "not_found"
        assert host.operator.patch("/workspaces/hub-b", json={"team": "hub-red"}).status_code == 200
        await opened(one, first, two, second, "hub-b")


async def test_a_token_of_several_people_names_whom_it_speaks_for(host: Host) -> None:
    scoped = host.token_command("--user=telegram:*", "--workspaces=writer", "--expires=1h")
    with pytest.raises(InvalidStatus) as refused:
        async with linked(host, scoped):
            pass
    assert refused.value.response.status_code == 422
    async with linked(host, scoped, user="telegram:8") as person:
        assert "agent_id" in await person.ask("register", passport={"name": "user.telegram_3a8"})


@pytest.mark.slow
async def test_a_link_ends_when_its_token_expires(host: Host) -> None:
    scoped = host.token_command("--user=ann", "--workspaces=writer", "--expires=20s")
    async with linked(host, scoped) as person:
        await person.ask("register", passport={"name": "user.ann"})
        with pytest.raises(ConnectionClosed):
            await person.get()


async def test_an_agent_cannot_have_a_persons_name(host: Host) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with linked(host, host.token("user.ann")):
            pass
    assert refused.value.response.status_code == 403


async def test_an_agents_token_is_bound_to_its_name(host: Host, token: str) -> None:
    async with linked(host, token) as link:
        refused = await link.ask("register", passport={"name": "somebody"})
        assert (refused["code"], refused["message"]) == (
            "access_denied",
            "passport.name: this link is of writer, and cannot register somebody",
        )
        assert (await link.ask("register", passport={"name": "writer"}))["passport"]["name"] == "writer"


async def test_a_newer_link_of_an_agent_takes_over(host: Host, token: str) -> None:
    async with linked(host, token) as old, linked(host, token) as new:
        agent_id = (await old.ask("register", passport={"name": "writer"}))["agent_id"]
        assert (await new.ask("register", passport={"name": "writer"}))["agent_id"] == agent_id
        refused = await old.ask("sessions", agent_id=agent_id)
        assert refused["code"] == "access_denied"
        assert isinstance(await new.ask("sessions", agent_id=agent_id), list)


async def test_an_agent_that_registers_anew_keeps_its_share_of_the_audit(tmp_path: Path) -> None:
    with Host(tmp_path / "data", MESH_RETENTION_ROWS=60) as host:
        async with linked(host, host.token("quiet")) as quiet, linked(host, host.token("flood")) as flood:
            for _ in range(10):
                await quiet.ask("register", passport={"name": "quiet"})
            ids = set[str]()
            for _ in range(50):
                ids.add((await flood.ask("register", passport={"name": "flood"}))["agent_id"])
                await flood.ask("unregister", agent_id="")
        assert len(ids) == 50

        def audit() -> list[str]:
            """Whose the entries are."""
            found = host.operator.get("/hub/audit", params={"limit": 500}).json()["entries"]
            return [one["agent_id"] for one in found]

        before = sum(one not in ids for one in audit())
        assert before >= 15
        host.start()  # which deletes what there is too much of
        eventually(lambda: len(audit()) == 60)
        assert sum(one not in ids for one in audit()) == before


async def test_only_an_operator_without_agents_watches_all_sessions(host: Host, token: str) -> None:
    watch = {"kind": "subscribe", "subscription_id": "s", "session_id": "*"}
    async with linked(host, token) as agent, linked(host) as operator:
        await agent.send(**watch)
        assert (await agent.answer("s"))["code"] == "access_denied"
        agent_id = (await operator.ask("register", passport={"name": "watching-a"}))["agent_id"]
        await operator.send(**watch)
        assert (await operator.answer("s"))["code"] == "access_denied"
        await operator.ask("unregister", agent_id=agent_id)
        await operator.send(**watch)
        async with linked(host) as one, linked(host) as two:
            first = (await one.ask("register", passport={"name": "watching-b"}))["agent_id"]
            second = (await two.ask("register", passport={"name": "watching-c"}))["agent_id"]
            session_id = await opened(one, first, two, second, "watching-c")
            await one.say(session_id, first, event_data={"text": "for me"}, audience=[first])
            text = await operator.notify("ag2.msg.text")
            assert (text["subscription_id"], text["envelope"]["event_data"]) == ("s", {"text": "for me"})
            page = await operator.ask("read_log", session_id=session_id)
            assert page["envelopes"][-1]["envelope_id"] == text["envelope"]["envelope_id"]
            outsider = await agent.ask("read_log", session_id=session_id)
            assert outsider["code"] == "access_denied"


@pytest.mark.parametrize(
    ("text", "request_id", "part"),
    [
        ("{", "", "invalid JSON"),
        ('{"kind": "nothing"}', "", "does not match any of the expected tags"),
        ('{"kind": "request", "request_id": "r9", "op": 3}', "r9", "op"),
        ('{"kind": "request", "request_id": "r9", "op": "info", "params": {"a": [%s]}}' % ("[]," * 60_000 + "[]"), "r9",
         "more than 50000 values"),
        ('{"kind": "request", "request_id": "r9", "op": "info", "params": {"a": %s}}' % ("[" * 150 + "]" * 150), "r9",
         "nested more than"),
        ('{"kind": "send", "envelope": {"audiense": 1, "event_data": {"request_id": "17"}}, "request_id": "r9"}', "r9",
         "envelope.session_id"),
        ('{"kind": "send", "envelope": {"event_data": {"request_id": "17", "a": %s}}}' % ("[" * 150 + "]" * 150), "",
         "nested more than"),
        ('{"kind": "request", "request_id": "a/b %s", "op": 3}' % ("c" * 200), "a/b " + "c" * 200, "op"),
        ('{"kind": "request", "request_id": "%s", "op": 3}' % ("c" * 1001), "", "op"),
        ('{"kind": "request", "request_id": 9, "op": "info"}', "", "request_id"),
        ('{"kind": "subscribe", "subscription_id": "s", "session_id": "x", "after": -1}', "s", "after"),
    ],
)  # fmt: skip
async def test_a_wrong_frame_is_answered_and_the_link_lives(host: Host, text: str, request_id: str, part: str) -> None:
    async with linked(host) as link:
        await link.socket.send(text)
        answer = await link.get()
        assert (answer["kind"], answer["code"], answer["request_id"]) == ("error", "protocol_error", request_id)
        assert part in answer["message"]
        await link.send(kind="hello")
        assert (await link.get())["kind"] == "welcome"


async def test_a_frame_that_is_too_large_ends_the_link(host: Host) -> None:
    async with linked(host) as link:
        await link.socket.send("x" * 1_200_000)
        with pytest.raises(ConnectionClosed) as closed:
            await link.get()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_a_request_that_waits_holds_up_no_other(host: Host) -> None:
    """Creator and invitee of a session share a link."""
    async with linked(host) as link:
        first = (await link.ask("register", passport={"name": "one-link-a"}))["agent_id"]
        second = (await link.ask("register", passport={"name": "one-link-b"}))["agent_id"]
        params = {"agent_id": first, "type": "conversation", "targets": ["one-link-b"]}
        await link.send(kind="request", request_id="open", op="open", params=params)
        session_id = await link.accept_invitation(second)
        found = next((one for one in link.notifies if one.get("request_id") == "open"), None)
        assert (found or await link.answer("open"))["result"]["session_id"] == session_id


@pytest.mark.slow
async def test_a_log_longer_than_a_frame_is_read_in_pages(host: Host) -> None:
    async with linked(host) as one, linked(host) as two:
        first = (await one.ask("register", passport={"name": "pages-a"}))["agent_id"]
        second = (await two.ask("register", passport={"name": "pages-b"}))["agent_id"]
        session_id = await opened(one, first, two, second, "pages-b")
        for number in range(24):
            sent = await one.say(session_id, first, event_data={"text": f"{number} {'x' * 100_000}"})
            assert sent["kind"] == "accept"
        texts: list[str] = []
        after, pages = 0, 0
        while after is not None:
            page = await one.ask("read_log", session_id=session_id, agent_id=first, after=after, limit=500)
            texts += [envelope["event_data"].get("text", "") for envelope in page["envelopes"]]
            after, pages = page["next"], pages + 1
        assert [text.split()[0] for text in texts if text] == [str(number) for number in range(24)]
        assert pages >= 5


@pytest.mark.slow
async def test_who_does_not_read_is_cut_and_goes_on_where_it_was(tmp_path: Path) -> None:
    with Host(tmp_path, MESH_HUB_HEARTBEAT=0.5, MESH_PROVIDER="demo") as host:
        async with linked(host) as one:
            first = (await one.ask("register", passport={"name": "a"}))["agent_id"]
            async with linked(host, max_queue=1, ping_interval=None) as still:
                second = (await still.ask("register", passport={"name": "b"}))["agent_id"]
                session_id = await opened(one, first, still, second, "b")
                for number in range(100):
                    sent = await one.say(session_id, first, event_data={"text": f"{number} {'x' * 200_000}"})
                    assert sent["kind"] == "accept"
                await not_connected(one, "b")
            async with linked(host) as again:
                assert (await again.ask("register", passport={"name": "b"}))["agent_id"] == second
                for number in range(100):
                    text = await again.notify("ag2.msg.text")
                    assert text["envelope"]["event_data"]["text"].split()[0] == str(number)
                    await again.receipt(text)


@pytest.mark.slow
async def test_a_link_whose_other_end_is_gone_is_cut(tmp_path: Path) -> None:
    """The machine of an agent is gone without a word: nothing ends the connection, and nothing comes over it."""
    with Host(tmp_path, MESH_HUB_HEARTBEAT=0.5, MESH_PROVIDER="demo") as host:
        async with linked(host) as one, linked(host, ping_interval=None) as gone:
            await gone.ask("register", passport={"name": "b"})
            gone.socket.transport.pause_reading()
            await not_connected(one, "b")


async def not_connected(link: RawSocket, name: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await link.ask("get_agent", name=name))["connected"]:
            await asyncio.sleep(0.05)
