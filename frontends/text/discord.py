"""Markdown as a message of Discord: again Markdown, with nothing in it that notifies people or hides where it leads."""

from __future__ import annotations

import re

from .characters import WORD_JOINER, beginning, utf16_length
from .discord_writer import DiscordWriter
from .reader import read

DISCORD_LIMIT = 2000
"""Characters of a message, counted as UTF-16 code units: never fewer than Discord counts."""
_NOTHING = "…"
_TRIGGER = re.compile(
    r"@(?=everyone|here)|<(?=[@#/:]|[a-z]{1,8}:(?!//))|(?<=discord)\.(?=gg|com/invite)|(?<=discordapp)\.(?=com/invite)",
    re.IGNORECASE,
)
"""Mentions, commands, emoji and times, also in code; invitations, which Discord shows wherever they stand."""
_TWO = tuple("\\*_~`[]<>@\n")
"""What may take another character in a message."""
_TWO_IN_CODE = tuple("`<@")


def discord_text(markdown: str) -> str:
    """Return the Markdown of one message as Discord takes it. What exceeds the length of a message is left out, so pass
    a longer text through `split_discord` before. A table has columns if there is room."""
    text = written(markdown[:DISCORD_LIMIT], aligned=True)
    if utf16_length(text) > DISCORD_LIMIT:
        text = written(markdown[:DISCORD_LIMIT], aligned=False)
    return beginning(text, DISCORD_LIMIT).rstrip() or _NOTHING


def discord_measure(text: str, *, code: bool) -> int:
    """Return the most characters that a part of a Markdown text takes in a message."""
    length = utf16_length(text) + sum(map(text.count, _TWO_IN_CODE if code else _TWO)) + text.lower().count("discord")
    return length if code else length + 2 * text.count("://") + 3 * (text.count("|") + text.count("\t"))


def written(markdown: str, *, aligned: bool) -> str:
    """Return the message, its tables with columns if they shall be aligned."""
    writer = DiscordWriter(aligned=aligned)
    read(markdown, writer)
    return _TRIGGER.sub(rf"\g<0>{WORD_JOINER}", writer.message().strip())
