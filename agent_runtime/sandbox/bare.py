"""No confinement: the command runs as the server's own user and sees what the server sees.

Only the environment is scrubbed and the resources are limited. It is taken on the operator's explicit wish (`off`), and
for the product's own helpers where no better rung works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .box import Box
from .rung import Launch, RungName, environment, limited


@dataclass(frozen=True, slots=True)
class Bare:
    name: RungName = "off"
    uid: int | None = None

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        # Processes are not counted: they would be counted together with everything else this user runs.
        return Launch(
            argv=(*limited(box.limits, processes=False), *argv),
            env=environment(box),
            cwd=box.workdir,
        )
