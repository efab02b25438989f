"""What a run found, and its text."""

from __future__ import annotations

import statistics
import traceback
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

MOST = 40
"""Faults that are printed."""


@dataclass(slots=True)
class Findings:
    """Faults are wrong on any machine; what is slow may be the machine's doing."""

    title: str
    faults: list[str] = field(default_factory=list[str])
    slow: list[str] = field(default_factory=list[str])
    figures: dict[str, object] = field(default_factory=dict[str, object])

    def note(self, faults: Iterable[str]) -> None:
        self.faults.extend(faults)

    @contextmanager
    def noting(self) -> Generator[None]:
        """Makes a fault of what is raised, so that what was found until then is not lost."""
        try:
            yield
        except Exception:  # noqa: BLE001  whatever it is, it belongs to what was found
            self.faults.append(f"the run broke off:\n{traceback.format_exc()}")

    def text(self) -> str:
        lines = [self.title, *(f"  {name:34} {value}" for name, value in self.figures.items())]
        lines += [f"  SLOW: {one}" for one in self.slow]
        if not self.faults:
            return "\n".join([*lines, "nothing was found wrong"])
        return "\n".join([*lines, f"{len(self.faults)} FAULTS", *(f"  - {fault}" for fault in self.faults[:MOST])])


def p95(samples: Sequence[float]) -> float:
    return statistics.quantiles(samples, n=20, method="inclusive")[-1] if len(samples) > 1 else sum(samples)
