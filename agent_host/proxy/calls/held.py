"""The memory that answers of models take until their client has read them."""

from __future__ import annotations

from starlette.types import Message, Send

from agent_common.net import ShareCounter

from ...errors import ProviderFailed

_PIECE = 256 * 1024


class HeldAnswers:
    """The bytes of one call's answer, of its agent's share."""

    def __init__(self, shares: ShareCounter, agent_id: str) -> None:
        self._shares, self._agent_id = shares, agent_id
        self._size = 0

    def reserve(self, size: int) -> None:
        """Count bytes that came. Raises ProviderFailed when the agent has its share."""
        if not self._shares.acquire(self._agent_id, size):
            error = ProviderFailed("your calls have too many bytes under way; read the answers", code="too_many_bytes")
            error.status = 429
            raise error
        self._size += size

    def close(self) -> None:
        """Give all of them back."""
        if self._size:
            self._shares.release(self._agent_id, self._size)
            self._size = 0


async def send_in_pieces(send: Send, message: Message) -> None:
    """Send a message whose body may be large: the server waits for the client between pieces, so the call ends, and
    gives its bytes back, only when nearly all is read."""
    body: bytes = message.get("body", b"")
    last = max(0, len(body) - 1) // _PIECE * _PIECE
    for at in range(0, last, _PIECE):
        await send({"type": message["type"], "body": body[at : at + _PIECE], "more_body": True})
    await send({**message, "body": body[last:]} if last else message)
