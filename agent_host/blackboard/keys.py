"""Which keys entries may have."""

from __future__ import annotations

from agent_common.protocol import MAX_KEY

from ..errors import InvalidRequest

WATCH = "watch"
_SUFFIXES = ("claim", "history")


def check_key(key: str) -> str:
    """Return the key. Raises InvalidRequest: a key must have one reading only, whatever passes its address on."""
    parts = key.split("/")
    if not 0 < len(key) <= MAX_KEY:
        why = f"must have 1 to {MAX_KEY} characters"
    elif not key.isprintable():
        why = "must have printable characters only"
    elif any(part in ("", ".", "..") for part in parts):
        why = "must have no empty part, `.` or `..` between slashes, nor a slash at an end"
    elif key == WATCH or (len(parts) > 1 and parts[-1] in _SUFFIXES):
        why = f"must not be `{WATCH}`, nor end in {' or '.join(f'`/{one}`' for one in _SUFFIXES)}: these are routes"
    else:
        return key
    raise InvalidRequest.from_faults([("key", why)])


def check_prefix(prefix: str, field: str = "prefix") -> str:
    """Return the beginning of keys, or a key to go on after. Raises InvalidRequest."""
    if len(prefix) > MAX_KEY or not (prefix.isprintable()):
        raise InvalidRequest.from_faults([(field, f"must have at most {MAX_KEY} printable characters")])
    return prefix
