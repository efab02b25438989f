"""Identify callers by their bearer token, without a database query for every request."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Connection
from starlette.datastructures import Headers
from starlette.types import Scope

from agent_common.clock import Clock
from agent_common.http import claim_connection

from ..errors import Forbidden, TooMany, Unauthorized
from .agent_ids import OPERATOR
from .scope import TokenScope
from .tokens import TokenInfo, TokenStore, digest

_TRUST_SECONDS = 5.0


def _never_fenced(_agent_id: str) -> bool:
    return False


def _ignore(_owner: str, _token_id: str) -> None:
    return


@dataclass(frozen=True, slots=True)
class HostCaller:
    """An authenticated caller: an agent, the operator, whose id is `operator`, or a scoped token."""

    agent_id: str
    """The agent's id, or the owner of a scoped token."""
    scope: TokenScope | None = None
    """What a scoped token allows; None for the operator and for agents."""
    expires_at: int | None = None
    """Epoch milliseconds, or None."""
    token_id: str = ""
    """The id of the token; empty for the operator's of the settings."""

    def concerns(self, agent_id: str) -> bool:
        """Whether this is the agent, or may use it by a scoped token."""
        return self.agent_id == agent_id or (self.scope is not None and self.scope.allows(agent_id))

    @property
    def is_operator(self) -> bool:
        return self.agent_id == OPERATOR


class AccessGuard:
    """Identifies callers. A valid token is cached for a few seconds, so a token that another process revokes is refused
    at most that much later.

    Tokens are compared by their SHA-256, so that the time of a look-up reveals nothing about a token.
    """

    def __init__(
        self, store: TokenStore, clock: Clock, operator_token: str | None = None, cache_size: int = 10_000
    ) -> None:
        self.store = store
        self._clock = clock
        self._operator = digest(operator_token) if operator_token else None
        self._cache_size = cache_size
        self._known: dict[str, tuple[HostCaller, float]] = {}
        self._revocations = 0
        self._revocation_callbacks: list[Callable[[str], None]] = []
        self.is_fenced: Callable[[str], bool] = _never_fenced
        """Whether an agent is fenced. Its tokens are refused while it is."""
        self.on_token_revoked: Callable[[str, str], None] = _ignore
        """Called with the owner and the id of a scoped token that is revoked, to end the connections that it has."""

    async def identify(self, authorization: str | None, *, scoped: bool = False) -> HostCaller:
        """Return the caller that an Authorization header names. Raises Unauthorized if it has no valid token.

        `scoped`: accept scoped tokens too; else they raise Forbidden, so that a route must ask for them.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized
        key = digest(token.strip())
        caller, until = self._known.get(key, (None, 0.0))
        if caller is None or until < self._clock.monotonic():
            caller = await self._look_up(key)
            self._cache(key, caller)
        if caller.expires_at is not None and caller.expires_at <= self._clock.now_ms():
            raise Unauthorized("this token has expired; ask the operator for another")
        if caller.scope is not None and not scoped:
            raise Forbidden("this token speaks for its users in some workspaces, and this needs more")
        if self.is_fenced(caller.agent_id):
            raise Unauthorized(f"the workspace {caller.agent_id!r} is fenced, and its tokens are void")
        return caller

    def revoke_in(self, connection: Connection, agent_id: str) -> None:
        """Delete an agent's tokens in a transaction; call `notify_revoked` once it is committed."""
        self.store.revoke_in(connection, agent_id)

    def notify_revoked(self, agent_id: str) -> None:
        """Forget an agent whose tokens are revoked, with the people who may use it, and end its connections."""
        self._revocations += 1
        self._known = {key: entry for key, entry in self._known.items() if not entry[0].concerns(agent_id)}
        for end in self._revocation_callbacks:
            end(agent_id)

    def notify_token_revoked(self, token: TokenInfo) -> None:
        """Forget one token that is revoked, and end its connections. Those of a person's other tokens go on; an agent
        loses all that it has."""
        if token.scope is None:
            self.notify_revoked(token.owner)
            return
        self._revocations += 1
        self._known = {key: entry for key, entry in self._known.items() if entry[0].token_id != token.id}
        self.on_token_revoked(token.owner, token.id)

    def add_revocation_callback(self, callback: Callable[[str], None]) -> None:
        """Register a callback that is called with each agent whose tokens are revoked."""
        self._revocation_callbacks.append(callback)

    async def authenticate(self, scope: Scope, *, scoped: bool = False) -> HostCaller:
        """Return the caller of a request as `identify` does, and count the connection as the caller's.

        Raises TooMany if the caller has too many connections.
        """
        caller = await self.identify(Headers(scope=scope).get("authorization"), scoped=scoped)
        if not claim_connection(scope, caller.agent_id, caller.token_id):
            text = "you have too many connections to the host; close some, or reuse them"
            raise TooMany(text, code="too_many_connections", headers={"connection": "close"})
        return caller

    async def _look_up(self, key: str) -> HostCaller:
        self._known.pop(key, None)
        # If the settings have an operator token, it is the only valid one; a token in the database is then ignored.
        if self._operator is not None and hmac.compare_digest(key, self._operator):
            return HostCaller(OPERATOR)
        seen = -1
        found: TokenInfo | None = None
        while seen != self._revocations:  # read again if tokens were revoked meanwhile
            seen = self._revocations
            found = await self.store.find(key)
        if found is None or (found.owner == OPERATOR and self._operator is not None):
            raise Unauthorized("this bearer token is not known to the mesh; make one with `agent-host token ID`")
        return HostCaller(found.owner, found.scope, found.expires_at, found.id)

    def _cache(self, key: str, caller: HostCaller) -> None:
        if len(self._known) >= self._cache_size:
            self._known.clear()
        self._known[key] = caller, self._clock.monotonic() + _TRUST_SECONDS


async def identify(request: Request) -> HostCaller:
    """FastAPI dependency for routes that accept any valid token. Returns the caller."""
    guard: AccessGuard = request.app.state.guard
    return await guard.authenticate(request.scope)


async def identify_person(request: Request) -> HostCaller:
    """FastAPI dependency for routes that are open to people: the operator, and scoped tokens within their scope.

    Raises Forbidden for agents.
    """
    guard: AccessGuard = request.app.state.guard
    return require_person(await guard.authenticate(request.scope, scoped=True))


def require_person(caller: HostCaller) -> HostCaller:
    """Return the caller if it is the operator or has a scoped token. Raises Forbidden for agents."""
    if not caller.is_operator and caller.scope is None:
        raise Forbidden
    return caller


async def require_operator(caller: Annotated[HostCaller, Depends(identify)]) -> HostCaller:
    """FastAPI dependency for routes of the operator. Returns the caller. Raises Forbidden for agents."""
    if not caller.is_operator:
        raise Forbidden
    return caller
