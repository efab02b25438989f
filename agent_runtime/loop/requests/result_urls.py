"""The `result_url` of a task: where the host sends its result."""

from __future__ import annotations

import sqlite3
from typing import Protocol

from agent_common.net import parse_url
from agent_common.protocol import TaskAssignment

from ...errors import InvalidRequest, ToolFailure

MAX_CHARACTERS = 2000
NO_CHANNEL = "this agent has no channel to a host (AGENT_MEDIATION_URL), and only a host sends results"


class TaskReports(Protocol):
    """Reports the ends of tasks to the host."""

    def refusal(self) -> str | None:
        """Return why results cannot be reported; None if they can."""
        ...

    def record_end(self, connection: sqlite3.Connection, task_id: str, message_id: str) -> None:
        """Write in the transaction that ends the task that its end is to be reported."""
        ...


def check_result_url(assignment: TaskAssignment, reports: TaskReports | None) -> None:
    """Raise InvalidRequest if the task has a `result_url` that is malformed, or that no host would call."""
    if assignment.result_url is None:
        return
    try:
        checked_result_url(assignment.result_url)
    except ToolFailure as error:
        raise InvalidRequest.from_faults([("result_url", str(error))]) from error
    if (reason := reports.refusal() if reports is not None else NO_CHANNEL) is not None:
        raise InvalidRequest.from_faults([("result_url", f"cannot be honoured: {reason}; leave it out")])


def checked_result_url(text: str) -> str:
    """Return the URL in its canonical form, in ASCII. Raises ToolFailure that says how to correct it."""
    url = str(parse_url(text))
    if len(url) > MAX_CHARACTERS:
        raise ToolFailure(f"is longer than {MAX_CHARACTERS} characters when it is encoded", kind="invalid")
    return url
