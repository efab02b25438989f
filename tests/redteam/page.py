"""The section of the documentation that lists every case with its outcomes, confined and bare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from .case import CATEGORIES
from .cases import CASES
from .play import Outcome

PAGE = "docs/reference/redteam.md"
HEADING = "## The attempts"


def write_page(confined: Mapping[str, Outcome], bare: Mapping[str, Outcome]) -> None:
    """Replace the section, which is the page's last one."""
    path = Path(__file__).parents[2] / PAGE
    before, _, _ = path.read_text().partition(HEADING)
    path.write_text(before + "\n".join((HEADING, *_section(confined, bare), "")))


def _section(confined: Mapping[str, Outcome], bare: Mapping[str, Outcome]) -> Iterator[str]:
    yield ""
    yield f"With bubblewrap and the server as root; {_succeeded(confined)} succeed confined, {_succeeded(bare)} bare."
    for category, title in CATEGORIES.items():
        cases = [case for case in CASES if case.category == category]
        yield from ("", f"### {title.capitalize()}", "")
        yield from ("| case | what is attempted | confined | bare |", "|---|---|---|---|")
        for case in cases:
            yield f"| `{case.name}` | {case.tries} | {_word(confined[case.name])} | {_word(bare[case.name])} |"


def _succeeded(outcomes: Mapping[str, Outcome]) -> str:
    return f"{sum(bool(one.evidence) for one in outcomes.values())} of {len(outcomes)}"


def _word(outcome: Outcome) -> str:
    if not outcome.attempted:
        return "not tried"
    return "breached" if outcome.evidence else "held"
