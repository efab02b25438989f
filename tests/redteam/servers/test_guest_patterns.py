"""Text that is written so that reading it takes for ever: the guest answers others meanwhile, and ends when told to."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.live import eventually, fresh

from .guest import SmallGuest

PROMPT_MS = 3000
"""Longest wait for `/status` while an attack runs. What is read without bounds takes 6 s and more."""
SPACED = "# /// script\n# dependencies = ['a{}b']\n# ///\n"
PLUGINS = {
    "blanks in a requirement": SPACED.format(" " * 98_000),
    "lines that could each begin a block": "# /// script\n" * 7_500,
    "a block of deep tables": "# /// script\n# " + "a." * 48_000 + "a = 1\n# ///\n",
    "a block of brackets": "# /// script\n# a = " + "[" * 98_000 + "\n# ///\n",
}
WRITTEN = {
    "blanks as a name": "<|tool_call_begin|>" + " " * 100_000,
    "a name without arguments": "<|channel|>commentary to=" + "a" * 200_000,
    "a parameter without an end": '<invoke name="f"><parameter=' + "a" * 200_000,
    "keys without values": "<tool_call>f<arg_key>" + "</arg_key><arg_value>" * 12_000,
    "ends of reasoning in code": "` " + "</think>" * 20_000,
    "blocks of reasoning without an end": "<think></think>" * 20_000,
}
ARGUMENTS = {"quotes in a string without an end": "{" + '\\"' * 100_000, "quotes": '{"' * 100_000}
PACKAGE = "---\nname: slow\ndescription: Load it.\n---\n<" + "\n" * 45_000 + "end"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGuest]:
    with started(tmp_path_factory.mktemp("guest")) as guest:
        yield guest


@contextmanager
def started(data: Path) -> Generator[SmallGuest]:
    folder = data / "workspace" / ".agents" / "skills" / "slow"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(PACKAGE)
    (data / "workspace" / "page.txt").write_text("x" * 1000)
    with ScriptedProvider() as provider, SmallGuest(provider, data) as guest:
        yield guest


@pytest.mark.parametrize("code", PLUGINS.values(), ids=PLUGINS)
def test_a_skill_that_is_hard_to_read_is_refused_at_once(guest: SmallGuest, code: str) -> None:
    guest.provider.script.replace([Call("create_skill", {"name": "slow", "code": code}), Say("over")])
    with guest.watched(PROMPT_MS):
        [output] = guest.chat("go", session_id=fresh("s")).json()["tool_outputs"]
    assert output["state"] == "output-error", output


def test_a_plugin_that_is_hard_to_read_stays_a_plugin_that_failed(guest: SmallGuest) -> None:
    with guest.watched(PROMPT_MS):
        (guest.data_dir / "skills" / "dropped.py").write_text(SPACED.format(" " * 400_000))
        states = eventually(lambda: guest.get("/capabilities").json()["skills"])
    assert [(one["file"], one["state"]) for one in states] == [("dropped.py", "failed")]


def test_a_package_that_is_hard_to_quote_is_loaded(guest: SmallGuest) -> None:
    guest.provider.script.replace([Call("skill", {"name": "slow"}), Say("over")])
    with guest.watched(PROMPT_MS):
        [output] = guest.chat("go", session_id=fresh("s")).json()["tool_outputs"]
    assert output["output"]["data"]["content"].count("end\n") == 1, output


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_an_answer_that_is_hard_to_read_ends_its_own_turn(guest: SmallGuest, text: str) -> None:
    guest.provider.script.replace(lambda _: Say(text))
    with guest.watched(PROMPT_MS):
        assert guest.chat("go", session_id=fresh("s")).status_code in (200, 502)
    guest.still_works()


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_are_hard_to_mend_are_refused(guest: SmallGuest, arguments: str) -> None:
    guest.provider.script.replace([Call("read", arguments), Say("over")])
    with guest.watched(PROMPT_MS):
        [output] = guest.chat("go", session_id=fresh("s")).json()["tool_outputs"]
    assert output["state"] == "output-error", output


def test_a_range_that_is_hard_to_read_gives_the_whole_file(guest: SmallGuest) -> None:
    with guest.watched(PROMPT_MS):
        reply = guest.http.get("/workspace/page.txt", headers={"Range": "bytes=" + " " * 60_000 + "x"})
    assert (reply.status_code, len(reply.content)) == (200, 1000)


def test_such_a_guest_ends_when_told_to(tmp_path: Path) -> None:
    with started(tmp_path) as guest:
        (guest.data_dir / "skills" / "last.py").write_text(SPACED.format(" " * 400_000))
        guest.sigterm()
        eventually(lambda: guest.process.returncode is not None)
