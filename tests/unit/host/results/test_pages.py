"""Pages of results end at their number of rows, and at a size that no agent can exceed; whose they are is exact."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from agent_common.page_size import MAX_PAGE_BYTES, MAX_PAGE_VALUES
from agent_host.access import parse_users
from agent_host.database import open_database, task_results
from agent_host.results import ResultService
from agent_host.results.query import ResultQuery


def row(number: int, size: int) -> dict[str, Any]:
    result = {"task_id": f"t{number}", "status": "complete", "result": {"text": "x" * size}}
    names = {"workspace": "a", "principal": "ann", "finished_at": 1, "recorded_at": 2, "truncated": False}
    return {**names, "task_id": f"t{number}", "result": json.dumps(result)}


async def test_pages_join_without_a_gap_whatever_ends_them(tmp_path: Path) -> None:
    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database:
        rows = [row(number, MAX_PAGE_BYTES // 3 if number % 5 == 0 else 10) for number in range(40)]
        await database.run(lambda connection: connection.execute(insert(task_results), rows))
        service, found, after = ResultService(database), list[str](), None
        sizes: list[int] = []
        while True:
            page = await service.page(ResultQuery(after=after, limit=18))
            found += [one.task_id for one in page.rows]
            sizes.append(len(page.rows))
            if (after := page.next) is None:
                break
        assert found == [f"t{number}" for number in range(39, -1, -1)]
        kept = await service.wait(ResultQuery(task_id="t1"), 0)
        assert kept is not None, "what is on disk is found however short the wait is"
        assert await service.wait(ResultQuery(task_id="t40"), 0) is None
        assert max(sizes) < 18, "the size ended each page"


async def test_a_page_ends_before_it_has_more_values_than_its_reader_takes(tmp_path: Path) -> None:
    dense = json.dumps({"task_id": "t", "status": "complete", "result": {"x": [{"": 0}] * (MAX_PAGE_VALUES // 3)}})
    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database:
        rows = [row(number, 1) | {"result": dense} for number in range(5)]
        await database.run(lambda connection: connection.execute(insert(task_results), rows))
        page = await ResultService(database).page(ResultQuery())
    assert [one.task_id for one in page.rows] == ["t4", "t3"]


async def test_commas_and_brackets_in_texts_are_no_values(tmp_path: Path) -> None:
    table = json.dumps({"task_id": "t", "status": "complete", "result": {"text": '1,2,[3],"{4},' * 10_000}})
    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database:
        rows = [row(number, 1) | {"result": table} for number in range(5)]
        await database.run(lambda connection: connection.execute(insert(task_results), rows))
        page = await ResultService(database).page(ResultQuery())
    assert len(page.rows) == 5


@pytest.mark.parametrize(
    ("patterns", "shown"),
    [
        (["telegram:*"], ["telegram:1", "telegram:10"]),
        (["telegram:1"], ["telegram:1"]),
        (["tele_ram:*", "t%*"], []),
        (["TELEGRAM:*", "discord:2"], ["TELEGRAM:1", "discord:2"]),
    ],
)
async def test_the_database_compares_users_as_exactly_as_the_host(
    tmp_path: Path, patterns: list[str], shown: list[str]
) -> None:
    users, names = parse_users(patterns), ["TELEGRAM:1", "discord:2", "operator", "telegram:1", "telegram:10"]
    rows = [row(number, 1) | {"principal": name} for number, name in enumerate(names)]
    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database:
        await database.run(lambda connection: connection.execute(insert(task_results), rows))
        page = await ResultService(database).page(ResultQuery(users=users))
    assert sorted(one.principal for one in page.rows) == shown == [name for name in names if name in users]
