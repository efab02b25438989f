"""What Discord answers when it refuses a request: an HTTP status and a JSON error code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError


class Refused(Exception):
    """The answer to a request that Discord refuses."""

    def __init__(self, status: int, code: int, message: str, errors: dict[str, Any] | None = None) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.errors = errors

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"message": self.message, "code": self.code}
        return body | ({"errors": self.errors} if self.errors else {})


class Limited(Refused):
    """A rate limit: the bot may come again after some seconds."""

    def __init__(self, retry_after: float, *, everywhere: bool) -> None:
        super().__init__(429, 0, "You are being rate limited.")
        self.retry_after = retry_after
        self.everywhere = everywhere

    @property
    def body(self) -> dict[str, Any]:
        return {"message": self.message, "retry_after": self.retry_after, "global": self.everywhere}


def unauthorized() -> Refused:
    return Refused(401, 0, "401: Unauthorized")


def no_such_route() -> Refused:
    return Refused(404, 0, "404: Not Found")


def unknown_channel() -> Refused:
    return Refused(404, 10003, "Unknown Channel")


def unknown_guild() -> Refused:
    return Refused(404, 10004, "Unknown Guild")


def unknown_member() -> Refused:
    return Refused(404, 10007, "Unknown Member")


def unknown_message() -> Refused:
    return Refused(404, 10008, "Unknown Message")


def unknown_user() -> Refused:
    return Refused(404, 10013, "Unknown User")


def unknown_webhook() -> Refused:
    return Refused(404, 10015, "Unknown Webhook")


def unknown_interaction() -> Refused:
    return Refused(404, 10062, "Unknown interaction")


def too_large() -> Refused:
    return Refused(413, 40005, "Request entity too large")


def already_acknowledged() -> Refused:
    return Refused(400, 40060, "Interaction has already been acknowledged.")


def missing_access() -> Refused:
    return Refused(403, 50001, "Missing Access")


def another_author() -> Refused:
    return Refused(403, 50005, "Cannot edit a message authored by another user")


def empty_message() -> Refused:
    return Refused(400, 50006, "Cannot send an empty message")


def cannot_message_user() -> Refused:
    return Refused(403, 50007, "Cannot send messages to this user")


def missing_permissions() -> Refused:
    return Refused(403, 50013, "Missing Permissions")


def wrong_channel_type() -> Refused:
    return Refused(400, 50024, "Cannot execute action on this channel type")


def invalid_webhook_token() -> Refused:
    return Refused(401, 50027, "Invalid Webhook Token")


def archived_thread() -> Refused:
    return Refused(400, 50083, "Thread is archived")


def invalid_json() -> Refused:
    return Refused(400, 50109, "The request body contains invalid JSON.")


def invalid_form(path: Sequence[str | int], code: str, message: str) -> Refused:
    """One field of the body is wrong: 50035 with the tree of errors that leads to the field."""
    return invalid_fields([(path, code, message)])


def invalid_fields(found: Sequence[tuple[Sequence[str | int], str, str]]) -> Refused:
    tree: dict[str, Any] = {}
    for path, code, message in found:
        node = tree
        for step in path:
            node = node.setdefault(str(step), {})
        node.setdefault("_errors", []).append({"code": code, "message": message})
    return Refused(400, 50035, "Invalid Form Body", tree)


def invalid_body(error: ValidationError) -> Refused:
    """What pydantic found, in the words of Discord."""
    return invalid_fields([(one["loc"], *_in_words_of_discord(one["type"], one)) for one in error.errors()])


def _in_words_of_discord(kind: str, error: Any) -> tuple[str, str]:
    limits = error.get("ctx", {})
    match kind:
        case "missing":
            return "BASE_TYPE_REQUIRED", "This field is required"
        case "string_too_long" | "too_long":
            return "BASE_TYPE_MAX_LENGTH", f"Must be {limits['max_length']} or fewer in length."
        case "string_too_short" | "too_short":
            return "BASE_TYPE_MIN_LENGTH", f"Must be {limits['min_length']} or more in length."
        case "string_pattern_mismatch":
            return "STRING_TYPE_REGEX", "String value did not match validation regex."
        case "literal_error" | "enum":
            return "BASE_TYPE_CHOICES", f"Value must be one of ({limits['expected']})."
        case "value_error":
            code, _, message = str(limits["error"]).partition(": ")
            return code, message
        case _ if kind.startswith("int"):
            return "NUMBER_TYPE_COERCE", f'Value "{error["input"]}" is not int.'
        case _:
            return "BASE_TYPE_BAD_TYPE", error["msg"]
