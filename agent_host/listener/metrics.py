"""The listener's metrics, in the text format that Prometheus reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal

COUNTERS: dict[str, str] = {
    "connections": "Connections that were accepted.",
    "probes": "Connections that closed without a byte.",
    "attachments": "Attachments of agents.",
    "superseded": "Attachments that ended because the same agent attached again.",
    "refused_attachments": "Connections that were refused, by reason.",
    "breaks": "Attachments that ended for a reason other than a drain, by reason.",
    "frames_in": "Frames from agents.",
    "frames_out": "Frames to agents.",
    "bytes_in": "Bytes from agents.",
    "bytes_out": "Bytes to agents.",
    "bad_lines": "Lines that were not valid frames, by code.",
    "requests": "Requests that were stored in the ledger.",
    "replays": "Requests that were submitted again with the same content.",
    "conflicts": "Requests that were refused because their id belongs to other work.",
    "dispatches": "Requests that were sent to an agent.",
    "retries": "Further attempts, by reason.",
    "resends": "Requests that were sent again because the agent had not started them.",
    "results": "Results that were recorded, by status.",
    "task_results": "Results of tasks that agents have reported, with those that came again.",
    "duplicates_refused": "Results of requests that had a result already.",
    "foreign_refused": "Results for requests that were never given to that agent.",
    "dead": "Requests that ended without a result, by code.",
    "alarms": "Alarms for an operator, by code.",
}
PREFIX = "mesh_listener_"
Direction = Literal["in", "out"]


class Metrics:
    """Counters by name and label."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._frames: dict[Direction, list[int]] = {"in": [0, 0], "out": [0, 0]}
        """Number of frames and of their bytes. Separate from the other counters because it changes most often."""

    def count(self, name: str, label: str = "", by: int = 1) -> None:
        self._counts[name, label] += by

    def count_frame(self, direction: Direction, size: int) -> None:
        """Count a frame and its `size` in bytes."""
        counts = self._frames[direction]
        counts[0] += 1
        counts[1] += size

    def total(self, name: str) -> int:
        return sum(self.labels(name).values())

    def labels(self, name: str) -> dict[str, int]:
        for direction, (frames, size) in self._frames.items():
            if name in (f"frames_{direction}", f"bytes_{direction}"):
                return {"": frames if name.startswith("frames") else size}
        return {label: value for (counter, label), value in self._counts.items() if counter == name}

    def render(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all metrics as text. `gauges`: name to help text and value."""
        lines: list[str] = []
        for name, meaning in COUNTERS.items():
            full = f"{PREFIX}{name}_total"
            lines += [f"# HELP {full} {meaning}", f"# TYPE {full} counter"]
            found = self.labels(name) or {"": 0}
            lines += [f"{full}{_label(label)} {value}" for label, value in sorted(found.items())]
        for name, (meaning, value) in gauges.items():
            full = f"{PREFIX}{name}"
            lines += [f"# HELP {full} {meaning}", f"# TYPE {full} gauge", f"{full} {value:g}"]
        return "\n".join(lines) + "\n"


def _label(label: str) -> str:
    if not label:
        return ""
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{kind="{escaped}"}}'
