"""learn: what it hands on, and who has it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent_common.protocol import Folders, RequirementSet
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.errors import ToolFailure
from agent_runtime.learnings import NoLearnings
from agent_runtime.ports import Correction, ToolContext
from agent_runtime.sandbox import Confinement
from agent_runtime.tools import ToolRegistry, builtin_tools

from .doubles import finished


@dataclass
class Notes(NoLearnings):
    """Takes what it is told, or refuses it."""

    learnt: list[Correction] = field(default_factory=list[Correction])
    refuses: str = ""

    async def save_correction(self, correction: Correction) -> None:
        if self.refuses:
            raise ToolFailure(self.refuses)
        self.learnt.append(correction)


async def learn(notes: Notes, at: ToolContext, **arguments: Any) -> Any:
    tools = ToolRegistry(builtin_tools(Confinement(None), learnings=notes)).snapshot()
    return finished(await tools.run("learn", arguments, at))


async def test_what_is_learnt_is_handed_on(context: ToolContext) -> None:
    notes = Notes()
    there = replace(context, interactive=True, principal="ada")
    result = await learn(notes, there, correction="use pnpm", instead_of="npm", applies_to="web projects")
    assert result.data["path"] == "learnings/corrections.md"
    assert notes.learnt == [
        Correction("use pnpm", "agent", "ada", "ses_1", instead_of="npm", where="web projects"),
    ]


async def test_where_nobody_is_the_note_says_so(context: ToolContext) -> None:
    notes = Notes()
    await learn(notes, context, correction="use pnpm")
    assert notes.learnt[0].source == "agent (nobody was there)"


async def test_what_could_not_be_written_is_not_learnt(context: ToolContext) -> None:
    result = await learn(Notes(refuses="the disk is full"), context, correction="use pnpm")
    assert (result.type, result.error_text) == ("error", "the disk is full")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, "correction: is required"),
        ({"correction": ""}, "correction: minLength is 1"),
        ({"correction": " \n"}, "correction: is empty; say what to do from now on"),
        ({"correction": "x" * 501}, "correction: maxLength is 500"),
        ({"correction": "x", "why": "y"}, "why: no such field; there are: applies_to, correction, instead_of"),
    ],
)
async def test_what_is_wrong_is_named(context: ToolContext, arguments: Any, fault: str) -> None:
    notes = Notes()
    result = await learn(notes, context, **arguments)
    assert (result.metadata["kind"], result.error_text) == ("invalid", fault)
    assert not notes.learnt


async def test_whoever_may_not_write_there_does_not_learn(context: ToolContext) -> None:
    """Also an agent of one's own that has every tool and may only read."""
    notes = Notes()
    for folder, learns in (("{workspace}", True), ("{workspace}/learnings", True), ("{workspace}/src", False)):
        grant = RequirementSet(fs=Folders(read=["{workspace}"], write=[folder]))
        result = await learn(notes, replace(context, authority=Authority((Layer(grant),))), correction="x")
        assert (result.type == "output") is learns, result.error_text
    assert len(notes.learnt) == 2


def test_without_a_place_for_notes_there_is_no_such_tool() -> None:
    assert "learn" not in {tool.spec.name for tool in builtin_tools(Confinement(None))}
