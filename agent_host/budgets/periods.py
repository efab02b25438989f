"""The periods of budgets: days and months, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

Period = Literal["daily", "monthly"]
DAY_MS = 86_400_000


def day_of(epoch_ms: int) -> str:
    """Return the day of a time, such as `2026-11-28`."""
    return _at(epoch_ms).strftime("%Y-%m-%d")


def month_of(epoch_ms: int) -> str:
    """Return the month of a time, such as `2026-11`."""
    return _at(epoch_ms).strftime("%Y-%m")


def name_of(period: Period, epoch_ms: int) -> str:
    """Return the day or the month of a time."""
    return day_of(epoch_ms) if period == "daily" else month_of(epoch_ms)


def start_of(period: Period, epoch_ms: int) -> int:
    """Return when the day or the month of a time began, in epoch milliseconds."""
    return _ms(_start(period, epoch_ms))


def end_of(period: Period, epoch_ms: int) -> datetime:
    """Return when the next day or month begins."""
    start = _start(period, epoch_ms)
    if period == "daily":
        return start + timedelta(days=1)
    return (start + timedelta(days=32)).replace(day=1)


def _start(period: Period, epoch_ms: int) -> datetime:
    day = _at(epoch_ms).replace(hour=0, minute=0, second=0, microsecond=0)
    return day if period == "daily" else day.replace(day=1)


def _at(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
