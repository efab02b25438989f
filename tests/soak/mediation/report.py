"""What a run found, as text."""

from __future__ import annotations

from .driver import Outcome

MOST = 40
"""Faults that are printed."""


def text(outcome: Outcome) -> str:
    """Figures, then faults."""
    lines = [f"{outcome.title}, {outcome.seconds:.0f} s"]
    lines += [f"  {name:40} {value}" for name, value in outcome.figures.items()]
    if not outcome.faults:
        return "\n".join([*lines, "every promise was kept"])
    lines.append(f"{len(outcome.faults)} FAULTS")
    return "\n".join([*lines, *(f"  - {fault}" for fault in outcome.faults[:MOST])])
