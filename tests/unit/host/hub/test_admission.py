"""The names of people on the hub, and whom an agent of a team finds there."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, update

from agent_common.clock import SystemClock
from agent_common.protocol.hub import HubUnavailable, NotFoundError
from agent_host.access import OPERATOR, HostCaller, Teams, TokenScope, UserSet
from agent_host.database import HostDatabase, open_database, workspaces
from agent_host.errors import Forbidden
from agent_host.hub import Hub
from agent_host.hub.http.admission import name_of, rights_of

from .raw_link import RawLink, open_session, opened

MEMBERS = {"ann": "red", "bob": "red", "eve": "blue"}


@given(st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8))
def test_each_person_has_a_name_of_its_own(one: str, other: str) -> None:
    names = name_of(one), name_of(other)
    assert all(re.fullmatch("user[.][A-Za-z0-9_-]{1,95}", name) for name in names)
    assert (names[0] == names[1]) == (one == other)


def test_a_name_that_would_be_too_long_is_refused() -> None:
    assert name_of("a" * 95) == "user." + "a" * 95
    with pytest.raises(Forbidden, match="more than 100 characters"):
        name_of("a" * 96)


async def make_workspaces(database: HostDatabase) -> None:
    more = {"driver": "external", "state": "running", "url": "", "token": "", "created_at": 1}
    rows = [{"id": name, "team": team, **more} for name, team in MEMBERS.items()]
    await database.run(lambda connection: connection.execute(insert(workspaces), rows))


async def admitted(hub: Hub, teams: Teams, caller: HostCaller, name: str) -> RawLink:
    """A link as the caller's token gives it, with an agent."""
    link = RawLink(hub)
    link.link = hub.connect(link._take, rights_of(caller, "ann", teams))  # pyright: ignore[reportPrivateUsage]
    link.agent_id = (await link.ask("register", passport={"name": name}))["agent_id"]
    return link


async def found(link: RawLink) -> list[str]:
    return [one["passport"]["name"] for one in await link.ask("list_agents")]


async def refusals(link: RawLink, *names: str) -> list[str]:
    """What is answered to who asks for agents that it must not know of."""
    errors: list[str] = []
    for name in names:
        asked: list[tuple[str, dict[str, Any]]] = [
            ("get_agent", {"name": name}),
            ("open", {"agent_id": link.agent_id, "type": "conversation", "targets": [name]}),
        ]
        for op, params in asked:
            with pytest.raises(NotFoundError) as caught:
                await link.ask(op, **params)
            errors.append(caught.value.message.replace(name, "NAME"))
    return errors


async def test_agents_find_and_invite_no_agent_of_another_team(file_url: str) -> None:
    with closing(open_database(file_url)) as database:
        await make_workspaces(database)
        teams = Teams(database, SystemClock())
        async with opened() as hub:
            ann, bob, eve = [await admitted(hub, teams, HostCaller(name), name) for name in MEMBERS]
            program = await admitted(hub, teams, HostCaller(OPERATOR), "clerk")
            scope = TokenScope(UserSet.of("ann"), frozenset({"eve"}))
            person = await admitted(hub, teams, HostCaller("ann", scope), "user.ann")
            assert await found(ann) == await found(bob) == ["ann", "bob", "clerk", "user.ann"]
            assert await found(eve) == ["clerk", "eve", "user.ann"]
            assert await found(program) == ["ann", "bob", "clerk", "eve", "user.ann"]
            assert await found(person) == ["eve", "user.ann"]
            for link, other in ((ann, eve), (eve, ann)):
                name = "eve" if other is eve else "ann"
                assert len(set(await refusals(link, name, other.agent_id, "nobody"))) == 1, "as if it were not there"
            session = await open_session(ann, "bob")
            await open_session(ann, "clerk")
            await open_session(program, "eve")
            move = update(workspaces).where(workspaces.c.id == "bob").values(team="blue")
            await database.run(lambda connection: connection.execute(move))
            assert await found(ann) == ["ann", "clerk", "user.ann"]
            assert await found(bob) == ["bob", "clerk", "eve", "user.ann"]
            await refusals(ann, "bob")
            await ann.send(session, "we go on")
            assert (await bob.get_text()).envelope.text == "we go on"
            await open_session(bob, "eve")


async def test_nobody_is_found_while_teams_cannot_be_read(file_url: str) -> None:
    with closing(open_database(file_url)) as database:
        async with opened() as hub:
            ann = await admitted(hub, Teams(database, SystemClock()), HostCaller("ann"), "ann")
            await database.run(lambda connection: connection.exec_driver_sql("ALTER TABLE workspaces RENAME TO away"))
            with pytest.raises(HubUnavailable):
                await ann.ask("list_agents")
