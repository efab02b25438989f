"""How many notices an agent may send to people, whatever its own limits are: it is not trusted."""

from __future__ import annotations

from agent_common.clock import Clock
from agent_common.protocol import MAX_NOTICE

from .event_reader import AgentEvent

BURST = 20
REFILL_SECONDS = 5.0


class NoticeLimits:
    """The notices that each workspace may still send: a bucket that fills again evenly."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._full_at: dict[str, float] = {}
        """When the bucket of a workspace is full again."""

    def admit(self, workspace_id: str, event: AgentEvent) -> AgentEvent | None:
        """Return a notice with no more text than one may have; None if it has none, or there were too many."""
        text = event.facts.get("text")
        if not isinstance(text, str) or not text.strip():
            return None
        now = self._clock.monotonic()
        full_at = max(now, self._full_at.get(workspace_id, now)) + REFILL_SECONDS
        if full_at - now > BURST * REFILL_SECONDS:
            return None
        self._full_at[workspace_id] = full_at
        return event.model_copy(update={"text": text[:MAX_NOTICE]})

    def forget(self, workspace_id: str) -> None:
        """Forget a workspace that is deleted. Idempotent."""
        self._full_at.pop(workspace_id, None)
