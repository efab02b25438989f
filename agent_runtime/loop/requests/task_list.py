"""List tasks, newest first, a page at a time."""

from __future__ import annotations

import re
import sqlite3

from agent_common.page_size import PageSize
from agent_common.protocol import ListedTask, TaskList, TaskRecord, TasksQuery

from ...errors import InvalidRequest
from ...sessions import listing
from .tasks import TaskService

_TASK = "SELECT principal, message_id, record_json FROM tasks WHERE message_id = ?"
_CURSOR = re.compile(r"msg_[0-9A-Za-z]{1,40}")


async def list_tasks(tasks: TaskService, user: str | None, asked: TasksQuery) -> TaskList:
    """Return a page of the tasks of one user, or of all users. Raises InvalidRequest if `after` is no cursor."""
    if asked.after is not None and not _CURSOR.fullmatch(asked.after):
        raise InvalidRequest.from_faults([("after", "is not the `next` of a page")])
    page, more = await tasks.read(lambda connection: _select(connection, user, asked))
    found = [_listed(row["principal"], record) for row, record in page]
    return TaskList(tasks=found, next=page[-1][0]["message_id"] if more else None)


def _select(connection: sqlite3.Connection, user: str | None, asked: TasksQuery) -> tuple[list[sqlite3.Row], bool]:
    """Return a page of rows in the order of the turns' ledger, and whether there are more. Ids follow the clock, which
    may go back. The page ends early where results are large."""
    conditions = ["1"]
    values = list[object]()
    if user is not None:
        conditions.append("principal = ?")
        values.append(user)
    if asked.after is not None:
        conditions.append("turns.seq < (SELECT seq FROM turns WHERE message_id = ?)")
        values.append(asked.after)
    if asked.status:
        conditions.append(f"json_extract(record_json, '$.status') IN ({', '.join('?' * len(asked.status))})")
        values += asked.status
    query = f"""
        SELECT message_id FROM tasks JOIN turns USING (message_id)
        WHERE {" AND ".join(conditions)} ORDER BY turns.seq DESC LIMIT ?
    """  # noqa: S608  no value is in it
    found: list[sqlite3.Row] = []
    size = PageSize()
    with listing.read_transaction(connection):
        for (message_id,) in connection.execute(query, (*values, asked.limit + 1)).fetchall():
            row = connection.execute(_TASK, (message_id,)).fetchone()
            size.add(row["record_json"])
            if found and (size.is_full or len(found) == asked.limit):
                return found, True
            found.append(row)
    return found, False


def _listed(user: str, record: TaskRecord) -> ListedTask:
    return ListedTask(user=user, **{name: getattr(record, name) for name in TaskRecord.model_fields})
