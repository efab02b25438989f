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


class TokenRefused(Exception):
    """The operator's credentials are no longer valid."""


class AccessToken:
    """The access token of one server, over all its connections."""

    def __init__(self, server: str, url: str, tokens: TokenFile, route: Route) -> None:
        self._server, self._tokens, self._route = server, tokens, route
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
        answer = await self._request_token(refresh)
        token, rotated = answer.get("access_token"), answer.get("refresh_token", refresh)
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ToolFailure("the token endpoint did not answer with an access token")
        if refresh is not None and isinstance(rotated, str) and rotated != refresh:
            try:  # stored before use, as the old refresh token may already be invalid
                await asyncio.to_thread(self._tokens.write, rotated)
            except OSError as error:
                log.error("a new refresh token could not be stored", server=self._server, error=error.strerror)
        return token

    def _build_request(self, refresh: str | None) -> tuple[dict[str, str], dict[str, str]]:
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
        if self._resource is not None:
            form["resource"] = self._resource
        return form, headers

    async def _request_token(self, refresh: str | None) -> dict[str, Any]:
        token_url = self._tokens.oauth.token_url
        form, headers = self._build_request(refresh)
        try:
            async with asyncio.timeout(TOKEN_SECONDS), http_client(self._route) as client:
                answer = await client.post(token_url, data=form, headers=headers)
        except TimeoutError:
            raise ToolFailure(f"the token endpoint did not answer within {TOKEN_SECONDS:g} s") from None
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise ToolFailure(f"the token endpoint cannot be reached ({type(error).__name__})") from None
        if answer.status_code in (400, 401, 403):
            raise TokenRefused(WRONG_CREDENTIALS)
        try:
            content: Any = read_json(answer.content, _ANSWER_LIMITS) if answer.status_code == 200 else None
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise ToolFailure(f"the token endpoint answered with status {answer.status_code} and no token")
        return cast("dict[str, Any]", content)


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
