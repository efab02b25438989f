"""Budgets of teams and agents: routes, refusals, sixteen clients at once, a host that is killed, reports, events."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_testing import Hang, Say, ScriptedProvider
from tests.unit.host.postgresql import new_database, postgresql

from .live import PATIENCE, Host, assert_openai_error, assert_problem, catalog, said
from .members import make_member
from .watching import eventually

CHAT = "/v1/chat/completions"
USED = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
COST = 10 * 1.0 + 5 * 2.0
NUMBERS = count(1)


@pytest.fixture
def name() -> str:
    """The name of an agent that has made no calls."""
    return f"spender-{next(NUMBERS)}"


@pytest.fixture
def spender(host: Host, provider: ScriptedProvider, name: str) -> Iterator[httpx.Client]:
    """This agent, whose calls use 15 tokens each. It has no budget yet."""
    provider.script.replace(None, otherwise=Say("Hello.", usage=USED))
    with host.client(host.token(name)) as client:
        yield client
    for budget in host.operator.get("/budgets").json()["budgets"]:
        assert host.operator.delete(f"/budgets/{budget['scope']}").status_code == 204


def put(host: Host, name: str, **limits: float) -> None:
    reply = host.operator.put(f"/budgets/agent:{name}", json=limits)
    assert reply.status_code in (200, 201), reply.text


def state(host: Host, name: str) -> dict[str, Any]:
    return host.operator.get(f"/budgets/agent:{name}").json()


def test_a_budget_is_set_read_changed_and_removed(host: Host, spender: httpx.Client) -> None:
    nothing, unset = {"usd": 0.0, "tokens": 0}, {"daily_usd": None, "monthly_usd": None, "monthly_tokens": None}
    reply = host.operator.put("/budgets/team:red", json={"daily_tokens": 5})
    assert reply.status_code == 201
    rest = {"today": nothing, "this_month": nothing, "reserved": nothing, "exhausted": []}
    assert reply.json() == {"scope": "team:red", "limits": {**unset, "daily_tokens": 5}, **rest}
    reply = host.operator.put("/budgets/team:red", json={"monthly_usd": 0.5})
    assert (reply.status_code, reply.json()["limits"]) == (200, {**unset, "monthly_usd": 0.5, "daily_tokens": None})
    assert host.operator.get("/budgets/team:red").json() == reply.json()
    put(host, "writer/scout", daily_usd=1)
    listed = host.operator.get("/budgets").json()["budgets"]
    assert [one["scope"] for one in listed] == ["agent:writer/scout", "team:red"]
    assert host.operator.delete("/budgets/team:red").status_code == 204
    assert_problem(host.operator.get("/budgets/team:red"), 404, "not_found")
    assert_problem(host.operator.delete("/budgets/team:red"), 404, "not_found")


@pytest.mark.parametrize(
    "scope", ["red", "team:", "team:a/b", "user:ann", "agent:a/b/c", "agent:%20", "team:" + "a" * 101]
)
def test_what_is_no_scope_is_refused(host: Host, scope: str) -> None:
    problem = assert_problem(host.operator.put(f"/budgets/{scope}", json={"daily_usd": 1}), 422, "invalid_request")
    assert problem["errors"][0]["field"] == "scope"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"daily_usd": -1}, "daily_usd"),
        ({"daily_usd": "x"}, "daily_usd"),
        ({"daily_usd": True}, "daily_usd"),
        ({"daily_tokens": 1.5}, "daily_tokens"),
        ({"daily_tokens": "7"}, "daily_tokens"),
        ({"weekly_usd": 1}, "weekly_usd"),
        ({"monthly_tokens": 10**16}, "monthly_tokens"),
    ],
)
def test_limits_that_are_wrong_are_named(host: Host, body: dict[str, Any], field: str) -> None:
    problem = assert_problem(host.operator.put("/budgets/team:red", json=body), 422, "invalid_request")
    assert [one["field"] for one in problem["errors"]] == [field]
    assert_problem(host.operator.get("/budgets/team:red"), 404, "not_found")


def test_budgets_are_the_operators(host: Host, spender: httpx.Client) -> None:
    for method in ("GET", "PUT", "DELETE"):
        body = {"daily_usd": 9} if method == "PUT" else None
        assert_problem(spender.request(method, "/budgets/team:default", json=body), 403, "forbidden")
    assert_problem(spender.get("/budgets"), 403, "forbidden")


@pytest.mark.parametrize("limit", ["daily_usd", "monthly_usd", "daily_tokens", "monthly_tokens"])
def test_a_used_up_budget_refuses_calls_until_it_is_raised(
    host: Host, spender: httpx.Client, provider: ScriptedProvider, name: str, limit: str
) -> None:
    most, unit = (20, "US dollars") if limit.endswith("usd") else (15, "tokens")
    put(host, name, **{limit: most})
    assert spender.post(CHAT, json=said("hi")).status_code == 200
    for body in (said("hi"), said("hi", stream=True)):
        message = assert_openai_error(spender.post(CHAT, json=body), 402, "budget_exhausted", limit)
        assert f"of {most} {unit}, {limit}; it begins anew at 20" in message
    if unit == "tokens":
        embeddings = {"model": "embedding", "input": "a"}
        assert_openai_error(spender.post("/v1/embeddings", json=embeddings), 402, "budget_exhausted", limit)
    assert len(provider.completions) == 1
    found = state(host, name)
    assert (found["today"], found["exhausted"]) == ({"usd": COST, "tokens": 15}, [limit])
    put(host, name, **{limit: most * 1000})
    assert spender.post(CHAT, json=said("hi")).status_code == 200


def test_a_model_without_a_price_is_refused_under_a_budget_in_dollars(
    host: Host, spender: httpx.Client, name: str
) -> None:
    put(host, name, daily_usd=1000)
    refused = spender.post(CHAT, json={**said("hi"), "model": "unpriced"})
    assert "the model 'unpriced' no known price" in assert_openai_error(refused, 400, "unpriced_model", "model")
    put(host, name, daily_tokens=1_000_000)
    assert spender.post(CHAT, json={**said("hi"), "model": "unpriced"}).status_code == 200


@pytest.mark.parametrize("limit", ["daily_tokens", "daily_usd"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("of_team", [False, True], ids=["agent", "team"])
def test_sixteen_clients_at_once_exceed_a_budget_by_at_most_one_call(
    host: Host, spender: httpx.Client, provider: ScriptedProvider, name: str, limit: str, stream: bool, of_team: bool
) -> None:
    if not of_team:
        race_to_the_end(host, provider, f"agent:{name}", [spender], limit, stream)
        return
    with ExitStack() as stack:
        members = [stack.enter_context(host.client(make_member(host, f"{name}-{one}", name))) for one in "ab"]
        race_to_the_end(host, provider, f"team:{name}", members, limit, stream)


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["daily_tokens", "daily_usd"])
def test_sixteen_clients_of_a_team_share_its_budget_on_postgresql(tmp_path: Path, limit: str) -> None:
    with (
        postgresql() as server,
        ScriptedProvider(models=("big-1",)) as provider,
        Host(
            tmp_path / "data",
            MESH_MODELS=catalog(tmp_path, provider),
            UPSTREAM_KEY="sk-1",
            MESH_DATABASE_URL=new_database(server, "budgets"),
        ) as host,
        host.client(make_member(host, "ann", "red")) as ann,
        host.client(make_member(host, "bob", "red")) as bob,
    ):
        race_to_the_end(host, provider, "team:red", [ann, bob], limit, stream=True)


def race_to_the_end(
    host: Host, provider: ScriptedProvider, scope: str, spenders: list[httpx.Client], limit: str, stream: bool
) -> None:
    """Let sixteen clients call until the budget of a hundred calls is used up."""
    provider.script.replace(None, otherwise=Say("Hello.", usage=USED, wait=0.02))
    each = COST if limit == "daily_usd" else 15
    most = 100 * each
    assert host.operator.put(f"/budgets/{scope}", json={limit: most}).status_code == 201
    body = said("hi", max_tokens=5, stream=stream)

    def until_refused(number: int) -> int:
        done = 0
        while (reply := spenders[number % len(spenders)].post(CHAT, json=body)).status_code == 200:
            assert reply.text.rstrip().endswith("data: [DONE]") == stream, reply.text
            done += 1
        assert_openai_error(reply, 402, "budget_exhausted", limit)
        return done

    with ThreadPoolExecutor(16) as clients:
        done = sum(clients.map(until_refused, range(16)))
    eventually(lambda: host.operator.get(f"/budgets/{scope}").json()["reserved"] == {"usd": 0.0, "tokens": 0})
    used = host.operator.get(f"/budgets/{scope}").json()["today"]
    assert used == {"usd": COST * done, "tokens": 15 * done}
    assert done == len(provider.completions)
    assert most <= done * each < most + each


def test_calls_run_beside_each_other_while_there_is_room(
    host: Host, spender: httpx.Client, provider: ScriptedProvider, name: str
) -> None:
    put(host, name, daily_tokens=1_000_000)
    provider.script.replace(None, otherwise=Hang(reply=Say("Hello.", usage=USED)))
    with ThreadPoolExecutor(8) as clients:
        replies = [clients.submit(spender.post, CHAT, json=said("hi", max_tokens=5)) for _ in range(8)]
        provider.wait_for(8)
        assert 8 * 5 < state(host, name)["reserved"]["tokens"] < 8 * 200
        provider.release()
        assert {one.result().status_code for one in replies} == {200}


def test_each_answer_of_a_call_is_reserved(
    host: Host, spender: httpx.Client, provider: ScriptedProvider, name: str
) -> None:
    put(host, name, daily_tokens=1_000_000_000)
    provider.script.replace(None, otherwise=Hang(reply=Say("Hello.", usage=USED)))
    reserved: list[int] = []
    for calls, body in enumerate((said("hi"), said("hi", n=16)), start=1):
        with ThreadPoolExecutor(1) as client:
            reply = client.submit(spender.post, CHAT, json=body)
            provider.wait_for(calls)
            reserved.append(state(host, name)["reserved"]["tokens"])
            provider.release()
            assert reply.result().status_code == 200
    assert reserved[1] > 15 * reserved[0] > 0


def test_a_reserve_that_cannot_be_written_is_a_database_that_does_not_answer(
    host: Host, spender: httpx.Client, name: str
) -> None:
    put(host, name, daily_tokens=1_000_000)
    with closing(sqlite3.connect(host.data_dir / "mesh.db", timeout=PATIENCE)) as database:
        database.execute("ALTER TABLE call_reserves RENAME TO lost")
        assert_openai_error(spender.post(CHAT, json=said("hi")), 503, "database_unavailable")
        database.execute("ALTER TABLE lost RENAME TO call_reserves")
    assert spender.post(CHAT, json=said("hi")).status_code == 200


def test_usage_is_grouped_and_narrowed(host: Host, spender: httpx.Client, name: str) -> None:
    told = {"x-agent-session": "ses_1", "x-agent-user": "J%C3%B6rg"}
    child = {"x-agent-session": "ses_2", "x-agent-caller-session": "ses_1", "x-agent-subagent": "scout"}
    for headers in (told, {**told, **child}, {**told, "x-agent-session": "ses_3"}):
        assert spender.post(CHAT, json=said("hi"), headers=headers).status_code == 200

    def sums(**params: Any) -> list[tuple[Any, ...]]:
        reply = host.operator.get("/usage", params={"agent": name, "user": "Jörg", **params})
        assert reply.status_code == 200, reply.text
        keys = ["agent_id" if key == "agent" else key for key in params["by"].split(",")]
        return [(*(row[key] for key in keys), row["calls"]) for row in reply.json()["sums"]]

    day = host.operator.get("/usage", params={"by": "day"}).json()["sums"][-1]["day"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", day)
    assert sums(by="session") == [("ses_1", 1), ("ses_2", 1), ("ses_3", 1)]
    assert sums(by="session", session="ses_1") == [("ses_1", 1), ("ses_2", 1)]
    assert dict(sums(by="subagent")) == {None: 2, "scout": 1}
    assert sums(by="agent,team,user,model") == [(name, "default", "Jörg", "default", 3)]
    assert sum(row[-1] for row in sums(by="day", since="2026-01-01")) == 3
    assert sums(by="day", until="2026-01-01") == []
    assert sums(by="agent", model="other") == sums(by="agent", team="blue") == []
    (row, *_) = host.recent(agent=name, session="ses_2", limit=1)
    assert (row["session"], row["caller_session"], row["subagent"], row["user"]) == ("ses_2", "ses_1", "scout", "Jörg")
    for wrong in ({"by": "colour"}, {"by": ""}, {"since": "yesterday"}):
        assert_problem(host.operator.get("/usage", params=wrong), 422, "invalid_request")
    refused = spender.post(CHAT, json=said("hi"), headers={"x-agent-session": "x" * 101})
    assert_openai_error(refused, 400, "invalid_request", "x-agent-session")


def test_marks_are_told(host: Host, spender: httpx.Client, name: str) -> None:
    workspace = {"id": name, "team": name, "driver": "external"}
    assert host.operator.post("/workspaces", json=workspace).status_code == 201
    put(host, name, daily_tokens=50)
    assert host.operator.put(f"/budgets/team:{name}", json={"daily_tokens": 50}).status_code == 201
    scoped = host.operator.post("/tokens", json={"user": "ann", "workspaces": [name]}).json()["token"]
    with host.client(scoped) as ann, host.operator.stream("GET", "/events") as all, ann.stream("GET", "/events") as own:
        streams = [one.iter_lines() for one in (all, own)]
        assert [next(lines) for lines in streams] == [": watching"] * 2
        for _ in range(4):
            assert spender.post(CHAT, json=said("hi")).status_code == 200
        told, seen = ((json.loads(line[6:]) for line in lines if line.startswith("data: ")) for lines in streams)
        assert {next(told)["scope"] for _ in range(2)} == {f"agent:{name}", f"team:{name}"}
        events = [next(seen), next(seen)]
    common = {"scope": f"agent:{name}", "workspace": name, "limit": "daily_tokens", "most": 50}
    assert events[0].items() >= {**common, "type": "budget-warning", "percent": 80, "spent": 45}.items()
    assert events[1].items() >= {**common, "type": "budget-exhausted", "percent": 100, "spent": 60}.items()


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[tuple[Host, ScriptedProvider]]:
    with (
        ScriptedProvider(models=("big-1",), otherwise=Say("Hello.", usage=USED)) as provider,
        Host(tmp_path / "data", MESH_MODELS=catalog(tmp_path, provider), UPSTREAM_KEY="sk-1") as host,
    ):
        yield host, provider


@pytest.mark.slow
def test_a_host_that_is_killed_during_a_call_charges_it(mortal: tuple[Host, ScriptedProvider]) -> None:
    host, provider = mortal
    token = host.token("spender")
    put(host, "spender", daily_tokens=1_000_000)
    provider.script.replace([Hang(reply=Say("late", usage=USED))])
    with host.client(token) as agent:
        body, headers = said("hi", max_tokens=100), {"x-request-id": "cut-off"}
        with ThreadPoolExecutor(1) as caller:
            call = caller.submit(agent.post, CHAT, json=body, headers=headers)
            provider.wait_for(1)
            host.process.kill9()
            assert isinstance(call.exception(), httpx.HTTPError)
    provider.release()
    host.start()
    (row,) = host.recent()
    assert (row["request_id"], row["status"], row["estimated"]) == ("cut-off", "interrupted", True)
    assert row["usage"]["output"] == 100
    charged = row["usage"]["input"] + 100
    found = state(host, "spender")
    assert (found["today"]["tokens"], found["this_month"]["tokens"]) == (charged, charged)
    assert found["today"]["usd"] == row["usage"]["cost_usd"] > 200
    assert found["reserved"]["tokens"] == 0


@pytest.mark.slow
def test_a_host_that_is_killed_between_answer_and_ledger_charges_once(mortal: tuple[Host, ScriptedProvider]) -> None:
    host, _ = mortal
    token = host.token("spender")
    put(host, "spender", daily_tokens=1_000_000)
    for life in range(1, 4):
        with host.client(token) as agent:
            assert agent.post(CHAT, json=said("hi", max_tokens=5)).status_code == 200
            host.process.kill9()  # the ledger gathers rows for some time
        host.start()
        rows = host.recent()
        assert len(rows) == life
        sums = sum(row["usage"]["input"] + row["usage"]["output"] for row in rows)
        assert state(host, "spender")["today"]["tokens"] == sums >= 15 * life
