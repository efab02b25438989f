"""Refusals of the Bot API become errors of the port, without the token."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)

from frontends.platform import (
    AnotherCopy,
    ChatGone,
    MessageGone,
    PlatformError,
    TemporarilyUnavailable,
    TokenRejected,
)
from frontends.telegram.faults import AlreadyDeleted, TooLate, Unchanged, WebhookSet, translated

TOKEN = "1234:secret"
COPY = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
WEBHOOK = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"


def raised(error: Exception) -> PlatformError:
    with pytest.raises(PlatformError) as found, translated(TOKEN):
        raise error
    assert TOKEN not in str(found.value)
    assert found.value.__cause__ is None
    assert found.value.__suppress_context__
    return found.value


def caused(error: TelegramError, cause: Exception) -> TelegramError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidToken(f"The token `{TOKEN}` was rejected by the server."), TokenRejected),
        (Conflict(COPY), AnotherCopy),
        (Conflict(WEBHOOK), WebhookSet),
        (ChatMigrated(-100), ChatGone),
        (Forbidden("Forbidden: bot was blocked by the user"), ChatGone),
        (BadRequest("Chat not found"), ChatGone),
        (BadRequest("Bad Request: message thread not found"), ChatGone),
        (BadRequest("Not enough rights to send text messages to the chat"), ChatGone),
        (BadRequest("Message is not modified: specified new message content and ..."), Unchanged),
        (BadRequest("Message to edit not found"), MessageGone),
        (BadRequest("Message can't be edited"), MessageGone),
        (BadRequest("There is no text in the message to edit"), MessageGone),
        (BadRequest("Message to delete not found"), AlreadyDeleted),
        (BadRequest("Message can't be deleted for everyone"), MessageGone),
        (BadRequest("Query is too old and response timeout expired or query ID is invalid"), TooLate),
        (BadRequest(f"Message is too long {TOKEN}"), PlatformError),
        (NetworkError("Bad Gateway"), TemporarilyUnavailable),
        (caused(BadRequest("Bad Request (400). Parsing ... failed"), TelegramError("x")), TemporarilyUnavailable),
        (caused(InvalidToken("Not Found (404). Parsing ... failed"), TelegramError("x")), TemporarilyUnavailable),
        (caused(TimedOut(), httpx.ReadTimeout(f"http://h/bot{TOKEN}/x")), TemporarilyUnavailable),
        (TelegramError("Invalid server response"), TemporarilyUnavailable),
        (KeyError("result"), TemporarilyUnavailable),
        (AttributeError("'list' object has no attribute 'get'"), TemporarilyUnavailable),
        (TimeoutError(), TemporarilyUnavailable),
    ],
)
def test_kinds(error: Exception, kind: type[PlatformError]) -> None:
    assert type(raised(error)) is kind


@pytest.mark.parametrize(
    ("error", "refused", "retry_after"),
    [
        (RetryAfter(7), True, 7.0),
        (caused(NetworkError("x"), httpx.ConnectError(f"http://h/bot{TOKEN}")), True, None),
        (caused(TimedOut(), httpx.PoolTimeout("x")), True, None),
        (caused(NetworkError("x"), httpx.ReadError("x")), False, None),
        (NetworkError("Internal Server Error"), False, None),
    ],
)
def test_whether_the_call_may_have_had_its_effect(error: Exception, refused: bool, retry_after: Any) -> None:
    found = raised(error)
    assert isinstance(found, TemporarilyUnavailable)
    assert (found.refused, found.retry_after) == (refused, retry_after)
