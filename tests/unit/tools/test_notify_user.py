"""`notify_user`: whom it reaches, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent_common.protocol import MAX_NOTICE
from agent_runtime.errors import ToolFailure
from agent_runtime.ports import HUB_PRINCIPAL, ToolContext, ToolResult
from agent_runtime.sandbox import Confinement
from agent_runtime.tools import ToolRegistry, builtin_tools
from agent_runtime.tools.agent.notify_user import BURST, REFILL_SECONDS, NoticeRates

from .doubles import finished


@dataclass
class Sent:
    """Keeps the events."""

    events: list[tuple[str, str | None, dict[str, Any]]] = field(default_factory=list[Any])

    def emit(self, kind: str, principal: str | None, /, **facts: Any) -> None:
        self.events.append((kind, principal, facts))


async def notify(sent: Sent, context: ToolContext, text: Any) -> ToolResult:
    tools = ToolRegistry(builtin_tools(Confinement(None), events=sent))
    return finished(await tools.snapshot().run("notify_user", {"text": text}, context))


async def test_a_notice_is_an_event_for_the_person_of_the_session(context: ToolContext) -> None:
    sent = Sent()
    result = await notify(sent, replace(context, principal="ann"), " The build is done. ")
    assert result.data == {"notified": True}
    ((kind, person, facts),) = sent.events
    assert (kind, person, facts["user"], facts["text"]) == ("notice", "ann", "ann", "The build is done.")
    assert facts["session_id"] == context.session_id


@pytest.mark.parametrize("text", ["", "   ", None, "x" * (MAX_NOTICE + 1)])
async def test_what_is_wrong_is_named_and_not_sent(context: ToolContext, text: Any) -> None:
    sent = Sent()
    result = await notify(sent, context, text)
    assert (result.metadata["kind"], "text" in (result.error_text or "")) == ("invalid", True)
    assert sent.events == []


async def test_agents_of_the_hub_are_no_persons(context: ToolContext) -> None:
    sent = Sent()
    result = await notify(sent, replace(context, principal=HUB_PRINCIPAL), "hello")
    assert (result.metadata["kind"], sent.events) == ("denied", [])


def test_each_person_has_so_many_at_once_and_then_at_a_pace() -> None:
    now = 0.0
    rates = NoticeRates(lambda: now)
    for _ in range(BURST):
        rates.spend("ann")
    with pytest.raises(ToolFailure, match="in 30 s"):
        rates.spend("ann")
    rates.spend("bob")
    now = REFILL_SECONDS
    rates.spend("ann")
    with pytest.raises(ToolFailure):
        rates.spend("ann")
