"""Tells from a bearer token who is calling, without asking the database at every request."""

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
from .tokens import OPERATOR, TokenStore, digest

_TRUST_SECONDS = 5.0


def _never_fenced(_agent_id: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class HostCaller:
    """Who is calling: an agent, or the operator under the id `operator`."""

    agent_id: str

    @property
    def is_operator(self) -> bool:
        return self.agent_id == OPERATOR


class AccessGuard:
    """Remembers a good token for a few seconds, after which a revoked one is found out.

    Tokens are compared by their SHA-256: how long a look-up takes says nothing about a token.
    """

    def __init__(
        self, store: TokenStore, clock: Clock, operator_token: str | None = None, cache_size: int = 10_000
    ) -> None:
        self._store = store
        self._clock = clock
        self._operator = digest(operator_token) if operator_token else None
        self._cache_size = cache_size
        self._known: dict[str, tuple[HostCaller, float]] = {}
        self._revocations = 0
        self._revocation_callbacks: list[Callable[[str], None]] = []
        self.is_fenced: Callable[[str], bool] = _never_fenced
        """Whether an agent must not do anything; its tokens are void for as long."""

    async def identify(self, authorization: str | None) -> HostCaller:
        """The caller behind an Authorization header. Raises Unauthorized."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized
        key = digest(token.strip())
        caller, until = self._known.get(key, (None, 0.0))
        if caller is None or until < self._clock.monotonic():
            caller = await self._look_up(key)
            self._cache(key, caller)
        if self.is_fenced(caller.agent_id):
            raise Unauthorized(f"the workspace {caller.agent_id!r} is fenced, and its tokens are void")
        return caller

    def revoke_in(self, connection: Connection, agent_id: str) -> None:
        """Delete an agent's tokens in a transaction; call `notify_revoked` once it is committed."""
        self._store.revoke_in(connection, agent_id)

    def notify_revoked(self, agent_id: str) -> None:
        """Forget an agent whose tokens are gone, and end what it is doing by them."""
        self._revocations += 1
        self._known = {key: entry for key, entry in self._known.items() if entry[0].agent_id != agent_id}
        for end in self._revocation_callbacks:
            end(agent_id)

    def add_revocation_callback(self, callback: Callable[[str], None]) -> None:
        """Call that with each agent whose tokens are revoked, at once."""
        self._revocation_callbacks.append(callback)

    async def authenticate(self, scope: Scope) -> HostCaller:
        """The caller of a request, whose connection counts as the caller's from now on. Raises RequestError."""
        caller = await self.identify(Headers(scope=scope).get("authorization"))
        if not claim_connection(scope, caller.agent_id):
            text = "you have your share of the host's connections; close some, or use them again"
            raise TooMany(text, code="too_many_connections", headers={"connection": "close"})
        return caller

    async def _look_up(self, key: str) -> HostCaller:
        self._known.pop(key, None)
        # A token from the settings is the only one of the operator: one from the database then no longer counts.
        if self._operator is not None and hmac.compare_digest(key, self._operator):
            return HostCaller(OPERATOR)
        seen = -1
        owner: str | None = None
        while seen != self._revocations:  # what was read while tokens were revoked may be out of date
            seen = self._revocations
            owner = await self._store.owner(key)
        if owner is None or (owner == OPERATOR and self._operator is not None):
            raise Unauthorized("this bearer token is not known to the mesh; make one with `agent-host token ID`")
        return HostCaller(owner)

    def _cache(self, key: str, caller: HostCaller) -> None:
        if len(self._known) >= self._cache_size:
            self._known.clear()
        self._known[key] = caller, self._clock.monotonic() + _TRUST_SECONDS


async def identify(request: Request) -> HostCaller:
    """FastAPI dependency: whoever has a token."""
    guard: AccessGuard = request.app.state.guard
    return await guard.authenticate(request.scope)


async def require_operator(caller: Annotated[HostCaller, Depends(identify)]) -> HostCaller:
    """FastAPI dependency: the operator only."""
    if not caller.is_operator:
        raise Forbidden
    return caller
