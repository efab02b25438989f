"""How much room the folders of a call have, for all tools that write."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...ports import ToolContext
from ...sandbox import Confinement, Quota, SandboxLimits


@dataclass(frozen=True, slots=True)
class QuotaCheck:
    """The confinement keeps the books, so that what commands and the server write is counted together."""

    confinement: Confinement
    limits: SandboxLimits = field(default_factory=SandboxLimits)

    def quotas(self, context: ToolContext) -> tuple[Quota, ...]:
        return (
            Quota.for_size(context.scratch, self.limits.scratch, "the scratch folder"),
            Quota.for_size(context.workspace, self.limits.workspace, "the workspace"),
        )

    async def require_space(self, path: Path, size: int, context: ToolContext) -> None:
        """Raises ToolFailure when so many bytes have no room there."""
        for quota in self.quotas(context):
            if path.is_relative_to(quota.folder):
                await self.confinement.require_space(quota, size)
