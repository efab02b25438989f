"""A decision on an approval that a person types: `yes` or `no`, with the code that is shown beside the call."""

from __future__ import annotations

import re
from dataclasses import dataclass

REASON_CHARACTERS = 2000
_DECISION = re.compile(
    r"(?P<word>yes|no)[\s,:]{1,9}(?P<code>(?:[a-z][0-9]){1,9})(?:[\s,.:;!]+(?P<reason>.*))?",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
_WORDS = frozenset(("yes", "y", "ok", "okay", "once", "always", "no", "n", "reject"))


@dataclass(frozen=True, slots=True)
class TypedDecision:
    """What was typed."""

    code: str
    approved: bool
    reason: str | None = None
    """Of a rejection."""


def read_typed_decision(text: str) -> TypedDecision | None:
    """Read `yes K7`, `no K7` or `no K7, REASON`; None if the text is none of these. A `yes` with more words is none, as
    they may be a condition, and there is no word that allows more than the one call."""
    read = _DECISION.fullmatch(text.strip()[: 2 * REASON_CHARACTERS])
    if read is None:
        return None
    approved = read["word"].lower() == "yes"
    reason = (read["reason"] or "").strip()[:REASON_CHARACTERS] or None
    return None if approved and reason else TypedDecision(read["code"].upper(), approved, reason)


def lacks_code(text: str) -> bool:
    """Return whether the text is a decision without the code of a call, so that it may be about something else."""
    return text.strip()[:20].rstrip(".! ").lower() in _WORDS


def how_to_decide(code: str, verb: str = "write") -> str:
    """Return what a person may type."""
    return f"{verb} `yes {code}` or `no {code}`"
