"""Bearer tokens: created here, shown once, and stored only as their SHA-256.

A token has 256 random bits, so a plain hash is enough: it cannot be found by guessing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, delete, insert, select

from agent_common.clock import Clock

from ..database import HostDatabase, tokens
from ..errors import InvalidRequest

OPERATOR = "operator"
"""The id of the operator. No agent may have it."""
Purpose = Literal["manual", "fleet"]
_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def digest(token: str) -> str:
    """Return the hex SHA-256 of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def check_agent_id(agent_id: str) -> None:
    """Raise InvalidRequest if an agent may not have this id."""
    if not _AGENT_ID.fullmatch(agent_id):
        message = "must be 1 to 100 letters, digits, '.', '_' or '-', and begin with a letter or digit"
    elif agent_id == OPERATOR:
        message = "is taken by the operator; choose another"
    else:
        return
    raise InvalidRequest(f"id {agent_id!r} {message}", faults=[("id", message)])


class TokenStore:
    """The tokens in the database."""

    def __init__(self, database: HostDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def mint(self, agent_id: str, purpose: Purpose) -> str:
        """Create a token for an agent. A token for the fleet replaces the agent's earlier tokens for the fleet."""
        return await self._database.run(lambda connection: self.mint_in(connection, agent_id, purpose))

    def mint_in(self, connection: Connection, agent_id: str, purpose: Purpose) -> str:
        """Do the same as `mint` inside a transaction. A new operator token replaces the previous one."""
        token = f"{'mesh_operator' if agent_id == OPERATOR else 'mesh'}_{secrets.token_urlsafe(32)}"
        if purpose == "fleet" or agent_id == OPERATOR:
            mine = (tokens.c.agent_id == agent_id) & (tokens.c.purpose == purpose)
            connection.execute(delete(tokens).where(mine))
        row = {"digest": digest(token), "agent_id": agent_id, "purpose": purpose, "created_at": self._clock.now_ms()}
        connection.execute(insert(tokens).values(row))
        return token

    def ensure_file_in(self, connection: Connection, agent_id: str, path: Path) -> Path:
        """Return the path of a file with a valid token of this agent; an invalid token in it is replaced.

        The file is written before the commit. A crash in between leaves an unknown token, which the next call replaces.
        """
        with contextlib.suppress(FileNotFoundError):
            held = digest(path.read_text().strip())
            if connection.execute(select(tokens.c.agent_id).where(tokens.c.digest == held)).scalar() == agent_id:
                return path
        token = self.mint_in(connection, agent_id, "manual")
        path.parent.mkdir(mode=0o700, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(f"{token}\n")
        new.replace(path)
        return path

    def revoke_in(self, connection: Connection, agent_id: str) -> int:
        """Delete all tokens of an agent, and return their number."""
        return connection.execute(delete(tokens).where(tokens.c.agent_id == agent_id)).rowcount

    def revoke_fleet_in(self, connection: Connection) -> None:
        """Delete all tokens that the fleet gave to runtimes of an earlier process."""
        connection.execute(delete(tokens).where(tokens.c.purpose == "fleet"))

    async def owner(self, token_digest: str) -> str | None:
        """Return the agent whose token has this digest, or None."""
        query = select(tokens.c.agent_id).where(tokens.c.digest == token_digest)
        return await self._database.run(lambda connection: connection.execute(query).scalar())

    async def ensure_operator_token(self) -> str | None:
        """Create the operator's token if there is none. Returns the new token, or None if there was one."""

        def work(connection: Connection) -> str | None:
            known = connection.execute(select(tokens.c.digest).where(tokens.c.agent_id == OPERATOR)).first()
            return None if known else self.mint_in(connection, OPERATOR, "manual")

        return await self._database.run(work)
