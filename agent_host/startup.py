"""The composition root: constructs and opens all parts of the host; the stack closes them in reverse order."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from fastapi import FastAPI

from agent_common.clock import Clock, SystemClock
from agent_common.net import ConnectionLimit, ForwardProxyLimits, ListeningSocket, ShareCounter
from agent_common.protocol.hub import HubUnavailable

from . import proxy
from .access import OPERATOR, AccessGuard, Teams, TokenStore, token_file
from .activity import Activity
from .agents import AgentCards
from .database import HostDatabase, PruningLimits
from .descriptors import DescriptorShares
from .egress import EgressServer, egress_proxy
from .errors import Unavailable
from .fleet import (
    EXTERNAL,
    Driver,
    ExternalDriver,
    Fleet,
    HungRuntimes,
    Restorer,
    Supervisor,
    WorkspaceChanges,
    WorkspaceDeletion,
    Workspaces,
)
from .fleet_bridge import FleetBridge
from .gateway import AgentGateway
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
)
from .retention import LedgerRetention
from .services import ServiceCatalog
from .settings import HostSettings
from .subscriptions import Subscriptions
from .team_services import open_budgets, open_results, open_team_services, open_web_services


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that exist before any is opened."""

    settings: HostSettings
    database: HostDatabase
    catalog: HostCatalog
    services: ServiceCatalog
    search: SearchProvider | None
    drivers: Mapping[str, Driver]
    mesh_url: str
    shares: DescriptorShares
    egress_server: EgressServer | None
    mediation: ListeningSocket | None

    @property
    def egress_url(self) -> str | None:
        return self.egress_server.url if self.egress_server else None


@dataclass(frozen=True, slots=True)
class AgentParts:
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


def _end_connections(app: FastAPI, owner: str, token_id: str | None = None) -> None:
    """Close the connections of an agent, or of one token, to the server, which ends their calls."""
    limit: ConnectionLimit | None = getattr(app.state, "connections", None)
    if limit is not None:
        limit.disconnect(owner, token_id)


def listening_sockets(app: FastAPI, name: str) -> ListeningSockets | None:
    """Return the listening sockets that a server has stored in the app's state, or None before it serves."""
    return getattr(app.state, name, None)


async def create_guard(settings: HostSettings, tokens: TokenStore, clock: Clock) -> tuple[AccessGuard, str | None]:
    """Return the guard, and the operator's token if it was just created, else None.

    A token of the settings that is also in the token's file, as `agent up` gives it, counts as one that was made.
    """
    path = token_file(settings.data_dir, OPERATOR)
    given = settings.admin_token.get_secret_value() if settings.admin_token else None
    if given is None:
        return AccessGuard(tokens, clock), await tokens.ensure_operator_token(path)
    return AccessGuard(tokens, clock, None if await tokens.adopt_operator_token(given, path) else given), None


async def open_fleet_and_listener(app: FastAPI, stack: AsyncExitStack, work: AgentParts) -> Restorer:
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
    work.workspaces.on_team_change = app.state.teams.forget
    external = work.drivers[EXTERNAL]
    assert isinstance(external, ExternalDriver)  # noqa: S101
    external.connect_agent = bridge.listener.connect_agent
    await open_team_services(app, stack, work.settings, work.database, work.clock, bridge.listener)
    open_results(app, stack, work.settings, work.database, work.clock, bridge.listener)
    agents = app.state.hub = await open_hub(work.settings, work.database, work.clock)
    stack.push_async_callback(agents.close)
    await bridge.listener.open()
    stack.push_async_callback(bridge.listener.close)
    guard.add_revocation_callback(partial(_end_connections, app))
    guard.on_token_revoked = partial(_end_connections, app)
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
    app.state.fleet = work.fleet
    app.state.listener = bridge.listener
    app.state.end_work = partial(_end_work, app)
    app.state.hot_routes.append(gateway.route())
    return restorer


def _open_deletion(app: FastAPI, stack: AsyncExitStack, work: AgentParts, bridge: FleetBridge) -> None:
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
        if work.settings.hang_timeout:
            hung = HungRuntimes(
                work.fleet, work.settings.hang_timeout, bridge.is_attached, bridge.listener.record_event
            )
            stack.push_async_callback(hung.close)
            hung.start()
    deletion.start()


async def open_hub(settings: HostSettings, database: HostDatabase, clock: Clock) -> Hub:
    limits = HubLimits(max_attempts=settings.hub_max_attempts)
    return await Hub.open_store(SqlStore(database), clock=clock, limits=limits)


async def _open_egress(app: FastAPI, stack: AsyncExitStack, parts: Parts, guard: AccessGuard) -> None:
    """Open the forward proxy, if there is to be one."""
    outlet = parts.egress_server
    hosts = parts.settings.egress
    if outlet is None or hosts is None:
        return
    limits = ForwardProxyLimits(connections=parts.shares.tunnels, heads=parts.shares.heads)
    forward_proxy = egress_proxy(guard, hosts, limits=limits)
    guard.add_revocation_callback(forward_proxy.disconnect)
    stack.push_async_callback(forward_proxy.close)
    egress_sockets = app.state.egress_sockets = ListeningSockets(forward_proxy)
    stack.push_async_callback(egress_sockets.close_all)
    for listening in outlet.sockets:
        await egress_sockets.add(listening)


async def open_parts(app: FastAPI, stack: AsyncExitStack, parts: Parts) -> str | None:
    """Open all parts; the stack closes them in reverse order. Returns the operator's token if it was just created."""
    settings = parts.settings
    database = parts.database
    catalog = parts.catalog
    clock: Clock = SystemClock()
    tokens = TokenStore(database, clock)
    guard, made = await create_guard(settings, tokens, clock)
    app.state.guard = guard
    app.state.teams = Teams(database, clock)
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
    work = AgentParts(settings, database, clock, opened, workspaces, parts.drivers, parts.mediation)
    restorer = await open_fleet_and_listener(app, stack, work)
    happening: Activity = app.state.activity
    kept.on_crossing = happening.budget_used

    state = app.state
    state.database = database
    state.catalog = catalog
    state.ledger = ledger
    breaker = state.breaker = CircuitBreaker(clock)
    watch = state.cache_watch = CacheWatch(clock)
    state.model_metrics = lambda: watch.render_metrics(breaker.resting())
    model_proxy = ModelProxy(
        guard=guard,
        catalog=catalog,
        providers=providers,
        ledger=ledger,
        budgets=kept,
        clock=clock,
        calls=ShareCounter(parts.shares.calls),
        held=state.held,
        media=settings.media,
        breaker=breaker,
        cache_watch=watch,
    )
    app.state.hot_routes[:0] = proxy.model_routes(model_proxy)
    open_web_services(app, parts.services, settings, clock)
    restorer.start()
    return made
