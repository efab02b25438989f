"""What is said in a session, for somebody who watches it: from the log, then live."""

from __future__ import annotations

from agent_common.protocol.hub import Envelope, NotifyFrame

from ..live_session import LiveSession
from ..store import HubStore
from .inbox import Endpoint


class Subscription:
    """Sends what its reader may read. Nothing of it is acknowledged or kept."""

    def __init__(self, subscription_id: str, reader: str | None, endpoint: Endpoint, session: LiveSession) -> None:
        """`reader`: the participant in whose name; None: an operator, who may read everything."""
        self.subscription_id, self._reader, self._endpoint, self._session = subscription_id, reader, endpoint, session
        self.is_over = False
        """Set when nothing more is to be sent."""

    async def read(self, store: HubStore, after: int, page: int) -> None:
        """Send what is in the log after a sequence."""
        while not self.is_over and after < self._session.committed:
            for envelope in await store.log(self._session.session_id, after, page):
                self.offer(envelope)
                after = envelope.sequence

    def offer(self, envelope: Envelope) -> None:
        """Send an envelope if the reader may read it."""
        if self.is_over or (self._reader is not None and not envelope.is_visible_to(self._reader)):
            return
        self._endpoint.send(
            NotifyFrame(envelope=envelope, recipient_id=self._reader or "", subscription_id=self.subscription_id)
        )
