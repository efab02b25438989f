"""The screen of the chat: the input, the menu that may take its place, and the live lines above it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from time import monotonic
from typing import Any

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import AfterInput, ConditionalProcessor
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from ..blocks import POINTER, Marked, Paper
from .application import BottomArea, open_output
from .completion_list import drawn_completions
from .handler import Handler
from .keys import bindings
from .menu import Menu, Picked
from .typed_ahead import typed_ahead

INPUT_LINES = 10
TEXT_ROWS = 3
"""Of a text that is typed into a menu."""
TYPING_SECONDS = 0.6
"""A menu waits for a pause in typing, so that no key that was meant for a message answers it."""
TICK_SECONDS = 0.1


class Screen:
    """Draws the bottom of the terminal and reads keys until `exit`. `handler` must be set before `run`."""

    handler: Handler

    def __init__(self, completer: Completer, history: History) -> None:
        self._paper = Paper()
        self.menu: Menu | None = None
        self.alert = ""
        """Replaces the status line until the next key."""
        self._picked: asyncio.Future[Picked | None] | None = None
        self._one_menu = asyncio.Lock()
        self._last_key = 0.0
        self.input = Buffer(
            completer=completer, complete_while_typing=True, history=history, multiline=True, enable_history_search=True
        )
        self.answer = Buffer(multiline=False, on_text_changed=self._answer_typed)
        """What is typed into a menu."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._input_window = self._text_window(self.input, INPUT_LINES)
        self._answer_window = self._text_window(self.answer, TEXT_ROWS, bar="▌ ")
        self._menu_control = FormattedTextControl(self._menu_text, focusable=True, show_cursor=False)
        self._menu_window = Window(self._menu_control, dont_extend_height=True)
        self.app = BottomArea(self._layout(), bindings(self), open_output())
        self.app.key_processor.before_key_press.add_handler(self._key_pressed)

    # ---------------------------------------------------------------- what the chat calls

    async def run(self) -> int:
        """Read keys until `exit`."""
        ticking = asyncio.create_task(self._tick())
        store_typeahead(self.app.input, [*typed_ahead(self.app.input.fileno())])
        try:
            code = await self.app.run_async(handle_sigint=False)
        finally:
            for task in (ticking, *self._tasks):
                task.cancel()
        if self._failure is not None:
            raise self._failure
        return code

    def exit(self, code: int = 0) -> None:
        if not self.app.is_done:
            self.app.exit(result=code)

    def put(self, text: str) -> None:
        """Put a text into the input, to be changed and sent."""
        self.input.document = Document(text)
        self.changed()

    def print(self, block: RenderableType, *, apart: bool = True) -> None:
        """Print a block into the scrollback."""
        self.app.print_above(("\n" if apart else "") + self._paper.ansi(block, self._width))

    def changed(self) -> None:
        """Draw again, soon."""
        self.app.invalidate()

    async def choose(self, menu: Menu, *, follows: bool = False) -> Picked | None:
        """Show a menu in place of the input, one at a time, and return what is chosen; None after Escape. Over a
        message that is being written it is guarded, unless it `follows` from what the person chose in another one."""
        async with self._one_menu:
            while (pause := self._last_key + TYPING_SECONDS - monotonic()) > 0:  # noqa: ASYNC110  silence is no event
                await asyncio.sleep(pause)
            menu.guarded = bool(self.input.text) and not follows
            self.menu = menu
            self._picked = asyncio.get_running_loop().create_future()
            if self._menu_lines(menu)[1]:
                self.print(Marked("  ", "", menu.title))
            self.answer.reset()
            menu.type("")
            self.app.layout.focus(self._menu_window if menu.text_label is None else self._answer_window)
            self.changed()
            try:
                return await self._picked
            finally:
                self.menu = self._picked = None
                self.app.layout.focus(self._input_window)
                self.changed()

    def pick(self, picked: Picked | None) -> None:
        """End the menu."""
        if self._picked is not None and not self._picked.done():
            self._picked.set_result(picked)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine beside the screen, at most until its end. An error that it lets through ends the screen."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
            self.exit(1)

    # ---------------------------------------------------------------- layout

    def _layout(self) -> Layout:
        in_menu = Condition(lambda: self.menu is not None)
        typing = Condition(lambda: self.menu is not None and self.menu.text_label is not None)
        completing = Condition(lambda: self.menu is None and self.input.complete_state is not None)
        completions = FormattedTextControl(lambda: drawn_completions(self.input.complete_state, self._width))
        return Layout(
            HSplit(
                [
                    Window(FormattedTextControl(self._live_text), dont_extend_height=True),
                    ConditionalContainer(self._menu_window, in_menu),
                    ConditionalContainer(self._answer_window, typing),
                    ConditionalContainer(self._input_window, ~in_menu),
                    ConditionalContainer(Window(completions, dont_extend_height=True), completing),
                    ConditionalContainer(Window(FormattedTextControl(self._status_text), height=1), ~completing),
                ]
            ),
            focused_element=self._input_window,
        )

    def _text_window(self, buffer: Buffer, height: int, bar: str = "") -> Window:
        empty = Condition(lambda: not buffer.text)
        placeholder = ConditionalProcessor(AfterInput(self._placeholder, style="class:placeholder"), empty)

        def drawn_prefix(line: int, wrapped: int) -> AnyFormattedText:
            return [("class:bar", bar), ("class:prompt", POINTER if line == wrapped == 0 else "  ")]

        return Window(
            BufferControl(buffer, input_processors=[placeholder], focus_on_click=False),
            get_line_prefix=drawn_prefix,
            height=Dimension(min=1, max=height),
            dont_extend_height=True,
            wrap_lines=True,
        )

    def _placeholder(self) -> str:
        if self.menu is not None:
            return self.menu.text_label or ""
        return "Enter steers, Tab queues, Esc stops" if self.handler.busy else "Message, / for commands, @ for files"

    def _live_text(self) -> AnyFormattedText:
        """The end of what is live, so much of it as there is space for."""
        lines: list[str] = []
        for block in self.handler.live():
            lines += self._paper.ansi(block, self._width).split("\n")[:-1]
        space = self._rows // 2
        if self.menu is not None:
            space = max(min(space, self._rows - len(self._menu_lines(self.menu)[0]) - 3), 1)
        return ANSI("\n".join(lines[-space:]))

    def _menu_text(self) -> AnyFormattedText:
        return ANSI("\n".join(self._menu_lines(self.menu)[0])) if self.menu is not None else ""

    def _menu_lines(self, menu: Menu) -> tuple[list[str], bool]:
        """Return the menu, and whether the middle of its title is left out because the terminal is too low. It is then
        printed above as a whole, so that a person sees everything before they allow it."""
        title = self._paper.ansi(menu.drawn_title(), self._width).split("\n")[:-1]
        choices = self._paper.ansi(menu.drawn_choices(), self._width).split("\n")[:-1]
        space = max(self._rows - len(choices) - 3 - self._text_rows(menu), 3)
        left = len(title) - space
        if left <= 0:
            return title + choices, False
        note = menu.bar(Text(f"… {left + 1} lines, which are above …", "warn"))
        head = (space - 1) // 2
        lines = [*title[:head], self._paper.ansi(note, self._width).rstrip("\n"), *title[head + left + 1 :]]
        return lines + choices, True

    def _text_rows(self, menu: Menu) -> int:
        """Return how much is kept for a text: under a call, which is to be seen, as much as it has."""
        if menu.text_label is None:
            return 0
        if menu.text_choice is None:
            return TEXT_ROWS
        return min(1 + cell_len(menu.typed) // max(self._width - 4, 1), TEXT_ROWS)

    def _status_text(self) -> StyleAndTextTuples:
        if self.alert:
            return [("ansiyellow", f"  {self.alert}")]
        return self.handler.status(self._width)

    @property
    def _width(self) -> int:
        return self.app.output.get_size().columns

    @property
    def _rows(self) -> int:
        return self.app.output.get_size().rows

    def _answer_typed(self, answer: Buffer) -> None:
        if self.menu is not None:
            self.menu.type(answer.text)

    def _key_pressed(self, _: KeyProcessor) -> None:
        self._last_key = monotonic()
        self.alert = ""

    async def _tick(self) -> None:
        """Draw again while something runs, for its times."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self.handler.busy and self.menu is None:
                self.app.invalidate()
