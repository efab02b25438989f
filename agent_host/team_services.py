"""Put together what the agents of a team share: blackboard, topics and subscriptions, artifacts, web services, budgets,
what they know of each other, and the results that promote values."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from fastapi import FastAPI
from pydantic_core import to_json
from sqlalchemy import Connection

from agent_common.backoff import Backoff
from agent_common.clock import Clock
from agent_common.protocol import Cause

from . import agents, artifacts, blackboard, subscriptions, topics
from .access import AccessGuard, Teams
from .agents import AgentCards, AgentRequests
from .artifacts import open_artifacts
from .blackboard import Blackboard
from .budgets import Budgets
from .database import BatchWriter, HostDatabase
from .errors import cut
from .feeds import FeedMemory
from .listener import Listener, Promotions, RecordedResult
from .results import LAST_RETRY_SECONDS, CallbackPolicy, CallbackQueue, CallbackSender, ResultService
from .services import ServiceCatalog, create_endpoint
from .settings import HostSettings
from .subscriptions import Subscriptions
from .topics import Topics

TEAM_ROUTERS = (blackboard.router, topics.router, subscriptions.router, artifacts.router, agents.router)
"""The routes of what every host keeps for teams."""


async def open_team_services(
    app: FastAPI,
    stack: AsyncExitStack,
    settings: HostSettings,
    database: HostDatabase,
    clock: Clock,
    listener: Listener,
) -> None:
    """Open blackboard, topics, artifacts, and what agents know of each other and give each other to do."""
    teams: Teams = app.state.teams
    writer = BatchWriter(database, "shared")
    stack.push_async_callback(writer.close)
    watched = FeedMemory()
    board = app.state.blackboard = Blackboard(database, writer, clock, memory=watched)
    stack.push_async_callback(board.close)
    board.start()
    published = app.state.topics = Topics(database, writer, clock, memory=watched)
    stack.push_async_callback(published.close)
    subscribed = app.state.subscriptions = Subscriptions(database, writer, clock)
    published.on_published = subscribed.announce
    files = app.state.artifacts = await open_artifacts(settings, database, writer, clock)
    stack.push_async_callback(files.close)
    cards = app.state.agent_cards = AgentCards(database, writer, clock, listener)
    app.state.agent_requests = AgentRequests(database, writer, clock, listener, teams, cards)


async def open_budgets(app: FastAPI, stack: AsyncExitStack, database: HostDatabase, clock: Clock) -> Budgets:
    kept = app.state.budgets = Budgets(database, app.state.teams, clock)
    await kept.open()
    stack.push_async_callback(kept.close)
    return kept


def open_web_services(app: FastAPI, offered: ServiceCatalog, settings: HostSettings, clock: Clock) -> None:
    """Serve the web services that the operator has set up."""
    guard: AccessGuard = app.state.guard
    endpoint = app.state.services = create_endpoint(offered, settings.data_dir, guard, app.state.teams, clock)
    app.state.hot_routes.append(endpoint.route())


def open_results(
    app: FastAPI,
    stack: AsyncExitStack,
    settings: HostSettings,
    database: HostDatabase,
    clock: Clock,
    listener: Listener,
) -> None:
    """Open the results of tasks, before the listener can record one, and after the blackboard."""
    service = ResultService(database)
    board: Blackboard = app.state.blackboard
    pauses = Backoff(settings.callback_retry, LAST_RETRY_SECONDS, jitter=0.2)
    targets = settings.callback_targets
    policy = CallbackPolicy(targets, listener.workspaces.result_secret, partial(_record_failed_callback, listener))
    sender = CallbackSender(CallbackQueue(database), policy, clock, pauses)

    def on_recorded(recorded: RecordedResult) -> None:
        board.announce_promoted()
        service.announce(recorded.task_id)
        if recorded.has_callback:
            sender.wake()

    def promote(connection: Connection, given: Promotions) -> str:
        cause = Cause(session=given.session_id and cut(given.session_id, 200), task=given.task_id)
        found = board.promote_in(connection, given.workspace, cause, given.values, given.rule)
        return to_json(found).decode()

    listener.ledger_writer.promote = promote
    listener.task_results.on_recorded = on_recorded
    app.state.results = service
    app.state.callback_targets = targets
    stack.push_async_callback(sender.close)
    sender.start()


def _record_failed_callback(listener: Listener, workspace: str, task_id: str, why: str) -> None:
    listener.record_event(workspace, "callback_failed", why, task_id)
