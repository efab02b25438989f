"""What the routes work with, and the few things they all do with a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from fastapi import Request
from pydantic import BaseModel
from pydantic_core import from_json

from ..errors import InvalidRequest, MeshUnavailable, NotReady
from ..loop import Answers, Chats, Counters, EventBus, Hallway, Sessions, Tasks
from ..ports import Mesh, ToolCatalog
from ..protocol import TaskAssignment
from ..settings import Settings

if TYPE_CHECKING:
    from ..mesh import Catalog

M = TypeVar("M", bound=BaseModel)
USER_HEADER = "x-agent-user"
DEFAULT_PRINCIPAL = "operator"


@dataclass(frozen=True, slots=True)
class Desk:
    """The running agent, as the routes see it."""

    settings: Settings
    hallway: Hallway
    chats: Chats
    answers: Answers
    tasks: Tasks
    sessions: Sessions
    tools: ToolCatalog
    mesh: Mesh
    models: Catalog
    counters: Counters
    events: EventBus
    confinement: str
    context_limit: Callable[[], int]


@dataclass(slots=True)
class Front:
    """What the routes can say before the agent is ready, and while it shuts down."""

    settings: Settings
    started_at: float
    events: EventBus
    desk: Desk | None = None
    draining: bool = False

    def reasons(self) -> Sequence[str]:
        """Why this server should get no work now; empty when it may."""
        if self.draining:
            return ("draining",)
        return () if self.desk is not None else ("starting",)


def front(request: Request) -> Front:
    found: Front = request.app.state.front
    return found


def desk(request: Request) -> Desk:
    """The running agent, for those who ask about work or stop it. Raises NotReady before it is there."""
    at = front(request)
    if at.desk is None:
        raise _not_ready(at)
    return at.desk


def open_desk(request: Request) -> Desk:
    """The running agent, for those who bring work. Raises NotReady before it is there and once it is on its way out."""
    at = front(request)
    if at.desk is None or at.draining:
        raise _not_ready(at)
    return at.desk


def _not_ready(at: Front) -> NotReady:
    reason = ", ".join(at.reasons())
    return NotReady(f"the server is not ready: {reason}", headers={"Retry-After": "1"})


async def body(request: Request, shape: type[M]) -> M:
    """The JSON body as a message. Raises ValidationError that names every wrong field."""
    raw = await request.body() or b"{}"
    if b"NaN" in raw or b"Infinity" in raw:
        _refuse_odd_numbers(raw)
    return shape.model_validate_json(raw)


def query(request: Request, shape: type[M]) -> M:
    """The query parameters as a message. Raises ValidationError that names every wrong one."""
    return shape.model_validate(dict(request.query_params))


def _refuse_odd_numbers(raw: bytes) -> None:
    """pydantic reads NaN and Infinity, which are not JSON and would come back from the disk as null."""
    try:
        from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidRequest(f"body: Invalid JSON: {error}", faults=[("body", f"Invalid JSON: {error}")]) from error


def principal(request: Request, named: str | None = None) -> str:
    """Whom the holder of the token speaks for."""
    user = named or request.headers.get(USER_HEADER) or DEFAULT_PRINCIPAL
    if len(user) > 200:
        raise InvalidRequest("the user is too long", faults=[("user", "at most 200 characters")])
    return user


async def check_price(at: Desk, assignment: TaskAssignment) -> None:
    """A limit on cost that cannot be watched is refused, not ignored."""
    budget = assignment.token_budget
    if budget is None or "max_cost_usd" not in budget.model_fields_set:
        return
    card = await at.models.card(at.settings.model)
    if card is None and at.models.reachable is False:
        raise MeshUnavailable("the mesh cannot be asked what the model costs")
    if card is None or card.pricing is None:
        raise InvalidRequest(
            f"model {at.settings.model} has no known price, so its cost cannot be limited",
            code="unpriced_model",
            faults=[("token_budget.max_cost_usd", "remove it or give the model a price in the mesh's catalog")],
        )
