"""What the model is warned of: each thing once, and again when it comes back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agent_common.protocol import SkillState
from agent_runtime.loop import Warnings
from agent_runtime.loop.notes.warnings import MAX_FAULT_CHARACTERS, MAX_SESSIONS, MAX_SKILLS
from agent_runtime.ports import Note, NoteContext
from tests.unit.loop.compaction.long_conversations import USABLE, WINDOW, Stage, Talker, is_summary, marked, say

OCCASION = NoteContext("ses_1", "operator", "default", "m", "hello", is_first_message=False, context_tokens=0)


def cautions(skills: Sequence[SkillState] = ()) -> Warnings:
    return Warnings(lambda _: 1000, lambda: skills)


async def told(taker: Warnings, tokens: int = 0, session: str = "ses_1") -> list[Note]:
    return list(await taker.notes(replace(OCCASION, context_tokens=tokens, session_id=session)))


def broken(name: str = "bad", error: str | None = "no", state: str = "failed") -> SkillState:
    return SkillState.model_validate({"name": name, "file": f"{name}.py", "state": state, "error": error})


async def test_a_window_that_fills_up_is_told_of_once_for_each_time_it_does() -> None:
    taker = cautions()
    found = [len(await told(taker, tokens)) for tokens in (0, 799, 800, 900, 999, 300, 850, 860, 0, 999, 1000, 2000)]
    assert found == [0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0]
    [note] = await told(taker, 834)
    assert note == Note(
        "warning", "the window is 83 % full; when it is full, all but the latest messages are summarized"
    )
    assert await told(taker, 834, "ses_2"), "each session has a window of its own"


async def test_skills_that_do_not_load_are_told_of_once_as_data() -> None:
    skills = [broken(), broken("fine", None, "active"), broken("rests", "crashed", "disabled")]
    taker = cautions(skills)
    assert await told(taker) == [Note("warning", "failed to load: no", "skill bad.py")]
    assert not await told(taker)
    assert await told(taker, session="ses_2")
    skills[0] = broken(error="still no")
    assert await told(taker) == [Note("warning", "failed to load: still no", "skill bad.py")]
    skills[0] = broken(error=None, state="active")
    assert not await told(taker)
    skills[0] = broken(error="still no")
    assert await told(taker)


async def test_a_file_with_several_skills_is_told_of_once() -> None:
    two = [SkillState(name=name, file="two.py", state="active", error="bad; version 1 stays") for name in ("a", "b")]
    assert len(await told(cautions(two))) == 1


async def test_there_is_a_bound_to_all_of_it() -> None:
    taker = cautions([broken(f"bad{number}", "x" * 10_000) for number in range(50)])
    notes = await told(taker)
    assert len(notes) == MAX_SKILLS
    assert all(len(note.text) < MAX_FAULT_CHARACTERS + 40 for note in notes)
    for number in range(MAX_SESSIONS + 10):
        await told(taker, session=f"ses_{number + 2}")
    assert len(await told(taker)) == MAX_SKILLS, "it was forgotten what that session was told"


async def test_a_warning_stands_in_a_message_and_changes_nothing_before_it(tmp_path: Path) -> None:
    stage = Stage(model := Talker())
    async with stage.open(tmp_path, note_takers=[taker := Relay()]) as world:
        taker.to = Warnings(world.compactions.models.windows.usable, lambda: ())
        turns = [await say(stage, 60) for _ in range(40)]
        marks = await marked(world, turns[0].session.id)
        requests = [sent for _, sent in model.requests if not is_summary(sent)]
        warned = [at for at, sent in enumerate(requests) if b"warning: the window is 8" in sent[-1]]
        assert len(marks) >= 2
        assert len(warned) in (len(marks), len(marks) + 1), "once before each compaction"
        for at in warned:
            assert requests[at][: len(requests[at - 1])] == requests[at - 1]
            assert sum(map(len, requests[at])) // 4 < USABLE < WINDOW
        for sent in requests:
            assert json.loads(sent[0]) == json.loads(requests[0][0])
        [*_, last] = turns
        disk = await stage.on_disk(last.session)
        assert list(disk.messages)[1 : len(requests[-1])] == requests[-1][1:]


class Relay:
    """Fills ports.NoteTaker with one that comes later."""

    to: Warnings

    async def notes(self, context: NoteContext) -> Sequence[Note]:
        return await self.to.notes(context)
