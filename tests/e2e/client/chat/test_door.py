"""`agent chat` through the door of a host, which is killed in the middle of a reply."""

# ruff: noqa: RUF001  the mark of the input

from __future__ import annotations

from pathlib import Path

import pytest

from agent_testing import Hang, Say, ScriptedProvider
from tests.integration.host.live import Host, catalog
from tests.ports import free_port

from .conftest import Open


@pytest.mark.slow
def test_a_host_that_is_killed_is_seen_and_the_chat_continues(tmp_path: Path, open_chat: Open) -> None:
    with (
        ScriptedProvider([Say("First.")]) as provider,
        Host(
            tmp_path / "data", MESH_PORT=free_port(), MESH_MODELS=catalog(tmp_path, provider), UPSTREAM_KEY="sk-1"
        ) as host,
    ):
        host.mesh.workspaces.create("ada")
        assert host.mesh.workspaces.start("ada").state == "running"
        terminal = open_chat(host, "-w", "ada")
        terminal.see(f"● ada  assistant  {host.url}  version")
        terminal.say("one")
        terminal.see("● First.", "% context")
        provider.script.replace([Hang(after=2, reply=Say("Second reply is cut off."))])
        terminal.say("two")
        terminal.see("● Second reply")

        host.process.kill9()  # with which its agent ends
        terminal.see("connection lost", "The agent does not answer", "is its host down? `agent up`")
        terminal.say("three, while it is away")
        terminal.see("joins at the next step: three, while it is away")
        provider.release()
        provider.script.replace([Say("Third.")])
        host.start()

        terminal.see("● Third.", "Message, / for commands")
        screen = terminal.gone("connection lost")
        assert screen.count("✗ ") == 1, "the turn that was cut off says so"
        assert screen.count("❯ three, while it is away") == 1
        assert screen.count("Second reply") == 1
        [session] = host.mesh.agent("ada").sessions.list()
        said = [one for one in host.mesh.agent("ada").sessions.messages(session.id) if one.role == "user"]
        assert len(said) == 3, said
        assert str(provider.completions[-1].messages).count("three, while it is away") == 1
