"""What a shell command line runs, as far as its text tells.

Two readers look at it. The one for rules that allow is exact and knows a small subset of the shell; a script outside of
it is opaque. The one for rules that deny takes every script and guesses. Both take time in proportion to the text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from .allow_reader import read_commands
from .deny_reader import find_commands
from .programs import Command, Write
from .words import NotLiteral

MAX_SCRIPT_BYTES = 120 * 1024
"""Bytes of a script that is looked at."""
INLINE_LENGTH = 8 * 1024
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
    nested: tuple[str, ...] = ()
    """Further commands that may run, for rules that deny: those in the arguments of others, mostly."""
    anything: bool = False
    """The name of some program is not in the text, or the text is too much to be read."""
    pipelines: tuple[str, ...] = ()
    """Commands that are piped into each other, joined by ` | `."""
    writes: tuple[str, ...] = ()
    """Paths that redirections write to, as they are written there."""


def parse_commands(script: str) -> ScriptCommands:
    """Read what bash runs for `bash -c script`. Never raises."""
    if len(script) > MAX_SCRIPT_BYTES or len(script.encode(errors="replace")) > MAX_SCRIPT_BYTES:
        return ScriptCommands(opaque=f"it is longer than {MAX_SCRIPT_BYTES // 1024} KiB", anything=True)
    seen = find_commands(script)
    try:
        found = tuple(read_commands(script))
    except NotLiteral as error:
        return ScriptCommands(
            seen.texts, opaque=str(error), anything=seen.anything, pipelines=seen.pipelines, writes=seen.writes
        )
    certain = [one for one in found if isinstance(one, Command)]
    texts = dict.fromkeys(one.text for one in certain)
    return ScriptCommands(
        tuple(texts),
        starts={one.text: one.certain_prefix for one in certain if one.certain_prefix is not None},
        nested=tuple(text for text in seen.texts if text not in texts),
        pipelines=seen.pipelines,
        writes=tuple(one.path for one in found if isinstance(one, Write)),
    )


async def parse_commands_async(script: str) -> ScriptCommands:
    """Do the same beside the event loop where the script is long."""
    return parse_commands(script) if len(script) <= INLINE_LENGTH else await asyncio.to_thread(parse_commands, script)


def strip_program_folder(text: str) -> str:
    """A command with the bare name of its program: `/bin/rm x` is `rm x` as well."""
    program, space, rest = text.partition(" ")
    return (program.rpartition("/")[2] or program) + space + rest
