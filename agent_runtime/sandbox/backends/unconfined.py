"""No confinement: the command runs as the server's own user and sees everything that the server sees.

Only the environment is cleaned and the resources are limited. It is used on the operator's explicit request (`off`),
and for the product's own helpers if no other backend works.
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
        """Do nothing."""

    def launch(self, argv: Sequence[str], spec: SandboxSpec) -> LaunchPlan:
        if spec.network is not None:
            raise ToolFailure("commands have no network under this confinement", kind="unavailable")
        # Processes are not limited: they would be counted together with all others of this user.
        return LaunchPlan(
            argv=(*lower_priority(spec), *limit_resources(spec.limits), *argv),
            env=environment(spec),
            cwd=spec.workdir,
        )
