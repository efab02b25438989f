"""Bearer tokens: created here, shown once, and stored only as their SHA-256.

A token has 256 random bits, so a plain hash is enough: it cannot be found by guessing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from agent_common.clock import Clock

from ..database import HostDatabase, tokens
from ..errors import NotFound
from .agent_ids import OPERATOR
from .scope import TokenScope
from .users import UserSet

Purpose = Literal["manual", "fleet"]
_SHOWN_DIGITS = 16
_TOKEN_ID = re.compile(rf"tok_[0-9a-f]{{{_SHOWN_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """What is known of a token without its secret."""

    id: str
    """Names the token for `revoke`: `tok_` and the first digits of its digest."""
    owner: str
    """The agent's id or `operator`; of a scoped token `user:NAME`, or `users:ID` with its own id if it has several."""
    purpose: str
    scope: TokenScope | None
    created_at: int
    """Epoch milliseconds."""
    expires_at: int | None
    """Epoch milliseconds, or None: the token is valid until it is revoked."""


def digest(token: str) -> str:
    """Return the hex SHA-256 of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def is_token_id(text: str) -> bool:
    """Whether the text has the form of a token's id."""
    return _TOKEN_ID.fullmatch(text) is not None


def token_file(data_dir: Path, agent_id: str) -> Path:
    """Return where the host keeps a token that can be had again, in a file that only its owner can read."""
    return data_dir / "tokens" / agent_id


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
        self._insert_in(connection, token, agent_id, purpose)
        return token

    def _insert_in(self, connection: Connection, token: str, agent_id: str, purpose: Purpose) -> None:
        row = {"digest": digest(token), "agent_id": agent_id, "purpose": purpose, "created_at": self._clock.now_ms()}
        connection.execute(insert(tokens).values(row))

    def mint_scoped_in(
        self, connection: Connection, scope: TokenScope, lasts: timedelta | None
    ) -> tuple[str, TokenInfo]:
        """Create a token that speaks for its users in some workspaces. `lasts`: None means until it is revoked."""
        token = f"mesh_user_{secrets.token_urlsafe(32)}"
        key = digest(token)
        now = self._clock.now_ms()
        only = scope.users.only
        users = {"users": scope.users.patterns} if only is None else {"user": only}
        row = {
            "digest": key,
            # A token of several users is an owner of its own: it shares no connections with another, and ends alone.
            "agent_id": f"users:{_token_id(key)}" if only is None else f"user:{only}",
            "purpose": "scoped",
            "created_at": now,
            "scope": json.dumps({**users, "workspaces": sorted(scope.workspaces)}),
            "expires_at": now + round(lasts.total_seconds() * 1000) if lasts else None,
        }
        connection.execute(insert(tokens).values(row))
        return token, _token_info(row)

    def list_in(self, connection: Connection) -> list[TokenInfo]:
        """Return all tokens that have not expired, oldest first."""
        valid = tokens.c.expires_at.is_(None) | (tokens.c.expires_at > self._clock.now_ms())
        query = select(tokens).where(valid).order_by(tokens.c.created_at, tokens.c.digest)
        return [_token_info(row) for row in connection.execute(query).mappings()]

    def revoke_one_in(self, connection: Connection, token_id: str) -> TokenInfo:
        """Delete one token by its id. Raises NotFound."""
        mine = tokens.c.digest.startswith(token_id.removeprefix("tok_"), autoescape=True)
        row = connection.execute(select(tokens).where(mine)).mappings().first() if is_token_id(token_id) else None
        if row is None:
            raise NotFound(f"there is no token {token_id!r}; `agent-host token --list` shows those there are")
        connection.execute(delete(tokens).where(tokens.c.digest == row["digest"]))
        return _token_info(row)

    def kept_in(self, connection: Connection, agent_id: str, path: Path) -> str | None:
        """Return the token that a file keeps; None if there is no file, or its token is not valid any more."""
        with contextlib.suppress(FileNotFoundError):
            token = path.read_text().strip()
            row = connection.execute(select(tokens.c.agent_id).where(tokens.c.digest == digest(token))).scalar()
            return token if row == agent_id else None
        return None

    def ensure_file_in(self, connection: Connection, agent_id: str, path: Path) -> Path:
        """Return the path of a file with a valid token of this agent; an invalid token in it is replaced.

        The file is written before the commit. A crash in between leaves an unknown token, which the next call replaces.
        """
        if self.kept_in(connection, agent_id, path) is not None:
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

    def revoke_workspace_in(self, connection: Connection, workspace_id: str) -> None:
        """Delete all tokens of a workspace that is deleted, and take it out of the scopes of the others: they must not
        open a new workspace of this id."""
        self.revoke_in(connection, workspace_id)
        scoped = select(tokens.c.digest, tokens.c.scope).where(tokens.c.scope.is_not(None))
        for key, text in connection.execute(scoped).all():
            scope = json.loads(text)  # noqa: TID251  our own row
            left = [name for name in scope["workspaces"] if name != workspace_id]
            mine = tokens.c.digest == key
            if not left:
                connection.execute(delete(tokens).where(mine))
            elif len(left) < len(scope["workspaces"]):
                connection.execute(update(tokens).where(mine).values(scope=json.dumps({**scope, "workspaces": left})))

    def revoke_fleet_in(self, connection: Connection, kept: Collection[str]) -> None:
        """Delete the tokens that the fleet gave to runtimes of an earlier process. Those of the agents `kept` stay."""
        connection.execute(delete(tokens).where(tokens.c.purpose == "fleet", tokens.c.agent_id.not_in(kept)))

    async def find(self, token_digest: str) -> TokenInfo | None:
        """Return the token with this digest, or None. It may have expired."""
        query = select(tokens).where(tokens.c.digest == token_digest)
        row = await self._database.run(lambda connection: connection.execute(query).mappings().first())
        return _token_info(row) if row else None

    async def adopt_operator_token(self, token: str, path: Path) -> bool:
        """Make the token the operator's if the file keeps it, and return whether it does. It can be had again and
        replaced then, like one that the host has made."""

        def work(connection: Connection) -> bool:
            with contextlib.suppress(FileNotFoundError):
                if path.read_text().strip() == token:
                    connection.execute(delete(tokens).where(tokens.c.agent_id == OPERATOR))
                    self._insert_in(connection, token, OPERATOR, "manual")
                    return True
            return False

        return await self._database.run(work)

    async def ensure_operator_token(self, path: Path) -> str | None:
        """Create the operator's token if there is none, and keep it in a file. Returns the new token, or None if there
        was one."""

        def work(connection: Connection) -> str | None:
            known = connection.execute(select(tokens.c.digest).where(tokens.c.agent_id == OPERATOR)).first()
            return None if known else self.ensure_file_in(connection, OPERATOR, path).read_text().strip()

        return await self._database.run(work)


def _token_info(row: RowMapping | Mapping[str, Any]) -> TokenInfo:
    return TokenInfo(
        id=_token_id(row["digest"]),
        owner=row["agent_id"],
        purpose=row["purpose"],
        scope=_stored_scope(row["scope"]) if row["scope"] else None,
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )


def _stored_scope(text: str) -> TokenScope:
    """Read a scope. `user` is an exact name, also one that ends with `*`: earlier versions had no patterns."""
    stored = json.loads(text)  # noqa: TID251  our own row
    users = UserSet.of(stored["user"]) if "user" in stored else UserSet.from_patterns(stored["users"])
    return TokenScope(users, frozenset(stored["workspaces"]))


def _token_id(token_digest: str) -> str:
    return f"tok_{token_digest[:_SHOWN_DIGITS]}"
