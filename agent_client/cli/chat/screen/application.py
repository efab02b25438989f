"""The application of prompt_toolkit: an area at the bottom that is drawn anew, and the terminal's own scrollback above.

What is printed and the area below it reach the terminal as one frame, so nothing flickers.
"""

from __future__ import annotations

import os
import sys
from typing import Any, cast

from prompt_toolkit.application import Application
from prompt_toolkit.key_binding import KeyBindingsBase
from prompt_toolkit.layout import Layout
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

BEGIN_FRAME = "\x1b[?2026h"
END_FRAME = "\x1b[?2026l"
"""Terminals that know this show a frame as a whole; others ignore it."""
ERASE_DOWN = "\x1b7\x1b[K\x1b[B\x1b[1K\x1b[J\x1b8"
"""The line, and from the next line on, where the cursor then returns from."""
FRAME_SECONDS = 0.04
STYLE = Style.from_dict({"placeholder": "ansibrightblack", "prompt": "ansicyan bold", "bar": "ansiyellow"})


class FrameOutput(Vt100_Output):
    """The terminal, as it is written to."""

    @property
    def responds_to_cpr(self) -> bool:
        """It is not asked where its cursor is: many terminals do not answer in time."""
        return False

    def erase_down(self) -> None:
        """Erase from the cursor, which is in the first column, in two pieces: of a screen that is erased as a whole a
        multiplexer keeps a copy in its scrollback."""
        self.write_raw(ERASE_DOWN)


def open_output() -> FrameOutput:
    """Return the terminal of this process."""
    return cast(FrameOutput, FrameOutput.from_pty(sys.stdout, os.environ.get("TERM"), ColorDepth.from_env()))


class BottomArea(Application[int]):
    """Prints above itself, and survives a terminal that becomes narrower."""

    def __init__(self, layout: Layout, bindings: KeyBindingsBase, terminal: FrameOutput) -> None:
        super().__init__(
            layout=layout,
            key_bindings=bindings,
            style=STYLE,
            full_screen=False,
            erase_when_done=True,
            min_redraw_interval=FRAME_SECONDS,
            output=terminal,
            before_render=lambda _: self._print_pending(),
            after_render=lambda _: self._end_frame(),
        )
        self.ttimeoutlen = 0.05  # of an Escape that is alone
        self.timeoutlen = 0.1  # of an Escape that may be followed by another key
        self._lines: list[str] = []
        self._columns = self.output.get_size().columns
        self._in_frame = False

    def print_above(self, lines: str) -> None:
        """Print lines into the scrollback, with the next frame."""
        self._lines.append(lines)
        self.invalidate()

    def _print_pending(self) -> None:
        self._columns = self.output.get_size().columns
        self._in_frame = True
        self.output.write_raw(BEGIN_FRAME)
        if self._lines:
            self.renderer.erase(leave_alternate_screen=False)
            self.output.write_raw("".join(self._lines).replace("\n", "\r\n"))
            self._lines.clear()

    def _end_frame(self) -> None:
        if self._in_frame:
            self._in_frame = False
            self.output.write_raw(END_FRAME)
            self.output.flush()

    def _on_resize(self) -> None:
        """Terminals wrap lines that have become too long, so the area is higher by as many rows: start above them."""
        columns = self.output.get_size().columns
        screen = self.renderer.last_rendered_screen
        if screen is not None and 0 < columns < self._columns:
            cursor: Any = screen.get_cursor_position(self.layout.current_window)
            extra = 0
            for row in range(cursor.y):
                cells = screen.data_buffer[row]
                width = max((at for at, char in cells.items() if char.char.strip()), default=0) + 1
                extra += (width - 1) // columns
            self.output.cursor_up(extra + min(cursor.x, self._columns) // columns)
        self._columns = columns
        super()._on_resize()
