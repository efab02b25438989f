"""The state of the double: everything that exists, the sessions of the gateway, and one lock for all of it."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ..faults import Faults
from . import intents
from .entities import JSON, Account, Attachment, Bot, Channel, Guild, Interaction, Message
from .errors import Refused, unknown_channel, unknown_guild, unknown_message
from .sessions import Session

_EPOCH_MS = 1420070400000
T = TypeVar("T")
Payload = Callable[[Bot, bool], JSON]
"""Gives the body of an event for a bot, which sees the contents of messages or does not."""


class World:
    """Change it under `lock`, and call `changed` after a change that a test may wait for."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.lock = threading.RLock()
        self.base_url = ""
        self.gateway_url = ""
        self.accounts: dict[int, Account] = {}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, Channel] = {}
        self.messages: dict[int, Message] = {}
        self.attachments: dict[int, Attachment] = {}
        self.interactions: dict[str, Interaction] = {}
        """By token."""
        self.closed_to_bots: set[int] = set()
        """People who take no private messages of bots."""
        self.sessions: list[Session] = []
        self.later: Callable[[float, Callable[[], None]], None] = lambda _seconds, _call: None
        """Calls a function after a time; set while the server runs."""
        self._condition = threading.Condition(self.lock)
        self._last_id = 0

    # ---------------------------------------------------------------- waiting

    def changed(self) -> None:
        """Wake those who wait."""
        with self.lock:
            self._condition.notify_all()

    def wait_for(self, predicate: Callable[[], T | None], seconds: float) -> T:
        """Block until the predicate gives something true, and return that. Raises TimeoutError."""
        with self.lock:
            found = self._condition.wait_for(predicate, seconds)
            if not found:
                raise TimeoutError(f"after {seconds:g} s it has not happened; the newest messages: {self._newest()}")
            return found

    def _newest(self) -> list[str]:
        newest = list(self.messages.values())[-5:]
        return [f"{each.author.name} in {each.channel.kind} {each.channel.name}: {each.content!r}" for each in newest]

    # ---------------------------------------------------------------- ids

    def new_id(self) -> int:
        """A snowflake, greater than all before it."""
        number = (time.time_ns() // 1_000_000 - _EPOCH_MS) << 22
        self._last_id = max(number, self._last_id + 1)
        return self._last_id

    def new_token(self) -> str:
        return secrets.token_urlsafe(32)

    # ---------------------------------------------------------------- finding

    def bot_of(self, token: str) -> Bot | None:
        """The bot with a token that has not been revoked."""
        bots = (each for each in self.accounts.values() if isinstance(each, Bot))
        return next((bot for bot in bots if bot.token == token and not bot.revoked), None)

    def channel(self, number: int, viewer: Bot) -> Channel:
        """A channel that a bot may see. Raises Refused."""
        found = self.channels.get(number)
        if found is None or found.deleted or (found.parent is not None and found.parent.deleted):
            raise unknown_channel()
        if not found.visible_to(viewer):
            raise Refused(403, 50001, "Missing Access")
        return found

    def guild(self, number: int, viewer: Bot) -> Guild:
        """A guild that a bot is in. Raises Refused."""
        found = self.guilds.get(number)
        if found is None or viewer.id not in found.members:
            raise unknown_guild()
        return found

    def message(self, channel: Channel, number: int) -> Message:
        """A message that everyone in the channel sees. Raises Refused."""
        found = self.messages.get(number)
        if found is None or found.deleted or found.channel is not channel or found.only_for:
            raise unknown_message()
        return found

    # ---------------------------------------------------------------- events

    def publish(self, name: str, payload: Payload, *, channel: Channel, intent: tuple[int, int]) -> None:
        """Send an event to the bots in a channel; `intent` is that of a guild and that of a private chat."""
        wanted = intent[1] if channel.kind == "dm" else intent[0]
        for session in self._live_sessions():
            if session.intents & wanted == wanted and channel.visible_to(session.bot):
                self._deliver(session, name, payload(session.bot, bool(session.intents & intents.MESSAGE_CONTENT)))
        self.changed()

    def publish_to(self, bot: Bot, name: str, data: JSON, intent: int = 0) -> None:
        """Send an event to all sessions of a bot."""
        for session in self._live_sessions():
            if session.bot is bot and session.intents & intent == intent:
                self._deliver(session, name, data)
        self.changed()

    def _live_sessions(self) -> list[Session]:
        self.sessions = [each for each in self.sessions if not each.expired]
        return list(self.sessions)

    def _deliver(self, session: Session, name: str, data: JSON) -> None:
        match self.faults.of_event():
            case "twice":
                session.dispatch(name, data)
                session.dispatch(name, data)
            case "late":
                session.hold(name, data)
                self.later(self.faults.late_seconds, lambda: self._flush(session))
            case _:
                session.dispatch(name, data)

    def _flush(self, session: Session) -> None:
        with self.lock:
            session.flush()

    def end_session(self, session: Session) -> None:
        """Forget a session: it cannot be resumed."""
        if session in self.sessions:
            self.sessions.remove(session)
