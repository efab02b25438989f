"""Input that costs far more than its bytes: a guest with 512 MiB survives all of it, and answers others meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_runtime.testing import Call, Say, ScriptedProvider

from .guest import SmallGuest

MIB = 2**20
PROMPT_MS = 1000
"""Longest wait for `/status` while an attack runs; the machine that tests run on is busy."""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGuest]:
    with ScriptedProvider() as provider, SmallGuest(provider, tmp_path_factory.mktemp("guest")) as guest:
        yield guest


def test_files_of_short_lines_are_read_within_bounds(guest: SmallGuest) -> None:
    for number in range(8):
        (guest.data_dir / "workspace" / f"lines-{number}").write_bytes(b"a\n" * (5 * MIB))
    reads = tuple(Call("read", {"path": f"lines-{number}", "offset": 4_000_000, "limit": 3}) for number in range(8))
    guest.provider.script.replace([Say(calls=reads), Say("done")])
    before = guest.peak_mib
    with guest.watched(PROMPT_MS):
        answer = guest.chat("read them").json()
    outputs = [one["output"]["data"] for one in answer["tool_outputs"]]
    assert [one["content"] for one in outputs] == ["a\na\na\n"] * 8
    assert guest.peak_mib - before < 40


def test_large_files_are_edited_a_few_at_a_time(guest: SmallGuest) -> None:
    for number in range(8):
        (guest.data_dir / "workspace" / f"large-{number}").write_bytes(b"x" * (9 * MIB) + b"end")
    edits = tuple(
        Call("edit", {"path": f"large-{number}", "old_string": "end", "new_string": "e"}) for number in range(8)
    )
    guest.provider.script.replace([Say(calls=edits), Say("done")])
    before = guest.peak_mib
    with guest.watched(PROMPT_MS):
        answer = guest.chat("edit them").json()
    assert {one["output"]["type"] for one in answer["tool_outputs"]} == {"output"}, answer["tool_outputs"]
    assert guest.peak_mib - before < 100
