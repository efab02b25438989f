"""Writes that share a commit."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import OperationalError

from agent_host.database import BatchWriter, HostDatabase, open_database


async def test_what_a_commit_that_failed_may_have_written_is_not_written_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mesh.db'}"
    open_database(url).close()
    engine = create_engine(url)

    def commit_and_lose_the_answer(connection: Connection) -> None:
        connection.connection.commit()
        raise OperationalError("COMMIT", None, Exception("the connection was lost"))

    event.listen(engine, "commit", commit_and_lose_the_answer)
    runs: list[str] = []
    with closing(HostDatabase(engine)) as database:
        writer = BatchWriter(database, "test")
        written: list[asyncio.Future[Any]] = [writer.submit(lambda _, name=name: runs.append(name)) for name in "ab"]
        async with asyncio.timeout(60):
            found = await asyncio.gather(*written, return_exceptions=True)
        await writer.close()
    assert [type(error) for error in found] == [OperationalError] * 2
    assert runs == ["a", "b"], "each once"
