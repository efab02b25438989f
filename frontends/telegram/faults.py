"""What the Bot API refuses, as errors of the port.

Their texts never have an address in them, because the token is part of every address.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)

from ..platform import (
    AnotherCopy,
    ChatGone,
    MessageGone,
    PlatformError,
    TemporarilyUnavailable,
    TokenRejected,
)

_UNKNOWN_BOT = (
    "Telegram does not know the bot's token: take the one that @BotFather shows, and check the base URL if set"
)
# Telegram names its refusals by nothing but these texts.
_CHAT_GONE = (
    "chat not found",
    "peer_id_invalid",
    "user not found",
    "group chat was deactivated",
    "message thread not found",
    "topic_deleted",
    "topic_closed",
    "chat_write_forbidden",
    "not enough rights to send",
    "have no rights to send",
    "need administrator rights in the channel chat",
)
_MESSAGE_GONE = (
    "message to edit not found",
    "message can't be edited",
    "there is no text in the message to edit",
    "there is no caption in the message to edit",
    "message can't be deleted",
    "message_id_invalid",
    "message identifier is not specified",
)
_UNCHANGED = ("message is not modified", "message_not_modified")
_DELETED = ("message to delete not found",)
_TOO_LATE = ("query is too old", "query id is invalid", "query_id_invalid")
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Unchanged(PlatformError):
    """The message is the same already."""


class AlreadyDeleted(MessageGone):
    """The message that should be deleted is gone already."""


class TooLate(PlatformError):
    """A press was acknowledged later than Telegram allows."""


class WebhookSet(AnotherCopy):
    """The updates go to a webhook."""


@contextmanager
def translated(token: str) -> Generator[None]:
    """Raise PlatformError for what the library raises."""
    try:
        yield
    except TimeoutError:
        raise TemporarilyUnavailable("Telegram did not answer in time") from None
    except (TelegramError, LookupError, TypeError, ValueError, AttributeError) as error:
        # Without its cause, whose text has the address and so the token in it.
        raise as_platform_error(error, token) from None


def wait_asked(error: RetryAfter) -> float:
    """Return the seconds that Telegram asks to wait."""
    asked = error.retry_after
    return asked.total_seconds() if isinstance(asked, timedelta) else float(asked)


def as_platform_error(error: Exception, token: str) -> PlatformError:
    """Return the error of the port for one of the library, or for what its parser raises on an unreadable answer."""
    if not isinstance(error, TelegramError) or isinstance(error.__cause__, TelegramError):
        return _unreadable()
    reason = error.message.replace(token, "[redacted]")
    match error:
        case RetryAfter():
            seconds = wait_asked(error)
            return TemporarilyUnavailable(f"Telegram asks to wait {seconds:g} s", retry_after=seconds, refused=True)
        case InvalidToken():
            return TokenRejected(_UNKNOWN_BOT)
        case Conflict():
            return _conflict(error)
        case ChatMigrated() | Forbidden():
            return ChatGone(f"Telegram refuses the chat: {reason}")
        case BadRequest():
            return _bad_request(error, reason)
        case NetworkError():
            return _network_error(error, reason)
        case _:
            return _unreadable()


def _unreadable() -> PlatformError:
    return TemporarilyUnavailable("Telegram, or a proxy in front of it, gave an answer that cannot be read")


def _conflict(error: Conflict) -> PlatformError:
    if _says(error, ("webhook",)):
        return WebhookSet("the updates of this bot go to a webhook")
    return AnotherCopy("another process receives the updates of this bot")


def _bad_request(error: BadRequest, reason: str) -> PlatformError:
    if _says(error, _UNCHANGED):
        return Unchanged("the message is the same already")
    if _says(error, _DELETED):
        return AlreadyDeleted("the message is gone already")
    if _says(error, _TOO_LATE):
        return TooLate("it is too late to acknowledge the press")
    if _says(error, _CHAT_GONE):
        return ChatGone(f"Telegram refuses the chat: {reason}")
    if _says(error, _MESSAGE_GONE):
        return MessageGone(f"Telegram refuses the message: {reason}")
    return PlatformError(f"Telegram refused: {reason}")


def _network_error(error: NetworkError, reason: str) -> PlatformError:
    cause = error.__cause__
    if cause is not None:  # the transport's own text may have the address in it
        kind = type(cause).__name__
        return TemporarilyUnavailable(f"Telegram cannot be reached ({kind})", refused=isinstance(cause, _NOT_SENT))
    return TemporarilyUnavailable(f"Telegram has a fault: {reason}")


def _says(error: TelegramError, texts: tuple[str, ...]) -> bool:
    reason = error.message.lower()
    return any(text in reason for text in texts)
