"""Where the error stands in an answer whose status says that it has none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from ...protocol import is_object

_WORDED = ("message", "Message", "detail", "msg", "error_msg", "error_message", "errorMessage")
"""Members of an answer that is nothing but the words of an error."""
_CODED = ("code", "error_code", "status", "status_code", "statusCode")
"""Members that an error may have beside such words, and an answer that counts tokens does not."""
_WELL = frozenset(("0", "200", "ok", "success"))
"""What these members say of an answer in a gateway's own envelope that has no error."""
_IS_ERROR = re.compile(r"(?:error|exception|fault)\Z", re.IGNORECASE)
"""What the name of a vendor's own member with an error ends with, as Bedrock's `throttlingException`."""


def error_in(event: Mapping[str, Any], name: str = "") -> Any:
    """Return the error in an event or a whole answer; None if it has none. `name` is that of the event."""
    if event.get("error"):
        error: object = event["error"]
        return error if is_object(error) or isinstance(error, list) else dict(event)  # pyright: ignore[reportUnknownVariableType]
    if "x_groq" in event and is_object(groq := event["x_groq"]) and groq.get("error"):
        return dict(groq)
    if "base_resp" in event and (base_resp_code(event) or 0) != 0:
        return dict(event)
    choices = event.get("choices")
    if isinstance(choices, list) and choices:
        return _error_of_choices(cast("list[Any]", choices))
    if name == "error" or "error" in (event.get("object"), event.get("type")) or event.get("errors"):
        return dict(event)
    return _worded_error(event)


def _worded_error(event: Mapping[str, Any]) -> Any:
    """Return the event if it only says what went wrong, or what a vendor's own member says of it."""
    codes = [str(event[member]).lower() for member in _CODED if member in event]
    if event.get("success") is True or (_WELL.issuperset(codes) if codes else event.get("usage")):
        return None
    if any(event.get(member) and isinstance(event[member], str | list) for member in _WORDED):
        return dict(event)
    named = (member for member, value in event.items() if is_object(value) and _IS_ERROR.search(member) is not None)
    return next(({"type": member, **event[member]} for member in named), None)


def _error_of_choices(choices: list[Any]) -> Any:
    """Return the first error in choices, in what they say, or beside it; None if there is none."""
    for choice in choices:
        if is_object(choice):
            for one in (choice, choice.get("delta"), choice.get("message")):
                if is_object(one) and one.get("error"):
                    return one["error"]
    return None


def base_resp_code(event: Mapping[str, Any]) -> int | None:
    """Return MiniMax's code in an event or an error; None if it has none."""
    inner = event.get("base_resp")
    code = inner.get("status_code") if is_object(inner) else None
    return code if isinstance(code, int) else None
