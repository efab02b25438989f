"""The agent's place on the hub: one registration for as long as the process lives, over links that come back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from agent_common.backoff import Backoff
from agent_common.hub_client import AgentClient, HubClient, WebSocketLink
from agent_common.protocol.hub import (
    MAX_RESUME,
    Envelope,
    NetworkError,
    Passport,
    Resume,
    ResumeSkill,
    TurnOutcome,
)
from agent_common.telemetry import logger

from ..errors import MeshUnavailable

log = logger(__name__)
Handle = Callable[[AgentClient, Envelope], Awaitable[TurnOutcome | None]]
Card = Callable[[], tuple[Passport, Resume]]
"""Makes what the agent registers with. It reads files, so it is called in a thread."""
_PAUSES = Backoff(0.2, 10.0, jitter=0.5)
_MOST_SKILLS = 200
_MOST_NAME = 200
_MOST_TEXT = 2000


def hub_card(name: str, role: str, model: str, skills: Sequence[tuple[str, str]]) -> tuple[Passport, Resume]:
    """Return who the agent is and what it can do. `skills`: names and descriptions; the latter are cut until the hub
    takes all of it."""
    listed = [(one[:_MOST_NAME], about[:_MOST_TEXT]) for one, about in skills[:_MOST_SKILLS]]
    resume = _resume(role, listed)
    while listed and len(resume.model_dump_json().encode()) > MAX_RESUME:
        if any(about for _, about in listed):
            listed = [(one, about[: len(about) // 2]) for one, about in listed]
        else:
            listed = listed[: len(listed) // 2]
        resume = _resume(role, listed)
    return Passport(name=name, model=model[:_MOST_NAME]), resume


def _resume(role: str, listed: Sequence[tuple[str, str]]) -> Resume:
    return Resume(
        summary=role,
        claimed_capabilities=tuple(one for one, _ in listed),
        skills=tuple(ResumeSkill(id=one, name=one, description=about) for one, about in listed),
    )


class HubMember:
    """Registers the agent, and again whenever the hub does not know it any more."""

    def __init__(self, link: WebSocketLink) -> None:
        self._link = link
        self._hub: HubClient | None = None
        self._client: AgentClient | None = None
        self._fault = "it has not been reached yet"
        self._task: asyncio.Task[None] | None = None

    @property
    def client(self) -> AgentClient:
        """The agent on the hub. Raises MeshUnavailable while there is no link."""
        return self._joined()[1]

    @property
    def hub(self) -> HubClient:
        """Its link to the hub. Raises MeshUnavailable while there is none."""
        return self._joined()[0]

    def _joined(self) -> tuple[HubClient, AgentClient]:
        if self._client is None or self._hub is None or not self._hub.is_connected:
            raise MeshUnavailable(f"the host's hub is away: {self._fault}; nothing was sent, try again later")
        return self._hub, self._client

    def start(self, card: Card, handle: Handle) -> None:
        """Register with that card, and have `handle` called with what comes."""
        self._task = asyncio.get_running_loop().create_task(self._run(card, handle), name="hub")

    async def close(self) -> None:
        """End the link. What comes for the agent waits at the hub."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, card: Card, handle: Handle) -> None:
        failures = 0
        while True:
            hub = self._hub = HubClient(self._link)
            try:
                self._client = await self._register(hub, card, handle)
                failures = 0
                log.info("hub joined", agent_id=self._client.agent_id)
                self._fault = "the link is broken"
                self._note((await hub.wait_ended()).message)
            except (NetworkError, TimeoutError) as error:
                self._note(str(error) or type(error).__name__)
            except Exception as error:  # such as a card that cannot be read; the next attempt may do better
                log.exception("hub not joined")
                self._fault = repr(error)
            finally:
                self._client = None
                await hub.close()
            failures += 1
            await asyncio.sleep(_PAUSES.pause(failures))

    async def _register(self, hub: HubClient, card: Card, handle: Handle) -> AgentClient:
        passport, resume = await asyncio.to_thread(card)
        client = await hub.register(None, passport, resume, attach_plugin=False)
        client.on_envelope(partial(handle, client))
        return client

    def _note(self, fault: str) -> None:
        """Keep why there is no link, and log it when it is another reason than before."""
        if fault != self._fault:
            log.warning("hub unreachable", why=fault)
        self._fault = fault
