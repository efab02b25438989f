"""Live agents of which one has asked another: an abort reaches all who work for it, the end of a process does not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from agent_testing import Call, Hang, Say, ScriptedProvider
from tests.integration.host.live import Host
from tests.integration.host.members import make_token
from tests.integration.host.reporting import made

from ..live import Runtime, eventually, fresh, in_background

pytestmark = pytest.mark.slow

World = tuple[Host, Runtime, Runtime, Runtime]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A host, and ann, bob and cat, each with a model of its own."""
    folder = tmp_path_factory.mktemp("team")
    with ExitStack() as stack:
        host = stack.enter_context(Host(folder / "mesh"))
        runtimes: list[Runtime] = []
        for name in ("ann", "bob", "cat"):
            (folder / name).mkdir()
            workspace = made(host, name)
            (folder / name / "key").write_text(workspace["mediation_key"])
            where = {
                "AGENT_ID": name,
                "AGENT_MESH_URL": host.url,
                "AGENT_MESH_TOKEN": make_token(host, name),
                "AGENT_MEDIATION_URL": workspace["mediation_url"],
                "AGENT_MEDIATION_KEY_FILE": folder / name / "key",
                "AGENT_DRAIN_GRACE": 0,
            }
            provider = stack.enter_context(ScriptedProvider())
            runtimes.append(stack.enter_context(Runtime(provider, folder / name / "data", **where)))
        eventually(lambda: len(host.operator.get("/agents").json()["agents"]) == len(runtimes))
        ann, bob, cat = runtimes
        yield host, ann, bob, cat


def asks(agent: str) -> list[Call | Say]:
    return [Call("ask_agent", {"agent": agent, "message": "How many beds?"}), Say("done")]


def works(host: Host) -> dict[str, tuple[str, str]]:
    """The newest work of each agent: its status, and the error of the agent's own result."""
    newest = reversed(host.operator.get("/work").json()["work"])
    return {one["workspace"]: (one["status"], (one["result"] or {}).get("error") or "") for one in newest}


def test_an_aborted_turn_cancels_what_it_has_asked_and_what_that_has_asked(world: World) -> None:
    host, ann, bob, cat = world
    ann.provider.script.replace(asks("bob"))
    bob.provider.script.replace(asks("cat"))
    cat.provider.script.replace([Hang()])
    session = fresh("s")
    thread, _ = in_background(lambda: ann.chat("go", session_id=session))
    cat.provider.wait_for(1)
    began = time.monotonic()
    assert ann.post(f"/chat/{session}/abort", {}).json()["aborted"]
    assert time.monotonic() - began < 5, "the peers do not hold it up"
    thread.join()
    ended = ("cancelled", "cancelled: the turn was cancelled")
    eventually(lambda: works(host) == {"bob": ended, "cat": ended}, 20)
    assert cat.status()["state"] == "idle", "its model call has ended, long before the model answers"
    assert len(cat.provider.completions) == 1


@pytest.mark.parametrize("way", ["crash", "stop"])
def test_a_runtime_that_starts_again_gets_the_answer_once(world: World, way: str) -> None:
    host, ann, bob, _ = world
    ann.provider.clear()
    bob.provider.clear()
    ann.provider.script.replace(asks("bob"))
    bob.provider.script.replace([Hang(reply=Say("three"))])
    task = ann.assign()
    bob.provider.wait_for(1)
    if way == "crash":
        ann.process.kill9()
    else:
        assert ann.process.terminate(60) == 0
    ann.start()
    eventually(lambda: ann.record(task)["status"] == "running")
    assert works(host)["bob"] == ("accepted", ""), "nothing has cancelled it"
    bob.provider.release()
    assert ann.result(task)["result"] == {"text": "done"}
    assert works(host)["bob"] == ("resulted", "")
    assert len(bob.provider.completions) == 1
    assert str(ann.provider.completions[-1].messages).count("three") == 1
