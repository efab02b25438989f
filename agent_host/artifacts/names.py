"""Which names and media types artifacts may have."""

from __future__ import annotations

import re

from agent_common.protocol import MAX_ARTIFACT_NAME

from ..errors import InvalidRequest

UNKNOWN_TYPE = "application/octet-stream"
_MAX_MEDIA_TYPE = 200
_TOKEN = r"[A-Za-z0-9!#$&^_.+'*%`|~-]+"  # noqa: S105  RFC 9110 calls a word so
_MEDIA_TYPE = re.compile(rf'{_TOKEN}/{_TOKEN}(?:[ \t]*;[ \t]*{_TOKEN}=(?:{_TOKEN}|"[^"\\\x00-\x1f\x7f-\U0010ffff]*"))*')


def check_name(name: str) -> str:
    """Return the name. Raises InvalidRequest: a name must have one reading only, and lead nowhere as a path."""
    if not 0 < len(name) <= MAX_ARTIFACT_NAME:
        why = f"must have 1 to {MAX_ARTIFACT_NAME} characters"
    elif not name.isprintable() or "\\" in name:
        why = "must have printable characters only, and no backslash"
    elif any(part in ("", ".", "..") for part in name.split("/")):
        why = "must have no empty part, `.` or `..` between slashes, nor a slash at an end"
    else:
        return name
    raise InvalidRequest.from_faults([("name", why)])


def check_prefix(prefix: str, field: str) -> str:
    """Return the beginning of names, or a name to go on after. Raises InvalidRequest that names the field."""
    if len(prefix) > MAX_ARTIFACT_NAME or not prefix.isprintable():
        raise InvalidRequest.from_faults([(field, f"must have at most {MAX_ARTIFACT_NAME} printable characters")])
    return prefix


def check_media_type(given: list[str]) -> str:
    """Return the media type of the headers `Content-Type`; without one it is unknown. Raises InvalidRequest."""
    if not given:
        return UNKNOWN_TYPE
    if len(given) > 1 or len(given[0]) > _MAX_MEDIA_TYPE or not _MEDIA_TYPE.fullmatch(given[0]):
        why = f"must be one media type of at most {_MAX_MEDIA_TYPE} characters, such as text/csv"
        raise InvalidRequest.from_faults([("Content-Type", why)])
    return given[0]
