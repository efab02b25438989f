"""The agent's identity towards the host, and its key."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from agent_common.protocol.work import Welcome, compute_mac, verify_host_mac
from agent_common.redaction import Redactor

from .connection import ChannelLost

NO_PROOF = "the host has not proved that it has this agent's key (AGENT_MEDIATION_KEY_FILE)"


@dataclass(frozen=True, slots=True)
class Identity:
    """The agent's identity and the limits that it announces."""

    agent_id: str
    key_file: Path | None
    loose: bool
    window: int
    max_line: int
    secrets: tuple[str, ...] = ()
    """Texts that must never be sent, besides the key."""

    @property
    def has_key(self) -> bool:
        """Whether the host must prove that it has our key. The loose dialect has no greeting to do it in."""
        return self.key_file is not None and not self.loose

    def redactor(self) -> Redactor:
        """Return a redactor for the secrets and the current key; an unreadable key is left out."""
        try:
            key = self.key_file.read_bytes().strip() if self.key_file is not None else b""
        except OSError:
            key = b""
        return Redactor((*self.secrets, key.decode(errors="replace")))

    def read_key(self) -> bytes:
        """Read the key, for each attachment, because it changes when a machine is restored. Raises ChannelLost."""
        if self.key_file is None:
            raise ChannelLost("the host asks for a proof, but there is no key: set AGENT_MEDIATION_KEY_FILE")
        try:
            key = self.key_file.read_bytes()
        except OSError as error:
            raise ChannelLost(f"the key {self.key_file} cannot be read: {error.strerror}") from error
        if not key.strip():
            raise ChannelLost(f"the key {self.key_file} is empty and proves nothing")
        return key

    async def check_host(self, welcome: Welcome, sid: str) -> None:
        """Raise ChannelLost unless the host has proved that it has our key."""
        key = await asyncio.to_thread(self.read_key)
        name = welcome.agent_id
        epoch = welcome.epoch
        if not verify_host_mac(welcome.mac, key, challenge=welcome.challenge, sid=sid, agent_id=name, epoch=epoch):
            raise ChannelLost(NO_PROOF)

    async def answer(self, welcome: Welcome, sid: str, challenge: str) -> str:
        """Return the MAC that answers a challenge. Raises ChannelLost if there is no key."""
        key = await asyncio.to_thread(self.read_key)
        return compute_mac(key, challenge=challenge, sid=sid, agent_id=welcome.agent_id, epoch=welcome.epoch)
