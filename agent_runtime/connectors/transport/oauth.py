"""OAuth access tokens: requested when the server asks for one, and renewed once for each refusal.

Imported only when a server with OAuth is used.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncGenerator
from typing import Any, cast
from urllib.parse import quote, urlsplit

import httpx2

from agent_common.json_reader import JsonLimits, read_json
from agent_common.telemetry import logger

from ...errors import ToolFailure
from .http_transport import http_client
from .refresh_tokens import TokenFile
from .refusals import WRONG_CREDENTIALS
from .routes import Route

TOKEN_SECONDS = 20.0
_ANSWER_LIMITS = JsonLimits(1 << 20, max_values=1000)
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")

log = logger(__name__)


_CURES = {
    **dict.fromkeys(("invalid_grant", "invalid_client", "unauthorized_client"), WRONG_CREDENTIALS),
    **dict.fromkeys(("bad_refresh_token", "incorrect_client_credentials"), WRONG_CREDENTIALS),
    "invalid_scope": "the token endpoint does not give this scope; correct scope of oauth",
    "invalid_target": "the token endpoint does not take resource of oauth; correct it, or write false",
    "invalid_request": "the token endpoint does not understand the request; correct the fields of oauth",
}
"""What to do about the codes of RFC 6749, RFC 8707 and of GitHub."""
_ABOUT_RESOURCE = frozenset({"invalid_target", "invalid_request"})
"""Codes with which endpoints refuse a resource that they do not expect."""
_FOR_NOW = frozenset({"temporarily_unavailable", "server_error", "slow_down"})


class TokenRefused(Exception):
    """There is no token until the operator changes something."""

    def __init__(self, code: str) -> None:
        super().__init__(_CURES.get(code, WRONG_CREDENTIALS))
        self.code = code


class AccessToken:
    """The access token of one server, over all its connections."""

    def __init__(self, server: str, url: str, tokens: TokenFile, route: Route) -> None:
        self._server = server
        self._tokens = tokens
        self._route = route
        given = tokens.oauth.resource
        self._resource = (given or None) if given is not None else urlsplit(url)._replace(query="").geturl()
        """The resource that the token is for (RFC 8707); None leaves it out."""
        self._token: str | None = None
        self._lock = asyncio.Lock()

    async def get(self, stale: str | None) -> str:
        """Return a token other than the stale one. Raises TokenRefused, and ToolFailure if none can be obtained now."""
        async with self._lock:
            if self._token is None or self._token == stale:
                self._token = await self._renew()
            return self._token

    @property
    def current(self) -> str | None:
        return self._token

    async def _renew(self) -> str:
        refresh = await asyncio.to_thread(self._tokens.read)
        answer = await self._request_token_as_taken(refresh)
        token = answer.get("access_token")
        rotated = answer.get("refresh_token", refresh)
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ToolFailure("the token endpoint did not answer with an access token")
        if refresh is not None and isinstance(rotated, str) and rotated != refresh:
            try:  # stored before use, as the old refresh token may already be invalid
                await asyncio.to_thread(self._tokens.write, rotated)
            except OSError as error:
                log.error("a new refresh token could not be stored", server=self._server, error=error.strerror)
        return token

    async def _request_token_as_taken(self, refresh: str | None) -> dict[str, Any]:
        """Request a token; without our own resource from now on, if the endpoint gives one only without it."""
        try:
            return await self._request_token(refresh, self._resource)
        except TokenRefused as refusal:
            is_ours = self._resource is not None and self._tokens.oauth.resource is None
            if not is_ours or refusal.code not in _ABOUT_RESOURCE:
                raise
        answer = await self._request_token(refresh, None)
        self._resource = None
        return answer

    def _build_request(self, refresh: str | None, resource: str | None) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form and the headers of a request for a token."""
        oauth = self._tokens.oauth
        form = {"grant_type": "refresh_token" if refresh else "client_credentials"}
        headers = {"accept": "application/json"}
        if refresh:
            form["refresh_token"] = refresh
        if oauth.is_basic and oauth.client_secret is not None:
            pair = f"{quote(oauth.client_id, safe='')}:{quote(oauth.client_secret, safe='')}"  # RFC 6749, 2.3.1
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = oauth.client_id
            if oauth.client_secret is not None:
                form["client_secret"] = oauth.client_secret
        if oauth.scope is not None:
            form["scope"] = oauth.scope
        if resource is not None:
            form["resource"] = resource
        return form, headers

    async def _request_token(self, refresh: str | None, resource: str | None) -> dict[str, Any]:
        token_url = self._tokens.oauth.token_url
        form, headers = self._build_request(refresh, resource)
        try:
            async with asyncio.timeout(TOKEN_SECONDS), http_client(self._route) as client:
                answer = await client.post(token_url, data=form, headers=headers)
        except TimeoutError:
            raise ToolFailure(f"the token endpoint did not answer within {TOKEN_SECONDS:g} s") from None
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise ToolFailure(f"the token endpoint cannot be reached ({type(error).__name__})") from None
        try:
            read: Any = read_json(answer.content, _ANSWER_LIMITS)
        except ValueError:
            read = None
        content = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
        code = "" if content.get("access_token") else str(content.get("error"))
        if code in _FOR_NOW:
            raise ToolFailure(f"the token endpoint gives no token now ({code})")
        if answer.status_code in (400, 401, 403) or (answer.status_code == 200 and code in _CURES):
            raise TokenRefused(code)
        if answer.status_code != 200 or not content:
            raise ToolFailure(f"the token endpoint answered with status {answer.status_code} and no token")
        return content


class BearerAuth(httpx2.Auth):
    """Sends the access token with each request, and repeats a refused request once with a new token."""

    def __init__(self, access: AccessToken) -> None:
        self._access = access

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        token = self._access.current or await self._access.get(None)
        request.headers["authorization"] = f"Bearer {token}"
        answer = yield request
        if answer.status_code != 401:
            return
        request.headers["authorization"] = f"Bearer {await self._access.get(token)}"
        yield request
