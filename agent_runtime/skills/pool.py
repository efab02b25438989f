"""The workers of one plugin: started when needed, one call at a time in each, replaced after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ToolFailure
from .process import Process, Setup, SkillError

MOST = 4
"""Workers of one plugin at the same time; further calls wait."""


class Pool:
    """Because a plugin has its processes to itself, what it breaks is its own."""

    def __init__(self, setup: Setup, plugin: Path) -> None:
        self._setup = setup
        self._plugin = plugin
        self._slots = asyncio.Semaphore(MOST)
        self._idle: list[Process] = []
        self._closed = False

    async def load(self) -> list[Mapping[str, Any]]:
        """The skills that the plugin declares; the worker that said so is kept. Raises ToolFailure."""
        process = await self._setup.start(self._plugin)
        return await self._kept(process, process.load())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """The skill's result. Raises ToolFailure."""
        async with self._slots:
            process = await self._ready()
            return await self._kept(process, process.call(name, arguments))

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            await self._idle.pop().close()

    async def _ready(self) -> Process:
        """An idle worker, or a new one. One that died in the meantime costs nobody a call."""
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
            await process.close()
        if self._closed:
            raise ToolFailure("the runtime is stopping", kind="unavailable")
        process = await self._setup.start(self._plugin)
        try:
            await process.load()
        except BaseException:
            await process.close()
            raise
        return process

    async def _kept(self, process: Process, exchange: Awaitable[Any]) -> Any:
        """The outcome of an exchange. The worker lives on when it ended as agreed, and one idle worker is enough."""
        sound = False
        try:
            result = await exchange
            sound = True
            return result
        except SkillError:
            sound = True
            raise
        finally:
            if sound and not self._closed and not self._idle:
                self._idle.append(process)
            else:
                await process.close()
