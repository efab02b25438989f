"""What a shell command line runs, as far as its text tells.

Two readers look at it. The one for rules that allow is exact and knows a small subset of the shell; a script outside of
it is opaque. The one for rules that deny takes every script and guesses. Both take time in proportion to the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from .allow_reader import read_plain
from .deny_reader import see
from .programs import Command, Write
from .words import NotLiteral

LIMIT = 120 * 1024
"""Bytes of a script that is looked at."""
SHORT = 8 * 1024
"""Characters of a script that is read at once, and not in a thread."""


@dataclass(frozen=True, slots=True)
class ScriptCommands:
    """What a script runs, for both kinds of rules."""

    texts: tuple[str, ...] = ()
    """Each command, its words with one space between and quoted only where they must be. Of a script that is not opaque
    these are all that bash runs; of an opaque one, what can be seen in it."""
    starts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts of which only the beginning is certain, with that beginning."""
    opaque: str = ""
    """Why more or something else may run than `texts` says; empty: nothing else does."""
    inner: tuple[str, ...] = ()
    """Further commands that may run, for rules that deny: those in the arguments of others, mostly."""
    anything: bool = False
    """The name of some program is not in the text, or the text is too much to be read."""
    pipelines: tuple[str, ...] = ()
    """Commands that are piped into each other, joined by ` | `."""
    writes: tuple[str, ...] = ()
    """Paths that redirections write to, as they are written there."""


def commands(script: str) -> ScriptCommands:
    """Read what bash runs for `bash -c script`. Never raises."""
    if len(script) > LIMIT or len(script.encode(errors="replace")) > LIMIT:
        return ScriptCommands(opaque=f"it is longer than {LIMIT // 1024} KiB", anything=True)
    seen = see(script)
    try:
        found = tuple(read_plain(script))
    except NotLiteral as error:
        return ScriptCommands(
            seen.texts, opaque=str(error), anything=seen.anything, pipelines=seen.pipelines, writes=seen.writes
        )
    certain = [one for one in found if isinstance(one, Command)]
    texts = dict.fromkeys(one.text for one in certain)
    return ScriptCommands(
        tuple(texts),
        starts={one.text: one.start for one in certain if one.start is not None},
        inner=tuple(text for text in seen.texts if text not in texts),
        pipelines=seen.pipelines,
        writes=tuple(one.path for one in found if isinstance(one, Write)),
    )


async def read(script: str) -> ScriptCommands:
    """Do the same beside the event loop where the script is long."""
    return commands(script) if len(script) <= SHORT else await asyncio.to_thread(commands, script)


def bare(text: str) -> str:
    """A command with the bare name of its program: `/bin/rm x` is `rm x` as well."""
    program, space, rest = text.partition(" ")
    return (program.rpartition("/")[2] or program) + space + rest
