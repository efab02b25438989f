"""Commands, files and plugins that make the server hold far more than they are worth: a guest with 512 MiB survives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.live import eventually, fresh
from tests.e2e.recovery.test_bad_disk import small_disk

from .guest import SmallGuest

PATIENCE = 90.0
"""Seconds for the calls of one step; their processes use the same processors as the server and other tests."""
MOST_MIB = 350
AT_ONCE = 4


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGuest]:
    with (
        ScriptedProvider() as provider,
        SmallGuest(provider, tmp_path_factory.mktemp("guest"), AGENT_TOOL_TIMEOUT=20) as guest,
    ):
        yield guest


def results(guest: SmallGuest, *calls: Call) -> list[Any]:
    """Make all calls in one step. Return what they answer, and assert that the guest keeps within its memory."""
    guest.provider.script.replace([Say(calls=calls), Say("over")])
    task = guest.assign()
    eventually(lambda: guest.record(task)["status"] not in ("queued", "running"), PATIENCE)
    assert guest.result(task)["status"] == "complete"
    assert guest.peak_mib < MOST_MIB
    answers = [one["content"] for one in guest.provider.completions[-1].messages if one["role"] == "tool"]
    assert len(answers) == len(calls)
    return answers


SHELL = {
    "output without end": "timeout 1 yes",
    "output without lines": "timeout 1 cat /dev/zero",
    "one long line": "head -c 40M /dev/zero | tr '\\0' x",
    "signs that grow when they are written as JSON": "head -c 30M /dev/zero | tr '\\0' '\\1'",
    "names of a huge folder": "mkdir -p many && cd many && seq 1 9000 | xargs touch && cd .. && find . && rm -rf many",
    "a long script": "true " + "x" * 100_000,
    "a script that is hard to read": "env " * 25_000,
}


@pytest.mark.parametrize("command", SHELL.values(), ids=SHELL)
def test_commands(guest: SmallGuest, command: str) -> None:
    answers = results(guest, *(Call("bash", {"command": command}) for _ in range(AT_ONCE)))
    assert all(one.startswith('{"type":"output"') and len(one) < 1_500_000 for one in answers)


def test_files(guest: SmallGuest) -> None:
    workspace = guest.data_dir / "workspace"
    (workspace / "names").mkdir()
    for number in range(6000):
        (workspace / "names" / (f"{number}-" + "n" * 200)).touch()
    (workspace / "line").write_bytes(b"x" * (40 * 2**20))
    (workspace / "lines").write_bytes(b"x\n" * (5 * 2**20))
    deep = workspace
    for _ in range(400):
        deep /= "d"
        deep.mkdir()
    searches = (
        Call("glob", {"pattern": "**"}),
        Call("glob", {"pattern": "**/d/**/d/**/d/**/x"}),
        Call("grep", {"pattern": "x"}),
        Call("grep", {"pattern": "x", "path": "line"}),
        Call("read", {"path": "line", "unit": "bytes"}),
        Call("read", {"path": "lines", "offset": 5_000_000}),
        Call("write", {"path": "new", "content": "y" * (6 * 2**20)}),
    )
    answers = results(guest, *searches)
    assert all(len(one) < 700_000 for one in answers)
    guest.still_works()


SKILLS = {
    "a result without end": "return 'x' * 100_000_000",
    "a result of very many values": "return [[]] * 3_000_000",
    "an error without end": "raise ValueError('x' * 50_000_000)",
    "output without end": "for _ in range(500): print('x' * 100_000)",
    "memory without end": "a = []\n    while True: a.append(bytearray(10_000_000))",
}


@pytest.mark.parametrize("body", SKILLS.values(), ids=SKILLS)
def test_plugins(guest: SmallGuest, body: str) -> None:
    name = fresh("skill").replace("-", "_")
    code = f'from agent_runtime.skills import skill\n\n\n@skill\ndef {name}():\n    """Attack."""\n    {body}\n'
    guest.provider.script.replace([Call("create_skill", {"name": name, "code": code}), Say("over")])
    assert guest.run()["status"] == "complete"
    answers = results(guest, *(Call(name, {}) for _ in range(2)))
    assert not any("there is no tool" in one for one in answers)
    assert all(len(one) < 450_000 for one in answers)
    guest.still_works()


SKILL = "@skill\ndef s{number}(): '{text}'\n"
DECLARATIONS = {
    "a long description": SKILL.format(number=1, text="x" * 90_000),
    "very many skills": "".join(SKILL.format(number=number, text="x") for number in range(2500)),
    "nested code": "x = " + "(" * 5000 + ")" * 5000 + "\n",
}


@pytest.mark.parametrize("body", DECLARATIONS.values(), ids=DECLARATIONS)
def test_declarations_of_plugins(guest: SmallGuest, body: str) -> None:
    code = f"from agent_runtime.skills import skill\n\n\n{body}"
    [answer] = results(guest, Call("create_skill", {"name": "declared", "code": code}))
    assert len(answer) < 450_000
    guest.still_works()


def test_a_small_disk_that_is_filled(tmp_path: Path) -> None:
    with (
        ScriptedProvider() as provider,
        small_disk(tmp_path / "disk", 64, files=20_000) as disk,
        SmallGuest(provider, disk / "data") as guest,
    ):
        fill = Call("bash", {"command": "head -c 200M /dev/zero > big; seq 60000 | xargs -n 500 touch"})
        results(guest, *(fill for _ in range(3)))
        [answer] = results(guest, Call("bash", {"command": "find . -type f -delete; ls | wc -l"}))
        assert '"stdout":"0\\n"' in answer
        guest.still_works()
