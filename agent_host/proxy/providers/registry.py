"""Open the providers of a catalog, each for its first call, and close them."""

from __future__ import annotations

from agent_common.clock import Clock

from ...settings import HostSettings
from ..catalog.catalog import Api, HostCatalog, ProviderSpec
from .anthropic import AnthropicProvider
from .base import Provider
from .demo import DemoProvider
from .local import LocalProvider
from .openai_compatible import OpenAICompatible
from .responses import ResponsesProvider


class Providers:
    """The open providers, by name and API."""

    def __init__(self, catalog: HostCatalog, settings: HostSettings, clock: Clock) -> None:
        self._specs = catalog.providers
        self._settings = settings
        self._clock = clock
        self._open: dict[tuple[str, Api], Provider] = {}

    def get(self, name: str, api: Api = "chat") -> Provider:
        """Return the provider of that name, which must be in the catalog, by one of its APIs."""
        if (name, api) not in self._open:
            self._open[name, api] = self._make(self._specs[name], api)
        return self._open[name, api]

    async def close(self) -> None:
        for provider in self._open.values():
            await provider.close()

    def _make(self, spec: ProviderSpec, api: Api) -> Provider:
        connect = self._settings.upstream_connect_timeout
        idle = self._settings.upstream_idle_timeout
        match spec.kind:
            case "openai" if api == "responses":
                return ResponsesProvider(spec, connect, idle)
            case "openai":
                return OpenAICompatible(spec, connect, idle)
            case "anthropic":
                return AnthropicProvider(spec, connect, idle)
            case "demo":
                return DemoProvider(self._clock)
            case "local":
                return LocalProvider(self._clock, idle)
