"""The corpus of ways in which providers differ, as steps and rules of the scripted provider."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_testing import Raw

CORPUS = Path(__file__).parents[2] / "corpora" / "providers" / "provider_cases.json"
MAX_WAIT = 3.0
"""Seconds to which a silence of minutes is scaled; the servers of the tests allow a second between two pieces."""


@dataclass(frozen=True)
class Case:
    """One way in which a provider differs, and what is right."""

    id: str
    title: str
    want: dict[str, Any]
    response: dict[str, Any] | None = None
    request_rule: dict[str, Any] | None = None
    next_request_rule: dict[str, Any] | None = None
    variants: tuple[Raw, ...] = field(default=())
    """Other responses that mean the same."""

    @property
    def model(self) -> str:
        """The name of its model: what is learned about one is not known of another."""
        return f"case-{self.id.lower()}"

    @property
    def answer(self) -> Raw:
        assert self.response is not None
        response = self.response
        timing: dict[str, Any] = response.get("timing", {})
        return Raw(
            tuple(response["body_chunks"]),
            response["status"],
            response["headers"],
            response.get("encoding", "utf-8"),
            wait=min(MAX_WAIT, timing.get("before_head_seconds", 0)),
            delay=0.002,
            heartbeat=": ping\n\n" if "after_last_chunk" in timing else None,
            heartbeat_seconds=0.5,
        )


Refused = Callable[[dict[str, Any]], bool]


def rule_of(described: dict[str, Any]) -> tuple[Refused, Raw]:
    """Return what a strict provider refuses, and how."""
    code = compile(described["python"], described["when"], "eval")
    body = json.dumps(described["body"])
    return (
        lambda request: bool(eval(code, {"re": re, "json": json, "r": request})),  # noqa: S307  our own corpus
        Raw((body,), described["status"], described["headers"]),
    )


def corpus() -> list[Case]:
    kept = Case.__dataclass_fields__
    return [
        Case(**{name: value for name, value in found.items() if name in kept})
        for found in json.loads(CORPUS.read_text("utf-8"))
    ]
