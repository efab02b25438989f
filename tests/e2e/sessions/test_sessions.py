"""Sessions as a resource: looked at, changed, branched, put away, carried from one agent to another."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import PromptReply
from agent_testing import Call, Fail, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import PATIENCE, TOKEN, Runtime, assert_problem, eventually, fresh, in_background

NOWHERE = "ses_" + "0" * 26
STATUS = {"state": "idle", "human_input_state_authoritative": True, "queue_enqueue_idempotent": True}
PATHS = ("", "/messages", "/export", "/prompt")


def talk(agent: Runtime, *asked: str, **more: Any) -> str:
    """A session of its own in which these were said; its id."""
    alias = fresh("s")
    for text in asked:
        reply = agent.chat(text, session_id=alias, message_id=f"{alias}:{text}", **more)
        assert reply.status_code == 200, reply.text
    return agent.get(f"/sessions/{alias}").json()["id"]


def said(agent: Runtime, session: str, **params: Any) -> list[str]:
    found = agent.get(f"/sessions/{session}/messages", **params).json()["messages"]
    return [part["text"] for message in found for part in message["parts"] if part["type"] == "text"]


def users(agent: Runtime, session: str) -> list[str]:
    found = agent.get(f"/sessions/{session}/messages").json()["messages"]
    return [message["id"] for message in found if message["role"] == "user"]


def act(agent: Runtime, session: str, what: str, **body: Any) -> dict[str, Any]:
    reply = agent.post(f"/sessions/{session}/{what}", body)
    assert reply.status_code in (200, 201), reply.text
    return reply.json()


# ---------------------------------------------------------------- looking


def test_a_session_has_all_its_members(agent: Runtime) -> None:
    alias = fresh("s")
    agent.provider.script.replace([Say("hi", usage={"prompt_tokens": 100, "completion_tokens": 10})])
    before = agent.chat("hello", session_id=alias, model="priced").json()
    found = agent.get(f"/sessions/{alias}").json()
    assert found["session_id"] == alias
    assert found["id"].startswith("ses_")
    assert agent.get(f"/sessions/{found['id']}").json() == {**found, "session_id": found["id"]}
    assert (found["title"], found["agent"], found["model"]) == ("hello", "default", "priced")
    assert (found["parent_id"], found["parent_message_id"], found["archived_at"]) == (None, None, None)
    assert (found["metadata"], found["ephemeral"], found["queue"]) == ({}, False, [])
    assert found["usage"] == {key: before["usage"][key] for key in found["usage"]}
    assert found["total_tokens"] == found["context_tokens"] == before["tokens_used"]
    assert found["cost_usd"] == pytest.approx((100 * 1000 + 10 * 2000) / 1e6)
    assert found["unpriced_models"] == []
    assert found["status"] == STATUS
    assert 0 < found["created_at"] <= found["updated_at"]


def test_a_model_without_a_price_makes_the_cost_unknown(agent: Runtime) -> None:
    session = talk(agent, "say:one", model="priced")
    assert agent.get(f"/sessions/{session}").json()["cost_usd"] > 0
    agent.chat("say:two", session_id=session, model="default")
    found = agent.get(f"/sessions/{session}").json()
    assert (found["cost_usd"], found["unpriced_models"]) == (None, ["default"])
    act(agent, session, "rewind", message_id=users(agent, session)[1])
    assert agent.get(f"/sessions/{session}").json()["unpriced_models"] == ["default"]


def test_lists_come_in_pages(agent: Runtime) -> None:
    user = {"X-Agent-User": fresh("user")}
    with agent.client(Authorization=f"Bearer {TOKEN}", **user) as http:
        names = [
            http.post("/chat", json={"message": "hi", "session_id": fresh("s")}).json()["session_id"] for _ in range(5)
        ]
        expected = [http.get(f"/sessions/{name}").json()["id"] for name in reversed(names)]
        whole = http.get("/sessions").json()
        assert [one["id"] for one in whole["sessions"]] == expected
        assert "next" not in whole
        assert [one["alias"] for one in whole["sessions"]] == names[::-1]
        assert {one["status"]["state"] for one in whole["sessions"]} == {"idle"}
        found, after = [], {}
        while True:
            page = http.get("/sessions", params={"limit": 2, **after}).json()
            found += [one["id"] for one in page["sessions"]]
            if "next" not in page:
                break
            after = {"after": page["next"]}
        assert found == expected
        behind = http.get("/sessions", params={"after": expected[1]}).json()["sessions"]
        assert [one["id"] for one in behind] == expected[2:]
        http.delete(f"/sessions/{expected[0]}")
        aside = http.post(f"/sessions/{expected[1]}/fork", json={"ephemeral": True}).json()["id"]
        assert [one["id"] for one in http.get("/sessions").json()["sessions"]] == expected[1:]
        both = http.get("/sessions", params={"archived": "true", "ephemeral": "true"}).json()["sessions"]
        assert [one["id"] for one in both] == [aside, *expected]
        assert_problem(agent.get("/sessions", after=expected[0]), 422, "invalid_request", "after")


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "501"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"archived": "perhaps"}, "archived"),
        ({"after": "nowhere"}, "after"),
        ({"offset": "3"}, "offset"),
    ],
)
def test_wrong_parameters_of_the_list_are_named(agent: Runtime, params: dict[str, str], field: str) -> None:
    assert_problem(agent.get("/sessions", **params), 422, "invalid_request", field)


def test_messages_are_ready_for_a_frontend(agent: Runtime) -> None:
    session = talk(agent, "say:a", "say:b")
    found = agent.get(f"/sessions/{session}/messages").json()
    assert found.keys() == {"messages"}
    assert [message["role"] for message in found["messages"]] == ["user", "assistant"] * 2
    assert all(message.keys() == {"id", "role", "metadata", "parts", "created_at"} for message in found["messages"])
    first = agent.get(f"/sessions/{session}/messages", limit=3).json()
    assert first["messages"] == found["messages"][:3]
    assert agent.get(f"/sessions/{session}/messages", after=first["next"]).json() == {"messages": found["messages"][3:]}
    behind = agent.get(f"/sessions/{session}/messages", after=found["messages"][0]["id"]).json()["messages"]
    assert behind == found["messages"][1:]
    for params, field in (({"limit": 1001}, "limit"), ({"after": "x"}, "after"), ({"page": 2}, "page")):
        assert_problem(agent.get(f"/sessions/{session}/messages", **params), 422, "invalid_request", field)


def test_the_prompt_is_what_the_next_call_sends(agent: Runtime) -> None:
    agent.provider.script.replace([Call("glob", {"pattern": "*"}), Say("none"), Say("bye")])
    session = talk(agent, "look")
    seen = agent.get(f"/sessions/{session}/prompt").json()
    agent.chat("and now", session_id=session)
    sent = agent.provider.completions[-1].json
    assert sent["messages"][0] == {"role": "system", "content": seen["prompt"]}
    assert sent["messages"][1:-1] == seen["messages"]
    assert sent["tools"] == seen["tools"]
    assert (sent["model"], seen["session_id"]) == (seen["model"], session)
    assert seen["context_tokens"] > 0
    assert len(seen["digest"]) == 64
    assert seen.keys() == PromptReply.model_fields.keys()


# ---------------------------------------------------------------- how it stands


def test_states_and_queue(agent: Runtime) -> None:
    alias = fresh("s")
    agent.provider.script.replace([Hang(reply=Say("one")), Say("two"), Fail(400, "no")])
    thread, _ = in_background(lambda: agent.chat("first", session_id=alias, message_id="m1"))
    agent.provider.wait_for(1)
    busy = agent.get(f"/sessions/{alias}").json()["status"]
    assert {**STATUS, "state": "busy", "message_id": "m1", "started_at": busy["started_at"]} == busy
    agent.chat("second", session_id=alias, message_id="m2", wait=0)
    [waiting] = agent.get(f"/sessions/{alias}").json()["queue"]
    assert waiting.pop("queued_at") > 0
    assert waiting == {"message_id": "m2", "position": 0, "parts": [{"type": "text", "text": "second"}]}
    assert "second" not in said(agent, alias)
    for what, body in (("fork", {}), ("rewind", {"message_id": "m1"}), ("unrewind", {})):
        problem = assert_problem(agent.post(f"/sessions/{alias}/{what}", body), 409, "session_busy")
        assert problem["running"]["message_id"] == "m1"
    assert agent.http.patch(f"/sessions/{alias}", json={"title": "x"}).json()["title"] == "x"
    agent.provider.release()
    thread.join(PATIENCE)
    eventually(lambda: agent.get(f"/sessions/{alias}").json()["status"] == STATUS)
    agent.chat("third", session_id=alias, message_id="m3")
    failed = agent.get(f"/sessions/{alias}").json()["status"]
    assert (failed["state"], "no" in failed["message"]) == ("error", True)
    act(agent, alias, "rewind", message_id="m3")
    assert agent.get(f"/sessions/{alias}").json()["status"] == STATUS


@pytest.mark.slow
def test_an_error_is_remembered_over_a_restart(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace([Fail(401), Say("fine")])
    agent.chat("one", session_id="s")
    agent.start()
    found = agent.get("/sessions/s").json()
    assert found["status"]["state"] == "error"
    assert found["context_tokens"] is None
    agent.chat("two", session_id="s")
    assert agent.get("/sessions/s").json()["status"] == STATUS


# ---------------------------------------------------------------- changing


def test_patch_changes_what_it_names(agent: Runtime) -> None:
    session = talk(agent, "say:a")
    patch = {"title": "Plans", "metadata": {"a": 1, "principal": "eve", "b": None}, "model": "priced"}
    found = agent.http.patch(f"/sessions/{session}", json=patch).json()
    assert (found["title"], found["metadata"], found["model"]) == ("Plans", {"a": 1, "principal": "eve"}, "priced")
    found = agent.http.patch(f"/sessions/{session}", json={"title": None, "metadata": {"a": None, "c": 2}}).json()
    assert (found["title"], found["metadata"], found["model"]) == (None, {"principal": "eve", "c": 2}, "priced")
    agent.chat("say:b", session_id=session)
    assert agent.provider.completions[-1].json["model"] == "priced"
    away = agent.http.patch(f"/sessions/{session}", json={"archived": True}).json()
    assert away["archived_at"] > 0
    assert_problem(agent.chat("x", session_id=session), 409, "session_archived")
    assert agent.http.patch(f"/sessions/{session}", json={"archived": False}).json()["archived_at"] is None
    assert agent.chat("say:c", session_id=session).json()["response"] == "c"


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"agent": "other"}, "agent"),
        ({"owner": "x"}, "owner"),
        ({"title": "x" * 201}, "title"),
        ({"title": ""}, "title"),
        ({"metadata": {"k": "x" * 16384}}, "metadata"),
        ({"metadata": None}, "metadata"),
        ({"archived": "yes"}, "archived"),
        ({"model": ""}, "model"),
    ],
)
def test_a_wrong_patch_is_refused_by_name(agent: Runtime, patch: dict[str, Any], field: str) -> None:
    session = talk(agent, "say:a")
    before = agent.get(f"/sessions/{session}").json()
    reply = agent.http.patch(f"/sessions/{session}", json=patch)
    problem = assert_problem(reply, 422, "invalid_request", field)
    assert field != "agent" or "cannot be changed" in problem["detail"]
    assert agent.get(f"/sessions/{session}").json() == before


def test_delete_puts_away_and_stops_what_runs(agent: Runtime) -> None:
    alias = fresh("s")
    agent.provider.script.replace([Hang()])
    thread, got = in_background(lambda: agent.chat("first", session_id=alias))
    agent.provider.wait_for(1)
    agent.chat("second", session_id=alias, wait=0)
    away = agent.http.delete(f"/sessions/{alias}")
    assert away.status_code == 200
    thread.join(PATIENCE)
    assert got[0].json()["finish_reason"] == "abort"
    session = away.json()["id"]
    assert away.json()["archived_at"] > 0
    assert away.json()["queue"] == []
    assert agent.http.delete(f"/sessions/{session}").json() == {**away.json(), "session_id": session}
    assert_problem(agent.get(f"/sessions/{alias}"), 404, "unknown_session")
    assert not (agent.data_dir / "scratch" / session).exists()


# ---------------------------------------------------------------- branching


def test_rewind_edit_and_take_back(agent: Runtime) -> None:
    session = talk(agent, "say:a", "say:b", "say:c")
    everything = said(agent, session)
    tokens = agent.get(f"/sessions/{session}").json()["total_tokens"]
    done = act(agent, session, "rewind", message_id=users(agent, session)[1])
    assert (done["session_id"], done["hidden"]) == (session, 4)
    assert (done["message"]["role"], done["message"]["parts"]) == ("user", [{"type": "text", "text": "say:b"}])
    assert said(agent, session) == everything[:2]
    assert said(agent, session, hidden=True) == everything
    found = agent.get(f"/sessions/{session}").json()
    assert (found["total_tokens"], found["context_tokens"]) == (tokens, None)
    assert act(agent, session, "unrewind") == {"session_id": session, "restored": 4}
    assert said(agent, session) == everything
    assert_problem(agent.post(f"/sessions/{session}/unrewind", {}), 409, "nothing_to_unrewind")
    act(agent, session, "rewind", message_id=users(agent, session)[1])
    agent.chat("say:B", session_id=session)
    sent = agent.provider.completions[-1].texts
    assert sent == ["say:a", "a", "say:B"]
    assert_problem(agent.post(f"/sessions/{session}/unrewind", {}), 409, "nothing_to_unrewind")


def test_a_rewind_that_cannot_be(agent: Runtime) -> None:
    session = talk(agent, "say:a")
    path = f"/sessions/{session}/rewind"
    reply = agent.get(f"/sessions/{session}/messages").json()["messages"][1]["id"]
    assert_problem(agent.post(path, {"message_id": reply}), 422, "invalid_request", "message_id")
    assert_problem(agent.post(path, {}), 422, "invalid_request", "message_id")
    assert_problem(agent.post(path, {"message_id": "x", "y": 1}), 422, "invalid_request", "y")
    assert_problem(agent.post(path, {"message_id": "msg_nope"}), 404, "unknown_message")
    act(agent, session, "rewind", message_id=users(agent, session)[0])
    assert_problem(agent.post(path, {"message_id": reply}), 404, "unknown_message")


def test_a_user_has_a_share_of_the_room_for_copies(start: Start, provider: ScriptedProvider) -> None:
    """Else the forks of one user would fill the disk, or what it imports, which is a copy too."""
    agent = start(AGENT_COPIES_MB=4)
    ann, bob = ({"X-Agent-User": name} for name in ("ann", "bob"))
    provider.script.replace([Say("x" * 300_000), Say("short")])
    ids = list[str]()
    for user in (ann, bob):
        agent.chat("go", session_id="s", user=user["X-Agent-User"])
        ids.append(agent.http.get("/sessions/s", headers=user).json()["id"])
    exported = agent.http.get("/sessions/s/export", headers=ann).content
    forks = [agent.post(f"/sessions/{ids[0]}/fork", {}, **ann) for _ in range(12)]
    assert [one.status_code for one in forks[:2]] == [201, 201]
    assert "your forked and imported sessions hold" in assert_problem(forks[-1], 507, "no_room")["detail"]
    anew = re.sub(rb"(ses|msg|prt)_0", rb"\1_f", exported)
    imported = agent.http.post("/sessions/import", content=anew, headers=ann)
    assert "AGENT_COPIES_MB" in assert_problem(imported, 507, "no_room")["detail"]
    provider.script.replace([Say("on")])
    assert agent.chat("go on", session_id="s", user="ann").status_code == 200
    assert agent.post(f"/sessions/{ids[1]}/fork", {}, **bob).status_code == 201, "others have room"


def test_a_fork_goes_its_own_way(agent: Runtime) -> None:
    session = talk(agent, "say:a", "say:b")
    agent.http.patch(f"/sessions/{session}", json={"title": "Plans", "metadata": {"k": 1}})
    first_reply = agent.get(f"/sessions/{session}/messages").json()["messages"][1]["id"]
    made = agent.post(f"/sessions/{session}/fork", {"message_id": first_reply, "metadata": {"l": 2}})
    assert made.status_code == 201
    child = made.json()
    assert made.headers["location"] == f"/sessions/{child['id']}"
    assert (child["parent_id"], child["parent_message_id"]) == (session, first_reply)
    assert (child["title"], child["metadata"], child["ephemeral"]) == ("Plans (copy)", {"k": 1, "l": 2}, False)
    assert said(agent, child["id"]) == ["say:a", "a"]
    assert 0 < child["total_tokens"] < agent.get(f"/sessions/{session}").json()["total_tokens"]
    agent.chat("say:c", session_id=child["id"])
    sent = agent.provider.completions[-1]
    parent = agent.get(f"/sessions/{session}/prompt").json()
    assert sent.messages[:3] == [{"role": "system", "content": parent["prompt"]}, *parent["messages"][:2]]
    assert sent.texts == ["say:a", "a", "say:c"]
    assert said(agent, session) == ["say:a", "a", "say:b", "b"]
    whole = act(agent, session, "fork", title="Mine")
    assert (whole["title"], said(agent, whole["id"])) == ("Mine", said(agent, session))
    assert_problem(agent.post(f"/sessions/{session}/fork", {"message_id": "nope"}), 404, "unknown_message")
    assert_problem(agent.post(f"/sessions/{session}/fork", {"at": 1}), 422, "invalid_request", "at")


# ---------------------------------------------------------------- carrying


def test_an_export_goes_to_another_agent_and_goes_on_there(
    agent: Runtime, start: Start, provider: ScriptedProvider
) -> None:
    agent.provider.script.replace([Call("glob", {"pattern": "*"}), Say("none"), Say("b")])
    session = talk(agent, "look", "again")
    act(agent, session, "rewind", message_id=users(agent, session)[1])
    exported = agent.get(f"/sessions/{session}/export")
    assert exported.headers["content-type"] == "application/jsonl"
    other = start()
    stored = other.http.post("/sessions/import", content=exported.content)
    assert stored.status_code == 201
    assert stored.headers["location"] == f"/sessions/{session}"
    assert stored.json()["id"] == session
    for table in ("chat_messages", "chat_parts"):
        query = f"SELECT * FROM {table} WHERE session_id = ? ORDER BY id"  # noqa: S608
        assert list(map(tuple, other.sql(query, session))) == list(map(tuple, agent.sql(query, session)))
    imported = session_row(other, session)
    assert imported["metadata_json"].pop("outside_text"), "whoever has written it"
    assert imported["metadata_json"].pop("copied_bytes") == len(exported.content)
    assert imported == session_row(agent, session)
    assert (
        other.get(f"/sessions/{session}/prompt").json()["messages"]
        == agent.get(f"/sessions/{session}/prompt").json()["messages"]
    )
    provider.script.replace([Say("hello again")])
    assert other.chat("and now?", session_id=session).json()["response"] == "hello again"
    assert_problem(other.http.post("/sessions/import", content=exported.content), 409, "session_exists")
    as_json = agent.get(f"/sessions/{session}/export", format="json").json()
    assert as_json.keys() == {"session", "messages", "prompts"}
    assert [one.keys() for one in as_json["messages"]] == [{"message", "parts"}] * 4
    assert_problem(agent.get(f"/sessions/{session}/export", format="xml"), 422, "invalid_request", "format")


def session_row(agent: Runtime, session: str) -> dict[str, Any]:
    """Of all but the prompt, which is made anew where a session is imported."""
    (row,) = agent.sql("SELECT * FROM chat_sessions WHERE id = ?", session)
    about = json.loads(row["metadata_json"])
    assert about.pop("system_prompt_digest")
    return {**dict(row), "metadata_json": about}


def digests(agent: Runtime, session: str) -> set[str]:
    """Of all prompts that the session and its messages refer to."""
    (row,) = agent.sql("SELECT metadata_json FROM chat_sessions WHERE id = ?", session)
    about = json.loads(row["metadata_json"])
    messages = agent.sql("SELECT metadata_json FROM chat_messages WHERE session_id = ?", session)
    told = [json.loads(one["metadata_json"]).get("system_prompt_digest") for one in messages]
    briefs = [one["digest"] for one in about.get("briefs", {}).values()]
    return {found for found in (about["system_prompt_digest"], *told, *briefs) if found}


def test_an_export_holds_every_prompt_that_it_refers_to(
    agent: Runtime, start: Start, provider: ScriptedProvider
) -> None:
    agent.provider.script.replace([Say("a plan"), Say("built"), Say("looked")])
    session = fresh("s")
    for name in ("plan", "build", "default"):
        assert agent.chat("go", session_id=session, agent=name).status_code == 200
    session = agent.get(f"/sessions/{session}").json()["id"]
    exported = agent.get(f"/sessions/{session}/export")
    rows = [one["data"] for one in map(json.loads, exported.text.splitlines()) if one["type"] == "prompt"]
    assert len(rows) == 3
    assert {row["digest"] for row in rows} == digests(agent, session)
    assert {hashlib.sha256(row["body"].encode()).hexdigest() for row in rows} == digests(agent, session)
    assert agent.get(f"/sessions/{session}/export", format="json").json()["prompts"] == rows
    other = start()
    forged = exported.text.replace("You carry out work", "You carry out crimes").encode()
    problem = assert_problem(other.http.post("/sessions/import", content=forged), 422, "invalid_request")
    assert "digest" in problem["errors"][0]["message"]
    assert other.http.post("/sessions/import", content=exported.content).status_code == 201
    provider.script.replace([Say("more")])
    assert other.chat("and now?", session_id=session, agent="build").status_code == 200
    assert "You carry out work" in provider.completions[-1].messages[0]["content"]
    again = [json.loads(line) for line in other.get(f"/sessions/{session}/export").text.splitlines()]
    prompts = {one["data"]["digest"] for one in again if one["type"] == "prompt"}
    assert prompts > {row["digest"] for row in rows}, "those of earlier messages, and this agent's own"


def test_an_import_that_cannot_be(agent: Runtime) -> None:
    session = talk(agent, "say:a")
    exported = agent.get(f"/sessions/{session}/export").content
    for content in (b"", b"{", exported + b"{}", exported[:-9], exported.replace(b'"role":"user"', b'"role":"root"')):
        problem = assert_problem(agent.http.post("/sessions/import", content=content), 422, "invalid_request")
        assert problem["errors"][0]["field"].startswith("line ")
    with agent.client(Authorization=f"Bearer {TOKEN}", **{"X-Agent-User": "eve"}) as eve:
        problem = assert_problem(eve.post("/sessions/import", content=exported), 409, "other_principal")
        assert "X-Agent-User: operator" in problem["detail"]


def test_no_token_leaves_with_an_export(start: Start) -> None:
    agent = start(AGENT_MESH_TOKEN="mesh-canary-1")
    agent.chat(f"say:{TOKEN} and mesh-canary-1", session_id="s")
    for form in ("jsonl", "json"):
        text = agent.get("/sessions/s/export", format=form).text
        assert TOKEN not in text
        assert "canary" not in text
        assert text.count("[redacted] and [redacted]") >= 2


@pytest.mark.slow
def test_the_command_imports_what_is_too_large_for_a_request(start: Start, tmp_path: Path) -> None:
    agent = start()
    agent.chat("say:a", session_id="s")
    exported = agent.get("/sessions/s/export").content
    session = agent.get("/sessions/s").json()["id"]
    file, empty = tmp_path / "export.jsonl", tmp_path / "empty"
    file.write_bytes(exported)
    empty.write_bytes(b"")
    elsewhere = tmp_path / "elsewhere"

    def run(path: Path, data_dir: Path) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "agent_runtime", "import", str(path)]
        env = {**os.environ, "AGENT_DATA_DIR": str(data_dir)}
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)

    done = run(file, elsewhere)
    assert (done.returncode, done.stdout.strip()) == (0, f"imported session {session}"), done.stderr
    for path, folder, expected in (
        (file, elsewhere, "exists already"),
        (empty, elsewhere, "line 1: "),
        (tmp_path / "none", elsewhere, "cannot be read"),
        (file, agent.data_dir, "in use by another server"),
    ):
        refused = run(path, folder)
        assert refused.returncode == 1
        assert expected in refused.stderr
        assert "Traceback" not in refused.stderr


# ---------------------------------------------------------------- whose it is


def test_another_principal_sees_nothing_and_changes_nothing(agent: Runtime) -> None:
    session = talk(agent, "say:a")
    message = users(agent, session)[0]
    with agent.client(Authorization=f"Bearer {TOKEN}", **{"X-Agent-User": "eve"}) as eve:
        for name in (session, NOWHERE, "nobody"):
            for path in PATHS:
                assert_problem(eve.get(f"/sessions/{name}{path}"), 404, "unknown_session")
            assert_problem(eve.patch(f"/sessions/{name}", json={"title": "x"}), 404, "unknown_session")
            assert_problem(eve.delete(f"/sessions/{name}"), 404, "unknown_session")
            for what, body in (("fork", {}), ("rewind", {"message_id": message}), ("unrewind", {})):
                assert_problem(eve.post(f"/sessions/{name}/{what}", json=body), 404, "unknown_session")
        assert session not in eve.get("/sessions").text
    found = agent.get(f"/sessions/{session}").json()
    assert (found["title"], found["archived_at"]) == ("say:a", None)
    assert said(agent, session) == ["say:a", "a"]


def test_without_the_token_nothing_is_told(agent: Runtime) -> None:
    with agent.client(Accept="*/*") as stranger:
        assert_problem(stranger.get("/sessions"), 401, "unauthorized")


def test_a_long_export_is_whole(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_CONTEXT_LIMIT=10_000_000)
    provider.script.replace(lambda _: Say("x" * 200_000, pieces=("x" * 200_000,)))
    for _ in range(8):
        agent.chat("more", session_id="s")
    lines = [json.loads(line) for line in agent.get("/sessions/s/export").text.splitlines()]
    assert [line["type"] for line in lines].count("message") == 16
    assert lines[-1]["type"] == "prompt"
