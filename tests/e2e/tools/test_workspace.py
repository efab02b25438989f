"""The workspace over live HTTP, beside an agent that works in it."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pytest

from agent_runtime.workspace import SafePath
from agent_runtime.workspace.http.file_service import MAX_PARENT_FOLDERS
from agent_testing import Call, Say, ScriptedProvider

from ..conftest import Start
from ..live import TOKEN, Runtime, assert_problem, eventually, fresh
from ..transcript import exchanges, shell

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "workspace.md"
ALICE = {"X-Agent-User": "alice"}
MIB = 1024 * 1024


def put(agent: Runtime, path: str, data: str | bytes, **headers: str) -> httpx.Response:
    return agent.http.put(f"/workspace/{path}", content=data, headers=named(headers))


def get(agent: Runtime, path: str, **headers: str) -> httpx.Response:
    return agent.http.get(f"/workspace/{path}", headers=named(headers))


def named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def make(agent: Runtime, *calls: Call, **more: Any) -> list[dict[str, Any]]:
    """A turn that makes these calls, one a step; what came of them."""
    agent.provider.script.replace([*(Say("", calls=(call,)) for call in calls), Say("over")])
    reply = agent.chat("work", session_id=fresh("s"), **more)
    assert reply.status_code == 200, reply.text
    return reply.json()["tool_outputs"]


def prompt(agent: Runtime, **more: Any) -> str:
    """The system prompt of a session that begins now."""
    agent.provider.script.replace([Say("hello")])
    agent.provider.clear()
    assert agent.chat("hi", session_id=fresh("s"), **more).status_code == 200
    return agent.provider.completions[-1].messages[0]["content"]


def test_the_page_is_true_to_the_letter(start: Start, tmp_path: Path) -> None:
    agent = start(AGENT_TOKEN="")
    text = PAGE.read_text("utf-8").replace("localhost:8400", f"localhost:{urlsplit(agent.url).port}")
    found = exchanges(text)
    assert len(found) >= 10
    for exchange in found:
        printed = shell(exchange.command, tmp_path, {"HOME": str(tmp_path)})
        assert exchange.fits(printed), exchange.first_fault(printed)


# ---------------------------------------------------------------- files


def test_what_a_caller_puts_the_agent_works_on_and_what_it_makes_the_caller_gets(agent: Runtime) -> None:
    first = put(agent, "shared/plan.md", "Tea at four.")
    assert first.status_code == 201
    assert first.headers["location"] == "/workspace/shared/plan.md"
    (edited,) = make(agent, Call("edit", {"path": "shared/plan.md", "old_string": "four", "new_string": "five"}))
    assert edited["state"] == "output-available", edited
    got = get(agent, "shared/plan.md")
    assert got.text == "Tea at five."
    assert got.headers["etag"] != first.headers["etag"]
    stale = put(agent, "shared/plan.md", "Tea at six.", If_Match=first.headers["etag"])
    assert_problem(stale, 412, "precondition_failed")
    assert stale.headers["etag"] == got.headers["etag"]
    assert put(agent, "shared/plan.md", "Tea at six.", If_Match=got.headers["etag"]).status_code == 204
    (ran,) = make(agent, Call("bash", {"command": "cat shared/plan.md"}))
    assert ran["output"]["data"]["stdout"] == "Tea at six."
    backup = edited["output"]["metadata"]["backup"]
    assert get(agent, backup).text == "Tea at four."
    assert [entry["size"] for entry in get(agent, "shared/").json()["entries"]] == [11]
    versions = get(agent, ".backups/shared/plan.md").json()["entries"]
    texts = [get(agent, f".backups/shared/plan.md/{one['name']}").text for one in versions]
    assert texts == ["Tea at four.", "Tea at five."]


def test_an_agent_goes_back_to_what_it_had_overwritten(agent: Runtime) -> None:
    write = Call("write", {"path": "back.md", "content": "the first"})
    _, second = make(agent, write, Call("write", {"path": "back.md", "content": "the second"}))
    read, found = make(
        agent,
        Call("read", {"path": second["output"]["metadata"]["backup"]}),
        Call("grep", {"pattern": "^the first$"}),
    )
    assert read["output"]["data"]["content"] == "the first"
    assert found["output"]["data"]["matches"] == [], "old versions are not in the way of a search"
    assert any(".backups" in one for one in found["output"]["data"]["left_out"])


def test_a_reader_gets_only_what_he_has_not(agent: Runtime) -> None:
    data = bytes(range(256)) * 20_000
    tag = put(agent, "data.bin", data).headers["etag"]
    known = get(agent, "data.bin", If_None_Match=f'"other", {tag}')
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", tag)
    assert agent.http.head("/workspace/data.bin", headers={"If-None-Match": tag}).status_code == 304
    part = get(agent, "data.bin", Range="bytes=1000-1999")
    assert (part.status_code, part.content) == (206, data[1000:2000])
    assert part.headers["content-range"] == f"bytes 1000-1999/{len(data)}"
    assert get(agent, "data.bin", Range="bytes=-10").content == data[-10:]
    assert get(agent, "data.bin", Range="bytes=0-9", If_Range='"old"').content == data
    beyond = get(agent, "data.bin", Range=f"bytes={len(data)}-")
    assert_problem(beyond, 416, "out_of_range")
    assert beyond.headers["content-range"] == f"bytes */{len(data)}"
    head = agent.http.head("/workspace/data.bin")
    assert (head.status_code, head.content) == (200, b"")
    assert (head.headers["content-length"], head.headers["etag"]) == (str(len(data)), tag)
    assert get(agent, "data.bin").content == data
    assert agent.http.head("/workspace/gone").status_code == 404
    assert agent.http.head("/workspace").status_code == 200
    assert agent.http.head("/workspace/data.bin", params={"limit": 1}).status_code == 422


@pytest.mark.parametrize(
    ("name", "data", "kind", "shown"),
    [
        ("page.html", "<script>alert(1)</script>", "text/plain; charset=utf-8", "inline"),
        ("picture.svg", "<svg onload='alert(1)'/>", "text/plain; charset=utf-8", "inline"),
        ("script.js", "alert(1)", "text/plain; charset=utf-8", "inline"),
        ("feed.xml", "<?xml-stylesheet href='x'?>", "text/plain; charset=utf-8", "inline"),
        ("plan.md", "# Plan", "text/markdown; charset=utf-8", "inline"),
        ("data.JSON", "{}", "application/json; charset=utf-8", "inline"),
        ("page.html", b"<script>alert(1)</script>\xff", "application/octet-stream", "attachment"),
        ('caf\u00e9 \u2615".png', b"\x89PNG\0", "application/octet-stream", "attachment"),
    ],
)
def test_no_browser_runs_what_an_agent_has_written(
    agent: Runtime, name: str, data: str | bytes, kind: str, shown: str
) -> None:
    assert put(agent, f"web/{name}", data).status_code in (201, 204)
    for got in (get(agent, f"web/{name}"), agent.http.head(f"/workspace/web/{name}")):
        assert got.headers["content-type"] == kind
        assert got.headers["content-disposition"].startswith(f"{shown}; filename*=UTF-8''")
        assert got.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in got.headers["content-security-policy"]
        assert got.headers["content-disposition"].isascii()


@pytest.mark.slow
def test_an_acknowledged_file_survives_a_crash(start: Start) -> None:
    agent = start()
    for number in range(20):
        assert put(agent, "f", f"{number}").status_code in (201, 204)
    agent.process.kill9()
    agent.start()
    assert get(agent, "f").text == "19"
    assert len(get(agent, ".backups/f").json()["entries"]) == 19


# ---------------------------------------------------------------- what is refused


def raw(agent: Runtime, method: str, target: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, Any]]:
    """A request with a target that no well-behaved client sends."""
    connection = http.client.HTTPConnection(urlsplit(agent.url).netloc, timeout=60)
    try:
        connection.putrequest(method, target, skip_host=False)
        given = {"Authorization": f"Bearer {TOKEN}", "Content-Length": str(len(body)), **headers}
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read() or b"{}")
    finally:
        connection.close()


ODD = [
    "/workspace/../agent.db",
    "/workspace/%2e%2e/agent.db",
    "/workspace/a/%2e%2e/%2e%2e/agent.db",
    "/workspace/..%2fagent.db",
    "/workspace/%2fetc/passwd",
    "/workspace//etc/passwd",
    "/workspace/./a",
    "/workspace/a//b",
    "/workspace/a%00b",
    "/workspace/a%ff",
    "/workspace/" + "x" * 5000,
    "/workspace/" + "x" * 300,
    "/workspace/" + "x" * 300 + "%0A",
]


@pytest.mark.parametrize("target", ODD)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_path_that_is_odd_is_refused(agent: Runtime, method: str, target: str) -> None:
    before = (agent.data_dir / "agent.db").stat().st_ino
    status, problem = raw(agent, method, target, b"mine" if method == "PUT" else b"")
    assert status == 422, problem
    assert problem["code"] == "invalid_request"
    assert [fault["field"] for fault in problem["errors"]] == ["path"]
    assert (agent.data_dir / "agent.db").stat().st_ino == before


def test_a_name_may_have_lines(agent: Runtime) -> None:
    for name in ("two%0Alines", "two%0D%0Alines", "%0A", "a%0A", "f%0Ald/a%0Ab"):
        target = f"/workspace/odd/{name}"
        assert raw(agent, "PUT", target, b'{"known": true}')[0] == 201
        assert raw(agent, "GET", target) == (200, {"known": True})
        assert raw(agent, "HEAD", target)[0] == 200
        assert raw(agent, "PUT", target, b"{}")[0] == 204
        assert unquote(name).split("/")[0] in {one["name"] for one in get(agent, "odd").json()["entries"]}
        assert raw(agent, "DELETE", target)[0] == 204
        assert raw(agent, "GET", target)[0] == 404
    assert raw(agent, "PUT", "/workspace/%0A")[0] == 201
    assert raw(agent, "DELETE", "/workspace/%0A")[0] == 204


@pytest.mark.slow
@pytest.mark.parametrize("user", ["operator", "alice"])
def test_a_path_that_is_too_deep_is_refused_and_what_is_there_all_the_same_is_not(agent: Runtime, user: str) -> None:
    headers = {"X-Agent-User": user}
    for folders in (MAX_PARENT_FOLDERS + 1, 300, 2000):
        status, problem = raw(agent, "PUT", f"/workspace/memory/{'d/' * (folders - 1)}f", b"x", **headers)
        assert (status, problem["code"]) == (422, "invalid_request")
        assert problem["errors"] == [
            {"field": "path", "message": f"may lead through {MAX_PARENT_FOLDERS} folders at most"}
        ]
    assert raw(agent, "PUT", f"/workspace/memory/{'d/' * (MAX_PARENT_FOLDERS - 1)}f", b"1", **headers)[0] == 201
    assert raw(agent, "PUT", f"/workspace/memory/{'d/' * (MAX_PARENT_FOLDERS - 1)}f", b"2", **headers)[0] == 204
    root = agent.data_dir / "workspace"
    if user == "alice":
        root = agent.data_dir / "people" / hashlib.sha256(b"alice").hexdigest()[:32]
    deep = "memory/" + "e/" * 1500 + "f"
    SafePath(root, root / deep, deep).write_atomically(b"1")
    try:
        assert raw(agent, "GET", f"/workspace/{deep}", b"", **headers) == (200, 1)
        assert raw(agent, "PUT", "/workspace/memory/more", b"x", **headers)[0] in (201, 204)
        assert raw(agent, "DELETE", f"/workspace/{deep}", b"", **headers)[0] == 204
    finally:  # whoever clears up behind the tests cannot
        subprocess.run(("rm", "-rf", root / "memory" / "e", root / ".backups" / "memory" / "e"), check=True)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_change_of_the_workspace_itself_is_told_to_name_a_file(agent: Runtime, method: str) -> None:
    status, problem = raw(agent, method, "/workspace/")
    assert (status, problem["code"]) == (422, "invalid_request")
    assert problem["errors"] == [{"field": "path", "message": "must name a file in the workspace"}]


def test_links_that_a_command_makes_lead_callers_nowhere(agent: Runtime) -> None:
    secret = agent.data_dir / "agents"
    links = f"ln -s {agent.data_dir}/agent.db db; ln -s {secret} way; ln -s . here; mkfifo pipe"
    make(agent, Call("bash", {"command": f"mkdir -p traps; cd traps; {links}"}))
    types = {entry["name"]: entry["type"] for entry in get(agent, "traps").json()["entries"]}
    assert types == {"db": "link", "way": "link", "here": "link", "pipe": "other"}
    assert_problem(get(agent, "traps/db"), 403, "link")
    assert_problem(get(agent, "traps/way"), 403, "link")
    assert_problem(get(agent, "traps/way/x"), 409, "not_a_folder")
    assert_problem(get(agent, "traps/pipe"), 409, "not_a_file")
    assert_problem(put(agent, "traps/db", "x"), 409, "not_a_file")
    assert_problem(put(agent, "traps/way/evil.md", "x"), 409, "not_a_folder")
    assert_problem(agent.http.delete("/workspace/traps/db"), 409, "not_a_file")
    assert list(secret.iterdir()) == []


def test_what_is_too_large_is_refused_with_its_bound(agent: Runtime) -> None:
    assert_problem(put(agent, "SOUL.md", "x" * 4001), 413, "too_large")
    assert_problem(put(agent, "big", b"x" * (8 * MIB + 1)), 413, "body_too_large")
    assert put(agent, "big", b"x" * (8 * MIB)).status_code == 201


def test_a_workspace_that_is_full_says_so(start: Start) -> None:
    agent = start(AGENT_WORKSPACE_MB=1)
    assert put(agent, "f", b"x" * 700_000).status_code == 201
    problem = assert_problem(put(agent, "g", b"x" * 700_000), 507, "no_room")
    assert "Delete something first" in problem["detail"]
    assert get(agent, "g").status_code == 404


def test_parameters_and_headers_that_are_not_understood_are_refused_by_name(agent: Runtime) -> None:
    put(agent, "p/f", "x")
    assert_problem(agent.get("/workspace/p/f", limit=3), 422, "invalid_request", "limit")
    assert_problem(agent.get("/workspace/p", page=3), 422, "invalid_request", "page")
    assert_problem(agent.get("/workspace", limit=0), 422, "invalid_request", "limit")
    assert_problem(agent.http.put("/workspace/p/f", params={"mode": "a"}, content="x"), 422, "invalid_request", "mode")
    assert_problem(agent.http.delete("/workspace/p/f", params={"all": 1}), 422, "invalid_request", "all")
    assert_problem(put(agent, "p/f", "x", Content_Encoding="gzip"), 422, "invalid_request", "content-encoding")
    assert_problem(put(agent, "p/f", "x", Content_Range="bytes 0-0/1"), 422, "invalid_request", "content-range")
    assert_problem(put(agent, ".backups/x", "x"), 403, "read_only")
    assert agent.http.post("/workspace/p/f").status_code == 405


def tried(client: httpx.Client) -> list[httpx.Response]:
    at = "/workspace/f"
    return [client.get("/workspace"), client.get(at), client.put(at, content="x"), client.delete(at)]


def test_only_who_holds_the_token_reads_and_writes(agent: Runtime, start: Start) -> None:
    with agent.client(Authorization="Bearer wrong") as stranger:
        for reply in tried(stranger):
            assert_problem(reply, 401, "unauthorized")
    open_to_all = start(AGENT_TOKEN="")
    page = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
    with open_to_all.client(**page) as browser:
        for reply in tried(browser):
            assert_problem(reply, 403, "cross_site")


# ---------------------------------------------------------------- whose


def test_each_user_is_known_to_his_own_sessions_only(start: Start) -> None:
    agent = start()
    assert put(agent, "USER.md", "The operator likes tea.").status_code == 201
    assert put(agent, "USER.md", "Alice likes coffee.", **ALICE).status_code == 201
    put(agent, "SOUL.md", "Calm.", **ALICE)
    assert "The operator likes tea." in prompt(agent)
    assert "Alice" not in prompt(agent)
    hers = prompt(agent, user="alice")
    assert "Alice likes coffee." in hers
    assert "Calm." in hers
    assert "tea" not in hers
    assert "likes" not in prompt(agent, user="bob")
    assert get(agent, "USER.md", **ALICE).text == "Alice likes coffee."
    assert_problem(get(agent, "USER.md", **{"X-Agent-User": "bob"}), 404, "unknown_path")


@pytest.mark.slow
@pytest.mark.parametrize("user", ["alice", "bob", "operator"])
def test_no_tool_reaches_what_a_user_has_for_himself(start: Start, user: str) -> None:
    agent = start()
    put(agent, "USER.md", "a secret of Alice's", **ALICE)
    put(agent, "memory/plan.md", "a secret plan", **ALICE)
    make(agent, Call("memory_save", {"text": "Alice has a secret walnut tree."}), user="alice")
    (folder,) = (agent.data_dir / "people").iterdir()
    database, here = agent.data_dir / "agent.db", agent.data_dir / "workspace"
    commands = (
        f"cat {folder}/USER.md {folder}/memory/plan.md; grep -ra secret {folder.parent}; ls {folder.parent}",
        f'grep -ac secret {database}*; python3 -c \'print(open("{database}", "rb").read().count(b"secret"))\'',
        f"ln {folder}/USER.md one; cat one; ln -s {folder} two; cat two/USER.md; ln {database} three; grep -ac a three",
        f"cat {here}/../people/*/USER.md; find {agent.data_dir} -name USER.md -exec cat {{}} +",
    )
    outputs = make(
        agent,
        Call("read", {"path": str(folder / "USER.md")}),
        Call("read", {"path": f"../people/{folder.name}/memory/plan.md"}),
        Call("read", {"path": str(database)}),
        Call("write", {"path": str(folder / "USER.md"), "content": "mine"}),
        *(Call("bash", {"command": command}) for command in commands),
        Call("read", {"path": "two/USER.md"}),
        Call("glob", {"pattern": "**/USER.md"}),
        Call("glob", {"pattern": "*", "path": str(folder.parent)}),
        Call("grep", {"pattern": "secret", "path": str(agent.data_dir)}),
        Call("grep", {"pattern": "secret"}),
        user=user,
    )
    assert not re.search("a secret (of|plan|walnut)", json.dumps([one["output"] for one in outputs]))
    counted = [one["output"]["data"]["stdout"] for one in outputs if one["name"] == "bash"]
    assert not re.search(r"[1-9]", counted[1]), "not a byte of the database"
    assert (folder / "USER.md").read_text() == "a secret of Alice's"
    (found,) = make(agent, Call("memory_search", {"query": "secret walnut plan"}), user=user)
    assert len(found["output"]["data"]["results"]) == (2 if user == "alice" else 0)


# ---------------------------------------------------------------- the daily log


def log_of(agent: Runtime, **headers: str) -> list[str]:
    got = get(agent, f"memory/{time.strftime('%Y-%m-%d', time.gmtime())}.md", **headers)
    return [line for line in got.text.splitlines() if line.startswith("- ")] if got.status_code == 200 else []


def test_what_was_done_is_logged_for_whoever_it_was(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace([Say("Four."), Say("Done."), Say("For you.")])
    agent.chat("What is 2 + 2?\nMy password=hunter22 is safe.")
    task = agent.assign(input_data={"objective": "report"})
    agent.result(task)
    agent.chat("Me too", user="alice", session_id="hers")
    lines = eventually(lambda: found if len(found := log_of(agent)) == 2 else None)
    assert "`main` · complete · asked: `What is 2 + 2?\\nMy password=[secret] is safe.` · answered: `Four.`" in lines[0]
    assert f"`{task}` · complete · asked: ````Task of type check" in lines[1]
    (hers,) = eventually(lambda: log_of(agent, **ALICE))
    assert "`hers` · complete · asked: `Me too` · answered: `For you.`" in hers


def test_agents_that_were_called_leave_no_line_and_a_stop_loses_none(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    errand = Call("task", {"subagent_type": "explore", "prompt": "look"})
    provider.script.replace([Say("", calls=(errand,)), Say("found"), Say("over")])
    agent.chat("go")
    agent.sigterm()
    agent.process.wait(20)
    (file,) = (agent.data_dir / "workspace" / "memory").iterdir()
    (line,) = [line for line in file.read_text().splitlines() if line.startswith("- ")]
    assert "asked: `go` · answered: `over`" in line


def test_a_log_that_nobody_wants_is_not_written(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_DAILY_LOG_DAYS=0)
    agent.chat("hi")
    agent.sigterm()
    agent.process.wait(20)
    assert list((agent.data_dir / "workspace").iterdir()) == []


def test_a_fresh_home_is_empty_and_says_what_may_be_there(start: Start) -> None:
    listing = start().get("/workspace").json()
    assert listing["entries"] == []
    assert [one["name"] for one in listing["bootstrap"]] == ["AGENTS.md", "SOUL.md", "USER.md", "MEMORY.md"]
