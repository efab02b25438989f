"""Routes of the operator to make, list and revoke tokens; `agent-host token` does the same on the host's machine."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from .access import (
    AccessGuard,
    TokenInfo,
    TokenScope,
    TokenStore,
    UserSet,
    check_scope,
    check_user_name,
    parse_duration,
    parse_users,
    require_operator,
)
from .database import HostDatabase
from .errors import InvalidRequest
from .http import JsonRoute

router = APIRouter(prefix="/tokens", dependencies=[Depends(require_operator)], route_class=JsonRoute)


class ScopeView(BaseModel):
    """The user and the workspaces of a scoped token."""

    user: str
    workspaces: list[str]


class UsersScopeView(BaseModel):
    """The users and the workspaces of a scoped token that speaks for several."""

    users: list[str]
    workspaces: list[str]


class TokenView(BaseModel):
    """A token without its secret."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    """Names the token in `DELETE /tokens/{id}`."""
    owner: str
    """The agent's id or `operator`; of a scoped token `user:NAME`, or `users:ID` with its own id if it has several."""
    purpose: str
    """`manual`, `fleet` (a runtime's, made at its start) or `scoped`."""
    scope: ScopeView | UsersScopeView | None
    """Null for the tokens of agents and of the operator."""
    created_at: int
    """Epoch milliseconds."""
    expires_at: int | None
    """Epoch milliseconds; null: valid until it is revoked."""


class CreatedToken(TokenView):
    """A new token, with its secret, which is shown only now."""

    token: str


class CreateToken(BaseModel):
    """Body of `POST /tokens`: a token that speaks for one user, or for several, in some workspaces."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    user: str | None = Field(default=None, max_length=200)
    users: list[str] | None = Field(default=None, max_length=1000)
    """In place of `user`: names, and patterns such as `telegram:*`."""
    workspaces: list[str] = Field(max_length=1000)
    expires: str | None = Field(default=None, max_length=20)
    """How long it is valid, such as `30d` or `12h`; unset until it is revoked."""


@router.get("")
async def list_tokens(request: Request) -> dict[str, list[TokenView]]:
    """List the tokens that have not expired, oldest first."""
    found = await _database(request).run(_store(request).list_in)
    return {"tokens": [TokenView.model_validate(_fields(token)) for token in found]}


@router.post("", status_code=201)
async def create_token(request: Request, body: CreateToken) -> CreatedToken:
    """Make a scoped token. Its workspaces need not exist yet."""
    scope = check_scope(_users_of(body), body.workspaces)
    lasts = parse_duration(body.expires) if body.expires is not None else None
    store = _store(request)
    token, made = await _database(request).run(lambda connection: store.mint_scoped_in(connection, scope, lasts))
    return CreatedToken.model_validate({**_fields(made), "token": token})


@router.delete("/{token_id}", status_code=204)
async def revoke_token(request: Request, token_id: str) -> Response:
    """Revoke one token. Requests that it has open are cut."""
    store = _store(request)
    guard = _guard(request)

    def revoke(connection: Connection) -> TokenInfo:
        return store.revoke_one_in(connection, token_id)

    guard.notify_token_revoked(await _database(request).run(revoke))
    return Response(status_code=204)


def _users_of(body: CreateToken) -> UserSet:
    if (body.user is None) == (body.users is None):
        raise InvalidRequest.from_faults([("user", "give one of `user` and `users`")])
    return UserSet.of(check_user_name(body.user, "user")) if body.user is not None else parse_users(body.users or ())


def _fields(token: TokenInfo) -> dict[str, object]:
    return {**asdict(token), "scope": _scope_view(token.scope) if token.scope else None}


def _scope_view(scope: TokenScope) -> ScopeView | UsersScopeView:
    workspaces = sorted(scope.workspaces)
    only = scope.users.only
    if only is not None:
        return ScopeView(user=only, workspaces=workspaces)
    return UsersScopeView(users=scope.users.patterns, workspaces=workspaces)


def _store(request: Request) -> TokenStore:
    return _guard(request).store


def _guard(request: Request) -> AccessGuard:
    guard: AccessGuard = request.app.state.guard
    return guard


def _database(request: Request) -> HostDatabase:
    database: HostDatabase = request.app.state.database
    return database
