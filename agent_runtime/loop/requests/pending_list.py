"""List what waits for a person, oldest first, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator

from agent_common.protocol import ListedRequest, PendingList, PendingQuery, first_page, format_position, parse_position

from ..core.listed_requests import listed_requests
from ..services import LoopServices


def list_pending(services: LoopServices, user: str | None, asked: PendingQuery) -> PendingList:
    """Return a page of the open requests of one user, or of all users."""
    after = parse_position(asked.after) if asked.after is not None else (0, "")
    found = [request for request in _open_requests(services, user) if request.position > after]
    found.sort(key=lambda request: request.position)
    page = first_page(found, asked.limit)
    return PendingList(pending=list(page), next=format_position(page[-1].position) if len(page) < len(found) else None)


def _open_requests(services: LoopServices, user: str | None) -> Iterator[ListedRequest]:
    now = services.clock.now_ms()
    for turn in services.admission.queues.turns("waiting"):
        if user in (None, turn.session.principal):
            requests = listed_requests(turn, services.admission.answer_seconds)
            yield from (request for request in requests if request.expires_at > now)
