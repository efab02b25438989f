"""The card that an agent posts of itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from agent_runtime.runtime.peer_card import card_reader


async def test_a_skill_is_described_as_the_model_sees_it() -> None:
    spec = SimpleNamespace(name="word_count", description="Count the words.")
    skills = [SimpleNamespace(name=name, state=state) for name, state in (("word_count", "active"), ("bad", "failed"))]
    settings: Any = SimpleNamespace(id="ada", role="")
    agents: Any = SimpleNamespace(callable_agents=list)
    library: Any = SimpleNamespace(catalog=lambda: SimpleNamespace(packages=()))
    tools: Any = SimpleNamespace(skills=lambda: skills, all_specs=lambda: [spec])
    card = await card_reader(settings, agents, library, tools)()
    assert [(one.name, one.description) for one in card.skills] == [("word_count", "Count the words.")]
