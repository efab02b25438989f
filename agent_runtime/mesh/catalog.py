"""The mesh's catalog of models: windows, limits and prices, cached for a minute."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from agent_common.completions import decompress
from agent_common.net import HttpPool, TransportFault
from agent_common.protocol import ModelCard, Pricing

from ..errors import InvalidRequest, MeshUnavailable
from ..ports import Clock, Fallback
from .caching import CacheWatch
from .model_list import MAX_LIST_BYTES, read_model_list

HTTP_OK = 200
REFUSED_STATUSES = (401, 403)
TOKEN_HINT = "set AGENT_MESH_TOKEN to one that `agent-host token ID` has made, or to the endpoint's own key"  # noqa: S105
FRESH_SECONDS = 60.0
RECHECK_SECONDS = 1.0
"""Maximum age of the list before a model is reported as unknown, as the operator may just have added it."""
_TIMEOUT_SECONDS = 5.0
MAX_LISTED = 20
"""Maximum models listed in an error."""


class ModelCatalog:
    """The models by name, as of the last answer."""

    def __init__(self, url: str, headers: dict[str, str], clock: Clock, *, complete: bool = False) -> None:
        """`complete`: the list has all models. The mesh's does; that of a plain endpoint may lack aliases and
        deployments."""
        self._url = url
        self._complete = complete
        self._http = HttpPool(url, headers, read_timeout=_TIMEOUT_SECONDS, connect_timeout=_TIMEOUT_SECONDS)
        self._clock = clock
        self.cache_watch = CacheWatch(clock)
        self._cards: dict[str, ModelCard] = {}
        self.cards: Mapping[str, ModelCard] = MappingProxyType(self._cards)
        """All models by name, as of the last answer. Always the same mapping, which each answer changes."""
        self._fetched: float | None = None
        self._lock = asyncio.Lock()
        self.reachable: bool | None = None
        """Whether the mesh answered the last request; None before the first one."""
        self.token_refused = False
        """Whether it refused our token in that answer."""
        self.token_doubted = asyncio.Event()
        """Set when a model call was refused, so that the token is checked again."""

    def record_status(self, status: int) -> None:
        """Evaluate the status of a model call. A refusal may concern the call alone, so the token is checked by the
        list."""
        self.reachable = True
        if status == HTTP_OK:
            self.token_refused = False
        elif status in REFUSED_STATUSES:
            self.token_doubted.set()

    def fallback_in(self, headers: Mapping[str, str]) -> Fallback | None:
        """Return which model of the list has answered in place of another, as the headers of its answer say."""
        model = headers.get("x-model")
        reason = headers.get("x-fallback-reason")
        return Fallback(model, reason) if model in self._cards and reason else None

    async def refresh(self) -> None:
        """Fetch the list now. Raises MeshUnavailable."""
        async with self._lock:
            await self._fetch()
            self._fetched = self._clock.monotonic()

    def names(self) -> list[str]:
        return list(self._cards)

    async def models(self, age: float = FRESH_SECONDS) -> Sequence[ModelCard]:
        """Return all cards, at most `age` seconds old. Raises MeshUnavailable."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._fetched is None or now - self._fetched > age:
                await self._fetch()
                self._fetched = now
        return list(self._cards.values())

    async def card(self, name: str, age: float = FRESH_SECONDS) -> ModelCard | None:
        """Return the card of one model; None if it is unknown or the mesh does not answer."""
        with contextlib.suppress(MeshUnavailable):
            await self.models(age)
        return self._cards.get(name)

    def price(self, name: str) -> Pricing | None:
        """Return the price at which this runtime counts a model's calls; None if it is unknown. The mesh's list gives
        none: its host says with each answer what that has cost, at the price of that moment."""
        card = self._cards.get(name)
        return None if card is None or self._complete else card.pricing

    async def fetch_once(self, name: str) -> None:
        """Fetch the list if it was never fetched, so that the model's provider and profile are known before its first
        call. A plain endpoint is asked until it has answered anything: it may have no list."""
        if self._fetched is None and (self._complete or self.reachable is None):
            await self.card(name)

    async def require(self, name: str) -> None:
        """Raise InvalidRequest `unknown_model`, with the known names, if the model certainly does not exist."""
        if not self._complete:
            return
        with contextlib.suppress(MeshUnavailable):
            if name in {card.id for card in await self.models()}:
                return
            if name not in {card.id for card in await self.models(RECHECK_SECONDS)}:
                text = f"there is no model {name!r}; {self.describe_names()}"
                raise InvalidRequest(text, code="unknown_model", faults=[("model", text)])

    async def explain_refusal(self, refusal: str, name: str) -> str:
        """Return an endpoint's refusal of an unknown model, with advice."""
        card = await self.card(name, RECHECK_SECONDS)
        if card is None:
            return (
                f"there is no model {name!r}; {self.describe_names()}"
                if self._complete
                else f"{refusal}; {self.describe_names()}"
            )
        if card.upstream in (None, name):
            return refusal
        return f"{refusal}; {name!r} stands for {card.upstream!r}: correct the host's OPENAI_MODEL or catalog"

    def describe_names(self) -> str:
        """Return the known names, for the text of an error."""
        names = sorted(name for name, card in self._cards.items() if card.supports_chat)
        rest = f" and {len(names) - MAX_LISTED} more (GET /capabilities lists all)" if len(names) > MAX_LISTED else ""
        return f"{self._url} lists {', '.join(names[:MAX_LISTED]) or 'none'}{rest}"

    async def close(self) -> None:
        await self._http.close()

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS), self._http.request("GET", "/models") as reply:
                status = reply.status
                coding = reply.headers.get("content-encoding", "")
                body = decompress(await reply.body(), coding, MAX_LIST_BYTES + 1)
        except (TransportFault, TimeoutError) as error:
            self.reachable = False
            start = "; start it, as by `agent-host up`" if isinstance(error.__cause__, ConnectionRefusedError) else ""
            raise MeshUnavailable(
                f"the mesh cannot be reached at {self._url}: {error or 'no answer'}{start}"
            ) from error
        self.reachable = True
        self.token_refused = status in REFUSED_STATUSES
        if self.token_refused:
            raise MeshUnavailable(f"{self._url} refuses the token ({status}): {TOKEN_HINT}")
        if status != HTTP_OK:
            raise MeshUnavailable(f"the mesh does not list its models: it answered {status}")
        try:
            cards = read_model_list(body)
        except ValueError as error:
            raise MeshUnavailable("the mesh does not list its models: its answer is malformed") from error
        self._cards.clear()
        self._cards.update((card.id, card) for card in cards)
