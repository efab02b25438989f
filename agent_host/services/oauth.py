"""Tokens by OAuth 2 client credentials (RFC 6749, 4.4), kept until shortly before they expire."""

from __future__ import annotations

import asyncio
import base64
from urllib.parse import quote, urlencode

from agent_common.clock import Clock
from agent_common.json_reader import JsonLimits, JsonRefused, read_json
from agent_common.net import HttpExchange
from agent_common.protocol import is_object

from ..secrets import KeptSecret, KeptSecrets
from .catalog import OAuthCredential, Service
from .connection import ServiceConnector, as_service_failure
from .errors import ServiceFailed

_LIMITS = JsonLimits(max_bytes=64 * 1024)
TOKEN_SECONDS = 30.0
"""Longest time until there is a token."""
_DEFAULT_SECONDS = 300.0
_LONGEST_SECONDS = 86_400.0
"""Seconds that a token is used whose life is not said, and at most."""
_MARGIN = 30.0
"""Seconds before its end at which a token is replaced."""
MOST_VALID = 5
"""Tokens of a service that may be valid at a time: the latest, and those that it has replaced."""


class OAuthTokens:
    """The tokens of all services. One request for a token runs at a time for each."""

    def __init__(self, connector: ServiceConnector, clock: Clock, seconds: float = TOKEN_SECONDS) -> None:
        self._connector = connector
        self._clock = clock
        self._seconds = seconds
        self._tokens = KeptSecrets(clock)
        self._given: dict[str, dict[str, float]] = {}
        """The tokens of each service, the oldest first, and until when each is valid (monotonic time)."""

    async def get(self, service: Service, credential: OAuthCredential, secret: str) -> str:
        """Return a token for the service. Raises ServiceFailed."""
        return await self._tokens.get(service.name, lambda: self._fetch(service, credential, secret))

    def forget(self, service: Service) -> None:
        """Have the next call fetch a new token. While many are valid, the latest stays until its end: an agent that
        makes a service refuse its calls must not push one out of those that are taken out of answers."""
        if len(self.valid(service)) < MOST_VALID:
            self._tokens.forget(service.name)

    def valid(self, service: Service) -> list[str]:
        """Return the tokens that the service may take, also those that were replaced before their end."""
        now = self._clock.monotonic()
        return [token for token, until in self._given.get(service.name, {}).items() if until > now]

    def _note(self, service: Service, token: str, until: float) -> None:
        given = {known: self._given[service.name][known] for known in self.valid(service) if known != token}
        self._given[service.name] = dict([*given.items(), (token, until)][-MOST_VALID:])

    async def _fetch(self, service: Service, credential: OAuthCredential, secret: str) -> KeptSecret:
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._seconds):
                status, content = await self._post(service, credential, secret)
        except TimeoutError:
            raise ServiceFailed(f"the token server of {service.name} does not answer", code="service_timeout") from None
        try:
            answer = read_json(content, _LIMITS)
        except JsonRefused:
            answer = None
        token = answer.get("access_token") if is_object(answer) else None
        if status != 200 or not isinstance(token, str) or not token.isascii() or not token.isprintable():
            text = f"the token server of {service.name} answered {status} without a token; see its credential"
            raise ServiceFailed(text, code="service_auth")  # what it says is not quoted: it may repeat the secret
        lasts = answer.get("expires_in") if is_object(answer) else None
        seconds = float(max(0, min(lasts, _LONGEST_SECONDS))) if isinstance(lasts, int | float) else _DEFAULT_SECONDS
        self._note(service, token, began + seconds + _MARGIN)
        return KeptSecret(token, began + max(0.0, seconds - _MARGIN))

    async def _post(self, service: Service, credential: OAuthCredential, secret: str) -> tuple[int, bytes]:
        url = credential.token_url
        body, authorization = _request(credential, secret)
        fields = {
            "host": url.authority,
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
            "accept-encoding": "identity",
            "content-length": str(len(body)),
            "connection": "close",
            **authorization,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        request = f"POST {url.target} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body
        async with self._connector.open(url, private=service.private) as stream:
            with as_service_failure(url):
                exchange = HttpExchange(stream, url.host, self._seconds)
                await exchange.send(request)
                content = bytearray()
                async for piece in exchange.read():
                    content += piece
                    if len(content) > _LIMITS.max_bytes:
                        break
        return exchange.status, bytes(content)


def _request(credential: OAuthCredential, secret: str) -> tuple[bytes, dict[str, str]]:
    """Return the body, and the header with the client's secret if it is not in the body."""
    form = {"grant_type": "client_credentials"} | ({"scope": credential.scope} if credential.scope else {})
    if credential.in_body:
        return urlencode({**form, "client_id": credential.client_id, "client_secret": secret}).encode("ascii"), {}
    pair = f"{quote(credential.client_id, safe='')}:{quote(secret, safe='')}"
    return urlencode(form).encode("ascii"), {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
