"""What the screen asks of the chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.console import RenderableType


class Handler(Protocol):
    """What the keys of the chat do."""

    def submit(self, text: str) -> None: ...
    def queue(self, text: str) -> None: ...
    def stop(self) -> None: ...

    @property
    def busy(self) -> bool: ...

    def live(self) -> Sequence[RenderableType]:
        """The blocks above the input, as they are now."""
        ...

    def status(self, width: int) -> StyleAndTextTuples:
        """The line below the input."""
        ...
