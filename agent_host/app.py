"""The composition root: what the host consists of, made, opened and closed in one place."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from fastapi import FastAPI

from agent_common.clock import Clock, SystemClock
from agent_common.net import ConnectionLimit, ForwardProxyLimits, ListeningSocket, ShareCounter

from . import fleet, health, listener, proxy
from .access import AccessGuard, TokenStore
from .budget import DescriptorBudget
from .database import HostDatabase, PruningLimits
from .egress import EgressServer, egress_proxy
from .fleet import EXTERNAL, Driver, ExternalDriver, Fleet, HostSockets, Supervisor, Workspaces, drivers_of
from .fleet_bridge import FleetBridge
from .http import MOST_HELD, BodyLimit, problems
from .listening_sockets import ListeningSockets
from .proxy import (
    HostCatalog,
    ModelCallLedger,
    ModelProxy,
    Providers,
    SearchProvider,
    SearchService,
    load_catalog,
    load_search,
)
from .retention import LedgerRetention
from .settings import HostSettings

Announce = Callable[[str | None], None]
"""Told when the host is open, with the operator's token if it was just made."""


def create_app(
    settings: HostSettings,
    database: HostDatabase,
    mesh_url: str,
    budget: DescriptorBudget,
    announce: Announce,
    *,
    egress_server: EgressServer | None = None,
    mediation: ListeningSocket | None = None,
) -> FastAPI:
    """The host as an ASGI app. Runtimes that it starts reach it at `mesh_url`, and the web by the outlet; agents come
    for work to the socket `mediation`, which is bound already, or to the one of the settings.

    Raises StartError.
    """
    catalog, search = load_catalog(settings), load_search(settings.search)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            announce(await _open_parts(app, stack, parts))
            yield

    app = FastAPI(title="agent mesh", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    drivers = drivers_of(
        settings,
        HostSockets(partial(_listening_sockets, app, "doors"), partial(_listening_sockets, app, "egress_doors")),
    )
    parts = _Parts(settings, database, catalog, search, drivers, mesh_url, budget, egress_server, mediation)
    problems.install(app)
    app.state.held = ShareCounter(MOST_HELD)
    app.add_middleware(BodyLimit, held=app.state.held)
    for router in (proxy.router, fleet.router, listener.router, health.router):
        app.include_router(router)
    return app


def create_listen_app(
    settings: HostSettings, database: HostDatabase, announce: Announce, *, mediation: ListeningSocket | None = None
) -> FastAPI:
    """The listener alone, for agents that somebody else boots: no model proxy, and no runtimes of its own."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            clock: Clock = SystemClock()
            tokens = TokenStore(database, clock)
            app.state.guard, made = await _create_guard(settings, tokens, clock)
            app.state.database = database
            workspaces = Workspaces(database, settings.data_dir / "workspaces", clock)
            opened = Fleet(workspaces, {EXTERNAL: ExternalDriver()}, tokens, "")
            await _open_fleet_and_listener(app, stack, _Work(settings, database, clock, opened, mediation))
            announce(made)
            yield

    app = FastAPI(title="agent mediation", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    problems.install(app)
    app.state.held = ShareCounter(MOST_HELD)
    app.add_middleware(BodyLimit, held=app.state.held)
    for router in (fleet.router, listener.router, health.router):
        app.include_router(router)
    return app


@dataclass(frozen=True, slots=True)
class _Parts:
    """What there is before anything is opened."""

    settings: HostSettings
    database: HostDatabase
    catalog: HostCatalog
    search: SearchProvider | None
    drivers: Mapping[str, Driver]
    mesh_url: str
    budget: DescriptorBudget
    egress_server: EgressServer | None
    mediation: ListeningSocket | None


@dataclass(frozen=True, slots=True)
class _Work:
    """What the fleet and the listener are opened with."""

    settings: HostSettings
    database: HostDatabase
    clock: Clock
    fleet: Fleet
    mediation: ListeningSocket | None


def _end_connections(app: FastAPI, agent_id: str) -> None:
    """Ends an agent's connections to the server, and with them its calls."""
    limit: ConnectionLimit | None = getattr(app.state, "connections", None)
    if limit is not None:
        limit.disconnect(agent_id)


def _listening_sockets(app: FastAPI, name: str) -> ListeningSockets | None:
    """What a server has put there, once it serves."""
    return getattr(app.state, name, None)


async def _create_guard(settings: HostSettings, tokens: TokenStore, clock: Clock) -> tuple[AccessGuard, str | None]:
    """The guard, and a freshly made operator token."""
    given = settings.admin_token.get_secret_value() if settings.admin_token else None
    made = None if given else await tokens.ensure_operator_token()
    return AccessGuard(tokens, clock, given), made


async def _open_fleet_and_listener(app: FastAPI, stack: AsyncExitStack, work: _Work) -> None:
    """Fleet and listener, bound to each other. The fleet closes first: its runtimes say goodbye to the listener."""
    guard: AccessGuard = app.state.guard
    bond = FleetBridge(
        work.fleet,
        guard,
        settings=work.settings,
        database=work.database,
        clock=work.clock,
        bound=work.mediation,
    )
    await bond.listener.open()
    stack.push_async_callback(bond.listener.close)
    guard.add_revocation_callback(partial(_end_connections, app))
    await work.fleet.open()
    await bond.reconcile()
    stack.push_async_callback(work.fleet.close)
    stack.push_async_callback(bond.close)
    if work.settings.restart:
        supervisor = Supervisor(work.fleet, work.clock, lambda workspace: not bond.is_fenced(workspace))
        stack.push_async_callback(supervisor.close)
    retention = LedgerRetention(
        work.database, work.clock, PruningLimits(work.settings.retention_days, work.settings.retention_rows)
    )
    stack.push_async_callback(retention.close)
    retention.start()
    app.state.fleet, app.state.listener = work.fleet, bond.listener


async def _open_parts(app: FastAPI, stack: AsyncExitStack, parts: _Parts) -> str | None:
    """Opens all parts; the stack closes them in the opposite order. Returns a freshly made operator token."""
    settings, database, catalog, outlet = parts.settings, parts.database, parts.catalog, parts.egress_server
    clock: Clock = SystemClock()
    tokens = TokenStore(database, clock)
    guard, made = await _create_guard(settings, tokens, clock)
    app.state.guard = guard
    ledger = ModelCallLedger(database)
    ledger.start()
    stack.push_async_callback(ledger.close)
    providers = Providers(catalog, settings, clock)
    stack.push_async_callback(providers.close)
    search = app.state.search = SearchService(parts.search)
    stack.callback(search.close)
    if outlet is not None and settings.egress is not None:
        limits = ForwardProxyLimits(connections=parts.budget.tunnels, heads=parts.budget.heads)
        door = egress_proxy(guard, settings.egress, limits=limits)
        guard.add_revocation_callback(door.disconnect)
        stack.push_async_callback(door.close)
        doors = app.state.egress_doors = ListeningSockets(door)
        stack.push_async_callback(doors.close_all)
        for listening in outlet.sockets:
            await doors.add(listening)
    workspaces = Workspaces(database, settings.data_dir / "workspaces", clock)
    opened = Fleet(workspaces, parts.drivers, tokens, parts.mesh_url, outlet.url if outlet else None)
    await _open_fleet_and_listener(app, stack, _Work(settings, database, clock, opened, parts.mediation))

    state = app.state
    state.database, state.catalog, state.ledger = database, catalog, ledger
    calls = ShareCounter(parts.budget.calls)
    model_proxy = ModelProxy(guard, catalog, providers, ledger, clock, calls, state.held, settings.media)
    app.router.routes[:0] = proxy.model_routes(model_proxy)
    return made
