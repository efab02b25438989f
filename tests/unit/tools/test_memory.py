"""The tools of memory: what they hand on, what they show, and who has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import Folders, RequirementSet, Rule
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.errors import ToolFailure
from agent_runtime.loop.notes.memory import MemoryNotes, NullMemory
from agent_runtime.memory import MemoryAnswer, NoMemory, SavedFact
from agent_runtime.ports import MemoryHit, Note, NoteContext, ToolContext, ToolResult
from agent_runtime.sandbox import Confinement
from agent_runtime.tools import RESERVED_TOOL_NAMES, ToolRegistry, builtin_tools

from .doubles import finished

WHEN = 1_790_000_000_000
FOUND = (
    MemoryHit("Ada likes tea.", "fact", WHEN, id="mem_1", author="agent", tags=("tea",)),
    MemoryHit("Tea: milk first.", "file private/tea.md", WHEN),
    MemoryHit("Tea is ready.", "session ses_2", WHEN, author="assistant"),
)


@dataclass
class Kept(NoMemory):
    """Answers what it is told to, and notes who asked."""

    found: Sequence[MemoryHit] = FOUND
    missing: Sequence[str] = ()
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def save(
        self, text: str, *, principal: str, session_id: str, origin: str = "agent", tags: Sequence[str] = ()
    ) -> SavedFact:
        self.asked.append({"text": text, "who": principal, "session": session_id, "origin": origin, "tags": list(tags)})
        return SavedFact("mem_1", text.replace("sesame", "[secret]"), known=False)

    async def search(
        self,
        query: str,
        *,
        principal: str,
        session_id: str = "",
        limit: int = 5,
        can_read: Callable[[str], bool] | None = None,
    ) -> MemoryAnswer:
        self.asked.append({"query": query, "who": principal, "session": session_id, "most": limit})
        assert can_read is not None
        told = [one for one in self.found if one.source != "file private/tea.md" or can_read("private/tea.md")]
        return MemoryAnswer(told, self.missing)

    async def forget(self, name: str, *, principal: str) -> str:
        self.asked.append({"id": name, "who": principal})
        if name != "mem_1":
            raise ToolFailure("id: there is no fact", kind="invalid")
        return "Ada likes tea."


async def run(memory: Kept, name: str, at: ToolContext, **arguments: Any) -> ToolResult:
    tools = ToolRegistry(builtin_tools(Confinement(None), memory=memory)).snapshot()
    return finished(await tools.run(name, arguments, at))


async def test_what_is_saved_is_handed_on_with_who_saves_it(context: ToolContext) -> None:
    memory = Kept()
    there = replace(context, interactive=True, principal="ada")
    result = await run(memory, "memory_save", there, text="Ada likes tea.", tags=["tea"])
    assert result.data == {"id": "mem_1", "known": False}
    await run(memory, "memory_save", context, text="Ada likes tea.")
    common = {"text": "Ada likes tea.", "session": "ses_1"}
    assert memory.asked == [
        {**common, "who": "ada", "origin": "agent", "tags": ["tea"]},
        {**common, "who": "operator", "origin": "agent (nobody was there)", "tags": []},
    ]
    changed = await run(memory, "memory_save", there, text="The word is sesame.")
    assert changed.data["text"] == "The word is [secret]."


async def test_what_is_found_is_shown_with_its_source(context: ToolContext) -> None:
    memory = Kept()
    result = await run(memory, "memory_search", replace(context, principal="ada"), query="tea", limit=7)
    assert memory.asked == [{"query": "tea", "who": "ada", "session": "ses_1", "most": 7}]
    assert result.data == {
        "results": [
            {
                "text": "Ada likes tea.",
                "source": "fact",
                "when": "2026-09-21",
                "id": "mem_1",
                "by": "agent",
                "tags": ["tea"],
            },
            {"text": "Tea: milk first.", "source": "file private/tea.md", "when": "2026-09-21"},
            {"text": "Tea is ready.", "source": "session ses_2", "when": "2026-09-21", "by": "assistant"},
        ]
    }
    assert "nothing fits" in (await run(Kept(found=()), "memory_search", context, query="tea")).data["note"]
    partial = await run(Kept(missing=["ask again"]), "memory_search", context, query="tea")
    assert partial.data["note"] == "ask again"


async def test_files_that_the_agent_may_not_read_are_not_told(context: ToolContext) -> None:
    (context.workspace / "private").mkdir()
    granted = RequirementSet(fs=Folders(read=["{workspace}/src"]), capabilities=["memory.*"])
    everything = Rule(permission="*", action="allow")
    kept = Rule(permission="fs.read", pattern="private/*", action="deny")
    layers = {
        "rule": Layer(rules=(everything, kept)),
        "grant": Layer(granted, rules=(everything,)),
        "asks": Layer(rules=(everything, replace_action(kept, "ask"))),
    }
    for name, layer in layers.items():
        result = await run(Kept(), "memory_search", replace(context, authority=Authority((layer,))), query="tea")
        assert [one["source"] for one in result.data["results"]] == ["fact", "session ses_2"], name


def replace_action(rule: Rule, action: Any) -> Rule:
    return rule.model_copy(update={"action": action})


async def test_a_path_that_leads_elsewhere_by_now_is_not_told(context: ToolContext, tmp_path: Path) -> None:
    (context.workspace / "private").symlink_to(tmp_path)
    result = await run(Kept(), "memory_search", context, query="tea")
    assert [one["source"] for one in result.data["results"]] == ["fact", "session ses_2"]


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("memory_save", {}, "text: is required"),
        ("memory_save", {"text": ""}, "text: minLength is 1"),
        ("memory_save", {"text": "x" * 2001}, "text: maxLength is 2000"),
        ("memory_save", {"text": "x", "tags": ["y"] * 9}, "tags: maxItems is 8"),
        ("memory_save", {"text": "x", "tags": ["y" * 41]}, "tags[0]: maxLength is 40"),
        ("memory_save", {"text": "x", "user": "bob"}, "user: no such field; there are: tags, text"),
        ("memory_search", {"query": "x", "limit": 0}, "limit: minimum is 1"),
        ("memory_search", {"query": "x", "limit": 21}, "limit: maximum is 20"),
        ("memory_search", {"query": "x", "principal": "bob"}, "principal: no such field; there are: limit, query"),
        ("memory_forget", {"id": ""}, "id: minLength is 1"),
        ("memory_forget", {"id": "mem_2"}, "id: there is no fact"),
    ],
)
async def test_what_is_wrong_is_named(context: ToolContext, name: str, arguments: Any, fault: str) -> None:
    result = await run(Kept(), name, context, **arguments)
    assert (result.metadata["kind"], result.error_text) == ("invalid", fault)


async def test_whoever_has_no_grant_remembers_nothing(context: ToolContext) -> None:
    for capabilities, works in (
        ([], ()),
        (["memory.read"], ("memory_search",)),
        (["*"], ("memory_search", "memory_save")),
    ):
        layer = Layer(RequirementSet(fs=Folders(read=["{workspace}"]), capabilities=capabilities))
        at = replace(context, authority=Authority((layer,)))
        for name, arguments in {"memory_search": {"query": "tea"}, "memory_save": {"text": "tea"}}.items():
            assert ((await run(Kept(), name, at, **arguments)).type == "output") is (name in works)


def test_the_names_are_the_products() -> None:
    names = {"memory_forget", "memory_save", "memory_search"}
    assert names <= RESERVED_TOOL_NAMES
    tools = {tool.spec.name: tool.spec for tool in builtin_tools(Confinement(None), memory=NoMemory())}
    assert names <= tools.keys()
    assert [name for name in sorted(names) if tools[name].read_only] == ["memory_search"]
    assert [name for name in sorted(names) if tools[name].idempotent] == ["memory_save", "memory_search"]
    assert not names & {tool.spec.name for tool in builtin_tools(Confinement(None))}


@pytest.mark.parametrize(
    ("written_at", "shown"),
    [(10**15, "9999-12-31"), (10**30, "9999-12-31"), (-(10**15), "1970-01-01"), (-1, "1970-01-01")],
)
async def test_a_time_that_no_calendar_has_is_the_nearest(context: ToolContext, written_at: int, shown: str) -> None:
    found = (MemoryHit("Tea: milk first.", "file tea.md", written_at), FOUND[0])
    result = await run(Kept(found), "memory_search", context, query="tea")
    assert [one["when"] for one in result.data["results"]] == [shown, "2026-09-21"]
    assert [one.source for one in await recalled(found)] == [f"file tea.md, {shown}", "fact, 2026-09-21"]


async def recalled(found: Sequence[MemoryHit]) -> Sequence[Note]:
    """The notes of a session's first message."""

    class Recalling(NullMemory):
        async def recall(self, query: str, *, principal: str, session_id: str, limit: int) -> Sequence[MemoryHit]:
            return found

    return await MemoryNotes(Recalling()).notes(NoteContext("ses_1", "ada", "a", "m", "tea", True, 0))
