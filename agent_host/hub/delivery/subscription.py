"""What is said in a session, for somebody who watches it: from the log, then live."""

from __future__ import annotations

from agent_common.protocol.hub import Envelope, NotifyFrame

from ..live_session import LiveSession
from ..store import HubStore
from .inbox import Endpoint


class Subscription:
    """Sends what its reader may read. Nothing of it is acknowledged or kept: a reader that does not keep up falls
    behind, and goes on from the log."""

    def __init__(
        self, subscription_id: str, reader: str | None, endpoint: Endpoint, session: LiveSession, after: int
    ) -> None:
        """`reader`: the participant in whose name; None: an operator, who may read everything. `after`: the sequence
        after which it begins."""
        self.subscription_id = subscription_id
        self._reader = reader
        self._endpoint = endpoint
        self._session = session
        self._position = after
        self._is_behind = True
        self.is_over = False
        """Set when nothing more is to be sent."""

    async def catch_up(self, store: HubStore, page: int) -> None:
        """Send what is in the log after its position, as fast as its client reads. Then `offer` goes on."""
        while not self.is_over and self._position < self._session.committed:
            found = await store.log(self._session.session_id, self._position, page)
            for envelope in found:
                await self._endpoint.drained()
                if self.is_over:
                    return
                self._send(envelope)
            if not found:
                break  # it was deleted
        self._is_behind = False

    def offer(self, envelope: Envelope) -> bool:
        """Send an envelope that is new. Returns False if it falls behind by that: then it has to catch up."""
        if self.is_over or self._is_behind or envelope.sequence <= self._position:
            return True
        if not self._endpoint.has_space:
            self._is_behind = True
            return False
        self._send(envelope)
        return True

    def _send(self, envelope: Envelope) -> None:
        self._position = envelope.sequence
        reader = self._reader
        if reader is None or (self._session.folded.info.has(reader) and envelope.is_visible_to(reader)):
            self._endpoint.send(
                NotifyFrame(envelope=envelope, recipient_id=self._reader or "", subscription_id=self.subscription_id)
            )


class Watch:
    """Sends all that is said on the hub from now on, to an operator. What does not fit is left out: the sequences of a
    session have no gaps, so the reader sees that, and reads the log."""

    def __init__(self, subscription_id: str, endpoint: Endpoint) -> None:
        self._subscription_id = subscription_id
        self._endpoint = endpoint

    def offer(self, envelope: Envelope) -> None:
        """Send an envelope, if there is space."""
        if self._endpoint.has_space:
            self._endpoint.send(NotifyFrame(envelope=envelope, recipient_id="", subscription_id=self._subscription_id))
