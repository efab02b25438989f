"""Agents that say much of themselves: what they register, and what others see who look around."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from agent_client.hub import HubClient, LocalLink, Passport
from agent_common.protocol.hub import (
    MAX_FRAME,
    MAX_RESUME,
    ProtocolError,
    ResponseFrame,
    Resume,
    ResumeSkill,
    encode_frame,
)
from agent_host.hub import Hub
from agent_runtime.errors import MeshUnavailable
from agent_runtime.hub import HubActions, HubMember, Origins, hub_card

NAMES = ["anna", "boris", "clara", "dora", "emil", "fay"]


def resume(characters: int) -> Resume:
    skills = [ResumeSkill(id=f"s{n}", name=f"s{n}", description="x" * characters) for n in range(100)]
    return Resume(skills=tuple(skills))


async def test_who_looks_around_gets_pages_that_fit_a_frame(hub: Hub) -> None:
    client = HubClient(LocalLink(hub))
    for name in NAMES:
        await client.register(None, Passport(name=name), resume(1200))
    seen: list[dict[str, Any]] = []
    while page := await client.list_agents(after=seen[-1]["passport"]["name"] if seen else ""):
        assert len(encode_frame(ResponseFrame(request_id="x" * 100, result=page))) < MAX_FRAME
        seen += page
    assert [one["passport"]["name"] for one in seen] == NAMES
    member = HubMember(LocalLink(hub))  # pyright: ignore[reportArgumentType]  any link would do
    member.start(lambda: hub_card("me", "helper", "", []), _ignore)
    assert [one["name"] for one in await peers_of(member, 20)] == NAMES
    assert [one["name"] for one in await peers_of(member, 3)] == NAMES[:3]
    await member.close()
    await client.close()


async def peers_of(member: HubMember, limit: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        while True:
            with suppress(MeshUnavailable):  # it registers
                return await HubActions(member, Origins()).peers(capability=None, text=None, limit=limit)
            await asyncio.sleep(0.01)


async def _ignore(*_: object) -> None:
    return


async def test_a_resume_is_bounded(hub: Hub) -> None:
    client = HubClient(LocalLink(hub))
    with pytest.raises(ProtocolError, match=f"resume: it may have {MAX_RESUME} bytes"):
        await client.register(None, Passport(name="anna"), resume(2000))
    assert hub.agents.find("anna") is None
    anna = await client.register(None, Passport(name="anna"), resume(10))
    with pytest.raises(ProtocolError, match="resume: it may have"):
        await anna.set_resume(resume(2000))
    await client.close()


@pytest.mark.parametrize("about", ["x" * 2000, "中" * 2000, ""])
async def test_a_runtime_registers_however_many_skills_it_has(hub: Hub, about: str) -> None:
    client = HubClient(LocalLink(hub))
    passport, card = hub_card("me", "helper", "", [(f"{n}-{'名' * 190}", about) for n in range(300)])
    registered = await client.register(None, passport, card)
    assert registered.resume.skills
    await client.close()
