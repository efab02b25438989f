"""Turns a service's credential into what is added to a request, and into what its answers must not say."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from urllib.parse import quote

from ..secrets import Secrets
from .catalog import BasicCredential, HeaderCredential, OAuthCredential, QueryCredential, Service
from .oauth import OAuthTokens
from .redaction import Redactors, make_redactor

_AUTHORIZATION = b"authorization"


@dataclass(frozen=True, slots=True)
class Applied:
    """What is added to one request."""

    header: tuple[bytes, bytes] | None = None
    query: bytes = b""
    hidden: Redactors = field(default_factory=Redactors)
    """Takes it out of the answer."""


class Credentials:
    """Applies credentials."""

    def __init__(self, secrets: Secrets, tokens: OAuthTokens) -> None:
        self._secrets = secrets
        self._tokens = tokens

    async def apply(self, service: Service) -> Applied:
        """Return what to add to a request of the service. Raises SecretUnavailable, and ServiceFailed without a
        token."""
        credential = service.credential
        if credential is None:
            return Applied()
        secret = await self._secrets.get(credential.secret)
        match credential:
            case HeaderCredential(_, name, form):
                value = form.replace("{secret}", secret).encode("utf-8")
                return Applied(header=(name.encode("ascii"), value), hidden=await _redactors(secret))
            case QueryCredential(_, parameter):
                query = f"{parameter}={quote(secret, safe='')}".encode("ascii")
                return Applied(query=query, hidden=await _redactors(secret))
            case BasicCredential(_, user):
                pair = base64.b64encode(f"{user}:{secret}".encode())
                hidden = await _redactors(secret, pair.decode("ascii"))
                return Applied(header=(_AUTHORIZATION, b"Basic " + pair), hidden=hidden)
            case OAuthCredential():
                token = await self._tokens.get(service, credential, secret)
                header = _AUTHORIZATION, f"Bearer {token}".encode("ascii")
                return Applied(header=header, hidden=await _redactors(secret, *self._tokens.valid(service)))

    def refused(self, service: Service) -> None:
        """Note that the service has answered 401, so that a token that it no longer takes is not used again."""
        self._tokens.forget(service)


async def _redactors(*secrets: str) -> Redactors:
    return Redactors([await asyncio.to_thread(make_redactor, secret) for secret in secrets])


def header_of(service: Service) -> str | None:
    """Return the header that the credential takes, in lower case, or None."""
    if isinstance(service.credential, HeaderCredential):
        return service.credential.header
    return None if service.credential is None or isinstance(service.credential, QueryCredential) else "authorization"


def parameter_of(service: Service) -> str | None:
    """Return the parameter of the query that the credential takes, or None."""
    return service.credential.parameter if isinstance(service.credential, QueryCredential) else None
