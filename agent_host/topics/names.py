"""Which names topics may have, and which ids messages."""

from __future__ import annotations

import re

from ..errors import InvalidRequest

MAX_NAME = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")


def check_name(name: str, field: str = "name") -> str:
    """Return the name of a topic. Raises InvalidRequest that names the field."""
    if not _NAME.fullmatch(name):
        why = f"must be 1 to {MAX_NAME} letters, digits, `.`, `_`, `:` or `-`, and begin with a letter or digit"
        raise InvalidRequest.from_faults([(field, why)])
    return name


def check_message_id(message_id: str) -> str:
    """Return the id that a caller has given its message. Raises InvalidRequest."""
    if not message_id.isprintable():
        raise InvalidRequest.from_faults([("id", "must have printable characters only")])
    return message_id
