"""What the agent's tools do on the hub."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

from agent_common.hub_client import AgentClient, Session
from agent_common.protocol.hub import (
    EV_FINISH,
    EV_HANDOFF,
    EV_SESSION_CLOSED,
    EV_SESSION_EXPIRED,
    EV_TEXT,
    AuthError,
    Envelope,
    HubUnavailable,
    NetworkError,
    NotFoundError,
    RateLimited,
    render,
)

from ..errors import MeshUnavailable, ToolFailure, ToolFailureKind
from ..ports import HubCaller
from .member import HubMember
from .origins import Origins

_OPEN_SECONDS = 35.0
"""A little more than the hub gives those who are invited."""
_LINGER_SECONDS = 60.0
_ANSWERS = (EV_TEXT, EV_FINISH)
_FINAL_EVENTS = (EV_SESSION_CLOSED, EV_SESSION_EXPIRED)


class HubActions:
    """Implements ports.HubAccess."""

    def __init__(self, member: HubMember, origins: Origins) -> None:
        self._member = member
        self._origins = origins

    async def peers(self, *, capability: str | None, text: str | None, limit: int) -> list[dict[str, Any]]:
        with _refusals_as_failures():
            hub = self._member.hub
            own = self._member.client.agent_id
            found: list[dict[str, Any]] = []
            after = ""
            # A page may be short because its agents say much.
            while page := await hub.list_agents(capability=capability, text=text, after=after, limit=limit + 1):
                found += [_peer(one) for one in page if one["agent_id"] != own]
                after = page[-1]["passport"]["name"]
                if len(found) >= limit:
                    break
            return found[:limit]

    async def delegate(self, caller: HubCaller, agent: str, text: str, seconds: float) -> dict[str, Any]:
        with _refusals_as_failures():
            client = self._member.client
            session = None
            try:
                async with asyncio.timeout(seconds):
                    session = await self._open(
                        client, caller, "consulting", [agent], ttl=seconds + _LINGER_SECONDS, timeout=seconds
                    )
                    await session.send(text)
                    answer = await client.wait_for_session_event(
                        session.session_id, lambda one: one.event_type in (*_ANSWERS, *_FINAL_EVENTS), timeout=seconds
                    )
            except TimeoutError:
                await _abandon(session)
                raise ToolFailure(f"{agent} has not answered within {seconds:g} s", kind="timeout") from None
            return {"agent": agent, "answer": _answer_text(agent, answer), "session": session.session_id}

    async def say(
        self,
        caller: HubCaller,
        text: str,
        *,
        session: str | None,
        audience: Sequence[str] | None,
        hand_over_to: str | None,
    ) -> dict[str, Any]:
        with _refusals_as_failures():
            client = self._member.client
            origin = self._origins.of(caller)
            session_id = session or (origin.session_id if origin is not None else None)
            if session_id is None:
                raise ToolFailure(
                    "session: is needed, as this turn answers nobody; sessions lists yours", kind="invalid"
                )
            answers = origin is not None and origin.session_id == session_id
            data: dict[str, Any] = {"text": text, **({"target": hand_over_to} if hand_over_to else {})}
            envelope_id = await client.session(session_id).send(
                audience=audience,
                event_type=EV_HANDOFF if hand_over_to else EV_TEXT,
                event_data=data,
                causation_id=origin.envelope_id if answers and origin is not None else None,
                idempotency_key=f"say:{caller.key}",
            )
            return {"session": session_id, "envelope_id": envelope_id}

    async def list_sessions(self) -> list[dict[str, str]]:
        with _refusals_as_failures():
            found = await self._member.client.sessions()
            return [{"session": one["session_id"], "type": one["type"], "state": one["state"]} for one in found]

    async def open_session(
        self, caller: HubCaller, type: str, agents: Sequence[str], text: str | None
    ) -> dict[str, Any]:
        with _refusals_as_failures():
            session = await self._open(self._member.client, caller, type, agents, timeout=_OPEN_SECONDS)
            if text:
                await session.send(text)
            return {"session": session.session_id}

    async def read_session(self, session: str, after: int, limit: int) -> dict[str, Any]:
        with _refusals_as_failures():
            client = self._member.client
            info = await client.session_info(session)
            names = await client.session(session).names()
            page, following = await client.read_log(session, after, limit)
            texts = [
                {"number": one.sequence, "from": names.get(one.sender_id, one.sender_id), "text": render(one)}
                for one in page
                if render(one)
            ]
            found = {"type": info.type, "state": info.state, "participants": list(names.values()), "texts": texts}
            return {**found, **({"next": following} if following is not None else {})}

    async def close_session(self, session: str) -> None:
        with _refusals_as_failures():
            await self._member.client.close_session(session, "explicit_close")

    async def _open(
        self,
        client: AgentClient,
        caller: HubCaller,
        type: str,
        agents: Sequence[str],
        *,
        timeout: float,  # noqa: ASYNC109
        ttl: float | None = None,
    ) -> Session:
        origin = self._origins.of(caller)
        parent = origin.session_id if origin is not None else None
        return await client.open(type, agents, ttl=ttl, parent=parent, timeout=timeout)


def _peer(found: dict[str, Any]) -> dict[str, Any]:
    passport = found["passport"]
    resume = found["resume"]
    return {
        "name": passport["name"],
        "kind": passport["kind"],
        "connected": found["connected"],
        "summary": resume["summary"],
        "capabilities": resume["claimed_capabilities"],
    }


def _answer_text(agent: str, answer: Envelope) -> str:
    """Return what an agent has answered. Raises ToolFailure if it has not."""
    if answer.event_type == EV_TEXT:
        return answer.text
    why = str(cast("dict[str, object]", answer.event_data).get("reason") or "it says nothing")
    raise ToolFailure(f"{agent} gives no answer: {why}")


async def _abandon(session: Session | None) -> None:
    """Close a session for whose answer nobody waits. Otherwise it expires."""
    if session is not None:
        with suppress(NetworkError, TimeoutError):
            await session.close("deadline")


@contextmanager
def _refusals_as_failures() -> Generator[None]:
    """Raise what the hub refuses as an error for the model."""
    try:
        yield
    except TimeoutError:
        raise MeshUnavailable("the host's hub gave no answer; it may have been carried out: look first") from None
    except NetworkError as error:
        if isinstance(error, AuthError | HubUnavailable):
            raise MeshUnavailable(f"the host's hub is away: {error.message}") from error
        kind: ToolFailureKind = "invalid" if isinstance(error, NotFoundError) else "denied"
        if isinstance(error, RateLimited):
            kind = "unavailable"
        raise ToolFailure(f"the hub refused: {error.message}", kind=kind) from error
