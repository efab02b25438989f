"""What requests to all parts of a team have in common: its name, conditions of writes, events of streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from agent_common.event_ring import EVENTS_LOST

from ..errors import UnexpectedReply
from ..events import follow_events
from ..http import Call, Connection

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class TeamEvent(Generic[M]):
    """An event of the blackboard or of a topic."""

    id: str
    """Give it as `after` to go on from here, in another program too."""
    type: str
    """`put`, `delete` or `expire`; `message`; `events-lost`: events after the last one are no longer kept."""
    content: M | None
    """None with `events-lost`."""


def team_params(team: str | None) -> dict[str, str]:
    """Return the parameter that names the team; none for the caller's own."""
    return {} if team is None else {"team": team}


def conditions(if_version: int | None, if_absent: bool = False) -> dict[str, str]:
    """Return the headers of a write that is carried out only if what is there has this version, or is not there."""
    headers = {} if if_version is None else {"If-Match": f'"{if_version}"'}
    return headers | ({"If-None-Match": "*"} if if_absent else {})


async def follow_team(
    connection: Connection, shape: type[M], call: Call, after: str | None
) -> AsyncGenerator[TeamEvent[M]]:
    """Yield the events after that id, or from now on, over any number of connections."""
    async with aclosing(follow_events(connection, call, after)) as events:
        async for event in events:
            lost = event.type == EVENTS_LOST
            try:
                content = None if lost else shape.model_validate(event.data)
            except ValidationError as error:
                raise UnexpectedReply(f"{call.path}: event {event.id} is not a {shape.__name__}") from error
            yield TeamEvent(event.id, event.type, content)
