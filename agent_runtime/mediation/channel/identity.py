"""Who this agent says it is, and how it proves that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent_common.redaction import Redactor

from .connection import ChannelLost


@dataclass(frozen=True, slots=True)
class Identity:
    """Who we say we are."""

    agent_id: str
    key_file: Path | None
    loose: bool
    window: int
    max_line: int
    secrets: tuple[str, ...] = ()
    """Texts that never go out, beside the key."""

    def redactor(self) -> Redactor:
        """Takes the secrets and the key, as it is now, out of what is said; one that cannot be read is not known."""
        try:
            key = self.key_file.read_bytes().strip() if self.key_file is not None else b""
        except OSError:
            key = b""
        return Redactor((*self.secrets, key.decode(errors="replace")))

    def read_key(self) -> bytes:
        """Read at each attachment: a restored machine has its secrets anew. Raises Broken."""
        if self.key_file is None:
            raise ChannelLost("the host asks for a proof and there is no key: set AGENT_MEDIATION_KEY_FILE")
        try:
            key = self.key_file.read_bytes()
        except OSError as error:
            raise ChannelLost(f"the key {self.key_file} cannot be read: {error.strerror}") from error
        if not key.strip():
            raise ChannelLost(f"the key {self.key_file} is empty: it would prove nothing")
        return key
