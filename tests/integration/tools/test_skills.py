"""Skills in real workers on good days."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from .school import SEED, School

# ---------------------------------------------------------------- good days


async def test_a_plugin_without_an_import_runs(school: School) -> None:
    host = await school.teach(seed=SEED)
    assert await school.value("your_tool", param1="x") == {"result": "value"}
    (tool,) = host.tools()
    assert (tool.spec.name, tool.spec.source) == ("your_tool", "custom")
    assert tool.spec.description == "What this does and when to use it"
    (state,) = host.states()
    assert (state.name, state.file, state.state, state.version) == ("your_tool", "seed.py", "active", 1)
    result = await school.call("your_tool", param=1)
    assert result.error_text == "param: no such field; there are: param1; param1: is required"


async def test_skills_share_the_workspace_with_the_tools(school: School) -> None:
    code = """
@skill(name="count", description="Counts lines.", parameters={"file": {"type": "string"}})
def count(file, *, workspace):
    (workspace / "made").write_text("by a skill")
    return (workspace / file).read_text().count("\\n")
"""
    await school.teach(count=code)
    await school.house.call("write", path="f", content="1\n2\n")
    assert await school.value("count", file="f") == 2
    assert await school.house.bash("echo , too >> made; cat made") == "by a skill, too\n"


async def test_helpers_packages_and_hidden_files(school: School) -> None:
    skills = school.house.home.skills
    (skills / "pack").mkdir()
    (skills / "pack" / "part.py").write_text("def answer(): return 42\n")
    (skills / "pack" / "__init__.py").write_text(
        "from .part import answer\n@skill(name='packed', description='d')\ndef packed(): return answer()\n"
    )
    (skills / "folder").mkdir()
    using = "import _shared\n@skill(name='shared', description='d')\ndef shared(): return _shared.VALUE\n"
    (skills / ".hidden.py").write_text("1 / 0")
    host = await school.teach(_shared="VALUE = 'of a helper'\n", using=using)
    assert await school.value("packed") == 42
    assert await school.value("shared") == "of a helper"
    assert [state.file for state in host.states()] == ["pack", "using.py"]


async def test_no_folder_is_no_skills(school: School) -> None:
    school.house.home.skills.rmdir()
    host = await school.open(school.house.confinement)
    assert (host.tools(), host.states()) == ((), ())


OPENAI = """
import asyncio
import openai

ASK = [{"role": "user", "content": "hi"}]

@skill(name="many", description="d")
async def many(*, mesh_client):
    client = mesh_client.openai()
    answers = await asyncio.gather(*(client.chat.completions.create(model="default", messages=ASK) for _ in range(3)))
    return [answer.choices[0].message.content for answer in answers]

@skill(name="plain", description="d")
def plain(*, mesh_client):
    return mesh_client.openai().chat.completions.create(model="default", messages=ASK).choices[0].message.content

@skill(name="refused", description="d")
async def refused(*, mesh_client):
    client = mesh_client.openai()
    errors = []
    for make in (
        lambda: client.chat.completions.create(model="default", messages=[{"role": "user", "content": "too much"}]),
        lambda: client.embeddings.create(model="default", input="x"),
    ):
        try:
            await make()
        except openai.APIStatusError as error:
            errors.append([type(error).__name__, error.status_code, error.body["message"]])
    return errors
"""


async def test_a_skill_has_a_client_of_the_package_openai(school: School) -> None:
    await school.teach(load_seconds=60, openai_skills=OPENAI)
    assert await school.value("many") == ["hello"] * 3
    assert await school.value("plain") == "hello"
    assert school.mesh.asked[0] == (
        "chat/completions",
        {"model": "default", "messages": [{"role": "user", "content": "hi"}]},
    )
    assert await school.value("refused") == [
        ["RateLimitError", 429, "slow down"],
        ["InternalServerError", 503, "no embeddings here"],
    ]


MESH = """
import asyncio
@skill(name="many", description="d")
async def many(*, mesh_client):
    asked = [mesh_client.chat([{"role": "user", "content": str(n)}], temperature=0) for n in range(20)]
    return len(await asyncio.gather(*asked))

@skill(name="plain", description="d")
def plain(*, mesh_client):
    return mesh_client.chat([1, 2])["content"]

@skill(name="embed", description="d")
async def embed(*, mesh_client):
    try:
        return await mesh_client.embed(["x"])
    except Exception as error:
        return [type(error).__name__, str(error)]

@skill(name="broken", description="d")
async def broken(*, mesh_client):
    return await mesh_client.chat([], model="broken")

@skill(name="raw", description="d")
def raw(*, mesh_client):
    return mesh_client._asking.ask("models", {}).result()

@skill(name="no_arguments", description="d")
def no_arguments(*, mesh_client):
    return mesh_client._asking.ask("chat", {"nothing": 1}).result()

@skill(name="walk_away", description="d")
async def walk_away(*, mesh_client):
    asyncio.get_running_loop()
    mesh_client._asking.ask("chat", {"messages": []})
    return "gone"
"""


async def test_the_mesh_is_reached_through_the_server_and_not_too_often_at_once(school: School) -> None:
    await school.teach(mesh=MESH)
    assert await school.value("many") == 20
    assert len(school.mesh.asked) == 20
    assert school.mesh.asked[0] == ([{"role": "user", "content": "0"}], {"temperature": 0})
    assert school.mesh.most_at_once <= 8
    assert await school.value("plain") == "2 messages"
    assert await school.value("embed") == ["MeshUnavailable", "no embeddings here"]
    for name, told in [
        ("broken", "the mesh call failed (ZeroDivisionError)"),
        ("raw", "this host does not offer models; there are: chat, embed, openai"),
        ("no_arguments", "chat: missing a required argument: 'messages'"),
    ]:
        result = await school.call(name)
        assert (result.error_text, result.metadata["kind"]) == (told, "unavailable")
    assert await school.value("walk_away") == "gone"
    assert await school.value("plain") == "2 messages", "an answer that nobody waits for confuses no one"


FLOODING = """
@skill(name="flood", description="d")
def flood(what: str, arguments: dict | list | str | None, times: int, *, mesh_client):
    asking, told = mesh_client._asking, set()
    for number in range(-times, 0):
        asking._pending[number] = future = __import__("concurrent.futures").futures.Future()
        asking._send({"type": "ask", "id": number, "what": what, "arguments": arguments})
        try:
            future.result()
        except Exception as error:
            told.add(str(error))
    return sorted(told)
"""


async def test_asks_that_are_none_are_answered_and_fill_no_log(
    school: School, caplog: pytest.LogCaptureFixture
) -> None:
    await school.teach(flooding=FLOODING)

    async def told(what: str, arguments: Any, times: int = 3) -> list[str]:
        return await school.value("flood", what=what, arguments=arguments, times=times)

    for what in ("chat", "embed", "openai", "get"):
        for arguments in ([], [["a", 1]], "text", None):
            assert await told(what, arguments) == [f"{what}: the arguments must be an object"]
    assert await told("chat", {}) == ["chat: missing a required argument: 'messages'"]
    assert await told("chat", {"self": 1, "messages": []}) == []
    assert await told("embed", {"texts": [], "size": 1}) == ["embed: got an unexpected keyword argument 'size'"]
    assert await told("openai", {"path": "x"}) == ["openai: missing a required argument: 'body'"]
    [error] = await told("openai", {"A" * 8000: 1})
    assert error.startswith("openai: ")
    assert await told("chat", {"messages": [], "model": "broken"}, 50) == ["the mesh call failed (ZeroDivisionError)"]
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.exc_info and record.exc_info[0] for record in errors] == [ZeroDivisionError]


async def test_the_log_of_a_call_is_what_it_printed(school: School, caplog: pytest.LogCaptureFixture) -> None:
    code = """
import os, sys

print("on import")

@skill(name="speak", description="Prints.", parameters={"word": {"type": "string"}})
def speak(word):
    print(word)
    sys.stderr.write("and to stderr\\n")
    os.write(1, b"and past Python\\n")
    if word == "fail": raise KeyError(word)
    if word == "die": os._exit(3)
    return word

@skill(name="silent", description="Prints nothing.")
def silent(): return 1
"""
    await school.teach(speak=code)
    for word in ("one", "two"):
        result = await school.call("speak", word=word)
        assert result.data == word
        assert sorted(result.metadata["log"].splitlines()) == ["and past Python", "and to stderr", word]
    assert "log" not in (await school.call("silent")).metadata
    with caplog.at_level(logging.INFO):
        failed = (await school.call("speak", word="fail")).error_text or ""
        died = (await school.call("speak", word="die")).error_text or ""
    assert "KeyError: 'fail'\nIt printed:\nfail" in failed
    assert "(exit code 3): die" in died
    told = [record.__dict__["facts"] for record in caplog.records if record.message == "skill failed"]
    assert [(one["skill"], one["error"]) for one in told] == [("speak", failed), ("speak", died)]


async def test_what_a_skill_printed_before_its_deadline_is_logged(
    school: School, caplog: pytest.LogCaptureFixture
) -> None:
    code = """
import time

@skill(name="count", description="Counts.", timeout=1)
def count():
    print("one")
    time.sleep(60)
"""
    await school.teach(count=code)
    with caplog.at_level(logging.WARNING):
        assert "did not finish" in ((await school.call("count")).error_text or "")
    [told] = [record.__dict__["facts"] for record in caplog.records if record.message == "skill stopped"]
    assert (told["skill"], told["text"]) == ("count", "one")
