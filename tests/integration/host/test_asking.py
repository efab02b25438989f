"""Agents that ask each other: the message is work of the peer, its callers and its authority travel with it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from .asking import Peer, answer
from .live import Host, assert_problem
from .reporting import made


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("asking") / "data") as host:
        yield host


async def test_a_message_is_work_of_the_peer_and_its_result_the_answer(host: Host) -> None:
    ann, bob = Peer(host, "ann", "one"), Peer(host, "bob", "one")
    async with bob.attached() as agent, ann.client() as client:
        asked = asyncio.create_task(
            client.post("/agents/bob/ask", json={"message": "How many beds?", "deadline_s": 50})
        )
        request = await agent.request()
        task = json.loads(request["content"])
        assert (task["objective"], task["context"]) == ("How many beds?", {"asked_by": "ann", "callers": ["ann"]})
        assert (request["principal"]["name"], request["principal"]["kind"]) == ("agent:ann", "agent")
        assert (request["content_kind"], request["bounds"]["max_duration_seconds"]) == ("json", 50)
        answer(agent, request, {"text": "three"})
        reply = await asked
        assert (reply.status_code, reply.json()) == (
            200,
            {"status": "completed", "response": {"text": "three"}, "error": None, "request_id": request["request_id"]},
        )
        keyed = {"Idempotency-Key": "call-1"}
        asked = asyncio.create_task(client.post("/agents/bob/ask", json={"message": "And trees?"}, headers=keyed))
        request = await agent.request()
        agent.accept(request)
        agent.result(request, "failed", None, error="model_unavailable: no model")
        agent.complete(request)
        failed = (await asked).json()
        assert (failed["status"], failed["error"]) == ("failed", "model_unavailable: no model")
        again = await client.post("/agents/bob/ask", json={"message": "And trees?"}, headers=keyed)
        assert again.json() == failed, "the same key is the same work"
        less = await client.post("/agents/bob/ask", json={"message": "And trees?", "deadline_s": 7}, headers=keyed)
        assert less.json() == failed, "with less time left too"
        other = await client.post("/agents/bob/ask", json={"message": "And bees?", "deadline_s": 7}, headers=keyed)
        assert_problem(other, 409, "message_conflict")


async def test_callers_and_authority_travel_and_only_narrow(host: Host) -> None:
    ann, bob, cat = (Peer(host, f"{name}-2", "two") for name in ("ann", "bob", "cat"))
    principal = {"name": "pat b", "authorization_scope": ["read", "ask_agent"]}
    given = {"request_id": "from-pat", "principal": principal, "content": "{}", "content_kind": "json"}
    bounds = {"max_duration_seconds": 40, "max_tokens": 5000}
    async with ann.attached() as first, bob.attached() as second:
        submitted = host.operator.post("/work", json={"workspace": "ann-2", "request": {**given, "bounds": bounds}})
        assert submitted.status_code == 202, submitted.text
        work = await first.request()
        first.accept(work)
        while host.operator.get("/work/from-pat").json()["status"] != "accepted":
            await asyncio.sleep(0.02)
        accepted = time.monotonic()
        while time.monotonic() < accepted + 1.1:  # a second of its time is gone
            await asyncio.sleep(0.1)
        async with (
            ann.client(task="from-pat", user="pat%20b") as client,
            ann.client(task="from-pat", user="alice") as of_alice,
            cat.client(task="from-pat") as stranger,
        ):
            asked = asyncio.create_task(client.post("/agents/bob-2/ask", json={"message": "help"}))
            request = await second.request()
            assert request["principal"]["name"] == "pat b"
            assert request["principal"]["authorization_scope"] == ["read", "ask_agent"]
            assert request["principal"]["verified_by"] == "operator-token; asked by agent ann-2"
            assert request["bounds"]["max_tokens"] == 5000
            assert 0 < request["bounds"]["max_duration_seconds"] < 40, "what is left of its time"
            async with bob.client(task=request["request_id"]) as peer:
                for target in ("ann-2", "bob-2"):
                    circle = await peer.post(f"/agents/{target}/ask", json={"message": "you do it"})
                    assert_problem(circle, 409, "ask_cycle")
                assert (await peer.post("/agents/cat-2/hand-off", json={"message": "later"})).status_code == 202
            assert (await stranger.post("/agents/bob-2/hand-off", json={"message": "x"})).status_code == 202
            answer(second, request, {})
            assert (await asked).json()["status"] == "completed"
            async with cat.attached() as third:
                handed = await third.request()
                assert handed["principal"]["name"] == "pat b"
                assert json.loads(handed["content"])["context"]["callers"] == ["ann-2", "bob-2"]
            strange = await second.request()
            assert strange["principal"]["name"] == "agent:cat-2", "another agent's work lends it nothing"
            borrowed = {"message": "I have a task of the same id"}
            assert (await of_alice.post("/agents/bob-2/hand-off", json=borrowed)).status_code == 202
            assert (await second.request())["principal"]["name"] == "agent:ann-2", "nor does another user's work"
            answer(first, work, {})
            while host.operator.get("/work/from-pat").json()["status"] != "resulted":
                await asyncio.sleep(0.02)
            assert_problem(await client.post("/agents/bob-2/ask", json={"message": "x"}), 409, "work_ended")
            assert (await of_alice.post("/agents/bob-2/hand-off", json=borrowed)).status_code == 202


async def test_a_deadline_cancels_the_work(host: Host) -> None:
    ann, bob = Peer(host, "ann-3", "three"), Peer(host, "bob-3", "three")
    async with ann.client() as client:
        nobody = await client.post("/agents/bob-3/ask", json={"message": "hi", "deadline_s": 0.2})
        assert nobody.json()["status"] in ("timeout", "unavailable")
        async with bob.attached() as agent:
            asked = asyncio.create_task(client.post("/agents/bob-3/ask", json={"message": "hi", "deadline_s": 2}))
            request = await agent.request()
            agent.accept(request)
            assert (await agent.expect("cancel"))["request_id"] == request["request_id"]
            agent.result(request, "failed", None, error="cancelled: by the host")
            agent.complete(request)
            late = (await asked).json()
        assert (late["status"], late["response"]) == ("timeout", None)
        assert late["error"].startswith("deadline_exceeded: ")


async def work_of(host: Host, agent: str) -> list[tuple[str, str | None]]:
    """Status and error of all work of the agent, the newest first."""
    found = host.operator.get("/work", params={"workspace": agent}).json()["work"]
    return [(one["status"], one["error"]) for one in found]


async def test_who_has_asked_cancels(host: Host) -> None:
    ann, bob, cat = (Peer(host, f"{name}-5", "five") for name in ("ann", "bob", "cat"))
    body, key = {"message": "hi"}, {"Idempotency-Key": "call-1"}
    async with ann.client() as client, cat.client() as stranger, bob.attached() as agent:
        asked = asyncio.create_task(client.post("/agents/bob-5/ask", json=body, headers=key))
        request = await agent.request()
        agent.accept(request)
        assert_problem(await stranger.delete("/agents/bob-5/ask", headers=key), 404, "not_found")
        assert_problem(await client.delete("/agents/cat-5/ask", headers=key), 404, "not_found")
        assert_problem(await client.delete("/agents/bob-5/ask"), 422, "invalid_request")
        cancelled = await client.delete("/agents/bob-5/ask", headers=key)
        assert cancelled.status_code == 200, cancelled.text
        assert cancelled.json()["request_id"] == request["request_id"]
        frame = await agent.expect("cancel")
        assert (frame["request_id"], frame["reason"]) == (request["request_id"], "ann-5 waits for it no more")
        agent.result(request, "failed", None, error="cancelled: the turn was cancelled")
        agent.complete(request)
        reply = (await asked).json()
        assert reply["status"] == "cancelled"
        again = await client.delete("/agents/bob-5/ask", headers=key)
        assert again.json() == {"request_id": request["request_id"], "status": "cancelled"}
        assert (await client.post("/agents/bob-5/ask", json=body, headers=key)).json() == reply

        key = {"Idempotency-Key": "call-2"}
        asked = asyncio.create_task(client.post("/agents/bob-5/ask", json=body, headers=key))
        answer(agent, await agent.request(), {"text": "three"})
        reply = (await asked).json()
        late = await client.delete("/agents/bob-5/ask", headers=key)
        assert late.json() == {"request_id": reply["request_id"], "status": "resulted"}
        assert (await client.post("/agents/bob-5/ask", json=body, headers=key)).json() == reply


async def test_a_message_that_its_cancellation_has_overtaken_is_not_begun(host: Host) -> None:
    ann = Peer(host, "ann-6", "six")
    Peer(host, "bob-6", "six")
    body, key = {"message": "hi", "deadline_s": 30}, {"Idempotency-Key": "late"}
    async with ann.client() as client:
        assert_problem(await client.delete("/agents/bob-6/ask", headers=key), 404, "not_found")
        assert_problem(await client.post("/agents/bob-6/ask", json=body, headers=key), 409, "ask_cancelled")
        assert await work_of(host, "bob-6") == []

        async def race(number: int) -> None:
            keyed = {"Idempotency-Key": f"race-{number}"}
            asked = asyncio.create_task(client.post("/agents/bob-6/ask", json=body, headers=keyed))
            await asyncio.sleep(number / 2000)
            await client.delete("/agents/bob-6/ask", headers=keyed)
            reply = await asked
            assert reply.status_code == 409 or reply.json()["status"] == "cancelled", reply.text

        await asyncio.gather(*map(race, range(30)))
        assert {status for status, _ in await work_of(host, "bob-6")} <= {"cancelled"}


@pytest.mark.slow
async def test_an_ask_is_cancelled_after_a_crash_of_the_host(tmp_path: Path) -> None:
    with Host(tmp_path / "data") as host:
        ann, bob = Peer(host, "ann"), Peer(host, "bob")
        body, key = {"message": "hi"}, {"Idempotency-Key": "call-1"}
        async with ann.client() as client, bob.attached() as agent:
            asked = asyncio.create_task(client.post("/agents/bob/ask", json=body, headers=key))
            agent.accept(request := await agent.request())
            while (await work_of(host, "bob"))[0][0] != "accepted":
                await asyncio.sleep(0.02)
            os.kill(host.process.pid, signal.SIGKILL)
            with pytest.raises(httpx.TransportError):
                await asked
        host.start()
        async with ann.client() as client:
            cancelled = await client.delete("/agents/bob/ask", headers=key)
            assert cancelled.json() == {"request_id": request["request_id"], "status": "cancelled"}
            reply = (await client.post("/agents/bob/ask", json=body, headers=key)).json()
            assert (reply["status"], reply["error"]) == ("cancelled", "cancelled: ann waits for it no more")


async def test_an_agent_that_takes_no_work_is_told_so(host: Host) -> None:
    ann = Peer(host, "ann-4", "four")
    Peer(host, "bob-4", "four")
    assert host.operator.post("/workspaces/bob-4/quarantine", json={}).status_code == 200
    async with ann.client() as client:
        assert_problem(await client.post("/agents/bob-4/ask", json={"message": "hi"}), 409, "quarantined")
        assert_problem(await client.post("/agents/ann-4/ask", json={"message": "hi"}), 409, "ask_cycle")


@pytest.mark.slow
async def test_what_is_handed_off_is_done_once_over_a_host_that_is_killed(tmp_path: Path) -> None:
    with Host(tmp_path / "data") as host:
        ann, bob = Peer(host, "ann"), Peer(host, "bob")
        ids: set[str] = set()
        body, key = {"message": ""}, {"Idempotency-Key": ""}
        for life in range(3):
            async with ann.client() as client:
                for number in range(4):
                    key = {"Idempotency-Key": f"{life}-{number}"}
                    body = {"message": f"job {life}-{number}"}
                    handed = await client.post("/agents/bob/hand-off", json=body, headers=key)
                    assert handed.status_code == 202, handed.text
                    ids.add(handed.json()["request_id"])
                os.kill(host.process.pid, signal.SIGKILL)
            host.start()
            async with ann.client() as client:
                again = await client.post("/agents/bob/hand-off", json=body, headers=key)
                assert (again.status_code, again.json()["request_id"] in ids) == (200, True)
        done: list[str] = []
        async with bob.attached(made(host, "address")["mediation_url"]) as agent:
            while len(done) < 12:
                request = await agent.request()
                done.append(request["request_id"])
                answer(agent, request, {"text": "done"})
        assert sorted(done) == sorted(ids)
        statuses = [work["status"] for work in host.operator.get("/work").json()["work"]]
        assert len(statuses) == 12
