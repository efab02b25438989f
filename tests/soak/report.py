"""What a run found, as text."""

from __future__ import annotations

from .driver import Outcome

MOST = 40
"""Faults that are printed."""


def text(outcome: Outcome) -> str:
    """Figures, then faults, then how to do it again."""
    lines = [f"seed {outcome.seed}, {outcome.kills} kills in {outcome.seconds:.0f} s"]
    lines += [f"  {name:34} {value}" for name, value in outcome.figures.items()]
    if not outcome.faults:
        return "\n".join([*lines, "every promise was kept"])
    lines.append(f"{len(outcome.faults)} FAULTS")
    lines += [f"  - {fault}" for fault in outcome.faults[:MOST]]
    again = f"--kills {outcome.kills} --repeats 0 --reloads 0 --seed {outcome.seed}"
    lines.append(f"again: python -m tests.soak {again} --keep FOLDER")
    return "\n".join(lines)
