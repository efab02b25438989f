"""An envelope that comes again: its sender gets the answer of the first, or learns that its key stands for another."""

from __future__ import annotations

import structlog

from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol import same_json
from agent_common.protocol.hub import Envelope, HubUnavailable, NetworkError, ProtocolError

from ..live_session import LiveSession, Post
from ..store import HubStore

log = structlog.get_logger(__name__)


class Repetitions:
    """Finishes posts whose idempotency key is in the log."""

    def __init__(self, store: HubStore, tasks: OwnedTasks) -> None:
        self._store = store
        self._tasks = tasks

    def refuse(self, post: Post, error: NetworkError) -> None:
        """Finish a post with an error, unless it repeats one that was stored long ago."""
        if post.envelope.idempotency_key is None:
            post.finish(error)
        else:
            self._tasks.start(self._finish_by_key(post, error))

    async def finish_stored(self, post: Post) -> bool:
        """Finish a post whose key is in the log. Returns False if it is not."""
        envelope = post.envelope
        if envelope.idempotency_key is None:
            return False
        known = await self._store.find_key(envelope.session_id, envelope.sender_id, envelope.idempotency_key)
        if known is None:
            return False
        post.finish(known.envelope_id if _is_same(known, envelope) else _other_content())
        return True

    async def _finish_by_key(self, post: Post, error: NetworkError) -> None:
        try:
            if await self.finish_stored(post):
                return
        except Exception as failure:  # noqa: BLE001
            log.error("hub_session_unreadable", session=post.envelope.session_id, why=str(failure))
            error = HubUnavailable(retry_after=1.0)
        post.finish(error)


def finish_as_before(session: LiveSession, post: Post) -> bool:
    """Finish a post as the one before that has the same key. Returns False if none of the last ones has it."""
    known = session.keys.get((post.envelope.sender_id, post.envelope.idempotency_key or ""))
    if known is None:
        return False
    if not _is_same(known.envelope, post.envelope):
        post.finish(_other_content())
    else:
        known.then(post.finish)
    return True


def _is_same(one: Envelope, other: Envelope) -> bool:
    is_alike = (one.event_type, one.audience) == (other.event_type, other.audience)
    return is_alike and same_json(one.event_data, other.event_data)


def _other_content() -> ProtocolError:
    return ProtocolError("idempotency_key: another envelope of yours in this session has it")
