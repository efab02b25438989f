"""The keys of the chat."""

from __future__ import annotations

from time import monotonic
from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyBindingsBase, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys

from .handler import Handler
from .menu import Menu, Picked

EXIT_SECONDS = 2.0
"""Seconds within which a second Ctrl-C exits."""


class Keyed(Protocol):
    """The screen, as keys change it."""

    handler: Handler
    input: Buffer
    answer: Buffer
    menu: Menu | None
    alert: str

    def pick(self, picked: Picked | None) -> None: ...
    def exit(self, code: int = 0) -> None: ...


def bindings(screen: Keyed) -> KeyBindingsBase:
    """Return the keys of the input and of menus."""
    return merge_key_bindings([InputKeys(screen).bindings(), MenuKeys(screen).bindings()])


class InputKeys:
    """The keys while a message is written."""

    def __init__(self, screen: Keyed) -> None:
        self._screen = screen
        self._buffer = screen.input
        self._interrupted = 0.0

    def bindings(self) -> KeyBindings:
        keys = KeyBindings()
        here = Condition(lambda: self._screen.menu is None)
        keys.add("enter", filter=here)(self._enter)
        keys.add("escape", "enter", filter=here)(self._new_line)
        keys.add("c-j", filter=here)(self._new_line)
        keys.add("tab", filter=here)(self._tab)
        keys.add("s-tab", filter=here)(self._back_tab)
        keys.add("escape", filter=here)(self._escape)
        keys.add("c-c", filter=here)(self._interrupt)
        keys.add("c-d", filter=here & Condition(lambda: not self._buffer.text))(self._leave)
        keys.add("c-l")(self._clear)
        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = self._buffer
        state = self._buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.complete_state = None
            if not buffer.text.startswith("/") and len(state.completions) > 1:
                return
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            self._new_line(event)
        elif buffer.text.strip():
            self._screen.handler.submit(self._taken())

    def _new_line(self, event: KeyPressEvent) -> None:
        self._buffer.insert_text("\n")

    def _tab(self, event: KeyPressEvent) -> None:
        buffer = self._buffer
        if (state := buffer.complete_state) is not None:
            buffer.complete_next()
            if len(state.completions) == 1:
                buffer.complete_state = None  # there is nothing else to choose
        elif self._screen.handler.busy and buffer.text.strip() and not buffer.text.startswith("/"):
            self._screen.handler.queue(self._taken())
        else:
            buffer.start_completion(select_first=True)

    def _back_tab(self, event: KeyPressEvent) -> None:
        if self._buffer.complete_state is not None:
            self._buffer.complete_previous()

    def _escape(self, event: KeyPressEvent) -> None:
        if self._buffer.complete_state is not None:
            self._buffer.cancel_completion()
        elif self._screen.handler.busy:
            self._screen.handler.stop()

    def _interrupt(self, event: KeyPressEvent) -> None:
        """Clear the input, else stop the turn; a second time in a row exits."""
        now = monotonic()
        if now - self._interrupted < EXIT_SECONDS:
            self._screen.exit()
            return
        if self._buffer.text:
            self._buffer.reset()
        elif self._screen.handler.busy:
            self._screen.handler.stop()
        self._interrupted = now
        self._screen.alert = "Ctrl-C again exits"

    def _leave(self, event: KeyPressEvent) -> None:
        self._screen.exit()

    def _clear(self, event: KeyPressEvent) -> None:
        event.app.renderer.clear()

    def _taken(self) -> str:
        """Take the text out of the input, into the history."""
        text = self._buffer.text.strip("\n")
        self._buffer.append_to_history()
        self._buffer.reset()
        return text


class MenuKeys:
    """The keys while a menu is open."""

    def __init__(self, screen: Keyed) -> None:
        self._screen = screen

    def bindings(self) -> KeyBindings:
        keys = KeyBindings()
        screen = self._screen
        here = Condition(lambda: screen.menu is not None)
        listed = Condition(lambda: screen.menu is not None and screen.menu.text_label is None)
        written = Condition(lambda: bool(screen.answer.text))
        ticking = Condition(lambda: screen.menu is not None and screen.menu.multiple and not screen.answer.text)
        guarded = Condition(lambda: screen.menu is not None and screen.menu.guarded)
        for key in ("up", "c-p"):
            keys.add(key, filter=here)(self._up)
        for key in ("down", "c-n"):
            keys.add(key, filter=here)(self._down)
        keys.add("s-tab", filter=here & ~guarded)(self._up)
        keys.add("tab", filter=here & ~guarded)(self._down)
        for key in ("escape", "c-c"):
            keys.add(key, filter=here)(self._close)
        keys.add("enter", filter=here)(self._enter)
        keys.add("c-d", filter=here & ~guarded & ~written)(self._leave)
        keys.add(Keys.Any, filter=listed)(self._press)
        keys.add(Keys.Any, filter=guarded)(self._ignore)
        keys.add(Keys.BracketedPaste, filter=listed | guarded)(self._ignore)
        keys.add(" ", filter=ticking)(self._tick)
        return keys

    def _up(self, event: KeyPressEvent) -> None:
        self._move(-1)

    def _down(self, event: KeyPressEvent) -> None:
        self._move(1)

    def _move(self, by: int) -> None:
        """Move the cursor, away from the choice of a key, which is then not in front of it any more."""
        if (menu := self._screen.menu) is None:
            return
        if menu.typed and not menu.in_words:
            self._screen.answer.text = ""
        menu.move(by)

    def _tick(self, event: KeyPressEvent) -> None:
        if self._screen.menu:
            self._screen.menu.tick()

    def _press(self, event: KeyPressEvent) -> None:
        if self._screen.menu and (picked := self._screen.menu.press(event.data)):
            self._screen.pick(picked)

    def _enter(self, event: KeyPressEvent) -> None:
        if self._screen.menu and (picked := self._screen.menu.enter(self._screen.answer.text)):
            self._screen.pick(picked)

    def _close(self, event: KeyPressEvent) -> None:
        self._screen.pick(None)

    def _leave(self, event: KeyPressEvent) -> None:
        self._screen.exit()

    def _ignore(self, event: KeyPressEvent) -> None:
        """Text that is meant for a message, or is pasted where none can be typed, chooses nothing."""
