"""What a command ends with: its exit code, and one line on stderr that says the fix."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .. import ClientError

DONE = 0
FAILED = 1
USAGE = 2
WAITS = 3
"""A question or an approval waits for a person."""
LIMIT = 4
"""A limit ended the work: of steps, tokens, dollars or time."""
ABORTED = 130
PIPE_CLOSED = 141
"""The reader of the output has gone, as after `| head`; a shell says the same of a program that SIGPIPE ended."""

_FIXES = {
    "ConnectionFailed": "is it running? `agent up` starts one; `agent context list` shows where you are",
    "Unauthorized": "give its token with --token-file FILE, AGENT_TOKEN, AGENT_TOKEN_FILE or `agent context add`",
    "Forbidden": "this needs the token of an operator, see `agent context list`",
    "NotRunning": "`agent start {workspace}` starts it",
    "Quarantined": "an operator ends a quarantine",
    "UnexpectedReply": "is the URL that of a host or an agent, of the same version?",
    "DeadlineExceeded": "it goes on at the server",
}
"""By the class of the error."""
_LISTS = {
    "unknown_session: ": "`agent sessions` lists those there are",
    "unknown_task: ": "`agent tasks` lists those there are",
    "not_found: there is no workspace ": "`agent ps` lists those there are",
    "not_found: there is no agent ": "`agent agents` lists those there are",
    "not_found: there is no entry ": "`agent blackboard list` lists those there are",
    "not_found: there is no artifact ": "`agent artifacts list` lists those there are",
    "not_found: there is no work ": "`agent work` lists those there are",
}
"""By what the error begins with, for many kinds of names share the code `not_found`: where the right name is."""
_GENERAL = re.compile(r"\A(?:not_found|invalid_request): ")
"""Codes that tell a person nothing that the text behind them does not."""


class CliError(Exception):
    """The command cannot be carried out. `fix` says what to do about it, `output` is what another program has written
    about it."""

    def __init__(self, message: str, fix: str | None = None, code: int = FAILED, *, output: str = "") -> None:
        super().__init__(f"{message}; {fix}" if fix else message)
        self.message = message
        self.fix = fix
        self.code = code
        self.output = output


class UsageError(CliError):
    """The command was called wrongly."""

    def __init__(self, message: str, fix: str | None = None) -> None:
        super().__init__(message, fix, USAGE)


def explain(error: ClientError) -> str:
    """Return the error as one line, with its fix if there is one."""
    from .. import ApiError

    fixes = [_FIXES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _FIXES]
    fixes += [lists for begin, lists in _LISTS.items() if str(error).startswith(begin)]
    named = re.search(r"workspace '([^']+)'", str(error))
    fixes = [one.format(workspace=named[1] if named else "WORKSPACE") for one in fixes]
    faults = error.faults if isinstance(error, ApiError) else ()
    fixes += [f"{one.field}: {one.message}" for one in faults if one.message not in str(error)]
    fix = next(iter(fixes), "")
    text = _GENERAL.sub("", str(error), count=1)
    return f"{text.removesuffix('.')}; {fix}" if fix else text
