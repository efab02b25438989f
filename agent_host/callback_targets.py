"""Which URLs the host may call with results of tasks.

Any caller of an agent may name a URL in a task, and the host calls it from its own network. So only public https
addresses may be called, unless the operator has named the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_common.errors import ToolFailure
from agent_common.net import ANY_ADDRESS, AddressPolicy, Url, parse_url

from .errors import InvalidRequest

MAX_CHARACTERS = 2000
_PORT = re.compile(r":[0-9]+")


@dataclass(frozen=True, slots=True)
class CallbackTargets:
    """The rules. Hosts that are named may be called over http too, at any address."""

    named: frozenset[tuple[str, int | None]] = frozenset()
    """Canonical hosts with a port, or None for all ports."""
    public: AddressPolicy = field(default_factory=AddressPolicy)
    """The rules for all other hosts."""

    @classmethod
    def from_names(cls, names: Iterable[str]) -> CallbackTargets:
        """Parse `host` and `host:port`. Raises ValueError if one is malformed."""
        return cls(frozenset(_host_and_port(name) for name in names))

    def require(self, field: str, text: str) -> str:
        """Return the URL of a request's field in its canonical form. Raises InvalidRequest if it may not be called."""
        try:
            return str(self.check(text))
        except ToolFailure as error:
            raise InvalidRequest.from_faults([(field, str(error))]) from error

    def check(self, text: str) -> Url:
        """Return the URL. Raises ToolFailure if it may not be called, as far as that shows without a look-up."""
        url = parse_url(text)
        if len(str(url)) > MAX_CHARACTERS:
            raise ToolFailure(f"the URL is longer than {MAX_CHARACTERS} characters", kind="invalid")
        if self._is_named(url):
            return url
        if url.scheme != "https":
            why = "must begin with https://, unless MESH_CALLBACK_HOSTS names its host"
            raise ToolFailure(f"the URL for {url.authority} {why}", kind="denied")
        self.public.check(url.host, url.port)
        return url

    def rules_for(self, url: Url) -> AddressPolicy:
        """Return the rules for the addresses that the host of a checked URL leads to."""
        return ANY_ADDRESS if self._is_named(url) else self.public

    def _is_named(self, url: Url) -> bool:
        return not self.named.isdisjoint({(url.host, None), (url.host, url.port)})


def _host_and_port(name: str) -> tuple[str, int | None]:
    try:
        url = parse_url(f"http://{name}")
    except ToolFailure as error:
        raise ValueError(f"{name!r} is not a host; write example.org, 10.0.0.7:8080 or [::1]:8080") from error
    if url.target != "/":
        raise ValueError(f"{name!r} is more than a host and a port; write example.org or example.org:8080")
    return url.host, url.port if _PORT.search(name.rpartition("]")[2]) else None
