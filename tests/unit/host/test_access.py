"""Tokens and the guard: who is let in, for how long, and what is kept of a token."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import insert, select
from starlette.types import Scope

from agent_common.net import ConnectionLimit
from agent_host.access import AccessGuard, TokenInfo, TokenStore, check_agent_id, check_scope, parse_users
from agent_host.database import HostDatabase, open_database, tokens
from agent_host.errors import InvalidRequest, TooMany, Unauthorized
from agent_host.settings import HostSettings
from agent_host.startup import create_guard
from agent_testing import ManualClock


class CountingDatabase(HostDatabase):
    """Counts how often it is asked."""

    asked = 0

    async def run(self, work):  # pyright: ignore  # type: ignore
        self.asked += 1
        return await super().run(work)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[CountingDatabase]:
    opened = open_database(f"sqlite:///{tmp_path / 'mesh.db'}")
    with closing(CountingDatabase(opened._engine)) as database:
        yield database


@pytest.fixture
def store(database: CountingDatabase, clock: ManualClock) -> TokenStore:
    return TokenStore(database, clock)


async def who(guard: AccessGuard, token: str) -> str:
    return (await guard.identify(f"Bearer {token}")).agent_id


async def test_a_token_is_its_agents_and_only_its_hash_is_kept(
    store: TokenStore, database: CountingDatabase, clock: ManualClock
) -> None:
    token = await store.mint("writer", "manual")
    caller = await AccessGuard(store, clock).identify(f"bearer  {token} ")
    assert (caller.agent_id, caller.is_operator) == ("writer", False)
    kept = str(await database.run(lambda connection: connection.execute(select(tokens)).all()))
    assert "writer" in kept
    assert token not in kept


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer  ", "Basic abc", "Bearer wrong", "Bearer \udce9"])
async def test_anything_else_is_refused(store: TokenStore, clock: ManualClock, header: str | None) -> None:
    await store.mint("writer", "manual")
    with pytest.raises(Unauthorized) as caught:
        await AccessGuard(store, clock).identify(header)
    assert caught.value.headers == {"www-authenticate": 'Bearer realm="mesh"'}


async def test_a_known_token_costs_no_query(store: TokenStore, database: CountingDatabase, clock: ManualClock) -> None:
    guard, token = AccessGuard(store, clock), await store.mint("writer", "manual")
    await who(guard, token)
    before = database.asked
    for _ in range(10):
        assert await who(guard, token) == "writer"
    assert database.asked == before


async def test_a_revoked_token_is_found_out(store: TokenStore, database: CountingDatabase, clock: ManualClock) -> None:
    guard, token = AccessGuard(store, clock), await store.mint("writer", "manual")
    await who(guard, token)
    assert await database.run(lambda connection: store.revoke_in(connection, "writer")) == 1
    assert await who(guard, token) == "writer"
    clock.advance(6)
    with pytest.raises(Unauthorized):
        await who(guard, token)


async def test_many_tokens_do_not_fill_the_memory(store: TokenStore, clock: ManualClock) -> None:
    guard = AccessGuard(store, clock, cache_size=2)
    for number in range(5):
        token = await store.mint(f"agent{number}", "manual")
        assert await who(guard, token) == f"agent{number}"
    assert len(guard._known) <= 2


async def test_a_fleet_token_replaces_the_fleets_earlier_one_and_no_other(
    store: TokenStore, clock: ManualClock
) -> None:
    manual, first = await store.mint("writer", "manual"), await store.mint("writer", "fleet")
    second = await store.mint("writer", "fleet")
    guard = AccessGuard(store, clock)
    assert await who(guard, manual) == "writer"
    assert await who(guard, second) == "writer"
    with pytest.raises(Unauthorized):
        await who(guard, first)


async def scoped(store: TokenStore, database: HostDatabase, *patterns: str) -> tuple[str, TokenInfo]:
    scope = check_scope(parse_users(patterns), ["a", "b"])
    return await database.run(lambda connection: store.mint_scoped_in(connection, scope, None))


async def test_tokens_of_several_users_are_owners_of_their_own(store: TokenStore, database: CountingDatabase) -> None:
    owners = [(await scoped(store, database, *users))[1].owner for users in (["ann"], ["ann"], ["t:*", "ann"], ["t:*"])]
    listed = await database.run(store.list_in)
    assert sorted(token.owner for token in listed) == sorted(owners)
    assert owners[:2] == ["user:ann", "user:ann"]
    assert {f"users:{token.id}" for token in listed} >= set(owners[2:])
    assert all(token.scope is not None and len(token.owner) <= 100 for token in listed)


class Connection:
    """A connection of a server that has 32, of which 28 are for callers with a token."""

    limit = ConnectionLimit(32)
    transport: asyncio.Transport


async def test_each_token_of_several_users_has_a_share_of_the_connections_and_those_of_one_user_share_one(
    store: TokenStore, database: CountingDatabase, clock: ManualClock
) -> None:
    guard = AccessGuard(store, clock)

    async def connect(token: str) -> int:
        """Return how many connections this token gets."""
        scope: Scope = {"type": "http", "headers": [(b"authorization", f"Bearer {token}".encode())]}
        for count in range(32):
            connection = Connection()
            connection.limit.add(connection)
            try:
                await guard.authenticate({**scope, "state": {"connection": connection}}, scoped=True)
            except TooMany:
                connection.limit.remove(connection)
                return count
        raise AssertionError("no limit")

    tokens_ = [(await scoped(store, database, user))[0] for user in ("t:*", "t:*", "ann", "ann")]
    assert [await connect(token) for token in tokens_] == [14, 7, 4, 0]


async def test_a_revoked_token_loses_its_connections_and_those_of_its_owner_go_on(
    store: TokenStore, database: CountingDatabase, clock: ManualClock
) -> None:
    class Transport:
        aborted = False

        def abort(self) -> None:
            self.aborted = True

    guard, limit = AccessGuard(store, clock), ConnectionLimit(32)
    guard.on_token_revoked = limit.disconnect

    async def connect(*tokens: str) -> Transport:
        """Send a request with each of these tokens over one connection."""
        connection = Connection()
        connection.limit = limit  # pyright: ignore[reportAttributeAccessIssue]
        connection.transport = transport = Transport()  # pyright: ignore[reportAttributeAccessIssue]
        limit.add(connection)
        for token in tokens:
            headers = [(b"authorization", f"Bearer {token}".encode())]
            scope: Scope = {"type": "http", "headers": headers, "state": {"connection": connection}}
            await guard.authenticate(scope, scoped=True)
        return transport

    (first, revoked), (second, _) = [await scoped(store, database, "ann") for _ in range(2)]
    connections = [await connect(*tokens) for tokens in ((first,), (second,), (first, second), (second, first))]
    await database.run(lambda connection: store.revoke_one_in(connection, revoked.id))
    guard.notify_token_revoked(revoked)
    assert [one.aborted for one in connections] == [True, False, False, True]
    with pytest.raises(Unauthorized):
        await guard.identify(f"Bearer {first}", scoped=True)
    assert (await guard.identify(f"Bearer {second}", scoped=True)).agent_id == "user:ann"


async def test_a_name_with_a_star_of_an_earlier_version_is_no_pattern(
    store: TokenStore, database: CountingDatabase
) -> None:
    old = {"digest": "d", "agent_id": "user:ann*", "purpose": "scoped", "created_at": 1}
    row = insert(tokens).values({**old, "scope": '{"user": "ann*", "workspaces": ["w"]}'})
    await database.run(lambda connection: connection.execute(row))
    [token] = await database.run(store.list_in)
    assert token.scope is not None
    assert token.scope.users.only == "ann*"
    assert "anna" not in token.scope.users


async def test_a_deleted_workspace_is_lost_to_the_token_of_several_at_once(
    store: TokenStore, database: CountingDatabase, clock: ManualClock
) -> None:
    guard = AccessGuard(store, clock)
    token, made = await scoped(store, database, "telegram:*", "ann")
    caller = await guard.identify(f"Bearer {token}", scoped=True)
    assert caller.agent_id == made.owner
    assert caller.concerns("a")
    await database.run(lambda connection: store.revoke_workspace_in(connection, "a"))
    guard.notify_revoked("a")
    caller = await guard.identify(f"Bearer {token}", scoped=True)
    assert caller.scope is not None
    assert (caller.scope.users.patterns, caller.scope.workspaces) == (["ann", "telegram:*"], {"b"})
    await database.run(lambda connection: store.revoke_workspace_in(connection, "b"))
    guard.notify_revoked("b")
    with pytest.raises(Unauthorized):
        await guard.identify(f"Bearer {token}", scoped=True)


async def test_the_operators_token_is_made_once_and_replaced_on_demand(
    store: TokenStore, clock: ManualClock, tmp_path: Path
) -> None:
    path = tmp_path / "tokens" / "operator"
    first = await store.ensure_operator_token(path)
    assert first == path.read_text().strip()
    assert (path.stat().st_mode & 0o777) == 0o600
    assert await store.ensure_operator_token(path) is None
    assert (await AccessGuard(store, clock).identify(f"Bearer {first}")).is_operator
    second = await store.mint("operator", "manual")
    assert await who(AccessGuard(store, clock), second) == "operator"
    with pytest.raises(Unauthorized):
        await who(AccessGuard(store, clock), str(first))


async def test_a_token_of_the_settings_that_the_file_keeps_can_be_had_again_and_replaced(
    store: TokenStore, database: HostDatabase, clock: ManualClock, tmp_path: Path
) -> None:
    settings = HostSettings(data_dir=tmp_path, admin_token=SecretStr("from-agent-up"))
    path = tmp_path / "tokens" / "operator"
    await store.ensure_operator_token(path)
    guard, _ = await create_guard(settings, store, clock)
    assert await who(guard, "from-agent-up") == "operator"
    path.write_text("from-agent-up\n")
    for _ in range(2):  # also after a restart
        guard, made = await create_guard(settings, store, clock)
        assert made is None
        assert await who(guard, "from-agent-up") == "operator"
        assert await database.run(lambda c: store.kept_in(c, "operator", path)) == "from-agent-up"
        assert await database.run(lambda c: store.ensure_file_in(c, "operator", path)) == path
        assert path.read_text() == "from-agent-up\n"
    second = await store.mint("operator", "manual")
    assert await who(guard, second) == "operator", "the host that runs takes one that replaces it"


async def test_a_token_from_the_settings_is_the_only_one_of_the_operator(
    store: TokenStore, clock: ManualClock, tmp_path: Path
) -> None:
    made = await store.ensure_operator_token(tmp_path / "operator")
    guard = AccessGuard(store, clock, "from-settings")
    assert await who(guard, "from-settings") == "operator"
    with pytest.raises(Unauthorized):
        await who(guard, str(made))


@pytest.mark.parametrize("agent_id", ["", "-a", ".", "a b", "a/b", "ä", "x" * 101, "operator", "a\n"])
def test_ids_that_no_agent_may_have(agent_id: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_agent_id(agent_id)
    assert caught.value.faults[0][0] == "id"


@pytest.mark.parametrize("agent_id", ["a", "Agent-1", "a.b_c", "9", "x" * 100])
def test_ids_that_an_agent_may_have(agent_id: str) -> None:
    check_agent_id(agent_id)
