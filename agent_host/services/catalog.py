"""The services that agents may call, and what they may do with each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_common.net import Url

from ..secrets import SecretSource
from .errors import UnknownService
from .paths import PathGlobs


@dataclass(frozen=True, slots=True)
class HeaderCredential:
    """A header. `form` is its value, with `{secret}` in it."""

    secret: str
    header: str
    """In lower case."""
    form: str


@dataclass(frozen=True, slots=True)
class QueryCredential:
    """A parameter of the query."""

    secret: str
    parameter: str


@dataclass(frozen=True, slots=True)
class BasicCredential:
    """HTTP Basic, with the secret as the password."""

    secret: str
    user: str


@dataclass(frozen=True, slots=True)
class OAuthCredential:
    """A bearer token by OAuth 2 client credentials, with the secret as that of the client."""

    secret: str
    token_url: Url
    client_id: str
    scope: str | None
    in_body: bool
    """Whether the client's id and secret are sent in the body in place of HTTP Basic."""


Credential = HeaderCredential | QueryCredential | BasicCredential | OAuthCredential


@dataclass(frozen=True, slots=True)
class Rate:
    """How many calls an agent may make."""

    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Service:
    """One service."""

    name: str
    base_url: Url
    """Without a query; its path ends without a slash."""
    credential: Credential | None
    methods: tuple[str, ...]
    paths: PathGlobs
    agents: frozenset[str] | None
    teams: frozenset[str] | None
    """Who may use it; with both unset every agent."""
    rate: Rate | None
    private: bool
    """Whether it may be at an address that is not public, and without TLS."""
    timeout: float
    """Seconds without a byte from it."""

    @property
    def base_path(self) -> str:
        return self.base_url.target.rstrip("/")

    def admits(self, agent_id: str, team: str) -> bool:
        """Whether an agent may use it."""
        if self.agents is None and self.teams is None:
            return True
        return agent_id in (self.agents or ()) or team in (self.teams or ())


@dataclass(frozen=True, slots=True)
class ServiceCatalog:
    """All services, and where secrets come from that are not in the host's own store."""

    services: Mapping[str, Service]
    sources: Mapping[str, SecretSource]

    def find(self, name: str, agent_id: str, team: str) -> Service:
        """Return a service that the agent may use. Raises UnknownService, also for one that it may not use."""
        service = self.services.get(name)
        if service is None or not service.admits(agent_id, team):
            raise UnknownService(f"there is no service {name[:100]!r} for you; GET /services lists those there are")
        return service

    def offered(self, agent_id: str, team: str) -> list[Service]:
        """Return the services that an agent may use, by name."""
        return [one for _, one in sorted(self.services.items()) if one.admits(agent_id, team)]
