"""How a message is found whose id was never learned: Telegram lists no messages, and takes no key of ours.

It refuses to change messages of others and messages that do not exist. A message of the bot that nobody has noted is
therefore one whose answer was lost, and the attempt to change it tells which it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial

from agent_common.clock import Clock

from ..platform import MessageGone
from .calls import Calls
from .faults import Unchanged

_PROBES = 30
"""Unknown messages that may be the one that is looked for: as many sends may have been cut off at once."""
_LONGEST_SECONDS = 120.0
"""How long a search repeats what fails."""

Change = Callable[[int, int], Awaitable[object]]
"""Gives a message, by its id, in a chat the look that it should have."""


async def find_lost_message(
    calls: Calls, clock: Clock, chat: int, change: Change, *, after: int, known: Collection[int]
) -> int | None:
    """Return the first message of the bot after `after` that is not known, once it looks as it should. A server that
    numbers each private chat for itself has it after the bot's last message in the chat."""
    deadline = clock.monotonic() + _LONGEST_SECONDS
    last = max((number for number in known if number <= after), default=0)
    await calls.take_turn(chat)  # refusals need none; the last change succeeds
    for message_id in dict.fromkeys([*_unknown_after(after, known), *_unknown_after(last, known)]):
        try:
            await calls.repeat(chat, partial(change, message_id), deadline=deadline)
        except MessageGone:
            continue
        except Unchanged:
            pass
        return message_id
    return None


def _unknown_after(number: int, known: Collection[int]) -> list[int]:
    candidates = range(number + 1, number + 1 + _PROBES + len(known))
    return [candidate for candidate in candidates if candidate not in known][:_PROBES]
