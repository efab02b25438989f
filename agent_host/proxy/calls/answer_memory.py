"""Limit the memory of model answers that their clients have not read yet."""

from __future__ import annotations

from starlette.types import Message, Send

from agent_common.net import ShareCounter

from ...errors import ProviderFailed

_PIECE = 256 * 1024


class HeldAnswers:
    """Counts the bytes of one call's answer against the agent's share of memory."""

    def __init__(self, shares: ShareCounter, agent_id: str) -> None:
        self._shares = shares
        self._agent_id = agent_id
        self._size = 0

    def reserve(self, size: int) -> None:
        """Count bytes. Raises ProviderFailed if the agent's share is used up."""
        if not self._shares.acquire(self._agent_id, size):
            error = ProviderFailed("your unread answers take too much memory; read them", code="too_many_bytes")
            error.status = 429
            raise error
        self._size += size

    def close(self) -> None:
        """Release all counted bytes."""
        if self._size:
            self._shares.release(self._agent_id, self._size)
            self._size = 0


async def send_in_pieces(send: Send, message: Message) -> None:
    """Send a message, a large body in pieces. The server waits for the client between pieces, so the call ends and
    releases its bytes only when the client has read nearly all of them."""
    body: bytes = message.get("body", b"")
    last = max(0, len(body) - 1) // _PIECE * _PIECE
    for at in range(0, last, _PIECE):
        await send({"type": message["type"], "body": body[at : at + _PIECE], "more_body": True})
    await send({**message, "body": body[last:]} if last else message)
