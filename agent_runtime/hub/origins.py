"""The envelopes whose turns run now."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from agent_common.protocol.hub import Envelope

from ..errors import MeshUnavailable
from ..ports import HUB_PRINCIPAL, HubCaller


class Origins:
    """Finds the envelope that a turn answers. Turns and tools share it."""

    def __init__(self) -> None:
        self._envelopes: dict[str, Envelope] = {}

    @contextmanager
    def answering(self, envelope: Envelope) -> Generator[None]:
        """Know an envelope while it is answered."""
        self._envelopes[envelope.envelope_id] = envelope
        try:
            yield
        finally:
            self._envelopes.pop(envelope.envelope_id, None)

    def of(self, caller: HubCaller) -> Envelope | None:
        """Return the envelope that a call helps to answer; None: it answers none.

        Raises MeshUnavailable if that is not known yet: without it those who wait for this turn might be asked."""
        if caller.principal != HUB_PRINCIPAL:
            return None
        found = self._envelopes.get(caller.task_id)
        if found is None:
            raise MeshUnavailable(
                "the message that this turn answers is not known yet: the hub has not delivered it again since the "
                "restart, or this is a subagent; nothing was sent"
            )
        return found
