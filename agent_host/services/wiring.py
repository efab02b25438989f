"""Makes the parts of services."""

from __future__ import annotations

from pathlib import Path

from agent_common.clock import Clock
from agent_common.net import ShareCounter

from ..access import AccessGuard, Teams
from ..secrets import Secrets, SecretStore
from .caller import ServiceCaller
from .catalog import ServiceCatalog
from .connection import ServiceConnector
from .credentials import Credentials
from .endpoint import MAX_CALLS, ServiceEndpoint
from .oauth import OAuthTokens
from .rates import ServiceRates


def create_endpoint(
    catalog: ServiceCatalog, data_dir: Path, guard: AccessGuard, teams: Teams, clock: Clock
) -> ServiceEndpoint:
    """Return the app that answers calls of services. `data_dir`: the host's, with its secrets."""
    connector = ServiceConnector()
    secrets = Secrets(SecretStore(data_dir), catalog.sources, clock)
    caller = ServiceCaller(connector, Credentials(secrets, OAuthTokens(connector, clock)))
    return ServiceEndpoint(guard, catalog, caller, teams, ServiceRates(clock), clock, ShareCounter(MAX_CALLS))
