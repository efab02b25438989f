"""The composition root: constructs, opens and closes all parts of the host."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from fastapi import FastAPI
from starlette.types import Scope

from agent_common.api import NO_TELEMETRY
from agent_common.clock import Clock, SystemClock
from agent_common.net import ConnectionLimit, ForwardProxyLimits, ListeningSocket, ShareCounter
from agent_common.protocol.hub import HubUnavailable

from . import (
    activity,
    budgets,
    fleet,
    health,
    hub,
    listener,
    proxy,
    results,
    services,
    token_routes,
)
from .access import OPERATOR, AccessGuard, TokenStore, token_file
from .activity import Activity
from .agents import AgentCards
from .artifacts import is_artifact_upload
from .budget import DescriptorBudget
from .database import HostDatabase, PruningLimits
from .egress import EgressServer, egress_proxy
from .errors import StartError, Unavailable
from .fleet import (
    EXTERNAL,
    Driver,
    ExternalDriver,
    Fleet,
    HostSockets,
    Restorer,
    Supervisor,
    WorkspaceChanges,
    WorkspaceDeletion,
    Workspaces,
    drivers_of,
)
from .fleet_bridge import FleetBridge
from .gateway import AgentGateway, is_agent_request
from .http import MOST_HELD, BodyLimit, problems
from .hub import Hub, HubLimits, SqlStore
from .listening_sockets import ListeningSockets
from .proxy import (
    CacheWatch,
    CircuitBreaker,
    HostCatalog,
    ModelCallLedger,
    ModelProxy,
    Providers,
    SearchProvider,
    SearchService,
    ShownCatalog,
    load_catalog,
    load_search,
)
from .retention import LedgerRetention
from .services import ServiceCatalog, is_service_request, load_services
from .settings import HostSettings
from .subscriptions import Subscriptions
from .team_services import TEAM_ROUTERS, open_budgets, open_results, open_team_services, open_web_services

_ROUTERS = (  # what agents ask most comes first, because a request is compared with each route before its own
    *TEAM_ROUTERS,
    fleet.router,
    listener.router,
    hub.router,
    activity.router,
    results.router,
    token_routes.router,
    health.router,
)
Announce = Callable[[str | None], None]
"""Called when the host is open, with the operator's token if it was just created, else None."""


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
    """Make the host's ASGI app.

    `mesh_url`: the host's address for runtimes that it starts. `egress_server`: their forward proxy, or None.
    `mediation`: the bound socket of the listener; None means the address in the settings. Raises StartError if a
    setting cannot be used.
    """
    catalog, search, offered = load_catalog(settings), load_search(settings.search), load_services(settings.services)
    ShownCatalog.of(catalog).write(settings.data_dir)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            announce(await _open_parts(app, stack, parts))
            yield

    app = _new_app("agent mesh", lifespan)
    drivers = drivers_of(
        settings,
        HostSockets(
            partial(_listening_sockets, app, "http_sockets"), partial(_listening_sockets, app, "egress_sockets")
        ),
    )
    parts = _Parts(settings, database, catalog, offered, search, drivers, mesh_url, budget, egress_server, mediation)
    for router in (proxy.router, services.router, *_ROUTERS, budgets.router):
        app.include_router(router)
    return app


def create_listen_app(
    settings: HostSettings, database: HostDatabase, announce: Announce, *, mediation: ListeningSocket | None = None
) -> FastAPI:
    """Make an app with the listener only, for agents that other programs boot: no model proxy and no runtimes."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            clock: Clock = SystemClock()
            tokens = TokenStore(database, clock)
            app.state.guard, made = await _create_guard(settings, tokens, clock)
            app.state.database = database
            workspaces = Workspaces(database, settings.data_dir / "workspaces", clock)
            drivers: dict[str, Driver] = {EXTERNAL: ExternalDriver()}
            opened = Fleet(workspaces, drivers, tokens, "")
            work = _Work(settings, database, clock, opened, workspaces, drivers, mediation)
            await _open_fleet_and_listener(app, stack, work)
            announce(made)
            yield

    app = _new_app("agent mediation", lifespan)
    for router in _ROUTERS:
        app.include_router(router)
    return app


def create_hub_app(settings: HostSettings, database: HostDatabase, announce: Announce) -> FastAPI:
    """Make an app with the hub only, beside a host on the same database, which makes the tokens and cleans up.

    Raises StartError if the database cannot be shared.
    """
    if not database.is_shared:
        raise StartError("MESH_DATABASE_URL: hubs share a PostgreSQL server; set the URL of the host's database")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        clock: Clock = SystemClock()
        given = settings.admin_token.get_secret_value() if settings.admin_token else None
        app.state.guard = AccessGuard(TokenStore(database, clock), clock, given)
        agents = app.state.hub = await _open_hub(settings, database, clock)
        announce(None)
        yield
        await agents.close()

    async def end_work() -> None:
        pass

    app = _new_app("agent hub", lifespan)
    app.state.end_work = end_work
    for router in (hub.router, health.router):
        app.include_router(router)
    return app


def _new_app(title: str, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]]) -> FastAPI:
    """Return an app without routes, with its errors and the limit of its bodies."""
    app = FastAPI(
        title=title, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, telemetry=NO_TELEMETRY
    )
    problems.install(app)
    app.state.held = ShareCounter(MOST_HELD)
    app.add_middleware(BodyLimit, held=app.state.held, is_streamed=_is_streamed)
    return app


def _is_streamed(scope: Scope) -> bool:
    """Whether a request's body is passed on, or goes to the disk, as it comes."""
    return is_agent_request(scope) or is_service_request(scope) or is_artifact_upload(scope)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts that exist before any is opened."""

    settings: HostSettings
    database: HostDatabase
    catalog: HostCatalog
    services: ServiceCatalog
    search: SearchProvider | None
    drivers: Mapping[str, Driver]
    mesh_url: str
    budget: DescriptorBudget
    egress_server: EgressServer | None
    mediation: ListeningSocket | None

    @property
    def egress_url(self) -> str | None:
        return self.egress_server.url if self.egress_server else None


@dataclass(frozen=True, slots=True)
class _Work:
    """The arguments for opening the fleet and the listener."""

    settings: HostSettings
    database: HostDatabase
    clock: Clock
    fleet: Fleet
    workspaces: Workspaces
    drivers: Mapping[str, Driver]
    mediation: ListeningSocket | None


async def _end_work(app: FastAPI) -> None:
    """Stop the runtimes, then end the answers that would go on for ever."""
    state = app.state
    try:
        await state.fleet.close()
    finally:
        state.activity.end_streams()
        state.blackboard.end_streams()
        state.topics.end_streams()
        state.agent_requests.end_waits()
        state.subscriptions.end_waits()


def _end_connections(app: FastAPI, agent_id: str) -> None:
    """Close an agent's connections to the server, which ends its calls."""
    limit: ConnectionLimit | None = getattr(app.state, "connections", None)
    if limit is not None:
        limit.disconnect(agent_id)


def _listening_sockets(app: FastAPI, name: str) -> ListeningSockets | None:
    """Return the listening sockets that a server has stored in the app's state, or None before it serves."""
    return getattr(app.state, name, None)


async def _create_guard(settings: HostSettings, tokens: TokenStore, clock: Clock) -> tuple[AccessGuard, str | None]:
    """Return the guard, and the operator's token if it was just created, else None."""
    given = settings.admin_token.get_secret_value() if settings.admin_token else None
    made = None if given else await tokens.ensure_operator_token(token_file(settings.data_dir, OPERATOR))
    return AccessGuard(tokens, clock, given), made


async def _open_fleet_and_listener(app: FastAPI, stack: AsyncExitStack, work: _Work) -> Restorer:
    """Open fleet and listener. The fleet closes first, because its runtimes sign off from the listener.

    The restorer that it returns must be started once all parts of the host are open."""
    guard: AccessGuard = app.state.guard
    bridge = FleetBridge(
        work.fleet, guard, settings=work.settings, database=work.database, clock=work.clock, bound=work.mediation
    )
    gateway = AgentGateway(guard, work.fleet)
    guard.add_revocation_callback(gateway.disconnect)
    stack.callback(gateway.close)
    happening = app.state.activity = Activity(work.fleet, gateway.connections, work.clock)
    stack.push_async_callback(happening.close)
    happening.attach(bridge.listener)
    work.workspaces.on_change = happening.workspace_changed
    external = work.drivers[EXTERNAL]
    assert isinstance(external, ExternalDriver)  # noqa: S101
    external.connect_agent = bridge.listener.connect_agent
    await open_team_services(app, stack, work.settings, work.database, work.clock, bridge.listener)
    open_results(app, stack, work.settings, work.database, work.clock, bridge.listener)
    agents = app.state.hub = await _open_hub(work.settings, work.database, work.clock)
    stack.push_async_callback(agents.close)
    await bridge.listener.open()
    stack.push_async_callback(bridge.listener.close)
    guard.add_revocation_callback(partial(_end_connections, app))
    to_restore = await work.fleet.open(restore=work.settings.restore)
    await bridge.reconcile()
    stack.push_async_callback(work.fleet.close)
    stack.push_async_callback(bridge.close)
    _open_deletion(app, stack, work, bridge)
    restorer = Restorer(work.fleet, to_restore, bridge.listener.record_event)
    stack.push_async_callback(restorer.close)
    retention = LedgerRetention(
        work.database, work.clock, PruningLimits(work.settings.retention_days, work.settings.retention_rows)
    )
    stack.push_async_callback(retention.close)
    retention.start()
    app.state.fleet, app.state.listener = work.fleet, bridge.listener
    app.state.end_work = partial(_end_work, app)
    app.router.routes.insert(0, gateway.route())
    return restorer


def _open_deletion(app: FastAPI, stack: AsyncExitStack, work: _Work, bridge: FleetBridge) -> None:
    """Open what changes and deletes workspaces, and what starts their runtimes again."""
    guard: AccessGuard = app.state.guard
    agents: Hub = app.state.hub
    app.state.changes = WorkspaceChanges(work.fleet, work.workspaces, work.drivers)
    deletion = app.state.deletion = WorkspaceDeletion(work.fleet, work.workspaces, work.drivers, guard.store)

    cards: AgentCards = app.state.agent_cards
    subscriptions: Subscriptions = app.state.subscriptions

    async def remove_channels(workspace: str) -> None:
        await bridge.remove(workspace)
        await cards.forget(workspace)
        await subscriptions.forget(workspace)
        try:
            await agents.forget(workspace)
        except HubUnavailable as error:
            raise Unavailable(error.message) from error

    deletion.remove_channel = remove_channels
    stack.push_async_callback(deletion.close)
    if work.settings.restart:
        supervisor = Supervisor(work.fleet, work.clock, lambda workspace: not bridge.is_fenced(workspace))
        stack.push_async_callback(supervisor.close)
        deletion.on_deleting = supervisor.forget
    deletion.start()


async def _open_hub(settings: HostSettings, database: HostDatabase, clock: Clock) -> Hub:
    limits = HubLimits(max_attempts=settings.hub_max_attempts)
    return await Hub.open_store(SqlStore(database), clock=clock, limits=limits)


async def _open_egress(app: FastAPI, stack: AsyncExitStack, parts: _Parts, guard: AccessGuard) -> None:
    """Open the forward proxy, if there is to be one."""
    outlet, hosts = parts.egress_server, parts.settings.egress
    if outlet is None or hosts is None:
        return
    limits = ForwardProxyLimits(connections=parts.budget.tunnels, heads=parts.budget.heads)
    forward_proxy = egress_proxy(guard, hosts, limits=limits)
    guard.add_revocation_callback(forward_proxy.disconnect)
    stack.push_async_callback(forward_proxy.close)
    egress_sockets = app.state.egress_sockets = ListeningSockets(forward_proxy)
    stack.push_async_callback(egress_sockets.close_all)
    for listening in outlet.sockets:
        await egress_sockets.add(listening)


async def _open_parts(app: FastAPI, stack: AsyncExitStack, parts: _Parts) -> str | None:
    """Open all parts; the stack closes them in reverse order. Returns the operator's token if it was just created."""
    settings, database, catalog = parts.settings, parts.database, parts.catalog
    clock: Clock = SystemClock()
    tokens = TokenStore(database, clock)
    guard, made = await _create_guard(settings, tokens, clock)
    app.state.guard = guard
    kept = await open_budgets(app, stack, database, clock)
    ledger = ModelCallLedger(database, kept)
    ledger.start()
    stack.push_async_callback(ledger.close)
    providers = Providers(catalog, settings, clock)
    stack.push_async_callback(providers.close)
    search = app.state.search = SearchService(parts.search)
    stack.callback(search.close)
    await _open_egress(app, stack, parts, guard)
    workspaces = Workspaces(database, settings.data_dir / "workspaces", clock)
    opened = Fleet(workspaces, parts.drivers, tokens, parts.mesh_url, parts.egress_url)
    work = _Work(settings, database, clock, opened, workspaces, parts.drivers, parts.mediation)
    restorer = await _open_fleet_and_listener(app, stack, work)
    happening: Activity = app.state.activity
    kept.on_crossing = happening.budget_used

    state = app.state
    state.database, state.catalog, state.ledger = database, catalog, ledger
    calls = ShareCounter(parts.budget.calls)
    breaker = state.breaker = CircuitBreaker(clock)
    watch = state.cache_watch = CacheWatch(clock)
    state.model_metrics = lambda: watch.render_metrics(breaker.resting())
    services = (guard, catalog, providers, ledger, kept, clock, calls, state.held, settings.media, breaker, watch)
    model_proxy = ModelProxy(*services)
    app.router.routes[:0] = proxy.model_routes(model_proxy)
    open_web_services(app, parts.services, settings, database, clock)
    restorer.start()
    return made
