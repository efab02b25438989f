"""The parts of an album are messages each, which a platform may deliver again one by one. To the rest they are one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..platform import Update


def with_whole_albums(updates: Iterable[Update]) -> list[tuple[Update, list[Update]]]:
    """Return each update with the other parts that it has taken in: the first part of an album has all of them."""
    found: list[tuple[Update, list[Update]]] = []
    albums: dict[tuple[str, str], int] = {}
    for update in updates:
        new = len(found)
        at = new if update.album is None else albums.setdefault((update.chat.id, update.album), new)
        if at == new:
            found.append((update, []))
        else:
            whole, parts = found[at]
            found[at] = _with_part(whole, update), [*parts, update]
    return found


def _with_part(album: Update, part: Update) -> Update:
    """Return the update of an album with one more part. One part has the caption, and is the message that is edited."""
    captioned = album if album.text or not part.text else part
    return replace(
        album,
        message_id=captioned.message_id,
        text="\n".join(filter(None, (album.text, part.text))),
        addressed=album.addressed or part.addressed,
        reply_to=album.reply_to or part.reply_to,
        quote=album.quote or part.quote,
        files=(*album.files, *part.files),
    )
