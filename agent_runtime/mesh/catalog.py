"""What the mesh says about its models: windows, limits and prices. Kept for a minute, wrong never longer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import httpx
from pydantic import ValidationError

from ..errors import MeshUnavailable
from ..net import http_client
from ..ports import Clock
from ..protocol import ModelCard, ModelList

FRESH_SECONDS = 60.0
_TIMEOUT_SECONDS = 5.0


class Catalog:
    """The models by name, as of the last answer."""

    def __init__(self, url: str, headers: dict[str, str], clock: Clock) -> None:
        self._http, base = http_client(url, timeout=_TIMEOUT_SECONDS, headers=headers)
        self._url, self._clock = f"{base}/models", clock
        self._cards: dict[str, ModelCard] = {}
        self._fetched: float | None = None
        self._lock = asyncio.Lock()
        self.reachable: bool | None = None
        """Whether the mesh answered the last time it was asked; none before that."""

    def known(self, name: str) -> ModelCard | None:
        """The card as of the last answer, without asking."""
        return self._cards.get(name)

    def names(self) -> list[str]:
        return list(self._cards)

    async def models(self) -> Sequence[ModelCard]:
        """All cards, at most a minute old. Raises MeshUnavailable."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._fetched is None or now - self._fetched > FRESH_SECONDS:
                await self._fetch()
                self._fetched = now
        return list(self._cards.values())

    async def card(self, name: str) -> ModelCard | None:
        """The card of one model; none when the mesh cannot say."""
        with contextlib.suppress(MeshUnavailable):
            await self.models()
        return self.known(name)

    async def close(self) -> None:
        await self._http.aclose()

    async def _fetch(self) -> None:
        try:
            response = await self._http.get(self._url)
            response.raise_for_status()
            cards = ModelList.model_validate_json(response.content).data
        except (httpx.HTTPError, ValidationError) as error:
            self.reachable = False
            raise MeshUnavailable(f"the mesh does not list its models: {error or type(error).__name__}") from error
        self.reachable = True
        self._cards = {card.id: card for card in cards}
