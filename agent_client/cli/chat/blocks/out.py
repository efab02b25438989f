"""Where blocks go."""

from __future__ import annotations

from typing import Protocol

from rich.console import RenderableType


class Out(Protocol):
    """Where blocks are printed."""

    def print(self, block: RenderableType, *, apart: bool = True) -> None:
        """Print a block, after an empty line if it stands apart."""
        ...
