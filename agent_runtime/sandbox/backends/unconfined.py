"""No confinement: the command runs as the server's own user and sees what the server sees.

Only the environment is scrubbed and the resources are limited. It is taken on the operator's explicit wish (`off`), and
for the product's own helpers where no better rung works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import ToolFailure
from ..spec.spec import SandboxSpec
from .backend import LaunchPlan, RungName, environment, limited, lowly


@dataclass(frozen=True, slots=True)
class UnconfinedBackend:
    name: RungName = "off"
    uid: int | None = None
    by_path: bool = False

    def settle(self, data_dir: Path) -> None:
        """Nothing need be done."""

    def launch(self, argv: Sequence[str], box: SandboxSpec) -> LaunchPlan:
        if box.network is not None:
            raise ToolFailure("commands have no network under this confinement", kind="unavailable")
        # Processes are not counted: they would be counted together with everything else this user runs.
        return LaunchPlan(
            argv=(*lowly(box), *limited(box.limits), *argv),
            env=environment(box),
            cwd=box.workdir,
        )
