"""Store refresh tokens that a server has issued in exchange for older ones, which may become invalid at once.

A token is used only as long as the operator's file names the credentials that it was derived from.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agent_common.mcp_servers import OAuthConfig

from ...workspace import write_atomically

MAX_FILE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class TokenFile:
    """Stores the latest refresh token of one server. The methods read and write the disk."""

    path: Path
    oauth: OAuthConfig

    def read(self) -> str | None:
        """Return the latest refresh token: the stored one if it was derived from the operator's, else the operator's.

        None if the operator has given none.
        """
        if self.oauth.refresh_token is None:
            return None
        try:
            with self.path.open("rb") as file:
                kept: Any = json.loads(file.read(MAX_FILE_BYTES))  # noqa: TID251  our own file
        except (OSError, ValueError):
            return self.oauth.refresh_token
        if not isinstance(kept, dict):
            return self.oauth.refresh_token
        fields = cast("dict[str, Any]", kept)
        token = fields.get("refresh_token")
        good = fields.get("descends_from") == self._origin() and isinstance(token, str) and token
        return cast("str", token) if good else self.oauth.refresh_token

    def write(self, token: str) -> None:
        """Store a token durably. Raises OSError and ToolFailure."""
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        if not self.path.exists():
            self.path.touch(mode=0o600)
        write_atomically(self.path, json.dumps({"descends_from": self._origin(), "refresh_token": token}).encode())

    def _origin(self) -> str:
        parts = (self.oauth.token_url, self.oauth.client_id, self.oauth.refresh_token or "")
        return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
