"""Check at start whether the mesh answers and accepts our token, so that the operator knows before a turn fails."""

from __future__ import annotations

import asyncio
import contextlib

from agent_common.telemetry import logger

from ..errors import InvalidRequest, MeshUnavailable
from .catalog import ModelCatalog

log = logger(__name__)
RETRY_SECONDS = 5.0
"""Seconds between checks while something is wrong. A successful turn ends that state as well."""


class MeshCheck:
    """Requests the mesh's models at start, and again while it is unreachable or refuses the token.

    The first answer also shows whether AGENT_MODEL exists.
    """

    def __init__(self, catalog: ModelCatalog, url: str, model: str) -> None:
        """`model`: the value of AGENT_MODEL."""
        self._catalog = catalog
        self._url = url
        self._model = model
        self._asking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._asking = asyncio.create_task(self._ask(), name="mesh health check")

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        reported: str | None = None
        while True:
            if not self._catalog.reachable or self._catalog.token_refused or self._catalog.token_doubted.is_set():
                self._catalog.token_doubted.clear()
                try:
                    await self._catalog.refresh()
                    await self._catalog.require(self._model)
                    fault = None
                except InvalidRequest as error:
                    fault = f"AGENT_MODEL: {error}"
                except MeshUnavailable as error:
                    fault = str(error)
                if fault is not None and fault != reported:
                    log.warning("the model cannot be called", url=self._url, error=fault)
                elif fault is None and reported is not None:
                    log.info("the model can be called again", url=self._url)
                reported = fault
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._catalog.token_doubted.wait()
