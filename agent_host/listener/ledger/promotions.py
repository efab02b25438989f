"""Results that promote values: these are written in the transaction that records the result, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, update
from sqlalchemy.dialects import postgresql

from agent_common.protocol import PromotionRule

from ...database import task_results

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Promotions:
    """What the result of a complete task promotes to the blackboard of its team."""

    workspace: str
    task_id: str
    session_id: str | None
    values: Mapping[str, Any]
    """By key."""
    rule: PromotionRule


Promote = Callable[[Connection, Promotions], str | None]
"""Writes the values in the transaction. Returns what has become of them, as JSON for the row of the result."""


def promote_nothing(_connection: Connection, _promotions: Promotions) -> str | None:
    """Write nothing: there is no blackboard."""
    return None


@dataclass(frozen=True, slots=True)
class NewResult:
    """The row of a result, with what it promotes."""

    values: Values
    """In the order of `sql.RESULT`."""
    promotions: Promotions | None = None


def record_promoting(
    connection: Connection, results: Iterable[NewResult], names: tuple[str, ...], promote: Promote
) -> None:
    """Write results that promote values, and the values. A result that has its row has promoted its values already."""
    for result in results:
        assert result.promotions is not None  # noqa: S101  they are those that promote
        row = dict(zip(names, result.values, strict=True))
        insert = postgresql.insert(task_results).values(row).on_conflict_do_nothing().returning(task_results.c.id)
        row_id = connection.execute(insert).scalar()
        if row_id is not None:
            outcome = promote(connection, result.promotions)
            connection.execute(update(task_results).where(task_results.c.id == row_id).values(promotions=outcome))
