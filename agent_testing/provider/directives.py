"""Follow directives in the request itself, so that a benchmark needs no script.

The last user message may contain

    echo               the message comes back
    say:TEXT           TEXT, up to the end of the line
    stream:N:MS        N pieces, MS milliseconds apart
    tools:N            N rounds of one cheap tool call, then an answer
    tools:N:NAME:JSON  the same with a tool of your choice; `{n}` in JSON becomes the round's number
    tool:NAME:JSON     one call, then an answer

Rounds are counted by the tool messages after the last user message: the provider keeps no state.
"""

from __future__ import annotations

import re

from .record import Recorded
from .steps import Call, Say, Step

_DIRECTIVE = re.compile(
    r"\b(?:say:(?P<say>[^\n]*)"
    r"|stream:(?P<pieces>\d+):(?P<ms>\d+)"
    r"|tools:(?P<rounds>\d+)(?::(?P<round_tool>\w+):(?P<round_arguments>[^\n]*))?"
    r"|tool:(?P<tool>\w+):(?P<arguments>[^\n]*)"
    r"|(?P<echo>echo)\b)"
)
_CHEAP_TOOL = "glob"
_CHEAP_ARGUMENTS = '{"pattern": "no-such-file-{n}"}'


def follow_directives(request: Recorded) -> Step:
    """Return the step that the last user message asks for; `Say("ok")` if it has no directive."""
    text = request.last_user_text
    found = _DIRECTIVE.search(text)
    if found is None:
        return Say("ok")
    if found["echo"]:
        return Say(text)
    if found["say"] is not None:
        return Say(found["say"])
    if found["pieces"]:
        return Say(pieces=("word ",) * int(found["pieces"]), delay=int(found["ms"]) / 1000)
    if found["tool"]:
        return _round(request, 1, found["tool"], found["arguments"])
    return _round(
        request, int(found["rounds"]), found["round_tool"] or _CHEAP_TOOL, found["round_arguments"] or _CHEAP_ARGUMENTS
    )


def _round(request: Recorded, rounds: int, tool: str, arguments: str) -> Step:
    done = 0
    for message in reversed(request.messages):
        if message.get("role") == "user":
            break
        done += message.get("role") == "tool"
    return Call(tool, arguments.replace("{n}", str(done + 1))) if done < rounds else Say("done")
