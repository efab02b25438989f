"""The composition root: what the host consists of, made, opened and closed in one place."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI

from . import fleet, probes, problems, proxy
from .access import Guard, TokenStore
from .body import BodyLimit
from .clock import Clock, SystemClock
from .database import Database
from .fleet import Fleet, ProcessDriver, Workspaces
from .proxy import Catalog, Ledger, ModelProxy, Providers, load_catalog
from .settings import Settings

Announce = Callable[[str | None], None]
"""Told when the host is open, with the operator's token if it was just made."""


def create_app(settings: Settings, database: Database, mesh_url: str, announce: Announce) -> FastAPI:
    """The host as an ASGI app. Runtimes that it starts reach it at `mesh_url`. Raises StartError."""
    catalog = load_catalog(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            announce(await _open(app, stack, settings=settings, database=database, catalog=catalog, mesh_url=mesh_url))
            yield

    app = FastAPI(title="agent mesh", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    problems.install(app)
    app.add_middleware(BodyLimit)
    app.include_router(proxy.router)
    app.include_router(fleet.router)
    app.include_router(probes.router)
    return app


async def _open(
    app: FastAPI, stack: AsyncExitStack, *, settings: Settings, database: Database, catalog: Catalog, mesh_url: str
) -> str | None:
    """Opens all parts; the stack closes them in the opposite order. Returns a freshly made operator token."""
    clock: Clock = SystemClock()
    tokens = TokenStore(database, clock)
    given = settings.admin_token.get_secret_value() if settings.admin_token else None
    made = None if given else await tokens.first_operator_token()
    ledger = Ledger(database)
    ledger.start()
    stack.push_async_callback(ledger.close)
    providers = Providers(catalog, settings, clock)
    stack.push_async_callback(providers.close)
    drivers = {"process": ProcessDriver(settings.start_timeout, settings.stop_grace)}
    workspaces = Workspaces(database, settings.data_dir / "workspaces", clock)
    opened = Fleet(workspaces, drivers, tokens, mesh_url)
    await opened.open()
    stack.push_async_callback(opened.close)

    guard = Guard(tokens, clock, given)
    state = app.state
    state.database, state.guard, state.catalog, state.ledger, state.fleet = database, guard, catalog, ledger, opened
    app.router.routes[:0] = proxy.model_routes(ModelProxy(guard, catalog, providers, ledger, clock))
    return made
