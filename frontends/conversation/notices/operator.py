"""Notices for the operator, by apprise: to mail, to a pager, to wherever a URL leads.

Apprise has more than a hundred services, and takes the memory of them: it runs in a process of its own, which ends with
the notice. The URLs hold secrets, so they go to its input and not to its arguments.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress

from agent_common.telemetry import logger

log = logger(__name__)
MAX_WAITING = 100
SEND_SECONDS = 60.0
TITLE = "Agents"
_COMMAND = (sys.executable, "-m", "frontends.conversation.notices.apprise_process")


class OperatorNotices:
    """Sends one notice after the other; lines that come meanwhile are one notice. Each is sent once, or is lost."""

    def __init__(self, urls: Sequence[str], command: Sequence[str] = _COMMAND) -> None:
        self._urls = urls
        self._command = command
        self._lines: list[str] = []
        self._added = asyncio.Event()

    def add(self, line: str) -> None:
        """Send this line soon."""
        if self._urls and len(self._lines) < MAX_WAITING:
            self._lines.append(line)
            self._added.set()

    async def run(self) -> None:
        """Send until it is cancelled."""
        while True:
            await self._added.wait()
            self._added.clear()
            lines = self._lines
            self._lines = []
            await self._send("\n".join(lines))

    async def _send(self, body: str) -> None:
        given = json.dumps({"urls": [*self._urls], "title": TITLE, "body": body}).encode()
        pipe = asyncio.subprocess.PIPE
        none = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=none, stderr=none)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await process.communicate(given)
        except TimeoutError:
            log.warning("a notice for the operator took too long")
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            log.warning("a notice for the operator was not sent", code=process.returncode)
