"""How the two ends agree on the protocol's extensions, and how guest and host prove who they are."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

EPOCH_ZERO = 0
"""The epoch of an attachment that no host has welcomed."""
MAX_WINDOW = 1024
MIN_MAX_LINE = 1024
_OFFER = re.compile(r"(?:^|\s)med/1((?:\s+[a-z][a-z0-9_]*=\S+)+)")
_SID = re.compile(r"[A-Za-z0-9_-]{8,128}")


@dataclass(frozen=True, slots=True)
class Offer:
    """A guest's offer of extensions, in the free text of its `ready` signal: `med/1 win=<n> max=<bytes> sid=<id>`,
    `epoch=<n>` if it was attached before, and `tasks=1` if it reports the ends of all its tasks. Hosts ignore
    names that they do not know."""

    window: int
    """Most requests that the guest works on at the same time."""
    max_line: int
    """Bytes of the longest line that the guest accepts."""
    sid: str
    """A random name of this connection, so that two copies of a guest never share one."""
    epoch: int = EPOCH_ZERO
    """Epoch of the guest's last attachment, by which the host recognizes the older of two copies of a guest."""
    task_results: bool = False
    """Whether the guest sends `task_result` to a host that takes it."""
    api: bool = False
    """Whether the guest opens connections by which the host reaches its HTTP API."""

    def __str__(self) -> str:
        last = f" epoch={self.epoch}" if self.epoch else ""
        flags = "".join(f" {name}=1" for name, on in (("tasks", self.task_results), ("api", self.api)) if on)
        return f"med/1 win={self.window} max={self.max_line} sid={self.sid}{last}{flags}"

    @classmethod
    def parse(cls, detail: str | None) -> Offer | None:
        """Parse an offer. Returns None if the text has none, or one that is malformed."""
        found = _OFFER.search(detail or "")
        if found is None:
            return None
        given = dict(pair.split("=", 1) for pair in found[1].split())
        window = given.get("win", "1")
        size = given.get("max", "1048576")
        sid = given.get("sid", "")
        epoch = given.get("epoch", "0")
        if not (_number(window) and _number(size) and _number(epoch) and _SID.fullmatch(sid)):
            return None
        if int(window) < 1 or int(size) < MIN_MAX_LINE:
            return None
        flags = {"task_results": given.get("tasks") == "1", "api": given.get("api") == "1"}
        return cls(min(int(window), MAX_WINDOW), int(size), sid, int(epoch), **flags)


def _number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 16


def new_sid() -> str:
    """Return a new `sid` from the system's random source, because a restored or forked guest must not repeat one."""
    return secrets.token_urlsafe(16)


def new_challenge() -> str:
    return secrets.token_urlsafe(24)


def compute_mac(key: bytes, *, challenge: str, sid: str, agent_id: str, epoch: int) -> str:
    """Return the hex HMAC-SHA256 that answers a challenge (docs/protocols/mediation.md#3-who-is-who). White space at
    the ends of `key` is stripped."""
    text = f"med/1\n{challenge}\n{sid}\n{agent_id}\n{epoch}"
    return hmac.new(key.strip(), text.encode(), hashlib.sha256).hexdigest()


def verify_mac(mac: str, key: bytes, *, challenge: str, sid: str, agent_id: str, epoch: int) -> bool:
    """Check a MAC in constant time. Returns False for an empty key, which proves nothing."""
    if not key.strip():
        return False
    expected = compute_mac(key, challenge=challenge, sid=sid, agent_id=agent_id, epoch=epoch)
    return hmac.compare_digest(mac.encode("utf-8", "replace"), expected.encode())


def compute_host_mac(key: bytes, *, challenge: str | None, sid: str, agent_id: str, epoch: int) -> str:
    """Return the MAC by which a `welcome` proves that the host has the workspace's key. Its first line is not that of
    `compute_mac`: no answer of a guest is ever a host's proof."""
    text = f"med/1 host\n{challenge or ''}\n{sid}\n{agent_id}\n{epoch}"
    return hmac.new(key.strip(), text.encode(), hashlib.sha256).hexdigest()


def verify_host_mac(mac: str | None, key: bytes, *, challenge: str | None, sid: str, agent_id: str, epoch: int) -> bool:
    """Check a host's proof in constant time. Returns False for an empty key, which proves nothing."""
    if mac is None or not key.strip():
        return False
    expected = compute_host_mac(key, challenge=challenge, sid=sid, agent_id=agent_id, epoch=epoch)
    return hmac.compare_digest(mac.encode("utf-8", "replace"), expected.encode())


def api_challenge(connection_id: str) -> str:
    """Return the challenge that a guest answers on a connection to its HTTP API. No `welcome` has one with a space."""
    return f"api {connection_id}"
