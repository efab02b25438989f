"""The apps of the host: the whole of it, the listener only, the hub only."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Scope

from agent_common.api import NO_TELEMETRY, add_routers
from agent_common.clock import Clock, SystemClock
from agent_common.net import ListeningSocket, ShareCounter

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
from .access import AccessGuard, Teams, TokenStore
from .artifacts import is_artifact_upload
from .database import HostDatabase
from .descriptors import DescriptorShares
from .egress import EgressServer
from .errors import StartError
from .fleet import (
    EXTERNAL,
    Driver,
    ExternalDriver,
    Fleet,
    HostSockets,
    Workspaces,
    drivers_of,
)
from .gateway import is_agent_request
from .http import MOST_HELD, BodyLimit, HotRoutes, problems
from .proxy import (
    ShownCatalog,
    load_catalog,
    load_search,
)
from .services import is_service_request, load_services
from .settings import HostSettings
from .startup import AgentParts, Parts, create_guard, listening_sockets, open_fleet_and_listener, open_hub, open_parts
from .team_services import TEAM_ROUTERS

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
    shares: DescriptorShares,
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
    catalog = load_catalog(settings)
    search = load_search(settings.search, settings.data_dir)
    offered = load_services(settings.services)
    ShownCatalog.of(catalog).write(settings.data_dir)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            announce(await open_parts(app, stack, parts))
            yield

    app = _new_app("agent mesh", lifespan)
    drivers = drivers_of(
        settings,
        HostSockets(partial(listening_sockets, app, "http_sockets"), partial(listening_sockets, app, "egress_sockets")),
        withheld={provider.set_by for provider in catalog.providers.values()},
    )
    parts = Parts(settings, database, catalog, offered, search, drivers, mesh_url, shares, egress_server, mediation)
    add_routers(app, *_ROUTERS, proxy.router, services.router, budgets.router)
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
            app.state.guard, made = await create_guard(settings, tokens, clock)
            app.state.database = database
            app.state.teams = Teams(database, clock)
            workspaces = Workspaces(database, settings.data_dir / "workspaces", clock)
            drivers: dict[str, Driver] = {EXTERNAL: ExternalDriver()}
            opened = Fleet(workspaces, drivers, tokens, "")
            work = AgentParts(settings, database, clock, opened, workspaces, drivers, mediation)
            await open_fleet_and_listener(app, stack, work)
            announce(made)
            yield

    app = _new_app("agent mediation", lifespan)
    add_routers(app, *_ROUTERS)
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
        app.state.teams = Teams(database, clock)
        agents = app.state.hub = await open_hub(settings, database, clock)
        announce(None)
        yield
        await agents.close()

    async def end_work() -> None:
        pass

    app = _new_app("agent hub", lifespan)
    app.state.end_work = end_work
    add_routers(app, hub.router, health.router)
    return app


def _new_app(title: str, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]]) -> FastAPI:
    """Return an app without routes, with its errors and the limit of its bodies."""
    app = FastAPI(
        title=title, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, telemetry=NO_TELEMETRY
    )
    problems.install(app)
    app.state.held = ShareCounter(MOST_HELD)
    app.state.hot_routes = list[Route]()
    app.add_middleware(HotRoutes, routes=app.state.hot_routes)
    app.add_middleware(BodyLimit, held=app.state.held, is_streamed=_is_streamed)
    return app


def _is_streamed(scope: Scope) -> bool:
    """Whether a request's body is passed on, or goes to the disk, as it comes."""
    return is_agent_request(scope) or is_service_request(scope) or is_artifact_upload(scope)
