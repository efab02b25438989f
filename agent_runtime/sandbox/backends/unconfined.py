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
from .backend import BackendName, LaunchPlan, environment, limit_resources, lower_priority


@dataclass(frozen=True, slots=True)
class UnconfinedBackend:
    name: BackendName = "off"
    uid: int | None = None
    by_path: bool = False

    def prepare_host(self, data_dir: Path) -> None:
        """Nothing need be done."""

    def launch(self, argv: Sequence[str], spec: SandboxSpec) -> LaunchPlan:
        if spec.network is not None:
            raise ToolFailure("commands have no network under this confinement", kind="unavailable")
        # Processes are not counted: they would be counted together with everything else this user runs.
        return LaunchPlan(
            argv=(*lower_priority(spec), *limit_resources(spec.limits), *argv),
            env=environment(spec),
            cwd=spec.workdir,
        )
