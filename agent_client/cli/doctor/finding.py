"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: State
    what: str
    fix: str | None = None
    """What to do about it; None if all is well."""


def ok(name: str, what: str) -> Finding:
    return Finding(name, "ok", what)


def warning(name: str, what: str, fix: str) -> Finding:
    return Finding(name, "warning", what, fix)


def error(name: str, what: str, fix: str) -> Finding:
    return Finding(name, "error", what, fix)
