"""Who is named by a text, and whose phone makes a sound."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .bodies import AllowedMentions
from .entities import Account, Channel, Message
from .state import World

_CODE = re.compile(r"```.*?```|``.*?``|`[^`]*`", re.DOTALL)
_USER = re.compile(r"<@!?(\d{1,20})>")
_EVERYONE = re.compile(r"@(everyone|here)\b")


@dataclass(frozen=True, slots=True)
class Mentions:
    shown: Sequence[Account] = ()
    notified: Sequence[Account] = ()
    everyone: bool = False


def mentions_of(
    world: World,
    channel: Channel,
    author: Account,
    text: str,
    reply_to: Message | None,
    allowed: AllowedMentions | None,
) -> Mentions:
    """What a new message mentions. Names within code are text; `allowed` None allows all."""
    plain = _CODE.sub(" ", text)
    numbers = dict.fromkeys(int(number) for number in _USER.findall(plain))
    shown = [world.accounts[number] for number in numbers if number in world.accounts]
    parse = ("users", "everyone") if allowed is None else allowed.parse
    notified = [one for one in shown if "users" in parse or (allowed is not None and one.id in allowed.users)]
    if reply_to is not None and reply_to.author not in shown and (allowed is None or allowed.replied_user):
        shown = [*shown, reply_to.author]
        notified = [*notified, reply_to.author]
    everyone = channel.kind != "dm" and "everyone" in parse and bool(_EVERYONE.search(plain))
    if everyone and channel.guild:
        notified = list(dict.fromkeys([*notified, *channel.guild.members.values()]))
    heard = [one for one in notified if one is not author and channel.visible_to(one)]
    return Mentions(shown, heard, everyone)
