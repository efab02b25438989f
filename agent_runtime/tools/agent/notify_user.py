"""`notify_user`: a short message to the person, while the turn goes on."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from agent_common.protocol import MAX_NOTICE, NOTICE_EVENT

from ...errors import ToolFailure
from ...ports import HUB_PRINCIPAL, Events, ToolContext, ToolSpec
from ..core.contract import Tool

DESCRIPTION = (
    "Send the person a short message now, without ending your turn and without waiting: it is shown where the person "
    "is reached, such as a chat. For what matters before the turn ends, or where nobody reads its answer. It is plain "
    "text. To ask something, use question."
)
PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": MAX_NOTICE, "description": "What the person is to know"}
    },
    "required": ["text"],
    "additionalProperties": False,
}
BURST = 5
REFILL_SECONDS = 30.0
_MOST_PEOPLE = 10_000


class NoticeRates:
    """How many notices each person may still get: a bucket that fills again evenly."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._empty_until: OrderedDict[str, float] = OrderedDict()
        """By person, the one with the latest notice last: when the bucket would be full again."""

    def spend(self, person: str) -> None:
        """Count a notice. Raises ToolFailure if there were too many."""
        now = self._now()
        until = max(now, self._empty_until.get(person, now)) + REFILL_SECONDS
        if until - now > BURST * REFILL_SECONDS:
            seconds = round(until - now - BURST * REFILL_SECONDS) or 1
            text = f"the person has had {BURST} messages in a short time; say it in your answer, or in {seconds} s"
            raise ToolFailure(text, kind="unavailable")
        self._empty_until[person] = until
        self._empty_until.move_to_end(person)
        if len(self._empty_until) > _MOST_PEOPLE:
            self._empty_until.popitem(last=False)


def notify_user_tool(events: Events) -> Tool:
    rates = NoticeRates()

    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        text = arguments["text"].strip()
        if not text:
            raise ToolFailure("text: must have more than spaces", kind="invalid")
        if context.principal == HUB_PRINCIPAL:
            raise ToolFailure("this session answers agents of the hub; no person is there", kind="denied")
        rates.spend(context.principal)
        about = {"session_id": context.session_id, "user": context.principal, "agent": context.agent}
        events.emit(NOTICE_EVENT, context.principal, **about, text=text)
        return {"notified": True}

    return Tool(
        ToolSpec("notify_user", DESCRIPTION, PARAMETERS),
        run,
        result_doc="`notified`",
        limits_doc=f"{MAX_NOTICE} characters; {BURST} at once for a person, then one in {REFILL_SECONDS:g} s",
    )
