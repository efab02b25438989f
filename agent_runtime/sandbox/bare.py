"""No confinement: the command runs as the server's own user and sees what the server sees.

Only the environment is scrubbed and the resources are limited. It is taken on the operator's explicit wish (`off`), and
for the product's own helpers where no better rung works.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from .box import Box
from .rung import Launch, RungName, environment, limited, program

# Waits for the server to close its end of the pipe, or to die, and then kills its own process group: the command's.
# In bash, because plain shells know descriptors up to 9 only.
LIFELINE = '{{ read -r _; kill -KILL 0; }} <&{fd} >/dev/null 2>&1 & exec {fd}<&-; exec "$@"'


@dataclass(frozen=True, slots=True)
class Bare:
    name: RungName = "off"
    uid: int | None = None

    def launch(self, argv: Sequence[str], box: Box) -> Launch:
        # Processes are not counted: they would be counted together with everything else this user runs.
        held = (*limited(box.limits, processes=False), *argv)
        shell = program("bash")
        reading, writing = os.pipe()
        return Launch(
            argv=(shell, "-c", LIFELINE.format(fd=reading), shell, *held),
            env=environment(box),
            cwd=box.workdir,
            fds=(reading,),
            lifeline=writing,
        )
